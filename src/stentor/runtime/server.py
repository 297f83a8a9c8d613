"""Listening: accepts links for a node, with TLS where a certificate directory says so."""

import asyncio
import errno
import socket
from pathlib import Path

from stentor.machine import LinkOpened
from stentor.model.errors import ConfigError, Refused
from stentor.model.messages import Rejection
from stentor.runtime.driver import Driver
from stentor.runtime.link import Link
from stentor.runtime.tls import is_node, principal_of, server_context
from stentor.wire.frame import PREAMBLE, encode


def reserve(host: str) -> socket.socket:
    """Holds a free port until it is closed: whoever says that an address may be used again can listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    holder = socket.socket(family, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        holder.bind((host, 0))
    except OSError as error:
        holder.close()
        raise ConfigError(f"cannot listen on {host}: {error.strerror or error}") from None
    return holder


async def listen(
    driver: Driver, host: str, port: int, certificates: Path | None = None, handshake_within: float = 3.0
) -> asyncio.Server:
    """Accept links there until the server is closed; port 0 takes a free one."""

    def opened(link: Link) -> None:
        try:
            principal = principal_of(link.tls) if link.tls is not None else ""
        except Refused as error:
            link.unsent += [PREAMBLE, encode(Rejection(error.code, error.reason))]
            link.flush()
            link.close()
            return
        node = link.tls is None or is_node(link.tls)  # without TLS there is only this machine, and everybody is trusted
        driver.opened(link, LinkOpened(link.id, principal=principal, address=link.address, node=node))

    try:
        return await driver.loop.create_server(
            lambda: Link(driver, driver.number(), opened), host, port, backlog=1024,
            ssl=server_context(certificates) if certificates is not None else None,
            ssl_handshake_timeout=handshake_within if certificates is not None else None,
        )  # fmt: skip
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"{host}:{port} is taken by another program: stop it, or listen on another port (--listen {host}:0)"
            ) from None
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
