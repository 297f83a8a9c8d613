"""Peers made of bytes: a client that says to a broker whatever a test wants, and a server that is no broker."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from stentor.model.attribute import EMPTY_SCHEMA, Schema
from stentor.model.ids import CatenationNumber, Incarnation, publisher_id, topic_id
from stentor.model.messages import (
    AnyMessage,
    Challenge,
    ChallengeRequest,
    Heartbeat,
    Hello,
    Message,
    Missed,
    Rejection,
    Topic,
    Welcome,
)
from stentor.model.trust.token import FabricToken
from stentor.wire.block import Origin
from stentor.wire.frame import CONTROL, PREAMBLE, decode, encode

M = TypeVar("M", bound=Message)
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

WITHIN = 60.0


class Peer:
    """One end of a raw link."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.name = ""
        self.events: list[bytes] = []  # whole event frames, as they came

    @classmethod
    async def dial(cls, port: int) -> "Peer":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    async def send(self, *what: bytes | Message) -> None:
        for each in what:
            self.writer.write(each if isinstance(each, bytes) else encode(each))
        with contextlib.suppress(OSError):  # it may have hung up on us, which is what the test is about
            await self.writer.drain()

    async def hello(
        self, name: str, *, window: int = 1 << 20, heartbeat: float = 3600.0, token: FabricToken | None = None
    ) -> Welcome:
        self.name = name
        hello = Hello(name, Incarnation(1), window, "client", heartbeat, "test")
        await self.send(PREAMBLE, hello if token is None else ChallengeRequest())
        assert await self.reader.readexactly(len(PREAMBLE)) == PREAMBLE
        if token is not None:
            challenge = (await self.expect(Challenge)).nonce
            proof = token.dialler_proof(challenge, b"nonce", hello.role, name)
            await self.send(msgspec.structs.replace(hello, nonce=b"nonce", proof=proof))
        return await self.expect(Welcome)

    async def greet(self, window: int, largest_body: int = 1 << 20, heartbeat: float = 3600.0) -> Hello:
        """The other side of hello."""
        assert await self.reader.readexactly(len(PREAMBLE)) == PREAMBLE
        hello = await self.expect(Hello)
        await self.send(PREAMBLE, Welcome("pretender", 1, "anonymous", window, largest_body, heartbeat))
        return hello

    async def receive(self) -> AnyMessage:
        """The next control message; event frames in front of it are kept in `events`."""
        async with asyncio.timeout(WITHIN):
            while True:
                frame = await self.receive_frame()
                if frame[4] != CONTROL:
                    self.events.append(frame)
                elif not isinstance(message := decode(frame), Heartbeat):
                    return message

    async def receive_events(self, count: int) -> list[AnyMessage]:
        """Wait until `events` hold this many, or the peer told that they are missed; returns what else was said."""
        said: list[AnyMessage] = []
        async with asyncio.timeout(WITHIN):
            while self.count_events() + sum(sum(m.events.values()) for m in said if isinstance(m, Missed)) < count:
                frame = await self.receive_frame()
                if frame[4] == CONTROL:
                    said.append(decode(frame))
                else:
                    self.events.append(frame)
        return said

    def count_events(self) -> int:
        return sum(int.from_bytes(frame[32:34], "little") for frame in self.events)

    async def receive_frame(self) -> bytes:
        head = await self.reader.readexactly(4)
        return head + await self.reader.readexactly(int.from_bytes(head, "little") - 4)

    async def expect(self, kind: type[M]) -> M:
        message = await self.receive()
        assert isinstance(message, kind), message
        return message

    async def last_word(self) -> Rejection:
        """The rejection with which a broker ends a link that was not greeted, and the end."""
        async with asyncio.timeout(WITHIN):
            assert await self.reader.readexactly(len(PREAMBLE)) == PREAMBLE
        return await self.last_word_after_welcome()

    async def last_word_after_welcome(self) -> Rejection:
        """The rejection with which a broker ends a link, after whatever else it had to say, and the end."""
        while not isinstance(message := await self.receive(), Rejection):
            pass
        assert await self.ended()
        return message

    async def ended(self) -> bool:
        """Whether the other side ends the link (it may, and it may take its time)."""
        async with asyncio.timeout(WITHIN):
            with contextlib.suppress(OSError):
                while await self.reader.read(65536):
                    pass
        return True


def origin(name: str, topic: str, first: int = 1, time: int = 0) -> Origin:
    """Where events of an anonymous client of this name come from."""
    publisher = publisher_id("anonymous", name)
    return Origin(topic_id(topic), publisher, Incarnation(1), CatenationNumber(first), time)


def definition(topic: str) -> Topic:
    return Topic(topic_id(topic), topic)


@asynccontextmanager
async def pretender(handler: Handler) -> AsyncIterator[int]:
    """A server that is no broker of ours; yields its port."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handler(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def wait_for_end(reader: asyncio.StreamReader) -> None:
    """Read until the other side ends the link."""
    while await reader.read(65536):
        pass


NO_ATTRIBUTES: Schema = EMPTY_SCHEMA
