"""The network around a broker: gateway propagation, profile propagation and event routing, composed."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from stentor.machine import SECOND, Dial, Effect, Report, StartTimer, StopTimer, Timer
from stentor.model.errors import FrameError, InvalidInput, Refusal
from stentor.model.filter import Filter
from stentor.model.ids import Incarnation, LinkId
from stentor.model.limits import Limits
from stentor.model.messages import (
    MARKS,
    Digest,
    Hello,
    Inventory,
    LinkCost,
    MarkReceipt,
    Message,
    Ping,
    Pong,
    Presence,
    ProfileChange,
)
from stentor.model.reports.status import Traffic
from stentor.model.scope import ScopePath
from stentor.nodes.broker.acquaintance import Acquaintance, NeighboursTimeout
from stentor.nodes.broker.link_session import LinkSession
from stentor.nodes.network.neighbour_link import FIRST_PAUSE, NeighbourLink, OutgoingLink, Redial
from stentor.nodes.network.settings import GatewaySettings as GatewaySettings
from stentor.nodes.network.settings import NetworkSettings as NetworkSettings
from stentor.nodes.network.shortcuts import Shortcuts
from stentor.policies.channel import channel_between
from stentor.policies.forwarding import resolve
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.broker_subscription import BrokerSubscription
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.profiles import Profiles
from stentor.protocols.dissemination.relay import NextHop, Relay
from stentor.protocols.dissemination.routes import Route, TopicEntry
from stentor.protocols.dissemination.settlement import Settlement, SettlementDue
from stentor.protocols.dissemination.spread import AccessSpread
from stentor.protocols.overlay.gateways import Gateways, Neighbour
from stentor.wire.parcel import Masks

_LONGEST_PAUSE = 5 * SECOND
_TOLD_AT_ONCE = 20  # interests that are told in a step, when a broker gets its first neighbour


class BrokerNetwork:
    """What a broker has to do with other brokers."""

    def __init__(
        self,
        path: ScopePath,
        settings: NetworkSettings,
        limits: Limits,
        forwarder: Forwarder[Outbox],
        act: Callable[[Effect], None],
        version: str = "",
    ) -> None:
        self._settings, self._limits, self._forwarder, self._act, self._version = (
            settings, limits, forwarder, act, version,
        )  # fmt: skip
        self._heartbeat = int(limits.heartbeat * SECOND)
        numbers = settings.numbers or (0,) * len(path.parts)
        self.gateways = Gateways(path, numbers, settings.address, self._heartbeat, self._say, self._report)
        self.context = context = self.gateways.context
        self.profiles = Profiles(context, self._say, self._sharing, self._index)
        self.relay = Relay(context, forwarder, [resolve(scope, settings.forwarding) for scope in context.scopes])
        self.access = AccessSpread(context.name, self._say, act)
        self.acquaintance = Acquaintance(act)
        self.timers: dict[type[Timer], Callable[[int, Any], None]] = {
            Redial: self._redial,
            NeighboursTimeout: lambda *_: self.acquaintance.expire(),
            SettlementDue: lambda now, _: self.settlement.expire(now),
        }
        self.shortcuts = Shortcuts(self.gateways, settings.path_length, self._dial_shortcut, self._hang_up)
        self.peers: dict[str, NeighbourLink] = {}
        self.settlement = Settlement(context, self.profiles, lambda: self.peers, self.neighbour_towards, self._say, act)
        self.diallings: dict[str, OutgoingLink] = {each.address: OutgoingLink(each) for each in settings.gateways}
        self.boot = 0
        self._links = 0
        self._generation = -1
        self._told: dict[int, tuple[str, Filter | None]] = {}  # interests that are in our profile
        self._untold: deque[BrokerSubscription[Outbox]] = deque()
        self._active = bool(settings.gateways)
        self._clashes: set[str] = set()
        self.count_clients: Callable[[], int] = lambda: 0  # that this broker serves

    # ---- opening links

    def begin(self, now: int, boot: int) -> None:
        self.boot = boot
        self.profiles.boot = self.settlement.boot = boot
        self.gateways.begin(boot)
        self.access.begin(boot)
        self.acquaintance.begin(now, self.diallings)
        for dialling in self.diallings.values():
            self._dial(now, dialling)

    def _dial(self, now: int, dialling: OutgoingLink) -> None:
        if dialling.settings.name in self.peers:
            self._act(StartTimer(Redial(dialling.settings.address), now + _LONGEST_PAUSE, _LONGEST_PAUSE // 2))
            return
        self._links += 1
        dialling.link = LinkId(-self._links)  # those that others dial have positive ones
        self._act(Dial(dialling.link, dialling.settings.address))

    def _redial(self, now: int, redial: Redial) -> None:
        dialling = self.diallings.get(redial.address)
        if dialling is not None and dialling.link is None:
            self._dial(now, dialling)

    def hello(self, link: LinkId) -> Hello | None:
        """What to say first on a link that was dialled; None if nobody wants it any more."""
        dialling = self._dialling(link)
        if dialling is None:
            return None
        return Hello(
            name=self.context.name,
            incarnation=Incarnation(self.boot),
            window=self._limits.window,
            role="broker",
            heartbeat=self._limits.heartbeat,
            agent=self._version,
            attempt=self._links,
            address=self._settings.address,
            cost=dialling.settings.cost or 0.0,
        )

    def unreachable(self, now: int, link: LinkId, reason: str) -> None:
        """A link that was dialled is not, or no longer, there."""
        dialling = self._dialling(link)
        if dialling is None:
            return
        dialling.link = None
        self.acquaintance.on_answer(dialling.settings.address)
        self._act(StartTimer(Redial(dialling.settings.address), now + dialling.pause, dialling.pause // 2))
        self._report("debug", "gateway lost", {"address": dialling.settings.address, "reason": reason})
        dialling.pause = min(2 * dialling.pause, _LONGEST_PAUSE, 2 * self._heartbeat)

    def _dialling(self, link: LinkId) -> OutgoingLink | None:
        return next((each for each in self.diallings.values() if each.link == link), None)

    def link_up(self, session: LinkSession, name: str, cost: float, address: str) -> LinkSession | None:
        """A broker is at the other end of a link; returns the guest whom it replaces, if there is one."""
        try:
            path = ScopePath.parse(name)
            level, unit = self.context.view(path)
        except InvalidInput as error:
            raise FrameError(Refusal.PROTOCOL, f"not a broker of this network: {error}") from None
        former = self.peers.get(name)
        known = self.gateways.graph.find(unit) if level == 0 else None
        if known is not None and former is None and address and known.address not in ("", address):
            stands = self.gateways.graph.reaches(unit) and not known.left
            if stands:
                raise FrameError(Refusal.FENCED, f"the context {name} is taken by the broker at {known.address}")
        if former is not None:
            ours = former.session.dialled
            if ours != session.dialled and (self.context.name < name) == ours:
                raise FrameError(Refusal.CLOSING, "we have a link already")
            self._link_down(name)
        dialling = self._dialling(session.connection.link)
        if dialling is not None:
            dialling.pause = FIRST_PAUSE
            dialling.settings = msgspec.structs.replace(dialling.settings, name=name)
            cost = cost or dialling.settings.cost or 0.0
        base = max(1, round(1000 * (cost or self._usual_cost(level))))
        channel = channel_between(self.context.units[level], unit, self._settings.channels)
        hop = session.hop = NextHop(name, level, session.connection.outbox, channel)
        self.peers[name] = NeighbourLink(
            session, hop, dialling.settings.address if dialling is not None else address, base
        )
        self._activate()
        self.gateways.link_up(path, base)
        for each in range(level, self.context.depth):
            self._say(name, self._inventory(each))
        self.access.link_up(name)
        self._report("info", "linked", {"peer": name, "level": level})
        return None if former is None else former.session

    def link_down(self, session: LinkSession, reason: str) -> None:
        """A link to a broker is gone."""
        assert session.hop is not None, "only brokers are neighbours"
        name = session.hop.name
        if self.peers[name].session is session:
            self._link_down(name)
            self._report("info", "link lost", {"peer": name, "reason": reason})

    def _link_down(self, name: str) -> None:
        del self.peers[name]
        self.profiles.forget_neighbour(name)
        self.gateways.link_down(name)
        self.access.link_down(name)

    # ---- changes at run time

    def open(self, now: int, settings: GatewaySettings) -> None:
        """One more link to be opened from here."""
        if settings.address in self.diallings:  # ordered twice before the first was written down
            return
        dialling = self.diallings[settings.address] = OutgoingLink(settings)
        if self.boot:
            self._dial(now, dialling)

    def _dial_shortcut(self, now: int, address: str) -> None:
        self._report("info", "adding a link to shorten paths", {"to": address})
        self.open(now, GatewaySettings(address=address))

    def _hang_up(self, address: str) -> None:
        if address in self.diallings:
            self.remove_outgoing_link(self.diallings[address])

    def remove_outgoing_link(self, dialling: OutgoingLink) -> LinkSession | None:
        """A link is not to be opened any more; returns the guest at its other end."""
        del self.diallings[dialling.settings.address]
        self.acquaintance.on_answer(dialling.settings.address)
        self._act(StopTimer(Redial(dialling.settings.address)))
        peer = self.peers.get(dialling.settings.name)
        return None if peer is None else peer.session

    def set_cost(self, dialling: OutgoingLink, cost: float) -> None:
        dialling.settings = msgspec.structs.replace(dialling.settings, cost=cost)
        name = dialling.settings.name
        if name in self.peers:
            self._reprice(name, cost)
            self._say(name, LinkCost(cost))

    def _reprice(self, name: str, cost: float) -> None:
        peer = self.peers[name]
        peer.base = max(1, round(1000 * cost))
        self.gateways.reprice(name, peer.cost)

    # ---- what neighbours say

    def hear(self, now: int, session: LinkSession, message: Message) -> None:
        assert session.hop is not None, "only brokers speak of the network"
        name = session.hop.name
        match message:
            case Presence():
                self.gateways.hear(now, name, message)
            case ProfileChange():
                self.profiles.hear(name, message)
            case Inventory():
                self._compare(name, message)
            case Digest():
                for scope, number in message.scopes.items():
                    level = self._shared(name, scope)
                    if number != self._digest(level):
                        self._say(name, self._inventory(level))
                self.peers[name].clients = message.clients
                self.access.compare(name, message.access)
            case LinkCost():
                if not 0 < message.cost <= 1_000_000:
                    raise FrameError(Refusal.PROTOCOL, f"a cost of {message.cost:g}")
                self._reprice(name, message.cost)
            case Pong():
                self._returned(now, name, message.token)
            case MarkReceipt():
                self.settlement.hear(message)
            case _:
                self.access.hear(name, message)

    def _inventory(self, level: int) -> Inventory:
        return Inventory(self.context.scopes[level], self.gateways.inventory(level), self.profiles.inventory(level))

    def _compare(self, name: str, inventory: Inventory) -> None:
        level = self._shared(name, inventory.scope)
        self.gateways.compare(name, level, inventory.presences)
        self.profiles.compare(name, level, inventory.profiles)
        ours = self._inventory(level)
        if _behind(ours.presences, inventory.presences) or _behind(ours.profiles, inventory.profiles):
            self._say(name, ours)

    def _shared(self, name: str, scope: str) -> int:
        """The level of a scope that we share with a neighbour."""
        scopes = self.context.scopes
        level = scopes.index(scope) if scope in scopes else -1
        if level < self.gateways.neighbours[name].level:
            raise FrameError(Refusal.PROTOCOL, f"{scope!r} is no scope that we share")
        return level

    def _digest(self, level: int) -> int:
        return self.gateways.digest(level) ^ self.profiles.digest(level)

    # ---- time

    def beat(self, now: int) -> None:
        """Twice a heartbeat: who is silent is suspected; the others are asked how far away they are."""
        digests = {scope: self._digest(level) for level, scope in enumerate(self.context.scopes)}
        clients = self.count_clients()
        for name, peer in list(self.peers.items()):
            silent = now - peer.session.connection.heard
            self.gateways.suspect(name, suspected=silent > self._heartbeat)
            shared = self.context.scopes[peer.hop.level :]
            self._say(name, Digest({scope: digests[scope] for scope in shared}, self.access.digest, clients))
            self._say(name, Ping(now))
        self.gateways.tick(now)
        self.shortcuts.beat(now)
        self.access.beat()
        self.settlement.beat()
        if self.peers:
            self.profiles.flush(counts=True)

    def _returned(self, now: int, name: str, sent: int) -> None:
        """A marker came back."""
        if self.peers[name].measure(max(0, now - sent)):
            self.gateways.reprice(name, self.peers[name].cost)

    # ---- what our clients want

    def on_subscription_change(self, subscription: BrokerSubscription[Outbox], comes: bool) -> None:
        """An interest came or went; a broker without neighbours tells nobody."""
        if comes:
            if self._active and not self._untold:
                self._tell(subscription)
            elif self._active:
                self._untold.append(subscription)
        elif (told := self._told.pop(subscription.number, None)) is not None:
            self.profiles.unsubscribe(*told)

    def _tell(self, subscription: BrokerSubscription[Outbox]) -> None:
        if subscription.number in self._forwarder.table.subscriptions and subscription.number not in self._told:
            self._told[subscription.number] = subscription.pattern, subscription.filter
            self.profiles.subscribe(subscription.pattern, subscription.filter)

    def _activate(self) -> None:
        if not self._active:
            self._active = True
            self._untold.extend(self._forwarder.table.subscriptions.values())

    @property
    def busy(self) -> bool:
        """Whether there are interests that nobody has been told of yet."""
        return bool(self._untold)

    def toil(self) -> None:
        for _ in range(min(_TOLD_AT_ONCE, len(self._untold))):
            self._tell(self._untold.popleft())

    # ---- the end of a step

    def recompute_routes(self) -> None:
        """Bring routes up to date with the graph, and tell what our profile has become."""
        if self._generation != self.gateways.generation:
            self._generation = self.gateways.generation
            self._reroute()
        self.settlement.end_step(is_told=not self._untold)
        if self.peers:
            self.profiles.flush()
        if self.access.is_restless:
            self.access.end_step()

    def _reroute(self) -> None:
        graph, context = self.gateways.graph, self.context
        own, members = [0] * context.depth, [0] * context.depth
        reach: dict[str, Masks] = {}
        nearest = {neighbour.unit: neighbour.name for neighbour in self._by_cost()}
        for level in range(context.depth):
            numbers = dict(self._numbered(level))
            mine = numbers.pop(context.units[level], None)
            own[level] = 0 if mine is None else 1 << mine
            self.profiles.renumber(level, numbers)
            for unit, number in numbers.items():
                first = graph.cache.hop(unit)
                if first is not None and first in nearest:
                    masks = reach.setdefault(nearest[first], {})
                    masks[level] = masks.get(level, 0) | 1 << number
                    members[level] |= 1 << number
        self.relay.reroute(own, members, [(self.peers[name].hop, masks) for name, masks in sorted(reach.items())])
        for level in range(1, context.depth):
            presence = graph.members[level].get(context.units[level])
            speaks = presence is not None and presence.speaker == context.name and self.gateways.speaks(level)
            inside = {each.unit for each in graph.present(level - 1) if graph.reaches(each.unit)}
            self.profiles.sum_up(level, inside if speaks else None)
        for level in range(context.depth):
            for unit, presence in graph.members[level].items():
                if presence.left and unit != context.units[level]:
                    self.profiles.forget(level, unit)

    def _by_cost(self) -> Iterator[Neighbour]:
        """Neighbours that are not suspected, the best last, since it is to be remembered."""
        standing = [each for each in self.gateways.neighbours.values() if not each.suspected]
        return iter(sorted(standing, key=lambda each: (each.cost, each.name), reverse=True))

    def _numbered(self, level: int) -> Iterator[tuple[str, int]]:
        """The members of a level with their numbers; of two with the same the first by name has it."""
        taken: dict[int, str] = {}
        for presence in self.gateways.graph.present(level):
            holder = taken.setdefault(presence.number, presence.unit)
            if holder == presence.unit:
                yield presence.unit, presence.number
            elif presence.unit not in self._clashes:
                self._clashes.add(presence.unit)
                self._report(
                    "error", "member number taken",
                    {"unit": presence.unit, "number": presence.number, "holder": holder},
                )  # fmt: skip

    # ---- for those who ask

    @property
    def traffic(self) -> Traffic:
        relay = self.relay
        return Traffic(
            brokers=len(self.peers),
            unreachable=len(self.gateways.parted),
            relayed=relay.relayed,
            entered=relay.entered,
            matched=relay.matched,
            stranded=relay.stranded,
            circling=relay.circling,
        )

    @property
    def address(self) -> str:
        return self._settings.address

    @property
    def clients_per_broker(self) -> int:
        return self._settings.clients_per_broker

    @property
    def forwarding(self) -> dict[str, str]:
        return self._settings.forwarding

    def neighbour_towards(self, unit: str) -> str:
        """The neighbour to whom events for a unit go; "" if it cannot be reached."""
        first = self.gateways.graph.cache.hop(unit)
        best = [each.name for each in self._by_cost() if each.unit == first]
        return best[-1] if best else ""

    def route(self, topic: str) -> Route[Outbox]:
        """Who wants events of a topic, here and elsewhere, whether or not it was ever defined."""
        return self._forwarder.table.route(TopicEntry(topic))

    def prospect(self, name: str) -> tuple[int, float]:
        """The level of a link that is not there, and what it would cost; zeros if the name tells nothing."""
        try:
            level = self.context.view(ScopePath.parse(name))[0]
        except InvalidInput:
            return 0, 0.0
        return level, self._usual_cost(level)

    def units_behind(self, masks: Masks) -> Iterator[str]:
        for level, mask in sorted(masks.items()):
            for unit, number in self._numbered(level):
                if mask >> number & 1:
                    yield unit

    # ---- small things

    def _usual_cost(self, level: int) -> float:
        costs = self._settings.costs
        return costs[min(level, len(costs) - 1)]

    def _say(self, name: str, message: Message) -> None:
        outbox = self.peers[name].session.connection.outbox
        outbox.post(message)
        self._forwarder.unflushed[outbox] = None

    def _sharing(self, level: int) -> list[str]:
        return [each.name for each in self.gateways.neighbours.values() if each.level <= level]

    def _index(self, wanted: bool, level: int, member: int, pattern: str, where: Filter | None) -> None:
        if not pattern.startswith(MARKS):
            self._forwarder.table.index(wanted, self.context.depth, level, member, pattern, where)
        elif wanted:
            self.settlement.learn(pattern)

    def validate(self) -> None:
        self.gateways.graph.validate()
        self._forwarder.table.validate()

    def _report(self, level: str, what: str, details: dict[str, str | int | float]) -> None:
        self._act(Report(level, what, details))


def _behind(ours: dict[str, tuple[int, str]], theirs: dict[str, tuple[int, str]]) -> bool:
    return any(stamp > ours.get(unit, (0, "")) for unit, stamp in theirs.items())
