"""Blocks of a hostile publisher, who can make a right checksum: nothing worse than a FrameError comes out."""

import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.model.attribute import EMPTY_SCHEMA, Kind, Schema, Value
from stentor.model.errors import FrameError
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, TopicId
from stentor.wire import block
from stentor.wire.block import Block, Origin
from stentor.wire.block_view import BlockView
from stentor.wire.head import HEADER_SIZE, LAST_FIRST, SPARSE, UNIFORM

ORIGIN = Origin(TopicId(1), PublisherId(2), Incarnation(3), CatenationNumber(LAST_FIRST - 100), -1)
LATER = Origin(TopicId(1), PublisherId(2), Incarnation(3), CatenationNumber(LAST_FIRST - 90), 5)
ALL_KINDS = Schema(("yes", "n", "price", "who"), (Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.STRING))
TEXTS = Schema(("who",), (Kind.STRING,))
COLUMNS: list[list[Value | None]] = [
    [True, None, False, True],
    [1, 2, None, 4],
    [0.5, None, 1.5, 2.0],
    ["a", "été", None, "a"],
]


def sealed(frame: bytes | bytearray) -> bytes:
    """The frame with a length and a checksum that are right."""
    head = bytearray(frame[:HEADER_SIZE])
    head[0:4] = len(frame).to_bytes(4, "little")
    head[60:64] = block.checksum(bytes(head), bytes(frame[HEADER_SIZE:])).to_bytes(4, "little")
    return bytes(head) + bytes(frame[HEADER_SIZE:])


def look_at_everything(frame: bytes, schema: Schema) -> None:
    """Whatever a broker, a subscriber or an application may ask of a block; raises FrameError at worst."""
    with suppress(FrameError):
        found = Block(frame, schema)
        found.verify()
        questions: list[Callable[[], object]] = [
            found.offsets,
            found.last,
            found.bodies,
            found.rows,
            lambda: found.body(found.count - 1),
            found.times,
            lambda: list(BlockView([found]).pick(np.arange(found.count) % 2 == 0)),
            lambda: list(BlockView([found]).pick(np.arange(found.count) == found.count - 1)),
            lambda: list(BlockView([found, found]).pick(np.arange(2 * found.count) % 3 == 0)),
            lambda: [BlockView([found, found]).column(name) for name in schema.names],
            lambda: BlockView([found, found]).rows(),
            *(lambda name=name: found.column(name) for name in (*schema.names, "none")),
        ]
        for question in questions:
            with suppress(FrameError):
                question()


def frames() -> list[bytes]:
    """Some of every sort: sparse or not, bodies of one size or not, nothing missing or something."""
    full: list[list[Value | None]] = [[True] * 4, [1, 2, 3, 4], [0.0] * 4, ["x", "y", "z", "x"]]
    made = []
    for columns in (COLUMNS, full):
        for bodies in ([b"1", b"22", b"", b"4444"], [b"12"] * 4):
            dense = block.encode(ORIGIN, ALL_KINDS, columns, bodies)
            later = block.encode(LATER, ALL_KINDS, columns, bodies)
            keep = np.array([False, True, True, True, True, True, False, True])
            joined = BlockView([Block(dense, ALL_KINDS), Block(later, ALL_KINDS)]).pick(keep)
            made += [dense, *(bytes(frame) for frame, _ in joined)]
    one = [[column[0]] for column in COLUMNS]
    return [*made, block.encode(ORIGIN, ALL_KINDS, one, [b"lone"])]


def test_every_byte_set_to_every_telling_value_is_survived() -> None:
    for frame in frames()[::3]:
        for position in range(4, len(frame)):
            for value in (0, 1, 0x80, 0xFF):
                broken = bytearray(frame)
                broken[position] = value
                look_at_everything(sealed(broken), ALL_KINDS)


def test_a_block_cut_short_anywhere_is_survived() -> None:
    for frame in frames():
        for length in range(HEADER_SIZE, len(frame)):
            look_at_everything(sealed(frame[:length]), ALL_KINDS)


