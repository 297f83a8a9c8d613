"""One broker, some clients, and everything that can happen to them.

Safety is checked all the time. When the faults have ended and things have settled, every client must be connected and
subscribed again, and what is published then must reach everyone who wants it.
"""

from collections import Counter
from random import Random

from stentor.machine import MILLISECOND, SECOND, StopRequested
from stentor.model.errors import Refusal
from stentor.model.ids import Incarnation
from stentor.model.limits import Limits
from stentor.model.scope import ScopePath
from stentor.nodes.broker.broker import Broker
from stentor.nodes.client import Settings
from stentor.simulation.checkers.delivery_oracle import DeliveryOracle, Published, summary
from stentor.simulation.clients.application import LARGEST_BURST, SimApplication
from stentor.simulation.clients.client_history import ActivePeriods
from stentor.simulation.disk import SOUND_DISK, DiskFaults
from stentor.simulation.fault_injector import FaultInjector
from stentor.simulation.faults import DAMAGES, Faults, LinkFaults
from stentor.simulation.outcome import Anomaly, Outcome
from stentor.simulation.scenario import Scenario
from stentor.simulation.world import World

BROKER = "broker"
_CALM = 14 * SECOND  # after the last fault, whatever it left behind is found out
_SETTLED = _CALM + 2 * SECOND
_END = _SETTLED + 2 * SECOND
_GRACE = 9 * SECOND  # a link that lost something is found out and closed within this
_HEARTBEAT = 1.0
_WINDOW = 64 << 10
_BUFFER = 128 << 10
_LIMITS = Limits(
    largest_body=64 << 10, window=_WINDOW, queue=32 << 10, heartbeat=_HEARTBEAT, hello_within=2.0, flows=8, links=100
)
_MOST_IN_FLIGHT = 4 * _WINDOW


def _draw_faults(random: Random) -> Faults:
    """Each seed has troubles of its own: all at once would hide what some of them do alone. Most are over soon, since
    many short runs find more than a few long ones.
    """

    def some(rate: float) -> float:
        return rate * random.uniform(0.3, 1.0) if random.random() < 0.4 else 0.0

    return Faults(
        until=random.choices((4 * SECOND, 8 * SECOND, 20 * SECOND), (65, 30, 5))[0],
        weather=LinkFaults(
            mean_delay=random.choice((1, 5, 50)) * MILLISECOND,
            damage=some(random.choice((0.02, 0.005))),
            damages=random.choice((DAMAGES, DAMAGES, *((kind,) for kind in DAMAGES))),
        ),
        disk=random.choice((SOUND_DISK, SOUND_DISK, DiskFaults(sync_error=0.2, full=0.1))),
        breaks=some(0.8),
        partitions=some(0.5),
        crashes=some(0.5),
        stalls=some(0.5),
        mean_stall=SECOND,
        jumps=some(0.3),
        drift=random.choice((0, 0, 1000)),
    )


