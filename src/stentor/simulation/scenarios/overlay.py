"""A network of brokers without clients: links break and come back, brokers crash and join, units fall apart.

When that has ended and everything has been said, every broker must know the network as it is, and have the best way to
every unit in it and the exact wishes behind it: see `atlas`.
"""

from collections import Counter
from collections.abc import Callable
from random import Random

from stentor.protocols.overlay.gateways import PATIENCE
from stentor.simulation.atlas import Atlas
from stentor.simulation.mesh import HEARTBEAT, Mesh, Site, Wire
from stentor.simulation.outcome import Anomaly, Outcome
from stentor.simulation.path_checker import check_paths
from stentor.simulation.scenario import Scenario
from stentor.simulation.topology import Topology
from stentor.simulation.trace import Trace
from stentor.simulation.workload import TOPICS, draw_attributes, draw_interest

_MOST_MESSAGES = 3000  # for each broker, that are said at a stretch
_ROUNDS = 12  # in which everything must be settled
_MORE_ROUNDS = 400  # in which all links are added that shorten paths
_SHORTENED = 16  # brokers at most of a network whose paths are kept short: each new link takes its time
_SAMPLES = 6  # events that are held against all profiles


class _Endless(Exception):
    """They never stop talking."""


class _Play:
    """The mesh, and what befalls it."""

    def __init__(self, seed: int, keep_trace: bool) -> None:
        self.random = random = Random(f"{seed}/{SCENARIO.name}")
        self.trace = Trace(keep_trace)
        self.anomalies: list[Anomaly] = []
        self.struck: Counter[str] = Counter()
        self.mesh = Mesh(random, self.trace, self.anomalies)
        depth = random.randint(1, 4)
        self.topology = Topology(random, depth, _draw_size(random))
        if len(self.topology.brokers) <= _SHORTENED:
            self.mesh.path_length = Random(f"{seed}/paths").choice((0.0, 0.0, 1.0, 1.5, 2.0))
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
        random, mesh = self.random, self.mesh
        for name, numbers in self.topology.brokers.items():
            self._start(mesh.add(name, numbers))
        links = list(self.topology.links)
        random.shuffle(links)
        for link in links:
            self.connect(link)
            mesh.deliver(random.choice((0, 3, 1000)))
        for _ in range(random.choice((0, 5, 20, 60))):
            random.choices(list(self._actions), list(self._actions.values()))[0]()
            mesh.now += random.randrange(HEARTBEAT // 2)
            mesh.notice(random.choice((0, 1, 2)))
            mesh.deliver(random.choice((0, 1, 5, 20, 1000)))
        try:
            self._end()
            self._settle()
        except _Endless as endless:
            self.anomalies.append(Anomaly("endless", str(endless)))
            return
        events = [(random.choice(TOPICS), draw_attributes(random)) for _ in range(_SAMPLES)]
        atlas = Atlas(mesh.spots())
        self.anomalies += atlas.check(events)
        self.anomalies += check_paths(atlas, mesh.path_length, self._count_links())
        self.struck["shortcut"] += sum(len(site.network.shortcuts.made) for site in mesh.alive())

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
        self.mesh.echoes = False  # what links cost now is what they cost
        for wire in list(self.mesh.wires()):
            self.mesh.stall(wire, False)
        if whole:
            for site in self.mesh.sites.values():
                if not site.alive and self.random.random() < 0.8:
                    self._start(site)
        self._mends = self.topology.links if whole else []

    def _settle(self) -> None:
        """Let everything be said and noticed; nothing but routine is said in the end."""
        mesh = self.mesh
        rounds, since = 0, 0  # the last new link was due
        while rounds - since < _ROUNDS and rounds < _MORE_ROUNDS:
            rounds += 1
            since = rounds if self._is_shortening() else since
            self._exhaust()
            before = sum(mesh.heard.values())
            for _ in range(2):  # one after whom we let speak had their time, one as usual
                mesh.now += (PATIENCE + 1) * HEARTBEAT
                self._refresh()
                for site in mesh.alive():
                    mesh.beat(site)
                self._exhaust()
            if sum(mesh.heard.values()) == before and not self._is_shortening():
                return
        atlas = Atlas(mesh.spots())
        scopes = [(name, scope) for name, spot in atlas.spots.items() for scope in spot.network.context.scopes]
        if all(atlas.is_whole(name, scope) for name, scope in scopes):
            self.anomalies.append(Anomaly("restless", f"still talking after {rounds} rounds: {dict(mesh.said)}"))

    def _is_shortening(self) -> bool:
        return any(site.network.shortcuts.is_waiting for site in self.mesh.alive())

    def _exhaust(self) -> None:
        """Until nobody has anything more to say."""
        most = _MOST_MESSAGES * len(self.mesh.sites)
        for _ in range(5):
            self.mesh.notice(len(self.mesh.sites) ** 2)
            for link in self._mends:
                self.connect(link)
            for site in self.mesh.alive():
                for address in site.network.shortcuts.made:
                    self.mesh.link_up(site.name, address)
            self._refresh()
            if self.mesh.deliver(most) >= most:
                raise _Endless(f"more than {most} messages: {dict(self.mesh.said)}")

    def _refresh(self) -> None:
        """All that are linked have just heard of each other."""
        for wire in self.mesh.wires():
            for end in wire.ends:
                end.session.connection.heard = self.mesh.now

    # ---- what may happen

    def _start(self, site: Site) -> None:
        self.mesh.start(site)
        for _ in range(self.random.choice((0, 1, 1, 3))):
            self._wish(site)

    def _wish(self, site: Site) -> None:
        wish = draw_interest(self.random)
        self.mesh.act(site, "wants", lambda: site.want(wish), f"{wish.pattern} {wish.where}")

    def connect(self, link: tuple[str, str, float]) -> None:
        if not any(self.mesh.wires(*link[:2])):
            self.mesh.connect(*link)

    def _wire(self) -> Wire | None:
        wires = list(self.mesh.wires())
        return self.random.choice(wires) if wires else None

    def _site(self) -> Site | None:
        sites = self.mesh.alive()
        return self.random.choice(sites) if sites else None

    def _break(self) -> None:
        wire = self._wire()
        if wire is not None:
            self.struck["break"] += 1
            self.mesh.cut(wire)

    def _mend(self) -> None:
        self.connect(self.random.choice(self.topology.links)) if self.topology.links else None

    def _stall(self) -> None:
        """Nothing comes through for a while, or again."""
        wire = self._wire()
        if wire is not None:
            self.struck["stall"] += 1
            self.mesh.stall(wire, not wire.stalled)

    def _crash(self) -> None:
        site = self._site()
        if site is not None:
            self.struck["crash"] += 1
            self.mesh.crash(site)

    def _restart(self) -> None:
        down = [site for site in self.mesh.sites.values() if not site.alive]
        if down:
            site = self.random.choice(down)
            self._start(site)
            for link in self.topology.links:
                if site.name in link and self.random.random() < 0.8:
                    self.connect(link)

    def _leave(self) -> None:
        site = self._site()
        if site is not None:
            self.struck["leave"] += 1
            self.mesh.leave(site)

    def _partition(self) -> None:
        """A unit loses its links to the others, or those inside it, or some brokers those to the rest."""
        some = self._random_brokers()
        self.struck["partition"] += 1
        for wire in list(self.mesh.wires()):
            near, far = (end.site in some for end in wire.ends)
            if near != far:
                self.mesh.cut(wire)

    def _random_brokers(self) -> set[str]:
        names = sorted(self.mesh.sites)
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
        site = self._site()
        if site is not None:
            self._wish(site)

    def _unwant(self) -> None:
        site = self._site()
        if site is not None and site.wishes:
            number = self.random.choice(list(site.wishes))
            self.mesh.act(site, "unwants", lambda: site.unwant(number), str(number))

    def _reprice(self) -> None:
        """A round trip of a neighbour takes long, or an operator sets a price."""
        site = self._site()
        if site is not None and site.network.peers:
            network, name = site.network, self.random.choice(sorted(site.network.peers))
            cost = self.random.choice((100, 1500, 2000, 9000))
            self.struck["reprice"] += 1
            self.mesh.act(site, "reprices", lambda: network.gateways.reprice(name, cost), f"{name} {cost}")

    def _dismiss(self) -> None:
        """An operator believes that somebody is gone for good, rightly or not."""
        site = self._site()
        lost = [] if site is None else site.network.gateways.graph.lost()
        if site is not None and lost:
            unit, gateways = self.random.choice(lost), site.network.gateways
            self.struck["dismiss"] += 1
            self.mesh.act(site, "dismisses", lambda: gateways.dismiss(unit), unit)

    def _join(self) -> None:
        """Somebody new, now and then in a new unit."""
        name = self.topology.add()
        if name in self.mesh.sites:
            return
        self.struck["join"] += 1
        self._start(self.mesh.add(name, self.topology.brokers[name]))
        self.topology.join(name)
        for link in self.topology.links:
            if name in link:
                self.connect(link)

    def _beat(self) -> None:
        for site in self.mesh.alive():
            if self.random.random() < 0.5:
                self.mesh.beat(site)

    def statistics(self) -> dict[str, int]:
        mesh = self.mesh
        counts = Counter({"brokers": len(mesh.sites), "steps": self.trace.steps, "most-brokers": len(mesh.sites)})
        return dict(sorted((counts + self.struck + mesh.said).items()))


def _draw_size(random: Random) -> int:
    sizes = random.randint(2, 6), random.randint(5, 16), random.randint(20, 60), random.randint(200, 300)
    return random.choices(sizes, (85, 14, 0.98, 0.02))[0]


def run(seed: int, keep_trace: bool = False) -> Outcome:
    play = _Play(seed, keep_trace)
    play.run()
    return Outcome.of(SCENARIO.name, seed, play.trace, play.anomalies, play.statistics())


SCENARIO = Scenario("overlay", "2 to 300 brokers in 1 to 4 levels, without clients; links, brokers and units fail", run)
