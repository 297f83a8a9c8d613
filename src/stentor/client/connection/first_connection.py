"""The first connection of a client: how long it is tried, and what is said if nobody is there.

A broker that is there has `timeout` seconds to answer. Where nobody listens, or no host has that name, the client gives
up once it has tried every address of its URL, or keeps trying for `wait` seconds if it was asked to.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from stentor.client.connection.incarnations import draw_incarnation
from stentor.client.connection.url import addresses_of
from stentor.model.errors import InvalidInput, Unreachable
from stentor.nodes.client_settings import Settings
from stentor.runtime.dialler import REFUSED, Dialler
from stentor.runtime.token import load_token

HINT = ": is `stentor up` running there?"


class Access(NamedTuple):
    """How a client reaches the fabric."""

    url: str
    tls: str | None
    timeout: float  # seconds that a broker that is there has to answer
    wait: float  # seconds that brokers may be absent
    token: str | None = None  # the file of the fabric's token; None is what its broker on this machine points to
    stay: bool = False  # does not follow a broker that asks it to go to another one

    def settings(self, name: str, *, window: int, buffer: int, agent: str) -> Settings:
        """Return the settings of a link under a name; it begins a life."""
        return Settings(
            name=name,
            addresses=addresses_of(self.url),
            incarnation=draw_incarnation(),
            window=window,
            buffer=buffer,
            agent=agent,
            secure=self.tls is not None,
            can_move=not self.stay,
        )

    def check(self) -> None:
        """Raise InvalidInput for seconds that cannot be."""
        if not self.timeout > 0 or not self.wait >= 0:
            raise InvalidInput(f"timeout is more than 0 seconds, wait 0 or more, not {self.timeout} and {self.wait}")


class FirstConnection:
    """Ends when somebody answered, or when it is clear that nobody will."""

    def __init__(self, access: Access) -> None:
        loop = asyncio.get_running_loop()
        self.dialler = Dialler(access.tls, load_token(Path(access.token)) if access.token else None)
        self._access = access
        self._patient_until = loop.time() + access.wait
        self._done: asyncio.Future[None] = loop.create_future()
        self._trouble = ""

    def succeed(self) -> None:
        if not self._done.done():
            self._done.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self._done.done():
            self._done.set_exception(error)

    def on_disconnect(self, reason: str) -> bool:
        """Return whether the client tries again; it gives up if nobody is at any address, unless somebody may come."""
        self._trouble = reason
        if self._done.done() or not self._is_absent() or asyncio.get_running_loop().time() < self._patient_until:
            return True
        self.fail(Unreachable(self._absence(self._access.wait)))
        return False

    async def wait(self, describe: Callable[[float], str] | None = None) -> None:
        """Return when `succeed` was called; Unreachable with a description after the time for an answer."""
        within = max(self._access.timeout, self._access.wait)
        try:
            await asyncio.wait_for(self._done, within)
        except TimeoutError:
            if describe is None or self._is_absent():
                raise Unreachable(self._absence(within)) from None
            raise Unreachable(describe(within)) from None

    def _is_absent(self) -> bool:
        return self.dialler.absent.keys() >= set(addresses_of(self._access.url))

    def _absence(self, within: float) -> str:
        addresses = addresses_of(self._access.url)
        absent = self.dialler.absent
        trouble = self._trouble
        if len(addresses) > 1:
            other = "no answer" if trouble in absent.values() else trouble or "no answer"
            trouble = ", ".join(f"{address}: {absent.get(address, other)}" for address in addresses)
        hint = HINT if set(absent.values()) <= {REFUSED} and self._trouble in ("", REFUSED) else ""
        waited = f" within {within:g} s" if within else ""
        return f"no broker at {self._access.url}{waited}{f' ({trouble})' if trouble else ''}{hint}"
