"""A network whose memory is damaged: from any state it finds back to a correct one within the bound that it computes.

Brokers without clients in one to four levels run their waves. Then what some or all of them know is scrambled: rounds,
pointers, members, ways, profiles, timers. Once the bound is over, every scope must be in its correct state, every
broker must know the network as it is, and every next hop must lead where it should; and it must stay so.
"""

from collections import Counter
from functools import partial
from random import Random

from stentor.machine import SECOND
from stentor.model.colours.legality import TreeView, illegalities
from stentor.model.colours.memory_part import MemoryPart
from stentor.model.colours.wave_timing import ColourSettings
from stentor.nodes.damage.corruption import Corruption
from stentor.simulation.checkers.network_oracle import NetworkOracle
from stentor.simulation.clients.workload import TOPICS, draw_attributes, draw_interest
from stentor.simulation.outcome import Anomaly, Outcome
from stentor.simulation.overlay.overlay_world import HEARTBEAT, OverlayWorld, SimBroker
from stentor.simulation.overlay.topology import Topology
from stentor.simulation.replay_trace import ReplayTrace
from stentor.simulation.scenario import Scenario

_DELAY_MAX = 0.02  # seconds: in this world messages take microseconds
_OF_LINKS = (MemoryPart.QUEUES, MemoryPart.CREDIT)  # which have no heartbeats in this world
_ELSEWHERE = (*_OF_LINKS, MemoryPart.SUBSCRIPTIONS)  # nor are there clients
_PARTS = [part for part in MemoryPart if part not in _ELSEWHERE]
_PLANNED_WITHIN = 45 * SECOND  # every plan has ended: it is undone, or what is under way is given up
_SAMPLES = 6  # events that are held against all profiles
_MOST_MESSAGES = 3000  # for each broker, that are said at a stretch


