"""A repository's ledgers on real disks: each is used by one thread at a time, and what waits is committed at once."""

import asyncio
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from stentor.machine import (
    CloseLedger,
    Collect,
    Commit,
    CommitFailed,
    Committed,
    Discard,
    Effect,
    Input,
    Measured,
    Open,
    Opened,
    Recall,
    Recalled,
    Scan,
    Scanned,
)
from stentor.model.errors import StentorError
from stentor.model.position import Position
from stentor.model.record import Entry, LedgerContents
from stentor.runtime.memory import give_back
from stentor.storage.lake import Lake
from stentor.storage.ledger import Ledger, LedgerBusy, LedgerDamaged, LedgerFailed

_THREADS = 4
_MOST_ENTRIES = 8192  # in one commit
_MEASURE_AFTER = 1.0  # seconds, when a ledger has changed
_GIVE_BACK_AFTER = 10.0  # seconds, when a ledger was closed: topics fall asleep by the thousand, within moments


class _Measure(Effect, frozen=True, gc=False, tag="measure"):
    """Tell how large a ledger is."""

    ledger: str


_Effect = Open | CloseLedger | Commit | Scan | Recall | Collect | Discard | _Measure


class Cabinet(Protocol):
    """Where ledgers come from."""

    def open(self, topic: str) -> Ledger: ...
    def discard(self, topic: str) -> None: ...


class _LedgerQueue:
    """One ledger and what waits to be done with it."""

    __slots__ = ("blocked", "busy", "failure", "ledger", "queries", "queue", "timer", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.queue: deque[Open | CloseLedger | Commit | Collect | Discard] = deque()
        self.queries: deque[Scan | Recall | _Measure] = deque()  # take turns with those that change something
        self.busy = False
        self.ledger: Ledger | None = None
        self.failure = ""
        self.blocked = 0  # the commit that must be taken before any later one
        self.timer: asyncio.TimerHandle | None = None  # until it is measured again

    @property
    def idle(self) -> bool:
        return not self.queue and not self.queries

    def close(self) -> None:
        ledger, self.ledger = self.ledger, None
        if ledger is not None:
            ledger.close()


class CommitTimes:
    """How long it took until commits were durable, counted by upper bounds as a Prometheus histogram does.

    Threads count and the event loop reads, so both take the lock.
    """

    BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0] * (len(self.BOUNDS_S) + 1)  # the last counts what took longer than all bounds
        self._total_s = 0.0

    def add(self, seconds: float) -> None:
        with self._lock:
            self._counts[bisect_left(self.BOUNDS_S, seconds)] += 1
            self._total_s += seconds

    def read(self) -> tuple[tuple[int, ...], float]:
        """Return how many commits took at most each bound and longer than the one before it, and the sum in seconds."""
        with self._lock:
            return tuple(self._counts), self._total_s


