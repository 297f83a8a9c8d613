"""When the whole network knows what a client asked for, as its broker finds out."""

import asyncio
from typing import NamedTuple, Protocol

from stentor.model.errors import LinkBroken
from stentor.model.messages import SettlementReport, SettlementRequest
from stentor.nodes.client_api import Answer, Question

_GRACE = 5.0  # seconds that the broker itself may be late


class Settled(NamedTuple):
    """Which brokers know a subscription."""

    brokers: int  # that said so; the client's own is one of them
    silent: tuple[str, ...] = ()  # that can be reached, and had not said so when the time was over

    @property
    def is_everywhere(self) -> bool:
        """Whether no broker was silent."""
        return not self.silent


class Asking(Protocol):
    """A client that can ask its broker."""

    def token(self) -> int: ...
    async def ask(self, question: Question, timeout: float | None) -> Answer: ...
    async def wait_until(self, *, connected: bool) -> None: ...


async def settle(client: Asking, timeout: float) -> Settled:
    """Return who knows all that the client subscribed to so far.

    A link that breaks meanwhile is waited for: the next broker gets all subscriptions first, and then the question.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    while True:
        left = max(end - loop.time(), 0.0)
        try:
            answer = await client.ask(SettlementRequest(client.token(), left), left + _GRACE)
        except LinkBroken as error:
            try:
                async with asyncio.timeout_at(end):
                    await client.wait_until(connected=True)
            except TimeoutError:
                raise error from None
        else:
            assert isinstance(answer, SettlementReport), "that is what was asked for"
            return Settled(answer.brokers, answer.silent)
