"""Members behind one neighbour that are left for by different exits: in how many parcels they get an event."""

import numpy as np
import pytest
from tests.unit.protocols.dissemination.test_relay import B2, HALL, SOUTH, Desk, events

from stentor.model.routing_state import MOST_WAYS, ExitNumbers, RoutingState, RoutingTables, Sides
from stentor.protocols.dissemination.mask_plans import MaskPlans, NextHop
from stentor.protocols.dissemination.member_interests import InterestIndex
from stentor.wire.parcel import Masks, Stamp, head, label, parse, read_ways, ways_of, wrap

LAB, MILL, WEST = 2, 3, 2  # numbers of further members: clusters, and an outermost unit
Named = dict[int, dict[ExitNumbers, int]]  # by level


class ExitDesk(Desk):
    """All other units are reached by b2, which is next on the way to several exits; parcels name these exits, or to
    clusters those that they named as they came.
    """

    def __init__(self, named: Named) -> None:
        super().__init__()
        self.asked: list[ExitNumbers] = []
        clusters, tops = 1 << HALL | 1 << LAB | 1 << MILL, 1 << SOUTH | 1 << WEST
        masks = {0: 1 << B2, 1: clusters, 2: tops}
        interests = self.forwarder.table.interests

        def compute(_: Sides, told: ExitNumbers) -> tuple[RoutingState[InterestIndex], ...]:
            self.asked.append(told)
            return tuple(
                RoutingState(
                    scope=scope,
                    interests=interests,
                    own=1,
                    next_hops={self.hops["b2"].name: masks[level]},
                    members=masks[level],
                    named={told: masks[1]} if told and level == 1 else named.get(level, {}),
                )
                for level, scope in enumerate(self.context.scopes)
            )

        tables = RoutingTables((1, 2, 0), ((None,) * 3,) * 3, compute, ({},) * 4)
        self.relay.adopt(tables, {hop.name: hop for hop in self.hops.values()})

    def parcels(self, masks: Masks) -> list[tuple[ExitNumbers, Masks]]:
        """Return the exits and the members of each parcel that b2 gets."""
        return [(read_ways(share.stamp.ways).exits[:3], share.masks) for share in self.relay.split_by_hop(masks).hops]


@pytest.mark.req("CO-16")
def test_members_that_are_left_for_by_two_exits_need_two_parcels() -> None:
    desk = ExitDesk({1: {(3, 0, 0): 1 << HALL, (4, 0, 0): 1 << LAB}})
    assert desk.parcels({1: 1 << HALL | 1 << LAB}) == [((3, 0, 0), {1: 1 << HALL}), ((4, 0, 0), {1: 1 << LAB})]
    assert desk.parcels({1: 1 << LAB}) == [((4, 0, 0), {1: 1 << LAB})]


@pytest.mark.req("CO-16")
def test_members_that_leave_no_choice_ride_in_whatever_parcel_there_is() -> None:
    desk = ExitDesk({1: {(3, 0, 0): 1 << HALL, (4, 0, 0): 1 << LAB}})
    for leaving, member in ((3, HALL), (4, LAB)):
        masks = {0: 1 << B2, 1: 1 << member | 1 << MILL, 2: 1 << SOUTH}
        assert desk.parcels(masks) == [((leaving, 0, 0), masks)]
    assert desk.parcels({0: 1 << B2, 1: 1 << MILL}) == [((0, 0, 0), {0: 1 << B2, 1: 1 << MILL})]
    assert desk.parcels({}) == []


@pytest.mark.req("CO-16")
def test_exits_that_agree_are_named_by_one_parcel() -> None:
    desk = ExitDesk({1: {(3, 0, 0): 1 << HALL}, 2: {(0, 2, 0): 1 << SOUTH, (3, 5, 0): 1 << WEST}})
    every = {1: 1 << HALL, 2: 1 << SOUTH | 1 << WEST}
    assert desk.parcels({1: 1 << HALL, 2: 1 << SOUTH}) == [((3, 2, 0), {1: 1 << HALL, 2: 1 << SOUTH})]
    assert desk.parcels(every) == [((3, 5, 0), {1: 1 << HALL, 2: 1 << WEST}), ((0, 2, 0), {2: 1 << SOUTH})]


