"""The same API without `async`, for scripts and notebooks: a thin facade over `stentor.client` on a thread of its own.

    with stentor.blocking.connect() as fabric:
        with fabric.subscribe("flights/#") as events:
            fabric.publish("flights/jfk", b"...", carrier="UA")
            for event in events: ...

`connect`, `subscribe` and `publisher` return when they are open, so that a notebook can do without `with`: connect in a
cell, publish in another, go on with the same `for event in events` in a third one, and `fabric.close()` in the last.
What nobody closes is closed when the program ends. Ctrl-C interrupts any wait, and nothing is lost by that.
"""

import asyncio
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Generic, Literal, Self, TypeVar, Unpack, overload

from stentor.client import fabric as client
from stentor.client.connection.settling import Settled
from stentor.client.event import Batch, Event, StoredBatch, StoredEvent
from stentor.client.loop_thread import CLOSED, Loop, within
from stentor.client.losses import LostEvents
from stentor.client.pace import Pace
from stentor.client.reliable_publisher import Publisher, Resume, Stored
from stentor.client.reliable_subscription import From, Subscription
from stentor.model.attribute import Value
from stentor.model.errors import Closed
from stentor.model.status import NodeStatus
from stentor.nodes.application import Answer, Question

E = TypeVar("E", bound=Event)
B = TypeVar("B", bound=Batch)


def connect(
    url: str | None = None,
    *,
    name: str | None = None,
    tls: str | Path | None = None,
    token: str | Path | None = None,
    timeout: float = 5.0,
    wait: float = 0.0,
    buffer: int = 16 << 20,
    window: int = 4 << 20,
    stay: bool = False,
) -> "BlockingFabric":
    """As `stentor.connect`, and returns when it is connected: use it with `with`, or `close` it at the end."""
    fabric = client.connect(
        url, name=name, tls=tls, token=token, timeout=timeout, wait=wait, buffer=buffer, window=window, stay=stay
    )
    return BlockingFabric(fabric)


