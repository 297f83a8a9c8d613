"""A network that is rebuilt while it runs: plans add, remove and reprice links under load, and no event is lost.

Real brokers in one to four levels, with clients that publish all the time; no faults. Links have different and changing
delays, so that what is sent by a new way would overtake what is under way by the former one. Whoever subscribes gets
all events, once and in order; plans end, and the network is then what they say. In scopes whose events go by their tree
they do so in the end, whatever plans have made of it.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random

from stentor.machine import MILLISECOND, SECOND, Input
from stentor.model.colours.colour import LAST_ROUND
from stentor.model.colours.plan import ENDED, PlanPhase, TopologyChange, TopologyPlan
from stentor.model.colours.wave_timing import ColourSettings
from stentor.model.ids import Incarnation
from stentor.model.limits import Limits
from stentor.model.scope import ScopePath
from stentor.nodes.broker.broker import Broker
from stentor.nodes.client import Settings
from stentor.nodes.network.network import GatewaySettings, NetworkSettings
from stentor.protocols.colours.scope_colours import ScopeColours
from stentor.protocols.colours.scope_tree import TreeRole
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.relay import Relay
from stentor.simulation.checkers.colour_checker import check_meanings
from stentor.simulation.checkers.delivery_oracle import DeliveryOracle, summary
from stentor.simulation.checkers.recording_relay import RecordingRelay
from stentor.simulation.checkers.tree_forwarding import detours, draw_forwarding
from stentor.simulation.clients.application import SimApplication
from stentor.simulation.faults import Faults, LinkFaults
from stentor.simulation.host import Factory
from stentor.simulation.outcome import Anomaly, Outcome
from stentor.simulation.overlay.topology import Topology
from stentor.simulation.scenario import Scenario
from stentor.simulation.world import World

_DELAY_MAX = 0.05  # seconds at least, of a wave from a parent to its child: links are slower only by chance
_SETTLED = 6 * SECOND  # when all scopes have a root, and everybody knows what everybody wants
_GROWN = 60 * SECOND  # by when every scope has one root
_PLANNED_WITHIN = 20 * SECOND
_REST = 2 * SECOND  # from when on applications do nothing by themselves
_PAUSES = (MILLISECOND, 15 * MILLISECOND)  # between two events of a publisher
_GLANCE = 10 * MILLISECOND  # a wave takes longer to pass a scope
_CLOSED = SECOND // 2  # after a plan: links that it removed are closed at both ends
_TOLD = 10 * SECOND  # and if one end has lost the word that the plan is over, the next wave has told it
_END = 2 * SECOND  # after the last plan: all is delivered
_WINDOW = 1 << 20
_PORT = 7070
_COSTS = (300, 1000, 1000, 2000, 7000)  # thousandths
_LIMITS = Limits(largest_body=64 << 10, window=_WINDOW, queue=4 << 20, heartbeat=1.0, hello_within=2.0, flows=64)


class PlanDrawn(Input, frozen=True, tag="plan drawn"):
    """An operator wants a scope changed, and asks the broker that is its root."""

    scope: str
    plan: TopologyPlan


class LoadedNetwork:
    """The world with its players: real brokers in several levels, and clients that publish all the time."""

    depths: Sequence[int] = (1, 1, 2, 2, 3, 4)  # levels, of which one is drawn
    pauses = _PAUSES  # nanoseconds between two events of a publisher
    _with_exits: Sequence[str] = ()  # units of which several exits cost the same

    def __init__(self, seed: int, keep_trace: bool, name: str = "plans") -> None:
        """`name` is the scenario's: each has its own draws."""
        self.random = random = Random(f"{seed}/{name}")
        weather = LinkFaults(mean_delay=random.choice((MILLISECOND, 20 * MILLISECOND, 60 * MILLISECOND)))
        self.world = world = World(seed, Faults(weather=weather), keep_trace=keep_trace)
        self.oracle = DeliveryOracle(world.anomalies)
        self.topology = Topology(random, random.choice(self.depths), _draw_size(random))
        self._add_exits(seed)
        self.forwarding = draw_forwarding(seed, self.topology.scopes())
        # with ports, as orders have them: a start that finds a link to something else in its log does not open it
        self.addresses = {name: f"at-{name.replace('/', '_')}:{_PORT}" for name in self.topology.brokers}
        self.links = {frozenset((near, far)): near for near, far, _ in self.topology.links}  # and who dials them
        self.applications: list[SimApplication] = []
        self.homes: dict[str, str] = {}  # by client the broker that serves it
        self.counts: Counter[str] = Counter()
        self._incarnations: Counter[str] = Counter()
        for broker in self.topology.brokers:
            world.add(self.addresses[broker], self._broker(broker))
        for number in range(random.randint(2, 5)):
            self._add_client(f"c{number}", random)
        self._moves = Random(f"{seed}/moves")  # of its own, so that it changes nothing of other draws
        has_mover = name == "plans" and len(self.addresses) > 1 and self._moves.random() < 0.5
        self._mover = self._add_client("mover", self._moves) if has_mover else None
        for address in self.addresses.values():
            world.restart(world.hosts[address], random.randrange(SECOND // 10))
        for application in self.applications:
            world.restart(world.hosts[application.host], SECOND)

    def _add_exits(self, seed: int) -> None:
        """Let several exits of one unit cost the same, if the network has units; slow ones until they are measured."""
        if self.topology.depth > 1:
            self._with_exits = [self.topology.add_exits(Random(f"{seed}/exits"))]  # changes nothing of other seeds

    def _broker(self, name: str) -> Factory:
        links = [(far, cost) for near, far, cost in self.topology.links if near == name]
        settings = NetworkSettings(
            numbers=self.topology.brokers[name],
            address=self.addresses[name],
            gateways=tuple(GatewaySettings(address=self.addresses[far], cost=cost or 1.0) for far, cost in links),
            forwarding=self.forwarding,
            colours={scope: self._colours_of(scope) for scope in self.topology.scopes()},
        )

        def build() -> Broker:
            broker = Broker(ScopePath.parse(name), _LIMITS, network=settings)
            self.prepare(broker)
            RecordingRelay.watch(broker.network.relay, self.world.anomalies)
            return broker

        return build

    def prepare(self, broker: Broker) -> None:
        """Let a broker that has just been started take orders."""
        broker._inputs[PlanDrawn] = lambda drawn: self._order(broker, drawn)

    def _colours_of(self, scope: str) -> ColourSettings:
        mean = self.world.faults.weather.mean_delay / SECOND
        return ColourSettings(delay_max=max(_DELAY_MAX, 2 * mean), brokers_max=max(2, len(self.topology.inside(scope))))

    def _add_client(self, name: str, random: Random) -> SimApplication:
        home = self.homes[name] = random.choice(list(self.addresses))
        settings = Settings(
            name=name,
            addresses=(self.addresses[home],),
            incarnation=Incarnation(0),
            window=_WINDOW,
            buffer=2 * _WINDOW,
            heartbeat=1.0,
        )

        def new_incarnation() -> int:
            self._incarnations[name] += 1
            return self._incarnations[name]

        application = SimApplication(self.world, name, settings, self.oracle, new_incarnation, _REST)
        self.applications.append(application)
        self.world.add(name, application.factory, application)
        return application

    # ---- from the beginning to the end

    def run(self) -> None:
        world = self.world
        start = self.start_load()
        lost = self._losses()
        for _ in range(self.random.choice((1, 2, 4))):
            world.run(world.now + self.random.randrange(SECOND // 2))
            self._move()
            self._carry_out()
        self.end_load()
        self.check_deliveries(start)
        self._check_trees()
        self.counts.update(self._losses())
        for what, count in (self._losses() - lost).items():
            self.anomaly("counted", f"{count} events were counted as {what}")
        for application in self.applications:
            application.close_books()

    def start_load(self) -> int:
        """Let scopes find their roots and clients subscribe; return when these have begun to publish."""
        world = self.world
        world.run(_SETTLED // 2)
        while world.now < _GROWN and any(len(self.roots(scope)) > 1 for scope in self.topology.scopes()):
            world.run(world.now + SECOND)
        for application in self.applications:
            application.wake_up()
            application.subscribe_and_settle()
        world.run(world.now + _SETTLED)
        for application in self.applications:
            if application is not self._mover:  # what somebody publishes who moves may be overtaken (decision 69)
                self._publish(application)
        return world.now

    def _move(self) -> None:
        """Let a client that only reads go to another broker, while plans are carried out."""
        if self._mover is not None:
            home = self.homes[self._mover.name]
            home = self.homes[self._mover.name] = self._moves.choice([name for name in self.addresses if name != home])
            self._mover.move_to(self.addresses[home])
            self.counts["moves"] += 1

    def end_load(self) -> None:
        """Publish no more, and let all arrive that was published."""
        world = self.world
        self.is_over = True
        world.run(world.now + _END)
        until = world.now + _PLANNED_WITHIN  # brokers may have asked for a plan, because links cost something else now
        while world.now < until and any(broker.network.relay.held.waiting for broker in self.brokers().values()):
            world.run(world.now + SECOND)
        world.run(world.now + _END)

    is_over = False

    def _publish(self, application: SimApplication) -> None:
        """Publish, and again after a while."""
        if self.is_over:
            return
        if application.life.active:
            application.publish_one()
        pause = self.random.randint(*self.pauses)
        self.world.schedule.after(pause, lambda: self._publish(application))

    def _carry_out(self) -> None:
        """Draw plans for some scopes and wait until they have ended."""
        every = self.topology.scopes()
        scopes = self.random.sample(every, self.random.choice((1, 1, 2)) if len(every) > 1 else 1)
        scopes += [unit for unit in self._with_exits if unit not in scopes]
        drawn = {scope: plan for scope in scopes if (plan := self.draw_plan(scope)) is not None}
        for scope, plan in drawn.items():
            roots = self.roots(scope)
            if len(roots) != 1:
                self.anomaly("two-roots", f"{scope!r} has the roots {roots} at {self.world.now / SECOND:.3f} s")
                return
            self.world.tell(self.addresses[roots[0]], PlanDrawn(scope, plan))
        until = self.world.now + _PLANNED_WITHIN
        while self.world.now < until and not all(self._has_ended(*each) for each in drawn.items()):
            self.world.run(self.world.now + _GLANCE)
            for scope in drawn:
                self.world.anomalies += check_meanings(scope, self._colours(scope))
        for scope, plan in drawn.items():
            self._check_plan(scope, plan)
        self._check_links()

    def _order(self, broker: Broker, drawn: PlanDrawn) -> None:
        colours = broker.network.colouring.of_scope(drawn.scope)
        assert colours is not None, "the root of a scope is in it"
        refusal = colours.request(drawn.plan)
        if refusal:
            self.on_refusal(drawn, refusal)

    def on_refusal(self, drawn: PlanDrawn, reason: str) -> None:
        self.anomaly("refused", f"{drawn}: {reason}")

    # ---- plans

    def draw_plan(self, scope: str) -> TopologyPlan | None:
        """Draw a plan that leaves the scope whole; None if nothing can be changed."""
        random, level = self.random, self.topology.depth - 1 - (scope.count("/") + 1 if scope else 0)
        inside = self.topology.inside(scope)
        changes: dict[frozenset[str], TopologyChange] = {}
        links = dict(self.links)
        for _ in range(random.choice((1, 1, 2, 5))):
            one, other = random.choices(inside, k=2)
            if one == other or ScopePath.parse(one).level_of_difference(ScopePath.parse(other)) != level:
                continue
            pair = frozenset((one, other))
            change = None if pair in changes else self._draw_change(one, other, pair, links, level, scope)
            if change is not None:
                changes[pair] = change
        if not changes:
            return None
        self.links = links
        return TopologyPlan(random.randrange(1, LAST_ROUND), tuple(changes.values()))

    def _draw_change(
        self, one: str, other: str, pair: frozenset[str], links: dict[frozenset[str], str], level: int, scope: str
    ) -> TopologyChange | None:
        random = self.random
        if pair not in links:
            links[pair] = one
            return TopologyChange(
                near=one, far=other, before=0, after=random.choice(_COSTS), address=self.addresses[other]
            )
        near = links[pair]
        far = next(iter(pair - {near}))
        before = self._cost(near, far)
        if not before:  # somebody is down
            return None
        if random.random() < 0.5:
            rest = {each: dialler for each, dialler in links.items() if each != pair}
            if self._is_whole(rest, level, near):
                del links[pair]
                return TopologyChange(near=near, far=far, before=before, after=0, address=self.addresses[far])
            return None
        if self.forwarding[scope] == "coloured":  # where costs mean nothing
            return None
        after = random.choice([cost for cost in _COSTS if cost != before])
        return TopologyChange(near=near, far=far, before=before, after=after, address=self.addresses[far])

    def _cost(self, near: str, far: str) -> int:
        """Return what a link costs; 0 if it is not there."""
        broker = self.brokers().get(near)
        peer = None if broker is None else broker.network.peers.get(far)
        return 0 if peer is None else peer.cost.base

    def _is_whole(self, links: dict[frozenset[str], str], level: int, name: str) -> bool:
        """Return whether the members of the scope of a level around a broker reach each other by some links."""
        depth = self.topology.depth
        scope = "/".join(name.split("/")[: depth - 1 - level])

        def unit(broker: str) -> str:
            return "/".join(broker.split("/")[: depth - level])

        members = {unit(each) for each in self.topology.brokers if not scope or each.startswith(scope + "/")}
        edges = {frozenset(map(unit, pair)) for pair in links}
        reached = {unit(name)}
        while True:
            more = {other for edge in edges if edge & reached for other in edge & members} - reached
            if not more:
                return reached == members
            reached |= more

    def brokers(self) -> dict[str, Broker]:
        """Return the brokers that run."""
        hosts = {name: self.world.hosts[address] for name, address in self.addresses.items()}
        return {name: host.machine for name, host in hosts.items() if isinstance(host.machine, Broker)}

    def roots(self, scope: str) -> list[str]:
        """Return the brokers that are the root of a scope."""
        return [name for name, each in self._colours(scope).items() if each.tree.role is TreeRole.ROOT]

    def _colours(self, scope: str) -> dict[str, ScopeColours]:
        """Return what the brokers of a scope hold of its colours."""
        found = {name: broker.network.colouring.of_scope(scope) for name, broker in self.brokers().items()}
        return {name: colours for name, colours in found.items() if colours is not None}

    def _phase(self, scope: str, plan: TopologyPlan) -> tuple[PlanPhase, str, int] | None:
        for colours in self._colours(scope).values():
            for view in colours.planning.views():
                if view.number == plan.number:
                    return view.phase, view.reason, view.in_doubt
        return None

    def _has_ended(self, scope: str, plan: TopologyPlan) -> bool:
        found = self._phase(scope, plan)
        return found is not None and found[0] in ENDED

    def _check_plan(self, scope: str, plan: TopologyPlan) -> None:
        found = self._phase(scope, plan)
        self.counts["changes"] += len(plan.changes)
        self.counts[f"plans-{found[0] if found else 'lost'}"] += 1
        if found is None or found[0] is not PlanPhase.DONE or found[2]:
            self.anomaly("plan", f"the plan {plan} of {scope!r} is not done: {found}")

    def _check_links(self) -> None:
        """The links that there are, are those that plans have left."""
        self.world.run(self.world.now + _CLOSED)
        until = self.world.now + _TOLD
        while self.world.now < until and self._linked() != self.links.keys():
            self.world.run(self.world.now + _CLOSED)
        there = self._linked()
        if there != self.links.keys():
            self.anomaly(
                "links", f"there are other links than planned: {sorted(map(sorted, there ^ self.links.keys()))}"
            )
            self.links = {pair: self.links.get(pair, min(pair)) for pair in there}

    def _linked(self) -> set[frozenset[str]]:
        return {frozenset((name, far)) for name, broker in self.brokers().items() for far in broker.network.peers}

    # ---- at the end

    def anomaly(self, kind: str, detail: str) -> None:
        self.world.anomalies.append(Anomaly(kind, detail))

    def _losses(self) -> Counter[str]:
        relays = [broker.network.relay for broker in self.brokers().values()]
        return Counter(
            {
                "stranded": sum(relay.stranded for relay in relays),
                "circling": sum(relay.circling for relay in relays),
                "foreign": sum(relay.foreign for relay in relays),
                "held and dropped": sum(relay.held.dropped for relay in relays),
            }
        )

    def check_deliveries(self, start: int) -> None:
        """All that was published was delivered."""
        final = [event for event in self.oracle.events.values() if event.time >= start]
        for application in self.applications:
            for history in application.life.subscriptions.values():
                lost = history.reader.missing(final)
                if lost:
                    self.anomaly("lost-write", f"{history.reader.name} never got {summary(lost)}")

    def _check_trees(self) -> None:
        """Where events are to go by a scope's tree, they do."""
        until = self.world.now + _PLANNED_WITHIN
        while self.world.now < until and detours(self.brokers()):
            self.world.run(self.world.now + SECOND)
        found = detours(self.brokers())
        if found:
            self.anomaly("off-tree", f"members that are reached by other links than a tree's: {found}")

    def statistics(self) -> dict[str, int]:
        relays = [broker.network.relay for broker in self.brokers().values()]
        counts = Counter(
            {
                "steps": self.world.trace.steps,
                "brokers": len(self.addresses),
                "published": len(self.oracle.events),
                "delivered": self.oracle.deliveries,
                "held": sum(relay.held.held for relay in relays),
                "foreign": sum(relay.foreign for relay in relays),
                "exits": sum(_named(relay) for relay in relays),
                "coloured-scopes": sum(policy == "coloured" for policy in self.forwarding.values()),
            }
        )
        return dict(sorted((counts + self.counts).items()))


def _named(relay: Relay[Outbox]) -> int:
    """Return for how many members a broker has chosen an exit."""
    return sum(mask.bit_count() for state in relay.states for mask in state.named.values())


def _draw_size(random: Random) -> int:
    sizes = random.randint(3, 4), random.randint(5, 8), random.randint(9, 16), 30
    return random.choices(sizes, (50, 45, 4.9, 0.1))[0]


def run(seed: int, keep_trace: bool = False) -> Outcome:
    stage = LoadedNetwork(seed, keep_trace)
    stage.run()
    world = stage.world
    return Outcome.of(SCENARIO.name, seed, world.trace, world.anomalies, stage.statistics())


SCENARIO = Scenario("plans", "3 to 30 brokers in 1 to 4 levels whose links are changed by plans under load", run)
