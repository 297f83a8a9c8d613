"""Blocks: a batch of events of one flow. Immutable; the same bytes are wire payload, log record and Spark input.

     0 the head: length, flow, numbers, time, checksum         see head.py
    64 SPARSE: u16 offset[count]                               catenation numbers are contiguous until a filter selects
       TIMES: i64 time[count]                                  where a filter joined what came at different times
       columns: u8 all-there, else bitmap; i64/f64/u8[count], or u16 entries, u16 code[count], u32 end[entries], text
       u32 body length, [count] of them unless UNIFORM | bodies

The checksum covers everything but the length, the reserved byte and itself, so relays never touch it.
"""

import struct
import unicodedata
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from stentor.model.attribute import Kind, Schema, Value
from stentor.model.column import Column
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, TopicId
from stentor.wire.frame import EVENTS, VERSION
from stentor.wire.head import (
    HEADER,
    HEADER_SIZE,
    LAST_FIRST,
    SPARSE,
    TIMES,
    UNIFORM,
    checksum_of,
    derived,
    sealed,
    time_bytes_of,
)

_DTYPE = {Kind.BOOLEAN: np.dtype("?"), Kind.INTEGER: np.dtype("<i8"), Kind.DECIMAL: np.dtype("<f8")}
_LETTER = {Kind.BOOLEAN: "?", Kind.INTEGER: "q", Kind.DECIMAL: "d"}
_NOTHING: dict[Kind, Value] = {Kind.BOOLEAN: False, Kind.INTEGER: 0, Kind.DECIMAL: 0.0}


class Origin:
    """Where a batch comes from: topic, publisher and the numbers it continues with."""

    __slots__ = ("first", "incarnation", "publisher", "time", "topic")

    def __init__(
        self, topic: TopicId, publisher: PublisherId, incarnation: Incarnation, first: CatenationNumber, time: int
    ) -> None:
        self.topic = topic
        self.publisher = publisher
        self.incarnation = incarnation
        self.first = first
        self.time = time


def encode(origin: Origin, schema: Schema, columns: Sequence[Sequence[Value | None]], bodies: Sequence[bytes]) -> bytes:
    """One events frame of events with contiguous catenation numbers."""
    packed = [_pack_values(kind, column) for kind, column in zip(schema.kinds, columns, strict=True)]
    return assemble(origin, schema, packed, bodies)


def assemble(
    origin: Origin,
    schema: Schema,
    columns: Sequence[bytes],
    bodies: Sequence[bytes | memoryview],
    offsets: Sequence[int] = (),
    times: Sequence[int] = (),
) -> bytes:
    """One events frame of packed columns. `offsets` are the catenation numbers above `origin.first`, if they are not
    0, 1, 2 …; `times` the times of the events, if they are not all `origin.time`.
    """
    count = len(bodies)
    flags = 0
    parts: list[bytes | memoryview] = []
    if offsets and offsets[-1] != count - 1:
        flags |= SPARSE
        parts.append(struct.pack(f"<{count}H", *offsets))
    if times:
        flags |= TIMES
        parts.append(struct.pack(f"<{count}q", *times))
    parts += columns
    sizes = list(map(len, bodies))
    if sizes.count(sizes[0]) == count:
        flags |= UNIFORM
        parts.append(sizes[0].to_bytes(4, "little"))
    else:
        parts.append(struct.pack(f"<{count}I", *sizes))
    parts += bodies
    return seal(origin, schema.id, count, flags, sum(map(len, columns)), b"".join(parts))


def seal(origin: Origin, schema: int, count: int, flags: int, columns_length: int, payload: bytes) -> bytes:
    """Header, checksum and payload as one frame."""
    head = HEADER.pack(
        HEADER_SIZE + len(payload),
        EVENTS,
        VERSION,
        flags,
        0,
        origin.topic,
        origin.publisher,
        schema,
        count | origin.incarnation << 16,
        origin.first,
        origin.time,
        columns_length,
        0,
    )
    return with_checksum(head, payload)


def with_checksum(head: bytes, payload: bytes) -> bytes:
    """Return a head and a payload as one frame, with the checksum of both in its place."""
    return b"".join((head[:60], checksum(head, payload).to_bytes(4, "little"), payload))


def compose(
    data: bytes | memoryview,
    at: int,
    count: int,
    offsets: bytes,
    times: bytes,
    columns: Sequence[bytes],
    sizes: bytes,
    bodies: bytes,
) -> bytes:
    """One events frame of packed parts; flow, incarnation, first number and time are those of the frame at `at`.
    There are no offsets if the numbers are contiguous, and one size if all bodies have it.
    """
    if times == time_bytes_of(data, at) * count:
        times = b""
    payload = b"".join((offsets, times, *columns, sizes, bodies))
    flags = bool(offsets) * SPARSE | (len(sizes) == 4) * UNIFORM | bool(times) * TIMES
    head = derived(data, at, HEADER_SIZE + len(payload), flags, count, sum(map(len, columns)))
    return b"".join((head, checksum(head, payload).to_bytes(4, "little"), payload))