class _Stage:
    """The world with its players."""

    def __init__(self, seed: int, keep_trace: bool) -> None:
        random = Random(f"{seed}/{SCENARIO.name}")
        self.world = world = World(seed, _draw_faults(random), keep_trace=keep_trace)
        self.trouble = world.faults.until
        self.end = self.trouble + _END
        self.oracle = DeliveryOracle(world.anomalies)
        self.fault_injector = FaultInjector(world)
        self.applications: list[SimApplication] = []
        self.most_queued = 0
        self._incarnations: Counter[str] = Counter()
        world.add(BROKER, lambda: Broker(ScopePath.parse("simulated/b1"), _LIMITS))
        clients = random.randint(3, 8)
        for number in range(clients):
            twin = number == 1 and random.random() < 0.3
            self._add_client(f"c{number}", "c0" if twin else f"c{number}")
        world.hosts[BROKER].start()
        for application in self.applications:
            world.restart(world.hosts[application.host], random.randrange(2 * SECOND))
        if random.random() < 0.3:
            world.schedule.at(random.randrange(self.trouble), self._stop_broker)

    def _add_client(self, host: str, name: str) -> None:
        settings = Settings(
            name=name,
            addresses=(BROKER,),
            incarnation=Incarnation(0),
            window=_WINDOW,
            buffer=_BUFFER,
            heartbeat=_HEARTBEAT,
        )

        def new_incarnation() -> int:
            self._incarnations[name] += 1
            return self._incarnations[name]

        rest = self.trouble + 4 * SECOND
        application = SimApplication(self.world, host, settings, self.oracle, new_incarnation, rest)
        self.applications.append(application)
        self.world.add(host, application.factory, application)

    def _stop_broker(self) -> None:
        """In good order, and back after a while."""
        host = self.world.hosts[BROKER]
        start = host.starts
        self.world.tell(BROKER, StopRequested())
        self.world.schedule.after(SECOND // 2, lambda: host.crash(power=False) if host.starts == start else None)
        self.world.restart(host, SECOND)

    def run(self) -> None:
        world = self.world
        self.fault_injector.begin()
        for time in range(SECOND, self.end, SECOND):
            world.schedule.at(time, self._check_bounds)
        world.run(self.trouble + _CALM)
        for application in self.applications:
            application.wake_up()
        world.run(self.trouble + _SETTLED)
        self._check_connections()
        for application in self.active():
            application.publish_everywhere()
        world.run(self.end)
        for application in self.applications:
            application.close_books()
        self._check_deliveries()

    def active(self) -> list[SimApplication]:
        return [application for application in self.applications if application.life.active]

    def anomaly(self, kind: str, detail: str) -> None:
        self.world.anomalies.append(Anomaly(kind, detail))

    def _check_bounds(self) -> None:
        host = self.world.hosts[BROKER]
        if isinstance(host.machine, Broker):
            status = host.machine.status(host.now)
            for link in status.links:
                self.most_queued = max(self.most_queued, link.queued)
                if link.queued > _LIMITS.queue:
                    self.anomaly("unbounded", f"{link.queued} bytes wait at the broker for {link.name}")
        for application in self.applications:
            if self.world.hosts[application.host].up and application.client.publisher.pending > _BUFFER + LARGEST_BURST:
                self.anomaly("unbounded", f"{application.client.publisher.pending} bytes wait at {application.host}")
        if self.world.network.most_in_flight > _MOST_IN_FLIGHT:
            self.anomaly("unbounded", f"{self.world.network.most_in_flight} bytes are under way on one link")
            self.world.network.most_in_flight = 0

    def _check_connections(self) -> None:
        """All that were not fenced are connected and subscribed again."""
        for application in self.applications:
            life = application.life
            newest = life.incarnation == self._incarnations[application.name]
            if life.ended or (life.halted is Refusal.FENCED and not newest):
                continue
            if any(session.until is not None and session.until > self.trouble + _CALM for session in life.linked):
                self.anomaly("disconnected", f"{life.name} lost its link long after the last fault")
            if life.halted is not None:
                self.anomaly("halted", f"{life.name} gave up for good: {life.halted}")
            elif not newest:
                self.anomaly("unfenced", f"{life.name} goes on though a newer client has its name")
            elif not life.linked.open:
                self.anomaly("disconnected", f"{life.name} is not connected long after the last fault")
            else:
                for history in life.subscriptions.values():
                    if not history.confirmed.open:
                        self.anomaly("unsubscribed", f"{history.reader.name} is not in force long after the last fault")

    def _check_deliveries(self) -> None:
        """What was published while publisher and subscriber were connected, and stayed so, was delivered."""
        sources = {life.name: life for application in self.applications for life in application.lives}
        sent = [each for each in self.oracle.events.values() if self._covered(sources[each.source].linked, each)]
        for application in self.applications:
            for history in [*application.gone, *application.life.subscriptions.values()]:
                lost = [event for event in history.reader.missing(sent) if self._covered(history.confirmed, event)]
                final = [event for event in lost if event.time >= self.trouble + _SETTLED]
                if final:
                    self.anomaly("lost-write", f"{history.reader.name} never got {summary(final)}")
                elif len(lost) > history.missed and not history.patient:
                    told = f"was told of {history.missed} missed"
                    self.anomaly("poll-skip", f"{history.reader.name} never got {summary(lost)}, {told}")

    def _covered(self, sessions: ActivePeriods, event: Published) -> bool:
        """Whether it was published in one of them, and the one went on long enough."""
        return sessions.cover(event.time, min(event.time + _GRACE, self.end))

    def statistics(self) -> dict[str, int]:
        world = self.world
        counts = Counter(
            {
                "steps": world.trace.steps,
                "clients": len(self.applications),
                "published": len(self.oracle.events),
                "delivered": self.oracle.deliveries,
                "missed": sum(
                    history.missed
                    for application in self.applications
                    for history in [*application.gone, *application.life.subscriptions.values()]
                ),
                "fenced": sum(
                    life.halted is Refusal.FENCED for application in self.applications for life in application.lives
                ),
                "lives": sum(len(application.lives) for application in self.applications),
                "links": sum(len(life.linked) for application in self.applications for life in application.lives),
                "most-queued": self.most_queued,
                "most-in-flight": world.network.most_in_flight,
            }
        )
        for host in world.hosts.values():
            counts += host.disk.faults_seen
        return dict(sorted((counts + self.fault_injector.struck + world.network.sky.seen + world.failures).items()))


def run(seed: int, keep_trace: bool = False) -> Outcome:
    stage = _Stage(seed, keep_trace)
    stage.run()
    world = stage.world
    return Outcome.of(SCENARIO.name, seed, world.trace, world.anomalies, stage.statistics())


SCENARIO = Scenario(
    "broker", "one broker, 3 to 8 clients; links, processes, disks and clocks fail, bytes are damaged, names clash", run
)
