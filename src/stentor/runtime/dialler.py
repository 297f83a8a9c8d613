"""Dialling: opens a link to an address, with TLS if a certificate directory is given."""

import asyncio
import ssl
from pathlib import Path

from stentor.machine import LinkOpened
from stentor.model.ids import LinkId
from stentor.runtime.driver import Driver
from stentor.runtime.link import Link

_WITHIN = 10.0  # seconds for TCP and TLS


class Dialler:
    """Made once per client; the certificates are read before anything is dialled."""

    def __init__(self, certificates: str | Path | None) -> None:
        self._context: ssl.SSLContext | None = None
        if certificates:
            from stentor.runtime.tls import client_context  # heavy: only for those who need it

            self._context = client_context(Path(certificates))

    async def __call__(self, driver: Driver, number: LinkId, address: str) -> None:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")

        def opened(link: Link) -> None:
            driver.opened(link, LinkOpened(number, dialled=True, address=address))

        try:
            async with asyncio.timeout(_WITHIN):
                await driver.loop.create_connection(
                    lambda: Link(driver, number, opened), host, int(port), ssl=self._context,
                )  # fmt: skip
        except (OSError, ssl.SSLError, TimeoutError, UnicodeError) as error:
            driver.unreachable(number, _reason(error))


def _reason(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
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
