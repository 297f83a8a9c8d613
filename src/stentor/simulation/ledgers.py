"""The fake twin of `runtime/ledgers`: a repository's ledgers on disks that may fail it, in virtual time.

Commits take their time and are answered in order, each a little after it is durable, so that a process may crash in
between. A full disk refuses a commit until it is asked for again, a sync that fails is fatal, and a power cut in the
middle of a commit leaves it there or not. A ledger that cannot be opened or read says why.
"""

from collections.abc import Callable
from random import Random
from typing import Protocol

from stentor.machine import (
    MILLISECOND,
    Collect,
    Commit,
    CommitFailed,
    Committed,
    Input,
    Scan,
    Scanned,
)
from stentor.model.stored.record import LedgerContents
from stentor.simulation.disk import SOUND_DISK, DiskFaults, SimulatedDisk
from stentor.simulation.schedule import Schedule
from stentor.storage.ledger import Excerpt, Ledger, LedgerError, LedgerFailed, LedgerFull
from stentor.storage.segments import SegmentLedger

_SEGMENT = 4 << 10  # bytes, so that a run has several
_TORN = DiskFaults(sync_error=1.0)


class LedgerWatch(Protocol):
    """A checker that sees what really becomes of a ledger, before the machine that uses it is told."""

    def writing(self, commit: Commit) -> None:
        """It is about to be written; if that fails, some of it may be there nevertheless."""
        ...

    def written(self, commit: Commit) -> None:
        """All of it is durable."""
        ...

    def read(self, ledger: str, excerpt: Excerpt) -> None: ...

    def power_failed(self) -> None:
        """The power is cut in the middle of a commit."""
        ...

    def failed(self, error: AssertionError) -> None:
        """The ledger found out that it is not as it must be."""
        ...


class _LedgerQueue:
    """One ledger on its disk, and how far it is with what it was asked for."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.ledger: Ledger | None = None
        self.busy_until = 0
        self.stuck_at = 0  # the first commit that was not taken: no later one is, before it

    @property
    def opened(self) -> Ledger:
        if self.ledger is None:
            raise LedgerFailed("the ledger is not open")
        return self.ledger


class SimulatedLedgers:
    """Carries out Commit, Scan and Collect, and tells the machine what came of them. `later` forgets what it was asked
    to do if the process crashes before.
    """

    def __init__(
        self,
        schedule: Schedule,
        random: Random,
        new_disk: Callable[[str], SimulatedDisk],
        later: Callable[[int, Callable[[], None]], None],
        tell: Callable[[Input], None],
        watch: LedgerWatch,
    ) -> None:
        self._schedule = schedule
        self._random = random
        self._new_disk = new_disk
        self._later = later
        self._tell = tell
        self._watch = watch
        self._desks: dict[str, _LedgerQueue] = {}
        self.is_torn = False  # the power is cut in the middle of the next commit

    def disk(self, ledger: str) -> SimulatedDisk:
        return self._desk(ledger).disk

    def _desk(self, ledger: str) -> _LedgerQueue:
        desk = self._desks.get(ledger)
        if desk is None:
            desk = self._desks[ledger] = _LedgerQueue(self._new_disk(ledger))
        return desk

    def topics(self) -> list[str]:
        """Return which ledgers there are on disks."""
        return [ledger for ledger, desk in self._desks.items() if desk.disk.names()]

    def cut_power(self) -> None:
        for desk in self._desks.values():
            desk.disk.cut_power()

    def open(self, ledger: str) -> LedgerContents:
        """Return what a ledger holds. Raises LedgerError if it cannot be opened."""
        desk = self._desk(ledger)
        desk.ledger = SegmentLedger(desk.disk, ledger, _SEGMENT)
        contents = desk.ledger.load()
        desk.stuck_at = desk.busy_until = 0
        return contents

    def draw_delay(self) -> int:
        """Return how long the disk takes for something."""
        return self._random.randrange(100_000, 3 * MILLISECOND)

    # ---- what is written

    def commit(self, commit: Commit) -> None:
        desk = self._desk(commit.ledger)
        self.queue(commit.ledger, lambda: self._write(desk, commit))

    def queue(self, ledger: str, action: Callable[[], None]) -> None:
        """Do something with a ledger after all that it was asked to write before."""
        desk, now = self._desk(ledger), self._schedule.now
        desk.busy_until = max(desk.busy_until, now) + self.draw_delay()
        self._later(desk.busy_until - now, action)

    def _write(self, desk: _LedgerQueue, commit: Commit) -> None:
        self._watch.writing(commit)
        if self.is_torn:
            self._tear(desk, commit)
            return
        if desk.stuck_at and desk.stuck_at != commit.token:
            self._answer(desk, CommitFailed(commit.ledger, commit.token, "one before it was not taken", fatal=False))
            return
        try:
            desk.opened.commit(commit.entries)
        except LedgerFull as error:
            desk.stuck_at = commit.token
            self._answer(desk, CommitFailed(commit.ledger, commit.token, str(error), fatal=False))
        except LedgerError as error:
            self._answer(desk, CommitFailed(commit.ledger, commit.token, str(error)))
        except AssertionError as error:
            self._watch.failed(error)
        else:
            desk.stuck_at = 0
            self._watch.written(commit)
            self._answer(desk, Committed(commit.ledger, commit.token))

    def _tear(self, desk: _LedgerQueue, commit: Commit) -> None:
        """The power is cut while this is written: it may be there or not."""
        self.is_torn = False
        desk.disk.faults = _TORN
        try:
            desk.opened.commit(commit.entries)
        except (LedgerError, AssertionError):
            pass
        else:
            self._watch.written(commit)
        desk.disk.faults = SOUND_DISK
        self._watch.power_failed()

    def _answer(self, desk: _LedgerQueue, happened: Input) -> None:
        """A little later, so that the process may crash before it hears of it; in order."""
        desk.busy_until = max(desk.busy_until, self._schedule.now + 1)
        self._later(self._random.randrange(1000), lambda: self._tell(happened))

    # ---- what is read and forgotten

    def scan(self, scan: Scan) -> None:
        self._later(self.draw_delay(), lambda: self._read(scan))

    def _read(self, scan: Scan) -> None:
        try:
            ledger = self._desk(scan.ledger).opened
            excerpt = ledger.scan(ledger.find(scan.time) if scan.time else scan.first, scan.budget)
        except LedgerError as error:
            self._tell(Scanned(scan.ledger, scan.token, [], [], str(error)))
            return
        self._watch.read(scan.ledger, excerpt)
        self._tell(Scanned(scan.ledger, scan.token, excerpt.records, excerpt.damaged))

    def collect(self, collect: Collect) -> None:
        """Forget records. Raises LedgerError if the disk fails; what is left is forgotten another time."""
        self._desk(collect.ledger).opened.collect(collect.end)

    def discard(self, ledger: str) -> None:
        """Throw a ledger away, durably."""
        desk = self._desk(ledger)
        desk.ledger = None
        for name in desk.disk.names():
            desk.disk.remove(name)
        desk.disk.sync()
