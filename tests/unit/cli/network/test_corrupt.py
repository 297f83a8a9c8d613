"""What a seed damages, and how a network is watched while it heals."""

import msgspec
from tests.unit.cli.network.networks import clusters, paper_network

from stentor.cli.network.corrupt import draw_damage
from stentor.cli.network.healing import RoundCounter, bound_of, broken_ways, illegal_scopes, wrong_copies
from stentor.model.colours.legality import TreePointers, TreeView
from stentor.model.colours.memory_part import MemoryPart
from stentor.model.reports.colour_view import ColourView
from stentor.model.reports.view import NetworkView

NAMES, LINKS = clusters("", 2, 1)


def coloured(round_number: int = 5, bound: float = 10.0) -> dict[str, NetworkView]:
    """Two clusters whose trees are chains in the order of names."""
    views = paper_network(NAMES, LINKS).views()
    return {name: _coloured(view, round_number, bound) for name, view in views.items()}


def _coloured(view: NetworkView, round_number: int, bound: float) -> NetworkView:
    scopes = []
    for scope in view.scopes:
        inside = [name for name in sorted(NAMES) if not scope.scope or name.startswith(f"{scope.scope}/")]
        place = inside.index(view.node)
        pointers = TreePointers(inside[place - 1] if place else "", tuple(inside[place + 1 : place + 2]))
        role = "member" if place else "root"
        tree = TreeView(role, inside[0], round_number, place, (pointers,) * 3)
        scopes.append(
            msgspec.structs.replace(
                scope, colours=ColourView(tree=tree, brokers=len(inside), bound=bound * (1 + scope.level))
            )
        )
    return msgspec.structs.replace(view, scopes=tuple(scopes), speaks_for=(view.node,))


def test_a_seed_chooses_parts_and_brokers_and_always_the_same() -> None:
    drawn = [draw_damage(seed, None, None, NAMES) for seed in range(50)]
    assert drawn == [draw_damage(seed, None, None, NAMES[::-1]) for seed in range(50)]
    assert {part for each in drawn for part in each.parts} == set(MemoryPart)
    assert {name for each in drawn for name in each.brokers} == set(NAMES)
    assert all(each.parts and each.brokers for each in drawn)


def test_what_is_named_is_damaged_whatever_the_seed() -> None:
    for seed in range(10):
        damage = draw_damage(seed, (MemoryPart.CREDIT,), ["c0/b1", "c0/b0", "c0/b1"], NAMES)
        assert (damage.parts, damage.brokers) == ((MemoryPart.CREDIT,), ("c0/b1", "c0/b0"))


def test_nothing_is_wrong_with_a_sound_network() -> None:
    views = coloured()
    assert illegal_scopes(views) == []
    assert broken_ways(NAMES[0], views) == []


def test_the_bound_is_that_of_all_levels_together() -> None:
    assert bound_of(coloured(bound=10.0)) == 10.0 + 20.0


def test_a_scope_with_two_roots_is_told() -> None:
    views = coloured()
    outer = views["c1/b0"].scopes[1]
    assert outer.colours is not None
    tree = msgspec.structs.replace(outer.colours.tree, role="root")
    colours = msgspec.structs.replace(outer.colours, tree=tree)
    scopes = (views["c1/b0"].scopes[0], msgspec.structs.replace(outer, colours=colours))
    views["c1/b0"] = msgspec.structs.replace(views["c1/b0"], scopes=scopes)
    assert illegal_scopes(views) == ["the network: 2 roots: c0/b0, c1/b0"]


def test_a_next_hop_that_leads_nowhere_is_told() -> None:
    views = coloured()
    inner = views["c0/b0"].scopes[0]
    members = tuple(msgspec.structs.replace(each, hop="") for each in inner.members)
    scopes = (msgspec.structs.replace(inner, members=members), views["c0/b0"].scopes[1])
    views["c0/b0"] = msgspec.structs.replace(views["c0/b0"], scopes=scopes)
    assert "no way from c0/b0 to c0/b1: c0/b0 cannot reach c0/b1" in broken_ways(NAMES[0], views)


def test_a_broker_that_knows_something_else_of_a_member_than_its_speaker_is_told() -> None:
    views = coloured()
    assert wrong_copies(views) == []
    inner = views["c0/b0"].scopes[0]
    members = tuple(msgspec.structs.replace(each, wants=each.wants + 1) for each in inner.members)
    scopes = (msgspec.structs.replace(inner, members=members), views["c0/b0"].scopes[1])
    views["c0/b0"] = msgspec.structs.replace(views["c0/b0"], scopes=scopes, speaks_for=())
    assert [each.partition(" for ")[0] for each in wrong_copies(views)] == ["c0/b0 takes c0/b1"]


def test_names_that_no_broker_can_have_are_left_out() -> None:
    views = coloured()
    inner = views["c0/b0"].scopes[0]
    members = tuple(msgspec.structs.replace(each, speaker="c0") for each in inner.members)
    scopes = (msgspec.structs.replace(inner, members=members), views["c0/b0"].scopes[1])
    views["c0/b0"] = msgspec.structs.replace(views["c0/b0"], scopes=scopes)
    assert broken_ways(NAMES[0], views) == []


def test_rounds_are_counted_by_broker_where_there_are_several() -> None:
    counter = RoundCounter()
    for round_number in (5, 5, 6, 0):
        counter.look(coloured(round_number))
    assert counter.rounds == {
        **{("c0", name): 2 for name in NAMES if name.startswith("c0/")},
        **{("", name): 2 for name in NAMES},
    }
