"""A broker whose peers are who they are by the names of their hosts, as certificates would prove it."""

from collections.abc import Callable

import msgspec

from stentor.machine import Effect, Input, LinkOpened
from stentor.nodes.broker.broker import Broker


class Doorman:
    """A broker behind a check of hosts; `prove` returns the principal of a host, and whether it is a node's."""

    def __init__(self, broker: Broker, prove: Callable[[str], tuple[str, bool]]) -> None:
        self.broker, self._prove = broker, prove

    def step(self, now: int, happened: Input) -> list[Effect]:
        if isinstance(happened, LinkOpened):
            principal, is_node = self._prove(happened.address)
            happened = msgspec.structs.replace(happened, principal=principal, node=is_node)
        return self.broker.step(now, happened)
