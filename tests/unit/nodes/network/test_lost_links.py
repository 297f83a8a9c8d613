"""What becomes of parcels that wait on a link when it is lost."""

import pytest
from tests.unit.nodes.network.desk import HALL, Desk

from stentor.model.attribute import EMPTY_SCHEMA
from stentor.model.ids import CatenationNumber, Incarnation, LinkId, PublisherId, topic_id
from stentor.model.messages import Topic
from stentor.nodes.broker.link_session import LinkSession
from stentor.protocols.connection.outbox import OutboundRun
from stentor.protocols.dissemination.routes import FlowTable
from stentor.wire import block
from stentor.wire.parcel import head, label, parse

SOUTH, SOUTHERNER = "south", "south/lab/b1"
NUMBER = 9  # of the south among the units of the network


def parcel(number: int) -> OutboundRun:
    """An event for the south that has passed four brokers."""
    origin = block.Origin(topic_id("t"), PublisherId(9), Incarnation(1), CatenationNumber(number), 5)
    inner = block.encode(origin, EMPTY_SCHEMA, [], [b"x"])
    return head(label({2: 1 << NUMBER}), len(inner), 1, 4, 0, bytes(8)) + inner, 1, {}, {}


def two_ways() -> tuple[Desk, LinkSession]:
    """A desk that reaches the south by the hall and, dearer, by a southerner; and its link with the hall."""
    desk = Desk()
    hall = desk.link(HALL, 1000)
    desk.hear(HALL, "north/hall", 7, "north/library", SOUTH)
    desk.link(SOUTHERNER, 9000)
    desk.hear(SOUTHERNER, SOUTH, NUMBER, "north")
    desk.states()
    desk.network._forwarder.define_topic(FlowTable(LinkId(99)), Topic(topic_id("t"), "t"))
    return desk, hall


def lose(desk: Desk, hall: LinkSession) -> list[bytes]:
    """Lose the link with the hall; return the parcels that leave by the other one."""
    desk.network.link_down(hall, "lost")
    desk.states()
    other = desk.network.peers[SOUTHERNER].session.connection.outbox
    return [bytes(run[0]) for run in other.fresh]


@pytest.mark.req("CO-12")
def test_parcels_that_wait_on_a_lost_link_leave_by_another_one_in_order() -> None:
    desk, hall = two_ways()
    hall.connection.outbox.fresh += [parcel(1), parcel(2)]
    left = lose(desk, hall)
    found = [parse(each, 0) for each in left]
    assert [(each.masks, each.hops) for each in found] == 2 * [({2: 1 << NUMBER}, 4)]
    firsts = [data[each.start :] for data, each in zip(left, found, strict=True)]
    assert firsts == sorted(firsts)
    assert desk.network.traffic.rerouted == 2
    assert hall.connection.outbox.discard() == 0


@pytest.mark.req("CO-12")
def test_what_was_sent_over_a_lost_link_is_in_doubt_and_not_sent_again() -> None:
    desk, hall = two_ways()
    outbox = hall.connection.outbox
    outbox.grant(1 << 20)
    outbox.fresh.append(parcel(1))
    outbox.release()
    outbox.fresh.append(parcel(2))
    contents = [data[parse(data, 0).start :] for data in lose(desk, hall)]
    second = bytes(parcel(2)[0])
    assert contents == [second[parse(second, 0).start :]]
    assert (desk.network.traffic.rerouted, desk.network.traffic.in_doubt) == (1, 1)