def test_a_block_with_more_at_its_end_is_refused() -> None:
    for frame in frames():
        with pytest.raises(FrameError, match="do not fill"):
            Block(sealed(frame + b"x"), ALL_KINDS).bodies()


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from(frames()),
    st.lists(st.tuples(st.integers(4, 300), st.binary(min_size=1, max_size=8)), min_size=1, max_size=6),
    st.integers(0, 3),
)
def test_a_mutated_block_with_a_right_checksum_is_survived(
    frame: bytes, changes: list[tuple[int, bytes]], tail: int
) -> None:
    broken = bytearray(frame)
    for position, replacement in changes:
        at = 4 + position % (len(frame) - 4)
        broken[at : at + len(replacement)] = replacement[: len(frame) - at]
    look_at_everything(sealed(broken + bytes(tail)), ALL_KINDS)


@settings(deadline=None, max_examples=100)
@given(
    st.integers(0, 3),
    st.integers(0, 65535),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=200),
    st.lists(st.sampled_from(Kind), max_size=3),
)
def test_any_bytes_behind_a_header_are_survived(
    flags: int, count: int, columns_length: int, payload: bytes, kinds: list[Kind]
) -> None:
    schema = Schema(tuple(f"a{index}" for index in range(len(kinds))), tuple(kinds))
    for length in (columns_length, len(payload), len(payload) // 2, 0):
        look_at_everything(block.seal(ORIGIN, schema.id, count, flags, length, payload), schema)


def test_a_block_of_another_schema_than_it_says_is_survived() -> None:
    others = [EMPTY_SCHEMA, TEXTS, Schema(tuple("abcdefgh"), (Kind.STRING,) * 8), Schema(("a",), (Kind.INTEGER,))]
    for frame in frames():
        for schema in others:
            look_at_everything(frame, schema)


@pytest.mark.parametrize(
    ("count", "flags", "columns_length", "payload"),
    [
        (65535, SPARSE, 0, b""),
        (65535, 0, 0, b""),
        (65535, UNIFORM, 0, b"\xff\xff\xff\xff"),
        (1, UNIFORM, 0, b"\xff\xff\xff\xff"),
        (2, 0, 0, b"\xff\xff\xff\xff\xff\xff\xff\xff"),
        (1, UNIFORM, 2**32 - 1, b"\0\0\0\0"),
        (0, UNIFORM, 0, b"\0\0\0\0"),
    ],
)
def test_what_a_header_claims_and_the_frame_has_not_is_refused(
    count: int, flags: int, columns_length: int, payload: bytes
) -> None:
    frame = block.seal(ORIGIN, 0, count, flags, columns_length, payload)
    with pytest.raises(FrameError):
        Block(frame, EMPTY_SCHEMA).bodies()


@pytest.mark.parametrize(
    "column",
    [
        b"",  # nothing at all
        b"\x01",
        b"\x01\x00\x00\x00\x00",  # no texts, though an event has the first
        b"\x01\x01\x00\x00\x00\xff\xff\xff\xff",  # a text of 4 GiB
        b"\x01\xff\xff\x00\x00",  # 65,535 texts
        b"\x01\x01\x00\x01\x00\x01\x00\x00\x00a",  # the second of one text
        b"\x01\x01\x00\x00\x00\x01\x00\x00\x00\xff",  # not UTF-8
        b"\x01\x01\x00\x00\x00\x03\x00\x00\x00\xed\xa0\x80",  # a lone surrogate
        b"\x01\x01\x00\x00\x00\x01\x00\x00\x00aa",  # more than its texts
        b"\x01\x02\x00\x01\x00\x05\x00\x00\x00\x01\x00\x00\x00a",  # texts that go backwards
    ],
)
def test_strings_that_are_none_are_refused(column: bytes) -> None:
    frame = block.seal(ORIGIN, TEXTS.id, 1, UNIFORM, len(column), column + bytes(4))
    with pytest.raises(FrameError):
        Block(frame, TEXTS).rows()
    with pytest.raises(FrameError):
        Block(frame, TEXTS).column("who")
    with pytest.raises(FrameError):
        Block(frame, TEXTS).check()


@pytest.mark.parametrize(
    ("column", "row"),
    [
        (b"\x01\x01\x00\x00\x00\x01\x00\x00\x00a", {"who": "a"}),
        (b"\x01\x02\x00\x01\x00\x01\x00\x00\x00\x02\x00\x00\x00ab", {"who": "b"}),  # one text too many
        (b"\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00", {}),
    ],
)
def test_the_string_of_a_lone_event_may_have_any_dictionary(column: bytes, row: dict[str, str]) -> None:
    found = Block(block.seal(ORIGIN, TEXTS.id, 1, UNIFORM, len(column), column + bytes(4)), TEXTS)
    found.check()
    assert found.rows() == [row]


def test_a_dictionary_is_checked_though_the_event_has_no_value() -> None:
    column = b"\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\xff"
    with pytest.raises(FrameError):
        Block(block.seal(ORIGIN, TEXTS.id, 1, UNIFORM, len(column), column + bytes(4)), TEXTS).check()


def peak_of(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        with suppress(FrameError):
            work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_huge_claims_allocate_nothing() -> None:
    claims = [
        block.seal(ORIGIN, 0, 65535, UNIFORM, 0, b"\xff\xff\xff\xff"),
        block.seal(ORIGIN, 0, 65535, 0, 0, b"\xff" * 100),
        block.seal(ORIGIN, 0, 65535, SPARSE, 2**31, b"\xff" * 100),
        block.seal(ORIGIN, TEXTS.id, 1, UNIFORM, 9, b"\x01\xff\xff\0\0\xff\xff\xff\xff" + bytes(4)),
    ]
    for frame in claims:
        for schema in (EMPTY_SCHEMA, TEXTS):
            assert peak_of(lambda frame=frame, schema=schema: look_at_everything(frame, schema)) < 32 << 20  # type: ignore[misc]


def test_texts_that_overlap_cannot_make_a_small_frame_large() -> None:
    """A dictionary whose ends go back and forth would hold the same bytes again and again."""
    entries, size = 2000, 50_000
    ends = [size if index % 2 == 0 else 0 for index in range(entries - 1)] + [size]
    column = b"\x01" + struct.pack(f"<HH{entries}I", entries, 0, *ends) + b"x" * size
    frame = block.seal(ORIGIN, TEXTS.id, 1, UNIFORM, len(column), column + bytes(4))
    assert peak_of(lambda: Block(frame, TEXTS).column("who")) < 20 * len(frame)


def test_numbers_that_do_not_grow_are_refused_or_harmless() -> None:
    """Neighbours are joined by their last numbers; a hostile publisher may have written those in any order."""
    for first, second in ((60_000, 65_535), (65_535, 0), (0, 65_535)):
        blocks = [
            Block(block.seal(origin, 0, 2, SPARSE | UNIFORM, 0, struct.pack("<HHI", number, 0, 0)), EMPTY_SCHEMA)
            for origin, number in ((ORIGIN, first), (LATER, second))
        ]
        keep = np.array([True, False, True, True])
        with suppress(FrameError):
            for frame, _ in BlockView(blocks).pick(keep):
                look_at_everything(bytes(frame), EMPTY_SCHEMA)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(0, 2**64 - 1), st.sampled_from(range(8)), st.binary(max_size=60)),
        min_size=2,
        max_size=4,
    ),
    st.integers(0, 2**32 - 1),
)
def test_several_hostile_blocks_in_a_row_are_survived(plan: list[tuple[int, int, int, bytes]], seed: int) -> None:
    for schema, width in ((EMPTY_SCHEMA, 0), (Schema(("n",), (Kind.INTEGER,)), 9)):
        blocks = []
        for count, first, flags, payload in plan:
            origin = Origin(TopicId(1), PublisherId(2), Incarnation(3), CatenationNumber(first % 100), first % 7)
            with suppress(FrameError):
                blocks.append(Block(block.seal(origin, schema.id, count, flags, width, payload + bytes(20)), schema))
        if blocks:
            view = BlockView(blocks)
            keep = np.random.default_rng(seed).random(view.count) < 0.7
            with suppress(FrameError):
                view.column("n")
            with suppress(FrameError):
                for frame, _ in view.pick(keep):
                    look_at_everything(bytes(frame), schema)