@pytest.mark.req("CO-16")
def test_exits_below_the_level_of_a_link_are_passed_with_it() -> None:
    states = [RoutingState(scope=scope, interests=InterestIndex()) for scope in ("x/y", "x", "")]
    far = RoutingState(
        scope="", interests=InterestIndex(), next_hops={"x/z/a": 6}, members=6, named={(3, 4, 0): 2, (5, 0, 0): 4}
    )
    hop = NextHop("x/z/a", 1, Desk().boxes["b2"], None)
    plans = MaskPlans([*states[:2], far], {hop.name: hop}, (2, 1, 2))
    (share,) = plans.split_by_hop({2: 6}).hops
    assert read_ways(share.stamp.ways)[:2] == ((0, 1, 2, 0, 0, 0, 0, 0), (0, 4, 0, 0, 0, 0, 0, 0))


@pytest.mark.req("CO-16")
def test_events_with_masks_of_their_own_are_divided_by_exits_in_order() -> None:
    desk = ExitDesk({1: {(3, 0, 0): 1 << HALL, (4, 0, 0): 1 << LAB}})
    masks = {1: np.array([1 << HALL, 1 << LAB | 1 << MILL, 1 << MILL, 1 << HALL | 1 << LAB], np.uint64)}
    stamp = Stamp(ways_of((1, 2, 0)))
    desk.receive("b3", wrap(masks, [events(1, 2, 3, 4)], 4, 0, 1, bytes(8), stamp))
    found = [parse(bytes(cargo[0]), 0) for cargo in desk.boxes["b2"].fresh]
    assert [read_ways(each.ways).exits[0] for each in found] == [3, 4]
    by_hall, by_lab = desk.sent("b2")
    assert by_hall[1] == [b"1", b"2", b"3", b"4"]  # MILL rides here all the time, so that no event overtakes another
    assert by_lab[1] == [b"2", b"4"]


@pytest.mark.req("CO-16", "CO-06")
def test_parcels_are_counted_by_colours_whatever_exits_they_name() -> None:
    desk = ExitDesk({1: {(3, 0, 0): 1 << HALL, (4, 0, 0): 1 << LAB}})
    for leaving in range(65):
        stamp = Stamp(ways_of((2, 2, 0), 0, (leaving, 0, 0)))
        inner = events(1)
        address = label({1: 1 << HALL | 1 << LAB}, stamp)
        desk.receive("b3", head(address, len(inner), 1, 0, 1, bytes(8)) + inner)
    came, gone = desk.hops["b3"], desk.hops["b2"]
    assert (len(came.arrived), len(gone._sent)) == (1, 1)
    assert (came.under_way(0, 2), gone.under_way(0, 2)) == ((0, 65), (66, 0))
    gone.take_back(bytes(desk.boxes["b2"].fresh[0][0]))
    assert gone.under_way(0, 2) == (65, 0)


@pytest.mark.req("CO-16")
def test_states_are_asked_for_by_the_exits_that_a_parcel_names_and_few_are_kept() -> None:
    desk = ExitDesk({})
    inner, masks = events(1), {1: 1 << HALL}
    for leaving in range(1, 65):
        for further in range(1, 9):
            stamp = Stamp(ways_of((1, 2, 0), 0, (leaving, further, 0)))
            desk.receive("b3", head(label(masks, stamp), len(inner), 1, 0, 1, bytes(8)) + inner)
    assert desk.asked == [(), *((leaving, further, 0) for leaving in range(1, 65) for further in range(1, 9))]
    assert len(desk.relay._by_ways) <= MOST_WAYS
    assert len(desk.relay._tables._states) <= MOST_WAYS


@pytest.mark.req("CO-16")
def test_held_events_keep_the_exits_that_were_named_when_they_came() -> None:
    desk = ExitDesk({})
    desk.hold({1: 1 << HALL})
    inner, stamp = events(1), Stamp(ways_of((1, 2, 0), 0, (3, 4, 0)))
    desk.receive("b3", head(label({1: 1 << HALL}, stamp), len(inner), 1, 0, 1, bytes(8)) + inner)
    assert not desk.boxes["b2"].fresh
    desk.hold({})
    (cargo,) = desk.boxes["b2"].fresh
    assert read_ways(parse(bytes(cargo[0]), 0).ways).exits[:3] == (3, 4, 0)
