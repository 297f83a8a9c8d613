"""Admin requests: what operators make a broker do at run time. Written down first, then carried out and confirmed."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from stentor.machine import Append, Rewrite, Scramble, Step, Stop
from stentor.model.colours.memory_part import check_seed, parse_damage
from stentor.model.errors import InvalidInput, Refusal
from stentor.model.ids import LinkId
from stentor.model.messages import AdminReceipt, AdminRequest, AdminTask
from stentor.nodes.broker.admin.order_log import LOG, decode, encode, in_force, is_worth_rewriting
from stentor.nodes.broker.link_session import LinkSession
from stentor.nodes.broker.redirection import Redirection
from stentor.nodes.network.network import BrokerNetwork, GatewaySettings
from stentor.nodes.network.outgoing_links import OutgoingLink

LEFT = "left the network for good"
MOST_COST = 1_000_000
_REWRITING = 0  # the token under which the log is written again; orders have others
_OF_PLANS = (AdminTask.RECONFIGURE, AdminTask.WITHDRAW_PLAN)


class CarriedOut(NamedTuple):
    """What an operator asked is done."""

    link: LinkId  # of whoever asked
    receipt: AdminReceipt
    parted: LinkSession | None  # whose link ends with it


class AdminRequests:
    """What operators asked of one broker: requests under way, and on its disk those that the next start must know."""

    def __init__(self, network: BrokerNetwork, redirection: Redirection, step: Step) -> None:
        self._network = network
        self._redirection = redirection
        self._step = step
        # Those that are being written down, and who waits for them; None is a plan, or what one has done.
        self._pending: dict[int, tuple[LinkId | None, AdminRequest]] = {}

    def recall(self, records: Iterable[bytes]) -> None:
        """Do again what was ordered before this start, as far as it is in force."""
        requests = decode(records)
        kept = in_force(requests)
        if is_worth_rewriting(requests, kept):
            self._step.emit(Rewrite(LOG, _REWRITING, tuple(map(encode, kept))))
        for request in kept:
            if self._refusal(request):
                continue
            if request.task is AdminTask.RECONFIGURE and request.plan is not None:
                self._network.colouring.recall_plan(request.scope, request.plan)
            else:
                self._do(request)

    def take(self, client: LinkSession, order: AdminRequest) -> AdminReceipt | None:
        """Refuse it, or have it written down."""
        reason = client.credentials.refusal_of_orders(self._network.context.name)
        if reason:
            return AdminReceipt(order.token, Refusal.UNAUTHENTICATED, reason)
        reason = self._refusal(order)
        if reason:
            return AdminReceipt(order.token, Refusal.PROTOCOL, reason)
        if order.task is AdminTask.MOVE_CLIENTS:  # once: at the next start there are other clients
            self._redirection.send_away(order.count, order.address)
            return AdminReceipt(order.token)
        if order.task is AdminTask.CORRUPT:  # once: the next start begins with a sound memory
            self._step.emit(Scramble(parse_damage(order.name.split()), order.count))
            self._step.report("warning", "memory damaged as ordered", parts=order.name, seed=order.count)
            return AdminReceipt(order.token)
        if order.task is AdminTask.HAND_OVER:  # once: who is a root is not for a broker to remember
            reason = self._network.colouring.hand_over()
            return AdminReceipt(order.token, Refusal.BUSY if reason else None, reason)
        if order.task is AdminTask.SET_ROOTS:
            return AdminReceipt(order.token, Refusal.PROTOCOL, "root groups change by plans: use `stentor reconfigure`")
        if order.task in _OF_PLANS:  # the brokers of the scope remember them until they are over
            return self._reconfigure(order)
        about = self._dialled(order)
        if about is not None:  # at the next start nobody has said yet who is there
            order = msgspec.structs.replace(order, address=about.settings.address)
        self._write_down(order, client.connection.link)
        return None

    def remember(self, order: AdminRequest) -> None:
        """Have a plan written down, or what it has done."""
        self._write_down(order, None)

    def _write_down(self, order: AdminRequest, link: LinkId | None) -> None:
        token = max((_REWRITING, *self._pending)) + 1
        self._pending[token] = link, order
        self._step.emit(Append(LOG, token, (encode(order),)))

    def _reconfigure(self, order: AdminRequest) -> AdminReceipt:
        assert order.plan is not None, "what has no plan is refused"
        colours = self._network.colouring.of_scope(order.scope)
        assert colours is not None, "scopes that are not around us are refused"
        is_new = order.task is AdminTask.RECONFIGURE
        reason = colours.request(order.plan) if is_new else colours.planning.abort(order.plan.number)
        return AdminReceipt(order.token, Refusal.PROTOCOL if reason else None, reason)

    def carry_out(self, token: int) -> CarriedOut | None:
        """It will be remembered, so it is done. Return who is to be told what, and whose link it ends."""
        if token == _REWRITING or token not in self._pending:
            return None
        link, request = self._pending.pop(token)
        if link is None:
            if request.task is AdminTask.RECONFIGURE and request.plan is not None:
                self._network.colouring.on_plan_written(request.scope, request.plan.number)
            return None
        self._step.report("info", "ordered", task=request.task, name=request.name or request.address)
        if request.task is AdminTask.LEAVE:
            self._step.emit(Stop(LEFT))
            return CarriedOut(link, AdminReceipt(request.token), None)
        return CarriedOut(link, AdminReceipt(request.token), self._do(request))

    def fail(self, token: int, reason: str) -> tuple[LinkId, AdminReceipt] | None:
        """It would not be remembered, so it is not done. Return who is to be told; nobody, of what a plan has done."""
        if token == _REWRITING:
            self._step.report("warning", "the log of orders is not shortened", reason=reason)
            return None
        if token not in self._pending:
            return None
        link, request = self._pending.pop(token)
        if link is None:
            self._step.report("error", "what a plan does is not remembered", task=request.task, reason=reason)
            if request.task is AdminTask.RECONFIGURE and request.plan is not None:
                self._network.colouring.on_plan_written(request.scope, request.plan.number, reason)
            return None
        return link, AdminReceipt(request.token, Refusal.BUSY, f"cannot write that down: {reason}")

    def _refusal(self, order: AdminRequest) -> str:
        """Return why an order cannot be carried out; "" if it can."""
        name, network = order.name, self._network
        match order.task:
            case AdminTask.ADD_LINK:
                return self._refusal_to_add(order)
            case AdminTask.REMOVE_LINK | AdminTask.SET_COST if self._dialled(order) is None:
                if name in network.peers:
                    return f"the link is opened by {name}: ask there"
                return f"there is no link to {name or order.address!r}"
            case AdminTask.REMOVE_LINK if (
                name in network.peers and not order.force and network.gateways.is_bridge(name)
            ):
                return f"without the link to {name} the network would be in two parts: --force removes it anyway"
            case AdminTask.MOVE_CLIENTS if not order.count or not _is_address(order.address):
                return f"{order.count} clients to {order.address!r}: expected more than 0, and host:port"
            case AdminTask.SET_COST if not 0 < order.cost <= MOST_COST:
                return f"a cost of {order.cost:g}: expected more than 0, at most {MOST_COST:,}"
            case AdminTask.DISMISS:
                known = network.gateways.graph.find(name)
                if known is None or known.left:
                    return f"no member {name!r} is known here: say it to a broker of its unit"
                if network.gateways.graph.reaches(name):
                    return f"{name} is there: make it leave, or stop it first"
            case AdminTask.CORRUPT:
                return self._refusal_to_corrupt(order)
            case AdminTask.RECONFIGURE | AdminTask.WITHDRAW_PLAN:
                return self._refusal_to_reconfigure(order)
            case AdminTask.SET_ROOTS if network.colouring.of_scope(order.scope) is None:
                return f"{network.context.name} is in no scope {order.scope!r}"
        return ""

    def _refusal_to_reconfigure(self, order: AdminRequest) -> str:
        colours, plan = self._network.colouring.of_scope(order.scope), order.plan
        if colours is None:
            return f"{self._network.context.name} is in no scope {order.scope!r}"
        if plan is None or not plan.number:
            return "a reconfiguration without a plan"
        return ""

    def _refusal_to_corrupt(self, order: AdminRequest) -> str:
        if not self._network.settings.chaos:
            return (
                f"nobody may damage the memory of {self._network.context.name}: only brokers that were started with "
                "--chaos let operators do that, as in `stentor up --chaos`"
            )
        try:
            parse_damage(order.name.split())
            check_seed(order.count)
        except InvalidInput as error:
            return str(error)
        return ""

    def _refusal_to_add(self, order: AdminRequest) -> str:
        name, network = order.name, self._network
        if not _is_address(order.address):
            return f"{order.address!r} is no address: expected host:port"
        if order.address == network.address or name == network.context.name:
            return f"{network.context.name} cannot be linked with itself"
        if order.address in network.outgoing.links or name in network.peers:
            return f"there is a link to {name or order.address} already"
        return ""

    def _do(self, order: AdminRequest) -> LinkSession | None:
        """Do what an order says, now or as at a former start. Return the session whose link it ends."""
        network, about = self._network, self._dialled(order)
        match order.task:
            case AdminTask.ADD_LINK:
                cost = order.cost or None
                network.outgoing.open(GatewaySettings(name=order.name, address=order.address, cost=cost))
            case AdminTask.REMOVE_LINK if about is not None:
                network.outgoing.remove(about.settings.address)
                peer = network.peers.get(about.settings.name)
                return None if peer is None else peer.session
            case AdminTask.SET_COST if about is not None:
                network.set_cost(about, order.cost)
            case AdminTask.DISMISS:
                network.gateways.dismiss(order.name)
            case AdminTask.SET_ROOTS if order.plan is not None:
                network.colouring.recall_roots(order.scope, order.plan.roots or ())
        return None

    def _dialled(self, order: AdminRequest) -> OutgoingLink | None:
        """Return the link that an order is about, if it is opened here; who never answered is known by its address."""
        if order.task not in (AdminTask.REMOVE_LINK, AdminTask.SET_COST):
            return None
        for each in self._network.outgoing.links.values():
            if order.name and each.settings.name == order.name:
                return each
        found = self._network.outgoing.links.get(order.address)
        return found if found is not None and not found.settings.name else None


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdigit() and 0 < int(port) < 1 << 16
