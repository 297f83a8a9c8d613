"""Blocks: what goes in comes out, subsets are exact, and a damaged one is found out."""

import struct
import unicodedata
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.model.attribute import EMPTY_SCHEMA, Kind, Schema, Value
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, TopicId, publisher_id, topic_id
from stentor.wire import block
from stentor.wire.block import Block, Origin
from stentor.wire.block_view import BlockView
from stentor.wire.head import HEADER_SIZE, LARGEST_COUNT, SPARSE, UNIFORM

ORIGIN = Origin(topic_id("t"), publisher_id("p", "n"), Incarnation(7), CatenationNumber(42), 1_700_000_000_000_000_000)


def normal(value: Value) -> Value:
    """Texts are spelled in one way only."""
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else value


class Batch(NamedTuple):
    """What a publisher has in hand."""

    origin: Origin
    schema: Schema
    columns: list[list[Value | None]]
    bodies: list[bytes]

    @property
    def rows(self) -> list[dict[str, Value]]:
        """Each event's attributes, said in the plainest way."""
        return [
            {
                name: normal(value)
                for name, column in zip(self.schema.names, self.columns, strict=True)
                if (value := column[index]) is not None
            }
            for index in range(len(self.bodies))
        ]

    def encode(self) -> bytes:
        return block.encode(self.origin, self.schema, self.columns, self.bodies)


VALUES: dict[Kind, st.SearchStrategy[Value]] = {
    Kind.BOOLEAN: st.booleans(),
    Kind.INTEGER: st.integers(-(2**63), 2**63 - 1),
    Kind.DECIMAL: st.floats(allow_nan=False),
    Kind.STRING: st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(["", "a", "été", "😀", "\0"]),
}
u64 = st.integers(0, 2**64 - 1)
origins = st.builds(
    Origin,
    u64.map(TopicId),
    u64.map(PublisherId),
    st.integers(0, 2**48 - 1).map(Incarnation),
    st.integers(0, 2**63).map(CatenationNumber),
    st.integers(-(2**63), 2**63 - 1),
)
names = st.lists(st.text("abcXYZ_09", min_size=1, max_size=6), unique=True, max_size=4)


@st.composite
def batches(draw: st.DrawFn, longest: int = 40) -> Batch:
    chosen = draw(names)
    kinds = [draw(st.sampled_from(Kind)) for _ in chosen]
    count = draw(st.integers(1, longest))
    columns: list[list[Value | None]] = []
    for kind in kinds:
        values: st.SearchStrategy[Value | None] = VALUES[kind]
        if draw(st.booleans()):
            values = values | st.none()
        columns.append(draw(st.lists(values, min_size=count, max_size=count)))
    size = draw(st.none() | st.integers(0, 20))
    each = st.binary(max_size=20) if size is None else st.binary(min_size=size, max_size=size)
    bodies = draw(st.lists(each, min_size=count, max_size=count))
    return Batch(draw(origins), Schema(tuple(chosen), tuple(kinds)), columns, bodies)


def same(found: Value | None, wanted: Value | None) -> bool:
    return type(found) is type(wanted) and (wanted is None or found == normal(wanted))


def picked(found: Block, rows: Sequence[int]) -> bytes | memoryview:
    """A frame with just these events of a block."""
    keep = np.zeros(found.count, np.bool_)
    keep[list(rows)] = True
    ((frame, count),) = BlockView([found]).pick(keep)
    assert count == len(rows)
    return frame


