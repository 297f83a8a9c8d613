"""The graph of a broker on both sides of a plan, whatever members say of their links meanwhile."""

import msgspec
import pytest

from stentor.model.colours.plan import Side, TopologyChange, TopologyPlan
from stentor.model.context import Context
from stentor.model.ids import link_number
from stentor.model.messages import Gateway, Presence
from stentor.model.scope import ScopePath
from stentor.protocols.overlay.connectivity_graph import ConnectivityGraph
from stentor.protocols.overlay.planned_topology import PlannedTopology

Link = tuple[str, str, int]  # two brokers, and what the link between them costs
BEFORE, AFTER = Side.BEFORE, Side.AFTER


def spoken(near: str, far: str, cost: int) -> dict[str, Gateway]:
    """What the units that hold one end of a link say of it."""
    here, there = ScopePath.parse(near), ScopePath.parse(far)
    level = here.level_of_difference(there)
    gateway = Gateway("/".join(there.parts[: len(there.parts) - level]), link_number(near, far), cost)
    return {"/".join(here.parts[: len(here.parts) - each]): gateway for each in range(level + 1)}


def link_up(graph: ConnectivityGraph, one: str, other: str, cost: int = 1000) -> None:
    """Both ends speak of a link, and the units around them."""
    for near, far in ((one, other), (other, one)):
        for unit, gateway in spoken(near, far, cost).items():
            tell(graph, unit, gateway)


def tell(graph: ConnectivityGraph, unit: str, gateway: Gateway) -> None:
    """A unit speaks of a link, if we see it."""
    if graph.context.level(unit) is None:
        return
    known = graph.find(unit) or Presence(unit=unit, version=1, speaker=unit, number=0)
    others = tuple(each for each in known.gateways if each.link != gateway.link)
    graph.take(msgspec.structs.replace(known, gateways=(*others, gateway)))


def link_down(graph: ConnectivityGraph, one: str, other: str) -> None:
    """Nobody speaks of a link any more."""
    number = link_number(one, other)
    for members in graph.members:
        for known in list(members.values()):
            left = tuple(each for each in known.gateways if each.link != number)
            graph.take(msgspec.structs.replace(known, gateways=left))


def graph_of(name: str, *links: Link) -> ConnectivityGraph:
    graph = ConnectivityGraph(Context(ScopePath.parse(name)))
    for link in links:
        link_up(graph, *link)
    return graph


def row(*costs: int) -> ConnectivityGraph:
    """What b1 knows of b1, b2, … in a row, with what the links between them cost."""
    return graph_of("b1", *((f"b{number}", f"b{number + 1}", cost) for number, cost in enumerate(costs, 1)))


def campus() -> ConnectivityGraph:
    """What x/a knows: x/b beside it has the link of x to the unit y, and y has two to z."""
    return graph_of("x/a", ("x/a", "x/b", 100), ("x/b", "y/c", 500), ("y/a", "z/a", 500), ("y/b", "z/b", 700))


def comes(near: str, far: str, cost: int = 1000) -> TopologyChange:
    return TopologyChange(near=near, far=far, before=0, after=cost, address="there")


def goes(near: str, far: str, cost: int = 1000) -> TopologyChange:
    return TopologyChange(near=near, far=far, before=cost, after=0)


def costs(near: str, far: str, before: int, after: int, *, is_measured: bool = False) -> TopologyChange:
    return TopologyChange(near=near, far=far, before=before, after=after, is_measured=is_measured)


def planned(graph: ConnectivityGraph, *changes: TopologyChange) -> PlannedTopology:
    return PlannedTopology(graph, TopologyPlan(7, changes))


def on(graph: ConnectivityGraph, topology: PlannedTopology, side: Side) -> ConnectivityGraph:
    return graph.edited(lambda each: topology.edit(each, side))


# ---- one scope


