"""The graph becomes a routing state for each scope, and the relay goes by it."""

import pytest
from tests.unit.nodes.network.desk import HALL, ME, Desk

LIBRARY = "north/library"


@pytest.mark.req("GE-09")
def test_members_have_bits_costs_and_next_hops_level_by_level() -> None:
    desk = Desk()
    desk.link("north/library/b2", 1000)
    desk.link(HALL, 2000)
    desk.hear("north/library/b2", "north/library/b2", 1, ME)
    desk.hear(HALL, "north/hall", 1, "north/library", "south")
    desk.hear(HALL, "south", 2, "north")
    brokers, clusters, outermost = desk.states()
    assert (brokers.scope, brokers.own, brokers.members) == (LIBRARY, 1 << 5, 1 << 1)
    assert brokers.numbers == {ME: 5, "north/library/b2": 1}
    assert brokers.next_hops == {"north/library/b2": 1 << 1}
    assert brokers.costs == {"north/library/b2": (0, 0, 1000)}
    assert (clusters.own, clusters.next_hops) == (1 << 4, {HALL: 1 << 1})
    assert clusters.costs == {"north/hall": (0, 2000, 0)}
    assert (outermost.scope, outermost.own, outermost.next_hops) == ("", 1 << 3, {HALL: 1 << 2})
    assert outermost.costs["south"][0] > 0


def test_of_two_neighbours_in_one_unit_the_cheaper_one_is_next_and_the_other_when_that_is_suspected() -> None:
    desk = Desk()
    desk.link("north/hall/b1", 2000)
    desk.link("north/hall/b2", 1000)
    desk.hear("north/hall/b1", "north/hall", 1, "north/library")
    assert desk.states()[1].next_hops == {"north/hall/b2": 1 << 1}
    assert desk.network.routes.neighbour_towards("north/hall") == "north/hall/b2"
    desk.network.gateways.suspect("north/hall/b2", suspected=True)
    assert desk.states()[1].next_hops == {"north/hall/b1": 1 << 1}


def test_of_two_members_with_one_number_the_first_by_name_has_it_and_people_are_told_once() -> None:
    desk = Desk()
    desk.link("north/library/b2", 1000)
    desk.link("north/library/b3", 1000)
    for name in ("north/library/b2", "north/library/b3"):
        desk.hear(name, name, 1, ME)
    brokers = desk.states()[0]
    assert brokers.numbers == {ME: 5, "north/library/b2": 1}
    assert brokers.members == 1 << 1
    desk.hear("north/library/b3", "north/library/b3", 1, ME, version=2)
    desk.states()
    assert [report.details["unit"] for report in desk.reports("member number taken")] == ["north/library/b3"]


def test_a_broker_whose_number_another_has_enters_nothing() -> None:
    desk = Desk()
    desk.link("north/library/a", 1000)
    desk.hear("north/library/a", "north/library/a", 5, ME)
    assert desk.states()[0].own == 0


def test_a_state_is_another_value_when_the_graph_changed_and_the_same_one_when_it_did_not() -> None:
    desk = Desk()
    desk.link("north/library/b2", 1000)
    desk.hear("north/library/b2", "north/library/b2", 1, ME)
    before = desk.states()
    assert all(one is other for one, other in zip(before, desk.states(), strict=True))
    desk.hear("north/library/b2", "north/library/b2", 1, ME, version=2)  # newer, and says the same
    assert all(one is other for one, other in zip(before, desk.states(), strict=True))
    desk.network.gateways.suspect("north/library/b2", suspected=True)
    after = desk.states()
    assert (before[0].members, after[0].members) == (1 << 1, 0)


def test_units_behind_masks_are_named_by_level() -> None:
    desk = Desk()
    desk.link("north/library/b2", 1000)
    desk.link(HALL, 2000)
    desk.hear("north/library/b2", "north/library/b2", 1, ME)
    desk.hear(HALL, "north/hall", 1, "north/library")
    desk.states()
    assert desk.network.routes.units_behind({1: 1 << 1, 0: 1 << 1 | 1 << 9}) == ["north/library/b2", "north/hall"]