class LedgerThreads:
    """Carries out what is asked of ledgers, and tells what came of it on the event loop."""

    EFFECTS = (Open, CloseLedger, Commit, Scan, Recall, Collect, Discard)

    def __init__(
        self,
        cabinet: Cabinet,
        tell: Callable[[Input], None],
        fail: Callable[[Exception], None],
        lake: Lake | None = None,
    ) -> None:
        """`fail` is told of what must not happen in a thread."""
        self._cabinet, self._lake = cabinet, lake
        self._tell, self._fail = tell, fail
        self._failed = False
        self.commit_times = CommitTimes()
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="ledger")
        self._desks: dict[str, _LedgerQueue] = {}
        self._busy = (
            0  # desks at which a thread works. Invariant: `_all_rest` is set, if anybody ever worked, while it is 0.
        )
        self._all_rest = asyncio.Event()
        self._giving_back: asyncio.TimerHandle | None = None  # until memory of closed ledgers is given back

    def perform(self, effect: _Effect) -> None:
        if self._failed:
            return  # the node ends
        desk = self._desks.get(effect.ledger)
        if desk is None:
            desk = self._desks[effect.ledger] = _LedgerQueue(effect.ledger)
        if isinstance(effect, _Measure):
            desk.timer = None
        elif desk.timer is None and not isinstance(effect, CloseLedger):
            desk.timer = self._loop.call_later(_MEASURE_AFTER, self.perform, _Measure(effect.ledger))
        if isinstance(effect, Scan | Recall | _Measure):
            desk.queries.append(effect)
        else:
            desk.queue.append(effect)
        if not desk.busy:
            desk.busy = True
            self._busy += 1
            self._all_rest.clear()
            self._threads.submit(self._work, desk)

    async def close(self) -> None:
        """Let what was asked for be done, then close."""
        if self._busy:
            await self._all_rest.wait()  # what came while a thread was about to end is done too
        for desk in self._desks.values():
            if desk.timer is not None:
                desk.timer.cancel()
        if self._giving_back is not None:
            self._giving_back.cancel()
        await asyncio.to_thread(self._threads.shutdown)
        for desk in self._desks.values():
            if desk.ledger is not None:
                desk.ledger.close()

    # ---- in a thread

    def _work(self, desk: _LedgerQueue) -> None:
        """Whoever publishes waits for no more than one of those who read."""
        try:
            while not desk.idle and not self._failed:
                if desk.queue:
                    effect = desk.queue.popleft()
                    if isinstance(effect, Commit):
                        self._commit(desk, effect)
                    else:
                        self._do(desk, effect)
                if desk.queries:
                    self._do(desk, desk.queries.popleft())
        except Exception as error:  # the pool would keep it to itself
            self._failed = True
            self._loop.call_soon_threadsafe(self._fail, error)
        self._loop.call_soon_threadsafe(self._rest, desk)

    def _rest(self, desk: _LedgerQueue) -> None:
        """On the loop: nothing came while the thread was about to end, or it goes on."""
        desk.busy = not desk.idle and not self._failed
        if desk.busy:
            self._threads.submit(self._work, desk)
            return
        if desk.ledger is None and desk.timer is None and not desk.failure and self._desks.get(desk.topic) is desk:
            del self._desks[desk.topic]  # it is closed: a desk for every topic that sleeps would take much memory
            if self._giving_back is None:
                self._giving_back = self._loop.call_later(_GIVE_BACK_AFTER, self._give_back)
        self._busy -= 1
        if not self._busy:
            self._all_rest.set()

    def _give_back(self) -> None:
        self._giving_back = None
        self._threads.submit(give_back)

    def _notify(self, inputs: Sequence[Input]) -> None:
        self._loop.call_soon_threadsafe(self._tell_all, inputs)

    def _tell_all(self, inputs: Sequence[Input]) -> None:
        for happened in inputs:
            self._tell(happened)

    def _commit(self, desk: _LedgerQueue, first: Commit) -> None:
        """Everything that waits at the head of the queue is one commit: one sync for all of it."""
        commits = [first]
        entries: list[Entry] = list(first.entries)
        while desk.queue and isinstance(desk.queue[0], Commit) and len(entries) < _MOST_ENTRIES:
            commit = desk.queue.popleft()
            assert isinstance(commit, Commit)
            commits.append(commit)
            entries += commit.entries
        try:
            if desk.ledger is None:
                raise LedgerFailed(desk.failure or "the ledger is not open")
            if desk.blocked not in (0, first.token):
                raise LedgerBusy("an earlier commit has not been taken yet")
            begun = time.monotonic()
            desk.ledger.commit(entries)
            self.commit_times.add(time.monotonic() - begun)
            desk.blocked = 0
        except (StentorError, OSError) as error:
            # what is damaged concerns this topic, and others of this process go on
            fatal = isinstance(error, LedgerFailed | OSError) and not isinstance(error, LedgerDamaged)
            desk.blocked = desk.blocked or first.token
            self._notify([CommitFailed(each.ledger, each.token, str(error), fatal) for each in commits])
        else:
            self._notify([Committed(first.ledger, commits[-1].token)])

    def _recall(self, recall: Recall) -> Recalled:
        assert self._lake is not None, "nobody recalls without a lake"
        if recall.time:
            return Recalled(recall.ledger, recall.token, [], Position(), self._lake.find(recall.ledger, recall.time))
        blocks, sought, found = self._lake.recall(recall.ledger, recall.wanted, recall.budget)
        return Recalled(
            recall.ledger, recall.token, [(bytes(block.frame), block.schema) for block in blocks], sought, found
        )

    def _do(self, desk: _LedgerQueue, effect: _Effect) -> None:
        try:
            match effect:
                case Open():
                    desk.close()  # if a machine failed, and another one begins with what is there
                    desk.ledger, desk.blocked = self._cabinet.open(effect.ledger), 0
                    self._notify([Opened(effect.ledger, desk.ledger.load(), wall=time.time_ns())])
                case Scan():
                    if desk.ledger is None:
                        raise LedgerFailed(desk.failure or "the ledger is not open")
                    first = desk.ledger.find(effect.time) if effect.time else effect.first
                    found = desk.ledger.scan(first, effect.budget)
                    self._notify([Scanned(effect.ledger, effect.token, found.records, found.damaged)])
                case Recall():
                    self._notify([self._recall(effect)])
                case Collect():
                    assert desk.ledger is not None
                    desk.ledger.collect(effect.end)
                case _Measure():
                    if desk.ledger is not None:
                        self._notify([Measured(effect.ledger, desk.ledger.usage())])
                case CloseLedger():
                    desk.close()
                case Discard():
                    desk.close()
                    self._cabinet.discard(effect.ledger)
        except (StentorError, OSError) as error:
            desk.failure = str(error)
            if isinstance(effect, Open):
                desk.close()  # what it had opened by then is given back
                self._notify([Opened(effect.ledger, LedgerContents(), str(error))])
            elif isinstance(effect, Scan):
                self._notify([Scanned(effect.ledger, effect.token, [], [], str(error))])
            elif isinstance(effect, Recall):
                self._notify([Recalled(effect.ledger, effect.token, [], Position(), Position(), str(error))])