def checksum(head: bytes, payload: bytes | memoryview) -> int:
    return xxh3_64_intdigest(payload, seed=xxh3_64_intdigest(sealed(head))) & 0xFFFFFFFF


def _pack_values(kind: Kind, column: Sequence[Value | None]) -> bytes:
    missing = None in column
    validity = b"\1"
    if missing:
        bits = np.fromiter((value is not None for value in column), bool, len(column))
        validity = b"\0" + np.packbits(bits, bitorder="little").tobytes()
    if kind is Kind.STRING:
        return validity + _pack_strings(column)
    if missing:
        nothing = _NOTHING[kind]
        column = [nothing if value is None else value for value in column]
    return validity + struct.pack(f"<{len(column)}{_LETTER[kind]}", *column)


def _pack_strings(column: Sequence[Value | None]) -> bytes:
    codes: dict[str, int] = {}
    code = [codes.setdefault("" if value is None else value, len(codes)) for value in column]  # type: ignore[arg-type]
    # one spelling for what looks the same, here at the edge, so that filters need not care
    texts = [text if text.isascii() else unicodedata.normalize("NFC", text) for text in codes]
    return _pack_dictionary(texts, struct.pack(f"<{len(code)}H", *code))


def _pack_dictionary(texts: Sequence[str], codes: bytes) -> bytes:
    encoded = [text.encode() for text in texts]
    ends = struct.pack(f"<{len(encoded)}I", *accumulate(map(len, encoded)))
    return b"".join((len(encoded).to_bytes(2, "little"), codes, ends, *encoded))


def pack_column(column: Column) -> bytes:
    """A column as it stands in a frame; a dictionary keeps only the texts that are in use."""
    validity = b"\1"
    if column.valid is not None:
        validity = b"\0" + np.packbits(column.valid, bitorder="little").tobytes()
    if column.kind is not Kind.STRING:
        return validity + column.values.tobytes()
    used, codes = np.unique(column.values, return_inverse=True)
    texts = [column.dictionary[code] for code in used.tolist()]
    return validity + _pack_dictionary(texts, codes.astype("<u2").tobytes())


