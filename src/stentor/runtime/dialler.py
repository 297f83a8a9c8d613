"""Dialling: opens a link to an address, with TLS if a certificate directory is given."""

import asyncio
import errno
import re
import socket
import ssl
from pathlib import Path

from stentor.machine import LinkOpened
from stentor.model.ids import LinkId
from stentor.runtime.driver import Driver
from stentor.runtime.link import Link

REFUSED = "connection refused"
_WITHIN = 10.0  # seconds for TCP and TLS


class Dialler:
    """Made once per client; the certificates are read before anything is dialled."""

    def __init__(self, certificates: str | Path | None) -> None:
        self.absent: dict[str, str] = {}  # addresses where the last try found nobody who listens, and why
        self._context: ssl.SSLContext | None = None
        if certificates:
            from stentor.runtime.tls import client_context  # heavy: only for those who need it

            self._context = client_context(Path(certificates))

    async def __call__(self, driver: Driver, number: LinkId, address: str) -> None:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")

        def opened(link: Link) -> None:
            self.absent.pop(address, None)
            driver.opened(link, LinkOpened(number, dialled=True, address=address))

        try:
            async with asyncio.timeout(_WITHIN):
                await driver.loop.create_connection(
                    lambda: Link(driver, number, opened), host, int(port), ssl=self._context,
                )  # fmt: skip
        except (OSError, ssl.SSLError, TimeoutError, UnicodeError) as error:
            reason = _reason(error, host)
            if _is_absence(error):
                self.absent[address] = reason
            else:
                self.absent.pop(address, None)
            driver.unreachable(number, reason)


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
    return str(error) or type(error).__name__


def _all_refused(error: Exception) -> bool:
    """Event loops join the errors of a host's several addresses, such as ::1 and 127.0.0.1, in one text."""
    numbers = re.findall(r"\[Errno (\d+)\]", str(error)) if isinstance(error, OSError) and error.errno is None else []
    return bool(numbers) and set(map(int, numbers)) == {errno.ECONNREFUSED}
