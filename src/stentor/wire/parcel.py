"""Parcels: event frames on their way between brokers, and for whom they are. What is inside is never changed.

     0 u32 length | u8 3 | u8 version | u8 hops | u8 0             brokers passed
     8 u32 count | u16 gain | u16 0                                events inside
    16 u64 contents                                                stands for the topics and schemas inside
    24 u8 matchings[8]                                             brokers that matched it for the members of each level
       the address: all that the way of a parcel depends on, in one slice
    32 u8 levels | u8 flags | u16 states                           a bit for each level that has a mask; MASKS
    36 u16 way[8]                                                  of every level: u2 colour, u7 exit
    52 u16 record[8]                                               of levels with a mask: u6 origin, u7 heading, u3 tree
    68 u32 0
    72 u64 mask of each level, the lowest first; with MASKS u64[count] of each
       event frames

A mask has a bit for each member of a scope that this copy is for. Copies are for different members, so that nobody
gets an event twice, whatever happens to routes. The colour of a level says by which topology of that scope a parcel is
routed. Its exit is 1 + the number of the member of that scope by which the parcel leaves the unit around it, and counts
for members of higher levels only; 0 names none. Colours and exits of levels below that of a link are 0 there, and
whoever takes the parcel in chooses its own. `states` is a digest of which members the bits stand for, as far as both
ends of the link can know: a receiver that has another one knows other members than the sender. Records and the gain are
all 0 today: there is room for them, so that parcels change once.
"""

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from stentor.model.colours.colour import COLOURS
from stentor.model.errors import FrameError, Refusal
from stentor.wire.frame import PARCEL, PARCEL_VERSION, SHORTEST_EVENTS
from stentor.wire.head import length_of, topic_and_schema_of

HEADER = struct.Struct("<IBBBxIH2xQ8s")  # as far as the address
ADDRESS = struct.Struct("<BBH16s8H4x")  # as far as the masks
LEVELS_AT: Final = HEADER.size  # where the address begins, with the levels
HEADER_SIZE: Final = HEADER.size + ADDRESS.size
WAYS_AT: Final = LEVELS_AT + 4  # where the colours and exits of all levels begin
WAYS_SIZE: Final = 16
MASKS: Final = 1
MOST_HOPS: Final = 64
SOFT_PARCEL: Final = 256 << 10  # bytes of frames, if there is more than one

MOST_EXITS: Final = 64  # as many as a scope has members
_COLOUR_BITS: Final = 2
_COLOURS_ALONE: Final = int.from_bytes(struct.pack("<8H", *[(1 << _COLOUR_BITS) - 1] * 8), "little")
_MOST_WAYS: Final = 4096  # that are remembered: peers choose the exits, and could name any number of combinations

NO_WAYS: Final = bytes(WAYS_SIZE)
NO_STATES: Final = 0  # of a sender that does not tell

Masks = dict[int, int]  # by level, the same for all events
MaskArrays = dict[int, NDArray[np.uint64]]  # by level and event

assert (LEVELS_AT, HEADER_SIZE) == (32, 72)


class Parcel(NamedTuple):
    """The head of a parcel, and where its event frames are."""

    levels: tuple[int, ...]
    events: int
    hops: int
    contents: int
    matchings: bytes
    ways: bytes  # colours and exits of all levels, as they stand in the parcel
    states: int
    masks: Masks | None
    arrays: MaskArrays | None
    start: int
    end: int


LEVELS: Final = tuple(tuple(level for level in range(8) if bits >> level & 1) for bits in range(256))


def parse(data: bytes, at: int) -> Parcel:
    """The parcel that begins here; it is there as a whole."""
    length, _, _, hops, count, _, contents, matchings = HEADER.unpack_from(data, at)
    bits, flags = data[at + LEVELS_AT], data[at + LEVELS_AT + 1]
    levels, end = LEVELS[bits], at + length
    each = 8 * count if flags & MASKS else 8
    start = at + HEADER_SIZE + each * len(levels)
    if not levels or not count or flags & ~MASKS or start + SHORTEST_EVENTS > end:
        raise FrameError(Refusal.CORRUPT, "a parcel whose parts do not fit into it")
    ways = ways_at(data, at)
    read_ways(ways)
    states = int.from_bytes(data[at + LEVELS_AT + 2 : at + WAYS_AT], "little")
    if not flags & MASKS:
        words = struct.unpack_from(f"<{len(levels)}Q", data, at + HEADER_SIZE)
        masks = dict(zip(levels, words, strict=True))
        return Parcel(levels, count, hops, contents, matchings, ways, states, masks, None, start, end)
    arrays = {
        level: np.frombuffer(data, "<u8", count, at + HEADER_SIZE + place * each) for place, level in enumerate(levels)
    }
    return Parcel(levels, count, hops, contents, matchings, ways, states, None, arrays, start, end)


