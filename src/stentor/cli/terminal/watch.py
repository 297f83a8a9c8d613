"""Says on standard error when a link breaks, and when it is back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from rich.console import Console

from stentor.cli.terminal.printable import printable
from stentor.model.errors import StentorError


class WatchedLink(Protocol):
    """A client, or the end of a reliable topic: each has a link of its own."""

    trouble: str
    node: str

    async def wait_until(self, *, connected: bool) -> None: ...


@asynccontextmanager
async def watched(link: WatchedLink, url: str, errors: Console) -> AsyncIterator[None]:
    """Report on a link that is up, until this is left."""
    watching = asyncio.create_task(_watch(link, url, errors))
    try:
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError, StentorError):  # whoever uses the link is told of its end
            await watching


async def _watch(link: WatchedLink, url: str, errors: Console) -> None:
    while True:
        await link.wait_until(connected=False)
        back = asyncio.ensure_future(link.wait_until(connected=True))
        try:
            if not (await asyncio.wait({back}, timeout=0))[0]:  # else it was refused for good, or closed
                reason = f": {link.trouble}" if link.trouble else ""
                _say(errors, f"link to {url} lost{reason}; reconnecting")
            await back
        finally:
            back.cancel()
        _say(errors, f"connected again to {link.node}")


def _say(errors: Console, text: str) -> None:
    errors.print(printable(text), markup=False, soft_wrap=True)
