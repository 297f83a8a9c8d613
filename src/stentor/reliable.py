"""The public API of reliable topics: a named publisher, and a named subscription. Made by `Fabric`.

    async with fabric.publisher("orders", name="shop") as shop:
        stored = await shop.send(b"...", price=3.5)         # returns when it is stored; stored.copies says on how many
        shop.send_nowait(b"...", price=4.5)                 # for throughput,
        await shop.flush()                                  # until all of it is stored

    async with fabric.publisher("orders", name="shop", resume=(incarnation, number)) as shop:
        await shop.send(b"...")                             # has the next number: see `Publisher`

    async with fabric.subscribe("orders", name="billing", where="price > 2") as events:
        async for event in events:                          # acknowledged when the next one is asked for
            ...

Each event comes once, in order per publisher, and what a crashed application had not acknowledged comes again, with
`event.redelivered`. A name has one holder at a time: a newer one fences an older one off. Nothing of this depends on
where it runs: the repositories remember how far a name is.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Literal, NamedTuple, Self
from weakref import WeakSet

from stentor.event import StoredBatch, StoredEvent, check_body, check_time
from stentor.first_connection import Access
from stentor.holder import Holder
from stentor.losses import Losses
from stentor.losses import LostEvents as LostEvents
from stentor.machine import SECOND, Effect
from stentor.model.attribute import Value
from stentor.model.epoch import Epoch
from stentor.model.errors import (
    BufferFull,
    Closed,
    InvalidInput,
    StentorError,
)
from stentor.model.filter import Filter
from stentor.model.ids import Incarnation
from stentor.model.mail import MAIL, own_mail
from stentor.model.position import Position
from stentor.pace import Pace, settings_of
from stentor.past import Past, Readers
from stentor.protocols.delivery.dialogue import (
    Acknowledged,
    Attach,
    Entrusted,
    EntrustedMany,
    Leaving,
    MakeRoom,
    Release,
    ReportLoss,
    TurnEnded,
    Wanted,
)
from stentor.protocols.delivery.reliable_publisher import PublisherSettings, ReliablePublisher, Resumption
from stentor.protocols.delivery.reliable_subscriber import ReliableSubscriber

From = str | int | datetime  # "beginning", "now", an epoch such as "r1:107", or a time
Resume = tuple[int, int]  # an incarnation, and the last number of it that is stored
_LINGER = 5.0  # seconds that an end that is closed gives what is not safe yet
_TURN = 64 << 10  # bytes published before the event loop gets a turn
_ACK_EVERY = 0.05  # seconds that an acknowledgement of the application may wait for others


class Stored(NamedTuple):
    """What is known of an event that is stored: on how many repositories it and all before it are."""

    copies: int


class Publisher(Holder):
    """A named publisher of a reliable topic.

    Each life of it has an incarnation of its own, unless it resumes one: whoever remembers what it sends may go on
    after a number of an earlier incarnation, up to which all is stored. What that life had sent beyond is stored once,
    if the same is sent again.
    """

    def __init__(
        self, access: Access, topic: str, name: str, stored_on: int, buffer: int, resumption: Resumption | None = None
    ) -> None:
        super().__init__(access, "publisher", topic, name, 1 << 20)
        if stored_on < 0:
            raise InvalidInput("stored_on is a number of repositories, or 0 for what the topic asks for")
        self._stored_on = stored_on
        settings = PublisherSettings(buffer=buffer)
        self._machine = ReliablePublisher(topic, name, self._settings.incarnation, settings, resumption)
        self._room: asyncio.Future[None] | None = None
        self._turn = False
        self._since_turn = 0

    @property
    def incarnation(self) -> int:
        """The incarnation of what it publishes: its own, or the one that it resumes. If the clock was set back, its own
        is known when a repository has answered.
        """
        return int(self._machine.incarnation)

    @property
    def recovered(self) -> tuple[int, int] | None:
        """What was stored of this name before: of the incarnation that it resumes, or the newest, the last number."""
        return self._machine.recovered

    @property
    def stored(self) -> int:
        """How many events of this life are known to be stored: the first ones, without a gap."""
        return self._machine.stored

    @property
    def largest_body(self) -> int:
        """Bytes that a body may have; known once it is open."""
        return self._machine.largest_body

    async def __aenter__(self) -> Self:
        await self._open(self._machine)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give what is not stored yet a few seconds, then end."""
        if self._error is None and self._driver is not None:
            with suppress(StentorError):  # whoever must know calls flush
                await self.flush(_LINGER)
        await self._end()

    async def send(
        self,
        body: bytes = b"",
        *,
        attributes: Mapping[str, Value] | None = None,
        stored_on: int = 0,
        timeout: float | None = None,
        **more: Value,
    ) -> Stored:
        """Publish one event; returns when it is stored, on `stored_on` repositories if that is more than the topic asks
        for. With a timeout, Unresponsive after it: the event is still on its way.
        """
        self._offer(body, attributes, more)
        self._end_turn()
        copies = await self._safe(stored_on or self._stored_on, timeout)
        return Stored(copies)

    def send_nowait(self, body: bytes = b"", *, attributes: Mapping[str, Value] | None = None, **more: Value) -> None:
        """Publish one event and go on; BufferFull, with nothing done, if too much is not stored yet."""
        if not self._machine.room:
            raise BufferFull("too many events wait to be stored: flush() and room() wait for that")
        self._offer(body, attributes, more)
        if not self._turn:
            self._turn = True
            assert self._driver is not None
            self._driver.loop.call_soon(self._end_turn)

    async def send_many(
        self,
        bodies: Iterable[bytes],
        attributes: Mapping[str, Sequence[Value | None]] | None = None,
        time_ns: int | None = None,
    ) -> None:
        """Publish many events; each attribute is a sequence as long as `bodies`. Waits only for room in the buffer.

        `time_ns` is when they happened, in nanoseconds since 1970, if that is not now.
        """
        await self.room()
        self._check()
        assert self._driver is not None
        at = time.time_ns() if time_ns is None else check_time(time_ns)
        self._driver.machine.step(0, EntrustedMany(attributes or {}, [check_body(body) for body in bodies], at))
        self._end_turn()

    async def room(self) -> None:
        """Return when there is room for more."""
        self._end_turn()
        while not self._machine.room:
            self._check()
            if self._room is None:
                self._room = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._room)

    async def flush(self, timeout: float | None = None) -> Stored:
        """Return when everything that was sent before is stored."""
        self._end_turn()
        return Stored(await self._safe(self._stored_on, timeout))

    def _offer(self, body: bytes, attributes: Mapping[str, Value] | None, more: Mapping[str, Value]) -> None:
        self._check()
        if more:
            attributes = {**attributes, **more} if attributes else more
        # it waits for the end of the turn: nothing of that concerns the link
        self._machine.step(0, Entrusted(attributes or {}, check_body(body), time.time_ns()))

    def _end_turn(self) -> None:
        self._turn = False
        if self._error is None and self._driver is not None:
            self._tell(TurnEnded())

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, MakeRoom):
            self._wake()
        else:
            super()._perform(effect)

    def _wake(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._room = None

    def _fail(self, error: Exception) -> None:
        super()._fail(error)
        self._wake()


class Subscription(Holder):
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
        self._past: Past | None = None  # that it has not been given yet, or not acknowledged
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
        await self.close()

    async def close(self) -> None:
        """Let what was acknowledged be known, then end; the name stays registered, and may come back anywhere."""
        if self._error is None and self._driver is not None:
            with suppress(StentorError):  # what is not known may come again, and is marked then
                await self.sync(_LINGER)
                self._hand_out_no_more()
                await self._assured(lambda token: Leaving(token, self._handed), _LINGER)
        await self._close_links()

    async def _close_links(self) -> None:
        if self._past is not None:
            await self._past.close()
        await self._end()
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
            assert self._past is not None, "only the past has negative positions"
            self._past.acknowledge(first, last)
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
        if self._past is not None:
            self._past.tell()
        if self._unacked and self._error is None:
            spans, self._unacked = self._unacked, []
            self._tell(Acknowledged(spans))

    async def _take(self) -> StoredBatch:
        while self._past is not None and not self._past.over and not self._batches:
            self._check()
            self._tell_acks()
            batches = await self._past.take(self._acknowledge)
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
                self._tell(Wanted())
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
        if isinstance(effect, Attach):
            self.epoch = str(Epoch(effect.repository, effect.epoch))
            if self._wanted is None:
                self.where = self._wanted = effect.where
            if self._past is None and effect.past:
                self._past = Past(self._readers, self.topic, self.name, self._wanted, Position.of(effect.past))
        super()._perform(effect)

    def _fail(self, error: Exception) -> None:
        """What is buffered comes again in another life, perhaps at once: this one hands out nothing more."""
        super()._fail(error)
        self._drop_buffer()


class Ends:
    """The named publishers and subscriptions of a client: each has a link of its own, and ends with the client."""

    def __init__(self, access: Access, window: int, readers: Readers) -> None:
        self._access = access
        self._window = window
        self._readers = readers
        self._all: WeakSet[Publisher | Subscription] = WeakSet()

    def publisher(self, topic: str, name: str, stored_on: int, buffer: int, resume: Resume | None) -> Publisher:
        publisher = Publisher(self._access, topic, name, stored_on, buffer, _resumption(resume))
        self._all.add(publisher)
        return publisher

    def subscription(
        self, topic: str, name: str, where: str | None, from_: From, ack: Literal["auto", "manual"], pace: Pace
    ) -> Subscription:
        where = own_mail(name, where) if topic == MAIL else where
        subscription = Subscription(self._access, topic, name, where, from_, ack, self._window, self._readers, pace)
        self._all.add(subscription)
        return subscription

    def move(self, url: str) -> None:
        self._access = self._access._replace(url=url)
        for end in list(self._all):
            if end.is_open:
                end.move(url)

    async def close(self) -> None:
        for end in list(self._all):
            await end.close()


def _resumption(resume: Resume | None) -> Resumption | None:
    if resume is None:
        return None
    incarnation, number = resume
    if not 0 < incarnation < 1 << 48 or number < 0:
        raise InvalidInput(f"resume is an incarnation and the last number of it that is stored, not {resume!r}")
    return Resumption(Incarnation(incarnation), number)


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
