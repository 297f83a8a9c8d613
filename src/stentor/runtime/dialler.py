"""Dialling: opens a link to an address, with TLS if a certificate directory is given."""

import asyncio
import errno
import os
import re
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from stentor.machine import LinkOpened
from stentor.model.errors import Refused
from stentor.model.ids import LinkId
from stentor.model.trust.token import NONCE_BYTES, FabricToken
from stentor.runtime.driver import Driver
from stentor.runtime.link import Link
from stentor.runtime.token import find_token

if TYPE_CHECKING:
    from stentor.runtime.trust import Trust

REFUSED = "connection refused"
_WITHIN = 10.0  # seconds for TCP and TLS


class Dialler:
    """Made once per client; the certificates are read before anything is dialled.

    Without a token, that of the fabric at an address is looked for whenever it is dialled: the fabric may not be there
    yet when its client is made.
    """

    _trust: "Trust | None" = None

    def __init__(self, certificates: str | Path | None, token: FabricToken | None = None) -> None:
        self.absent: dict[str, str] = {}  # addresses where the last try found nobody who listens, and why
        self._context: ssl.SSLContext | None = None
        self._token = token
        if certificates:
            from stentor.runtime.tls import client_context  # heavy: only for those who need it
            from stentor.runtime.trust import Trust

            self._context, self._trust = client_context(Path(certificates)), Trust(Path(certificates))

    async def __call__(self, driver: Driver, number: LinkId, address: str) -> None:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")

        def opened(link: Link) -> None:
            self.absent.pop(address, None)
            try:
                happened = self._identify(driver, link, address)
            except Refused as refused:
                link.close()
                driver.unreachable(number, refused.reason)
            else:
                driver.opened(link, happened)

        try:
            async with asyncio.timeout(_WITHIN):
                await driver.loop.create_connection(
                    lambda: Link(driver, number, opened),
                    host,
                    int(port),
                    ssl=self._context,
                )
        except (OSError, ssl.SSLError, TimeoutError, ValueError, OverflowError) as error:  # a broker named the address
            reason = _reason(error, host)
            if _is_absence(error):
                self.absent[address] = reason
            else:
                self.absent.pop(address, None)
            driver.unreachable(number, reason)

    def _identify(self, driver: Driver, link: Link, address: str) -> LinkOpened:
        if self._trust is not None:
            return self._trust.admit(driver, link, dialled=address)
        return LinkOpened(
            link.id,
            dialled=True,
            address=address,
            node=False,
            scopes=(),
            nonce=os.urandom(NONCE_BYTES),
            token=self._token or find_token(address),
        )


def _is_absence(error: Exception) -> bool:
    """Whether nobody listens there or no host has that name, so that an answer is not to be expected."""
    somebody = (ssl.SSLError, TimeoutError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
    return not isinstance(error, somebody)


def _reason(error: Exception, host: str) -> str:
    if isinstance(error, ConnectionRefusedError) or _all_refused(error):
        return REFUSED
    if isinstance(error, socket.gaierror):
        return f"unknown host {host}: {error.strerror}"
    if isinstance(error, TimeoutError):
        return f"no answer within {_WITHIN:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        hint = (
            "it speaks no TLS: leave out the certificates" if error.reason == "WRONG_VERSION_NUMBER" else error.reason
        )
        return f"no TLS with it: {hint}"
    if isinstance(error, UnicodeError):
        return f"that is no host name: {error}"
    if isinstance(error, ValueError | OverflowError):
        return f"that is no address: {error}"
    return str(error) or type(error).__name__


def _all_refused(error: Exception) -> bool:
    """Event loops join the errors of a host's several addresses, such as ::1 and 127.0.0.1, in one text."""
    numbers = re.findall(r"\[Errno (\d+)\]", str(error)) if isinstance(error, OSError) and error.errno is None else []
    return bool(numbers) and set(map(int, numbers)) == {errno.ECONNREFUSED}
