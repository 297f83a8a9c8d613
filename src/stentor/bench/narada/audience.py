"""The audience: the subscribers that are not measured, in a process of their own.

{"urls": […], "names": […]}   is answered by   {"clients": 18}   when all have subscribed, to both topics
{}                            is answered by   {"plain": 1234, "reliable": 1234}   as often as it is asked
"""

import asyncio
import sys
from collections.abc import AsyncIterable, Sized
from contextlib import AsyncExitStack

import msgspec
import uvloop

from stentor.bench.crowd import Gathered
from stentor.bench.lines import read_lines, say
from stentor.bench.narada.topologies import PLAIN, RELIABLE
from stentor.client.fabric import connect


class Seats(msgspec.Struct):
    """Who sits at which broker: they go round."""

    urls: list[str]
    names: list[str]


class ReceivedCounts(msgspec.Struct):
    """How many events all subscribers together got so far."""

    plain: int
    reliable: int


class _Count:
    def __init__(self) -> None:
        self.value = 0

    async def add(self, batches: AsyncIterable[Sized]) -> None:
        async for batch in batches:
            self.value += len(batch)


async def attend() -> None:
    lines = read_lines()
    seats = msgspec.json.decode(await anext(lines), type=Seats)
    plain, reliable = _Count(), _Count()
    async with AsyncExitStack() as stack:
        tasks = []
        for number, name in enumerate(seats.names):
            url = seats.urls[number % len(seats.urls)]
            fabric = await stack.enter_async_context(connect(url, wait=30.0))
            events = await stack.enter_async_context(fabric.subscribe(PLAIN))
            stored = await stack.enter_async_context(fabric.subscribe(RELIABLE, name=name))
            tasks += [asyncio.create_task(plain.add(events.batches()))]
            tasks += [asyncio.create_task(reliable.add(stored.batches()))]
        say(Gathered(len(seats.names)))
        async for _ in lines:
            say(ReceivedCounts(plain.value, reliable.value))
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    sys.exit(uvloop.run(attend()))
