"""Subscriptions without `async`: what `stentor.blocking` hands to applications that read events."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Generic, Self, TypeVar

from stentor.client import fabric as client
from stentor.client.connection.settling import Settled
from stentor.client.event import Batch, Event, StoredBatch, StoredEvent
from stentor.client.loop_thread import Loop, within
from stentor.client.losses import LostEvents
from stentor.client.reliable_publisher import Publisher
from stentor.client.reliable_subscription import Subscription
from stentor.model.errors import Closed

E = TypeVar("E", bound=Event)
B = TypeVar("B", bound=Batch)


class _Reading(ABC, Generic[E, B]):
    """What both kinds of subscriptions have in common: use it with `with`, then `for`, or `close` it."""

    def __init__(self, fabric: object, loop: Loop, source: client.Events | Subscription) -> None:
        self._fabric = fabric  # it lives as long as somebody reads from it
        self._loop = loop
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

    @abstractmethod
    async def _fetch_events(self) -> None:
        """Wait for events, and buffer them."""

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

    @property
    def late(self) -> int:
        """Events that came behind later ones of the same publisher, or once more, and were not handed out."""
        return self._source.late

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
        self._loop.run(wait_connected(self._source, connected, timeout))

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


async def wait_connected(
    twin: client.Fabric | Publisher | Subscription, connected: bool, timeout: float | None
) -> None:
    state = "not connected" if connected else "connected"
    await within(partial(twin.wait_until, connected=connected), timeout, f"still {state} after")
