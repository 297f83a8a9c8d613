"""The public Python API: connect, publish, subscribe.

    async with stentor.connect("stentor://127.0.0.1:7420") as fabric:
        async with fabric.subscribe("flights/#", where="carrier = 'UA' AND dep_delay > 60") as events:
            await fabric.publish("flights/jfk", b"...", carrier="UA", dep_delay=75.0)
            async for event in events:
                print(event.topic, event["dep_delay"], event.body)

What awaiting a publish means: the event was checked and taken into this client's buffer, and leaves with whatever else
this turn of the event loop brings. It waits only while the buffer is full, because the broker pushes back or is away.
`await fabric.flush()` returns when the broker has taken in everything published before. Best-effort events can be lost
with a link that breaks, never repeated and never out of order per publisher and topic. A subscription ends with its
`async with`, however it is left: leave the loop with `break`, and what had not been read is dropped.
"""

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, overload

import msgspec

from stentor.event import Batch, Event, check_body
from stentor.holder import incarnation
from stentor.machine import Effect, Input, StopRequested
from stentor.model.attribute import Value
from stentor.model.control import inbox_of
from stentor.model.errors import (
    Closed,
    Fenced,
    LinkBroken,
    Refusal,
    Refused,
    StentorError,
    Unreachable,
    Unresponsive,
)
from stentor.model.ids import SubscriptionId
from stentor.model.messages import StatusRequest
from stentor.model.status import NodeStatus
from stentor.nodes.application import (
    Answer,
    Asked,
    Confirm,
    Connect,
    Deliver,
    Demanded,
    Deny,
    Disconnect,
    FlushRequested,
    Halt,
    MakeRoom,
    Moved,
    Offered,
    OfferedMany,
    Question,
    Settle,
    Tell,
    TurnEnded,
    Unwished,
    Wished,
)
from stentor.nodes.client import Client, Settings
from stentor.protocols.delivery.subscriber import frames
from stentor.reading import PAGES, Reader, reading
from stentor.reliable import Ends, From, Publisher, Resume, Subscription
from stentor.runtime.dialler import Dialler
from stentor.runtime.driver import Driver
from stentor.url import addresses_of
from stentor.wire.block import Block

DEFAULT_URL = "stentor://127.0.0.1:7420"
_LINGER = 5.0  # seconds that a client that is closed gives what waits to be sent
_LARGEST_WINDOW = 1 << 32  # a broker's word is good: what it grants may wait to be written
_TURN = 64 << 10  # bytes published before the event loop gets a turn


def connect(
    url: str | None = None,
    *,
    name: str | None = None,
    tls: str | Path | None = None,
    timeout: float = 5.0,
    buffer: int = 16 << 20,
    window: int = 4 << 20,
) -> "Fabric":
    """A client of a broker, to be used with `async with`.

    `url` is `stentor://host:port`, or several of them, `stentor://one:7420,two:7420`, to go to the next when a broker
    is away; by default $STENTOR_URL or this machine. `name` identifies the client: a second holder of a name fences the
    first one off; without one, a fresh name is made. `tls` is a directory of `stentor certs`, by default $STENTOR_TLS.
    `timeout` bounds the first connection; it reconnects for ever. `buffer`, `window` bound bytes to send and to read.
    """
    return Fabric(url, name=name, tls=tls, timeout=timeout, buffer=buffer, window=window)


