"""The tail of a ledger: its newest records, in memory, so that whoever keeps up is served without the disk.

All topics of a repository share one budget. When it is spent, the topics that have stored nothing for the longest time
give way first: each lets go of the older half of what it has in memory, until there is room.
"""

from bisect import bisect_right, insort
from collections.abc import Iterator
from itertools import pairwise

from stentor.model.stored.record import Record, RecordKind

_OVERHEAD = 256  # bytes of memory that a record costs beside its frame, roughly


class Budget:
    """The bytes that tails may take together. Invariant: `_size` is the sum of their sizes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._tails: dict[RecentRecords, None] = {}  # those with records, the longest idle first

    def count(self, tail: "RecentRecords", size: int) -> None:
        """Note that a tail has grown by so many bytes, or shrunk."""
        self._size += size
        if size > 0 or not tail.size:
            self._tails.pop(tail, None)
        if tail.size:
            self._tails[tail] = None

    def keep(self) -> None:
        """Let tails give way, if they take too much; a quarter more than that, so that it is not for every record."""
        if self._size <= self._most:
            return
        enough = self._most * 3 // 4
        moved = True
        while moved and self._size > enough:
            moved = False
            for recent in list(self._tails):
                moved = recent.halve() or moved
                if self._size <= enough:
                    return


class RecentRecords:
    """Records by sequence number, without gaps from `start` on. Invariants, asserted by `validate`:

    from `start` on records follow each other; `size` is the sum of all; no more is let go than readers were shown
    """

    def __init__(self, start: int, budget: Budget) -> None:
        self.start = start  # everything from here on is in memory
        self.size = 0  # bytes
        self._budget = budget
        self._needed_after = start - 1  # readers have not been shown what follows it
        self._sequences: list[int] = []
        self._records: dict[int, Record] = {}

    def validate(self) -> None:
        records = [self._records[sequence] for sequence in self._sequences]
        assert len(records) == len(self._records), "a record that nobody finds"
        for before, after in pairwise(record for record in records if record.line.end >= self.start):
            assert before.line.end + 1 == after.line.sequence, f"{before.line} and {after.line} are no neighbours"
        assert self.size == sum(map(_size, records)), "a tail of another size than its records have"
        assert self.start <= self._needed_after + 1, "what no reader was shown is let go"

    def put(self, record: Record) -> None:
        """A new record, or one in the place of reserved ones."""
        line = record.line
        at = bisect_right(self._sequences, line.end)
        while at:
            former = self._records[self._sequences[at - 1]]
            if former.line.end < line.sequence:
                break
            assert former.line.kind is RecordKind.RESERVED or former.line == line, (
                "a record replaces reservations alone"
            )
            at -= 1
            del self._records[self._sequences.pop(at)]
            self._count(-_size(former))
        insort(self._sequences, line.sequence)
        self._records[line.sequence] = record
        self._count(_size(record))

    def _count(self, size: int) -> None:
        self.size += size
        self._budget.count(self, size)

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
        """Note that all up to `end` is in the ledger and was shown to readers: it may be let go."""
        self._needed_after = end
        self._budget.keep()

    def halve(self) -> bool:
        """Let go of the older half, as far as it may go; return whether it was anything."""
        return self._let_go(self._needed_after, self.size // 2)

    def forget(self, end: int) -> None:
        """Let go of what ends at or before this sequence number: nobody will ask for it any more."""
        self._let_go(min(end, self._needed_after), 0)

    def _let_go(self, end: int, enough: int) -> bool:
        """Drop the oldest records that end at or before `end`, until no more than `enough` bytes are left."""
        count = gone = 0
        for sequence in self._sequences:
            record = self._records[sequence]
            if self.size - gone <= enough or record.line.end > end:
                break
            gone += _size(record)
            self.start = max(self.start, record.line.end + 1)
            del self._records[sequence]
            count += 1
        del self._sequences[:count]
        self._count(-gone)
        return count > 0

    def release(self) -> None:
        """Take nothing of the budget any more."""
        self._count(-self.size)

    def drop(self, sequence: int) -> None:
        """Forget a record that is not what it was."""
        at = bisect_right(self._sequences, sequence) - 1
        if at >= 0 and self._sequences[at] == sequence:
            self._count(-_size(self._records.pop(self._sequences.pop(at))))


def _size(record: Record) -> int:
    return len(record.frame) + _OVERHEAD
