"""The forwarder: slices for those who take all, subsets for those who filter, and refusals at a flow's first frame."""

import struct

import pytest

from stentor.model.attribute import EMPTY_SCHEMA, MOST_ATTRIBUTES, Kind, Schema, Value
from stentor.model.errors import FrameError, Refusal
from stentor.model.filter import Filter
from stentor.model.ids import CatenationNumber, Incarnation, LinkId, PublisherId, SubscriptionId, TopicId, topic_id
from stentor.model.limits import Limits
from stentor.model.messages import SchemaDefinition, Topic
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.broker_subscription import BrokerSubscription
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.routes import FlowTable
from stentor.wire import block
from stentor.wire.block import Block, Origin
from stentor.wire.head import FLOW, SPARSE, UNIFORM
from stentor.wire.run import split

ME = PublisherId(77)
NUMBERED = Schema(("n",), (Kind.INTEGER,))


def frame(topic: str, numbers: list[int] | None = None, count: int = 1, publisher: int = ME, first: int = 1) -> bytes:
    origin = Origin(topic_id(topic), PublisherId(publisher), Incarnation(1), CatenationNumber(first), 0)
    if numbers is None:
        return block.encode(origin, EMPTY_SCHEMA, [], [b"body"] * count)
    column: list[Value | None] = list(numbers)
    return block.encode(origin, NUMBERED, [column], [str(number).encode() for number in numbers])


class Hall:
    """A forwarder with a link that publishes, and outboxes that subscribe."""

    def __init__(self, *topics: str, limits: Limits | None = None) -> None:
        self.forwarder: Forwarder[Outbox] = Forwarder(limits or Limits(), {})
        self.flows: FlowTable[Outbox] = FlowTable(1)
        self.interests = 0
        self.forwarder.define_schema(self.flows, SchemaDefinition(NUMBERED))
        for topic in topics:
            self.forwarder.define_topic(self.flows, Topic(topic_id(topic), topic))

    def subscriber(self, pattern: str, *filters: str) -> tuple[Outbox, list[BrokerSubscription[Outbox]]]:
        """Someone with one subscription per filter; "" is all."""
        outbox = Outbox(LinkId(10 + self.interests), 1 << 20, self.forwarder.unflushed)
        outbox.grant(1 << 30)
        made = []
        for text in filters or ("",):
            self.interests += 1
            where = Filter(text) if text else None
            made.append(BrokerSubscription(self.interests, SubscriptionId(self.interests), outbox, pattern, where))
            self.forwarder.table.add(made[-1])
        return outbox, made

    def publish(self, *frames: bytes) -> int:
        """As a broker does: split, meet what is new, forward."""
        data = b"".join(frames)
        position = total = 0
        while position < len(data):
            runs, after = split(data, position, self.flows.routes)
            total += self.forwarder.forward(data, runs)
            if after == position:
                self.forwarder.open_flow(self.flows, data[position:][FLOW], ME)
            position = after
        return total


def received(outbox: Outbox) -> bytes:
    return b"".join(outbox.release())


def test_who_takes_all_gets_the_very_bytes_and_neighbours_as_one_piece() -> None:
    hall = Hall("a/x", "a/y")
    everything, _ = hall.subscriber("a/#")
    nothing, _ = hall.subscriber("b")
    frames = [frame("a/x"), frame("a/y", count=3), frame("a/x", [1, 2])]
    for each in frames:
        hall.publish(each)
    received(everything)
    assert hall.publish(*frames) == 6
    assert len(everything.fresh) == 1
    assert received(everything) == b"".join(frames)
    assert received(nothing) == b""
    assert everything in hall.forwarder.unflushed
    assert nothing not in hall.forwarder.unflushed


def test_who_filters_gets_just_what_matches_with_a_right_checksum() -> None:
    hall = Hall("t")
    picky, (subscription,) = hall.subscriber("t", "n > 2")
    hall.publish(frame("t", [1, 2, 3, 4, 5]), frame("t", [1], first=6), frame("t", [9], first=7))
    found = []
    for data, count, _, _ in picky.fresh:
        chosen = Block(bytes(data), NUMBERED)
        chosen.verify()
        assert chosen.count == count
        found += [
            (chosen.catenation + offset, body) for offset, body in zip(chosen.offsets(), chosen.bodies(), strict=True)
        ]
    assert found == [(3, b"3"), (4, b"4"), (5, b"5"), (7, b"9")]
    assert (subscription.accepted, subscription.rejected) == (4, 3)


def test_who_wants_nothing_of_it_is_not_touched() -> None:
    hall = Hall("t")
    picky, _ = hall.subscriber("t", "n > 100")
    hall.publish(frame("t", [1, 2, 3]))
    assert hall.forwarder.unflushed == {}
    assert picky.fresh == []


