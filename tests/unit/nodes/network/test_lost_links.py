"""What becomes of parcels that wait on a link when it is lost."""

import pytest
from tests.unit.nodes.network.desk import HALL, Desk

from stentor.model.attribute import EMPTY_SCHEMA
from stentor.model.ids import CatenationNumber, Incarnation, LinkId, PublisherId, topic_id
from stentor.model.messages import Topic
from stentor.protocols.dissemination.routes import FlowTable
from stentor.wire import block
from stentor.wire.parcel import head, label, parse

SOUTH, SOUTHERNER = "south", "south/lab/b1"
NUMBER = 9  # of the south among the units of the network


@pytest.mark.req("CO-12")
def test_parcels_that_wait_on_a_lost_link_leave_by_another_one_in_order() -> None:
    desk = Desk()
    hall = desk.link(HALL, 1000)
    desk.hear(HALL, "north/hall", 7, "north/library", SOUTH)
    desk.link(SOUTHERNER, 9000)  # dearer than by the hall
    desk.hear(SOUTHERNER, SOUTH, NUMBER, "north")
    desk.states()
    forwarder = desk.network._forwarder
    forwarder.define_topic(FlowTable(LinkId(99)), Topic(topic_id("t"), "t"))
    for number in (1, 2):
        origin = block.Origin(topic_id("t"), PublisherId(9), Incarnation(1), CatenationNumber(number), 5)
        inner = block.encode(origin, EMPTY_SCHEMA, [], [b"x"])
        parcel = head(label({2: 1 << NUMBER}), len(inner), 1, 4, 0, bytes(8)) + inner
        hall.connection.outbox.fresh.append((parcel, 1, {}, {}))
    desk.network.link_down(hall, "lost")
    desk.states()
    other = desk.network.peers[SOUTHERNER].session.connection.outbox
    found = [parse(bytes(run[0]), 0) for run in other.fresh]
    assert [(each.masks, each.hops) for each in found] == 2 * [({2: 1 << NUMBER}, 4)]
    firsts = [bytes(run[0])[parse(bytes(run[0]), 0).start :] for run in other.fresh]
    assert firsts == sorted(firsts)
    assert desk.network.traffic.rerouted == 2
    assert hall.connection.outbox.discard() == 0
