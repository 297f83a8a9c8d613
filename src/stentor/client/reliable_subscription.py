"""A named subscription of a reliable topic. Made by `Fabric.subscribe` with a name.

    async with fabric.subscribe("orders", name="billing", where="price > 2") as events:
        async for event in events:                          # acknowledged when the next one is asked for
            ...

Each event comes once, in order per publisher. An event that a crashed application had not acknowledged comes again,
with `event.redelivered`, to the next holder of the name, wherever that one runs.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Literal, Self

from stentor.client.connection.first_connection import Access
from stentor.client.event import StoredBatch, StoredEvent
from stentor.client.lake_backfill import LakeBackfill, Readers
from stentor.client.losses import Losses, LostEvents
from stentor.client.machine_runner import LINGER
from stentor.client.named_connection import NamedConnection
from stentor.client.pace import Pace, settings_of
from stentor.machine import SECOND, Effect
from stentor.model.errors import (
    Closed,
    InvalidInput,
    StentorError,
)
from stentor.model.filter import Filter
from stentor.model.stored.epoch import Epoch
from stentor.model.stored.position import Position
from stentor.protocols.delivery.endpoint_api import (
    Acknowledged,
    EventsRequested,
    Leaving,
    Release,
    ReportLoss,
    ReportSteering,
)
from stentor.protocols.delivery.subscriber.subscriber import ReliableSubscriber

From = str | int | datetime  # "beginning", "now", an epoch such as "r1:107", or a time
_ACK_EVERY = 0.05  # seconds that an acknowledgement of the application may wait for others


class Subscription(NamedConnection):
    """A named subscription of a reliable topic: use it with `async with`, then `async for`."""

    def __init__(
        self,
        access: Access,
        topic: str,
        name: str,
        where: str | None,
        from_: From,
        ack: Literal["auto", "manual"],
        window: int,
        readers: Readers,
        pace: Pace,
    ) -> None:
        super().__init__(access, "subscriber", topic, name, window)
        self._readers = readers
        self._backfill: LakeBackfill | None = None  # that it has not been given yet, or not acknowledged
        self.where = "" if where is None or where == "*" else where  # once it is open, the filter as it is registered
        self.epoch = ""  # from which on events are ours: the repository that steers us, and its sequence number
        wanted = where if where is None else str(Filter(where)) if where not in ("", "*") else ""
        settings = settings_of(pace)
        self._wanted = wanted  # None: what was registered before
        self._machine = ReliableSubscriber(topic, name, self._settings.incarnation, wanted, since_of(from_), settings)
        self._ack_every = min(_ACK_EVERY, settings.ack_after / SECOND / 2)
        self._auto = ack == "auto"
        self._batches: deque[StoredBatch] = deque()
        self._current: deque[StoredEvent] = deque()
        self._arrived = asyncio.Event()
        self._hungry = False
        self._unacked: list[tuple[int, int]] = []  # acknowledged by the application, not told yet
        self._telling: asyncio.TimerHandle | None = None
        self._thread = 0  # the event loop's
        self._last: StoredEvent | StoredBatch | None = None  # what the application works on
        self._handed = 0  # the position of the last event that the application was handed
        self._losses = Losses()
        self._is_leaving = False  # it is handed no more, because repositories are told how many it was handed

    async def __aenter__(self) -> Self:
        """Returns when the subscription is registered: nothing published afterwards is missed, wherever we are."""
        self._thread = threading.get_ident()
        await self._open(self._machine, self._wanted)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._done()
        await super().__aexit__(kind, error, trace)

    async def close(self) -> None:
        """Let what was acknowledged be known, then end; the name stays registered, and may come back anywhere."""
        if self._error is None and self._driver is not None:
            with suppress(StentorError):  # what is not known may come again, and is marked then
                await self.sync(LINGER)
                self._hand_out_no_more()
                await self._assured(lambda token: Leaving(token, self._handed), LINGER)
        await self._close_links()

    async def _close_links(self) -> None:
        if self._backfill is not None:
            await self._backfill.close()
        await self._stop("this one was closed")
        self._arrived.set()

    async def unsubscribe(self, timeout: float | None = 30.0) -> None:
        """End this subscription for good, then close: nothing is kept for its name any more, at any repository. Its
        grant stays: it may subscribe again, and begins anew then. Unresponsive if that is not confirmed in time.
        """
        self._tell_acks()
        self._hand_out_no_more()
        await self._assured(lambda token: Leaving(token, self._handed, unsubscribes=True), timeout)
        await self._close_links()

    def _hand_out_no_more(self) -> None:
        self._is_leaving = True
        self._drop_buffer()

    def _drop_buffer(self) -> None:
        self._current.clear()
        self._batches.clear()
        self._arrived.set()

    @property
    def lost(self) -> list[LostEvents]:
        """What was damaged and given up since this was opened; nobody knows whether the filter would have taken it."""
        return self._losses.listed()

    async def sync(self, timeout: float | None = None) -> None:
        """Return when all acknowledgements are durable: none of these events comes again."""
        self._tell_acks()
        await self._safe(0, timeout)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StoredEvent:
        self._done()
        if not self._current:
            self._current.extend(await self._take())
        event = self._current.popleft()
        self._handed = max(self._handed, event.position)
        if self._auto:
            self._last = event
        return event

    async def batches(self) -> AsyncIterator[StoredBatch]:
        """Whole batches, for those who need the rate; each is acknowledged when the next one is asked for."""
        while True:
            try:
                yield await self.next_batch()
            except StopAsyncIteration:
                return

    async def next_batch(self) -> StoredBatch:
        """The next batch, of which the one before is acknowledged; StopAsyncIteration when this was closed."""
        self._done()
        batch = await self._take()
        self._handed = max(self._handed, batch.position + len(batch) - 1)
        if self._auto:
            self._last = batch
        return batch

    def _done(self) -> None:
        """The application asks for more: it is done with what it had."""
        last, self._last = self._last, None
        if last is not None:
            last.ack()

    def _acknowledge(self, first: int, last: int) -> None:
        """May be called on any thread: applications without `async` work on another one."""
        assert self._driver is not None
        if threading.get_ident() == self._thread:
            self._note(first, last)
        elif self._driver.loop.is_closed():
            raise Closed("this subscription was closed: what was not acknowledged comes again")
        else:
            self._driver.loop.call_soon_threadsafe(self._note, first, last)

    def _note(self, first: int, last: int) -> None:
        if first < 0:
            assert self._backfill is not None, "only the past has negative positions"
            self._backfill.acknowledge(first, last)
        else:
            self._note_present(first, last)
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(self._ack_every, self._tell_acks)

    def _note_present(self, first: int, last: int) -> None:
        unacked = self._unacked
        if unacked and unacked[-1][1] + 1 == first:
            unacked[-1] = unacked[-1][0], last
        else:
            unacked.append((first, last))

    def _tell_acks(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        if self._backfill is not None:
            self._backfill.tell()
        if self._unacked and self._error is None:
            spans, self._unacked = self._unacked, []
            self._tell(Acknowledged(spans))

    async def _take(self) -> StoredBatch:
        while self._backfill is not None and not self._backfill.over and not self._batches:
            self._check()
            self._tell_acks()
            batches = await self._backfill.take(self._acknowledge)
            if self._error is None:
                self._batches.extend(batches)
        while self._is_leaving or not self._batches:
            if self._is_leaving:
                raise StopAsyncIteration
            if self._error is not None:
                if isinstance(self._error, Closed):
                    raise StopAsyncIteration
                raise self._error
            self._check()
            self._tell_acks()
            if not self._hungry:
                self._hungry = True
                self._tell(EventsRequested())
                continue
            self._arrived.clear()
            await self._arrived.wait()
        return self._batches.popleft()

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, Release):
            self._hungry = False
            if not self._is_leaving:
                self._batches.extend(StoredBatch(self.topic, each, self._acknowledge) for each in effect.portions)
            self._arrived.set()
            return
        if isinstance(effect, ReportLoss):
            self._log.lost(self._losses.learn(effect))
        if isinstance(effect, ReportSteering):
            self.epoch = str(Epoch(effect.repository, effect.epoch))
            if self._wanted is None:
                self.where = self._wanted = effect.where
            if self._backfill is None and effect.past:
                self._backfill = LakeBackfill(
                    self._readers, self.topic, self.name, self._wanted, Position.of(effect.past)
                )
        super()._perform(effect)

    def _fail(self, error: Exception) -> None:
        """What is buffered comes again in another life, perhaps at once: this one hands out nothing more."""
        super()._fail(error)
        self._drop_buffer()


def since_of(from_: From) -> str:
    """Return a beginning as repositories understand it."""
    if isinstance(from_, datetime):
        return f"time {int(from_.timestamp() * 1e9)}"
    if from_ in ("now", "beginning"):
        return str(from_)
    epoch = None if isinstance(from_, bool) else Epoch.parse(str(from_))
    if epoch is None:
        raise InvalidInput(f"from_ is 'beginning', 'now', an epoch such as 'r1:107' or a time, not {from_!r}")
    return f"epoch {epoch}"
