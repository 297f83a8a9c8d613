"""Exits that cost the same outside a unit: which are open, which is chosen, and that a choice stays."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stentor.model.context import Context
from stentor.model.messages import Gateway, Presence
from stentor.model.scope import ScopePath
from stentor.protocols.overlay.connectivity_graph import ConnectivityGraph
from stentor.protocols.overlay.exits import ExitChoices, ExitTable, Way

Links = dict[tuple[str, str], int]  # from a broker to another one, and what it costs both ways

# The cluster x/u is the row a - b - c - d; a and d have a link each to the cluster x/v, which costs the same.
ROW: Links = {("x/u/a", "x/u/b"): 1, ("x/u/b", "x/u/c"): 1, ("x/u/c", "x/u/d"): 1}
TWO_EXITS: Links = {**ROW, ("x/u/a", "x/v/a"): 5, ("x/u/d", "x/v/d"): 5, ("x/v/a", "x/v/d"): 1}
# … and x/v and x/w have a link each to the unit y.
TWO_LEVELS: Links = {
    **TWO_EXITS,
    ("x/u/a", "x/w/a"): 5,
    ("x/v/a", "y/v/a"): 3,
    ("x/w/a", "y/v/a"): 3,
    ("x/u/b", "x/w/a"): 5,
}


def graph_of(name: str, links: Links) -> ConnectivityGraph:
    """Return what a broker knows of a network with these links, each of which costs the same both ways."""
    context = Context(ScopePath.parse(name))
    graph = ConnectivityGraph(context)
    said: dict[str, dict[str, int]] = {}
    for pair, cost in links.items():
        for near, far in (pair, pair[::-1]):
            here, there = near.split("/"), far.split("/")
            common = next(place for place, (one, other) in enumerate(zip(here, there, strict=True)) if one != other)
            seen = "/".join(there[: common + 1])
            for length in range(common + 1, len(here) + 1):
                unit = "/".join(here[:length])
                if context.level(unit) is not None:
                    known = said.setdefault(unit, {})
                    known[seen] = min(cost, known.get(seen, cost))
    for unit, spoken in said.items():
        gateways = tuple(Gateway(far, 1, cost) for far, cost in sorted(spoken.items()))
        graph.take(Presence(unit=unit, version=1, speaker=unit, number=0, gateways=gateways))
    return graph


def way(graph: ConnectivityGraph, unit: str, choices: ExitChoices, told: dict[int, str] | None = None) -> Way:
    return graph.exits.resolve(unit, told or {}, choices)


@pytest.mark.req("CO-16")
def test_exits_that_cost_the_same_outside_are_all_open_whatever_they_cost_inside() -> None:
    for name in "abcd":
        graph = graph_of(f"x/u/{name}", TWO_EXITS)
        assert graph.exits.open_to(0, "x/v") == {"x/u/a", "x/u/d"}


@pytest.mark.req("CO-16")
def test_a_dearer_exit_is_not_open() -> None:
    graph = graph_of("x/u/b", {**TWO_EXITS, ("x/u/d", "x/v/d"): 6})
    assert graph.exits.open_to(0, "x/v") == {"x/u/a"}
    assert way(graph, "x/v", ExitChoices()) == Way("x/u/a", {})


@pytest.mark.req("CO-16")
def test_an_exit_that_cannot_be_reached_is_not_open() -> None:
    links = {pair: cost for pair, cost in TWO_EXITS.items() if pair != ("x/u/c", "x/u/d")}
    assert graph_of("x/u/b", links).exits.open_to(0, "x/v") == {"x/u/a"}


@pytest.mark.req("CO-16")
def test_the_nearest_exit_is_chosen_and_stays_when_another_one_gets_nearer() -> None:
    choices = ExitChoices()
    assert way(graph_of("x/u/b", TWO_EXITS), "x/v", choices) == Way("x/u/a", {0: "x/u/a"})
    rebuilt = graph_of("x/u/b", {**TWO_EXITS, ("x/u/a", "x/u/b"): 9})
    assert rebuilt.cache.path("x/v") == ["x/u/c", "x/u/d", "x/v"]
    assert way(rebuilt, "x/v", choices) == Way("x/u/a", {0: "x/u/a"})
    assert way(rebuilt, "x/v", ExitChoices()) == Way("x/u/d", {0: "x/u/d"})


@pytest.mark.req("CO-16")
def test_whoever_only_looks_chooses_nothing() -> None:
    choices = ExitChoices()
    graph_of("x/u/b", TWO_EXITS).exits.resolve("x/v", {}, choices, keep=False)
    rebuilt = graph_of("x/u/b", {**TWO_EXITS, ("x/u/a", "x/u/b"): 9})
    assert way(rebuilt, "x/v", choices).target == "x/u/d"


@pytest.mark.req("CO-16")
def test_a_choice_is_forgotten_when_other_exits_are_open() -> None:
    choices = ExitChoices()
    before = graph_of("x/u/b", TWO_EXITS)
    way(before, "x/v", choices)
    choices.forget_all_but(before.exits)
    assert len(choices._kept) == 1
    choices.forget_all_but(graph_of("x/u/b", {**TWO_EXITS, ("x/u/c", "x/v/c"): 5}).exits)
    assert not choices._kept


@pytest.mark.req("CO-16")
def test_a_damaged_choice_is_used_only_if_it_is_open() -> None:
    choices, graph = ExitChoices(), graph_of("x/u/b", TWO_EXITS)
    way(graph, "x/v", choices)
    (key,) = choices._kept
    choices._kept[key] = "x/u/c"
    assert way(graph, "x/v", choices).target == "x/u/a"
    choices._kept[key] = "x/u/d"
    assert way(graph, "x/v", choices).target == "x/u/d"


@pytest.mark.req("CO-16")
def test_who_is_an_exit_leaves_there_unless_the_parcel_names_another_one() -> None:
    graph = graph_of("x/u/a", TWO_EXITS)
    assert way(graph, "x/v", ExitChoices()) == Way("x/v", {0: "x/u/a"})
    assert way(graph, "x/v", ExitChoices(), {0: "x/u/d"}) == Way("x/u/d", {0: "x/u/d"})
    assert way(graph, "x/v", ExitChoices(), {0: "x/u/c"}) == Way("x/v", {0: "x/u/a"})  # not open


@pytest.mark.req("CO-16")
def test_ties_in_two_levels_are_resolved_from_outside_inwards() -> None:
    graph = graph_of("x/u/c", TWO_LEVELS)
    assert graph.exits.open_to(1, "y") == {"x/v", "x/w"}
    assert graph.exits.open_to(0, "x/w") == {"x/u/a", "x/u/b"}
    told = way(graph, "y", ExitChoices(), {1: "x/w"})
    assert told == Way("x/u/b", {1: "x/w", 0: "x/u/b"})
    assert way(graph, "y", ExitChoices(), {1: "x/v", 0: "x/u/a"}) == Way("x/u/a", {1: "x/v", 0: "x/u/a"})
    assert way(graph, "y", ExitChoices(), {1: "x/v", 0: "x/u/b"}).target == "x/u/d"  # b is no exit to x/v


@pytest.mark.req("CO-16")
def test_a_unit_that_is_an_exit_itself_is_left_from_any_of_its_brokers_that_has_the_link() -> None:
    graph = graph_of("x/v/d", TWO_LEVELS)
    assert graph.exits.open_to(1, "y") == {"x/v", "x/w"}
    assert way(graph, "y", ExitChoices()) == Way("x/v/a", {1: "x/v"})


@pytest.mark.req("CO-16")
def test_a_plan_inside_moves_those_who_may_leave_by_an_exit_whose_path_changes() -> None:
    exits = graph_of("x/u/b", TWO_LEVELS).exits
    assert exits.targets("x/v", 0) == {"x/u/a", "x/u/d"}
    assert exits.targets("y", 1) == {"x/v", "x/w"}
    assert exits.targets("y", 0) == {"x/u/a", "x/u/d", "x/w"}  # b has a link of its own to x/w
    assert exits.targets("x/u/d", 0) == {"x/u/d"}


@pytest.mark.req("CO-16")
def test_outer_paths_are_all_that_cost_the_same_outside() -> None:
    graph = graph_of("x/u/b", TWO_EXITS)
    assert graph.cache.units_over([("x/u/d", "x/v")]) == set()
    assert graph.exits.outer_paths(1).units_over([("x/u/d", "x/v")]) == {"x/v"}


# ---- random networks

BROKERS = [f"{top}/{cluster}/{name}" for top in "xy" for cluster in "uvw" for name in "abc"]


def random_links(seed: int) -> Links:
    """Return links by which every unit is whole, and some more, of few different costs: so there are many ties."""
    random = Random(seed)
    pairs = [each for unit in ("x", "y") for cluster in "uvw" for each in pairwise(_inside(f"{unit}/{cluster}"))]
    for unit in ("x", "y"):
        for one, other in pairwise("uvw"):
            pairs.append((random.choice(_inside(f"{unit}/{one}")), random.choice(_inside(f"{unit}/{other}"))))
    pairs.append((random.choice(_inside("x")), random.choice(_inside("y"))))
    for _ in range(random.randrange(20)):
        one, other = random.sample(BROKERS, 2)
        pairs.append((one, other))
    return {(min(pair), max(pair)): random.randint(1, 2) for pair in pairs}


def _inside(unit: str) -> list[str]:
    return [name for name in BROKERS if name.startswith(unit + "/")]


@pytest.mark.req("CO-16")
@given(st.integers(0, 10_000), st.sampled_from(BROKERS))
def test_those_exits_are_open_from_which_the_rest_of_the_way_costs_least_at_higher_levels(seed: int, name: str) -> None:
    graph = graph_of(name, random_links(seed))
    context, edges = graph.context, list(graph.cache.edges())
    for level in range(context.depth - 1):
        rest: dict[str, dict[str, tuple[int, ...]]] = {}  # by exit, what each unit beyond costs from there
        for near, *_ in edges:
            place = context.level(near)
            if place is not None and place <= level:
                leaving = near if place == level else context.units[level]
                for far, cost in _costs_from(near, edges, level, context.depth).items():
                    known = rest.setdefault(leaving, {})
                    known[far] = min(cost, known.get(far, cost))
        for unit in {far for _, far, place, _ in edges if place > level}:
            least = min(costs[unit] for costs in rest.values() if unit in costs)
            assert graph.exits.open_to(level, unit) == {
                each for each, costs in rest.items() if costs.get(unit) == least
            }


def _costs_from(
    start: str, edges: list[tuple[str, str, int, int]], level: int, depth: int
) -> dict[str, tuple[int, ...]]:
    """Bellman and Ford's way, by edges of higher levels only."""
    costs = {start: (0,) * depth}
    for _ in edges:
        for near, far, place, cost in edges:
            if near in costs and place > level:
                step = [0] * depth
                step[depth - 1 - place] = cost
                offer = tuple(map(sum, zip(costs[near], step, strict=True)))
                costs[far] = min(offer, costs.get(far, offer))
    return {unit: cost for unit, cost in costs.items() if unit != start}


