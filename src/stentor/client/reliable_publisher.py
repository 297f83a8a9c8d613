"""A named publisher of a reliable topic. Made by `Fabric.publisher`.

    async with fabric.publisher("orders", name="shop") as shop:
        stored = await shop.send(b"...", price=3.5)         # returns when it is stored; stored.copies says on how many
        shop.send_nowait(b"...", price=4.5)                 # for throughput,
        await shop.flush()                                  # until all of it is stored

    async with fabric.publisher("orders", name="shop", resume=(incarnation, number)) as shop:
        await shop.send(b"...")                             # has the next number: see `Publisher`

A name has one holder at a time: a newer one fences an older one off. Nothing of this depends on where the holder runs:
the repositories remember how far a name is.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Self

from stentor.client.connection.first_connection import Access
from stentor.client.event import check_body, check_time
from stentor.client.machine_runner import LINGER
from stentor.client.named_connection import NamedConnection
from stentor.machine import Effect
from stentor.model.attribute import Value
from stentor.model.errors import (
    BufferFull,
    InvalidInput,
    StentorError,
)
from stentor.model.ids import Incarnation
from stentor.protocols.delivery.endpoint_api import ResumePublishing, TurnEnded
from stentor.protocols.delivery.publisher.publisher import PublisherSettings, ReliablePublisher, Resumption

Resume = tuple[int, int]  # an incarnation, and the last number of it that is stored


class Stored(NamedTuple):
    """What is known of an event that is stored: on how many repositories it and all before it are."""

    copies: int


class Publisher(NamedConnection):
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

    async def close(self) -> None:
        """Give what is not stored yet a few seconds, then end."""
        if self._error is None and self._driver is not None:
            with suppress(StentorError):  # whoever must know calls flush
                await self.flush(LINGER)
        await self._stop("this one was closed")

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
        copies = await self._safe(stored_on or self._stored_on, timeout)  # which ends the turn, too
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
        at = time.time_ns() if time_ns is None else check_time(time_ns)
        self._machine.publish_many(attributes or {}, [check_body(body) for body in bodies], at)
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
        return Stored(await self._safe(self._stored_on, timeout))

    def _offer(self, body: bytes, attributes: Mapping[str, Value] | None, more: Mapping[str, Value]) -> None:
        self._check()
        if more:
            attributes = {**attributes, **more} if attributes else more
        self._machine.publish(attributes or {}, check_body(body), time.time_ns())

    def _end_turn(self) -> None:
        self._turn = False
        if self._error is None and self._driver is not None:
            self._tell(TurnEnded())

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, ResumePublishing):
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


def resumption_of(resume: Resume | None) -> Resumption | None:
    if resume is None:
        return None
    incarnation, number = resume
    if not 0 < incarnation < 1 << 48 or number < 0:
        raise InvalidInput(f"resume is an incarnation and the last number of it that is stored, not {resume!r}")
    return Resumption(Incarnation(incarnation), number)
