"""The asyncio driver: carries out a machine's effects with real sockets, timers and disks, and tells what happened."""

import asyncio
import random
import time
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import uvloop

from stentor.machine import (
    Append,
    Appended,
    AppendFailed,
    CertificateEnded,
    Close,
    Dial,
    Effect,
    Input,
    LinkLost,
    LinkOpened,
    Machine,
    Pause,
    Received,
    Report,
    Resume,
    Rewrite,
    Send,
    Serve,
    Started,
    StartTimer,
    Stop,
    StopTimer,
    Timer,
    TimerFired,
)
from stentor.model.ids import LinkId
from stentor.runtime.ledgers import CommitTimes, LedgerThreads
from stentor.runtime.link import Link
from stentor.runtime.log import Logger, logger
from stentor.runtime.log_summary import LogSummary
from stentor.storage.lake import Lake
from stentor.storage.ledger_store import LedgerStore
from stentor.storage.segment import LogError

_LINGER = 0.5  # seconds that a link that is closed gives to what was sent

Dialler = Callable[["Driver", LinkId, str], Coroutine[None, None, None]]


class Storage(Protocol):
    """Where a node's logs are."""

    def load(self) -> dict[str, list[bytes]]: ...
    def append(self, log: str, records: list[bytes]) -> None: ...
    def rewrite(self, log: str, records: list[bytes]) -> None: ...


