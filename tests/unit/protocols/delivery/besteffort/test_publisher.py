"""The publisher: numbers, order, batches, credit and bounds; with a real connection as its port."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.model.attribute import EMPTY_SCHEMA, MOST_ATTRIBUTES, Kind, Schema, Value
from stentor.model.errors import AttributeValueError, BodyTooLarge, InvalidInput, TopicError
from stentor.model.ids import NO_SCHEMA, Incarnation, LinkId, PublisherId, SchemaId, TopicId
from stentor.model.messages import SchemaDefinition, Topic
from stentor.protocols.connection.connection import Connection
from stentor.protocols.delivery.besteffort.publisher import BestEffortPublisher
from stentor.wire.block import Block
from stentor.wire.frame import CONTROL, FRAME_OVERHEAD, PREAMBLE, decode
from stentor.wire.head import LARGEST_COUNT

ME = PublisherId(9)
PLENTY = 1 << 40


class Wire:
    """A link, and a reader at its other end who knows just what was said on it."""

    def __init__(self, credit: int = PLENTY) -> None:
        self.port = Connection(LinkId(1), 0, 1 << 20, 1 << 30, 5.0)
        self.port.outbox.grant(credit)
        self.topics: dict[TopicId, str] = {}
        self.schemas: dict[SchemaId, Schema] = {NO_SCHEMA: EMPTY_SCHEMA}

    def read(self) -> list[Block]:
        blocks = []
        for data in self.port.outbox.release():
            if data == PREAMBLE:
                continue
            if data[4] == CONTROL:
                message = decode(bytes(data))
                if isinstance(message, Topic):
                    self.topics[message.id] = message.name
                elif isinstance(message, SchemaDefinition):
                    self.schemas[message.schema.id] = message.schema
                continue
            block = Block(data, self.schemas[SchemaId(int.from_bytes(data[24:32], "little"))])
            block.verify()
            assert block.topic in self.topics, "a topic is defined before its first use"
            blocks.append(block)
        return blocks


def publisher(bound: int = 1 << 20) -> BestEffortPublisher:
    return BestEffortPublisher(Incarnation(3), bound)


def test_what_one_turn_brings_is_one_batch_per_topic() -> None:
    made, wire = publisher(), Wire()
    for number in range(6):
        made.offer(f"t/{number % 2}", {"n": number}, b"x", 1000 + number)
    made.release(wire.port, ME)
    first, second = wire.read()
    assert [wire.topics[block.topic] for block in (first, second)] == ["t/0", "t/1"]
    assert first.rows() == [{"n": 0}, {"n": 2}, {"n": 4}]
    assert second.rows() == [{"n": 1}, {"n": 3}, {"n": 5}]
    assert (first.publisher, first.incarnation, first.catenation, first.time) == (ME, 3, 1, 1000)
    assert made.idle


def test_numbers_of_a_topic_start_at_one_and_go_on() -> None:
    made, wire = publisher(), Wire()
    for _ in range(3):
        for _ in range(4):
            made.offer("t", {}, b"", 0)
        made.release(wire.port, ME)
    made.offer("u", {}, b"", 0)
    made.release(wire.port, ME)
    assert [(block.catenation, block.count) for block in wire.read()] == [(1, 4), (5, 4), (9, 4), (1, 1)]


def test_a_change_of_type_starts_a_new_batch_and_keeps_the_order() -> None:
    made, wire = publisher(), Wire()
    values: list[Value] = [1, 2, "three", 4, 5.0]
    for value in values:
        made.offer("t", {"v": value}, b"", 0)
    made.release(wire.port, ME)
    blocks = wire.read()
    assert [row["v"] for block in blocks for row in block.rows()] == values
    assert [(block.catenation, block.count) for block in blocks] == [(1, 2), (3, 1), (4, 1), (5, 1)]


def test_a_definition_is_told_once_and_before_its_first_use() -> None:
    made, wire = publisher(), Wire()
    for _ in range(3):
        made.offer("t", {"v": 1}, b"", 0)
        made.release(wire.port, ME)
    said = [decode(bytes(data)) for data in wire.port.outbox.release() if data != PREAMBLE and data[4] == CONTROL]
    schema = Schema(("v",), (Kind.INTEGER,))
    assert [type(message) for message in said] == [Topic, SchemaDefinition]
    assert said[1] == SchemaDefinition(schema)


events = st.tuples(
    st.sampled_from(["a", "b", "c"]),
    st.dictionaries(st.sampled_from("xy"), st.sampled_from([1, 1.5, "s"]), max_size=2),
    st.sampled_from([0, 10, 30_000]),
    st.booleans(),
)


@settings(deadline=None, max_examples=100)
@given(st.lists(events, max_size=25), st.sampled_from([1, 50_000, PLENTY]))
def test_every_event_leaves_once_in_order_and_with_the_next_number(
    plan: list[tuple[str, dict[str, Value], int, bool]], step: int
) -> None:
    made, wire = publisher(), Wire(credit=step)
    offered: dict[str, list[tuple[dict[str, Value], bytes]]] = {}
    found: dict[str, list[tuple[dict[str, Value], bytes]]] = {}
    numbers: dict[str, list[int]] = {}

    def collect() -> None:
        made.release(wire.port, ME)
        for block in wire.read():
            topic = wire.topics[block.topic]
            found.setdefault(topic, []).extend(zip(block.rows(), block.bodies(), strict=True))
            numbers.setdefault(topic, []).extend(block.catenation + offset for offset in block.offsets())

    for number, (topic, attributes, size, turn_ends) in enumerate(plan):
        body = str(number).encode() + bytes(size)
        made.offer(topic, attributes, body, 0)
        offered.setdefault(topic, []).append((attributes, body))
        if turn_ends:
            collect()
    while not made.idle:
        wire.port.outbox.grant(wire.port.outbox.sent + step)
        collect()
    collect()
    assert found == offered
    assert numbers == {topic: list(range(1, len(each) + 1)) for topic, each in offered.items()}
    assert made.pending == 0
    assert made.published == len(plan)


def test_without_credit_nothing_leaves_and_nothing_is_numbered() -> None:
    made, wire = publisher(), Wire(credit=0)
    made.offer("t", {}, b"one", 0)
    made.release(wire.port, ME)
    assert wire.read() == []
    assert not made.idle
    made.offer("t", {}, b"two", 0)
    wire.port.outbox.grant(1)
    made.release(wire.port, ME)
    (block,) = wire.read()
    assert (block.catenation, block.bodies()) == (1, [b"one", b"two"])


def test_no_more_than_one_batch_goes_beyond_the_credit() -> None:
    made, wire = publisher(), Wire(credit=100_000)
    for number in range(100):
        made.offer("t", {}, bytes(10_000), number)
    made.release(wire.port, ME)
    sent = sum(len(block.frame) for block in wire.read())
    assert 100_000 <= sent < 200_000
    assert not made.idle
    assert made.pending >= 1_000_000 - sent


def test_it_is_full_when_more_waits_than_the_bound_and_not_when_it_has_left() -> None:
    made, wire = publisher(bound=10_000), Wire()
    made.offer("t", {}, bytes(5000), 0)
    assert not made.full
    made.offer("t", {}, bytes(5001), 0)
    assert made.full
    made.release(wire.port, ME)
    assert (made.full, made.pending) == (False, 0)


def test_attributes_fill_the_buffer_too() -> None:
    made = publisher(bound=100_000)
    for number in range(1000):
        made.offer("t", {"text": "x" * 1000 + str(number)}, b"", 0)
    assert made.full


def test_many_tiny_events_fill_the_buffer_too() -> None:
    made = publisher(bound=100_000)
    for _ in range(100_000):
        made.offer("t", {}, b"", 0)
    assert made.full


@pytest.mark.parametrize(
    ("topic", "attributes", "size", "error"),
    [
        ("", {}, 0, TopicError),
        ("a/+", {}, 0, TopicError),
        ("a/#", {}, 0, TopicError),
        ("t", {"a": None}, 0, AttributeValueError),
        ("t", {"a": 2**63}, 0, AttributeValueError),
        ("t", {"a": float("nan")}, 0, AttributeValueError),
        ("t", {"a-b": 1}, 0, AttributeValueError),
        ("t", {}, (1 << 20) + 1, BodyTooLarge),
        ("t", {}, 10_000_000, BodyTooLarge),
    ],
)
def test_a_bad_event_is_refused_and_nothing_has_changed(
    topic: str, attributes: dict[str, Value], size: int, error: type[InvalidInput]
) -> None:
    made, wire = publisher(), Wire()
    made.offer("t", {"a": 1}, b"good", 0)
    before = (made.pending, made.published)
    with pytest.raises(error):
        made.offer(topic, attributes, bytes(size), 0)
    columns: dict[str, list[Value | None]] = {name: [1, value] for name, value in attributes.items()}
    if error is not AttributeValueError or "a" not in attributes or attributes["a"] is not None:
        with pytest.raises(error):
            made.offer_many(topic, columns, [b"", bytes(size)], 0)
    assert (made.pending, made.published) == before
    made.release(wire.port, ME)
    (block,) = wire.read()
    assert block.rows() == [{"a": 1}]


def test_the_largest_body_is_the_brokers_word() -> None:
    made = publisher()
    made.largest_body = 10
    made.offer("t", {}, bytes(10), 0)
    with pytest.raises(BodyTooLarge, match=r"11 bytes, the broker takes 10: split it"):
        made.offer("t", {}, bytes(11), 0)


def test_many_at_once_are_cut_into_frames_in_order() -> None:
    made, wire = publisher(), Wire()
    bodies = [str(number).encode() + bytes(1000) for number in range(500)]
    made.offer("t", {"n": -1}, b"before", 0)
    made.offer_many("t", {"n": list(range(500)), "odd": [number % 2 == 1 or None for number in range(500)]}, bodies, 7)
    made.offer("t", {"n": 500}, b"after", 0)
    made.release(wire.port, ME)
    blocks = wire.read()
    assert [row["n"] for block in blocks for row in block.rows()] == list(range(-1, 501))
    assert [body for block in blocks for body in block.bodies()] == [b"before", *bodies, b"after"]
    assert [number for block in blocks for number in (block.catenation, block.last())] == sorted(
        number for block in blocks for number in (block.catenation, block.last())
    )
    assert max(len(block.frame) for block in blocks) < 100_000
    assert made.published == 502


def test_many_of_none_is_nothing() -> None:
    made = publisher()
    made.offer_many("t", {}, [], 0)
    assert (made.idle, made.published) == (True, 0)
    with pytest.raises(TopicError):
        made.offer_many("#", {}, [], 0)


@pytest.mark.parametrize("attributes", [0, 3, 10])
def test_no_frame_is_larger_than_a_broker_takes(attributes: int) -> None:
    made, wire = publisher(), Wire()
    count = LARGEST_COUNT + 5
    made.offer_many("t", {f"a{number}": list(range(count)) for number in range(attributes)}, [b""] * count, 0)
    made.release(wire.port, ME)
    blocks = wire.read()
    assert sum(block.count for block in blocks) == count
    assert max(len(block.frame) for block in blocks) <= made.largest_body + FRAME_OVERHEAD


def test_an_event_whose_attributes_make_it_too_large_is_refused() -> None:
    made, wire = publisher(), Wire()
    with pytest.raises(InvalidInput):
        made.offer("t", {f"a{number}": "x" * 8192 for number in range(MOST_ATTRIBUTES)}, bytes(1 << 20), 0)
    made.release(wire.port, ME)
    assert wire.read() == []


def test_a_new_link_is_told_everything_anew_and_numbers_go_on() -> None:
    made, first, second = publisher(), Wire(), Wire()
    made.offer("t", {"n": 1}, b"", 0)
    made.release(first.port, ME)
    made.offer("t", {"n": 2}, b"", 0)
    made.release(second.port, ME)
    (block,) = second.read()
    assert (second.topics[block.topic], block.rows(), block.catenation) == ("t", [{"n": 2}], 2)
