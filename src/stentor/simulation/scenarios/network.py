"""A network of real brokers with clients that publish, subscribe, come, go and roam, and all that can happen to them.

Nobody is ever given an event twice, or one that it did not ask for, and no broker gets one twice; none is matched more
often than there are levels. Who was told that all brokers know what it wants gets all of that from then on. When the
faults have ended and things have settled, every broker knows the network as it is, and what is published then reaches
everyone who wants it, wherever they are, and also who moves meanwhile. In scopes whose events go by their tree they do
so again.
"""

from collections import Counter
from random import Random

from stentor.machine import MILLISECOND, SECOND, StopRequested
from stentor.model.colours.wave_timing import ColourSettings
from stentor.model.ids import Incarnation
from stentor.model.limits import Limits
from stentor.model.scope import ScopePath
from stentor.nodes.broker.broker import Broker
from stentor.nodes.client import Settings
from stentor.nodes.network.network import GatewaySettings, NetworkSettings
from stentor.simulation.checkers.delivery_oracle import DeliveryOracle, summary
from stentor.simulation.checkers.network_oracle import NetworkOracle
from stentor.simulation.checkers.network_views import views_of
from stentor.simulation.checkers.recording_relay import RecordingRelay
from stentor.simulation.checkers.settlement_checker import SettlementChecker
from stentor.simulation.checkers.tree_forwarding import detours, draw_forwarding
from stentor.simulation.clients.application import SimApplication
from stentor.simulation.clients.workload import TOPICS, draw_attributes
from stentor.simulation.fault_injector import FaultInjector
from stentor.simulation.faults import DAMAGES, Faults, LinkFaults
from stentor.simulation.host import Factory
from stentor.simulation.outcome import Anomaly, Outcome
from stentor.simulation.overlay.topology import Topology
from stentor.simulation.scenario import Scenario
from stentor.simulation.world import World

_CALM = 11 * SECOND  # after the last fault, whatever it left behind is found out, and speakers had their patience
_SETTLED = _CALM + 1 * SECOND
_KNOWN = 3 * SECOND  # in peace every broker answers at once; then what was published has time to arrive
_END = _SETTLED + _KNOWN + 1 * SECOND
_LOOKS, _PAUSE = 20, SECOND // 10  # costs follow the faults of links, so that news may be under way when we look
_ALARMS = ("info: link lost", "warning: peer refused", "warning: link refused")  # not to be heard in peace
_SMALL = 16  # brokers
_DELAY_MAX = 0.05  # seconds, of a wave from a parent to its child
_SAMPLES = 5  # events that are held against all profiles
_HEARTBEAT = 1.0
_WINDOW = 64 << 10
_LIMITS = Limits(
    largest_body=64 << 10, window=_WINDOW, queue=64 << 10, heartbeat=_HEARTBEAT, hello_within=2.0, flows=64
)


