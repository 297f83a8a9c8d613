"""The HTTP server of a process: the page, health and metrics of its nodes, on a port that stays the same."""

import asyncio
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stentor.config import Address
from stentor.model.errors import ConfigError
from stentor.nodes.broker.broker import Broker
from stentor.runtime.disk import remember_port, remembered_port
from stentor.runtime.repository import RepositoryHost
from stentor.storage.ledger_store import directory_of

if TYPE_CHECKING:  # heavy: not for nodes without HTTP
    from stentor.gateways.http.app import HttpServer
    from stentor.gateways.http.node import ServedNode


class Health:
    """Shows the nodes of a process from now on until it is closed; nothing if `where` is None."""

    def __init__(self, where: str | None, home: Path, certificates: Path | None) -> None:
        self._nodes: list[ServedNode] = []
        self._server: HttpServer | None = None
        if where is not None:
            from stentor.gateways.http import app

            address = Address.parse(where)
            served = app.application(self._nodes)
            self._server = app.HttpServer(served, _bind(address, home), None if address.loopback else certificates)

    @property
    def url(self) -> str | None:
        return None if self._server is None else self._server.url

    def show_broker(self, name: str, broker: Broker, started: asyncio.Event, storage: Path) -> None:
        """Show a broker, which is ready only once all of its process has started."""
        if self._server is not None:
            from stentor.gateways.http.broker import broker_node

            def is_ready() -> bool:
                return broker.ready and started.is_set()

            self._nodes.append(broker_node(name, lambda: broker.status(time.monotonic_ns()), is_ready, storage))

    def show_repository(self, name: str, host: RepositoryHost, storage: str) -> None:
        if self._server is not None:
            from stentor.gateways.http.repository import repository_node

            self._nodes.append(repository_node(name, host, directory_of(storage)))

    def hide(self, name: str) -> None:
        """Show a node no longer that has ended while the process goes on."""
        self._nodes[:] = [node for node in self._nodes if node.name != name]

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()


def _bind(address: Address, home: Path) -> socket.socket:
    """Return a listener there; one on any free port takes the port of the last time if nobody else has it now."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    reason = ""
    for port in [address.port] if address.port else [remembered_port(home), 0]:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address.host, port))
            listener.listen()
        except OSError as error:
            listener.close()
            reason = error.strerror or str(error)
        else:
            remember_port(home, listener.getsockname()[1])
            return listener
    raise ConfigError(f"cannot serve HTTP on {address}: {reason}; set another http address")
