"""The tail of a ledger: its newest records, in memory, so that whoever keeps up is served without the disk."""

from bisect import bisect_right, insort
from collections.abc import Iterator

from stentor.model.record import Kind, Record

_OVERHEAD = 256  # bytes of memory that a record costs beside its frame, roughly


class Tail:
    """Records by sequence number, without gaps from `start` on."""

    def __init__(self, start: int, most: int) -> None:
        self.start = start  # everything from here on is in memory
        self._most = most  # bytes
        self._size = 0
        self._sequences: list[int] = []
        self._records: dict[int, Record] = {}

    def put(self, record: Record) -> None:
        """A new record, or one in the place of reserved ones."""
        line = record.line
        at = bisect_right(self._sequences, line.end)
        while at:
            former = self._records[self._sequences[at - 1]]
            if former.line.end < line.sequence:
                break
            assert former.line.kind is Kind.RESERVED or former.line == line, "a record replaces reservations alone"
            at -= 1
            del self._records[self._sequences.pop(at)]
            self._size -= len(former.frame) + _OVERHEAD
        insort(self._sequences, line.sequence)
        self._records[line.sequence] = record
        self._size += len(record.frame) + _OVERHEAD

    @property
    def end(self) -> int:
        """The last sequence number; that before `start` if there is none."""
        return self._records[self._sequences[-1]].line.end if self._sequences else self.start - 1

    def at(self, sequence: int) -> Record | None:
        """The record that holds this sequence number."""
        at = bisect_right(self._sequences, sequence) - 1
        if at < 0:
            return None
        record = self._records[self._sequences[at]]
        return record if sequence <= record.line.end else None

    def since(self, sequence: int) -> Iterator[Record]:
        """The records from the one that holds this sequence number on."""
        at = max(bisect_right(self._sequences, sequence) - 1, 0)
        for start in self._sequences[at : at + 4096]:
            record = self._records[start]
            if record.line.end >= sequence:
                yield record

    def trim(self, end: int) -> None:
        """Let go of old records that end at or before `end`, if there are too many bytes."""
        if self._size <= self._most:
            return
        count = 0
        for sequence in self._sequences:
            record = self._records[sequence]
            if self._size <= self._most // 2 or record.line.end > end:
                break
            self._size -= len(record.frame) + _OVERHEAD
            self.start = max(self.start, record.line.end + 1)
            del self._records[sequence]
            count += 1
        del self._sequences[:count]

    def drop(self, sequence: int) -> None:
        """Forget a record that is not what it was."""
        at = bisect_right(self._sequences, sequence) - 1
        if at >= 0 and self._sequences[at] == sequence:
            record = self._records.pop(self._sequences.pop(at))
            self._size -= len(record.frame) + _OVERHEAD