class BlockingFabric:
    """A connected client; its methods return when their asynchronous twins would."""

    def __init__(self, fabric: client.Fabric) -> None:
        self._fabric = fabric
        self._loop = Loop()
        try:
            self._loop.run(fabric.__aenter__())
        except BaseException:
            self._loop.close()
            raise
        # called once: by close, when nobody refers to this client any more, or when the program ends
        self._closing = weakref.finalize(self, _close, self._loop, fabric)

    def __enter__(self) -> Self:
        if not self._closing.alive:
            raise Closed(CLOSED)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Send what waits, say goodbye and end; every subscription and publisher ends with it."""
        self._closing()

    @property
    def url(self) -> str:
        return self._fabric.url

    @property
    def name(self) -> str:
        return self._fabric.name

    @property
    def node(self) -> str:
        return self._fabric.node

    @property
    def principal(self) -> str:
        """Who this client is to the broker."""
        return self._fabric.principal

    @property
    def is_operator(self) -> bool:
        """Whether the broker obeys us: we proved the fabric's token, or have a node's certificate for all of it."""
        return self._fabric.is_operator

    def as_operator(self) -> "BlockingFabric":
        """Another client of the same broker, under a name that only operators may take: repositories obey it."""
        return BlockingFabric(self._fabric.as_operator())

    @property
    def connected(self) -> bool:
        return self._fabric.connected

    @property
    def trouble(self) -> str:
        """Why the link broke, or was not made."""
        return self._fabric.trouble

    def wait_until(self, *, connected: bool, timeout: float | None = None) -> None:
        """Return when the link to the broker is up, or down; Unresponsive after a timeout."""
        self._loop.run(_connected(self._fabric, connected, timeout))

    def publish(
        self, topic: str, body: bytes = b"", *, attributes: Mapping[str, Value] | None = None, **more: Value
    ) -> None:
        self._loop.run(self._fabric.publish(topic, body, attributes=attributes, **more))

    def publish_many(
        self, topic: str, bodies: Iterable[bytes], attributes: Mapping[str, Sequence[Value | None]] | None = None
    ) -> None:
        self._loop.run(self._fabric.publish_many(topic, bodies, attributes))

    def send(self, to: Iterable[str], body: bytes = b"", *, guaranteed: bool = False, **attributes: Value) -> None:
        self._loop.run(self._fabric.send(to, body, guaranteed=guaranteed, **attributes))

    def inbox(self, where: str | None = None) -> "BlockingEvents":
        return BlockingEvents(self, self._fabric.inbox(where))

    def mailbox(self, *, ack: Literal["auto", "manual"] = "auto") -> "BlockingSubscription":
        return BlockingSubscription(self, self._fabric.mailbox(ack=ack))

    def move(self, url: str, timeout: float | None = 30.0) -> None:
        self._loop.run(self._fabric.move(url, timeout))

    def flush(self, timeout: float | None = 30.0) -> None:
        self._loop.run(self._fabric.flush(timeout))

    def status(self, timeout: float = 10.0) -> NodeStatus:
        return self._loop.run(self._fabric.status(timeout))

    def is_reliable(self, topic: str, timeout: float = 10.0) -> bool:
        return self._loop.run(self._fabric.is_reliable(topic, timeout))

    def ask(self, question: Question, timeout: float | None) -> Answer:
        return self._loop.run(self._fabric.ask(question, timeout))

    def token(self) -> int:
        return self._loop.call(self._fabric.token)

    @overload
    def subscribe(self, pattern: str, where: str | None = None) -> "BlockingEvents": ...
    @overload
    def subscribe(
        self,
        pattern: str,
        where: str | None = None,
        *,
        name: str,
        from_: From = "now",
        ack: Literal["auto", "manual"] = "auto",
        **pace: Unpack[Pace],
    ) -> "BlockingSubscription": ...
    def subscribe(
        self,
        pattern: str,
        where: str | None = None,
        *,
        name: str | None = None,
        from_: From = "now",
        ack: Literal["auto", "manual"] = "auto",
        **pace: Unpack[Pace],
    ) -> "BlockingEvents | BlockingSubscription":
        """As `Fabric.subscribe`, and returns when it is in force at this broker; see `BlockingEvents.settled`."""
        if name is None:
            return BlockingEvents(self, self._fabric.subscribe(pattern, where))
        source = self._fabric.subscribe(pattern, where, name=name, from_=from_, ack=ack, **pace)
        return BlockingSubscription(self, source)

    def publisher(
        self, topic: str, *, name: str, stored_on: int = 0, buffer: int = 16 << 20, resume: Resume | None = None
    ) -> "BlockingPublisher":
        """As `Fabric.publisher`, and returns when a repository steers it."""
        publisher = self._fabric.publisher(topic, name=name, stored_on=stored_on, buffer=buffer, resume=resume)
        return BlockingPublisher(self, publisher)


class _Reading(Generic[E, B]):
    """What both kinds of subscriptions have in common: use it with `with`, then `for`, or `close` it."""

    def __init__(self, fabric: BlockingFabric, source: client.Events | Subscription) -> None:
        self._fabric = fabric  # it lives as long as somebody reads from it
        self._loop = fabric._loop
        self._source = source
        # What came while the wait for it was interrupted stays here for the next call.
        self._events: deque[E] = deque()
        self._batches: deque[B] = deque()
        self._loop.run(source.__aenter__())

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        self._events.clear()
        self._batches.clear()
        self._loop.run(self._source.close())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> E:
        try:
            event = self.next()
        except Closed:
            raise StopIteration from None
        assert event is not None, "without a timeout it waits until there is one"
        return event

    def next(self, timeout: float | None = None) -> E | None:
        """Return the next event, or None if none came within `timeout` seconds; Closed if no more can come."""
        if not self._events or self._is_over:
            self._loop.run(self._within(self._fetch_events, timeout))
        return self._events.popleft() if self._events else None

    def next_batch(self, timeout: float | None = None) -> B | None:
        """Return the next batch, or None if none came within `timeout` seconds; Closed if no more can come."""
        if not self._batches or self._is_over:
            self._loop.run(self._within(self._fetch_batch, timeout))
        return self._batches.popleft() if self._batches else None

    def batches(self, timeout: float | None = None) -> Iterator[B]:
        """Whole batches, for those who need the rate; ends when none came for `timeout` seconds, if one is given."""
        while True:
            try:
                batch = self.next_batch(timeout)
            except Closed:
                return
            if batch is None:
                return
            yield batch

    @property
    def _is_over(self) -> bool:
        """Whether an error is what comes next, not what is buffered."""
        return False

    async def _fetch_events(self) -> None:
        raise NotImplementedError

    async def _fetch_batch(self) -> None:
        self._batches.append(await self._source.next_batch())  # type: ignore[arg-type]

    async def _within(self, fetch: Callable[[], Awaitable[None]], timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout) as limit:
                await fetch()
        except StopAsyncIteration:
            raise Closed("this subscription was closed: use it inside its `with`, or subscribe again") from None
        except TimeoutError:
            if not limit.expired():
                raise


class BlockingEvents(_Reading[Event, Batch]):
    """A subscription that is in force."""

    _source: client.Events

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _fetch_events(self) -> None:
        self._events.extend(await self._source.next_batch())

    @property
    def pattern(self) -> str:
        return self._source.pattern

    @property
    def where(self) -> str:
        return self._source.where

    @property
    def missed(self) -> int:
        """Events dropped because this application was too slow."""
        return self._source.missed

    def settled(self, timeout: float = 10.0) -> Settled:
        """Return when every broker that can be reached knows this subscription; see `Events.settled`."""
        return self._loop.run(self._source.settled(timeout))


class BlockingSubscription(_Reading[StoredEvent, StoredBatch]):
    """A named subscription of a reliable topic, which is registered."""

    _source: Subscription

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._events or self._batches:  # the last one that came was never handed out, so it must not be acknowledged
            self.close()
        else:
            self._loop.run(self._source.__aexit__(kind, error, trace))

    @property
    def _is_over(self) -> bool:
        return not self._source.is_open  # another life may be handed the same by now

    async def _fetch_events(self) -> None:
        self._events.append(await anext(self._source))

    def sync(self, timeout: float | None = None) -> None:
        """Return when all acknowledgements are durable: none of these events comes again."""
        self._loop.run(self._source.sync(timeout))

    def unsubscribe(self, timeout: float | None = 30.0) -> None:
        """End this subscription for good, then close: nothing is kept for its name any more."""
        self._loop.run(self._source.unsubscribe(timeout))

    def move(self, url: str) -> None:
        self._loop.call(self._source.move, url)

    def wait_until(self, *, connected: bool, timeout: float | None = None) -> None:
        """Return when its link to the broker is up, or down; Unresponsive after a timeout."""
        self._loop.run(_connected(self._source, connected, timeout))

    @property
    def lost(self) -> list[LostEvents]:
        return self._source.lost

    @property
    def connected(self) -> bool:
        return self._source.connected

    @property
    def node(self) -> str:
        """The broker's name."""
        return self._source.node

    @property
    def trouble(self) -> str:
        """Why no broker, or no repository, serves it."""
        return self._source.trouble

    @property
    def topic(self) -> str:
        return self._source.topic

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def where(self) -> str:
        return self._source.where

    @property
    def repository(self) -> str:
        """The repository that steers it."""
        return self._source.repository

    @property
    def epoch(self) -> str:
        """From which on events are its own: the repository that steers it, and its sequence number."""
        return self._source.epoch

    @property
    def is_open(self) -> bool:
        return self._source.is_open


