"""Records: what a repository keeps of a topic, in the order of its own sequence numbers."""

import enum
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

StreamId = tuple[int, int]  # a publisher's id and its incarnation: catenation numbers grow by one within a stream


class RecordKind(enum.IntEnum):
    EVENTS = 0  # `frame` is an events frame
    VOID = 1  # nobody has these and nobody will: readers skip them
    NOTE = 2  # a registration took this number: readers skip it
    RESERVED = 3  # set aside for events that are missing: readers stop here
    SKIPPED = 4  # nobody in the unit that the repository serves wants these: readers skip them


class RecordHeader(NamedTuple):
    """A record without its contents: sequence numbers `sequence …` hold catenation numbers `first …` of a stream."""

    sequence: int
    length: int
    publisher: int
    incarnation: int
    first: int
    kind: RecordKind
    # The frame's checksum: two bodies under one number have two. What is reserved or void has none, unless events were
    # here and were damaged: a mark that is as durable as the line.
    digest: int = 0

    @property
    def is_damaged(self) -> bool:
        """Whether this is what is left of events that cannot be read; without a publisher nobody knows of which."""
        return self.kind is RecordKind.RESERVED and (self.digest != 0 or not self.publisher)

    @property
    def is_written_off(self) -> bool:
        """Whether events were here that were damaged, and an operator has accepted that."""
        return self.kind is RecordKind.VOID and self.digest != 0

    @property
    def stream(self) -> StreamId:
        return self.publisher, self.incarnation

    @property
    def end(self) -> int:
        """The last sequence number."""
        return self.sequence + self.length - 1

    @property
    def last(self) -> int:
        """The last catenation number."""
        return self.first + self.length - 1


class Record(NamedTuple):
    """A record header with its contents. It replaces each reserved record that it overlaps; its writer writes the rest.

    `audience` is the record's part of the dissemination table: which of its events a subscriber wants, by the
    subscriber's slot; b"" is all of them, else a bitmap (little-endian bits). A slot that is not there wants none.
    """

    line: RecordHeader
    frame: bytes = b""
    audience: Mapping[int, bytes] = {}
    time: int = 0  # of the first event, in nanoseconds since 1970
    stored: int = (
        0  # when a repository of the bundle first stored it, by its own clock; the record's age counts from then
    )


class Fact(NamedTuple):
    """Something to know by a key: a registration, a sync. None is that it is not so any more."""

    key: str
    value: bytes | None


class Row(NamedTuple):
    """A row of the repository table: the numbers that another repository gave to what it stored."""

    repository: str
    line: RecordHeader


Entry = Record | Fact | Row


class LedgerContents(msgspec.Struct, array_like=True):
    """What a ledger held when it was opened."""

    facts: dict[str, bytes] = {}
    lines: Iterable[RecordHeader] = ()  # in order; one that was found to be damaged is there, as one that is reserved
    rows: Iterable[Row] = ()
    next: int = 1  # the first sequence number that was never used
