"""A network of brokers without clients: links break and come back, brokers crash and join, units fall apart.

When that has ended and every message has arrived, every broker must know the network as it is, and have the best way to
every unit in it and the exact subscriptions behind it: see `checkers/network_oracle.py`.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

from stentor.model.colours.wave_timing import ColourSettings
from stentor.protocols.overlay.gateways import PATIENCE
from stentor.simulation.checkers.network_oracle import NetworkOracle
from stentor.simulation.checkers.path_checker import check_paths
from stentor.simulation.clients.workload import TOPICS, draw_attributes, draw_interest
from stentor.simulation.outcome import Anomaly, Outcome
from stentor.simulation.overlay.overlay_world import HEARTBEAT, OverlayWorld, SimBroker, SimLink
from stentor.simulation.overlay.topology import Topology
from stentor.simulation.replay_trace import ReplayTrace
from stentor.simulation.scenario import Scenario

_MOST_MESSAGES = 3000  # for each broker, that are said at a stretch
_ROUNDS = 12  # in which everything must be settled
_MORE_ROUNDS = 400  # in which all links are added that shorten paths
_SHORTENED = 16  # brokers at most of a network whose paths are kept short: each new link takes its time
_NEVER = 1e9  # seconds between two waves
_SAMPLES = 6  # events that are held against all profiles


class _Endless(Exception):
    """They never stop talking."""


class _Play:
    """The overlay world, and what happens to it."""

    def __init__(self, seed: int, keep_trace: bool) -> None:
        self.random = random = Random(f"{seed}/{SCENARIO.name}")
        self.trace = ReplayTrace(keep_trace)
        self.anomalies: list[Anomaly] = []
        self.struck: Counter[str] = Counter()
        self.world = OverlayWorld(random, self.trace, self.anomalies)
        depth = random.randint(1, 4)
        self.topology = Topology(random, depth, _draw_size(random))
        # What propagation alone does not get right shall show: waves, which would mend it, are for scenario `colours`.
        names = self.topology.brokers
        scopes = {"/".join(name.split("/")[:length]) for name in names for length in range(depth)}
        self.world.colours = {scope: ColourSettings(period=_NEVER) for scope in sorted(scopes)}
        if len(self.topology.brokers) <= _SHORTENED:
            self.world.path_length = Random(f"{seed}/paths").choice((0.0, 0.0, 1.0, 1.5, 2.0))
        self._actions: dict[Callable[[], None], int] = {
            self._break: 10,
            self._mend: 10,
            self._stall: 4,
            self._crash: 4,
            self._restart: 4,
            self._leave: 2,
            self._partition: 2,
            self._reunite: 3,
            self._want: 8,
            self._unwant: 5,
            self._reprice: 3,
            self._dismiss: 2,
            self._join: 2,
            self._beat: 8,
        }

    # ---- from the beginning to the end

    def run(self) -> None:
        random, world = self.random, self.world
        for name, numbers in self.topology.brokers.items():
            self._start(world.add(name, numbers))
        links = list(self.topology.links)
        random.shuffle(links)
        for link in links:
            self.connect(link)
            world.deliver(random.choice((0, 3, 1000)))
        for _ in range(random.choice((0, 5, 20, 60))):
            random.choices(list(self._actions), list(self._actions.values()))[0]()
            world.now += random.randrange(HEARTBEAT // 2)
            world.notice(random.choice((0, 1, 2)))
            world.deliver(random.choice((0, 1, 5, 20, 1000)))
        try:
            self._end()
            self._run_until_quiet()
        except _Endless as endless:
            self.anomalies.append(Anomaly("endless", str(endless)))
            return
        events = [(random.choice(TOPICS), draw_attributes(random)) for _ in range(_SAMPLES)]
        oracle = NetworkOracle(world.spots())
        self.anomalies += oracle.check(events)
        self.anomalies += check_paths(oracle, world.path_length, self._count_links())
        self.struck["shortcut"] += sum(len(broker.network.shortcuts.made) for broker in world.alive())

    def _count_links(self) -> Counter[str]:
        """Of every unit, those that the topology gives it."""
        counts: Counter[str] = Counter()
        for one, other, _ in self.topology.links:
            for name in (one, other):
                counts.update("/".join(name.split("/")[:length]) for length in range(1, self.topology.depth + 1))
        return counts

    def _end(self) -> None:
        """The last fault is over; often everything is mended, and sometimes things stay as they are."""
        whole = self.random.random() < 0.7
        self.world.echoes = False  # what links cost now is what they cost
        for link in list(self.world.wires()):
            self.world.stall(link, False)
        if whole:
            for broker in self.world.brokers.values():
                if not broker.alive and self.random.random() < 0.8:
                    self._start(broker)
        self._mends = self.topology.links if whole else []

    def _run_until_quiet(self) -> None:
        """Let everything be said and noticed; nothing but routine is said in the end."""
        world = self.world
        rounds, since = 0, 0  # the last new link was due
        while rounds - since < _ROUNDS and rounds < _MORE_ROUNDS:
            rounds += 1
            since = rounds if self._is_shortening() else since
            self._exhaust()
            before = sum(world.heard.values())
            for _ in range(2):  # one after whom we let speak had their time, one as usual
                world.now += (PATIENCE + 1) * HEARTBEAT
                self._refresh()
                for site in world.alive():
                    world.beat(site)
                self._exhaust()
            if sum(world.heard.values()) == before and not self._is_shortening():
                return
        oracle = NetworkOracle(world.spots())
        scopes = [(name, scope) for name, broker in oracle.brokers.items() for scope in broker.network.context.scopes]
        if all(oracle.is_whole(name, scope) for name, scope in scopes):
            self.anomalies.append(Anomaly("restless", f"still talking after {rounds} rounds: {dict(world.said)}"))

    def _is_shortening(self) -> bool:
        return any(broker.network.shortcuts.is_waiting for broker in self.world.alive())

    def _reveal_links(self) -> None:
        """Links that are there again come into use, as by plans: waves do not run in this world."""
        for broker in self.world.alive():
            returning = broker.network.returning
            for name in returning.names:
                self.world.act(broker, "reveals", partial(returning.reveal, name), name)

    def _exhaust(self) -> None:
        """Until nobody has anything more to say."""
        most = _MOST_MESSAGES * len(self.world.brokers)
        for _ in range(5):
            self.world.notice(len(self.world.brokers) ** 2)
            for link in self._mends:
                self.connect(link)
            for broker in self.world.alive():
                for address in broker.network.shortcuts.made:
                    self.world.link_up(broker.name, address)
            self._reveal_links()
            self._refresh()
            if self.world.deliver(most) >= most:
                raise _Endless(f"more than {most} messages: {dict(self.world.said)}")

    def _refresh(self) -> None:
        """All that are linked have just heard of each other."""
        for link in self.world.wires():
            for end in link.ends:
                end.session.connection.heard = self.world.now

    # ---- what may happen

    def _start(self, site: SimBroker) -> None:
        self.world.start(site)
        for _ in range(self.random.choice((0, 1, 1, 3))):
            self._add_interest(site)

    def _add_interest(self, site: SimBroker) -> None:
        interest = draw_interest(self.random)
        self.world.act(site, "wants", lambda: site.want(interest), f"{interest.pattern} {interest.where}")

    def connect(self, link: tuple[str, str, float]) -> None:
        if not any(self.world.wires(*link[:2])):
            self.world.connect(*link)

    def _wire(self) -> SimLink | None:
        links = list(self.world.wires())
        return self.random.choice(links) if links else None

    def _site(self) -> SimBroker | None:
        brokers = self.world.alive()
        return self.random.choice(brokers) if brokers else None

    def _break(self) -> None:
        link = self._wire()
        if link is not None:
            self.struck["break"] += 1
            self.world.cut(link)

    def _mend(self) -> None:
        self.connect(self.random.choice(self.topology.links)) if self.topology.links else None

    def _stall(self) -> None:
        """Nothing comes through for a while, or again."""
        link = self._wire()
        if link is not None:
            self.struck["stall"] += 1
            self.world.stall(link, not link.stalled)

    def _crash(self) -> None:
        broker = self._site()
        if broker is not None:
            self.struck["crash"] += 1
            self.world.crash(broker)

    def _restart(self) -> None:
        down = [broker for broker in self.world.brokers.values() if not broker.alive]
        if down:
            broker = self.random.choice(down)
            self._start(broker)
            for link in self.topology.links:
                if broker.name in link and self.random.random() < 0.8:
                    self.connect(link)

    def _leave(self) -> None:
        broker = self._site()
        if broker is not None:
            self.struck["leave"] += 1
            self.world.leave(broker)

    def _partition(self) -> None:
        """A unit loses its links to the others, or those inside it, or some brokers those to the rest."""
        some = self._random_brokers()
        self.struck["partition"] += 1
        for link in list(self.world.wires()):
            near, far = (end.site in some for end in link.ends)
            if near != far:
                self.world.cut(link)

    def _random_brokers(self) -> set[str]:
        names = sorted(self.world.brokers)
        if self.random.random() < 0.5:
            return set(self.random.sample(names, self.random.randint(1, len(names))))
        unit = self.random.choice(names)
        unit = "/".join(unit.split("/")[: self.random.randint(1, self.topology.depth)])
        return {name for name in names if (name + "/").startswith(unit + "/")}

    def _reunite(self) -> None:
        for link in self.topology.links:
            if self.random.random() < 0.9:
                self.connect(link)

    def _want(self) -> None:
        broker = self._site()
        if broker is not None:
            self._add_interest(broker)

    def _unwant(self) -> None:
        broker = self._site()
        if broker is not None and broker.interests:
            number = self.random.choice(list(broker.interests))
            self.world.act(broker, "unwants", lambda: broker.unwant(number), str(number))

    def _reprice(self) -> None:
        """A round trip of a neighbour takes long, or an operator sets a price."""
        broker = self._site()
        if broker is not None and broker.network.peers:
            network, name = broker.network, self.random.choice(sorted(broker.network.peers))
            cost = self.random.choice((100, 1500, 2000, 9000))
            self.struck["reprice"] += 1
            self.world.act(broker, "reprices", lambda: network.gateways.reprice(name, cost), f"{name} {cost}")

    def _dismiss(self) -> None:
        """An operator believes that somebody is gone for good, rightly or not."""
        broker = self._site()
        lost = [] if broker is None else broker.network.gateways.graph.lost()
        if broker is not None and lost:
            unit, gateways = self.random.choice(lost), broker.network.gateways
            self.struck["dismiss"] += 1
            self.world.act(broker, "dismisses", lambda: gateways.dismiss(unit), unit)

    def _join(self) -> None:
        """Somebody new, now and then in a new unit."""
        name = self.topology.add()
        if name in self.world.brokers:
            return
        self.struck["join"] += 1
        self._start(self.world.add(name, self.topology.brokers[name]))
        self.topology.join(name)
        for link in self.topology.links:
            if name in link:
                self.connect(link)

    def _beat(self) -> None:
        for broker in self.world.alive():
            if self.random.random() < 0.5:
                self.world.beat(broker)

    def statistics(self) -> dict[str, int]:
        world = self.world
        counts = Counter({"brokers": len(world.brokers), "steps": self.trace.steps, "most-brokers": len(world.brokers)})
        return dict(sorted((counts + self.struck + world.said).items()))


def _draw_size(random: Random) -> int:
    sizes = random.randint(2, 6), random.randint(5, 16), random.randint(20, 60), random.randint(200, 300)
    return random.choices(sizes, (85, 14, 0.98, 0.02))[0]


def run(seed: int, keep_trace: bool = False) -> Outcome:
    play = _Play(seed, keep_trace)
    play.run()
    return Outcome.of(SCENARIO.name, seed, play.trace, play.anomalies, play.statistics())


SCENARIO = Scenario("overlay", "2 to 300 brokers in 1 to 4 levels, without clients; links, brokers and units fail", run)
