"""Scopes of a running network are judged by what their brokers tell, at slightly different moments, and not all do."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random

import msgspec
import pytest

from stentor.admin.legality_survey import colours_of, completed
from stentor.admin.survey import Survey, concerns, lay_together, survey
from stentor.model.colours.colour import COLOURS, current_colour, new_colour
from stentor.model.colours.legality import TreePointers, TreeView, illegalities
from stentor.model.errors import Unreachable
from stentor.model.reports.colour_view import ColourView
from stentor.model.reports.view import LinkView, NetworkView, ScopeView
from stentor.protocols.colours.scope_tree import Claim, Pointers, ScopeTree

A, B, C = "u/a", "u/b", "u/c"


def trees(parents: Mapping[str, str], round_number: int = 7) -> dict[str, TreeView]:
    """The tree of a scope whose brokers have these parents in all colours; those without one are roots."""
    found = {}
    for name, parent in parents.items():
        above = [name]
        while parents[above[-1]]:
            above.append(parents[above[-1]])
        pointers = TreePointers(parent, tuple(other for other in parents if parents[other] == name))
        role = "member" if parent else "root"
        found[name] = TreeView(role, above[-1], round_number, len(above) - 1, (pointers,) * COLOURS)
    return found


def view(name: str, tree: TreeView | None, peers: Iterable[str] = (), bound: float = 20.0) -> NetworkView:
    """What a broker of the unit u tells; it dials some others."""
    links = tuple(LinkView(peer, f"{peer}:1", 0, "up", 1.0, 0.0, 0, 0, 0, 0, 0) for peer in peers)
    colours = None if tree is None else ColourView(tree=tree, brokers=1, bound=bound)
    scopes = (ScopeView("u", 0, "content", (), colours=colours), ScopeView("", 1, "content", ()))
    return NetworkView(name, f"{name}:1", 0, 0, (), scopes, links, (), 0, 0, 0, 0, 0, 0)


def seen(told: Mapping[str, TreeView], silent: Iterable[str] = ()) -> Survey:
    views = {name: view(name, tree, silent) for name, tree in told.items()}
    return lay_together(next(iter(views)), views, {f"{name}:1": "nobody there" for name in silent})


# ---- moments


def moving() -> dict[str, ScopeTree]:
    """A root with two children, of which one is to become the other's child in the next round."""
    found = {name: ScopeTree(name, 0, 8, 8) for name in (A, B, C)}
    for name in (B, C):
        found[A].adopt(name)
        found[name].place(A, Claim(0, A), 0, 1)
    new = new_colour(0)
    found[A].pointers[new] = Pointers("", (B,))
    found[B].pointers[new] = Pointers(A, (C,))
    found[C].pointers[new] = Pointers(B)
    return found


def told(brokers: Mapping[str, ScopeTree]) -> dict[str, TreeView]:
    return {name: each.view() for name, each in brokers.items()}


@pytest.mark.req("CO-11")
def test_a_scope_is_legal_while_a_wave_passes_that_changes_its_tree() -> None:
    brokers = moving()
    assert illegalities(told(brokers)) == []
    for name in (A, B, C):
        brokers[name].rotate(1)
        assert illegalities(told(brokers)) == [], f"the wave has come to {name}"
    assert brokers[C].view().at(current_colour(1)).parent == B


def test_a_root_that_was_asked_before_the_wave_does_not_fit_to_brokers_that_were_asked_after_it() -> None:
    brokers = moving()
    before = brokers[A].view()
    for each in brokers.values():
        each.rotate(1)
    assert illegalities({**told(brokers), A: before}) != []


def test_brokers_of_a_scope_that_is_not_legal_are_asked_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = moving()
    stale = brokers[A].view()
    for each in brokers.values():
        each.rotate(1)
    fresh = told(brokers)
    asked: list[str] = []

    async def visit(url: str | None, tls: str | Path | None, wait: float = 0.0) -> NetworkView:
        name = (url or "").removeprefix("stentor://").removesuffix(":1")
        asked.append(name)
        tree = stale if name == A and asked.count(A) == 1 else fresh[name]
        return view(name, tree, (B, C) if name == A else ())

    monkeypatch.setattr("stentor.admin.survey._visit", visit)
    hasty = asyncio.run(survey(f"stentor://{A}:1"))
    assert [unit.colours.is_legal for unit in hasty.units() if unit.colours is not None] == [False]
    assert sorted(asked) == [A, B, C]
    asked.clear()
    sure = asyncio.run(survey(f"stentor://{A}:1", is_judged=True))
    assert [unit.colours.is_legal for unit in sure.units() if unit.colours is not None] == [True]
    assert sorted(asked) == [A, A, B, B, C, C]


def test_a_broker_that_does_not_answer_the_second_time_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def visit(url: str | None, tls: str | Path | None, wait: float = 0.0) -> NetworkView:
        name = (url or "").removeprefix("stentor://").removesuffix(":1")
        asked.append(name)
        if asked.count(B) > 1 and name == B:
            raise Unreachable("it died")
        return view(name, trees({name: ""})[name], (B,) if name == A else ())

    monkeypatch.setattr("stentor.admin.survey._visit", visit)
    found = asyncio.run(survey(f"stentor://{A}:1", is_judged=True))
    colours = found.network.units[0].colours
    assert colours is not None
    assert (colours.root, colours.is_legal, colours.silent) == (A, True, (B,))
    assert concerns(found) == [f"{B} is suspected: it died"]


