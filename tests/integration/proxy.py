"""A TCP proxy that does to a link what networks do: cuts, stalls one way, delays, slices bytes, flips bits."""

import asyncio
import contextlib
import random
import socket
import struct
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with RST, and forget what was not sent
_CHUNK = 64 << 10


@dataclass
class Direction:
    """What happens to bytes that travel one way. Faults may be changed while they travel."""

    delay: float = 0.0  # seconds that each chunk waits
    largest_slice: int = 0  # bytes; 0 hands chunks on as they came
    flips: float = 0.0  # the chance that a chunk gets one bit flipped
    flipped: int = 0
    carried: int = 0  # bytes handed on
    held: int = 0  # bytes read and not handed on, because of a stall
    _open: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._open.set()

    def stall(self) -> None:
        """Hand nothing on until `resume`; the link stays up."""
        self._open.clear()

    def resume(self) -> None:
        self._open.set()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, dice: random.Random) -> None:
        while data := await reader.read(_CHUNK):
            if not self._open.is_set():
                self.held += len(data)
                await self._open.wait()
                self.held -= len(data)
            if self.delay:
                await asyncio.sleep(self.delay)
            if dice.random() < self.flips:
                data = _flip(data, dice)
                self.flipped += 1
            for part in self._slices(data, dice):
                writer.write(part)
                await writer.drain()
                self.carried += len(part)
                if self.largest_slice:
                    await asyncio.sleep(0)  # so that a part leaves before the next one is written

    def _slices(self, data: bytes, dice: random.Random) -> list[bytes]:
        if not self.largest_slice:
            return [data]
        parts = []
        start = 0
        while start < len(data):
            end = start + dice.randint(1, self.largest_slice)
            parts.append(data[start:end])
            start = end
        return parts


def _flip(data: bytes, dice: random.Random) -> bytes:
    damaged = bytearray(data)
    damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
    return bytes(damaged)


class Proxy:
    """Stands between clients and one port. Use it with `async with`; clients dial `url`."""

    def __init__(self, port: int, seed: int = 1) -> None:
        self._target = port
        self._dice = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._near: set[asyncio.StreamWriter] = set()  # the clients' ends of the links
        self._far: set[asyncio.StreamWriter] = set()  # the broker's ends
        self._ghosts: set[asyncio.StreamWriter] = set()  # ends that must not be told that the others are gone
        self.up = Direction()  # from clients to the broker
        self.down = Direction()
        self.refuses = False  # new links are reset at once
        self.accepted = 0
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"stentor://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Reset every link; bytes under way are lost."""
        for writer in self._near | self._far | self._ghosts:
            sock = writer.get_extra_info("socket")
            if sock is not None and sock.fileno() >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()

    def forget(self) -> None:
        """Reset the clients' ends of the links only: the broker is not told, as if a machine had vanished."""
        self._ghosts |= self._far
        for writer in self._near:
            writer.transport.abort()

    @property
    def links(self) -> int:
        return len(self._near)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.accepted += 1
        try:
            if not self.refuses:
                await self._join(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # the links are ended below, which is all that anybody can do about it
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._near.add(writer)
        self._far.add(far_writer)
        pumps = [
            asyncio.create_task(self.up.carry(reader, far_writer, self._dice)),
            asyncio.create_task(self.down.carry(far_reader, writer, self._dice)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            with contextlib.suppress(OSError):
                for each in (writer, far_writer):
                    await each.drain()  # what was said before the end is still heard
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._near.discard(writer)
            self._far.discard(far_writer)
            writer.close()
            if far_writer not in self._ghosts:
                far_writer.close()