class Block:
    """A read-only view of one events frame; everything is decoded when asked for, and only that."""

    __slots__ = (
        "_bodies",
        "_columns",
        "_payload",
        "catenation",
        "columns_length",
        "count",
        "flags",
        "frame",
        "incarnation",
        "publisher",
        "schema",
        "schema_id",
        "time",
        "topic",
    )

    count: int
    flags: int
    columns_length: int
    catenation: CatenationNumber
    time: int
    topic: TopicId
    publisher: PublisherId
    incarnation: Incarnation

    def __init__(self, frame: bytes | memoryview, schema: Schema) -> None:
        """`frame` is one whole events frame without envelope; its sizes are checked here, once, before all else."""
        length, _, _, flags, _, topic, publisher, schema_id, packed, first, time, columns, _ = HEADER.unpack_from(frame)
        self.flags = flags
        self.topic = topic
        self.publisher = publisher
        self.schema_id = schema_id
        self.count = packed & 0xFFFF
        self.incarnation = packed >> 16
        self.catenation = first
        self.time = time
        self.columns_length = columns
        assert length == len(frame), "whole frames only"
        self.frame = frame
        self.schema = schema
        self._payload = HEADER_SIZE
        if self.flags & (SPARSE | TIMES):
            self._payload += self.count * ((2 if self.flags & SPARSE else 0) + (8 if self.flags & TIMES else 0))
        self._columns: list[tuple[int, int]] | None = None
        self._bodies: list[int] | None = None
        if not self.count or self._payload + self.columns_length > length:
            raise FrameError(Refusal.CORRUPT, "an events frame whose parts do not fit into it")

    def __repr__(self) -> str:
        return f"Block({self.publisher:x}/{self.incarnation}: {self.catenation} to {self.last()})"

    def check(self) -> None:
        """Refuse a block that could not be decoded, now rather than in the hands of an application."""
        if self.catenation > LAST_FIRST:
            raise FrameError(Refusal.CORRUPT, f"an events frame whose first number is {self.catenation}")
        if self.flags & SPARSE:
            self.offsets()
        if self.flags & UNIFORM:
            self._common_size()  # whoever only stores or forwards bodies needs no list of their places
        else:
            self.bounds()
        places = self._places()
        for name, kind, (start, _) in zip(self.schema.names, self.schema.kinds, places, strict=True):
            if kind is Kind.STRING and self.count == 1:
                self._text(start + 1 + (not self.frame[start]))
            elif kind is Kind.STRING:
                self.column(name)

    def verify(self) -> None:
        """Refuse a block whose bytes changed since its publisher sealed it."""
        head = bytes(self.frame[:HEADER_SIZE])
        if checksum(head, memoryview(self.frame)[HEADER_SIZE:]) != checksum_of(head):
            raise FrameError(Refusal.CORRUPT, "an events frame was damaged on the way")

    @property
    def origin(self) -> Origin:
        return Origin(self.topic, self.publisher, self.incarnation, self.catenation, self.time)

    def offsets(self) -> Sequence[int]:
        """Each event's catenation number above that of the first number of the block."""
        if self.flags & SPARSE:
            offsets = struct.unpack_from(f"<{self.count}H", self.frame, HEADER_SIZE)
            if any(first >= second for first, second in pairwise(offsets)):
                raise FrameError(Refusal.CORRUPT, "catenation numbers that do not grow")
            return offsets
        return range(self.count)

    def last(self) -> CatenationNumber:
        """The highest catenation number in the block."""
        if self.flags & SPARSE:
            (offset,) = struct.unpack_from("<H", self.frame, HEADER_SIZE + 2 * self.count - 2)
            return CatenationNumber(self.catenation + offset)
        return CatenationNumber(self.catenation + self.count - 1)

    def times(self) -> Sequence[int]:
        """When each event was published, in nanoseconds since 1970."""
        if self.flags & TIMES:
            return struct.unpack_from(f"<{self.count}q", self.frame, self._payload - 8 * self.count)
        return (self.time,) * self.count

    def body(self, index: int) -> bytes:
        """One event's body."""
        return bytes(self.take_bodies([index])[0])

    def take_bodies(self, rows: Sequence[int]) -> list[bytes | memoryview]:
        """The bodies of some events."""
        frame = self.frame
        if not self.flags & UNIFORM:
            bounds = self.bounds()
            return [frame[bounds[row] : bounds[row + 1]] for row in rows]
        at, size = self._payload + self.columns_length + 4, self._common_size()
        return [frame[at + size * row : at + size * row + size] for row in rows]

    def _common_size(self) -> int:
        """Return the length that all bodies have; refuse a block that they do not fill."""
        at = self._payload + self.columns_length + 4
        size = int.from_bytes(self.frame[at - 4 : at], "little")
        if at + size * self.count != len(self.frame):
            raise FrameError(Refusal.CORRUPT, "bodies that do not fill their events frame")
        return size

    def bodies(self) -> list[bytes]:
        bounds, frame = self.bounds(), bytes(self.frame)
        return [frame[start:end] for start, end in pairwise(bounds)]

    def bounds(self) -> list[int]:
        """Where each body begins, and where the last one ends."""
        if self._bodies is None:
            at = self._payload + self.columns_length
            if self.flags & UNIFORM:
                size, at = self._common_size(), at + 4
                self._bodies = list(range(at, len(self.frame) + 1, size)) if size else [at] * (self.count + 1)
                return self._bodies
            try:
                sizes = struct.unpack_from(f"<{self.count}I", self.frame, at)
            except struct.error:
                raise FrameError(Refusal.CORRUPT, "an events frame too short for its bodies") from None
            self._bodies = list(accumulate(sizes, initial=at + 4 * self.count))
            if self._bodies[-1] != len(self.frame):
                self._bodies = None
                raise FrameError(Refusal.CORRUPT, "bodies that do not fill their events frame")
        return self._bodies

    def _places(self) -> list[tuple[int, int]]:
        """Where each column begins and ends."""
        if self._columns is None:
            places = []
            at, end = self._payload, self._payload + self.columns_length
            try:
                for kind in self.schema.kinds:
                    start = at
                    at += 1 + (0 if self.frame[at] else (self.count + 7) // 8)
                    if kind is Kind.STRING:
                        (entries,) = struct.unpack_from("<H", self.frame, at)
                        at += 2 + 2 * self.count + 4 * entries
                        at += struct.unpack_from("<I", self.frame, at - 4)[0] if entries else 0
                    else:
                        at += _DTYPE[kind].itemsize * self.count
                    places.append((start, at))
            except (struct.error, IndexError):
                raise FrameError(Refusal.CORRUPT, "columns that do not fit into their events frame") from None
            if at != end:
                raise FrameError(Refusal.CORRUPT, "columns that do not fill their events frame")
            self._columns = places
        return self._columns

    def column(self, name: str) -> Column | None:
        """One attribute of every event, as arrays; None if this block's schema has no such attribute."""
        try:
            position = self.schema.names.index(name)
        except ValueError:
            return None
        at, _ = self._places()[position]
        kind = self.schema.kinds[position]
        valid: NDArray[np.bool_] | None = None
        if not self.frame[at]:
            size = (self.count + 7) // 8
            bits = np.frombuffer(self.frame, np.uint8, size, at + 1)
            valid = np.unpackbits(bits, count=self.count, bitorder="little").view(np.bool_)
            at += size
        at += 1
        if kind is not Kind.STRING:
            return Column(kind, np.frombuffer(self.frame, _DTYPE[kind], self.count, at), valid)
        return self._strings(at, valid)

    def _strings(self, at: int, valid: NDArray[np.bool_] | None) -> Column:
        (entries,) = struct.unpack_from("<H", self.frame, at)
        codes = np.frombuffer(self.frame, "<u2", self.count, at + 2)
        at += 2 + 2 * self.count
        ends = struct.unpack_from(f"<{entries}I", self.frame, at)
        at += 4 * entries
        if any(first > second for first, second in pairwise(ends)):
            raise FrameError(Refusal.CORRUPT, "a dictionary whose texts overlap")
        try:
            texts = tuple(
                str(self.frame[at + start : at + end], "utf-8") for start, end in zip((0, *ends), ends, strict=False)
            )
        except UnicodeDecodeError:
            raise FrameError(Refusal.CORRUPT, "a string attribute that is not UTF-8") from None
        if entries == 0 or int(codes.max()) >= entries:
            raise FrameError(Refusal.CORRUPT, "a string attribute outside its dictionary")
        return Column(Kind.STRING, codes, valid, texts)

    def _text(self, at: int) -> str:
        """The value of a lone event; nearly always the only entry of its dictionary."""
        frame = self.frame
        if frame[at : at + 4] != b"\1\0\0\0":  # one entry, code 0
            column = self._strings(at, None)
            return column.dictionary[int(column.values[0])]
        size = int.from_bytes(frame[at + 4 : at + 8], "little")
        try:
            return str(frame[at + 8 : at + 8 + size], "utf-8")
        except UnicodeDecodeError:
            raise FrameError(Refusal.CORRUPT, "a string attribute that is not UTF-8") from None

    def excerpt(self, rows: NDArray[np.intp]) -> bytes:
        """A frame of some of its events; verified, since a new checksum must not vouch for bytes damaged before."""
        return self._part(rows, 0)

    def halves(self) -> tuple[bytes, bytes]:
        """Two frames of its events, each numbered from its own first event on, as if they had been sent so."""
        rows, numbers = np.arange(self.count), self.offsets()
        half = self.count // 2
        return self._part(rows[:half], numbers[0]), self._part(rows[half:], numbers[half])

    def _part(self, rows: NDArray[np.intp], base: int) -> bytes:
        """A frame of some of its events, whose own number is that much higher."""
        self.verify()
        columns = [column for name in self.schema.names if (column := self.column(name)) is not None]
        packed = [pack_column(column.take(rows)) for column in columns]
        indices, numbers = rows.tolist(), self.offsets()
        times: list[int] = []
        if self.flags & TIMES:
            moments = self.times()
            times = [moments[index] for index in indices]
            times = [] if times.count(self.time) == len(times) else times
        offsets = [numbers[index] - base for index in indices]
        origin = self.origin
        origin.first = CatenationNumber(origin.first + base)
        return assemble(origin, self.schema, packed, self.take_bodies(indices), offsets, times)

    def rows(self) -> list[dict[str, Value]]:
        """The attributes of every event."""
        if self.count == 1:
            return [self._only_row()]
        lists = [column.to_list() for name in self.schema.names if (column := self.column(name)) is not None]
        names = self.schema.names
        if not names:
            return [{} for _ in range(self.count)]
        return [
            {name: value for name, value in zip(names, row, strict=True) if value is not None}
            for row in zip(*lists, strict=True)
        ]

    def _only_row(self) -> dict[str, Value]:
        """The attributes of the event of a block of one, without arrays: they cost more than they save."""
        row: dict[str, Value] = {}
        frame = self.frame
        for name, kind, (start, _) in zip(self.schema.names, self.schema.kinds, self._places(), strict=True):
            bitmap = not frame[start]
            if bitmap and not frame[start + 1] & 1:
                continue
            at = start + 1 + bitmap
            if kind is Kind.STRING:
                row[name] = self._text(at)
            else:
                (row[name],) = struct.unpack_from(f"<{_LETTER[kind]}", frame, at)
        return row