class _Play:
    """The overlay world, and what its brokers must heal themselves of."""

    def __init__(self, seed: int, keep_trace: bool) -> None:
        self.random = random = Random(f"{seed}/{SCENARIO.name}")
        self.trace = ReplayTrace(keep_trace)
        self.anomalies: list[Anomaly] = []
        self.struck: Counter[str] = Counter()
        self.world = OverlayWorld(random, self.trace, self.anomalies)
        self.world.echoes = False  # what links cost now is what they cost
        self.topology = Topology(random, random.randint(1, 4), _draw_size(random))
        self._settings()
        self._beats: dict[str, int] = {}  # when each broker's next heartbeat is due
        self.healed = 0  # nanoseconds that healing took, at most

    def _settings(self) -> None:
        names = sorted(self.topology.brokers)
        scopes = {"/".join(name.split("/")[:length]) for name in names for length in range(self.topology.depth)}
        for scope in sorted(scopes):
            inside = [name for name in names if not scope or name.startswith(scope + "/")]
            roots = tuple(self.random.sample(inside, min(len(inside), self.random.choice((0, 1, 3)))))
            self.world.colours[scope] = ColourSettings(
                delay_max=_DELAY_MAX, brokers_max=max(2, len(inside)), roots=roots
            )

    # ---- from the beginning to the end

    def run(self) -> None:
        world = self.world
        for name, numbers in self.topology.brokers.items():
            broker = world.add(name, numbers)
            world.start(broker)
            self._beats[name] = world.now + self.random.randrange(HEARTBEAT // 2)
            for _ in range(self.random.choice((0, 1, 3))):
                self._want(broker)
        for link in self.topology.links:
            world.connect(*link)
        self._run(2 * self._bound())
        self._check("before anything was damaged")
        for _ in range(self.random.choice((1, 1, 2))):
            self._damage()
            self._heal()
        self._check("after the bound")

    def _run(self, seconds: float) -> None:
        """Let time pass: messages arrive at once, timers and heartbeats fire when they are due."""
        world, most = self.world, _MOST_MESSAGES * len(self.world.brokers)
        until = world.now + int(seconds * SECOND)
        while True:
            if world.deliver(most) >= most:
                self.anomalies.append(Anomaly("endless", f"more than {most} messages at a stretch: {world.said}"))
                return
            name = min(self._beats, key=lambda each: self._beats[each])
            if world.fire(min(until, self._beats[name])):
                continue
            if self._beats[name] > until:
                world.now = max(world.now, until)
                return
            world.now = max(world.now, self._beats[name])
            self._beats[name] = world.now + HEARTBEAT // 2
            for link in world.wires():
                for end in link.ends:
                    end.session.connection.heard = world.now
            world.beat(world.brokers[name])

    def _bound(self) -> float:
        """Return the time within which all scopes are well: the inner ones first, since outer ones build on them."""
        bounds: dict[int, float] = {}
        for broker in self.world.alive():
            for level, colours in enumerate(broker.network.colouring.scopes):
                lost = len(self.world.colours[colours.scope].roots) + 1
                bounds[level] = max(bounds.get(level, 0.0), colours.timing.bound(lost))
        return sum(bounds.values())

    def _damage(self) -> None:
        random, brokers = self.random, self.world.alive()
        self.world.validates = False
        some = brokers if random.random() < 0.3 else random.sample(brokers, random.randint(1, len(brokers)))
        parts = list(_PARTS) if random.random() < 0.3 else random.sample(_PARTS, random.choice((1, 2)))
        for broker in some:
            for part in parts:
                self.struck[part] += 1
            corruption = Corruption(broker.network, (), random)
            self.world.act(broker, "damaged", partial(corruption.scramble, parts), " ".join(parts))

    def _heal(self) -> None:
        """Run until the bound is over, and remember when all was well for good."""
        world, start, bound = self.world, self.world.now, self._bound()
        last_wrong = start
        while self._half_done() and world.now < start + _PLANNED_WITHIN:
            self._run(1)
        for _ in range(20):
            self._run(bound / 20)
            if self._wrong():
                last_wrong = world.now
        world.validates = True
        self.healed = max(self.healed, last_wrong - start)

    def _wrong(self) -> list[Anomaly]:
        """Return what is not as it should be, now."""
        found: list[Anomaly] = []
        trees: dict[str, dict[str, TreeView]] = {}
        for broker in self.world.alive():
            for colours in broker.network.colouring.scopes:
                trees.setdefault(colours.scope, {})[broker.name] = colours.tree.view()
        for scope, views in sorted(trees.items()):
            found += [Anomaly("illegal", f"{scope!r}: {reason}") for reason in illegalities(views)]
        events = [(TOPICS[place], draw_attributes(Random(f"{place}"))) for place in range(_SAMPLES)]
        found += NetworkOracle(self.world.spots()).check(events)
        return found + self._half_done()

    def _half_done(self) -> list[Anomaly]:
        """Return which plans have not ended, and where events wait for one."""
        found: list[Anomaly] = []
        for broker in self.world.alive():
            found += [
                Anomaly("plan", f"{broker.name}: a plan of {colours.scope!r} has not ended")
                for colours in broker.network.colouring.scopes
                if colours.announced.is_open or colours.planning.is_busy
            ]
            if any(broker.network.relay.held.by_level):
                found.append(Anomaly("held", f"{broker.name}: events have to wait"))
        return found

    def _check(self, when: str) -> None:
        found = self._wrong()
        self.anomalies += [Anomaly(each.kind, f"{when}: {each.detail}") for each in found]

    def _want(self, site: SimBroker) -> None:
        interest = draw_interest(self.random)
        self.world.act(site, "wants", lambda: site.want(interest), f"{interest.pattern} {interest.where}")

    def statistics(self) -> dict[str, int]:
        counts = Counter({"brokers": len(self.world.brokers), "steps": self.trace.steps})
        counts["healed-ms"] = self.healed // 1_000_000
        counts["bound-ms"] = int(1000 * self._bound())
        return dict(sorted((counts + self.struck + self.world.said).items()))


def _draw_size(random: Random) -> int:
    sizes = random.randint(2, 6), random.randint(5, 16), random.randint(20, 60)
    return random.choices(sizes, (85, 14, 1))[0]


def run(seed: int, keep_trace: bool = False) -> Outcome:
    play = _Play(seed, keep_trace)
    play.run()
    return Outcome.of(SCENARIO.name, seed, play.trace, play.anomalies, play.statistics())


SCENARIO = Scenario(
    "colours", "2 to 60 brokers in 1 to 4 levels, without clients, whose memory is damaged and heals itself", run
)
