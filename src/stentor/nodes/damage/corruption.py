"""Corruption: what a broker knows of the network is scrambled on purpose. The network must heal itself of it.

A variable gets any value of its type: what a cosmic ray, a bad memory module or a wild pointer would leave there. Code,
configuration and what is on the disk stay as they are. Who draws is the caller's business: machines know no randomness.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from stentor.model.colours.memory_part import MemoryPart
from stentor.model.colours.plan import PlanPhase, PlanStage, TopologyPlan
from stentor.model.ids import SubscriptionId
from stentor.model.messages import Gateway, Presence
from stentor.model.ranges import LAST_VERSION
from stentor.nodes.damage.damaged_indexes import DamagedIndexes
from stentor.nodes.damage.draw import Draw
from stentor.nodes.network.network import BrokerNetwork
from stentor.nodes.network.plans.plan_work import ScopePlanWork
from stentor.protocols.colours.planning import Planning
from stentor.protocols.colours.scope_colours import ScopeColours
from stentor.protocols.colours.scope_tree import Claim, Pointers, TreeRole
from stentor.protocols.connection.connection import Connection
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.profiles import MemberProfile
from stentor.protocols.dissemination.subscriptions import SubscriptionList

_FAR_NS = 1 << 62  # nanoseconds: nobody lives to see it
_MOST_BYTES = 1 << 61  # so that a heartbeat that tells of them can still be written


class Corruption:
    """Scrambles what one broker remembers."""

    def __init__(
        self,
        network: BrokerNetwork,
        lists: Collection[SubscriptionList[Outbox]],
        draw: Draw,
        links: Callable[[], None] = lambda: None,
    ) -> None:
        """`lists` are those of its clients: what each of them asked for. `links` damages what it knows of its links."""
        self._network = network
        self._lists = lists
        self._draw = draw
        self._acts: Mapping[MemoryPart, Callable[[], None]] = {
            MemoryPart.ROUNDS: lambda: self._each_scope(self._damage_round),
            MemoryPart.POINTERS: lambda: self._each_scope(self._damage_pointers),
            MemoryPart.MEMBERS: self._damage_members,
            MemoryPart.ROUTES: self._damage_routes,
            MemoryPart.PROFILES: self._damage_profiles,
            MemoryPart.SUBSCRIPTIONS: self._damage_subscriptions,
            MemoryPart.INDEXES: DamagedIndexes(network._forwarder, draw).scramble,
            MemoryPart.PLANS: self._damage_plans,
            MemoryPart.QUEUES: lambda: self._each_link(self._damage_queue),
            MemoryPart.CREDIT: lambda: self._each_link(self._damage_credit),
            MemoryPart.LINKS: links,
            MemoryPart.TIMERS: self._damage_timers,
        }

    def scramble(self, parts: Iterable[MemoryPart]) -> None:
        for part in parts:
            self._acts[part]()

    def _each_scope(self, damage: Callable[[ScopeColours], None]) -> None:
        for colours in self._network.colouring.scopes:
            damage(colours)

    def _each_link(self, damage: Callable[[Connection], None]) -> None:
        for peer in self._network.peers.values():
            damage(peer.session.connection)

    def _often(self) -> bool:
        return self._draw.random() < 0.5

    def _any_name(self) -> str:
        """Return a neighbour, a member, ourselves, nobody or a stranger."""
        network = self._network
        known = [unit for level in network.gateways.graph.members for unit in level]
        return self._draw.choice([*network.peers, *sorted(known), network.context.name, "", "nobody/at/all"])

    # ---- trees

    def _damage_round(self, colours: ScopeColours) -> None:
        draw, tree, wave = self._draw, colours.tree, colours.wave
        tree.round = draw.choice((0, 1, 2, tree.round + 1, draw.randrange(1 << 32), -5, 1 << 80))
        tree.depth = draw.choice((0, 1, tree.height, tree.height + 1, -1, 1 << 40))
        tree.claim = Claim(draw.randrange(4), self._any_name())
        wave.brokers = draw.randrange(1 << 20)
        wave._alive = {self._any_name() for _ in range(draw.randrange(3))}
        wave._digest = draw.randrange(1 << 64)
        wave._compared = tree.round

    def _damage_pointers(self, colours: ScopeColours) -> None:
        draw, tree = self._draw, colours.tree
        tree.role = draw.choice(tuple(TreeRole))
        tree.pointers = [
            Pointers(self._any_name(), tuple(self._any_name() for _ in range(draw.randrange(5)))) for _ in range(3)
        ]

    def _damage_times(self, colours: ScopeColours) -> None:
        draw, wave = self._draw, colours.wave
        wave.heard_at = draw.choice((0, -_FAR_NS, _FAR_NS))
        wave.deadline_at = draw.choice((0, -_FAR_NS, _FAR_NS))
        colours._orphaned_at = draw.choice((0, -_FAR_NS, _FAR_NS))
        colours._armed_at = draw.choice((0, -_FAR_NS, _FAR_NS))
        colours.rejoining._asked_at = draw.choice((0, -_FAR_NS, _FAR_NS))
        colours.rejoining._asked = self._any_name()

    def _damage_timers(self) -> None:
        self._each_scope(self._damage_times)
        self._each_link(self._damage_heartbeats)

    # ---- plans

    def _damage_plans(self) -> None:
        for colours, work in zip(self._network.colouring.scopes, self._network.colouring._work, strict=True):
            self._damage_announced(colours, work)
            self._damage_planning(colours.planning)
            colours._poll._waiting.add(self._any_name())
            colours._poll.deadline_at = self._draw.choice((0, -_FAR_NS, _FAR_NS))
            colours.wave.rounds_as_root = self._draw.choice((0, -_FAR_NS, 5))
        self._damage_held()

    def _damage_announced(self, colours: ScopeColours, work: ScopePlanWork) -> None:
        draw, announced = self._draw, colours.announced
        ghost = TopologyPlan(1 + draw.randrange(1 << 60), ())
        announced.plan = draw.choice((announced.plan, announced.plan, None, ghost))
        announced.stage = draw.choice(tuple(PlanStage))
        announced._switched_in = draw.choice((-1, colours.tree.round, draw.randrange(1 << 32)))
        work.generation = draw.randrange(1 << 32)
        work.topology = draw.choice((work.topology, None))
        for topology in work.finished:
            topology._rounds = draw.choice((0, 1, -_FAR_NS, _FAR_NS))

    def _damage_planning(self, planning: Planning) -> None:
        draw, running = self._draw, planning._running
        planning._turn = draw.choice((0, -1, 1 << 40))
        if running is not None and self._often():
            running.phase = draw.choice(tuple(PlanPhase))
            running.pause_ns = draw.choice((0, -_FAR_NS, _FAR_NS))
            running.began_at = draw.choice((0, -_FAR_NS, _FAR_NS))
            running.phase_at = draw.choice((0, -_FAR_NS, _FAR_NS))
            running.next_at = draw.choice((0, -_FAR_NS, _FAR_NS))
        elif self._often():
            planning._running = None
            planning._waiting.clear()

    def _damage_held(self) -> None:
        draw, held = self._draw, self._network.relay.held
        runs = list(held._runs)
        held._runs.clear()
        for run in runs:
            held._runs.extend([run] * draw.choice((0, 1, 1, 2)))
        held.size = draw.choice((held.size, 0, -1, draw.randrange(_MOST_BYTES)))
        held.by_level = tuple(
            {each: draw.randrange(1 << 64) for each in range(level)} if self._often() else {}
            for level in range(len(held.by_level))
        )

    # ---- links

    def _damaged_count(self, count: int) -> int:
        """Return any number of bytes; often it is the right one, so that some counters of a link stay sound."""
        draw = self._draw
        return draw.choice((count, count, 0, count + 1, count + draw.randrange(1 << 20), draw.randrange(_MOST_BYTES)))

    def _damage_queue(self, connection: Connection) -> None:
        draw, outbox = self._draw, connection.outbox
        waiting = list(outbox._waiting)
        outbox._waiting.clear()
        for run in waiting:  # some vanish, some are there twice
            outbox._waiting.extend([run] * draw.choice((0, 1, 1, 2)))
        outbox.queued = draw.choice((outbox.queued, 0, -1, draw.randrange(_MOST_BYTES)))
        outbox.position = self._damaged_count(outbox.position)
        connection.received = self._damaged_count(connection.received)

    def _damage_credit(self, connection: Connection) -> None:
        outbox = connection.outbox
        outbox.sent = self._damaged_count(outbox.sent)
        outbox.limit = self._damaged_count(outbox.limit)
        connection.taken = self._damaged_count(connection.taken)
        connection._granted = self._damaged_count(connection._granted)

    def _damage_heartbeats(self, connection: Connection) -> None:
        connection.heard = self._draw.choice((connection.heard, 0, -_FAR_NS, _FAR_NS))
        connection._beaten = self._draw.choice((connection._beaten, 0, -_FAR_NS, _FAR_NS))

    # ---- members

    def _damage_members(self) -> None:
        graph, draw = self._network.gateways.graph, self._draw
        for members in graph.members:
            for unit in list(members):
                if self._often():
                    members[unit] = self._damaged_presence(members[unit])
                elif draw.random() < 0.3:
                    del members[unit]
        for colours in self._network.colouring.scopes:
            for unit, row in list(colours.lease.rows.items()):
                if self._often():
                    colours.lease.rows[unit] = msgspec.structs.replace(
                        row, presence=draw.randrange(1 << 64), profile_version=draw.randrange(LAST_VERSION)
                    )

    def _damaged_presence(self, presence: Presence) -> Presence:
        draw = self._draw
        return msgspec.structs.replace(
            presence,
            version=draw.choice((1, presence.version, presence.version + 1, LAST_VERSION, draw.randrange(1 << 62))),
            number=draw.choice((presence.number, draw.randrange(64))),
            speaker=draw.choice((presence.speaker, self._any_name())),
            left=draw.random() < 0.2,
            gateways=tuple(
                Gateway(each.unit, draw.choice((each.link, draw.randrange(1 << 64))), 1 + draw.randrange(10_000))
                for each in presence.gateways
                if draw.random() < 0.7
            ),
        )

    def _damage_routes(self) -> None:
        self._damage_ways()
        self._damage_flows()

    def _damage_flows(self) -> None:
        """Send events of topics and flows where those of others go."""
        table, draw = self._network._forwarder.table, self._draw
        routes = [state.route for state in table.topics.values() if state.route is not None]
        for state in table.topics.values() if routes else ():
            if self._often():
                state.route = draw.choice(routes)
            if self._often():
                state.remembered = {}
        for flows in table._tables.values():
            for flow in flows.routes if routes else ():
                if self._often():
                    flows.routes[flow] = draw.choice(routes)
        if draw.random() < 0.3:
            table._tables.clear()

    def _damage_ways(self) -> None:
        graph, draw = self._network.gateways.graph, self._draw
        hops = graph.cache._hops
        for unit in list(hops):
            if self._often():
                hops[unit] = draw.choice(sorted(hops))
        kept = self._network.routes._choices._kept
        for key in kept if hops else ():
            if self._often():
                kept[key] = draw.choice(sorted(hops))
        relay = self._network.relay
        for state in relay.states:
            scrambled = dict.fromkeys(state.next_hops, 0)
            for number in state.numbers.values():
                if scrambled:
                    scrambled[draw.choice(sorted(scrambled))] |= 1 << number
            relay._plans.states = tuple(
                msgspec.structs.replace(each, next_hops=scrambled) if each is state else each for each in relay.states
            )

    # ---- profiles

    def _damage_profiles(self) -> None:
        profiles, draw = self._network.profiles, self._draw
        for members in profiles.members:
            for profile in members.values():
                if self._often():
                    self._damage_profile(profile)
        self._damage_summary()
        for level, numbers in enumerate(profiles._numbers):
            if draw.random() < 0.3:
                profiles._numbers[level] = {unit: draw.randrange(64) for unit in numbers}

    def _damage_summary(self) -> None:
        """Forget, and make up, what our own clients want."""
        summary, told = self._network.profiles._clients, self._network.feed._told
        for want, entry in list(summary._entries.items()):
            match self._draw.randrange(6):
                case 0:
                    del summary._entries[want]
                case 1:
                    summary._told.pop(want, None)
                case 2:
                    entry.count = 1 + self._draw.randrange(5)
                case 3:
                    summary._told["ghost/#", ""] = None
        for number in list(told):
            if self._draw.random() < 0.2:
                del told[number]

    def _damage_profile(self, profile: MemberProfile) -> None:
        draw = self._draw
        match draw.randrange(5):
            case 0:
                profile.wants = dict(list(profile.wants.items())[1:])
            case 1:
                profile.wants[("ghost/#", "")] = None
            case 2:
                profile.stamp = (draw.choice((0, LAST_VERSION, draw.randrange(LAST_VERSION))), self._any_name())
            case 3:
                profile.number = draw.choice((None, draw.randrange(64)))
            case _:
                profile.digest = draw.randrange(1 << 64)
                profile.predicates = draw.randrange(1 << 30)

    # ---- clients

    def _damage_subscriptions(self) -> None:
        draw = self._draw
        for subscriptions in self._lists:
            for number, subscription in list(subscriptions.items()):
                match draw.randrange(5):
                    case 0:
                        del subscriptions[number]
                    case 1:
                        subscriptions[number] = msgspec.structs.replace(
                            subscription, number=draw.randrange(1 << 62), pattern=draw.choice(("#", "ghost/#"))
                        )
                    case 2:
                        subscriptions[SubscriptionId(draw.randrange(1 << 62))] = subscription
                    case 3:
                        subscriptions.digest = draw.randrange(1 << 64)
