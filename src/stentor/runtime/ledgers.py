"""A repository's ledgers on real disks: one thread at a time uses a ledger, and waiting commits are joined."""

import asyncio
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

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
from stentor.model.stored.position import Position
from stentor.model.stored.record import Entry, LedgerContents
from stentor.runtime.memory import give_back
from stentor.storage.lake import Lake
from stentor.storage.ledger import Ledger, LedgerBusy, LedgerDamaged, LedgerFailed
from stentor.storage.ledger_store import LedgerStore

_THREADS = 4
_MOST_ENTRIES = 8192  # in one commit
_MEASURE_AFTER = 1.0  # seconds, when a ledger has changed
_GIVE_BACK_AFTER = 10.0  # seconds, when a ledger was closed: topics fall asleep by the thousand, within moments


class _Measure(Effect, frozen=True, gc=False, tag="measure"):
    """Tell how large a ledger is."""

    ledger: str


_Effect = Open | CloseLedger | Commit | Scan | Recall | Collect | Discard | _Measure


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
        ledger_store: LedgerStore,
        tell: Callable[[Input], None],
        fail: Callable[[Exception], None],
        lake: Lake | None = None,
    ) -> None:
        """`fail` is told of what must not happen in a thread."""
        self._ledger_store, self._lake = ledger_store, lake
        self._tell, self._fail = tell, fail
        self._failed = False
        self.commit_times = CommitTimes()
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="ledger")
        self._queues: dict[str, _LedgerQueue] = {}
        # queues at which a thread works. Invariant: `_all_rest` is set, if anybody ever worked, while it is 0.
        self._busy = 0
        self._all_rest = asyncio.Event()
        self._giving_back: asyncio.TimerHandle | None = None  # until memory of closed ledgers is given back

    def perform(self, effect: _Effect) -> None:
        if self._failed:
            return  # the node ends
        waiting = self._queues.get(effect.ledger)
        if waiting is None:
            waiting = self._queues[effect.ledger] = _LedgerQueue(effect.ledger)
        if isinstance(effect, _Measure):
            waiting.timer = None
        elif waiting.timer is None and not isinstance(effect, CloseLedger):
            waiting.timer = self._loop.call_later(_MEASURE_AFTER, self.perform, _Measure(effect.ledger))
        if isinstance(effect, Scan | Recall | _Measure):
            waiting.queries.append(effect)
        else:
            waiting.queue.append(effect)
        if not waiting.busy:
            waiting.busy = True
            self._busy += 1
            self._all_rest.clear()
            self._threads.submit(self._work, waiting)

    async def close(self) -> None:
        """Let what was asked for be done, then close."""
        if self._busy:
            await self._all_rest.wait()  # what came while a thread was about to end is done too
        for waiting in self._queues.values():
            if waiting.timer is not None:
                waiting.timer.cancel()
        if self._giving_back is not None:
            self._giving_back.cancel()
        await asyncio.to_thread(self._threads.shutdown)
        for waiting in self._queues.values():
            if waiting.ledger is not None:
                waiting.ledger.close()

    # ---- in a thread

    def _work(self, waiting: _LedgerQueue) -> None:
        """Whoever publishes waits for no more than one of those who read."""
        try:
            while not waiting.idle and not self._failed:
                if waiting.queue:
                    effect = waiting.queue.popleft()
                    if isinstance(effect, Commit):
                        self._commit(waiting, effect)
                    else:
                        self._do(waiting, effect)
                if waiting.queries:
                    self._do(waiting, waiting.queries.popleft())
        except Exception as error:  # the pool would keep it to itself
            self._failed = True
            self._loop.call_soon_threadsafe(self._fail, error)
        self._loop.call_soon_threadsafe(self._rest, waiting)

    def _rest(self, waiting: _LedgerQueue) -> None:
        """On the loop: nothing came while the thread was about to end, or it goes on."""
        waiting.busy = not waiting.idle and not self._failed
        if waiting.busy:
            self._threads.submit(self._work, waiting)
            return
        is_closed = waiting.ledger is None and waiting.timer is None and not waiting.failure
        if is_closed and self._queues.get(waiting.topic) is waiting:
            del self._queues[waiting.topic]  # a queue for every topic that sleeps would take much memory
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

    def _commit(self, waiting: _LedgerQueue, first: Commit) -> None:
        """Everything that waits at the head of the queue is one commit: one sync for all of it."""
        commits = [first]
        entries: list[Entry] = list(first.entries)
        while waiting.queue and isinstance(waiting.queue[0], Commit) and len(entries) < _MOST_ENTRIES:
            commit = waiting.queue.popleft()
            assert isinstance(commit, Commit)
            commits.append(commit)
            entries += commit.entries
        try:
            if waiting.ledger is None:
                raise LedgerFailed(waiting.failure or "the ledger is not open")
            if waiting.blocked not in (0, first.token):
                raise LedgerBusy("an earlier commit has not been taken yet")
            begun = time.monotonic()
            waiting.ledger.commit(entries)
            self.commit_times.add(time.monotonic() - begun)
            waiting.blocked = 0
        except (StentorError, OSError) as error:
            # what is damaged concerns this topic, and others of this process go on
            fatal = isinstance(error, LedgerFailed | OSError) and not isinstance(error, LedgerDamaged)
            waiting.blocked = waiting.blocked or first.token
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

    def _do(self, waiting: _LedgerQueue, effect: _Effect) -> None:
        try:
            match effect:
                case Open():
                    waiting.close()  # if a machine failed, and another one begins with what is there
                    waiting.ledger, waiting.blocked = self._ledger_store.open(effect.ledger), 0
                    self._notify([Opened(effect.ledger, waiting.ledger.load(), wall=time.time_ns())])
                case Scan():
                    if waiting.ledger is None:
                        raise LedgerFailed(waiting.failure or "the ledger is not open")
                    first = waiting.ledger.find(effect.time) if effect.time else effect.first
                    found = waiting.ledger.scan(first, effect.budget)
                    self._notify([Scanned(effect.ledger, effect.token, found.records, found.damaged)])
                case Recall():
                    self._notify([self._recall(effect)])
                case Collect():
                    assert waiting.ledger is not None
                    waiting.ledger.collect(effect.end)
                case _Measure():
                    if waiting.ledger is not None:
                        self._notify([Measured(effect.ledger, waiting.ledger.usage())])
                case CloseLedger():
                    waiting.close()
                case Discard():
                    waiting.close()
                    self._ledger_store.discard(effect.ledger)
        except (StentorError, OSError) as error:
            waiting.failure = str(error)
            if isinstance(effect, Open):
                waiting.close()  # what it had opened by then is given back
                self._notify([Opened(effect.ledger, LedgerContents(), str(error))])
            elif isinstance(effect, Scan):
                self._notify([Scanned(effect.ledger, effect.token, [], [], str(error))])
            elif isinstance(effect, Recall):
                self._notify([Recalled(effect.ledger, effect.token, [], Position(), Position(), str(error))])
