"""nats-py against nats-server."""

import asyncio
import time
from collections.abc import Callable
from typing import ClassVar

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from benchmarks.clients.driver import CHECK, END, PING, PONG, Driver, Published, Tally


class NatsPy(Driver):
    separator: ClassVar[str] = "."

    def publish(self, topic: str, body: bytes, seconds: float) -> Published:
        return asyncio.run(self._publish(self.topic(topic), body, seconds))

    async def _publish(self, topic: str, body: bytes, seconds: float) -> Published:
        client = await self._connect()
        began, sent = time.monotonic_ns(), 0
        while time.monotonic_ns() - began < seconds * 1e9:
            for _ in range(CHECK):
                await client.publish(topic, body)
            sent += CHECK
        await client.flush(timeout=60)
        ended = time.monotonic_ns()
        await client.publish(topic, END)
        await client.drain()
        return Published(sent, began, ended)

    def subscribe(self, topic: str, tally: Tally, ready: Callable[[], None]) -> None:
        asyncio.run(self._subscribe(self.topic(topic), tally, ready))

    async def _subscribe(self, topic: str, tally: Tally, ready: Callable[[], None]) -> None:
        client = await self._connect()
        done = asyncio.Event()

        async def take(message: Msg) -> None:
            if tally.take(message.data):
                done.set()

        # no limit on what waits in the client, or it would drop messages
        await client.subscribe(topic, cb=take, pending_msgs_limit=0, pending_bytes_limit=0)
        await client.flush()
        ready()
        await done.wait()
        await client.close()

    def echo(self, ready: Callable[[], None]) -> None:
        asyncio.run(self._echo(ready))

    async def _echo(self, ready: Callable[[], None]) -> None:
        client = await self._connect()
        done = asyncio.Event()
        pong = self.topic(PONG)

        async def answer(message: Msg) -> None:
            if message.data == END:
                done.set()
            await client.publish(pong, message.data)

        await client.subscribe(self.topic(PING), cb=answer)
        await client.flush()
        ready()
        await done.wait()
        await client.drain()

    def ping(self, body: bytes, count: int) -> list[int]:
        return asyncio.run(self._ping(body, count))

    async def _ping(self, body: bytes, count: int) -> list[int]:
        client = await self._connect()
        answers = await client.subscribe(self.topic(PONG))
        await client.flush()
        ping, taken = self.topic(PING), []
        for _ in range(count):
            since = time.monotonic_ns()
            await client.publish(ping, body)
            await answers.next_msg(timeout=5)
            taken.append(time.monotonic_ns() - since)
        await client.publish(ping, END)
        await client.drain()
        return taken

    async def _connect(self) -> Client:
        return await nats.connect(f"nats://127.0.0.1:{self.port}", pending_size=64 << 20)
