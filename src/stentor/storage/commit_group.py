"""Commit group: what one commit leaves in a segment file. Little-endian; positions count all bytes the log ever had.

    group     "STG" u8 version | u32 items | u64 size | u64 durable | u64 start | u64 floor | u64 next
              u64 seal of the labels' seals | u64 seal | item …
    item      label | key | content
    label     u8 type | u8 kind | u16 0 | u32 key's length | u32 content's length | u64 sequence | u64 length
              u64 publisher | u64 incarnation | u64 first | i64 time | u64 digest
              u64 seal of key and content | u64 seal

Everything in front of `durable` was known to be on the disk when the group was written, and everything from `start` on
is needed; records up to `floor` are forgotten, `next` was never used. A seal is XXH3 with the position as seed, so that
neither zeros nor what an earlier life left in a recycled file pass for ours. Labels have seals of their own, so that a
rotten body does not hide what it was; the seal of these seals keeps a group from being whole with items of another one
that was torn in the same place.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest as seal

from stentor.model.stored.record import Entry, Fact, Record, RecordHeader, RecordKind, Row
from stentor.storage.annex import decode_annex, encode_annex

MAGIC: Final = b"STG\x01"
_HEADER = struct.Struct("<4sIQQQQQQQ")
_LABEL = struct.Struct("<BBHIIQQQQQqQQQ")
HEADER_SIZE: Final = _HEADER.size
LABEL_SIZE: Final = _LABEL.size

RECORD: Final = 0
FACT: Final = 1
NO_FACT: Final = 2  # what its key says is not so any more
ROW: Final = 3
GONE: Final = 4  # rows of this stream up to `first` go, as far as none of their events is here

_KINDS: Final = tuple(RecordKind)  # by number, which is quicker than to ask for it
_NO_LINE: Final = RecordHeader(0, 0, 0, 0, 0, RecordKind.EVENTS)


Place = tuple[int, int]  # the position of an item, and its size


class Gone(NamedTuple):
    """Rows of a stream up to this catenation number were forgotten, as far as none of their events was here."""

    publisher: int
    incarnation: int
    last: int


class Item(NamedTuple):
    """An entry where it lies in the log. What is not sound is damaged, and its key and content mean nothing."""

    position: int
    size: int
    type: int
    line: RecordHeader
    time: int
    sound: bool
    key: bytes
    content: bytes

    def record(self) -> Record:
        audience, stored = decode_annex(self.key, self.time)
        return Record(self.line, self.content, audience, self.time, stored)

    def entry(self) -> Fact | Row | Gone:
        """What it is, if it is no record."""
        if self.type == ROW:
            return Row(self.key.decode(), self.line)
        if self.type == GONE:
            return Gone(self.line.publisher, self.line.incarnation, self.line.first)
        return Fact(self.key.decode(), self.content if self.type == FACT else None)


class LogState(NamedTuple):
    """What every commit group says about the whole log."""

    durable: int
    start: int
    floor: int
    next: int


class CommitGroup(NamedTuple):
    """A group as it was read. One that is not whole is torn, or damaged; without its labels it has no items."""

    position: int
    size: int
    state: LogState
    items: list[Item]
    whole: bool
    legible: bool

    @property
    def end(self) -> int:
        return self.position + self.size


def encode(entries: Iterable[Entry | Gone], position: int, state: LogState) -> tuple[bytes, list[Place]]:
    """A group at this position, and where each entry lies."""
    parts = [b""]
    seals: list[bytes] = []
    places: list[Place] = []
    at = position + HEADER_SIZE
    for entry in entries:
        kind, line, time, key, content = _parts(entry)
        label = _LABEL.pack(
            kind,
            line.kind,
            0,
            len(key),
            len(content),
            line.sequence,
            line.length,
            line.publisher,
            line.incarnation,
            line.first,
            time,
            line.digest,
            seal(content, seed=seal(key, seed=at)),
            0,
        )[:-8]
        seals.append(seal(label, seed=at).to_bytes(8, "little"))
        parts += (label, seals[-1], key, content)
        size = LABEL_SIZE + len(key) + len(content)
        places.append((at, size))
        at += size
    header = _HEADER.pack(MAGIC, len(places), at - position, *state, seal(b"".join(seals)), 0)[:-8]
    parts[0] = header + seal(header, seed=position).to_bytes(8, "little")
    return b"".join(parts), places


def _parts(entry: Entry | Gone) -> tuple[int, RecordHeader, int, bytes, bytes]:
    match entry:
        case Record(line, frame, audience, time, stored):
            return RECORD, line, time, encode_annex(audience, stored), frame
        case Fact(key, value):
            return (
                (NO_FACT, _NO_LINE, 0, key.encode(), b"") if value is None else (FACT, _NO_LINE, 0, key.encode(), value)
            )
        case Row(repository, line):
            return ROW, line, 0, repository.encode(), b""
        case Gone(publisher, incarnation, last):
            return GONE, RecordHeader(0, 0, publisher, incarnation, last, RecordKind.EVENTS), 0, b"", b""


class Header(NamedTuple):
    items: int
    size: int
    state: LogState
    labels: int  # the seal of their seals


def read_header(data: bytes, at: int, position: int) -> Header | None:
    """The header of a group, if there is one at `at` of these bytes."""
    if data[at : at + 4] != MAGIC or len(data) - at < HEADER_SIZE:
        return None
    _, items, size, durable, start, floor, following, labels, found = _HEADER.unpack_from(data, at)
    if found != seal(data[at : at + HEADER_SIZE - 8], seed=position) or durable > position:
        return None
    return Header(items, size, LogState(durable, start, floor, following), labels)


def read_item(data: bytes, at: int, position: int) -> Item | None:
    """The item that lies at `at` of these bytes; None if not even its label can be read."""
    if len(data) - at < LABEL_SIZE:
        return None
    (
        kind,
        line_kind,
        _,
        key_length,
        content_length,
        sequence,
        length,
        publisher,
        incarnation,
        first,
        time,
        digest,
        body,
        found,
    ) = _LABEL.unpack_from(data, at)
    if found != seal(data[at : at + LABEL_SIZE - 8], seed=position):
        return None
    line = RecordHeader(sequence, length, publisher, incarnation, first, _KINDS[line_kind], digest)
    middle = at + LABEL_SIZE + key_length
    key, content = data[at + LABEL_SIZE : middle], data[middle : middle + content_length]
    sound = (
        len(key) == key_length
        and len(content) == content_length
        and body == seal(content, seed=seal(key, seed=position))
    )
    return Item(position, LABEL_SIZE + key_length + content_length, kind, line, time, sound, key, content)


def read_group(data: bytes, position: int) -> CommitGroup | None:
    """The group that these bytes are; None if not even its header can be read."""
    header = read_header(data, 0, position)
    if header is None:
        return None
    items: list[Item] = []
    seals: list[bytes] = []
    at = HEADER_SIZE
    while len(items) < header.items and (item := read_item(data, at, position + at)) is not None:
        seals.append(data[at + LABEL_SIZE - 8 : at + LABEL_SIZE])
        items.append(item)
        at += item.size
    if len(items) < header.items or seal(b"".join(seals)) != header.labels:
        return CommitGroup(position, header.size, header.state, [], whole=False, legible=False)
    return CommitGroup(position, header.size, header.state, items, all(item.sound for item in items), legible=True)
