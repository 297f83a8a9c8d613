"""Orders: what operators make a broker do at run time. Written down first, then carried out and confirmed."""

from collections.abc import Callable, Iterable

import msgspec

from stentor.machine import Append, Effect, Report, Stop
from stentor.model.errors import Refusal
from stentor.model.ids import LinkId
from stentor.model.messages import Order, OrderReceipt, Task
from stentor.nodes.guest import Guest
from stentor.nodes.network import Network

LOG = "orders"
LEFT = "left the network for good"


class Orders:
    """The orders of one broker: those under way, and on its disk those that a next start must know."""

    def __init__(self, network: Network, act: Callable[[Effect], None]) -> None:
        self._network, self._act = network, act
        self._pending: dict[int, tuple[LinkId, Order]] = {}  # that are being written down, and who waits for them
        self._last = 0

    def recall(self, now: int, records: Iterable[bytes]) -> None:
        """Do again what was ordered before this start."""
        for record in records:
            order = msgspec.msgpack.decode(record, type=Order)
            if order.task is not Task.LEAVE and not self._network.refusal(order):
                self._network.carry_out(now, order)

    def take(self, client: Guest, order: Order) -> OrderReceipt | None:
        """Refuse it, or have it written down."""
        if not client.node:
            reason = "only who has a node's certificate may order that"
            return OrderReceipt(order.token, Refusal.UNAUTHENTICATED, reason)
        reason = self._network.refusal(order)
        if reason:
            return OrderReceipt(order.token, Refusal.PROTOCOL, reason)
        about = self._network.dialled(order) if order.task in (Task.REMOVE_LINK, Task.SET_COST) else None
        if about is not None:  # at the next start nobody has said yet who is there
            order = msgspec.structs.replace(order, address=about.settings.address)
        self._last += 1
        self._pending[self._last] = client.connection.link, order
        self._act(Append(LOG, self._last, (msgspec.msgpack.encode(order),)))
        return None

    def carry_out(self, now: int, token: int) -> tuple[LinkId, OrderReceipt, Guest | None]:
        """It will be remembered, so it is done: who is to be told what, and whose link it ends."""
        link, order = self._pending.pop(token)
        self._act(Report("info", "ordered", {"task": order.task, "name": order.name or order.address}))
        if order.task is Task.LEAVE:
            self._act(Stop(LEFT))
            return link, OrderReceipt(order.token), None
        return link, OrderReceipt(order.token), self._network.carry_out(now, order)

    def fail(self, token: int, reason: str) -> tuple[LinkId, OrderReceipt]:
        """It would not be remembered, so it is not done."""
        link, order = self._pending.pop(token)
        return link, OrderReceipt(order.token, Refusal.BUSY, f"cannot write that down: {reason}")
