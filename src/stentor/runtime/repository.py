"""A repository as a part of a process: its node, its link to a broker and its ledgers."""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec

from stentor.machine import Effect, StopRequested
from stentor.model.communication import repository_name
from stentor.model.ids import incarnation_at
from stentor.model.trust.token import FabricToken
from stentor.nodes.client import Settings
from stentor.nodes.conclusion import Conclude, Concluded
from stentor.nodes.repository import RepositoryNode
from stentor.policies.access import AccessRule
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.runtime.dialler import Dialler
from stentor.runtime.driver import Driver
from stentor.runtime.ledgers import CommitTimes
from stentor.runtime.log import Logger, logger
from stentor.storage.lake import Lake
from stentor.storage.ledger_store import LedgerStore
from stentor.version import __version__

_WINDOW = 64 << 20  # bytes of events that may be under way to it: publishers bound what they have in flight
_CONCLUDED_WITHIN = 2.0  # seconds for the last traces; what is not kept by then the next life tells from its ledgers


class RepositoryHost:
    """Runs one repository on this event loop, from `start` to `close`.

    `linked` tells that it was heard by a broker for the first time, `stopped` that it cannot go on.
    """

    def __init__(
        self,
        settings: RepositorySettings,
        addresses: tuple[str, ...],
        ledger_store: LedgerStore,
        certificates: Path | None = None,
        log: Logger = logger,
        lake: Lake | None = None,
        token: FabricToken | None = None,
        rules: tuple[AccessRule, ...] = (),
    ) -> None:
        link = Settings(
            name=repository_name(settings.name),
            addresses=addresses,
            incarnation=incarnation_at(time.time_ns()),
            window=_WINDOW,
            buffer=_WINDOW,
            agent=f"stentor-repository {__version__}",
            secure=certificates is not None,
        )
        self.addresses = addresses
        self._born = time.monotonic()
        self.linked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._concluded = asyncio.Event()
        settings = msgspec.structs.replace(settings, lake=lake is not None)
        self.node = RepositoryNode(link, settings, list(ledger_store.topics()), rules)
        self._driver = Driver(
            self.node,
            dialler=Dialler(certificates, token),
            application=self._notice,
            ledger_store=ledger_store,
            lake=lake,
            window=_WINDOW,
            log=log,
        )

    @property
    def stopped(self) -> asyncio.Future[str]:
        return self._driver.stopped

    @property
    def uptime(self) -> float:
        """Seconds since this repository was made."""
        return time.monotonic() - self._born

    @property
    def commit_times(self) -> CommitTimes:
        return self._driver.commit_times

    def status(self) -> dict[str, object]:
        return self.node.status(time.monotonic_ns())

    def _notice(self, effect: Effect) -> None:
        if isinstance(effect, Concluded):
            self._concluded.set()
        if self.node.linked and not self.linked.done():
            self.linked.set_result(None)

    def start(self) -> None:
        self._driver.start()

    async def close(self) -> None:
        """Stop in good order: once the last traces are kept, or after a while without."""
        if not self.stopped.done():
            self._driver.tell(Conclude())
            waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._concluded.wait()), self.stopped]
            await asyncio.wait(waiting, timeout=_CONCLUDED_WITHIN, return_when=asyncio.FIRST_COMPLETED)
            waiting[0].cancel()
        self._driver.tell(StopRequested())
        await self._driver.close()
