"""What is to be written to a ledger, or is being written: entries, and what becomes durable with them."""

from collections.abc import Iterable
from typing import NamedTuple

from stentor.model.stored.record import Entry, Fact, Record, RecordHeader
from stentor.protocols.delivery.repository.storing.floor_facts import floor_fact
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream


class _Group(NamedTuple):
    """What becomes durable with one commit: records, by their lines, and what is forgotten of streams."""

    lines: list[RecordHeader]
    floors: list[tuple[PublisherStream, int]]


class UnwrittenEntries:
    """Those of one topic. Invariant, asserted by `validate`: `lines` are those of the records in `entries`."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []  # for the next commit
        self.lines: list[RecordHeader] = []
        self._floors: list[tuple[PublisherStream, int]] = []
        self._remarks: list[Entry] = []  # nobody waits for these: they are written when something else is
        self._writing: dict[int, _Group] = {}  # by the token of the commit

    def validate(self) -> None:
        assert self.lines == [each.line for each in self.entries if isinstance(each, Record)], "lines without entries"

    def put(self, record: Record) -> None:
        self.entries.append(record)
        self.lines.append(record.line)

    def write(self, *facts: Fact) -> None:
        self.entries += facts

    def mark_floor(self, stream: PublisherStream) -> None:
        """Write what is forgotten of a stream, and what is void of it: no record tells that any more."""
        self._floors.append((stream, stream.floor))
        self.entries.append(floor_fact(stream))

    def remark(self, entries: Iterable[Entry]) -> None:
        """Write these when there is something to commit anyway."""
        self._remarks += entries

    def write_remarks(self) -> None:
        remarks, self._remarks = self._remarks, []
        self.entries += remarks

    def take(self, token: int) -> list[Entry]:
        """Remove and return what is to be committed under this token."""
        entries, self.entries = self.entries, []
        self._writing[token] = _Group(self.lines, self._floors)
        self.lines, self._floors = [], []
        return entries

    def committed(self, token: int) -> _Group:
        """Remove and return what is durable with the commit of this token."""
        return self._writing.pop(token, _Group([], []))

    def holds(self, sequence: int) -> bool:
        """Whether a record of this sequence number is to be written, or is being written."""
        groups = (self.lines, *(group.lines for group in self._writing.values()))
        return any(line.sequence == sequence for lines in groups for line in lines)