def first_frame(data: bytes, at: int) -> int:
    """Return where the event frames of a parcel begin, if it is one."""
    _, _, _, _, count, *_ = HEADER.unpack_from(data, at)
    bits, flags = data[at + LEVELS_AT], data[at + LEVELS_AT + 1]
    each = 8 * count if flags & MASKS else 8
    return at + HEADER_SIZE + each * len(LEVELS[bits])


def addressed(data: bytes, at: int, first: int) -> bytes:
    """Return the address of a parcel whose frames begin at `first`, with its masks: what its way depends on."""
    return data[at + LEVELS_AT : first]


class Ways(NamedTuple):
    """What a parcel says of its way, by level."""

    colours: tuple[int, ...]
    exits: tuple[int, ...]  # 0, or 1 + the number of the member by which it leaves the unit around the scope
    coloured: bytes  # the colours alone, as they stand in a parcel that names no exits


def ways_at(data: bytes, at: int) -> bytes:
    """Return the colours and exits of all levels of the parcel that begins here, as they stand in it."""
    return data[at + WAYS_AT : at + WAYS_AT + WAYS_SIZE]


def ways_of(colours: Sequence[int], level: int = 0, exits: Sequence[int] = ()) -> bytes:
    """Return colours and exits of levels, the lowest first, as they stand in parcels on links of a level."""
    words = [*colours, *(0,) * (8 - len(colours))]
    for each, leaving in enumerate(exits):
        words[each] |= leaving << _COLOUR_BITS
    return struct.pack("<8H", *(0,) * level, *words[level:])


@lru_cache(_MOST_WAYS)
def read_ways(ways: bytes) -> Ways:
    """Return the colours and exits of all levels; FrameError if there are others than three, or than members."""
    words = struct.unpack("<8H", ways)
    colours = tuple(word & (1 << _COLOUR_BITS) - 1 for word in words)
    exits = tuple(word >> _COLOUR_BITS for word in words)
    if max(colours) >= COLOURS or max(exits) > MOST_EXITS:
        raise FrameError(Refusal.CORRUPT, "a parcel with a colour or an exit that cannot be")
    return Ways(colours, exits, colours_alone(ways))


def colours_alone(ways: bytes) -> bytes:
    """Return colours without exits, as they stand in parcels: what is under way is counted by colours."""
    return (int.from_bytes(ways, "little") & _COLOURS_ALONE).to_bytes(WAYS_SIZE, "little")


class Stamp(NamedTuple):
    """What parcels say of the topology by which they go."""

    ways: bytes = NO_WAYS  # the colours and exits of all levels, as they stand in parcels
    states: int = NO_STATES


NO_STAMP: Final = Stamp()


def label(masks: Mapping[int, int], stamp: Stamp = NO_STAMP) -> bytes:
    """Return the address of parcels that are for the same members as a whole; made once for many parcels."""
    levels = sorted(masks)
    return _address(levels, 0, stamp) + struct.pack(f"<{len(levels)}Q", *[masks[level] for level in levels])


def head(label: bytes, size: int, count: int, hops: int, contents: int, matchings: bytes) -> bytes:
    """What stands before `size` bytes of frames."""
    length = LEVELS_AT + len(label) + size
    return HEADER.pack(length, PARCEL, PARCEL_VERSION, hops, count, 0, contents, matchings) + label


def wrap(
    masks: MaskArrays,
    frames: Sequence[bytes | memoryview],
    count: int,
    hops: int,
    contents: int,
    matchings: bytes,
    stamp: Stamp = NO_STAMP,
) -> bytes:
    """A parcel of events that are for different members each, or for the same: then one mask is enough."""
    levels = [level for level in sorted(masks) if masks[level].any()]
    firsts = {level: int(masks[level][0]) for level in levels}
    size = sum(map(len, frames))
    if all((masks[level] == masks[level][0]).all() for level in levels):
        return b"".join((head(label(firsts, stamp), size, count, hops, contents, matchings), *frames))
    length = HEADER_SIZE + 8 * len(levels) * count + size
    start = HEADER.pack(length, PARCEL, PARCEL_VERSION, hops, count, 0, contents, matchings)
    words = [masks[level].astype("<u8").tobytes() for level in levels]
    return b"".join((start, _address(levels, MASKS, stamp), *words, *frames))


def _address(levels: Sequence[int], flags: int, stamp: Stamp) -> bytes:
    """Return all of an address but for its masks."""
    return ADDRESS.pack(sum(1 << level for level in levels), flags, stamp.states, stamp.ways, *(0,) * 8)


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
