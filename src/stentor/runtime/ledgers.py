"""A repository's ledgers on real disks: one thread at a time uses a ledger, and waiting commits are joined."""

import asyncio
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

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
    """Carries out what is asked of ledgers, and tells what came of it on the event loop.

    A lone commit wakes a thread once and the loop once. A ThreadPoolExecutor takes several locks more for each, while
    the loop waits for the interpreter: some 20 µs of the 600 that a lone event cost a repository.
    """

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
        self._threads: list[threading.Thread] = []  # started when first needed
        self._work: SimpleQueue[_LedgerQueue | None] = SimpleQueue()  # None ends the thread that takes it
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
            if len(self._threads) < min(self._busy, _THREADS):
                thread = threading.Thread(target=self._serve, name=f"ledger-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._work.put(waiting)

    async def close(self) -> None:
        """Let what was asked for be done, then close."""
        if self._busy:
            await self._all_rest.wait()  # what came while a thread was about to end is done too
        for waiting in self._queues.values():
            if waiting.timer is not None:
                waiting.timer.cancel()
        if self._giving_back is not None:
            self._giving_back.cancel()
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        for waiting in self._queues.values():
            if waiting.ledger is not None:
                waiting.ledger.close()

    # ---- in a thread

    def _serve(self) -> None:
        while (waiting := self._work.get()) is not None:
            told: list[Input] = []
            try:
                told = self._work_off(waiting)
            except Exception as error:  # nobody would hear of it
                self._failed = True
                self._loop.call_soon_threadsafe(self._fail, error)
            self._loop.call_soon_threadsafe(self._rest, waiting, told)

    def _work_off(self, waiting: _LedgerQueue) -> list[Input]:
        """Do what is asked of a ledger; return what the loop is to be told of the last of it, with the thread's end.

        Whoever publishes waits for no more than one of those who read.
        """
        told: list[Input] = []
        while not waiting.idle and not self._failed:
            if waiting.queue:
                self._notify(told)
                effect = waiting.queue.popleft()
                told = self._commit(waiting, effect) if isinstance(effect, Commit) else self._do(waiting, effect)
            if waiting.queries:
                self._notify(told)
                told = self._do(waiting, waiting.queries.popleft())
        return told

    def _notify(self, told: list[Input]) -> None:
        if told:
            self._loop.call_soon_threadsafe(self._tell_all, told)

    def _commit(self, waiting: _LedgerQueue, first: Commit) -> list[Input]:
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
            return [CommitFailed(each.ledger, each.token, str(error), fatal) for each in commits]
        return [Committed(first.ledger, commits[-1].token)]

    def _recall(self, recall: Recall) -> Recalled:
        assert self._lake is not None, "nobody recalls without a lake"
        if recall.time:
            return Recalled(recall.ledger, recall.token, [], Position(), self._lake.find(recall.ledger, recall.time))
        blocks, sought, found = self._lake.recall(recall.ledger, recall.wanted, recall.budget)
        return Recalled(
            recall.ledger, recall.token, [(bytes(block.frame), block.schema) for block in blocks], sought, found
        )

    def _do(self, waiting: _LedgerQueue, effect: _Effect) -> list[Input]:
        try:
            match effect:
                case Open():
                    waiting.close()  # if a machine failed, and another one begins with what is there
                    waiting.ledger, waiting.blocked = self._ledger_store.open(effect.ledger), 0
                    return [Opened(effect.ledger, waiting.ledger.load(), wall=time.time_ns())]
                case Scan():
                    if waiting.ledger is None:
                        raise LedgerFailed(waiting.failure or "the ledger is not open")
                    first = waiting.ledger.find(effect.time) if effect.time else effect.first
                    found = waiting.ledger.scan(first, effect.budget)
                    return [Scanned(effect.ledger, effect.token, found.records, found.damaged)]
                case Recall():
                    return [self._recall(effect)]
                case Collect():
                    assert waiting.ledger is not None
                    waiting.ledger.collect(effect.end)
                case _Measure():
                    if waiting.ledger is not None:
                        return [Measured(effect.ledger, waiting.ledger.usage())]
                case CloseLedger():
                    waiting.close()
                case Discard():
                    waiting.close()
                    self._ledger_store.discard(effect.ledger)
        except (StentorError, OSError) as error:
            waiting.failure = str(error)
            if isinstance(effect, Open):
                waiting.close()  # what it had opened by then is given back
                return [Opened(effect.ledger, LedgerContents(), str(error))]
            if isinstance(effect, Scan):
                return [Scanned(effect.ledger, effect.token, [], [], str(error))]
            if isinstance(effect, Recall):
                return [Recalled(effect.ledger, effect.token, [], Position(), Position(), str(error))]
        return []

    # ---- on the loop

    def _rest(self, waiting: _LedgerQueue, told: list[Input]) -> None:
        """A thread has nothing more to do with a ledger, unless something came while it was about to end."""
        if not waiting.idle and not self._failed:
            self._work.put(waiting)
        else:
            waiting.busy = False
            self._busy -= 1
            self._forget_closed(waiting)
        self._tell_all(told)
        if not self._busy:
            self._all_rest.set()

    def _tell_all(self, told: list[Input]) -> None:
        for happened in told:
            self._tell(happened)

    def _forget_closed(self, waiting: _LedgerQueue) -> None:
        """Forget the queue of a ledger that is closed: one for every topic that sleeps would take much memory."""
        is_closed = waiting.ledger is None and waiting.timer is None and not waiting.failure
        if is_closed and self._queues.get(waiting.topic) is waiting:
            del self._queues[waiting.topic]
            if self._giving_back is None:
                self._giving_back = self._loop.call_later(_GIVE_BACK_AFTER, self._give_back)

    def _give_back(self) -> None:
        self._giving_back = None
        self._loop.run_in_executor(None, give_back)
