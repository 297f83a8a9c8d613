"""The network around a broker: gateway propagation, profile propagation and event routing, composed."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from stentor.machine import SECOND, Step, Timer
from stentor.model.colours.wave_messages import WaveMessage
from stentor.model.errors import FrameError, InvalidInput, Refusal
from stentor.model.ids import Incarnation, LinkId
from stentor.model.limits import Limits
from stentor.model.messages import (
    Digest,
    Hello,
    Inventory,
    LinkCost,
    LinkReturned,
    MarkReceipt,
    Message,
    Pong,
    Presence,
    ProfileChange,
)
from stentor.model.reports.status import Traffic
from stentor.model.scope import ScopePath
from stentor.nodes.broker.link_session import LinkSession
from stentor.nodes.network.acquaintance import NeighboursTimeout
from stentor.nodes.network.anti_entropy import AntiEntropy
from stentor.nodes.network.colouring import Colouring
from stentor.nodes.network.link_cost import LARGEST_COST, MeasuredCost, TreeLinkCost, thousandths
from stentor.nodes.network.neighbour_link import NeighbourLink
from stentor.nodes.network.outgoing_links import OutgoingLink, OutgoingLinks, Redial
from stentor.nodes.network.owner import NetworkOwner
from stentor.nodes.network.plans.plan_links import PlanLinks
from stentor.nodes.network.plans.returning_links import ReturningLinks
from stentor.nodes.network.profile_feed import ProfileFeed
from stentor.nodes.network.route_computation import RouteComputation
from stentor.nodes.network.settings import GatewaySettings as GatewaySettings
from stentor.nodes.network.settings import NetworkSettings as NetworkSettings
from stentor.nodes.network.shortcuts import Shortcuts
from stentor.policies.scope_policies import ScopePolicies
from stentor.protocols.colours.scope_colours import WaveDue
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.access.spread import AccessSpread
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.mask_plans import NextHop
from stentor.protocols.dissemination.profiles import Profiles
from stentor.protocols.dissemination.relay import Relay
from stentor.protocols.dissemination.routes import Route, TopicEntry
from stentor.protocols.dissemination.settlement import Settlement, SettlementDue
from stentor.protocols.neighbours import Neighbours
from stentor.protocols.overlay.exits import ExitChoices
from stentor.protocols.overlay.gateways import Gateways

_COST_MAX = 1_000_000  # as much as operators may say
_PATIENCES = 4  # of a wave: one to be asked for, two of a root that was crowned just now, one for the plan itself


class BrokerNetwork:
    """What a broker has to do with other brokers."""

    def __init__(
        self,
        path: ScopePath,
        settings: NetworkSettings,
        limits: Limits,
        policies: ScopePolicies,
        forwarder: Forwarder[Outbox],
        step: Step,
        owner: NetworkOwner,
        version: str = "",
    ) -> None:
        self.settings = settings
        self.policies = policies
        self._limits = limits
        self._forwarder = forwarder
        self._step = step
        self._version = version
        self._heartbeat_ns = int(limits.heartbeat * SECOND)
        self._boot = 0
        self.peers: dict[str, NeighbourLink] = {}
        self.links_repaired = 0  # how often something was wrong of what is remembered of links
        self._in_doubt = 0  # events that were sent over links that were lost, and may not have arrived
        self._strays: list[tuple[int, bytes, int]] = []  # parcels that waited on links of a level, lost in this step
        self._neighbours = neighbours = Neighbours()  # Invariant: just those who are in `peers`.
        numbers = settings.numbers or (0,) * len(path.parts)
        self.gateways = Gateways(path, numbers, settings.address, self._heartbeat_ns, neighbours, step)
        self.context = context = self.gateways.context
        self.profiles = Profiles(context, neighbours, forwarder.table, self.gateways.owners)
        self.feed = ProfileFeed(self.profiles, forwarder.table, is_active=bool(settings.gateways))
        self.relay: Relay[Outbox] = Relay(context, forwarder)
        self.access = AccessSpread(context.name, neighbours, step, owner.on_charter_change)
        self.outgoing = OutgoingLinks(settings.gateways, self._heartbeat_ns, neighbours, step)
        self.shortcuts = Shortcuts(self.gateways, settings.path_length, self.outgoing, step)
        self._anti_entropy = AntiEntropy(neighbours, self.gateways, self.profiles)
        self.returning = ReturningLinks(self.gateways, neighbours, self._plan_wait_ns, step)
        choices = ExitChoices()
        self.colouring = Colouring(
            settings.colours,
            self.gateways,
            choices,
            self.profiles,
            self.feed,
            forwarder.table.interests,
            self.relay,
            self._anti_entropy,
            neighbours,
            settings.address,
            self.outgoing.open_for_tree,
            self._plan_links(owner),
            policies,
            step,
        )
        self.routes = RouteComputation(
            self.gateways,
            self.profiles,
            self.relay,
            forwarder.table.interests,
            self.peers,
            self.colouring,
            choices,
            step,
        )
        self.settlement = Settlement(
            context, self.profiles, neighbours, self.routes.way_towards, self._holds_events, step
        )
        self.timers = self._timers_by_kind()

    def _timers_by_kind(self) -> dict[type[Timer], Callable[[Any], None]]:
        return {
            Redial: self.outgoing.on_redial,
            NeighboursTimeout: lambda _: self.outgoing.acquaintance.expire(),
            SettlementDue: lambda _: self.settlement.expire(),
            WaveDue: self.colouring.on_due,
        }

    def _plan_links(self, owner: NetworkOwner) -> PlanLinks:
        """Return what plans may do to our links."""
        return PlanLinks(
            self.context.name,
            self.outgoing,
            self.peers,
            self._neighbours,
            self.prospect,
            self.set_cost,
            self._set_base_cost,
            self.gateways.reprice,
            self.returning,
            owner,
        )

    def begin(self, boot: int) -> None:
        self._boot = boot
        self.profiles.boot = boot
        self.settlement.boot = boot
        self.gateways.begin(boot)
        self.access.begin(boot)
        self.outgoing.begin()

    # ---- links

    def hello(self, link: LinkId) -> Hello | None:
        """Return what to say first on a link that was dialled; None if nobody wants it any more."""
        outgoing = self.outgoing.find(link)
        if outgoing is None:
            return None
        return Hello(
            name=self.context.name,
            incarnation=Incarnation(self._boot),
            window=self._limits.window,
            role="broker",
            heartbeat=self._limits.heartbeat,
            agent=self._version,
            attempt=-link,
            address=self.settings.address,
            cost=outgoing.settings.cost or 0.0,
        )

    def link_up(self, session: LinkSession, name: str, cost: float, address: str) -> LinkSession | None:
        """A broker is at the other end of a link. Return the session that it replaces, if there is one."""
        try:
            path = ScopePath.parse(name)
            level, unit = self.context.view(path)
        except InvalidInput as error:
            raise FrameError(Refusal.PROTOCOL, f"not a broker of this network: {error}") from None
        former = self.peers.get(name)
        if former is None:
            self._check_that_name_is_free(name, level, unit, address)
        else:
            self._check_that_link_is_better(session, former, name)
            self._lose(former, name)
        outgoing = self.outgoing.find(session.connection.link)
        if outgoing is not None:
            self.outgoing.on_welcome(outgoing, name)
            address = outgoing.settings.address
            cost = cost or outgoing.settings.cost or 0.0
        price = self._price(name, level, cost or self._usual_cost(level))
        outbox = session.connection.outbox
        hop = NextHop(name, level, outbox, self.policies.channel(self.context.units[level], unit))
        outbox.on_drop = hop.take_back
        session.join_network(hop)
        self.peers[name] = NeighbourLink(session, hop, address, price)
        self.feed.activate()
        is_return = self.returning.is_return(name, unit)
        self.gateways.link_up(path, price.now, outbox, hidden=is_return)
        if is_return:
            self.returning.hide(name)
        self._anti_entropy.send_inventories(name)
        self.access.link_up(name)
        self.colouring.link_up(name)
        self._step.report("info", "linked", peer=name, level=level)
        return None if former is None else former.session

    def _check_that_name_is_free(self, name: str, level: int, unit: str, address: str) -> None:
        """Raise FrameError if another broker of our cluster, which we can reach, has this name."""
        known = self.gateways.graph.find(unit) if level == 0 else None
        if known is None or known.left or not address or known.address in ("", address):
            return
        if self.gateways.graph.reaches(unit):
            raise FrameError(Refusal.FENCED, f"the context {name} is taken by the broker at {known.address}")

    def _check_that_link_is_better(self, session: LinkSession, former: NeighbourLink, name: str) -> None:
        """Raise FrameError if both ends have dialled each other, and the former link is the one that stays."""
        ours = former.session.dialled
        if ours != session.dialled and (self.context.name < name) == ours:
            raise FrameError(Refusal.CLOSING, "we have a link already")

    def link_down(self, session: LinkSession, reason: str) -> None:
        """A link to a broker is gone."""
        assert session.hop is not None, "only brokers are neighbours"
        name = session.hop.name
        waiting = session.connection.outbox.take_waiting()
        self._strays += [(session.hop.level, data, count) for data, count in waiting]
        peer = self.peers.get(name)
        if peer is not None and peer.session is session:
            self._lose(peer, name)
            self._step.report("info", "link lost", peer=name, reason=reason, **{"in doubt": peer.in_doubt})

    def _lose(self, peer: NeighbourLink, name: str) -> None:
        """The link to a neighbour is gone, or another one has taken its place."""
        if self.colouring.removes(name):  # what was under way has been counted at both ends
            peer.confirm_all()
        self._in_doubt += peer.in_doubt
        self.returning.on_loss(name)
        level, _ = self.context.view(ScopePath.parse(name))
        del self.peers[name]
        self.profiles.forget_neighbour(name)
        self.gateways.link_down(name)
        self.colouring.link_down(name, level)
        self.access.link_down(name)

    def knows(self, session: LinkSession) -> bool:
        """Return whether a session is that of the neighbour it is said to be, and its link costs what we were told."""
        name = "" if session.hop is None else session.hop.name
        peer, neighbour = self.peers.get(name), self._neighbours.get(name)
        if peer is None or neighbour is None:
            return False
        is_theirs = neighbour.name == name and neighbour.port is session.connection.outbox
        return peer.session is session and peer.cost.is_intact and is_theirs

    def drop_ghosts(self, links: Mapping[LinkId, LinkSession]) -> int:
        """Forget neighbours to whom there is no such link; return how many there were."""

        def is_there(session: LinkSession, name: str) -> bool:
            is_open = links.get(session.connection.link) is session
            return is_open and session.hop is not None and session.hop.name == name

        ghosts = [name for name, peer in self.peers.items() if not is_there(peer.session, name)]
        for name in ghosts:
            self._lose(self.peers[name], name)
        strangers = [name for name in self._neighbours if name not in self.peers]
        for name in strangers:
            self.gateways.link_down(name)
        return len(ghosts) + len(strangers)

    # ---- what links cost

    def _price(self, name: str, level: int, cost: float) -> MeasuredCost:
        """Return what a link to a neighbour costs that has just come up."""
        if not self.policies.goes_by_tree(self.context.scopes[level]):
            return MeasuredCost(thousandths(cost))
        return TreeLinkCost(thousandths(cost), partial(self.colouring.scopes[level].tree.has_edge, name))

    def set_cost(self, outgoing: OutgoingLink, cost: float) -> None:
        """An operator says what a link costs that is opened here."""
        self.outgoing.change(outgoing, msgspec.structs.replace(outgoing.settings, cost=cost))
        name = outgoing.settings.name
        if name in self.peers:
            self._set_base_cost(name, cost)
            self._neighbours.say(name, LinkCost(cost))

    def _set_base_cost(self, name: str, cost: float) -> None:
        self.gateways.reprice(name, self.peers[name].cost.set_base(thousandths(cost)))

    def _on_round_trip(self, name: str, sent_at: int) -> None:
        """A link may cost something else now: that is for the next plan, because another way moves events."""
        self.peers[name].measure(max(0, self._step.now - sent_at))

    def _holds_events(self) -> bool:
        """Return whether events may be on their way by a topology of which a plan has not made an end."""
        return bool(self.relay.held.waiting) or any(each.announced.switched for each in self.colouring.scopes)

    def _plan_wait_ns(self, level: int) -> int:
        """Return how long a plan of the scope of a level may take to bring a link that is there again."""
        return int(_PATIENCES * self.colouring.scopes[level].timing.patience * SECOND)

    def _usual_cost(self, level: int) -> float:
        costs = self.settings.costs
        return costs[min(level, len(costs) - 1)]

    # ---- what neighbours say

    def hear(self, session: LinkSession, message: Message) -> None:
        assert session.hop is not None, "only brokers speak of the network"
        name = session.hop.name
        match message:
            case Presence():
                self.gateways.hear(name, message)
            case ProfileChange():
                self.profiles.hear(name, message)
            case Inventory():
                self._anti_entropy.on_inventory(name, message)
            case Digest():
                self._anti_entropy.on_digests(name, message.scopes)
                self.peers[name].clients = message.clients
                self.access.compare(name, message.access)
            case LinkCost():
                if not 0 < message.cost <= _COST_MAX:
                    raise FrameError(Refusal.PROTOCOL, f"a cost of {message.cost:g}")
                self._set_base_cost(name, message.cost)
            case LinkReturned():
                self.returning.on_returned(name)
            case Pong():
                self.peers[name].on_pong(message.token)
                self._on_round_trip(name, message.token)
            case MarkReceipt():
                self.settlement.hear(message)
            case message if isinstance(message, WaveMessage):
                self.colouring.hear(name, message)
            case _:
                if self.access.hear(name, message):
                    self.outgoing.on_compared(name)

    # ---- time, and the end of a step

    def beat(self, clients: int) -> None:
        """Twice a heartbeat: who is silent is suspected; the others are asked how far away they are. `clients` is how
        many this broker serves.
        """
        now, digests = self._step.now, self._anti_entropy.digests()
        for name, peer in list(self.peers.items()):
            silent = now - peer.session.connection.heard
            self.gateways.suspect(name, suspected=silent > self._heartbeat_ns)
            if not 0 < self._neighbours[name].cost <= LARGEST_COST:
                self.gateways.reprice(name, peer.cost.now)  # damage: any other cost is mended by a plan
            shared = self.context.scopes[peer.hop.level :]
            self._neighbours.say(name, Digest({scope: digests[scope] for scope in shared}, self.access.digest, clients))
            self._neighbours.say(name, peer.ping(now))
        self.gateways.tick()
        self.returning.beat()
        self.colouring.beat()
        self.shortcuts.beat()
        self.access.beat()
        self.settlement.beat()
        self.routes.drop_lost()
        self._forwarder.check_schemas()
        if self.peers:
            self.profiles.flush(counts=True)

    def end_step(self) -> None:
        """Bring routes up to date with the graph, and tell what our profile has become."""
        self.returning.look()
        self.colouring.end_step()
        self.routes.update()
        if self._strays:
            strays, self._strays = self._strays, []
            self.relay.reroute(strays)
        self.settlement.end_step(is_told=not self.feed.is_waiting)
        if self.peers:
            self.profiles.flush()
        if self.access.is_restless:
            self.access.end_step()

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
            rerouted=relay.rerouted,
            held=relay.held.held,
            waiting=relay.held.waiting,
            overflowed=relay.held.dropped,
            circling=relay.circling,
            foreign=relay.foreign,
            in_doubt=self._in_doubt,
        )

    @property
    def address(self) -> str:
        return self.settings.address

    def route(self, topic: str) -> Route[Outbox]:
        """Return who wants events of a topic, here and elsewhere, whether or not it was ever defined."""
        return self._forwarder.table.route(TopicEntry(topic))

    def prospect(self, name: str) -> tuple[int, float]:
        """Return the level of a link that is not there, and what it would cost; zeros if the name tells nothing."""
        try:
            level = self.context.view(ScopePath.parse(name))[0]
        except InvalidInput:
            return 0, 0.0
        return level, self._usual_cost(level)

    def validate(self) -> None:
        assert self.peers.keys() == self._neighbours.keys(), "a neighbour without a link, or a link without one"
        self.gateways.graph.validate()
        self.colouring.validate()
        self.relay.held.validate()
        self._forwarder.table.validate()
        self.routes.validate()
