"""A broker in a cluster with two exits that cost the same: whom it sends events to, and which exits it names."""

import msgspec
import pytest
from tests.unit.nodes.network.desk import ME, Desk
from tests.unit.protocols.message_ports import KeepingPort

from stentor.model.colours.colour import old_colour
from stentor.model.colours.plan import PlanStage, TopologyPlan
from stentor.model.messages import MARKS, ExplanationRequest, MarkReceipt, Message
from stentor.model.reports.view import Explanation
from stentor.nodes.broker.introspection import explain, view_of

B2, B3, HALL = "north/library/b2", "north/library/b3", "north/hall"
NUMBERS = {B2: 1, B3: 2}


def cluster() -> Desk:
    """b1 is between b2 and b3, both of which have a link to the hall; behind the hall is the south."""
    desk = Desk()
    for name in (B2, B3):
        desk.link(name, 1000)
        desk.hear(name, name, NUMBERS[name], ME, HALL)
    desk.hear(B2, HALL, 7, "north/library", "south")
    desk.hear(B2, "south", 8, "north")
    return desk


@pytest.mark.req("CO-16")
def test_the_exit_is_named_for_all_members_beyond_it() -> None:
    desk = cluster()
    brokers, clusters, outermost = desk.states()
    assert brokers.named == {}
    assert clusters.exits == {HALL: (frozenset((B2, B3)),)}
    assert (clusters.next_hops, clusters.named) == ({B2: 1 << 7}, {(NUMBERS[B2] + 1, 0, 0): 1 << 7})
    assert outermost.exits["south"] == (frozenset((B2, B3)), frozenset((HALL,)))
    assert (outermost.next_hops, outermost.named) == ({B2: 1 << 8}, {(NUMBERS[B2] + 1, 0, 0): 1 << 8})


@pytest.mark.req("CO-16")
def test_a_parcel_goes_to_the_exit_that_it_names_and_by_our_own_choice_if_it_names_none_that_is_open() -> None:
    desk = cluster()
    desk.states()
    current = desk.network.relay._tables.current
    for leaving, neighbour in ((NUMBERS[B3] + 1, B3), (NUMBERS[B2] + 1, B2), (5 + 1, B2), (64, B2)):
        told = (leaving, 0, 0)
        _, clusters, outermost = desk.network.relay._tables.states(current, told)
        assert (clusters.next_hops, outermost.next_hops) == ({neighbour: 1 << 7}, {neighbour: 1 << 8})
        assert desk.network.routes.way_towards("south/lab", told) == ("", ())
        assert desk.network.routes.way_towards(HALL, told) == (neighbour, (NUMBERS[neighbour] + 1, 0, 0))


@pytest.mark.req("CO-16")
def test_an_exit_stays_when_another_one_is_nearer_inside_and_goes_when_it_is_not_as_good_outside() -> None:
    desk = cluster()
    desk.states()
    desk.network.gateways.reprice(B2, 3000)
    assert desk.network.gateways.graph.cache.hop(HALL) == B3
    assert desk.states()[1].next_hops == {B2: 1 << 7}
    assert desk.network.routes.way_towards(HALL)[0] == B2
    desk.hear(B2, B2, NUMBERS[B2], ME, version=2)
    assert desk.states()[1].next_hops == {B3: 1 << 7}
    assert desk.states()[1].named == {}
    assert not desk.network.routes._choices._kept


@pytest.mark.req("CO-16")
def test_an_exit_without_a_number_is_not_named() -> None:
    desk = cluster()
    desk.hear(B2, B2, 5, ME, HALL, version=2)  # the number of b1, which keeps it
    assert desk.states()[1].named == {}
    desk.hear(B2, B2, 1, ME, HALL, version=3)
    assert desk.states()[1].named == {(2, 0, 0): 1 << 7}