def test_several_filters_of_one_client_are_one_frame_with_what_any_of_them_wants() -> None:
    hall = Hall("t")
    picky, subscriptions = hall.subscriber("t", "n < 2", "n > 4", "n = 1")
    hall.publish(frame("t", [0, 1, 2, 3, 4, 5]))
    ((data, count, _, _),) = picky.fresh
    assert Block(bytes(data), NUMBERED).bodies() == [b"0", b"1", b"5"]
    assert count == 3
    assert [(each.accepted, each.rejected) for each in subscriptions] == [(2, 4), (1, 5), (1, 5)]


def test_a_filter_beside_a_wish_for_everything_only_counts() -> None:
    hall = Hall("t")
    both, (whole, picky) = hall.subscriber("t", "", "n > 1")
    sent = frame("t", [0, 1, 2])
    hall.publish(sent)
    hall.forwarder.table.book_counts()
    assert received(both).endswith(sent)
    assert (whole.accepted, whole.rejected) == (3, 0)
    assert (picky.accepted, picky.rejected) == (1, 2)


def test_events_that_nobody_wants_are_counted() -> None:
    hall = Hall("t", "u")
    hall.subscriber("u")
    assert hall.publish(frame("t", count=5)) == 5
    assert hall.forwarder.unrouted == 5
    hall.publish(frame("u"))
    assert hall.forwarder.unrouted == 5


def test_a_new_flow_comes_with_the_definitions_its_destinations_need() -> None:
    hall = Hall("t")
    outbox, _ = hall.subscriber("t")
    hall.forwarder.open_flow(hall.flows, frame("t", [1])[FLOW], ME)
    assert outbox.defined == {topic_id("t"), NUMBERED.id}
    assert list(hall.forwarder.unflushed) == [outbox]


def test_who_filters_learns_what_events_are_about_with_the_first_that_is_chosen() -> None:
    hall = Hall("t")
    early, _ = hall.subscriber("t", "n > 5")
    hall.publish(frame("t", [1, 2, 3]))
    late, _ = hall.subscriber("t", "n > 1")
    assert early.defined == late.defined == set()
    hall.publish(frame("t", [4, 5], first=4))
    assert early.defined == set()
    assert late.defined == {topic_id("t"), NUMBERED.id}


def test_a_destination_in_two_audiences_gets_each_event_once() -> None:
    hall = Hall("t/u")
    outbox, subscriptions = hall.subscriber("t/u", "n > 3", "n < 5")
    hall.interests += 1
    subscriptions.append(BrokerSubscription(9, SubscriptionId(9), outbox, "t/#", Filter("n = 4 OR n = 9")))
    hall.forwarder.table.add(subscriptions[-1])
    hall.publish(frame("t/u", [1, 4, 6, 9, 5]))
    (cargo,) = outbox.fresh
    assert cargo[1] == 5
    assert [(each.accepted, each.rejected) for each in subscriptions] == [(4, 1), (2, 3), (2, 3)]
    assert cargo[3].get(outbox, {}) == {1: 4, 2: 2, 9: 2}


def test_an_interest_that_came_later_is_counted_from_then_on() -> None:
    hall = Hall("t")
    _, (first,) = hall.subscriber("t", "n > 1")
    hall.publish(frame("t", [1, 2, 3]))
    _, (second,) = hall.subscriber("t", "n > 2")
    hall.publish(frame("t", [2, 3], first=4))
    assert (first.accepted, first.rejected) == (4, 1)
    assert (second.accepted, second.rejected) == (1, 1)


def test_nothing_is_handed_to_a_destination_that_is_gone() -> None:
    hall = Hall("t")
    gone, _ = hall.subscriber("t", "n > 1", "n > 2")
    there, _ = hall.subscriber("t", "n > 1")
    hall.forwarder.table.slots.abandon(gone)
    hall.publish(frame("t", [1, 2, 3]))
    assert gone.fresh == []
    assert there.fresh[0][1] == 2


def altered(original: bytes, position: int, value: int) -> bytes:
    return original[:position] + bytes([value]) + original[position + 1 :]


@pytest.mark.parametrize(
    ("sent", "code", "complaint"),
    [
        (altered(frame("t"), 7, 1), Refusal.PROTOCOL, "hop bits"),
        (altered(frame("t"), 7, 0x80), Refusal.PROTOCOL, "hop bits"),
        (altered(frame("t"), 6, UNIFORM | 8), Refusal.PROTOCOL, "flags"),
        (altered(frame("t"), 6, 0x80), Refusal.PROTOCOL, "flags"),
        (frame("t", publisher=78), Refusal.FORGED, "another publisher"),
        (frame("t", publisher=0), Refusal.FORGED, "another publisher"),
        (frame("undefined"), Refusal.TOPIC, "not defined"),
        (altered(frame("t"), 24, 1), Refusal.SCHEMA, "schema that was not defined"),
    ],
)
def test_what_is_wrong_with_a_flow_is_refused_at_its_first_frame(sent: bytes, code: Refusal, complaint: str) -> None:
    hall = Hall("t")
    with pytest.raises(FrameError, match=complaint) as caught:
        hall.publish(sent)
    assert caught.value.code is code
    assert hall.flows.routes == {}