def assert_holds(found: Block, batch: Batch, events: Sequence[int]) -> None:
    """The block has just these events of the batch, with the numbers that they had in it."""
    found.verify()
    origin = batch.origin
    assert (found.topic, found.publisher, found.incarnation) == (origin.topic, origin.publisher, origin.incarnation)
    assert (found.catenation, found.time, found.schema_id) == (origin.first, origin.time, batch.schema.id)
    assert found.count == len(events)
    assert list(found.offsets()) == list(events)
    assert found.last() == origin.first + events[-1]
    assert list(found.times()) == [origin.time] * len(events)
    assert found.bodies() == [batch.bodies[event] for event in events]
    assert [found.body(index) for index in range(found.count)] == found.bodies()
    assert found.rows() == [batch.rows[event] for event in events]
    assert [list(row) for row in found.rows()] == [list(batch.rows[event]) for event in events], "in the schema's order"
    for name, wanted in zip(batch.schema.names, batch.columns, strict=True):
        column = found.column(name)
        assert column is not None
        assert all(same(value, wanted[event]) for value, event in zip(column.to_list(), events, strict=True))
    assert found.column("no such attribute") is None


@pytest.mark.req("GE-06")
@settings(deadline=None, max_examples=100)
@given(batches())
def test_what_was_encoded_is_decoded(batch: Batch) -> None:
    frame = batch.encode()
    everything = range(len(batch.bodies))
    assert_holds(Block(frame, batch.schema), batch, everything)
    assert_holds(Block(memoryview(frame), batch.schema), batch, everything)
    assert struct.unpack_from("<IBBxB", frame) == (len(frame), 1, 1, 0)


@settings(deadline=None, max_examples=100)
@given(st.data(), batches(longest=60))
def test_a_selection_of_a_selection_holds_just_the_chosen_events(data: st.DataObject, batch: Batch) -> None:
    events = list(range(len(batch.bodies)))
    found = Block(batch.encode(), batch.schema)
    for _ in range(3):
        rate = data.draw(st.sampled_from([0.1, 0.5, 0.9, 1.0]))
        random = Random(data.draw(st.integers(0, 2**32 - 1)))
        rows = [row for row in range(found.count) if random.random() < rate] or [random.randrange(found.count)]
        frame = picked(found, rows)
        events = [events[row] for row in rows]
        if len(rows) == found.count:
            assert frame is found.frame, "nothing is copied when nothing is left out"
        found = Block(frame, batch.schema)
        assert_holds(found, batch, events)
        contiguous = events[-1] == len(events) - 1
        assert bool(found.flags & SPARSE) is not contiguous, "numbers are written only where they have holes"


@settings(deadline=None, max_examples=30)
@given(batches(longest=60), st.integers(0, 2**32 - 1))
def test_a_selection_from_a_view_is_that_from_its_bytes(batch: Batch, seed: int) -> None:
    frame = batch.encode()
    rows = [row for row in range(len(batch.bodies)) if Random(seed + row).random() < 0.7] or [0]
    assert picked(Block(frame, batch.schema), rows) == picked(Block(memoryview(frame), batch.schema), rows)


def test_a_selection_leaves_out_the_texts_that_nobody_has_any_more() -> None:
    schema = Schema(("who",), (Kind.STRING,))
    texts: list[Value | None] = [f"name number {number}" for number in range(1000)]
    chosen = picked(Block(block.encode(ORIGIN, schema, [texts], [b""] * 1000), schema), [500])
    assert len(chosen) < 200
    assert Block(chosen, schema).rows() == [{"who": "name number 500"}]


def test_a_selection_never_vouches_for_bytes_that_were_damaged_before() -> None:
    frame = bytearray(block.encode(ORIGIN, EMPTY_SCHEMA, [], [b"ab", b"cd"]))
    frame[-1] ^= 1
    with pytest.raises(FrameError, match="damaged"):
        picked(Block(bytes(frame), EMPTY_SCHEMA), [1])


def test_texts_that_look_the_same_are_spelled_the_same() -> None:
    schema = Schema(("who",), (Kind.STRING,))
    found = Block(block.encode(ORIGIN, schema, [["e\u0301", "\u00e9", "e"]], [b""] * 3), schema)
    assert found.rows() == [{"who": "\u00e9"}, {"who": "\u00e9"}, {"who": "e"}]


