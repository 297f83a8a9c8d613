"""The holder of a name: what a named publisher and a named subscription have in common."""

import asyncio
import shlex
from collections.abc import Callable

from stentor.client.connection.first_connection import Access
from stentor.client.connection.incarnations import draw_incarnation
from stentor.client.connection.link_log import LinkLog
from stentor.client.connection.url import addresses_of
from stentor.client.machine_runner import MachineRunner, refusal_of
from stentor.machine import Effect, Input
from stentor.model.communication import Role, end_name
from stentor.model.errors import Unresponsive
from stentor.nodes.client_api import Moved
from stentor.nodes.reliable_endpoint import ReliableEndpoint
from stentor.protocols.delivery.endpoint_api import (
    ConfirmDurable,
    DrawLife,
    DurabilityAwaited,
    LifeDrawn,
    ReportSteering,
    ReportTrouble,
)
from stentor.protocols.delivery.publisher.publisher import ReliablePublisher
from stentor.protocols.delivery.subscriber.subscriber import ReliableSubscriber


class NamedConnection(MachineRunner):
    """Somebody with a link of its own, a steering repository, and an application that waits."""

    def __init__(self, access: Access, role: Role, topic: str, name: str, window: int) -> None:
        self.topic, self.name = topic, name
        self.repository = ""  # that steers us
        super().__init__(access, LinkLog("stentor.reliable", f"{role} {name!r} of {topic!r}"))
        agent = f"stentor-python {role}"
        self._settings = access.settings(end_name(role, name, topic), window=window, buffer=64 << 20, agent=agent)
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._tokens = 0

    async def _open(self, machine: ReliablePublisher | ReliableSubscriber, where: str | None = None) -> None:
        await self._start(ReliableEndpoint(self._settings, self.topic, machine, where), self._describe)

    def _describe(self, within: float) -> str:
        trouble = f" ({self.trouble})" if self.trouble else ""
        hint = f"is it a reliable topic? `stentor topic create {shlex.quote(self.topic)} --reliable` makes it one"
        return f"no repository of {self.topic!r} within {within:g} s{trouble}: {hint}"

    @property
    def is_open(self) -> bool:
        return self._driver is not None and self._error is None

    def move(self, url: str) -> None:
        """Go to another broker; nothing is lost on the way."""
        self._check()
        addresses = addresses_of(url)
        self._access = self._access._replace(url=url)
        self._log.moving(url)
        self._tell(Moved(addresses))

    async def _safe(self, copies: int, timeout: float | None) -> int:
        """Wait until everything said before is safe; on how many repositories it is."""
        return await self._assured(lambda token: DurabilityAwaited(token, copies), timeout)

    async def _assured(self, question: Callable[[int], Input], timeout: float | None) -> int:
        """Tell the machine something, and wait for its ConfirmDurable."""
        self._check()
        assert self._driver is not None
        self._tokens += 1
        token = self._tokens
        future = self._waiting[token] = self._driver.loop.create_future()
        try:
            self._tell(question(token))
            return await asyncio.wait_for(future, timeout)
        except TimeoutError:
            why = f": {self.trouble}" if self.trouble else ""
            raise Unresponsive(f"no repository of {self.topic!r} confirmed it within {timeout:g} s{why}") from None
        finally:
            self._waiting.pop(token, None)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case ReportSteering():
                self.repository, self.trouble = effect.repository, ""
                self._log.steered(effect.repository)
                if self._first is not None:
                    self._first.succeed()
            case ConfirmDurable():
                future = self._waiting.get(effect.token)
                if future is not None and not future.done():
                    if effect.code is None:
                        future.set_result(effect.copies)
                    else:
                        future.set_exception(refusal_of(effect.code, effect.reason))
            case DrawLife():
                assert self._driver is not None
                self._driver.loop.call_soon(self._driver.tell, LifeDrawn(draw_incarnation()))
            case ReportTrouble():
                self.trouble = effect.reason
                self._log.unsteered(effect.reason)
            case _:
                super()._perform(effect)

    def _fail(self, error: Exception) -> None:
        super()._fail(error)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
