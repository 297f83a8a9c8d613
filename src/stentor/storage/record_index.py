"""The record index: where each record lies in a log. A million headers are in arrays: 57 bytes each, no objects."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stentor.model.stored.record import RecordHeader, RecordKind, Row, StreamId
from stentor.model.stored.record_columns import LONGEST, RecordColumns
from stentor.storage.commit_group import Place
from stentor.storage.summary import LedgerSummary

_DAMAGED: Final = 255  # in place of a kind
_FEW_STREAMS: Final = 1024  # that are not worth a look at which of them are still in use
NOWHERE: Final[Place] = (0, 0)  # for what is in no log


class StreamNumbers:
    """A small number for each stream."""

    __slots__ = ("_names", "_numbers")

    def __init__(self) -> None:
        self._numbers: dict[StreamId, int] = {}
        self._names: list[StreamId] = []

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, number: int) -> StreamId:
        return self._names[number]

    def number(self, stream: StreamId) -> int:
        number = self._numbers.get(stream)
        if number is None:
            number = self._numbers[stream] = len(self._names)
            self._names.append(stream)
        return number

    def renumber(self, used: NDArray[np.integer[Any]]) -> NDArray[np.uint32]:
        """Forget all streams but those with these numbers, which are sorted; return the new number of each old one."""
        numbers = np.zeros(len(self._names), np.uint32)
        numbers[used] = np.arange(len(used), dtype=np.uint32)
        self._names = [self._names[number] for number in used.tolist()]
        self._numbers = {name: number for number, name in enumerate(self._names)}
        return numbers


class Lines:
    """Record headers by sequence number, with their places in the log."""

    __slots__ = (
        "_columns",
        "_streams",
        "digest",
        "first",
        "kind",
        "length",
        "position",
        "sequence",
        "size",
        "stream",
        "time",
    )

    def __init__(self, streams: StreamNumbers) -> None:
        self._streams = streams
        self.sequence = array("Q")
        self.length = array("Q")
        self.first = array("Q")
        self.digest = array("Q")
        self.position = array("Q")
        self.size = array("I")
        self.time = array("q")
        self.stream = array("I")
        self.kind = array("B")
        self._columns: tuple[array[Any], ...] = (
            self.sequence,
            self.length,
            self.first,
            self.digest,
            self.position,
            self.size,
            self.time,
            self.stream,
            self.kind,
        )

    def __len__(self) -> int:
        return len(self.sequence)

    def line(self, at: int) -> RecordHeader:
        """A damaged one is as good as reserved."""
        kind = RecordKind.RESERVED if self.is_damaged(at) else RecordKind(self.kind[at])
        publisher, incarnation = self._streams[self.stream[at]]
        return RecordHeader(
            self.sequence[at], self.length[at], publisher, incarnation, self.first[at], kind, self.digest[at]
        )

    def end(self, at: int) -> int:
        return self.sequence[at] + self.length[at] - 1

    def place(self, at: int) -> Place:
        return self.position[at], self.size[at]

    def is_damaged(self, at: int) -> bool:
        return self.kind[at] == _DAMAGED

    def put_at(self, start: int, end: int, line: RecordHeader, place: Place, time: int = 0) -> None:
        """In place of those from `start` to `end`, which may be none."""
        if start == len(self.sequence):
            self._append(line, place, time)
            return
        values = (
            line.sequence,
            line.length,
            line.first,
            line.digest,
            *place,
            time,
            self._streams.number(line.stream),
            line.kind,
        )
        for column, value in zip(self._columns, values, strict=True):
            column[start:end] = array(column.typecode, (value,))

    def _append(self, line: RecordHeader, place: Place, time: int) -> None:
        """Column by column by hand, since a million of them are when a log is opened."""
        sequence, length, publisher, incarnation, first, kind, digest = line
        self.sequence.append(sequence)
        self.length.append(length)
        self.first.append(first)
        self.digest.append(digest)
        self.position.append(place[0])
        self.size.append(place[1])
        self.time.append(time)
        self.stream.append(self._streams.number((publisher, incarnation)))
        self.kind.append(kind)

    def delete(self, end: int) -> None:
        """The first ones."""
        for column in self._columns:
            del column[:end]

    def keep(self, mask: NDArray[np.bool_]) -> None:
        for column in self._columns:
            kept = np.array(column)[mask].tobytes()
            del column[:]
            column.frombytes(kept)

    def renumber(self, numbers: NDArray[np.uint32]) -> None:
        """Streams have other numbers now."""
        self.stream[:] = array("I", numbers[np.array(self.stream)].tobytes())

    def within(self, start: int, end: int) -> list[int]:
        """Those that lie between these positions of the log."""
        position = np.array(self.position)
        found: list[int] = np.flatnonzero((position >= start) & (position < end)).tolist()
        return found

    def weights(self, bases: NDArray[np.uint64]) -> NDArray[np.float64]:
        """How many bytes of the segments that begin at these positions are in use."""
        return weigh(bases, np.array(self.position), np.array(self.size))


def weigh(
    bases: NDArray[np.uint64], positions: NDArray[np.integer[Any]], sizes: NDArray[np.integer[Any]]
) -> NDArray[np.float64]:
    """The sizes of what lies in each segment, added up."""
    owners = np.searchsorted(bases, positions, "right") - 1
    return np.bincount(owners, sizes.astype(np.float64), len(bases)).astype(np.float64)


class RecordIndex(Lines):
    """The records of a ledger; none overlaps another."""

    __slots__ = ()

    def put(self, line: RecordHeader, place: Place, time: int, damaged: bool = False) -> None:
        """Replaces what it overlaps."""
        start = end = len(self)
        if start and line.sequence <= self.end(-1):
            start, end = self.overlapped(line)
        self.put_at(start, end, line, place, time)
        if damaged:
            self.spoil(start)

    def extend(self, chapter: RecordColumns, time: NDArray[np.int64]) -> None:
        """Many at once, behind all that are there, of which nobody knows where they lie."""
        changes = np.flatnonzero(np.diff(chapter.publisher) | np.diff(chapter.incarnation)) + 1
        begins = np.r_[0, changes]
        names = zip(chapter.publisher[begins].tolist(), chapter.incarnation[begins].tolist(), strict=True)
        numbers = np.array([self._streams.number(name) for name in names], np.uint32)
        streams = np.repeat(numbers, np.diff(np.r_[begins, len(time)]))
        nowhere = np.zeros(len(time), np.uint64)
        columns: tuple[NDArray[Any], ...] = (
            chapter.sequence,
            chapter.length,
            chapter.first,
            chapter.digest,
            nowhere,
            nowhere.astype(np.uint32),
            time,
            streams,
            chapter.kind,
        )
        for column, more in zip(self._columns, columns, strict=True):
            column.frombytes(more.tobytes())

    def spoil(self, at: int) -> None:
        """Its contents cannot be read."""
        self.kind[at] = _DAMAGED

    def locate(self, sequence: int) -> int:
        """The record that holds this number, or the next one."""
        at = bisect_right(self.sequence, sequence) - 1
        return at if at >= 0 and self.end(at) >= sequence else at + 1

    def overlapped(self, line: RecordHeader) -> tuple[int, int]:
        """Where those begin and end that have numbers in common with this one."""
        return self.locate(line.sequence), bisect_right(self.sequence, line.end)

    def __iter__(self) -> Iterator[RecordHeader]:
        return (line for chapter in self.chapters() for line in chapter.lines())

    def chapters(self) -> Iterator[RecordColumns]:
        """They are made when they are asked for, and may change meanwhile."""
        sequence = 0
        while (start := self.locate(sequence)) < len(self):
            chapter = self._chapter(slice(start, start + LONGEST))
            yield chapter
            sequence = int(chapter.sequence[-1] + chapter.length[-1])

    def _chapter(self, part: slice) -> RecordColumns:
        names = np.array([self._streams[number] for number in range(len(self._streams))], np.uint64)
        publisher, incarnation = names[np.array(self.stream[part])].T
        kind = np.array(self.kind[part])
        kind[kind == _DAMAGED] = RecordKind.RESERVED
        sequence, length = np.array(self.sequence[part]), np.array(self.length[part])
        first, digest = np.array(self.first[part]), np.array(self.digest[part])
        return RecordColumns(sequence, length, publisher, incarnation, first, kind, digest)

    def summary(self, start: int, end: int) -> LedgerSummary:
        """Those between these places."""
        return LedgerSummary(self._chapter(slice(start, end)), np.array(self.time[start:end]))

    def find(self, time: int) -> int | None:
        """The first sequence number of the first record of this time or later."""
        kind = np.array(self.kind)
        found = np.flatnonzero((np.array(self.time) >= time) & ((kind == RecordKind.EVENTS) | (kind == _DAMAGED)))
        return self.sequence[int(found[0])] if len(found) else None

    def forget(self, end: int) -> dict[StreamId, int]:
        """Those that end at or before this sequence number; returns the last catenation numbers of their streams."""
        count = bisect_right(self.sequence, end)
        if count and self.end(count - 1) > end:
            count -= 1
        if not count:
            return {}
        last = np.array(self.first[:count]) + np.array(self.length[:count]) - np.uint64(1)
        highest = np.zeros(len(self._streams), np.uint64)
        noted = np.array(self.kind[:count]) != RecordKind.NOTE  # a note is no event
        np.maximum.at(highest, np.array(self.stream[:count])[noted], last[noted])
        self.delete(count)
        return {self._streams[number]: int(highest[number]) for number in np.flatnonzero(highest).tolist()}

    def spans(self, stream: StreamId) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The first and the last catenation numbers of a stream's records, in order."""
        mine = np.flatnonzero(np.array(self.stream) == self._streams.number(stream))
        first = np.array(self.first)[mine]
        order = np.argsort(first)
        return first[order], (first + np.array(self.length)[mine] - np.uint64(1))[order]

    def lowest(self) -> NDArray[np.uint64]:
        """The lowest catenation number of each stream."""
        lowest = np.full(len(self._streams), np.iinfo(np.uint64).max, np.uint64)
        np.minimum.at(lowest, np.array(self.stream), np.array(self.first))
        return lowest