@pytest.mark.req("CO-05")
def test_a_link_that_comes_is_used_after_the_plan_alone() -> None:
    graph = row(1000, 1000)
    topology = planned(graph, comes("b1", "b3", 500))
    link_up(graph, "b1", "b3", 500)
    assert on(graph, topology, BEFORE).cache.path("b3") == ["b2", "b3"]
    assert on(graph, topology, AFTER).cache.path("b3") == ["b3"]
    assert (topology.hides("b3", BEFORE), topology.hides("b3", AFTER)) == (True, False)
    assert (topology.hides("b2", BEFORE), topology.hides("b2", AFTER)) == (False, False)


@pytest.mark.req("CO-05")
def test_a_link_that_goes_is_used_before_the_plan_alone() -> None:
    graph = row(1000, 1000)
    link_up(graph, "b1", "b3", 500)
    topology = planned(graph, goes("b3", "b1", 500))
    assert on(graph, topology, BEFORE).cache.path("b3") == ["b3"]
    assert on(graph, topology, AFTER).cache.path("b3") == ["b2", "b3"]
    assert (topology.hides("b3", BEFORE), topology.hides("b3", AFTER)) == (False, True)


@pytest.mark.req("CO-05")
def test_a_link_costs_before_and_after_the_plan_what_the_plan_says_whatever_members_say_meanwhile() -> None:
    graph = row(1000, 1000)
    topology = planned(graph, costs("b1", "b2", 1000, 300))
    tell(graph, "b1", Gateway("b2", link_number("b1", "b2"), 300))  # one end is quicker to say so
    assert on(graph, topology, BEFORE).distance("b3") == (2000,)
    assert on(graph, topology, AFTER).distance("b3") == (1300,)


@pytest.mark.req("CO-05")
def test_a_measured_cost_is_that_of_one_direction() -> None:
    graph = row(1000)
    topology = planned(graph, costs("b2", "b1", 1000, 300, is_measured=True))
    assert on(graph, topology, AFTER).distance("b2") == (1000,)
    other = graph_of("b2", ("b1", "b2", 1000))
    assert on(other, planned(other, *topology.plan.changes), AFTER).distance("b1") == (300,)


@pytest.mark.req("CO-13")
def test_a_link_that_fails_is_missing_from_both_sides_at_once() -> None:
    graph = row(1000, 1000)
    topology = planned(graph, costs("b1", "b2", 1000, 300), comes("b1", "b3"))
    link_down(graph, "b1", "b2")
    for side in (BEFORE, AFTER):
        assert on(graph, topology, side).distance("b2") is None
    link_up(graph, "b1", "b3")
    assert on(graph, topology, BEFORE).distance("b3") is None
    assert on(graph, topology, AFTER).cache.path("b2") == ["b3", "b2"]


@pytest.mark.req("CO-13")
def test_a_link_that_is_away_when_the_plan_is_heard_of_and_comes_back_is_used_if_the_plan_is_about_its_cost() -> None:
    graph = row(1000, 1000)
    link_down(graph, "b1", "b2")
    topology = planned(graph, costs("b1", "b2", 1000, 300))
    link_up(graph, "b1", "b2", 1000)
    assert on(graph, topology, BEFORE).distance("b2") == (1000,)
    assert on(graph, topology, AFTER).distance("b2") == (300,)


@pytest.mark.req("CO-13")
def test_links_that_no_plan_speaks_of_change_on_both_sides() -> None:
    graph = row(1000, 1000)
    topology = planned(graph, costs("b1", "b2", 1000, 300))
    link_up(graph, "b1", "b3", 100)
    assert {on(graph, topology, side).distance("b3") for side in (BEFORE, AFTER)} == {(100,)}


# ---- complaints