def _draw_faults(random: Random, brokers: int) -> Faults:
    """Each seed has troubles of its own: all at once would hide what some of them do alone."""
    delays = [MILLISECOND // 2, MILLISECOND, 20 * MILLISECOND]  # slow links never cost the same for long, so that in a
    quick = delays[:2] if brokers > _SMALL else delays  # large network there is no time at which all is known to all

    def some(rate: float) -> float:
        return rate * random.uniform(0.3, 1.0) if random.random() < 0.4 else 0.0

    return Faults(
        until=random.choice((2 * SECOND, 3 * SECOND, 5 * SECOND)),
        weather=LinkFaults(
            mean_delay=random.choice(quick),
            cut=0.1,
            damage=some(random.choice((0.02, 0.005))),
            damages=random.choice((DAMAGES, DAMAGES, *((kind,) for kind in DAMAGES))),
        ),
        breaks=some(2.0),
        partitions=some(1.3),
        crashes=some(0.8),
        stalls=some(0.8),
        mean_stall=SECOND,
        jumps=some(0.4),
    )


class _Stage:
    """The world with its players."""

    def __init__(self, seed: int, keep_trace: bool) -> None:
        self.random = random = Random(f"{seed}/{SCENARIO.name}")
        size = _draw_size(random)
        self.world = world = World(seed, _draw_faults(random, size), keep_trace=keep_trace)
        self.trouble = world.faults.until
        self.oracle = DeliveryOracle(world.anomalies)
        self.fault_injector = FaultInjector(world)
        self.applications: list[SimApplication] = []
        struck = self.fault_injector.struck
        self.settlement = SettlementChecker(world, self.oracle, self.brokers, self.applications, struck)
        self.topology = Topology(random, random.randint(1, 4), size)
        self.forwarding = draw_forwarding(seed, self.topology.scopes())
        self.addresses = {name: f"at-{name.replace('/', '_')}" for name in self.topology.brokers}
        self.most_matchings = self.circling = 0
        self.clients_per_broker = Random(f"{seed}/load").choice((0, 0, 1))  # more of them are pointed elsewhere
        self._incarnations: Counter[str] = Counter()
        for name in self.topology.brokers:
            world.add(self.addresses[name], self._broker(name))
        for number in range(random.choices((3, 4, 5, 10), (60, 20, 10, 10))[0]):
            self._add_client(f"c{number}")
        for address in self.addresses.values():
            world.restart(world.hosts[address], random.randrange(SECOND))
        for application in self.applications:
            world.restart(world.hosts[application.host], random.randrange(2 * SECOND))
        if random.random() < 0.3:
            world.schedule.at(random.randrange(SECOND, self.trouble), self._stop_broker)

    def _broker(self, name: str) -> Factory:
        links = [(far, cost) for near, far, cost in self.topology.links if near == name]
        gateways = tuple(GatewaySettings(address=self.addresses[far], cost=cost or None) for far, cost in links)
        settings = NetworkSettings(
            numbers=self.topology.brokers[name],
            address=self.addresses[name],
            gateways=gateways,
            clients_per_broker=self.clients_per_broker,
            forwarding=self.forwarding,
            colours={
                scope: self._colours_of(scope) for scope, policy in self.forwarding.items() if policy == "coloured"
            },
        )

        def build() -> Broker:
            broker = Broker(ScopePath.parse(name), _LIMITS, network=settings)
            if not self.world.faults.weather.damage:  # a damaged stream may repeat bytes before it is found out
                RecordingRelay.watch(broker.network.relay, self.world.anomalies)
            return broker

        return build

    def _colours_of(self, scope: str) -> ColourSettings:
        """Waves of scopes whose events go by the tree are quick enough to heal it before we look."""
        return ColourSettings(delay_max=_DELAY_MAX, brokers_max=max(2, len(self.topology.inside(scope))))

    def _add_client(self, name: str) -> None:
        brokers = list(self.addresses.values())
        settings = Settings(
            name=name,
            addresses=tuple(self.random.sample(brokers, self.random.randint(1, min(3, len(brokers))))),
            incarnation=Incarnation(0),
            window=_WINDOW,
            buffer=2 * _WINDOW,
            heartbeat=_HEARTBEAT,
            can_move=True,
        )

        def new_incarnation() -> int:
            self._incarnations[name] += 1
            return self._incarnations[name]

        homes = tuple(brokers) if self.random.random() < 0.5 else ()
        rest = self.trouble + 2 * SECOND
        application = SimApplication(self.world, name, settings, self.oracle, new_incarnation, rest, homes)
        application.on_settled = self.settlement.settled
        self.applications.append(application)
        self.world.add(name, application.factory, application)

    def _stop_broker(self) -> None:
        """In good order, and back after a while."""
        host = self.world.hosts[self.random.choice(list(self.addresses.values()))]
        start = host.starts
        self.world.tell(host.name, StopRequested())
        self.world.schedule.after(SECOND // 2, lambda: host.crash(power=False) if host.starts == start else None)
        self.world.restart(host, 2 * SECOND)

    # ---- from the beginning to the end

    def run(self) -> None:
        world = self.world
        self.fault_injector.begin()
        for time in range(SECOND, self.trouble + _END, SECOND):
            world.schedule.at(time, self._check_matchings)
        world.run(self.trouble + _CALM)
        for application in self.applications:
            application.wake_up()
        world.run(self.trouble + _SETTLED)
        self._check_connections()
        alarms = self._alarms()
        self._check_pictures()
        circling = self._circling()
        self._check_settlement()
        start = world.now
        for application in self.applications:
            if application.life.active:
                application.publish_everywhere()
        world.run(start + SECOND)
        self._check_matchings()
        if self._alarms() != alarms:
            self.anomaly("disconnected", f"brokers lost links long after the last fault: {self._alarms() - alarms}")
        if self._circling() > circling:
            self.anomaly("circling", f"{self._circling() - circling} events went in circles long after the last fault")
        self._check_deliveries(start)
        self._check_moving()
        self._check_trees()
        for application in self.applications:
            application.close_books()

    def _check_moving(self) -> None:
        """Who moves from one broker to another misses nothing that others publish meanwhile."""
        active = [application for application in self.applications if application.life.active]
        if len(active) < 2:
            return
        start = self.world.now
        mover = self.random.choice(active)
        mover.move_to(self.random.choice(list(self.addresses.values())))
        for _ in range(_LOOKS // 2):
            for application in active:
                if application is not mover:
                    application.publish_everywhere()
            self.world.run(self.world.now + _PAUSE)
        self.world.run(self.world.now + _END - _SETTLED)
        self._check_connections()
        self._check_deliveries(start)

    def anomaly(self, kind: str, detail: str) -> None:
        self.world.anomalies.append(Anomaly(kind, detail))

    def brokers(self) -> dict[str, Broker]:
        """Those that run, by name."""
        hosts = {name: self.world.hosts[address] for name, address in self.addresses.items()}
        return {name: host.machine for name, host in hosts.items() if isinstance(host.machine, Broker)}

    def _alarms(self) -> Counter[str]:
        return Counter({what: self.world.reports[what] for what in _ALARMS})

    def _circling(self) -> int:
        return sum(broker.network.relay.circling for broker in self.brokers().values())

    def _check_matchings(self) -> None:
        """An event is matched where it is published, once at each level below on its way, and for the clients."""
        for name, broker in self.brokers().items():
            most = broker.network.relay.most_matchings
            self.most_matchings = max(self.most_matchings, most)
            if most > self.topology.depth + 1:
                self.anomaly("matchings", f"{name} got events that {most} brokers had matched")

    def _check_connections(self) -> None:
        """All are connected and subscribed again."""
        for application in self.applications:
            life = application.life
            if life.halted is not None:
                self.anomaly("halted", f"{life.name} gave up for good: {life.halted}")
            elif not life.linked.open:
                self.anomaly("disconnected", f"{life.name} is not connected long after the last fault")
            for history in life.subscriptions.values():
                if not history.confirmed.open:
                    self.anomaly("unsubscribed", f"{history.reader.name} is not in force long after the last fault")

    def _check_pictures(self) -> None:
        """What brokers know of the network is right, at one of the times when we look."""
        events = [(self.random.choice(TOPICS), draw_attributes(self.random)) for _ in range(_SAMPLES)]
        for _ in range(_LOOKS):
            found = list(
                NetworkOracle(views_of(self.brokers(), self.topology, self.addresses, self.applications)).check(events)
            )
            if not found:
                return
            self.world.run(self.world.now + _PAUSE)
        self.world.anomalies += found

    def _check_settlement(self) -> None:
        """In peace everybody is told before long that all brokers know what it wants."""
        self.settlement.is_peace = True
        for application in self.applications:
            if application.life.active:
                application.subscribe_and_settle()
        self.world.run(self.world.now + _KNOWN)
        for application in self.applications:
            if application.life.active and application.settling:
                self.anomaly("unsettled", f"{application.life.name} was never told that all brokers know what it wants")

    def _check_deliveries(self, start: int) -> None:
        """What was published in the end reached everyone who wanted it."""
        final = [event for event in self.oracle.events.values() if event.time >= start]
        for application in self.applications:
            for history in application.life.subscriptions.values():
                lost = history.reader.missing(final)
                if lost and application.life.active:
                    self.anomaly("lost-write", f"{history.reader.name} never got {summary(lost)}")

    def _check_trees(self) -> None:
        """Where events are to go by a scope's tree, they do."""
        for _ in range(_LOOKS):
            if not detours(self.brokers()):
                return
            self.world.run(self.world.now + SECOND)
        self.anomaly("off-tree", f"members that are reached by other links than a tree's: {detours(self.brokers())}")

    def statistics(self) -> dict[str, int]:
        world, relays = self.world, [broker.network.relay for broker in self.brokers().values()]
        counts = Counter(
            {
                "steps": world.trace.steps,
                "brokers": len(self.addresses),
                "clients": len(self.applications),
                "published": len(self.oracle.events),
                "delivered": self.oracle.deliveries,
                "moves": sum(application.moves for application in self.applications),
                "links": sum(len(life.linked) for each in self.applications for life in each.lives),
                "redirected": world.reports["debug: client redirected"],
                "relayed": sum(relay.relayed for relay in relays),
                "stranded": sum(relay.stranded for relay in relays),
                "rerouted": sum(relay.rerouted for relay in relays),
                "circling": sum(relay.circling for relay in relays),
                "settled": self.settlement.told,
                "settled-held": self.settlement.held,
                "most-matchings": self.most_matchings,
                "coloured-scopes": sum(policy == "coloured" for policy in self.forwarding.values()),
            }
        )
        return dict(sorted((counts + self.fault_injector.struck + world.network.sky.seen + world.failures).items()))


def _draw_size(random: Random) -> int:
    sizes = random.randint(2, 4), random.randint(3, 8), random.randint(9, 16), 40
    return random.choices(sizes, (80, 18, 1.9, 0.1))[0]


def run(seed: int, keep_trace: bool = False) -> Outcome:
    stage = _Stage(seed, keep_trace)
    stage.run()
    world = stage.world
    return Outcome.of(SCENARIO.name, seed, world.trace, world.anomalies, stage.statistics())


SCENARIO = Scenario(
    "network", "2 to 40 brokers in 1 to 4 levels with clients that roam; links, processes and clocks fail", run
)