class RepositoryTable:
    """The rows of the repository table, by repository; they may overlap."""

    __slots__ = ("_crowded_at", "_longest", "_streams", "repositories")

    def __init__(self, streams: StreamNumbers) -> None:
        self._streams = streams
        self.repositories: dict[str, Lines] = {}
        self._longest: dict[str, int] = {}
        self._crowded_at = _FEW_STREAMS

    def __iter__(self) -> Iterator[Row]:
        for repository in sorted(self.repositories):
            lines = self.repositories[repository]
            for at in range(len(lines)):
                yield Row(repository, lines.line(at))

    def put(self, row: Row, place: Place) -> None:
        """Replaces one of the same numbers."""
        lines = self.repositories.get(row.repository)
        if lines is None:
            lines = self.repositories[row.repository] = Lines(self._streams)
        line = row.line
        at = len(lines)
        if at and lines.sequence[-1] >= line.sequence:
            at = bisect_left(lines.sequence, line.sequence)
            while at < len(lines) and lines.sequence[at] == line.sequence and lines.length[at] < line.length:
                at += 1
        same = at < len(lines) and lines.sequence[at] == line.sequence and lines.length[at] == line.length
        lines.put_at(at, at + same, line, place)
        self._longest[row.repository] = max(self._longest.get(row.repository, 0), line.length)

    def overlapping(self, repository: str, first: int, last: int) -> list[Row]:
        lines = self.repositories.get(repository)
        if lines is None:
            return []
        start = bisect_left(lines.sequence, max(0, first - self._longest[repository] + 1))
        stop = bisect_right(lines.sequence, last)
        return [Row(repository, lines.line(at)) for at in range(start, stop) if lines.end(at) >= first]

    def forget(self, gone: Mapping[StreamId, int], register: RecordIndex) -> set[StreamId]:
        """Rows of these streams up to these catenation numbers, unless one of their events is still there; returns
        the streams of which some went.
        """
        numbers = [self._streams.number(stream) for stream in gone]
        limits = np.zeros(len(self._streams), np.uint64)
        limits[numbers] = list(gone.values())
        crossed = np.flatnonzero((limits > 0) & (register.lowest() <= limits)).tolist()
        affected: set[StreamId] = set()
        for lines in self.repositories.values():
            stream, first = np.array(lines.stream), np.array(lines.first)
            last = first + np.array(lines.length) - np.uint64(1)
            dropped = (limits[stream] > 0) & (last <= limits[stream])
            for number in crossed:
                firsts, lasts = register.spans(self._streams[number])
                after = np.minimum(np.searchsorted(lasts, first), len(lasts) - 1)
                here = (lasts[after] >= first) & (firsts[after] <= last)
                dropped &= ~((stream == number) & here)
            affected.update(self._streams[number] for number in np.unique(stream[dropped]).tolist())
            if dropped.any():
                lines.keep(~dropped)
        return affected

    def drop_unused_streams(self, register: RecordIndex) -> None:
        """Forget the numbers of streams of which neither a row nor a record is left, once these may be half of all."""
        tables = (register, *self.repositories.values())
        if len(self._streams) >= self._crowded_at:
            used = np.unique(np.concatenate([np.array(lines.stream) for lines in tables]))
            numbers = self._streams.renumber(used)
            for lines in tables:
                lines.renumber(numbers)
            self._crowded_at = max(2 * len(self._streams), _FEW_STREAMS)