class Fabric:
    """A connected client. Made by `connect`."""

    def __init__(
        self, url: str | None, *, name: str | None, tls: str | Path | None, timeout: float, buffer: int, window: int
    ) -> None:
        self.url = url or os.environ.get("STENTOR_URL") or DEFAULT_URL
        self.name = name or f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
        self._tls = tls or os.environ.get("STENTOR_TLS") or None
        self._timeout = timeout
        self._client = Client(
            Settings(
                name=self.name,
                addresses=addresses_of(self.url),
                incarnation=incarnation(),
                window=window,
                buffer=buffer,
                agent="stentor-python",
                secure=self._tls is not None,
            )
        )
        self._driver: Driver | None = None
        self._events: dict[SubscriptionId, Events] = {}
        self._waiting: dict[int, asyncio.Future[Answer | None]] = {}
        self._opening: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._turn = self._unflushed = False
        self._since_turn = self._numbers = 0
        self._error: Exception | None = None
        self.trouble = ""  # why the link broke, or was not made
        self.node = self.principal = ""  # the broker's name, and who we are to it
        self.connected = False
        self._changed = asyncio.Event()
        self._ends = Ends(str(self._tls) if self._tls else None, timeout, window, self._read)

    async def wait_until(self, *, connected: bool) -> None:
        """Return when the link to the broker is up, or down."""
        while self.connected is not connected:
            self._check()
            self._changed.clear()
            await self._changed.wait()

    async def __aenter__(self) -> Self:
        assert self._driver is None, "a fabric is entered once"
        driver = self._driver = Driver(
            self._client, dialler=Dialler(self._tls), application=self._perform, window=_LARGEST_WINDOW
        )
        driver.stopped.add_done_callback(lambda stopped: self._fail(StentorError(stopped.result())))
        self._opening = driver.loop.create_future()
        driver.start()
        try:
            await asyncio.wait_for(self._opening, self._timeout)
        except TimeoutError:
            await self.close()
            trouble = f" ({self.trouble})" if self.trouble else ""
            hint = ": is `stentor up` running there?" if self.trouble in ("", "connection refused") else ""
            raise Unreachable(f"no broker at {self.url} within {self._timeout:g} s{trouble}{hint}") from None
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Send what waits, say goodbye and end; every subscription ends with it."""
        driver = self._driver
        if driver is None or isinstance(self._error, Closed):
            return
        if self._error is None:
            self._end_turn()
            if self.connected and self._unflushed:
                with suppress(StentorError):  # whoever must know whether it arrived calls flush
                    await self.flush(_LINGER)
        await self._ends.close()
        self._fail(Closed("this client was closed"))
        driver.tell(StopRequested())
        await driver.close()

    async def publish(
        self, topic: str, body: bytes = b"", *, attributes: Mapping[str, Value] | None = None, **more: Value
    ) -> None:
        """Publish one event. Attributes are keywords, or `attributes={…}` for names that clash with parameters."""
        self._check()
        if more:
            attributes = {**attributes, **more} if attributes else more
        self._driver.machine.step(0, Offered(topic, attributes or {}, check_body(body), time.time_ns()))  # type: ignore[union-attr]
        await self._offered(len(body))

    async def publish_many(
        self, topic: str, bodies: Iterable[bytes], attributes: Mapping[str, Sequence[Value | None]] | None = None
    ) -> None:
        """Publish many events on one topic; each attribute is a sequence as long as `bodies`, None where missing."""
        self._check()
        events = list(map(check_body, bodies))
        self._driver.machine.step(0, OfferedMany(topic, attributes or {}, events, time.time_ns()))  # type: ignore[union-attr]
        await self._offered(sum(map(len, events)))

    async def send(self, to: Iterable[str], body: bytes = b"", **attributes: Value) -> None:
        """Publish an event that names its destinations: clients that read their `inbox`, wherever they are."""
        for name in dict.fromkeys(to):
            await self.publish(inbox_of(name), body, attributes=attributes)

    def inbox(self, where: str | None = None) -> "Events":
        """The events that were sent to this client by its name."""
        return self.subscribe(inbox_of(self.name), where)

    async def _offered(self, size: int) -> None:
        self._unflushed = True
        if not self._turn:
            self._turn = True
            self._driver.loop.call_soon(self._end_turn)  # type: ignore[union-attr]
        self._since_turn += size + 64
        if not self._client.room:
            await self._wait_for_room()
        elif self._since_turn > _TURN:
            self._end_turn()
            await asyncio.sleep(0)

    async def _wait_for_room(self) -> None:
        self._end_turn()
        while not self._client.room:
            self._check()
            if self._room is None:
                self._room = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._room)

    def _end_turn(self) -> None:
        self._turn, self._since_turn = False, 0
        if self._error is None and self._driver is not None:
            self._driver.tell(TurnEnded())

    async def flush(self, timeout: float | None = 30.0) -> None:
        """Return when the broker has taken in everything published before; LinkBroken if that cannot be known."""
        self._unflushed = False
        await self._answered(self.token(), FlushRequested, timeout)

    async def status(self, timeout: float = 10.0) -> NodeStatus:
        """What the broker tells about itself and its clients."""
        answer = await self.ask(StatusRequest(self.token()), timeout)
        return msgspec.msgpack.decode(answer.status, type=NodeStatus)  # type: ignore[union-attr]

    async def move(self, url: str) -> None:
        """Leave this broker in good order for another one; subscriptions go with the client."""
        self._check()
        assert self._driver is not None
        addresses = addresses_of(url)
        await self.flush()
        self.url = url
        self._driver.tell(Moved(addresses))
        self._ends.move(url)

    async def ask(self, question: Question, timeout: float | None) -> Answer:
        """Ask the broker something; the question's token must be fresh."""
        return await self._answered(question.token, lambda _: Asked(question), timeout)  # type: ignore[return-value]

    def token(self) -> int:
        """A fresh number, for a question."""
        self._numbers += 1
        return self._numbers

    async def _answered(self, token: int, question: Callable[[int], Input], timeout: float | None) -> Answer | None:
        self._check()
        assert self._driver is not None
        future = self._waiting[token] = self._driver.loop.create_future()
        try:
            self._driver.tell(question(token))
            answer: Answer | None = await asyncio.wait_for(future, timeout)
        except TimeoutError:
            raise Unresponsive(f"the broker at {self.url} did not answer within {timeout:g} s") from None
        finally:
            self._waiting.pop(token, None)
        return answer

    @overload
    def subscribe(self, pattern: str, where: str | None = None) -> "Events": ...
    @overload
    def subscribe(
        self,
        pattern: str,
        where: str | None = None,
        *,
        name: str,
        from_: From = "now",
        ack: Literal["auto", "manual"] = "auto",
    ) -> Subscription: ...
    def subscribe(
        self,
        pattern: str,
        where: str | None = None,
        *,
        name: str | None = None,
        from_: From = "now",
        ack: Literal["auto", "manual"] = "auto",
    ) -> "Events | Subscription":
        """Events whose topic matches `pattern` (`+` is one level, `#` the rest) and whose attributes match `where`.

        With a `name` the topic is a reliable one: each event comes once, in order, and the name's place is remembered
        by the topic's repositories. `from_` is where a new name begins: "now", "beginning", an epoch or a datetime.
        """
        if name is not None:
            return self._ends.subscription(self.url, pattern, name, where or "", from_, ack)
        self._numbers += 1
        return Events(self, SubscriptionId(self._numbers), pattern, where or "")

    def publisher(
        self, topic: str, *, name: str, stored_on: int = 0, buffer: int = 16 << 20, resume: Resume | None = None
    ) -> Publisher:
        """A named publisher of a reliable topic, perhaps on more repositories than it asks for; see `Publisher`."""
        return self._ends.publisher(self.url, topic, name, stored_on, buffer, resume)

    def _read(self, name: str) -> AbstractAsyncContextManager[Reader]:
        return reading(connect(self.url, tls=self._tls, window=PAGES), name)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._driver is None:
            raise Closed("not connected: use `async with stentor.connect(…) as fabric`")

    # ---- what the machine tells

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Deliver():
                if (events := self._events.get(effect.subscription)) is not None:
                    events._deliver(self._batches(effect))
            case MakeRoom():
                self._wake()
            case Settle() | Tell():
                self._answer(effect)
            case Confirm() | Deny():
                refused = Refused(effect.code, effect.reason) if isinstance(effect, Deny) else None
                if (events := self._events.get(effect.subscription)) is not None:
                    events._confirm(refused)
            case Connect():
                self.node, self.principal = effect.node, effect.principal
                self._set_connected(True)
                if self._opening is not None and not self._opening.done():
                    self._opening.set_result(None)
            case Disconnect():
                self._set_connected(False)
                self.trouble = effect.reason
            case Halt():
                refusal = Fenced if effect.code is Refusal.FENCED else Refused
                self._fail(refusal(effect.code, effect.reason))

    def _batches(self, effect: Deliver) -> list[Batch]:
        batches = []
        missed = effect.missed
        for data in effect.data:
            for frame in frames(data):
                schema = self._client.schemas[int.from_bytes(frame[24:32], "little")]  # type: ignore[index]
                block = Block(frame, schema)
                batches.append(Batch(self._client.topics[block.topic], block, missed))
                missed = 0
        return batches

    def _answer(self, effect: Settle | Tell) -> None:
        future = self._waiting.get(effect.answer.token if isinstance(effect, Tell) else effect.token)
        if future is None or future.done():
            return
        if isinstance(effect, Tell):
            future.set_result(effect.answer)
        elif effect.reason:
            future.set_exception(LinkBroken(f"the link to the broker broke ({effect.reason}): events may be lost"))
        else:
            future.set_result(None)

    def _set_connected(self, connected: bool) -> None:
        self.connected = connected
        self._changed.set()

    def _wake(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._room = None

    def _fail(self, error: Exception) -> None:
        """Nothing more can be done with this client: everyone who waits is told."""
        self._error = error
        self._set_connected(False)
        for future in (self._opening, *self._waiting.values()):
            if future is not None and not future.done():
                future.set_exception(error)
        for events in list(self._events.values()):
            events._end(error)
        self._wake()


class Events:
    """A subscription: use it with `async with`, then `async for`. Made by `Fabric.subscribe`."""

    def __init__(self, fabric: Fabric, subscription: SubscriptionId, pattern: str, where: str) -> None:
        self.pattern = pattern
        self.where = where
        self.missed = 0  # events dropped because this application was too slow
        self._fabric = fabric
        self._id = subscription
        self._batches: deque[Batch] = deque()
        self._current: deque[Event] = deque()
        self._arrived = asyncio.Event()
        self._confirmed: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._hungry = False

    async def __aenter__(self) -> Self:
        """Returns when the subscription is in force: nothing published afterwards is missed."""
        fabric = self._fabric
        fabric._check()
        driver = fabric._driver
        assert driver is not None
        self._confirmed = driver.loop.create_future()
        fabric._events[self._id] = self
        try:
            driver.tell(Wished(self._id, self.pattern, self.where))
            await self._confirmed
        except BaseException:
            self._confirmed.cancel()
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Unsubscribe; what had not been read is dropped."""
        fabric = self._fabric
        if fabric._events.pop(self._id, None) is not None and fabric._error is None:
            assert fabric._driver is not None
            fabric._driver.tell(Unwished(self._id))
        self._end(Closed("this subscription was closed"))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        current = self._current
        if not current:
            current.extend(await self.next_batch())
        return current.popleft()

    async def batches(self) -> AsyncIterator[Batch]:
        """Whole batches, for those who need the rate."""
        while True:
            try:
                yield await self.next_batch()
            except StopAsyncIteration:
                return

    async def next_batch(self) -> Batch:
        """The next batch; StopAsyncIteration when the subscription was closed."""
        while not self._batches:
            if self._error is not None:
                if isinstance(self._error, Closed):
                    raise StopAsyncIteration
                raise self._error
            driver = self._fabric._driver
            if driver is None or self._confirmed is None:
                raise Closed("not subscribed: use `async with fabric.subscribe(…) as events`")
            if not self._hungry:
                self._hungry = True
                driver.tell(Demanded(self._id))
                continue
            self._arrived.clear()
            await self._arrived.wait()
        batch = self._batches.popleft()
        self.missed += batch.missed_before
        return batch

    def _deliver(self, batches: list[Batch]) -> None:
        self._hungry = False
        self._batches.extend(batches)
        self._arrived.set()

    def _confirm(self, error: Exception | None) -> None:
        if self._confirmed is not None and not self._confirmed.done():
            if error is None:
                self._confirmed.set_result(None)
            else:
                self._confirmed.set_exception(error)
        elif error is not None:
            self._end(error)

    def _end(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        if self._confirmed is not None and not self._confirmed.done():
            self._confirmed.set_exception(error)
        self._arrived.set()
