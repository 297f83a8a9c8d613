"""A ledger in the tables of a database: what SQLite and PostgreSQL have in common.

A record is one row; `label` is a checksum of what it is, `seal` one of that and of its contents, so that a rotten body
does not hide what it was. All of them are verified whenever they are read; when the ledger is opened, those that are
not summed up yet.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import numpy as np
from xxhash import xxh3_64_intdigest

from stentor.model.stored.record import Entry, Fact, LedgerContents, Record, RecordHeader, RecordKind, Row
from stentor.model.stored.record_columns import LONGEST, RecordColumns
from stentor.storage.annex import decode_annex, encode_annex
from stentor.storage.ledger import Excerpt, LedgerDamaged
from stentor.storage.record_index import NOWHERE, RecordIndex, RepositoryTable, StreamNumbers
from stentor.storage.statements import Statements
from stentor.storage.summary import LedgerSummary, decode, seal_of

_CHUNK: Final = 32  # records that are read at once, at least
_MOST: Final = 1024
_BEYOND: Final = (1 << 63) - 1  # all numbers
_KINDS: Final = {int(kind): kind for kind in RecordKind}
_NONSENSE: Final = (TypeError, ValueError, struct.error)  # a rotten row may even have values of other types
_ROW = struct.Struct("<7q")
_LABEL = struct.Struct("<8q")

Values = tuple[Any, ...]


def _signed(number: int) -> int:
    """Databases have no numbers of 64 bits without a sign."""
    return number - (1 << 64) if number >> 63 else number


def _unsigned(number: int) -> int:
    return number & 0xFFFFFFFFFFFFFFFF


class StoredRecord(NamedTuple):
    """A row of the table of records."""

    line: RecordHeader
    time: int
    label: int
    seal: int
    annex: bytes  # in the column `audience`, since once it was nothing else
    frame: bytes

    @classmethod
    def read(cls, values: Values) -> "StoredRecord":
        try:
            time, label, seal, annex, frame = values[7:]
            found = cls(_read_line(values[:7]), time, _unsigned(label), _unsigned(seal), bytes(annex), bytes(frame))
            return found if found.known else found._replace(line=_unknown(found.line.sequence, found.line.length))
        except _NONSENSE:
            return cls(_unknown(values[0]), 0, 0, 0, b"", b"")

    @classmethod
    def of(cls, record: Record) -> "StoredRecord":
        label = _label(record.line, record.time)
        annex = encode_annex(record.audience, record.stored)
        return cls(record.line, record.time, label, _seal(label, annex, record.frame), annex, record.frame)

    def values(self) -> Values:
        seals = _signed(self.label), _signed(self.seal)
        return *_line_values(self.line), self.time, *seals, self.annex, self.frame

    @property
    def known(self) -> bool:
        return self.label == _label(self.line, self.time)

    @property
    def sound(self) -> bool:
        is_empty = not self.annex and not self.frame  # then there is nothing that could be damaged
        return self.known and (is_empty or self.seal == _seal(self.label, self.annex, self.frame))

    @property
    def cost(self) -> int:
        return len(self.annex) + len(self.frame)

    def record(self) -> Record:
        audience, stored = decode_annex(self.annex, self.time)
        return Record(self.line, self.frame, audience, self.time, stored)


def _unknown(sequence: int, length: int = 1) -> RecordHeader:
    return RecordHeader(sequence, length, 0, 0, 0, RecordKind.RESERVED)


def _read_line(values: Values) -> RecordHeader:
    sequence, length, kind, publisher, incarnation, first, digest = values
    numbers = _unsigned(publisher), _unsigned(incarnation), _unsigned(first)
    return RecordHeader(sequence, length, *numbers, _KINDS.get(kind, RecordKind.RESERVED), _unsigned(digest))


def _line_values(line: RecordHeader) -> Values:
    return (
        line.sequence,
        line.length,
        int(line.kind),
        _signed(line.publisher),
        _signed(line.incarnation),
        _signed(line.first),
        _signed(line.digest),
    )


def _label(line: RecordHeader, time: int) -> int:
    return xxh3_64_intdigest(_LABEL.pack(*_line_values(line), time))


def _seal(label: int, annex: bytes, frame: bytes) -> int:
    return xxh3_64_intdigest(frame, seed=xxh3_64_intdigest(annex, seed=label))


def seal_fact(key: str, value: bytes) -> int:
    return _signed(xxh3_64_intdigest(value, seed=xxh3_64_intdigest(key.encode())))


def _seal_row(row: Row) -> int:
    fields = _ROW.pack(*_line_values(row.line))
    return _signed(xxh3_64_intdigest(fields, seed=xxh3_64_intdigest(row.repository.encode())))


class TableLedger(ABC):
    """A ledger in tables; its subclasses say how to reach the database, and what its errors mean."""

    def __init__(self, name: str, chapter: int = LONGEST) -> None:
        """So many records are summed up together."""
        self._name, self._chapter = name, chapter
        self._statements = Statements()
        self._next = 1
        self._longest: dict[str, int] = {}  # rows, by repository
        self._summed = 0  # where the last record begins that is summed up
        self._waiting = 0  # records behind it

    @abstractmethod
    def _open(self) -> int:
        """Reach the database and make what is not there; returns the next free number."""

    @abstractmethod
    def _query(self, statement: str, values: Values = ()) -> list[Values]: ...

    @abstractmethod
    def _execute(self, statement: str, values: Values) -> None: ...

    @abstractmethod
    def _transact(self, work: Callable[[], None], following: int) -> None:
        """Do all of it or nothing, durably; and note the next free number, which no record may be left to tell."""

    # ---- opening

    def load(self) -> LedgerContents:
        try:
            return self._load()
        except (*_NONSENSE, OverflowError) as error:
            raise self._condemned(f"something ({error})") from error

    def _load(self) -> LedgerContents:
        self._next = self._open()
        streams = StreamNumbers()
        records, rows = self._all_records(streams), RepositoryTable(streams)
        for row in self._all_rows():
            rows.put(row, NOWHERE)
            self._longest[row.repository] = max(self._longest.get(row.repository, 0), row.line.length)
        return LedgerContents(self._all_facts(), records, rows, self._next)

    def _all_records(self, streams: StreamNumbers) -> RecordIndex:
        """By summaries as far as they reach; the others are read and verified."""
        ((count, lowest),) = self._query(self._statements.extent)
        found = [summary.since(lowest) for summary in self._summaries()] if count else []
        records, ranges = self._gathered(streams, found)
        if len(records) != count:  # a row is gone or new, and nobody knows whose: summaries must not hide that
            records, ranges = self._gathered(streams, [])
            self._transact(lambda: self._execute(self._statements.drop_summaries, (_BEYOND, 0)), self._next)
        summaries = [
            records.summary(start, min(start + self._chapter, end))
            for first, end in ranges
            for start in range(first, end, self._chapter)
        ]
        if summaries:
            self._transact(lambda: self._put_summaries(summaries), self._next)
            self._summed = max(self._summed, summaries[-1].last)
        self._waiting = len(records) - records.locate(self._summed + 1)
        return records

    def _gathered(
        self, streams: StreamNumbers, summaries: Sequence[LedgerSummary]
    ) -> tuple[RecordIndex, list[tuple[int, int]]]:
        """All records, and which of them, by place, are to be summed up."""
        records, last = RecordIndex(streams), -1
        ranges: list[tuple[int, int]] = []
        for summary in summaries:
            if len(summary.time):
                ranges.append((len(records), self._read_into(records, last, summary.first)))
                records.extend(*summary)
                last = summary.last
        self._summed = max(last, 0)
        start = len(records)
        end = self._read_into(records, last, _BEYOND)
        ranges.append((start, max(start, end - (end - start) % self._chapter - self._chapter)))
        return records, ranges

    def _read_into(self, records: RecordIndex, last: int, end: int) -> int:
        """Add those that begin behind one number and before another; returns how many there are then."""
        while chunk := self._read_behind(last, _CHUNK, end):
            for stored in chunk:
                records.put(stored.line if stored.sound else self._reserved(stored), NOWHERE, stored.time)
            last = chunk[-1].line.sequence
        return len(records)

    def _summaries(self) -> Iterator[LedgerSummary]:
        for first, last, content, seal in self._query(self._statements.summaries):
            summary = decode(first, last, bytes(content), seal)
            if summary is not None:
                yield summary

    def _read_behind(self, sequence: int, count: int, end: int = _BEYOND) -> list[StoredRecord]:
        """Records that begin behind a number."""
        found = self._query(self._statements.records, (sequence, end, count))
        return [StoredRecord.read(values) for values in found]

    def _reserved(self, stored: StoredRecord) -> RecordHeader:
        """What is left of a damaged record."""
        line = stored.line
        if stored.known:
            return line._replace(kind=RecordKind.RESERVED)
        ((following,),) = self._query(self._statements.following, (line.sequence,))
        return _unknown(line.sequence, max(1, min(line.length, (following or self._next) - line.sequence)))

    def _all_rows(self) -> Iterator[Row]:
        last: Values = (b"", 0, 0)
        while chunk := self._query(self._statements.rows, (*last, _MOST)):
            yield from map(self._read_row, chunk)
            last = chunk[-1][:3]

    def _read_row(self, values: Values) -> Row:
        repository, *numbers, seal = values
        with suppress(*_NONSENSE):
            row = Row(bytes(repository).decode(), _read_line(tuple(numbers)))
            if seal == _seal_row(row):
                return row
        raise self._condemned(f"the row of {bytes(repository).decode(errors='replace')} at {numbers[0]}")

    def _all_facts(self) -> dict[str, bytes]:
        facts = {}
        for key, value, seal in self._query(self._statements.facts):
            name = bytes(key).decode(errors="replace")
            if not isinstance(value, bytes) or seal != seal_fact(name, value):
                raise self._condemned(f"the fact {name!r}")
            facts[name] = value
        return facts

    def _condemned(self, what: str) -> LedgerDamaged:
        return LedgerDamaged(
            f"{self._name}: {what} is damaged; restore the database, or discard this copy and fill it from another one"
        )

    # ---- writing

    def commit(self, entries: Sequence[Entry]) -> None:
        following = max([self._next, *(entry.line.end + 1 for entry in entries if isinstance(entry, Record))])
        waiting = self._waiting + sum(isinstance(entry, Record) for entry in entries)
        due = max(0, waiting // self._chapter - 1)  # the newest may still change
        summed: list[LedgerSummary] = []

        def work() -> None:
            self._write(entries)
            summed.extend(self._outlined(due))
            self._put_summaries(summed)

        self._transact(work, following)
        self._next, self._waiting = following, waiting - due * self._chapter
        self._summed = summed[-1].last if summed else self._summed
        for entry in entries:
            if isinstance(entry, Row):
                self._longest[entry.repository] = max(self._longest.get(entry.repository, 0), entry.line.length)

    def _write(self, entries: Sequence[Entry]) -> None:
        statements, execute = self._statements, self._execute
        free = self._next
        for entry in entries:
            match entry:
                case Record(line):
                    if line.sequence < free:
                        self._replace(line)
                    free = max(free, line.end + 1)
                    execute(statements.put_record, StoredRecord.of(entry).values())
                case Row(repository, line):
                    execute(statements.put_row, (repository.encode(), *_line_values(line), _seal_row(entry)))
                case Fact(key, value) if value is not None:
                    execute(statements.put_fact, (key.encode(), value, seal_fact(key, value)))
                case Fact(key):
                    execute(statements.drop_fact, (key.encode(),))

    def _outlined(self, count: int) -> Iterator[LedgerSummary]:
        """At most so many summaries of the records behind those that are summed up: some may have been replaced."""
        last = self._summed
        for _ in range(count):
            lines, times = [], []
            for *values, time, label in self._query(self._statements.outlines, (last, self._chapter)):
                stored = StoredRecord(_read_line(tuple(values)), time, _unsigned(label), 0, b"", b"")
                lines.append(stored.line if stored.known else self._reserved(stored))
                times.append(time)
            if len(lines) < self._chapter:
                return
            last = lines[-1].sequence
            yield LedgerSummary(RecordColumns.of(lines), np.array(times, np.int64))

    def _put_summaries(self, summaries: Sequence[LedgerSummary]) -> None:
        for each in summaries:
            content = each.encode()
            self._execute(self._statements.drop_summaries, (each.last, each.first))  # one that was damaged
            self._execute(
                self._statements.put_summary, (each.first, each.last, content, seal_of(each.first, each.last, content))
            )

    def _replace(self, line: RecordHeader) -> None:
        """Only what is reserved or damaged may be: anything else would be two records under one number."""
        for values in self._query(self._statements.overlapped, (line.sequence, line.end)):
            stored = StoredRecord.read(values)
            damaged = not stored.sound
            if (self._reserved(stored) if damaged else stored.line).end >= line.sequence:
                free = damaged or stored.line.kind is RecordKind.RESERVED
                assert free, f"{line} would replace {stored.line}"
                self._execute(self._statements.drop_record, (stored.line.sequence,))
                if stored.line.sequence <= self._summed:
                    self._execute(self._statements.drop_summaries, (stored.line.sequence,) * 2)

    # ---- reading

    def scan(self, first: int, budget: int) -> Excerpt:
        try:
            return self._scan(first, budget)
        except (*_NONSENSE, OverflowError) as error:
            raise self._condemned(f"something ({error})") from error

    def _scan(self, first: int, budget: int) -> Excerpt:
        found = Excerpt([], [])
        ((holder,),) = self._query(self._statements.holder, (first,))
        last, count = (first if holder is None else holder) - 1, _CHUNK
        while chunk := self._read_behind(last, count):
            for stored in chunk:
                if found.records and stored.cost > budget:
                    return found
                sound = stored.sound
                line = stored.line if sound else self._reserved(stored)
                if line.end < first:
                    continue
                if sound:
                    budget -= stored.cost
                    found.records.append(stored.record())
                else:
                    found.damaged.append(line)
            last = chunk[-1].line.sequence
            mean = sum(stored.cost for stored in chunk) // len(chunk) + 1
            count = max(_CHUNK, min(_MOST, budget // mean + 1))
        return found

    def find(self, time: int) -> int:
        ((found,),) = self._query(self._statements.find, (time,))
        return self._next if found is None else int(found)

    def rows(self, repository: str, first: int, last: int) -> list[Row]:
        longest = self._longest.get(repository, 0)
        values = (repository.encode(), first - longest, last, first)
        return [self._read_row(row) for row in self._query(self._statements.overlapping_rows, values)]

    # ---- forgetting

    def collect(self, end: int) -> None:
        self._transact(lambda: self._forget(end), self._next)

    def _forget(self, end: int) -> None:
        gone = self._query(self._statements.forgotten, (end, end))
        self._execute(self._statements.forget, (end, end))
        self._execute(self._statements.forget_summaries, (_BEYOND,))
        for stream in gone:
            self._execute(self._statements.forget_rows, stream)

    @abstractmethod
    def usage(self) -> int: ...

    @abstractmethod
    def close(self) -> None: ...
