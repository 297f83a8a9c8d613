"""The head of an events frame: where each of its fields stands. No other module counts these bytes.

     0 u32 length | u8 1 | u8 version | u8 flags | u8 reserved    the reserved byte belongs to the link; 0 today
     8 u64 topic | u64 publisher | u64 schema
    32 u16 count | u48 incarnation | u64 first catenation number | i64 time in ns since 1970
    56 u32 length of columns | u32 checksum                       the low half of XXH3

Bytes 4 to 31 are the *flow*: all that a route is decided on, so that it is decided once per flow and link.
Every function takes the bytes that hold the frame and the place where the frame begins.
"""

import struct
from collections.abc import Iterator
from typing import Final

import numpy as np

from stentor.model.ids import PublisherId, SchemaId, TopicId
from stentor.model.ranges import LAST_NUMBER

Buffer = bytes | memoryview

HEADER: Final = struct.Struct("<IBBBBQQQQQqII")
HEADER_SIZE: Final = HEADER.size
assert HEADER_SIZE == 64

SPARSE: Final = 1  # u16 offsets follow the head: catenation numbers are contiguous only until a filter selects
UNIFORM: Final = 2  # all bodies have one length
TIMES: Final = 4  # every event has a time of its own
FLAGS: Final = SPARSE | UNIFORM | TIMES

LARGEST_COUNT: Final = 65535
LAST_FIRST: Final = LAST_NUMBER - LARGEST_COUNT  # whatever follows this first number in its frame has a number, too

FLOW: Final = slice(4, 32)
LENGTH_AND_COUNT: Final = struct.Struct("<I28xH")
LENGTH_SCHEMA_AND_COUNT: Final = struct.Struct("<I20xQH")
PUBLISHER_AND_FIRST: Final = struct.Struct("<16xQ16xQ")

# A head as numpy sees it, for many frames at once. `shared` is what frames of a run may have in common, `own` the rest.
HEAD: Final = np.dtype(
    {
        "names": [
            "shared",
            "length",
            "flags",
            "source",
            "schema",
            "count",
            "incarnation",
            "own",
            "catenation",
            "time",
            "columns",
            "checksum",
        ],
        "formats": ["V40", "<u4", "u1", "V16", "<u8", "<u2", "V6", "V20", "<u8", "<i8", "<u4", "<u4"],
        "offsets": [0, 0, 6, 8, 24, 32, 34, 40, 40, 48, 56, 60],
        "itemsize": HEADER_SIZE,
    }
)

_U16: Final = struct.Struct("<H")
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")


def length_of(data: Buffer, at: int = 0) -> int:
    length: int = _U32.unpack_from(data, at)[0]
    return length


def topic_of(data: Buffer, at: int = 0) -> TopicId:
    return TopicId(_U64.unpack_from(data, at + 8)[0])


def schema_of(data: Buffer, at: int = 0) -> SchemaId:
    return SchemaId(_U64.unpack_from(data, at + 24)[0])


def count_of(data: Buffer, at: int = 0) -> int:
    count: int = _U16.unpack_from(data, at + 32)[0]
    return count


def checksum_of(data: Buffer, at: int = 0) -> int:
    checksum: int = _U32.unpack_from(data, at + 60)[0]
    return checksum


def flow_of(data: bytes, at: int = 0) -> bytes:
    return data[at + 4 : at + 32]


def sealed(data: Buffer, at: int = 0) -> bytes:
    """Return what of the head its checksum covers: all but the length, the reserved byte and the checksum itself."""
    return bytes(data[at + 4 : at + 7]) + bytes(data[at + 8 : at + 60])


def sealed_flow(data: bytes, at: int = 0) -> bytes:
    """Return the part of `sealed` that frames of one flow, count and incarnation have in common."""
    return data[at + 4 : at + 7] + data[at + 8 : at + 40]


def source_of(data: Buffer, at: int = 0) -> bytes:
    """Return topic, publisher and incarnation, whose events are numbered together, as a key."""
    return bytes(data[at + 8 : at + 24]) + bytes(data[at + 34 : at + 40])


def time_bytes_of(data: Buffer, at: int = 0) -> bytes:
    return bytes(data[at + 48 : at + 56])


def derived(data: Buffer, at: int, length: int, flags: int, count: int, columns_length: int) -> bytes:
    """Return the head, without its checksum, of a frame of some events of the frame that begins at `at`."""
    return b"".join(
        (
            length.to_bytes(4, "little"),
            data[at + 4 : at + 6],
            bytes((flags, 0)),
            data[at + 8 : at + 32],
            count.to_bytes(2, "little"),
            data[at + 34 : at + 56],
            columns_length.to_bytes(4, "little"),
        )
    )


def topic_and_schema_of(data: bytes, at: int = 0) -> bytes:
    """Return the bytes of both, as a key."""
    return data[at + 8 : at + 16] + data[at + 24 : at + 32]


def last_offset_of(data: Buffer, at: int = 0) -> int:
    """Return how far the last event's catenation number is above the first one's."""
    count = count_of(data, at)
    end = at + HEADER_SIZE + 2 * count
    return int.from_bytes(data[end - 2 : end], "little") if data[at + 6] & SPARSE else count - 1


def frames_of(data: Buffer, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield place, length and number of events of each frame of a run whose lengths were checked before."""
    unpack = LENGTH_AND_COUNT.unpack_from
    while start < end:
        length, count = unpack(data, start)
        yield start, length, count
        start += length


# ---- flows, as keys of their own


def flags_of_flow(flow: bytes) -> int:
    return flow[2]


def reserved_of_flow(flow: bytes) -> int:
    return flow[3]


def topic_of_flow(flow: bytes) -> TopicId:
    return TopicId(_U64.unpack_from(flow, 4)[0])


def publisher_of_flow(flow: bytes) -> PublisherId:
    return PublisherId(_U64.unpack_from(flow, 12)[0])


def schema_of_flow(flow: bytes) -> SchemaId:
    return SchemaId(_U64.unpack_from(flow, 20)[0])