@pytest.mark.req("CO-05")
def test_a_broker_is_prepared_when_both_ends_have_spoken_of_a_link_that_comes() -> None:
    graph = row(1000, 1000, 1000)
    topology = planned(graph, comes("b2", "b4"))
    assert topology.complaint() == "knows of no new link from b2 to b4 yet"
    tell(graph, "b2", Gateway("b4", link_number("b2", "b4"), 1000))
    assert topology.complaint() == "knows of no new link from b4 to b2 yet"
    tell(graph, "b4", Gateway("b2", link_number("b2", "b4"), 1000))
    assert topology.complaint() == ""


@pytest.mark.req("CO-05")
def test_nobody_waits_for_links_that_go_or_cost_something_else() -> None:
    assert planned(row(1000, 1000), goes("b1", "b2"), costs("b2", "b3", 1000, 10)).complaint() == ""


@pytest.mark.req("CO-05")
def test_a_second_link_between_two_units_is_waited_for_although_there_is_one() -> None:
    graph = campus()
    topology = planned(graph, comes("x/a", "y/b"))
    assert topology.complaint() == "knows of no new link from x to y yet"
    for unit in ("x/a", "x"):
        tell(graph, unit, Gateway("y", link_number("x/a", "y/b"), 1000))
    assert topology.complaint() == "knows of no new link from y to x yet"
    tell(graph, "y", Gateway("x", link_number("x/a", "y/b"), 1000))
    assert topology.complaint() == ""


# ---- several links between two units


@pytest.mark.req("CO-05")
def test_a_unit_keeps_its_other_links_to_a_unit_if_one_goes() -> None:
    graph = campus()
    topology = planned(graph, goes("y/a", "z/a", 500))
    known = graph.find("y")
    assert known is not None
    to_x, _, dearer = known.gateways
    assert topology.edit(known, BEFORE).gateways == known.gateways
    assert topology.edit(known, AFTER).gateways == (to_x, dearer)
    both = planned(graph, goes("y/a", "z/a", 500), goes("z/b", "y/b", 700))
    assert both.edit(known, AFTER).gateways == (to_x,)
    assert on(graph, both, AFTER).distance("z") is None


@pytest.mark.req("CO-13")
def test_if_the_cheapest_of_several_links_goes_the_way_costs_what_the_others_do_from_the_switch_on() -> None:
    graph = campus()
    topology = planned(graph, goes("y/a", "z/a", 500))
    assert on(graph, topology, BEFORE).distance("z") == (1000, 100)
    assert on(graph, topology, AFTER).distance("z") == (1200, 100)
    link_down(graph, "y/a", "z/a")
    assert on(graph, topology, AFTER).distance("z") == (1200, 100), "nothing is new when it is closed"


@pytest.mark.req("CO-13")
def test_a_link_of_which_one_end_speaks_does_not_count_although_there_is_another() -> None:
    graph = campus()
    cheap = Gateway("z", link_number("y/c", "z/c"), 1)
    tell(graph, "y", cheap)
    assert graph.distance("z") == (1000, 100)
    tell(graph, "z", msgspec.structs.replace(cheap, unit="y"))
    assert graph.distance("z") == (501, 100)


@pytest.mark.req("CO-05")
def test_of_several_links_between_units_one_that_gets_cheaper_is_the_cheapest_after_the_plan() -> None:
    graph = campus()
    for after, expected in ((1, 1), (600, 500), (9000, 500)):
        topology = planned(graph, costs("y/b", "z/b", 700, after))
        assert on(graph, topology, AFTER).distance("z") == (500 + expected, 100)
        assert on(graph, topology, BEFORE).distance("z") == (1000, 100)


@pytest.mark.req("CO-05")
def test_of_a_link_between_other_units_only_what_is_seen_of_its_ends_changes() -> None:
    graph = campus()
    topology = planned(graph, comes("y/c", "z/c"))
    assert not topology.hides("x/b", BEFORE)
    link_up(graph, "y/c", "z/c")
    known = graph.find("y")
    assert known is not None
    assert [len(topology.edit(known, side).gateways) for side in (BEFORE, AFTER)] == [3, 4]


