"""Orders: what operators make a broker do at run time. Written down first, then carried out and confirmed."""

from collections.abc import Callable, Iterable

import msgspec

from stentor.machine import Append, Effect, Report, Stop
from stentor.model.errors import Refusal
from stentor.model.ids import LinkId
from stentor.model.messages import Order, OrderReceipt, Task
from stentor.nodes.guest import Guest
from stentor.nodes.neighbour_link import OutgoingLink
from stentor.nodes.network import GatewaySettings, Network
from stentor.nodes.redirection import Redirection

LOG = "orders"
LEFT = "left the network for good"
MOST_COST = 1_000_000


class Orders:
    """The orders of one broker: those under way, and on its disk those that a next start must know."""

    def __init__(self, network: Network, act: Callable[[Effect], None], redirection: Redirection) -> None:
        self._network, self._act, self._redirection = network, act, redirection
        self._pending: dict[int, tuple[LinkId, Order]] = {}  # that are being written down, and who waits for them
        self._last = 0

    def recall(self, now: int, records: Iterable[bytes]) -> None:
        """Do again what was ordered before this start."""
        for record in records:
            order = msgspec.msgpack.decode(record, type=Order)
            if order.task is not Task.LEAVE and not self._refusal(order):
                self._do(now, order)

    def take(self, client: Guest, order: Order) -> OrderReceipt | None:
        """Refuse it, or have it written down."""
        reason = client.credentials.refusal_of_orders(self._network.context.name)
        if reason:
            return OrderReceipt(order.token, Refusal.UNAUTHENTICATED, reason)
        reason = self._refusal(order)
        if reason:
            return OrderReceipt(order.token, Refusal.PROTOCOL, reason)
        if order.task is Task.MOVE_CLIENTS:  # once: at the next start there are other clients
            self._redirection.send_away(order.count, order.address)
            return OrderReceipt(order.token)
        about = self._dialled(order)
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
        return link, OrderReceipt(order.token), self._do(now, order)

    def fail(self, token: int, reason: str) -> tuple[LinkId, OrderReceipt]:
        """It would not be remembered, so it is not done."""
        link, order = self._pending.pop(token)
        return link, OrderReceipt(order.token, Refusal.BUSY, f"cannot write that down: {reason}")

    def _refusal(self, order: Order) -> str:
        """Why an order cannot be carried out; "" if it can."""
        name, network = order.name, self._network
        match order.task:
            case Task.ADD_LINK:
                return self._refusal_to_add(order)
            case Task.REMOVE_LINK | Task.SET_COST if self._dialled(order) is None:
                if name in network.peers:
                    return f"the link is opened by {name}: ask there"
                return f"there is no link to {name or order.address!r}"
            case Task.REMOVE_LINK if name in network.peers and not order.force and network.gateways.is_bridge(name):
                return f"without the link to {name} the network would be in two parts: --force removes it anyway"
            case Task.MOVE_CLIENTS if not order.count or not _is_address(order.address):
                return f"{order.count} clients to {order.address!r}: expected more than 0, and host:port"
            case Task.SET_COST if not 0 < order.cost <= MOST_COST:
                return f"a cost of {order.cost:g}: expected more than 0, at most {MOST_COST:,}"
            case Task.DISMISS:
                known = network.gateways.graph.find(name)
                if known is None or known.left:
                    return f"no member {name!r} is known here: say it to a broker of its unit"
                if network.gateways.graph.reaches(name):
                    return f"{name} is there: make it leave, or stop it first"
        return ""

    def _refusal_to_add(self, order: Order) -> str:
        name, network = order.name, self._network
        if not _is_address(order.address):
            return f"{order.address!r} is no address: expected host:port"
        if order.address == network.address or name == network.context.name:
            return f"{network.context.name} cannot be linked with itself"
        if order.address in network.diallings or name in network.peers:
            return f"there is a link to {name or order.address} already"
        return ""

    def _do(self, now: int, order: Order) -> Guest | None:
        """What an order says, now or as at a former start; returns the guest whose link it ends."""
        network, about = self._network, self._dialled(order)
        match order.task:
            case Task.ADD_LINK:
                cost = order.cost or None
                network.open(now, GatewaySettings(name=order.name, address=order.address, cost=cost))
            case Task.REMOVE_LINK if about is not None:
                return network.forsake(about)
            case Task.SET_COST if about is not None:
                network.set_cost(about, order.cost)
            case Task.DISMISS:
                network.gateways.dismiss(order.name)
        return None

    def _dialled(self, order: Order) -> OutgoingLink | None:
        """The link that an order is about, if it is opened here; whoever never answered is known by its address."""
        if order.task not in (Task.REMOVE_LINK, Task.SET_COST):
            return None
        for each in self._network.diallings.values():
            if order.name and each.settings.name == order.name:
                return each
        found = self._network.diallings.get(order.address)
        return found if found is not None and not found.settings.name else None


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdigit() and 0 < int(port) < 1 << 16
