"""The graph becomes a routing state for each scope, and the relay goes by it."""

import pytest
from tests.unit.nodes.network.desk import HALL, ME, Desk

from stentor.machine import SECOND
from stentor.model.colours.plan import Side, TopologyChange, TopologyPlan
from stentor.model.messages import NEVER, Presence, ProfileChange

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
    assert desk.network.routes.way_towards("north/hall")[0] == "north/hall/b2"
    desk.network.gateways.suspect("north/hall/b2", suspected=True)
    assert desk.states()[1].next_hops == {"north/hall/b1": 1 << 1}


@pytest.mark.req("CO-05", "CO-13")
def test_of_two_links_that_cost_the_same_after_a_plan_the_same_one_is_used_when_it_has_ended() -> None:
    desk = Desk()
    desk.link("north/hall/b1", 6000)
    desk.link("north/hall/b2", 5000)
    desk.hear("north/hall/b1", "north/hall", 1, "north/library")
    work = desk.network.colouring._work[1]
    measured = TopologyChange(near=ME, far="north/hall/b1", before=6000, after=5000, is_measured=True)
    work.announce(TopologyPlan(8, (measured,)))
    after = (None, Side.AFTER, None)
    during = [each.name for each in desk.network.routes._neighbours_on(after)]
    work.finish()
    assert during == [each.name for each in desk.network.routes._neighbours_on((None, None, None))]


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


@pytest.mark.req("GE-08", "CO-10")
def test_a_unit_goes_on_wanting_what_a_member_wants_that_its_speaker_cannot_reach_for_a_moment() -> None:
    desk, now = Desk(), 10 * SECOND
    network, unit, member = desk.network, "north/library", "north/library/b2"
    desk.step.now = now
    desk.link(member, 1000)
    desk.link(HALL, 2000)
    desk.hear(member, member, 1, ME)
    want = ("flights", "")
    change = ProfileChange(unit=member, before=NEVER, stamp=(1, member), added=(want,), removed=(), predicates=1)
    network.hear(network.peers[member].session, change)
    desk.states()
    assert want in network.profiles.members[1][unit].wants
    network.gateways.suspect(member, suspected=True)
    desk.states()
    assert want in network.profiles.members[1][unit].wants, "others may reach it"
    desk.step.now = now + network.gateways.patience
    network.routes.drop_lost()
    desk.states()
    assert want not in network.profiles.members[1][unit].wants, "it is away for too long"


def test_a_unit_wants_nothing_of_a_member_that_has_left() -> None:
    desk = Desk()
    network, unit, member = desk.network, "north/library", "north/library/b2"
    desk.link(member, 1000)
    desk.hear(member, member, 1, ME)
    want = ("flights", "")
    change = ProfileChange(unit=member, before=NEVER, stamp=(1, member), added=(want,), removed=(), predicates=1)
    network.hear(network.peers[member].session, change)
    desk.states()
    assert want in network.profiles.members[1][unit].wants
    left = Presence(unit=member, version=2 << 20, speaker=member, number=1, gateways=(), left=True)
    network.hear(network.peers[member].session, left)
    desk.states()
    assert want not in network.profiles.members[1][unit].wants