# ---- what is told


def test_a_legal_scope_has_a_root_a_round_and_a_bound() -> None:
    found = seen(trees({A: "", B: A, C: B}))
    colours = found.network.units[0].colours
    assert colours is not None
    assert (colours.root, colours.round, colours.bound) == (A, 7, 20.0)
    assert (colours.is_legal, colours.reasons, colours.orphans, colours.silent) == (True, (), (), ())
    assert not any("correct state" in concern for concern in concerns(found))


def test_a_scope_that_is_not_legal_is_a_concern_with_its_first_reasons() -> None:
    alone = {**trees({A: "", B: A, C: B}), C: TreeView("orphan", "", 7, 0, (TreePointers(),) * COLOURS)}
    found = seen(alone)
    colours = found.network.units[0].colours
    assert colours is not None
    assert (colours.is_legal, colours.orphans, colours.root) == (False, (C,), A)
    assert len(colours.reasons) == 5
    assert (
        "u is not in its correct state: u/c looks for a parent; u/b has the old child u/c, whose parent it is not; "
        "u/c has the old parent nobody, whose child it is not; 2 more (bound 20 s)"
    ) in concerns(found)


def test_a_broker_with_other_times_than_the_root_is_a_concern() -> None:
    views = {name: view(name, tree) for name, tree in trees({A: "", B: A, C: B}).items()}
    assert not any("[colours]" in concern for concern in concerns(lay_together(A, views, {})))
    views[C] = view(C, trees({A: "", B: A, C: B})[C], bound=34.0)
    found = lay_together(A, views, {})
    colours = found.network.units[0].colours
    assert colours is not None
    assert colours.unlike == (C,)
    assert any(concern.startswith("the [colours] section of u/c in u is not the root's") for concern in concerns(found))


def test_without_a_root_the_times_of_most_brokers_are_right() -> None:
    told = trees({A: "", B: "", C: B})
    views = {name: view(name, told[name], bound=bound) for name, bound in ((A, 34.0), (B, 20.0), (C, 20.0))}
    colours = lay_together(A, views, {}).network.units[0].colours
    assert colours is not None
    assert colours.unlike == (A,)


def test_two_roots_are_none() -> None:
    found = seen(trees({A: "", B: "", C: B}))
    colours = found.network.units[0].colours
    assert colours is not None
    assert (colours.root, colours.round, colours.reasons) == ("", 0, ("2 roots: u/a, u/b",))


def test_a_scope_of_which_nobody_tells_is_not_judged() -> None:
    assert colours_of("u", {A: None, B: view(B, None)}) is None


# ---- those who do not answer


def test_a_broker_that_does_not_answer_is_silent_and_not_illegal() -> None:
    whole = trees({A: "", B: A, C: B})
    for silent in whole:
        found = colours_of("u", {name: view(name, tree) if name != silent else None for name, tree in whole.items()})
        assert found is not None
        assert (found.root, found.round, found.is_legal, found.silent) == (A, 7, True, (silent,)), silent


def test_a_broker_that_tells_nothing_of_colours_is_silent() -> None:
    whole = trees({A: "", B: A})
    found = colours_of("u", {A: view(A, whole[A]), B: view(B, None)})
    assert found is not None
    assert (found.is_legal, found.silent) == (True, (B,))


def test_whoever_is_silent_and_mentioned_by_nobody_is_left_out() -> None:
    whole = trees({A: "", B: A})
    assert completed(whole, [C]) == whole


def test_a_silent_broker_with_children_of_its_own_tree_is_a_second_root() -> None:
    told = trees({A: "", B: "", C: B})
    del told[B]
    found = colours_of("u", {A: view(A, told[A]), B: None, C: view(C, told[C])})
    assert found is not None
    assert found.reasons == ("2 roots: u/a, u/b",)


def test_a_root_that_only_those_speak_of_who_are_far_from_it_may_be_gone() -> None:
    whole = trees({A: "", C: A})
    late = msgspec.structs.replace(whole[C], root=B)
    found = colours_of("u", {A: view(A, whole[A]), B: None, C: view(C, late)})
    assert found is not None
    assert (found.root, found.is_legal) == (A, True)


@pytest.mark.parametrize("seed", range(50))
def test_of_a_legal_tree_any_brokers_may_be_silent(seed: int) -> None:
    random = Random(seed)
    names = [f"u/b{number:02}" for number in range(random.randint(1, 30))]
    whole = trees({name: random.choice(names[:place]) if place else "" for place, name in enumerate(names)})
    silent = random.sample(names, random.randrange(len(names)))
    assert illegalities(completed({name: whole[name] for name in names if name not in silent}, silent)) == []


@pytest.mark.parametrize("seed", range(50))
def test_of_a_tree_with_an_orphan_that_answers_no_silence_makes_it_legal(seed: int) -> None:
    random = Random(seed)
    names = [f"u/b{number:02}" for number in range(random.randint(2, 30))]
    whole = trees({name: random.choice(names[:place]) if place else "" for place, name in enumerate(names)})
    orphan = random.choice(names[1:])
    whole[orphan] = TreeView(
        "orphan", "", 7, 0, tuple(TreePointers("", each.children) for each in whole[orphan].pointers)
    )
    silent = [name for name in random.sample(names, random.randrange(len(names))) if name != orphan]
    told = {name: whole[name] for name in names if name not in silent}
    assert illegalities(completed(told, silent)) != []
