"""Connections to the HTTP server of a node: whoever is silent or slow is closed, and so is the oldest of too many.

Everybody who can reach the port may open connections, and each takes a file of the node's process. A request here is a
line and some headers, and its answer fits into a few packets, so nobody who means well takes long.
"""

import asyncio
import ssl
from functools import partial
from socket import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

LARGEST_REQUEST = 16 << 10  # bytes; browsers send a few hundred, and cookies of other servers on this host
MOST_CONNECTIONS = 32  # at once; Prometheus and a page need one each
REQUEST_WITHIN = 10.0  # seconds for a whole request and its answer, from the first byte or the answer before
_IDLE = 5  # seconds that a connection is kept for another request
_HANDSHAKE_WITHIN = 5.0  # seconds, with TLS


class Connections:
    """The connections of one server, the oldest first."""

    def __init__(self) -> None:
        self._open: dict[BoundedConnection, None] = {}

    def add(self, connection: "BoundedConnection") -> None:
        """Take a new one, at the cost of the oldest one if there are too many: who means well is quick."""
        if len(self._open) >= MOST_CONNECTIONS:
            next(iter(self._open)).end()
        self._open[connection] = None

    def remove(self, connection: "BoundedConnection") -> None:
        self._open.pop(connection, None)


class BoundedConnection(H11Protocol):
    """One connection: it has so long for each request, and so many bytes."""

    def __init__(self, *arguments: Any, connections: Connections, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._connections = connections
        self._received = 0  # bytes since the last answer
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._connections.add(self)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._received > LARGEST_REQUEST:
            self.end()
        else:
            super().data_received(data)

    def on_response_complete(self) -> None:
        self._wait()
        super().on_response_complete()

    def end(self) -> None:
        """Close the connection without another word."""
        self._connections.remove(self)
        self.transport.abort()

    def _wait(self) -> None:
        """Begin to wait for a request, and for its answer to be taken."""
        self._received = 0
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(REQUEST_WITHIN, self.end)


class BoundedServer(uvicorn.Server):
    """A server whose connections are bounded."""

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Listen, with a time for handshakes: before one is over there is no connection that could be closed."""
        config = self.config
        await self.lifespan.startup()
        made = partial(
            BoundedConnection,
            config=config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            connections=Connections(),
        )
        context: ssl.SSLContext | None = config.ssl
        within = _HANDSHAKE_WITHIN if context is not None else None
        self.servers = [
            await asyncio.get_running_loop().create_server(made, sock=each, ssl=context, ssl_handshake_timeout=within)
            for each in sockets or ()
        ]
        self.started = True


def bounded(app: Any, **options: Any) -> uvicorn.Config:
    """Return a configuration of a server for an application."""
    return uvicorn.Config(
        app,
        http=H11Protocol,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=LARGEST_REQUEST,
        **options,
    )
