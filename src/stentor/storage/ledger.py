"""A ledger: where a repository keeps one topic. Its twins keep it in SQLite, in PostgreSQL and in segment files.

A commit is durable as a whole or not there at all. Whatever is read is checked: what was damaged is never handed out.
Every method may be called from one thread at a time, not always the same one.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from stentor.model.errors import StentorError
from stentor.model.stored.record import Entry, LedgerContents, Record, RecordHeader, Row


class LedgerError(StentorError):
    """The storage did not do what was asked."""


class LedgerFull(LedgerError):
    """No space: nothing of this commit is there, earlier ones are safe, a later one may be taken again."""


class LedgerFailed(LedgerError):
    """The disk or the database failed: nobody knows what of this commit is there, and no other one is taken."""


class LedgerDamaged(LedgerFailed):
    """More was destroyed than the contents of records: it cannot be told what is missing, so nothing is served."""


class LedgerBusy(LedgerError):
    """The database is away: nothing of this commit is there, and it may be tried again."""


class Excerpt(NamedTuple):
    """Records in order, and those between them that are damaged."""

    records: list[Record]
    damaged: list[RecordHeader]


class Ledger(Protocol):
    def load(self) -> LedgerContents:
        """What it holds, told before anything else is asked of it; contents need not be read for that."""
        ...

    def commit(self, entries: Sequence[Entry]) -> None:
        """Make all of it durable, in this order, or raise and take none of it."""
        ...

    def scan(self, first: int, budget: int) -> Excerpt:
        """Records from the one that holds the sequence number `first` on, or from the next one if it is gone: at least
        one if there is one, then as many as have `budget` bytes together.
        """
        ...

    def find(self, time: int) -> int:
        """The sequence number of the first record with events of this time or later; the next free one if none is."""
        ...

    def rows(self, repository: str, first: int, last: int) -> list[Row]:
        """The repository table's rows of another repository that overlap these of its sequence numbers, in order."""
        ...

    def collect(self, end: int) -> None:
        """Forget the records that end at or before this sequence number, and rows of what was forgotten, and give the
        space back to whoever wants it. Need not be durable at once; facts stay.
        """
        ...

    def usage(self) -> int:
        """Bytes on the disk."""
        ...

    def close(self) -> None: ...
