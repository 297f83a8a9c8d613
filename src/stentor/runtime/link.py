"""One TCP or TLS stream between this process and a peer."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from stentor.machine import Buffer
from stentor.model.ids import LinkId

_SMALL = 4096  # buffers below this are joined, larger ones are handed over one by one


class LinkOwner(Protocol):
    """The part of the driver that is told what happens on a link."""

    high_water: int  # bytes that may wait to be written: more than a peer's credit can be

    def received(self, link: "Link", data: bytes) -> None: ...
    def lost(self, link: "Link", reason: str) -> None: ...


class Link(asyncio.Protocol):
    """Collects what a turn of the loop sends and writes it once."""

    def __init__(self, owner: LinkOwner, number: LinkId, opened: Callable[["Link"], None]) -> None:
        self.id = number
        self.unsent: list[Buffer] = []
        self._owner = owner
        self._opened = opened
        self._transport: asyncio.Transport | None = None
        self._reason = "the peer closed the link"
        self._lost: asyncio.Future[None] | None = None  # if somebody waits for that

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._owner.high_water)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._opened(self)

    def data_received(self, data: bytes) -> None:
        self._owner.received(self, data)

    def pause_writing(self) -> None:
        # events never exceed the credit, so it is answers that pile up: the peer asks without reading
        self._reason = "the peer does not read what it asks for"
        self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)
        self._owner.lost(self, str(error) if error is not None else self._reason)

    def flush(self) -> None:
        if self.unsent:
            unsent, self.unsent = self.unsent, []
            self.write(unsent)

    def write(self, data: Sequence[Buffer]) -> None:
        """Hand this over to be sent, behind all that was handed over before."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if len(data) == 1:
            transport.write(data[0])
        elif sum(map(len, data)) > _SMALL * len(data):
            transport.writelines(data)
        else:
            transport.write(b"".join(data))

    def read(self, *, paused: bool) -> None:
        """Stop reading, so that the peer's writes wait, or go on."""
        transport = self._transport
        if transport is None or transport.is_closing() or transport.is_reading() is not paused:
            return
        if paused:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def wait_closed(self, within: float) -> None:
        """Let what was sent leave, and TLS say goodbye; then there is nothing left of it."""
        if self._transport is not None:
            self._lost = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._lost], timeout=within)
            self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def address(self) -> str:
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return f"{name[0]}:{name[1]}" if name else ""

    @property
    def tls(self) -> ssl.SSLObject | None:
        return self._transport.get_extra_info("ssl_object") if self._transport is not None else None
