"""Runs a client machine on asyncio: the driver, the first connection, and what an application sees of the link.

`Fabric`, `Reader`, named publishers and named subscriptions are such runners; each performs, beside this, the effects
that only its own machine has.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType

from stentor.client.connection.first_connection import Access, FirstConnection
from stentor.client.connection.link_log import LinkLog
from stentor.machine import Effect, Input, Machine, StopRequested
from stentor.model.errors import Closed, Fenced, Refusal, Refused, StentorError
from stentor.nodes.client_api import Connect, Disconnect, Refuse
from stentor.runtime.driver import Driver

LINGER = 5.0  # seconds that whoever is closed gives to what is not safe yet
_LARGEST_WINDOW = 1 << 32  # a broker's word is good: what it grants may wait to be written


class MachineRunner:
    """One machine with a link of its own, and the application that waits for it.

    Invariant: `_error` is set once, but for `Closed`, which replaces any other.
    """

    _unopened = "not open: use `async with`"

    def __init__(self, access: Access, log: LinkLog) -> None:
        self._access = access
        self._log = log
        self._driver: Driver | None = None  # None until it is entered
        self._first: FirstConnection | None = None
        self._error: Exception | None = None  # why it can be used no more
        self.trouble = ""  # why nobody serves it at the moment
        self.node = ""  # the broker's name
        self.connected = False
        self._changed = asyncio.Event()

    async def _start(self, machine: Machine, describe: Callable[[float], str] | None = None) -> None:
        """Run a machine, and return when the first connection succeeded."""
        assert self._driver is None, "it is entered once"
        first = self._first = FirstConnection(self._access)
        driver = self._driver = Driver(
            machine, dialler=first.dialler, application=self._perform, window=_LARGEST_WINDOW
        )
        driver.stopped.add_done_callback(lambda stopped: self._fail(StentorError(stopped.result())))
        driver.start()
        try:
            await first.wait(describe)
        except BaseException:
            await self._stop("this one was closed")
            raise

    async def _stop(self, reason: str) -> None:
        """End the machine and its link, once."""
        if self._driver is not None and not isinstance(self._error, Closed):
            self._fail(Closed(reason))
            self._driver.tell(StopRequested())
            await self._driver.close()

    async def close(self) -> None:
        """End what there is of it; subclasses first wait for what is under way."""
        await self._stop("this one was closed")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def wait_until(self, *, connected: bool) -> None:
        """Return when the link to the broker is up, or down."""
        while self.connected is not connected:
            self._check()
            self._changed.clear()
            await self._changed.wait()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._driver is None:
            raise Closed(self._unopened)

    def _tell(self, happened: Input) -> None:
        self._check()
        assert self._driver is not None
        self._driver.tell(happened)

    def _perform(self, effect: Effect) -> None:
        """Perform what the machine wants of its link and its application; subclasses perform the rest."""
        match effect:
            case Connect():
                self.node = effect.node
                self._set_connected(True)
                self._log.up(effect.node, self._access.url)
            case Disconnect():
                self._set_connected(False)
                self.trouble = effect.reason
                if self._first is None or self._first.on_disconnect(effect.reason):
                    self._log.down(effect.reason, self._access.url)
            case Refuse():
                refused = refusal_of(effect.code, effect.reason)
                self._log.refused(refused)
                self._fail(refused)

    def _set_connected(self, connected: bool) -> None:
        self.connected = connected
        self._changed.set()

    def _fail(self, error: Exception) -> None:
        """Nothing more can be done: everybody who waits is told."""
        self._set_connected(False)
        if self._error is None or isinstance(error, Closed):
            self._error = error
        if self._first is not None:
            self._first.fail(error)


def refusal_of(code: Refusal, reason: str) -> Refused:
    return Fenced(code, reason) if code is Refusal.FENCED else Refused(code, reason)