class Whims(ExitChoices):
    """Chooses any exit that is open, and keeps to it."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random

    def choose(self, table: ExitTable, key: tuple[int, str, frozenset[str]], **_options: bool) -> str:  # noqa: ARG002
        return self._kept.setdefault(key, self._random.choice(sorted(key[2])))


def walk(links: Links, choices: dict[str, Whims], start: str, goal: str) -> list[str]:
    """Return the brokers by which an event goes whose parcel names exits."""
    passed, told = [start], dict[int, str]()
    while passed[-1] != goal:
        graph = graph_of(passed[-1], links)
        target, named = graph.exits.resolve(_sees(graph, goal), told, choices[passed[-1]])
        hop = graph.cache.hop(target)
        ends = [(cost, pair) for pair, cost in links.items() if passed[-1] in pair]
        _, broker = min(
            (cost, far) for cost, pair in ends for far in pair if far != passed[-1] and _sees(graph, far) == hop
        )
        level = graph.context.view(ScopePath.parse(broker))[0]
        told = {each: leaving for each, leaving in named.items() if each >= level}
        assert broker not in passed, f"in a circle: {passed}"
        passed.append(broker)
    return passed


def _sees(graph: ConnectivityGraph, name: str) -> str:
    return graph.context.view(ScopePath.parse(name))[1]


def whims(seed: int) -> dict[str, Whims]:
    random = Random(seed)
    return {name: Whims(random) for name in BROKERS}


@pytest.mark.req("CO-16")
@given(st.integers(0, 10_000), st.sampled_from(BROKERS), st.sampled_from(BROKERS))
def test_whatever_brokers_have_chosen_a_parcel_that_names_exits_arrives(seed: int, start: str, goal: str) -> None:
    assert walk(random_links(seed), whims(seed), start, goal)[-1] == goal


@pytest.mark.req("CO-16", "CO-12")
@given(st.integers(0, 10_000), st.sampled_from(BROKERS), st.sampled_from(BROKERS), st.data())
def test_who_need_not_wait_during_a_plan_goes_the_same_way_through_its_scope(
    seed: int, start: str, goal: str, data: st.DataObject
) -> None:
    before, chosen = random_links(seed), whims(seed)
    near, far = data.draw(st.sampled_from(sorted(before)))
    after = {**before, (near, far): 3 - before[near, far]}
    level = ScopePath.parse(near).level_of_difference(ScopePath.parse(far))
    context = Context(ScopePath.parse(start))
    scope = context.scopes[level]
    if start == goal or (scope and not near.startswith(scope + "/")):
        return
    if not is_moved(start, goal, near, far, [before, after]):
        inside = [
            [name for name in walk(links, chosen, start, goal) if not scope or name.startswith(scope + "/")]
            for links in (before, after)
        ]
        assert inside[0] == inside[1]


def is_moved(start: str, goal: str, near: str, far: str, sides: list[Links]) -> bool:
    """Return whether a broker lets events for a goal wait while a plan changes a link, as route computation has it."""
    level = ScopePath.parse(near).level_of_difference(ScopePath.parse(far))
    pairs = []
    for one, other in ((near, far), (far, near)):
        parts = one.split("/")
        seen = "/".join(other.split("/")[: len(parts) - level])
        pairs += [("/".join(parts[: len(parts) - each]), seen) for each in range(level + 1)]
    for links in sides:
        graph = graph_of(start, links)
        place, unit = graph.context.view(ScopePath.parse(goal))
        targets = graph.exits.targets(unit, level) if place >= level else set()
        if graph.exits.outer_paths(level).units_over(pairs) & targets:
            return True
    return False
