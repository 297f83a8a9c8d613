"""Stentor's own client: one publish at a time, and in batches."""

import asyncio
import time
from collections.abc import Callable

from benchmarks.clients.driver import CHECK, END, PING, PONG, Driver, Published, Tally
from stentor import Fabric, connect


class StentorClient(Driver):
    """One event a call, on both sides."""

    @property
    def _url(self) -> str:
        return f"stentor://127.0.0.1:{self.port}"

    def publish(self, topic: str, body: bytes, seconds: float) -> Published:
        return asyncio.run(self._publish(topic, body, seconds))

    async def _publish(self, topic: str, body: bytes, seconds: float) -> Published:
        async with connect(self._url) as fabric:
            began, sent = time.monotonic_ns(), 0
            while time.monotonic_ns() - began < seconds * 1e9:
                await self._send(fabric, topic, body)
                sent += CHECK
            await fabric.flush()
            ended = time.monotonic_ns()
            await fabric.publish(topic, END)
        return Published(sent, began, ended)

    async def _send(self, fabric: Fabric, topic: str, body: bytes) -> None:
        for _ in range(CHECK):
            await fabric.publish(topic, body)

    def subscribe(self, topic: str, tally: Tally, ready: Callable[[], None]) -> None:
        asyncio.run(self._subscribe(topic, tally, ready))

    async def _subscribe(self, topic: str, tally: Tally, ready: Callable[[], None]) -> None:
        async with connect(self._url) as fabric, fabric.subscribe(topic) as events:
            ready()
            async for event in events:
                if tally.take(event.body):
                    return

    def echo(self, ready: Callable[[], None]) -> None:
        asyncio.run(self._echo(ready))

    async def _echo(self, ready: Callable[[], None]) -> None:
        async with connect(self._url) as fabric, fabric.subscribe(PING) as events:
            ready()
            async for event in events:
                await fabric.publish(PONG, event.body)
                if event.body == END:
                    return

    def ping(self, body: bytes, count: int) -> list[int]:
        return asyncio.run(self._ping(body, count))

    async def _ping(self, body: bytes, count: int) -> list[int]:
        taken = []
        async with connect(self._url) as fabric, fabric.subscribe(PONG) as events:
            for _ in range(count):
                since = time.monotonic_ns()
                await fabric.publish(PING, body)
                await anext(events)
                taken.append(time.monotonic_ns() - since)
            await fabric.publish(PING, END)
        return taken


class StentorBatches(StentorClient):
    """The same client, batches on both sides."""

    async def _send(self, fabric: Fabric, topic: str, body: bytes) -> None:
        await fabric.publish_many(topic, [body] * CHECK)

    async def _subscribe(self, topic: str, tally: Tally, ready: Callable[[], None]) -> None:
        async with connect(self._url) as fabric, fabric.subscribe(topic) as events:
            ready()
            async for batch in events.batches():
                for body in batch.bodies:
                    if tally.take(body):
                        return
