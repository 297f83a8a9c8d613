"""Listening: accepts links for a node, with TLS where a certificate directory says so."""

import asyncio
import errno
import os
import socket
from pathlib import Path

from stentor.machine import LinkOpened
from stentor.model.errors import ConfigError, Refused
from stentor.model.messages import Rejection
from stentor.model.trust.token import NONCE_BYTES, FabricToken
from stentor.runtime.driver import Driver
from stentor.runtime.link import Link
from stentor.wire.frame import PREAMBLE, encode


def reserve(host: str, wanted: int = 0) -> socket.socket:
    """Holds a port until it is closed, the wanted one if it is free: whoever says that an address may be used again can
    listen there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    holder = socket.socket(family, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        holder.bind((host, wanted))
    except OSError as error:
        holder.close()
        if wanted:
            return reserve(host)
        raise ConfigError(f"cannot listen on {host}: {error.strerror or error}") from None
    return holder


async def listen(
    driver: Driver,
    host: str,
    port: int,
    certificates: Path | None = None,
    handshake_within: float = 3.0,
    token: FabricToken | None = None,
) -> asyncio.Server:
    """Accept links there until the server is closed; port 0 takes a free one.

    Without TLS nobody is a node who does not prove the token, and nobody at all if there is none.
    """
    context, trust = None, None
    if certificates is not None:
        from stentor.runtime.tls import server_context  # heavy: only for those who need it
        from stentor.runtime.trust import Trust

        context, trust = server_context(certificates), Trust(certificates)

    def identify(link: Link) -> LinkOpened:
        if trust is not None:
            return trust.admit(driver, link)
        nonce = os.urandom(NONCE_BYTES)
        return LinkOpened(link.id, address=link.address, node=False, scopes=(), nonce=nonce, token=token)

    def opened(link: Link) -> None:
        try:
            happened = identify(link)
        except Refused as error:
            link.unsent += [PREAMBLE, encode(Rejection(error.code, error.reason))]
            link.flush()
            link.close()
            return
        driver.opened(link, happened)

    try:
        return await driver.loop.create_server(
            lambda: Link(driver, driver.number(), opened),
            host,
            port,
            backlog=1024,
            ssl=context,
            ssl_handshake_timeout=handshake_within if certificates is not None else None,
        )
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"{host}:{port} is taken by another program: stop it, or listen on another port (--listen {host}:0)"
            ) from None
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
