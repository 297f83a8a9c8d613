"""The same API without `async`, for scripts and notebooks: a thin facade over `stentor.client` on a thread of its own.

with stentor.blocking.connect() as fabric:
    with fabric.subscribe("flights/#") as events:
        fabric.publish("flights/jfk", b"...", carrier="UA")
        for event in events: ...
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

from stentor import client
from stentor.event import Batch, Event, StoredBatch, StoredEvent
from stentor.model.attribute import Value
from stentor.model.errors import Closed
from stentor.model.status import NodeStatus
from stentor.reliable import From, Publisher, Stored, Subscription

T = TypeVar("T")


class Loop:
    """An event loop that runs on a thread until it is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stentor", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            coroutine.close()
            raise Closed("this client was closed")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C interrupts the wait, so the work must not go on behind it
            raise

    def close(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


def connect(
    url: str | None = None,
    *,
    name: str | None = None,
    tls: str | Path | None = None,
    timeout: float = 5.0,
    wait: float = 0.0,
    buffer: int = 16 << 20,
    window: int = 4 << 20,
) -> "BlockingFabric":
    """As `stentor.connect`, to be used with `with`."""
    fabric = client.connect(url, name=name, tls=tls, timeout=timeout, wait=wait, buffer=buffer, window=window)
    return BlockingFabric(fabric)


class BlockingFabric:
    """A connected client; its methods return when their asynchronous twins would."""

    def __init__(self, fabric: client.Fabric) -> None:
        self._fabric = fabric
        self._loop = Loop()

    def __enter__(self) -> Self:
        try:
            self._loop.run(self._fabric.__aenter__())
        except BaseException:
            self._loop.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(self._fabric.close())
        self._loop.close()

    def publish(
        self, topic: str, body: bytes = b"", *, attributes: Mapping[str, Value] | None = None, **more: Value
    ) -> None:
        self._loop.run(self._fabric.publish(topic, body, attributes=attributes, **more))

    def publish_many(
        self, topic: str, bodies: Iterable[bytes], attributes: Mapping[str, Sequence[Value | None]] | None = None
    ) -> None:
        self._loop.run(self._fabric.publish_many(topic, bodies, attributes))

    def send(self, to: Iterable[str], body: bytes = b"", **attributes: Value) -> None:
        self._loop.run(self._fabric.send(to, body, **attributes))

    def inbox(self, where: str | None = None) -> "BlockingEvents":
        return BlockingEvents(self._loop, self._fabric.inbox(where))

    def move(self, url: str) -> None:
        self._loop.run(self._fabric.move(url))

    def flush(self, timeout: float | None = 30.0) -> None:
        self._loop.run(self._fabric.flush(timeout))

    def status(self) -> NodeStatus:
        return self._loop.run(self._fabric.status())

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
    ) -> "BlockingSubscription": ...
    def subscribe(
        self,
        pattern: str,
        where: str | None = None,
        *,
        name: str | None = None,
        from_: From = "now",
        ack: Literal["auto", "manual"] = "auto",
    ) -> "BlockingEvents | BlockingSubscription":
        if name is None:
            return BlockingEvents(self._loop, self._fabric.subscribe(pattern, where))
        subscription = self._fabric.subscribe(pattern, where, name=name, from_=from_, ack=ack)
        return BlockingSubscription(self._loop, subscription)

    def publisher(self, topic: str, *, name: str, stored_on: int = 0) -> "BlockingPublisher":
        return BlockingPublisher(self._loop, self._fabric.publisher(topic, name=name, stored_on=stored_on))


class BlockingEvents:
    """A subscription: use it with `with`, then `for`."""

    def __init__(self, loop: Loop, events: client.Events) -> None:
        self._loop = loop
        self._events = events
        self._current: deque[Event] = deque()

    def __enter__(self) -> Self:
        self._loop.run(self._events.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(self._events.close())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        if not self._current:
            batch = self._loop.run(self._next(None))
            if batch is None:
                raise StopIteration
            self._current.extend(batch)
        return self._current.popleft()

    def batches(self, timeout: float | None = None) -> Iterator[Batch]:
        """Whole batches; ends when none came for `timeout` seconds, if one is given."""
        while (batch := self._loop.run(self._next(timeout))) is not None:
            yield batch

    async def _next(self, timeout: float | None) -> Batch | None:
        try:
            return await asyncio.wait_for(self._events.next_batch(), timeout)
        except (TimeoutError, StopAsyncIteration):
            return None

    @property
    def missed(self) -> int:
        return self._events.missed


class BlockingPublisher:
    """A named publisher of a reliable topic: use it with `with`."""

    def __init__(self, loop: Loop, publisher: Publisher) -> None:
        self._loop = loop
        self._publisher = publisher

    def __enter__(self) -> Self:
        self._loop.run(self._publisher.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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

    def send_many(
        self, bodies: Iterable[bytes], attributes: Mapping[str, Sequence[Value | None]] | None = None
    ) -> None:
        self._loop.run(self._publisher.send_many(bodies, attributes))

    def flush(self, timeout: float | None = None) -> Stored:
        return self._loop.run(self._publisher.flush(timeout))


class BlockingSubscription:
    """A named subscription of a reliable topic: use it with `with`, then `for`."""

    def __init__(self, loop: Loop, subscription: Subscription) -> None:
        self._loop = loop
        self._subscription = subscription

    def __enter__(self) -> Self:
        self._loop.run(self._subscription.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(self._subscription.__aexit__(kind, error, trace))

    def __iter__(self) -> Iterator[StoredEvent]:
        while (event := self._loop.run(self._next())) is not None:
            yield event

    def batches(self) -> Iterator[StoredBatch]:
        """Whole batches, for those who need the rate."""
        batches = self._subscription.batches()
        while (batch := self._loop.run(self._next_batch(batches))) is not None:
            yield batch

    async def _next(self) -> StoredEvent | None:
        return await anext(self._subscription, None)

    async def _next_batch(self, batches: AsyncIterator[StoredBatch]) -> StoredBatch | None:
        return await anext(batches, None)