@pytest.mark.req("CO-05")
def test_a_link_inside_another_unit_is_none_of_our_business() -> None:
    graph = campus()
    topology = planned(graph, comes("y/a", "y/b"))
    assert topology.complaint() == ""
    assert topology.moved(graph.cache) == set()


@pytest.mark.req("CO-05")
def test_a_member_that_has_left_has_no_links_to_begin_with() -> None:
    graph = row(1000, 1000)
    link_up(graph, "b1", "b3")
    known = graph.find("b3")
    assert known is not None
    graph.take(msgspec.structs.replace(known, left=True))
    topology = planned(graph, comes("b1", "b3"))
    assert topology.complaint() == "knows of no new link from b3 to b1 yet"
    graph.take(known)
    assert topology.complaint() == ""
    assert on(graph, topology, BEFORE).cache.path("b3") == ["b2", "b3"]


# ---- whose way changes


@pytest.mark.req("CO-12")
def test_those_are_moved_whose_best_path_leads_over_a_changed_link_on_either_side() -> None:
    graph = row(1000, 1000, 1000)
    topology = planned(graph, comes("b1", "b3", 500))
    link_up(graph, "b1", "b3", 500)
    assert topology.moved(on(graph, topology, BEFORE).cache) == set()
    assert topology.moved(on(graph, topology, AFTER).cache) == {"b3", "b4"}


@pytest.mark.req("CO-12")
def test_of_two_best_paths_that_cost_the_same_both_count() -> None:
    graph = row(1000, 1000)
    topology = planned(graph, comes("b1", "b3", 2000))
    link_up(graph, "b1", "b3", 2000)
    after = on(graph, topology, AFTER).cache
    assert topology.moved(after) == {"b3"}
    assert planned(graph, costs("b2", "b3", 1000, 900)).moved(after) == {"b3"}


# ---- plans that are finished


@pytest.mark.req("CO-05")
def test_what_a_finished_plan_has_closed_is_not_counted_as_there_before_the_next() -> None:
    graph = row(1000, 1000)
    link_up(graph, "b1", "b3", 500)
    first = planned(graph, goes("b1", "b3", 500))
    again = PlannedTopology(
        graph, TopologyPlan(8, (comes("b1", "b3", 500),)), [first]
    )  # b1 and b3 still speak of the link
    assert on(graph, again, BEFORE).cache.path("b3") == ["b2", "b3"]
    assert on(graph, again, AFTER).cache.path("b3") == ["b3"]


@pytest.mark.req("CO-05")
def test_a_finished_plan_says_nothing_more_of_links_that_another_plan_changes() -> None:
    graph = row(1000, 1000)
    link_up(graph, "b1", "b3", 500)
    first = planned(graph, goes("b1", "b3", 500), costs("b2", "b3", 1000, 10))
    assert first.hides("b3", AFTER)
    PlannedTopology(graph, TopologyPlan(8, (comes("b1", "b3", 500),)), [first])
    assert not first.hides("b3", AFTER)
    edited = on(graph, first, AFTER)
    assert edited.cache.path("b3") == ["b3"]
    assert edited.cache.distance("b2") == (510,)


@pytest.mark.req("CO-05")
def test_a_finished_plan_is_kept_until_everybody_knows_what_has_become_of_its_links() -> None:
    topology = planned(row(1000), costs("b1", "b2", 1000, 10))
    assert [topology.grow_old() for _ in range(3)] == [True, True, False]


@pytest.mark.req("CO-06")
def test_a_link_that_is_up_when_the_plan_is_heard_of_is_new_nevertheless() -> None:
    graph = row(1000, 1000)
    link_up(graph, "b1", "b3", 500)
    topology = planned(graph, comes("b1", "b3", 500))
    assert topology.complaint() == ""
    assert on(graph, topology, BEFORE).cache.path("b3") == ["b2", "b3"]
    assert on(graph, topology, AFTER).cache.path("b3") == ["b3"]
