"""The same API without `async`, for scripts and notebooks: a thin facade over `stentor.client` on a thread of its own.

    with stentor.blocking.connect() as fabric:
        with fabric.subscribe("flights/#") as events:
            fabric.publish("flights/jfk", b"...", carrier="UA")
            for event in events: ...

`connect`, `subscribe` and `publisher` return when they are open, so that a notebook can do without `with`: connect in a
cell, publish in another, go on with the same `for event in events` in a third one, and `fabric.close()` in the last.
What nobody closes is closed when the program ends. Ctrl-C interrupts any wait, and nothing is lost by that.
"""

import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, Unpack, overload

from stentor.client import fabric as client
from stentor.client.blocking_events import BlockingEvents as BlockingEvents
from stentor.client.blocking_events import BlockingSubscription as BlockingSubscription
from stentor.client.blocking_events import wait_connected
from stentor.client.loop_thread import CLOSED, Loop, within
from stentor.client.pace import Pace
from stentor.client.reliable_publisher import Publisher, Resume, Stored
from stentor.client.reliable_subscription import From
from stentor.model.attribute import Value
from stentor.model.errors import Closed
from stentor.model.reports.status import NodeStatus
from stentor.nodes.client_api import Answer, Question


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
        self._loop.run(wait_connected(self._fabric, connected, timeout))

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
        return BlockingEvents(self, self._loop, self._fabric.inbox(where))

    def mailbox(self, *, ack: Literal["auto", "manual"] = "auto") -> "BlockingSubscription":
        return BlockingSubscription(self, self._loop, self._fabric.mailbox(ack=ack))

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
            return BlockingEvents(self, self._loop, self._fabric.subscribe(pattern, where))
        source = self._fabric.subscribe(pattern, where, name=name, from_=from_, ack=ack, **pace)
        return BlockingSubscription(self, self._loop, source)

    def publisher(
        self, topic: str, *, name: str, stored_on: int = 0, buffer: int = 16 << 20, resume: Resume | None = None
    ) -> "BlockingPublisher":
        """As `Fabric.publisher`, and returns when a repository steers it."""
        publisher = self._fabric.publisher(topic, name=name, stored_on=stored_on, buffer=buffer, resume=resume)
        return BlockingPublisher(self, publisher)


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
        self._loop.run(wait_connected(self._publisher, connected, timeout))

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
