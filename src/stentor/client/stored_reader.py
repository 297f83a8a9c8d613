"""Reading what is stored of reliable topics, at rest: in any order, several at once, from any repository that has it.

    async with Reader(fabric, name="reports") as reader:
        stock = await reader.stock("orders", since="beginning")        # what there is, in parts that can be read apart
        async for leaf in reader.pages("orders", stock.parts[0]):
            for block in leaf.blocks: ...

A reader keeps its position itself. With `enrol` repositories keep for it what it has not acknowledged.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Protocol, Self

from stentor.client.event import Event
from stentor.machine import SECOND, Effect, Input, StartTimer, TimerFired
from stentor.model.errors import FrameError, Refusal, Refused, Unreachable
from stentor.model.stored.position import Position
from stentor.model.stored.reading import StockRequest
from stentor.protocols.delivery.stored.read_client import (
    Availability,
    AvailabilityRequested,
    DeliverPage,
    Fail,
    PageConsumed,
    PagesRequested,
    ReadAcknowledged,
    ReadCancelled,
    ReportAvailable,
    StoredPage,
    StoredReadClient,
    StoredReadSettings,
)
from stentor.protocols.delivery.transport import LetterReceived, LinkUp, SendLetter, Vouched
from stentor.wire.letter import read, write

__all__ = ["PAGES", "Availability", "Reader", "StoredPage", "reading"]

PAGES = 8 * StoredReadSettings().page  # bytes that may be under way to a reader
_KNOWN_WITHIN = 1.0  # seconds: a broker tells its clients at once which repositories it knows


class Mail(Protocol):
    """What is sent to a client by its name."""

    async def __aenter__(self) -> Self: ...
    async def close(self) -> None: ...
    def __aiter__(self) -> AsyncIterator[Event]: ...


class Vouchers(Protocol):
    """Tells which repositories manage topics, and under which principals."""

    def watch(self, topic: str, listener: Callable[[Mapping[str, str]], None]) -> Callable[[], None]: ...
    async def find(self, topic: str, within: float) -> Mapping[str, str]: ...


class Correspondent(Protocol):
    """A connected client."""

    name: str
    principal: str
    node: str

    @property
    def _bundles(self) -> Vouchers: ...

    async def __aenter__(self) -> Self: ...
    async def close(self) -> None: ...
    def token(self) -> int: ...
    def inbox(self) -> Mail: ...
    async def publish(self, topic: str, body: bytes = b"") -> None: ...


class Reader:
    """Reads under a name that the owners of topics have granted, or their own topics without a name, over a connected
    client. Use it with `async with`.
    """

    def __init__(self, fabric: Correspondent, name: str = "") -> None:
        self.name = name
        self._fabric = fabric
        self._machine = StoredReadClient(fabric.name, name)
        self._inbox: Mail = fabric.inbox()
        self._tasks: set[asyncio.Task[None]] = set()
        self._receiving: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._answers: dict[int, asyncio.Queue[ReportAvailable | DeliverPage | Fail]] = {}
        self._members: dict[str, tuple[str, ...]] = {}
        self._watched: dict[str, Callable[[], None]] = {}  # topics whose repositories are known; each ends that

    async def __aenter__(self) -> Self:
        await self._inbox.__aenter__()
        self._receiving = asyncio.get_running_loop().create_task(self._receive())
        self._tell(LinkUp(self._fabric.principal, self._fabric.node))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stop in self._watched.values():
            stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()
        await self._inbox.close()
        if self._receiving is not None:
            await asyncio.wait([self._receiving])

    async def _receive(self) -> None:
        async for event in self._inbox:
            try:
                letter = read(event.body)
            except FrameError:
                continue  # somebody else writes to us too
            self._tell(LetterReceived(int(event.publisher, 16), letter.events, letter.blocks))

    def _watch(self, topic: str) -> None:
        """Learn whom to believe."""
        if topic not in self._watched:
            watch = self._fabric._bundles.watch
            self._watched[topic] = watch(topic, lambda members: self._tell(Vouched(topic, members)))

    # ---- the machine

    def _tell(self, happened: Input) -> None:
        for effect in self._machine.step(time.monotonic_ns(), happened):
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case SendLetter():
                posting = self._fabric.publish(effect.to, write(effect.events, effect.blocks))
                task = asyncio.get_running_loop().create_task(posting)
                self._tasks.add(task)
                task.add_done_callback(self._posted)
            case StartTimer():
                if self._timer is not None:
                    self._timer.cancel()
                delay = max(effect.at - time.monotonic_ns(), 0) / 1e9
                self._timer = asyncio.get_running_loop().call_later(delay, self._tell, TimerFired(effect.timer))
            case ReportAvailable() | DeliverPage() | Fail():
                if effect.token in self._answers:
                    self._answers[effect.token].put_nowait(effect)

    def _posted(self, task: asyncio.Task[None]) -> None:
        """If it could not be sent, nobody answers: that is noticed."""
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    # ---- the application

    async def stock(
        self,
        topic: str,
        *,
        since: str = "",
        done: Position | None = None,
        upto: Position | None = None,
        most: int = 0,
        size: int = 0,
        parts: int = 1,
        enrol: bool = False,
        where: str = "",
        patience: float = 0.0,
    ) -> Availability:
        """What can be read after `done`, or from a beginning: "beginning", "now", "epoch R:N", "time NANOSECONDS".

        Unreachable if nobody answers for `patience` seconds; 0 is what is usual.
        """
        token = self._fabric.token()
        request = StockRequest(
            topic, "", 0, "", "", since, (done or Position()).held, (upto or Position()).held, most, size, parts, enrol,
            where,
        )  # fmt: skip
        answers = self._answers[token] = asyncio.Queue()
        self._watch(topic)
        try:
            self._tell(AvailabilityRequested(token, request, int(patience * SECOND)))
            answer = await answers.get()
        finally:
            del self._answers[token]
            self._tell(ReadCancelled(token))
        if isinstance(answer, Fail):
            raise Unreachable(answer.reason) if answer.code is Refusal.SILENT else Refused(answer.code, answer.reason)
        assert isinstance(answer, ReportAvailable)
        self._members[topic] = answer.available.members
        return answer.available

    async def pages(
        self,
        topic: str,
        wanted: Position,
        where: str = "",
        repositories: Sequence[str] = (),
        patience: float = 0.0,
    ) -> AsyncIterator[StoredPage]:
        """All of these events that a filter takes, each once; from one repository after the other if need be.

        An error if nothing comes for `patience` seconds; 0 is what is usual.
        """
        order = list(repositories) or list(self._members.get(topic, ()))
        if not order:
            raise Unreachable(f"the repositories of {topic!r} are not known: ask for its stock first")
        token = self._fabric.token()
        answers = self._answers[token] = asyncio.Queue()
        rest = wanted
        self._watch(topic)
        try:
            self._tell(PagesRequested(token, topic, wanted, where, order, int(patience * SECOND)))
            while rest.streams:
                answer = await answers.get()
                if isinstance(answer, Fail):
                    refused = Refused(answer.code, answer.reason)
                    raise Unreachable(answer.reason) if answer.code is Refusal.SILENT else refused
                assert isinstance(answer, DeliverPage)
                rest = answer.rest
                yield answer.leaf
                self._tell(PageConsumed(token))
        finally:
            del self._answers[token]
            self._tell(ReadCancelled(token))

    async def acknowledge(self, topic: str, done: Position) -> None:
        """Repositories need not keep these for us any more. What is lost of that is made good by a later one."""
        self._watch(topic)
        await self._fabric._bundles.find(topic, _KNOWN_WITHIN)  # each of its repositories is told
        self._tell(ReadAcknowledged(topic, done))
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def reading(fabric: Correspondent, name: str) -> AsyncIterator[Reader]:
    """A reader on a link of its own: pages are large, and must not delay anything else."""
    await fabric.__aenter__()
    try:
        async with Reader(fabric, name) as reader:
            yield reader
    finally:
        await fabric.close()
