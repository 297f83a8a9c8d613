"""Parcels: event frames on their way between brokers, and for whom they are. What is inside is never changed.

     0 u32 length | u8 3 | u8 version | u8 levels | u8 flags       a bit for each level that has a mask; MASKS
     8 u32 count | u8 hops | u8[3] 0                               events inside; brokers passed
    16 u64 contents                                                stands for the topics and schemas inside
    24 u8 matchings[8]                                             brokers that matched it for the members of each level
    32 u64 mask of each level, the lowest first; with MASKS u64[count] of each
       event frames

A mask has a bit for each member of a scope that this copy is for. Copies are for different members, so that nobody
gets an event twice, whatever happens to routes.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from stentor.model.errors import FrameError, Refusal
from stentor.wire.frame import PARCEL, SHORTEST_EVENTS, VERSION
from stentor.wire.head import length_of, topic_and_schema_of

HEADER = struct.Struct("<IBBBBIB3xQ8s")
HEADER_SIZE: Final = HEADER.size
MASKS: Final = 1
MOST_HOPS: Final = 64
SOFT_PARCEL: Final = 256 << 10  # bytes of frames, if there is more than one

Masks = dict[int, int]  # by level, the same for all events
MaskArrays = dict[int, NDArray[np.uint64]]  # by level and event

assert HEADER_SIZE == 32


class Parcel(NamedTuple):
    """The head of a parcel, and where its event frames are."""

    levels: tuple[int, ...]
    events: int
    hops: int
    contents: int
    matchings: bytes
    masks: Masks | None
    arrays: MaskArrays | None
    start: int
    end: int


LEVELS: Final = tuple(tuple(level for level in range(8) if bits >> level & 1) for bits in range(256))


def parse(data: bytes, at: int) -> Parcel:
    """The parcel that begins here; it is there as a whole."""
    length, _, _, bits, flags, count, hops, contents, matchings = HEADER.unpack_from(data, at)
    levels, end = LEVELS[bits], at + length
    each = 8 * count if flags & MASKS else 8
    start = at + HEADER_SIZE + each * len(levels)
    if not levels or not count or flags & ~MASKS or start + SHORTEST_EVENTS > end:
        raise FrameError(Refusal.CORRUPT, "a parcel whose parts do not fit into it")
    if not flags & MASKS:
        words = struct.unpack_from(f"<{len(levels)}Q", data, at + HEADER_SIZE)
        return Parcel(levels, count, hops, contents, matchings, dict(zip(levels, words, strict=True)), None, start, end)
    arrays = {
        level: np.frombuffer(data, "<u8", count, at + HEADER_SIZE + place * each) for place, level in enumerate(levels)
    }
    return Parcel(levels, count, hops, contents, matchings, None, arrays, start, end)


def first_frame(data: bytes, at: int) -> int:
    """Return where the event frames of a parcel begin, if it is one."""
    _, _, _, bits, flags, count, *_ = HEADER.unpack_from(data, at)
    each = 8 * count if flags & MASKS else 8
    return at + HEADER_SIZE + each * len(LEVELS[bits])


def addressed(data: bytes, at: int, first: int) -> bytes:
    """Return levels, flags and masks of a parcel whose frames begin at `first`: what its way depends on."""
    return data[at + 6 : at + 8] + data[at + HEADER_SIZE : first]


class Label(NamedTuple):
    """Masks as they stand in a parcel that is for the same members as a whole; made once for many parcels."""

    bits: int
    words: bytes


def label(masks: Mapping[int, int]) -> Label:
    levels = sorted(masks)
    return Label(_bits(levels), struct.pack(f"<{len(levels)}Q", *[masks[level] for level in levels]))


def head(label: Label, size: int, count: int, hops: int, contents: int, matchings: bytes) -> bytes:
    """What stands before `size` bytes of frames."""
    bits, words = label
    length = HEADER_SIZE + len(words) + size
    return HEADER.pack(length, PARCEL, VERSION, bits, 0, count, hops, contents, matchings) + words


def wrap(
    masks: MaskArrays, frames: Sequence[bytes | memoryview], count: int, hops: int, contents: int, matchings: bytes
) -> bytes:
    """A parcel of events that are for different members each, or for the same: then one mask is enough."""
    levels = [level for level in sorted(masks) if masks[level].any()]
    firsts = {level: int(masks[level][0]) for level in levels}
    size = sum(map(len, frames))
    if all((masks[level] == masks[level][0]).all() for level in levels):
        return b"".join((head(label(firsts), size, count, hops, contents, matchings), *frames))
    length = HEADER_SIZE + 8 * len(levels) * count + size
    start = HEADER.pack(length, PARCEL, VERSION, _bits(levels), MASKS, count, hops, contents, matchings)
    words = [masks[level].astype("<u8").tobytes() for level in levels]
    return b"".join((start, *words, *frames))


def _bits(levels: Sequence[int]) -> int:
    return sum(1 << level for level in levels)


def contents_of(data: bytes, start: int, end: int) -> tuple[int, dict[tuple[int, int], None]]:
    """A number that stands for the topics and schemas of some frames, and these."""
    flows: dict[bytes, None] = {}
    position = start
    while position < end:
        flows[topic_and_schema_of(data, position)] = None
        length = length_of(data, position)
        if length < SHORTEST_EVENTS or position + length > end:
            raise FrameError(Refusal.CORRUPT, "a parcel with a frame that does not fit into it")
        position += length
    pairs = {(int.from_bytes(flow[:8], "little"), int.from_bytes(flow[8:], "little")): None for flow in flows}
    return xxh3_64_intdigest(b"".join(sorted(flows)), seed=PARCEL) or 1, pairs