@pytest.mark.req("CO-16")
def test_what_is_told_of_an_event_goes_by_the_exits_that_its_parcel_names() -> None:
    desk = cluster()
    desk.states()
    found = {member.unit: member for scope in view_of(desk.network, 0, 0).scopes for member in scope.members}
    assert (found[HALL].hop, found[HALL].exits) == (B2, (B2,))
    assert (found[B3].hop, found[B3].exits) == (B3, ())
    for leaving, neighbour in (((), B2), ((NUMBERS[B3] + 1,), B3)):
        asked = ExplanationRequest(token=1, topic="t", masks={1: 1 << 7}, exits=leaving)
        answer = explain(desk.network, desk.network.relay._forwarder, asked, str)
        (hop,) = msgspec.msgpack.decode(answer.explanation, type=Explanation).hops
        assert (hop.peer, hop.exits) == (neighbour, (NUMBERS[neighbour] + 1, 0, 0))


@pytest.mark.req("CO-15", "CO-16")
def test_the_receipt_for_a_client_that_leaves_goes_by_the_exits_that_events_go_by() -> None:
    desk = cluster()
    desk.states()
    desk.network.gateways.reprice(B2, 3000)
    desk.states()
    passed: list[tuple[str, Message]] = []
    for name in (B2, B3):
        desk.network.gateways.neighbours[name].port = KeepingPort(name, lambda to, said: passed.append((to, said)))
    receipt = MarkReceipt(mark=f"{MARKS}1/d2/{HALL}/b4", broker=B3, neighbours=())
    for named, neighbour in (((), B2), ((NUMBERS[B3] + 1, 0, 0), B3), ((NUMBERS[B3] + 1, *7 * (64,)), B3)):
        desk.network.hear(desk.network.peers[B3].session, msgspec.structs.replace(receipt, exits=named))
        exits = NUMBERS[neighbour] + 1, 0, 0
        assert passed.pop() == (neighbour, msgspec.structs.replace(receipt, hops=1, exits=exits))


@pytest.mark.req("CO-12", "CO-13", "CO-16")
def test_who_chooses_again_in_a_plan_holds_all_events_that_leave_by_another_exit_until_it_is_finished() -> None:
    desk = cluster()
    desk.states()
    desk.network.gateways.reprice(B2, 3000)
    desk.states()
    work, colours = desk.network.colouring._work[1], desk.network.colouring.scopes[1]
    assert work.has_nearer_exits()
    colours.announced.on_announce(TopologyPlan(7, (), choosers=(ME,)), PlanStage.ANNOUNCED, 0)
    assert (desk.states()[1].next_hops, desk.held()) == ({B2: 1 << 7}, {})
    colours.tree.rotate(1)
    colours.announced.on_rotation(1, 7, 0, is_switched=True)
    assert (desk.states()[1].next_hops, desk.held()) == ({B3: 1 << 7}, {1: 1 << 7, 2: 1 << 8})
    former = old_colour(1)
    before = desk.network.relay._tables.states((0, former, 0))
    assert before[1].next_hops == {B2: 1 << 7}
    colours.announced.on_go(7)
    assert (desk.states()[1].next_hops, desk.held()) == ({B3: 1 << 7}, {})
    assert not work.has_nearer_exits()


@pytest.mark.req("CO-13")
def test_an_exit_that_is_hardly_nearer_is_not_asked_for_nor_chosen_in_a_plan_that_was_undone() -> None:
    desk = cluster()
    desk.states()
    work, colours = desk.network.colouring._work[1], desk.network.colouring.scopes[1]
    for cost, is_nearer in ((1001, False), (1300, False), (1334, True)):
        desk.network.gateways.reprice(B2, cost)
        desk.states()
        assert work.has_nearer_exits() is is_nearer
    colours.announced.on_announce(TopologyPlan(7, (), choosers=(ME,)), PlanStage.ANNOUNCED, 0)
    desk.states()
    colours.announced.on_withdrawal(7)
    assert desk.states()[1].next_hops == {B2: 1 << 7}