def test_the_format_on_the_wire_and_in_logs_never_changes() -> None:
    schema = Schema(("n", "who"), (Kind.INTEGER, Kind.STRING))
    frame = block.encode(ORIGIN, schema, [[1, None], ["é", ""]], [b"ab", b""])
    assert frame.hex() == (
        "6d000000"
        "01010000"
        "4a376ce557315d28"
        "5cf0f22259cad34f"
        "e1c8f6b1e64e05b7"
        "0200"
        "070000000000"
        "2a00000000000000"
        "00002a36fe9c9717"
        "23000000"
        "f0319452"
        "0001"
        "0100000000000000"
        "0000000000000000"
        "01"
        "0200"
        "00000100"
        "0200000002000000"
        "c3a9"
        "0200000000000000"
        "6162"
    )


@pytest.mark.parametrize("size", [0, 1, 1 << 20])
def test_a_lone_event_of_any_size_costs_a_header_and_a_length(size: int) -> None:
    body = bytes(size)
    frame = block.encode(ORIGIN, EMPTY_SCHEMA, [], [body])
    assert len(frame) == HEADER_SIZE + 4 + size
    assert Block(frame, EMPTY_SCHEMA).bodies() == [body]
    assert Block(frame, EMPTY_SCHEMA).flags == UNIFORM


def test_the_largest_block_there_can_be() -> None:
    schema = Schema(("n", "who", "ok"), (Kind.INTEGER, Kind.STRING, Kind.BOOLEAN))
    numbers: list[Value | None] = list(range(LARGEST_COUNT))
    texts: list[Value | None] = [str(number) for number in range(LARGEST_COUNT)]
    truths: list[Value | None] = [number % 3 == 0 or None for number in range(LARGEST_COUNT)]
    batch = Batch(ORIGIN, schema, [numbers, texts, truths], [str(n).encode() for n in range(LARGEST_COUNT)])
    found = Block(batch.encode(), schema)
    assert found.rows()[-2:] == [{"n": 65533, "who": "65533"}, {"n": 65534, "who": "65534"}]
    assert found.rows()[-3] == {"n": 65532, "who": "65532", "ok": True}
    keep = np.zeros(LARGEST_COUNT, np.bool_)
    keep[1::2] = True
    chosen = [Block(frame, schema) for frame, _ in BlockView([found]).pick(keep)]
    assert sum(each.count for each in chosen) == LARGEST_COUNT // 2
    assert chosen[-1].last() == 42 + 65533
    assert chosen[-1].bodies()[-1] == b"65533"


def damaged(frame: bytes, bit: int) -> bytes:
    broken = bytearray(frame)
    broken[bit // 8] ^= 1 << bit % 8
    return bytes(broken)


@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [1, 3]])
def test_every_flipped_bit_outside_length_and_hop_is_found(rows: list[int]) -> None:
    schema = Schema(("n", "who"), (Kind.INTEGER, Kind.STRING))
    whole = block.encode(ORIGIN, schema, [[1, None, 3, 4], ["é", "x", "", "y"]], [b"ab", b"", b"c", b"def"])
    frame = bytes(picked(Block(whole, schema), rows))
    for bit in range(32, 8 * len(frame)):
        if bit // 8 == 7:
            continue
        with pytest.raises(FrameError) as caught:
            Block(damaged(frame, bit), schema).verify()
        assert caught.value.code is Refusal.CORRUPT


def test_relays_may_change_the_hop_byte() -> None:
    frame = block.encode(ORIGIN, EMPTY_SCHEMA, [], [b"body"])
    for bit in range(56, 64):
        Block(damaged(frame, bit), EMPTY_SCHEMA).verify()


@settings(deadline=None, max_examples=50)
@given(batches(longest=5), st.lists(st.integers(32, 2**20), min_size=2, max_size=4, unique=True))
def test_a_few_flipped_bits_anywhere_are_found_too(batch: Batch, bits: list[int]) -> None:
    frame = batch.encode()
    flipped = {32 + bit % (8 * len(frame) - 32) for bit in bits}
    broken = frame
    for bit in flipped:
        if bit // 8 != 7:
            broken = damaged(broken, bit)
    if broken != frame:
        with pytest.raises(FrameError):
            Block(broken, batch.schema).verify()