def test_a_topic_that_only_another_link_defined_is_not_defined_here() -> None:
    hall = Hall("t")
    other: FlowTable[Outbox] = FlowTable(2)
    hall.forwarder.define_topic(other, Topic(topic_id("u"), "u"))
    with pytest.raises(FrameError, match="not defined"):
        hall.publish(frame("u"))


def test_some_flags_are_a_clients_to_set() -> None:
    hall = Hall("t")
    for flags in (0, SPARSE, UNIFORM, SPARSE | UNIFORM):
        hall.forwarder.open_flow(hall.flows, altered(frame("t"), 6, flags)[FLOW], ME)
    assert len(hall.flows.routes) == 4


def test_a_link_remembers_a_bounded_number_of_flows() -> None:
    hall = Hall(*(f"t/{number}" for number in range(10)), limits=Limits(flows=4))
    _outbox, (subscription,) = hall.subscriber("#")
    for _ in range(3):
        for number in range(10):
            hall.publish(frame(f"t/{number}"))
            assert len(hall.flows.routes) <= 4
    hall.forwarder.table.book_counts()
    assert subscription.accepted == 30
    assert sum(len(state.remembered) for state in hall.forwarder.table.topics.values()) == len(hall.flows.routes)


@pytest.mark.parametrize(
    ("number", "name", "complaint"),
    [
        (topic_id("a/#"), "a/#", "wildcard"),
        (topic_id(""), "", "empty"),
        (topic_id("x" * 2000), "x" * 2000, "at most"),
        (topic_id("a"), "b", "is not the number of topic 'b'"),
        (0, "a", "is not the number"),
        (2**64, "a", "is not the number"),
        (-1, "a", "is not the number"),
    ],
)
def test_a_bad_definition_of_a_topic_is_refused(number: int, name: str, complaint: str) -> None:
    hall = Hall()
    with pytest.raises(FrameError, match=complaint) as caught:
        hall.forwarder.define_topic(hall.flows, Topic(TopicId(number), name))
    assert caught.value.code is Refusal.TOPIC
    assert hall.forwarder.table.topics == {}


def test_a_node_knows_a_bounded_number_of_topics() -> None:
    hall = Hall("a", "b", limits=Limits(topics=2))
    hall.forwarder.define_topic(hall.flows, Topic(topic_id("a"), "a"))
    with pytest.raises(FrameError, match="2 topics already") as caught:
        hall.forwarder.define_topic(hall.flows, Topic(topic_id("c"), "c"))
    assert caught.value.code is Refusal.TOO_MANY
    hall.forwarder.table.drop(hall.flows)
    hall.forwarder.define_topic(FlowTable(2), Topic(topic_id("c"), "c"))


@pytest.mark.parametrize(
    "schema",
    [
        Schema(("a",), ()),
        Schema(("a", "a"), (Kind.STRING, Kind.STRING)),
        Schema(("a b",), (Kind.STRING,)),
        Schema(tuple(f"a{n}" for n in range(MOST_ATTRIBUTES + 1)), (Kind.BOOLEAN,) * (MOST_ATTRIBUTES + 1)),
    ],
)
def test_a_bad_definition_of_a_schema_is_refused(schema: Schema) -> None:
    hall = Hall()
    with pytest.raises(FrameError) as caught:
        hall.forwarder.define_schema(hall.flows, SchemaDefinition(schema))
    assert caught.value.code is Refusal.SCHEMA


def test_a_schema_may_be_defined_twice_and_nothing_may_be_none() -> None:
    hall = Hall()
    hall.forwarder.define_schema(hall.flows, SchemaDefinition(NUMBERED))
    hall.forwarder.define_schema(hall.flows, SchemaDefinition(EMPTY_SCHEMA))
    assert len(hall.forwarder.schemas) == 2


def test_a_malformed_block_is_the_publishers_fault_and_reaches_no_filtering_subscriber() -> None:
    hall = Hall("t")
    picky, _ = hall.subscriber("t", "n > 0")
    good = frame("t", [1, 2])
    bad = good[:56] + struct.pack("<I", 3) + good[60:]
    with pytest.raises(FrameError) as caught:
        hall.publish(bad)
    assert caught.value.code is Refusal.CORRUPT
    assert picky.fresh == []


def test_what_came_before_a_malformed_block_is_on_its_way_all_the_same() -> None:
    hall = Hall("plain", "t")
    whole, _ = hall.subscriber("plain")
    hall.subscriber("t", "n > 0")
    hall.publish(frame("plain"), frame("t", [1]))
    received(whole)
    hall.forwarder.unflushed.clear()
    good = frame("t", [1, 2])
    with pytest.raises(FrameError):
        hall.publish(frame("plain"), good[:56] + struct.pack("<I", 3) + good[60:])
    assert whole in hall.forwarder.unflushed
    assert received(whole) == frame("plain")
