"""The crowd: the subscribers that are not measured, in a process of their own so that they disturb nobody's clock.

{"urls": […], "each": 5, "topic": "…"}   is answered by   {"clients": 100}   when all have subscribed
{}                                       is answered by   {"received": 1234, "missed": 0}   as often as it is asked
"""

import asyncio
import sys
from contextlib import AsyncExitStack

import msgspec
import uvloop

from stentor.bench.grid import WHERE
from stentor.bench.lines import read_lines, say
from stentor.client.fabric import Events, connect
from stentor.client.reliable_subscription import Subscription


class Muster(msgspec.Struct):
    """Where the crowd goes, and how many to each broker."""

    urls: list[str]
    each: int
    topic: str
    named: bool = False  # the topic is a reliable one

    def names(self) -> list[str]:
        return [f"client-{number}" for number in range(1, len(self.urls) * self.each + 1)]


class Gathered(msgspec.Struct):
    clients: int


class Counted(msgspec.Struct):
    """What all of them got so far, and what they were told that they missed."""

    received: int
    missed: int


class _Listener:
    """One subscriber that counts."""

    def __init__(self, events: Events | Subscription) -> None:
        self.events = events
        self.received = 0

    async def listen(self) -> None:
        async for batch in self.events.batches():
            self.received += len(batch)


async def attend() -> None:
    lines = read_lines()
    muster = msgspec.json.decode(await anext(lines), type=Muster)
    async with AsyncExitStack() as stack:
        listeners = []
        for place, name in enumerate(muster.names()):
            fabric = await stack.enter_async_context(connect(muster.urls[place // muster.each], wait=30.0))
            events: Events | Subscription
            if muster.named:
                events = await stack.enter_async_context(fabric.subscribe(muster.topic, WHERE, name=name))
            else:
                events = await stack.enter_async_context(fabric.subscribe(muster.topic, WHERE))
            listeners.append(_Listener(events))
        tasks = [asyncio.create_task(listener.listen()) for listener in listeners]
        say(Gathered(len(tasks)))
        async for _ in lines:
            received = sum(listener.received for listener in listeners)
            plain = [listener.events for listener in listeners if isinstance(listener.events, Events)]
            say(Counted(received, sum(events.missed for events in plain)))
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    sys.exit(uvloop.run(attend()))
