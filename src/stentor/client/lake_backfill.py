"""Lake backfill: what a subscriber wants of a topic that repositories have forgotten.

A lake has it. It comes page by page, before all that is newer, and is acknowledged like everything else.
"""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import NamedTuple

from stentor.client.event import StoredBatch
from stentor.client.stored_reader import Reader, StoredPage
from stentor.model.stored.position import Position
from stentor.model.stored.span import Spans
from stentor.protocols.delivery.endpoint_api import ReleasedBatch
from stentor.wire.block import Block

Readers = Callable[[str], AbstractAsyncContextManager[Reader]]  # makes one that reads under a name
_START = -(1 << 62)  # positions of the past are negative


class _Given(NamedTuple):
    """A block that the application was given, from this position on."""

    position: int
    block: Block


class LakeBackfill:
    """All of it, for one subscription."""

    def __init__(self, readers: Readers, topic: str, name: str, where: str, wanted: Position) -> None:
        self._readers = readers
        self._topic = topic
        self._name = name
        self._where = where
        self._wanted = wanted
        self._stack = AsyncExitStack()
        self._reader: Reader | None = None
        self._pages: AsyncIterator[StoredPage] | None = None
        self._turning: asyncio.Task[StoredPage | None] | None = None  # to the next page
        self._given: list[_Given] = []
        self._next = _START
        self._done = Position()
        self._telling: set[asyncio.Task[None]] = set()
        self.over = False  # the application has been given all of it

    async def take(self, acknowledge: Callable[[int, int], None]) -> list[StoredBatch]:
        """Return the next batches; none if there are no more."""
        if self._pages is None:
            self._reader = await self._stack.enter_async_context(self._readers(self._name))
            await self._reader.stock(self._topic, since="now")  # who has it
            self._pages = self._reader.pages(self._topic, self._wanted, self._where)
        # whoever waits may give up and come back: pages that are interrupted would end
        if self._turning is None:
            self._turning = asyncio.get_running_loop().create_task(_next_page(self._pages))
        leaf = await asyncio.shield(self._turning)
        self._turning = None
        if leaf is None:
            self.over = True
            return []
        batches = []
        for block in leaf.blocks:
            # an earlier life of this name may have had it and not lived to say so
            portion = ReleasedBatch(block, self._next, True, leaf.repository, 0, 0)
            batches.append(StoredBatch(self._topic, portion, acknowledge))
            self._given.append(_Given(self._next, block))
            self._next += block.count
        return batches

    def acknowledge(self, first: int, last: int) -> None:
        """The application is done with these positions."""
        place = bisect_right(self._given, first, key=lambda given: given.position) - 1
        for given in self._given[place:]:
            if given.position > last:
                break
            numbers = given.block.offsets()[max(first - given.position, 0) : last - given.position + 1]
            base, stream = given.block.catenation, (int(given.block.publisher), int(given.block.incarnation))
            spans = Spans((base + offset, base + offset) for offset in numbers)
            self._done = self._done.plus(Position({stream: spans}))

    def tell(self) -> None:
        """Let the repositories know, soon."""
        done, self._done = self._done, Position()
        if done.streams and self._reader is not None:
            task = asyncio.get_running_loop().create_task(self._reader.acknowledge(self._topic, done))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def close(self) -> None:
        self.tell()
        if self._turning is not None:
            self._turning.cancel()
            await asyncio.wait([self._turning])
        await asyncio.gather(*self._telling, return_exceptions=True)
        await self._stack.aclose()


async def _next_page(pages: AsyncIterator[StoredPage]) -> StoredPage | None:
    return await anext(pages, None)
