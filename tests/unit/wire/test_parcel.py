"""Parcels: what goes in comes out, and nothing that is malformed gets further than the first look."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.model.attribute import EMPTY_SCHEMA
from stentor.model.errors import FrameError
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, TopicId
from stentor.wire import block
from stentor.wire.frame import PARCEL, measure
from stentor.wire.parcel import (
    HEADER_SIZE,
    NO_WAYS,
    WAYS_AT,
    WAYS_SIZE,
    Stamp,
    colours_alone,
    contents_of,
    head,
    label,
    parse,
    read_ways,
    ways_at,
    ways_of,
    wrap,
)

words = st.integers(1, 2**64 - 1)
levels = st.integers(0, 7)
colours = st.lists(st.integers(0, 2), min_size=1, max_size=8)


def frame(topic: int = 1, count: int = 1) -> bytes:
    origin = block.Origin(TopicId(topic), PublisherId(2), Incarnation(3), CatenationNumber(4), 5)
    return block.encode(origin, EMPTY_SCHEMA, [], [b"body"] * count)


@given(
    st.dictionaries(levels, words, min_size=1),
    st.integers(1, 9),
    st.integers(0, 255),
    st.binary(min_size=8, max_size=8),
)
def test_one_mask_for_all_events(masks: dict[int, int], count: int, hops: int, matchings: bytes) -> None:
    inner = frame(count=count)
    data = b"before" + head(label(masks), len(inner), count, hops, 77, matchings) + inner + b"after"
    assert measure(data, 6, 1 << 20) == (PARCEL, len(data) - 11)
    found = parse(data, 6)
    assert (found.levels, found.events, found.hops) == (tuple(sorted(masks)), count, hops)
    assert (found.masks, found.arrays, found.contents, found.matchings) == (masks, None, 77, matchings)
    assert data[found.start : found.end] == inner


@given(st.lists(st.tuples(words, words), min_size=2, max_size=20))
def test_a_mask_for_each_event(pairs: list[tuple[int, int]]) -> None:
    masks = {level: np.array([pair[level] for pair in pairs], np.uint64) for level in (0, 1)}
    inner = frame(count=len(pairs))
    data = wrap(masks, [inner], len(pairs), 1, 77, bytes(8))
    found = parse(data, 0)
    assert data[found.start : found.end] == inner
    if len(set(pairs)) == 1:
        assert found.masks == {0: pairs[0][0], 1: pairs[0][1]}  # one is enough
    else:
        assert found.arrays is not None
        assert [each.tolist() for each in found.arrays.values()] == [masks[0].tolist(), masks[1].tolist()]


def test_levels_that_nobody_is_meant_at_are_left_out() -> None:
    masks = {0: np.zeros(2, np.uint64), 3: np.array([1, 2], np.uint64)}
    assert parse(wrap(masks, [frame(count=2)], 2, 0, 1, bytes(8)), 0).levels == (3,)


@pytest.mark.parametrize(
    "change", [(32, 0), (33, 2), (33, 1), (8, 0)], ids=["no levels", "flags", "no room", "no events"]
)
def test_parts_that_do_not_fit_are_refused(change: tuple[int, int]) -> None:
    data = bytearray(head(label({0: 1}), 64, 200, 0, 1, bytes(8)) + frame()[:64])
    if change[0] == 8:
        data[8:12] = bytes(4)
    else:
        data[change[0]] = change[1]
    with pytest.raises(FrameError):
        parse(bytes(data), 0)


@settings(max_examples=150)
@given(st.binary(min_size=HEADER_SIZE, max_size=300))
def test_garbage_is_read_or_refused(data: bytes) -> None:
    data = len(data).to_bytes(4, "little") + data[4:]
    with contextlib.suppress(FrameError):
        found = parse(data, 0)
        assert found.start < found.end == len(data)


def test_contents_stand_for_topics_and_schemas_whatever_their_order() -> None:
    one, other = frame(1), frame(2)
    number, pairs = contents_of(one + other, 0, len(one + other))
    assert list(pairs) == [(1, 0), (2, 0)]
    assert contents_of(other + one + other, 0, len(other + one + other))[0] == number
    assert contents_of(one, 0, len(one))[0] != number


def test_contents_of_what_is_no_frame_are_refused() -> None:
    for data in (bytes(64), frame()[:-1], frame() + b"\5\0\0\0"):
        with pytest.raises(FrameError):
            contents_of(data, 0, len(data))


@pytest.mark.req("CO-06")
@given(colours, levels)
def test_colours_of_levels_below_a_link_are_0_and_all_others_stay(colours: list[int], level: int) -> None:
    level = min(level, len(colours))
    found = read_ways(ways_of(colours, level))
    assert found.colours == (*level * [0], *colours[level:], *(8 - len(colours)) * [0])


@pytest.mark.req("CO-06")
@given(colours, st.lists(words, min_size=2, max_size=5, unique=True))
def test_parcels_carry_their_colours_whatever_their_masks_are(colours: list[int], members: list[int]) -> None:
    ways, inner = ways_of(colours), frame(count=len(members))
    stamp = Stamp(ways, 0xBEEF)
    whole = head(label({0: 1}, stamp), len(inner), len(members), 0, 1, bytes(8)) + inner
    mixed = wrap({0: np.array(members, np.uint64)}, [inner], len(members), 0, 1, bytes(8), stamp)
    same = wrap({0: np.full(len(members), 5, np.uint64)}, [inner], len(members), 0, 1, bytes(8), stamp)
    for data in (whole, mixed, same):
        assert parse(data, 0).ways == ways_at(data, 0) == ways
        assert parse(data, 0).states == 0xBEEF
        assert ways_at(b"before" + data, 6) == ways


def test_without_colours_all_are_0() -> None:
    assert ways_of((0, 0, 0)) == NO_WAYS
    assert read_ways(NO_WAYS) == ((0,) * 8, (0,) * 8, NO_WAYS)
    assert ways_at(head(label({0: 1}), 0, 1, 0, 1, bytes(8)), 0) == NO_WAYS


@pytest.mark.req("CO-06")
@given(levels, st.integers(0, 2**16 - 1).filter(lambda word: word & 3 == 3 or word >> 2 > 64))
def test_a_parcel_with_a_fourth_colour_or_exit_65_is_refused_whatever_level_has_it(level: int, word: int) -> None:
    inner = frame()
    data = bytearray(head(label({0: 1}), len(inner), 1, 0, 1, bytes(8)) + inner)
    parse(bytes(data), 0)
    at = WAYS_AT + 2 * level
    assert at < WAYS_AT + WAYS_SIZE
    data[at : at + 2] = word.to_bytes(2, "little")
    with pytest.raises(FrameError):
        parse(bytes(data), 0)


@pytest.mark.req("CO-16")
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 64)), min_size=1, max_size=8), levels)
def test_exits_stand_beside_colours_and_leave_them_as_they_are(pairs: list[tuple[int, int]], level: int) -> None:
    level = min(level, len(pairs))
    colours, exits = [colour for colour, _ in pairs], [each for _, each in pairs]
    ways = ways_of(colours, level, exits)
    found = read_ways(ways)
    assert found.exits == (*level * [0], *exits[level:], *(8 - len(pairs)) * [0])
    assert found.colours == read_ways(ways_of(colours, level)).colours
    assert found.coloured == colours_alone(ways) == ways_of(colours, level)
