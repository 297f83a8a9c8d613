"""Reading what is stored of reliable topics, at rest: in any order, several at once, from any repository that has it.

    async with Reader(fabric, name="reports") as reader:
        stock = await reader.stock("orders", since="beginning")        # what there is, in parts that can be read apart
        async for page in reader.pages("orders", stock.parts[0]):
            for block in page.blocks: ...

A reader keeps its position itself. With `enrol` repositories keep for it what it has not acknowledged.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from stentor.event import Event
from stentor.model.control import bundle_of, inbox_of, repository_name
from stentor.model.errors import FrameError, Refusal, Refused, StentorError, Unreachable
from stentor.model.position import Position
from stentor.model.reading import Page, PageRequest, ReaderAck, Stock, StockRequest
from stentor.wire.block import Block
from stentor.wire.letter import Letter, read, write

_SILENCE = 2.0  # seconds without a letter until somebody else is asked
_PATIENCE = 30.0  # seconds without any progress until it is given up
_AGAIN = 0.2  # seconds, when everyone was asked
_PAGE = 2 << 20  # bytes
PAGES = 8 * _PAGE  # that may be under way to a reader


class Mail(Protocol):
    """What is sent to a client by its name."""

    async def __aenter__(self) -> Self: ...
    async def close(self) -> None: ...
    def __aiter__(self) -> AsyncIterator[Event]: ...


class Correspondent(Protocol):
    """A connected client."""

    name: str
    principal: str
    node: str

    async def __aenter__(self) -> Self: ...
    async def close(self) -> None: ...
    def token(self) -> int: ...
    def inbox(self) -> Mail: ...
    async def publish(self, topic: str, body: bytes = b"") -> None: ...


class Available(NamedTuple):
    """What can be read of a topic, beyond `done`."""

    repository: str  # that says so
    number: int  # … its sequence number at the end of all that it shows to readers
    members: tuple[str, ...]  # the repositories that store all of the topic
    done: Position
    parts: tuple[Position, ...]
    gone: Position  # what was not read and is forgotten

    @property
    def end(self) -> Position:
        """Where one is who has read all parts."""
        end = self.done
        for part in self.parts:
            end = end.plus(part)
        return end


class Leaf(NamedTuple):
    """Some stored events. The sequence number of one is its catenation number and the base of its block."""

    repository: str
    blocks: Sequence[Block]
    bases: Sequence[int]
    publishers: dict[int, str]  # their names
    lost: Position  # what was to be here, is forgotten, and is in no lake


class Reader:
    """Reads under a name that the owners of topics have granted, over a connected client. Use it with `async with`."""

    def __init__(self, fabric: Correspondent, name: str) -> None:
        self.name = name
        self._fabric = fabric
        self._inbox: Mail = fabric.inbox()
        self._task: asyncio.Task[None] | None = None
        self._exchanges: dict[int, asyncio.Queue[tuple[Stock | Page, Letter]]] = {}
        self._members: dict[str, tuple[str, ...]] = {}

    async def __aenter__(self) -> Self:
        await self._inbox.__aenter__()
        self._task = asyncio.get_running_loop().create_task(self._receive())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inbox.close()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _receive(self) -> None:
        async for event in self._inbox:
            try:
                letter = read(event.body)
            except FrameError:
                continue  # somebody else writes to us too
            for answer in letter.events:
                if isinstance(answer, Stock | Page) and answer.token in self._exchanges:
                    self._exchanges[answer.token].put_nowait((answer, letter))

    # ---- what there is

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
    ) -> Available:
        """What can be read after `done`, or from a beginning: "beginning", "now", "epoch N", "time NANOSECONDS"."""
        fabric = self._fabric
        request = StockRequest(
            topic, fabric.name, fabric.token(), self.name, fabric.principal, since,
            (done or Position()).held, (upto or Position()).held, most, size, parts, enrol, where, fabric.node,
        )  # fmt: skip
        exchange = self._exchanges[request.token] = asyncio.Queue()
        end = _now() + _PATIENCE
        refusal: Refused | None = None
        try:
            while _now() < end:
                await fabric.publish(bundle_of(topic), write([request]))
                try:
                    async with asyncio.timeout(_SILENCE):
                        stock, _ = await exchange.get()
                except TimeoutError:
                    if refusal is not None:
                        break
                    continue
                assert isinstance(stock, Stock)
                if stock.code is None:
                    self._members[topic] = stock.members
                    positions = tuple(Position.of(part) for part in stock.parts)
                    return Available(
                        stock.sender, stock.number, stock.members, Position.of(stock.done), positions,
                        Position.of(stock.gone),
                    )  # fmt: skip
                refusal = Refused(stock.code, stock.reason)
                if stock.code not in (Refusal.BUSY, Refusal.UNKNOWN):
                    break
        finally:
            del self._exchanges[request.token]
        raise refusal or Unreachable(f"no repository of {topic!r} answers: is it a reliable topic, and are they there?")

    # ---- pages

    async def pages(
        self, topic: str, wanted: Position, where: str = "", repositories: Sequence[str] = ()
    ) -> AsyncIterator[Leaf]:
        """All of these events that a filter takes, each once; from one repository after the other if need be."""
        order = list(repositories) or list(self._members.get(topic, ()))
        if not order:
            raise Unreachable(f"the repositories of {topic!r} are not known: ask for its stock first")
        last, trouble = _now(), "they do not have them"
        turn = 0
        while wanted.streams:
            repository = order[turn % len(order)]
            pending: _Pending | None = await self._ask(topic, repository, wanted, where)
            try:
                while pending is not None:
                    leaf, rest, pending = await self._page(pending, topic, where)
                    if rest != wanted:
                        wanted, last = rest, _now()
                        yield leaf
            except Refused as refused:
                if refused.code not in (Refusal.BUSY, Refusal.UNKNOWN):
                    raise
                trouble = str(refused)
            except TimeoutError:
                trouble = f"{repository} does not answer"
            finally:
                if pending is not None:
                    self._exchanges.pop(pending.token, None)
            if _now() - last > _PATIENCE:
                names = ", ".join(order)
                raise StentorError(f"{len(wanted)} events of {topic!r} cannot be read from {names}: {trouble}")
            turn += 1
            if wanted.streams and not turn % len(order):
                await asyncio.sleep(_AGAIN)

    async def _ask(self, topic: str, repository: str, wanted: Position, where: str) -> "_Pending":
        fabric = self._fabric
        token = fabric.token()
        request = PageRequest(topic, fabric.name, token, self.name, fabric.principal, wanted.held, where, _PAGE)
        self._exchanges[token] = asyncio.Queue()
        await fabric.publish(inbox_of(repository_name(repository)), write([request]))
        return _Pending(token, repository, wanted)

    async def _page(self, pending: "_Pending", topic: str, where: str) -> tuple[Leaf, Position, "_Pending | None"]:
        """A page, what is wanted after it, and the request for the next one: that is sent before this page is whole."""
        exchange = self._exchanges[pending.token]
        following: _Pending | None = None
        rest = pending.wanted
        letters: dict[int, tuple[Page, Letter]] = {}
        try:
            while not letters or len(letters) < next(iter(letters.values()))[0].count:
                async with asyncio.timeout(_SILENCE):
                    page, letter = await exchange.get()
                assert isinstance(page, Page)
                if page.code is not None:
                    raise Refused(page.code, page.reason)
                if not letters:
                    covered = Position.of(page.covered)
                    rest = pending.wanted.minus(covered)
                    if covered.streams and rest.streams:
                        following = await self._ask(topic, pending.repository, rest, where)
                letters[page.index] = page, letter
        except BaseException:
            if following is not None:
                del self._exchanges[following.token]
            raise
        finally:
            del self._exchanges[pending.token]
        pages = [letters[index] for index in sorted(letters)]
        leaf = Leaf(
            pending.repository,
            [block for _, letter in pages for block in letter.blocks],
            [base for page, _ in pages for base in page.bases],
            {number: name for page, _ in pages for number, name in page.publishers},
            Position.of(pages[0][0].lost),
        )
        return leaf, rest, following

    # ---- what was read

    async def acknowledge(self, topic: str, done: Position) -> None:
        """Repositories need not keep these for us any more. What is lost of that is made good by a later one."""
        fabric = self._fabric
        ack = ReaderAck(topic, fabric.name, self.name, fabric.principal, done.held)
        await fabric.publish(bundle_of(topic), write([ack]))


@asynccontextmanager
async def reading(fabric: Correspondent, name: str) -> AsyncIterator[Reader]:
    """A reader on a link of its own: pages are large, and must not delay anything else."""
    await fabric.__aenter__()
    try:
        async with Reader(fabric, name) as reader:
            yield reader
    finally:
        await fabric.close()


class _Pending(NamedTuple):
    """A page that was asked for."""

    token: int
    repository: str
    wanted: Position


def _now() -> float:
    return asyncio.get_running_loop().time()