class BlockingPublisher:
    """A named publisher of a reliable topic, which a repository steers."""

    def __init__(self, fabric: BlockingFabric, publisher: Publisher) -> None:
        self._fabric = fabric  # it lives as long as somebody publishes over it
        self._loop = fabric._loop
        self._publisher = publisher
        self._loop.run(publisher.__aenter__())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give what is not stored yet a few seconds, then end."""
        self._loop.run(self._publisher.close())

    def send(
        self,
        body: bytes = b"",
        *,
        attributes: Mapping[str, Value] | None = None,
        stored_on: int = 0,
        timeout: float | None = None,
        **more: Value,
    ) -> Stored:
        send = self._publisher.send(body, attributes=attributes, stored_on=stored_on, timeout=timeout, **more)
        return self._loop.run(send)

    def send_nowait(self, body: bytes = b"", *, attributes: Mapping[str, Value] | None = None, **more: Value) -> None:
        self._loop.call(self._publisher.send_nowait, body, attributes=attributes, **more)

    def send_many(
        self,
        bodies: Iterable[bytes],
        attributes: Mapping[str, Sequence[Value | None]] | None = None,
        time_ns: int | None = None,
    ) -> None:
        self._loop.run(self._publisher.send_many(bodies, attributes, time_ns))

    def room(self, timeout: float | None = None) -> None:
        """Return when there is room for more; Unresponsive after a timeout."""
        self._loop.run(within(self._publisher.room, timeout, "no room for more events within"))

    def flush(self, timeout: float | None = None) -> Stored:
        return self._loop.run(self._publisher.flush(timeout))

    def move(self, url: str) -> None:
        self._loop.call(self._publisher.move, url)

    def wait_until(self, *, connected: bool, timeout: float | None = None) -> None:
        """Return when its link to the broker is up, or down; Unresponsive after a timeout."""
        self._loop.run(_connected(self._publisher, connected, timeout))

    @property
    def connected(self) -> bool:
        return self._publisher.connected

    @property
    def node(self) -> str:
        """The broker's name."""
        return self._publisher.node

    @property
    def trouble(self) -> str:
        """Why no broker, or no repository, serves it."""
        return self._publisher.trouble

    @property
    def stored(self) -> int:
        """How many events of this life are known to be stored, from the first one on."""
        return self._publisher.stored

    @property
    def topic(self) -> str:
        return self._publisher.topic

    @property
    def name(self) -> str:
        return self._publisher.name

    @property
    def repository(self) -> str:
        """The repository that steers it."""
        return self._publisher.repository

    @property
    def incarnation(self) -> int:
        return self._publisher.incarnation

    @property
    def recovered(self) -> tuple[int, int] | None:
        """What was stored of this name before: of the incarnation that it resumes, or the newest, the last number."""
        return self._publisher.recovered

    @property
    def largest_body(self) -> int:
        return self._publisher.largest_body

    @property
    def is_open(self) -> bool:
        return self._publisher.is_open


def _close(loop: Loop, fabric: client.Fabric) -> None:
    loop.end(fabric.close())


async def _connected(twin: client.Fabric | Publisher | Subscription, connected: bool, timeout: float | None) -> None:
    state = "not connected" if connected else "connected"
    await within(partial(twin.wait_until, connected=connected), timeout, f"still {state} after")