class Driver:
    """Runs one machine on one event loop."""

    def __init__(
        self,
        machine: Machine,
        *,
        dialler: Dialler | None = None,
        application: Callable[[Effect], None] | None = None,
        storage: Storage | None = None,
        ledger_store: LedgerStore | None = None,
        lake: Lake | None = None,
        window: int = 4 << 20,
        log: Logger = logger,
    ) -> None:
        self.machine = machine
        self.loop = asyncio.get_running_loop()
        self.serving: asyncio.Future[None] = self.loop.create_future()
        self.stopped: asyncio.Future[str] = self.loop.create_future()
        self.links: dict[LinkId, Link] = {}
        self.high_water = min(2 * window + (4 << 20), (1 << 31) - 1)  # uvloop keeps it in a C int
        self._dialler = dialler
        self._application = application
        self._storage = storage
        self._ledgers = (
            LedgerThreads(ledger_store, self._notice, self._fail, lake) if ledger_store is not None else None
        )
        self.commit_times = self._ledgers.commit_times if self._ledgers is not None else CommitTimes()
        self._log = log
        self._reports = LogSummary(log, self.loop)
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._writes: set[asyncio.Task[None]] = set()  # not cancelled: a thread that writes to a log does not notice
        self._writing = asyncio.Lock()  # logs are written one after the other, in the order in which that was asked for
        self._is_closed = False
        self._unflushed: dict[Link, None] = {}
        self._closing: set[Link] = set()
        # uvloop gathers what a turn writes and writes it right after polling; asyncio makes a system call of each write
        self._gathers = isinstance(self.loop, uvloop.Loop)
        self._numbers = 0
        self._perform: dict[type[Effect], Callable[[Any], None]] = {
            Send: self._send,
            Close: self._close,
            Pause: lambda effect: self._read(effect.link, paused=True),
            Resume: lambda effect: self._read(effect.link, paused=False),
            Dial: self._dial,
            StartTimer: self._start_timer,
            StopTimer: self._stop_timer,
            Append: self._append,
            Rewrite: self._append,
            Report: self.report,
            Serve: lambda _: self.serving.set_result(None),
            Stop: self._stop,
        }
        if self._ledgers is not None:
            self._perform.update(dict.fromkeys(LedgerThreads.EFFECTS, self._ledgers.perform))

    def tell(self, happened: Input) -> None:
        """Step the machine and carry out what it wants; raises what the machine raises, for the caller's own inputs."""
        for effect in self.machine.step(time.monotonic_ns(), happened):
            self._do(effect)

    def _do(self, effect: Effect) -> None:
        perform = self._perform.get(type(effect))
        if perform is not None:
            perform(effect)
        elif self._application is not None:
            self._application(effect)

    def _notice(self, happened: Input) -> None:
        """Tell what the world did. If the machine fails at that, the fault is ours: the node ends, its log survives."""
        if self.stopped.done():
            return
        try:
            self.tell(happened)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._log.log("error", "internal error", {"trace": "".join(traceback.format_exception(error))})
        self._stop(Stop(f"internal error: {type(error).__name__}: {error}"))

    def start(self) -> None:
        self.tell(Started(self._storage.load() if self._storage is not None else {}, time.time_ns()))

    def number(self) -> LinkId:
        """A fresh number for an accepted link."""
        self._numbers += 1
        return LinkId(self._numbers)

    # ---- links

    def received(self, link: Link, data: bytes) -> None:
        """The hot path: one chunk, one step, and what it sends leaves when this turn of the loop ends. It is `_notice`
        without its calls, which would cost one of twenty parts of a lone event.
        """
        if self.stopped.done():
            return
        try:
            for effect in self.machine.step(time.monotonic_ns(), Received(link.id, data)):
                if type(effect) is Send:
                    self._send(effect)
                else:
                    self._do(effect)
        except Exception as error:
            self._fail(error)

    def opened(self, link: Link, happened: LinkOpened) -> None:
        self.links[link.id] = link
        self._notice(happened)

    def lost(self, link: Link, reason: str) -> None:
        self._closing.discard(link)
        if self.links.pop(link.id, None) is not None:
            self._notice(LinkLost(link.id, reason))

    def end_certificate(self, number: LinkId, reason: str) -> None:
        """What the peer on a link showed when it opened is good no longer."""
        if number in self.links:
            self._notice(CertificateEnded(number, reason))

    def unreachable(self, number: LinkId, reason: str) -> None:
        """A link that was dialled could not be opened."""
        self._notice(LinkLost(number, reason))

    def _send(self, effect: Send) -> None:
        link = self.links.get(effect.link)
        if link is None:
            return
        if self._gathers:
            link.write(effect.data)
            return
        link.unsent.extend(effect.data)
        if link not in self._unflushed:
            if not self._unflushed:
                self.loop.call_soon(self._flush)
            self._unflushed[link] = None

    def _flush(self) -> None:
        links, self._unflushed = self._unflushed, {}
        for link in links:
            link.flush()

    def _close(self, effect: Close) -> None:
        link = self.links.pop(effect.link, None)
        if link is not None:
            self._closing.add(link)
            link.flush()
            link.close()

    def _read(self, number: LinkId, *, paused: bool) -> None:
        link = self.links.get(number)
        if link is not None:
            link.read(paused=paused)

    def _dial(self, effect: Dial) -> None:
        assert self._dialler is not None, "this node dials nobody"
        task = self.loop.create_task(self._dialler(self, effect.link, effect.address))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- timers, disk, people

    def _start_timer(self, effect: StartTimer) -> None:
        self._stop_timer(StopTimer(effect.timer))
        delay = (effect.at - time.monotonic_ns() + random.randint(0, effect.jitter)) / 1e9
        self._timers[effect.timer] = self.loop.call_later(max(delay, 0), self._fire, effect.timer)

    def _fire(self, timer: Timer) -> None:
        del self._timers[timer]
        self._notice(TimerFired(timer, time.time_ns()))

    def _stop_timer(self, effect: StopTimer) -> None:
        handle = self._timers.pop(effect.timer, None)
        if handle is not None:
            handle.cancel()

    def _append(self, effect: Append | Rewrite) -> None:
        task = self.loop.create_task(self._write(effect))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def _write(self, effect: Append | Rewrite) -> None:
        assert self._storage is not None, "this node keeps no logs"
        write = self._storage.append if isinstance(effect, Append) else self._storage.rewrite
        happened: Input = Appended(effect.log, effect.token)
        async with self._writing:
            try:
                await asyncio.to_thread(write, effect.log, list(effect.records))
            except LogError as error:
                happened = AppendFailed(effect.log, effect.token, str(error))
            if not self._is_closed:
                self._notice(happened)

    def report(self, effect: Report) -> None:
        self._reports.report(effect.level, effect.what, effect.details)

    def _stop(self, effect: Stop) -> None:
        if not self.stopped.done():
            self.stopped.set_result(effect.reason)

    async def close(self) -> None:
        """Let what was sent leave, then end every link, timer and task; afterwards nobody writes to the logs."""
        self._is_closed = True
        self._reports.close()
        self._flush()
        for timer in list(self._timers):
            self._stop_timer(StopTimer(timer))
        for task in list(self._tasks):
            task.cancel()
        self._closing.update(self.links.values())
        self.links.clear()
        for link in self._closing:
            link.close()
        await asyncio.gather(*self._tasks, *self._writes, return_exceptions=True)
        await asyncio.gather(*(link.wait_closed(_LINGER) for link in self._closing))
        if self._ledgers is not None:
            await self._ledgers.close()
