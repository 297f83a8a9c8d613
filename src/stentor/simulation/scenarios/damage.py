"""A network under load whose memory is damaged: events flow again within the bound, and those elsewhere never stopped.

Real brokers in one to three levels, with clients that subscribe and publish all the time. What some or all brokers
remember is scrambled, any part of it: what they know of each other, of their clients, of plans and of their links.
Once the bound is over, everything that is published is delivered, once and in order. Meanwhile nothing is lost between
clients whose events go by no damaged broker: `collateral`. A broker that fails at its damaged memory is started again,
as a supervisor does.
"""

from collections import Counter
from collections.abc import Collection
from random import Random
from typing import NamedTuple

from stentor.machine import MILLISECOND, SECOND, Input
from stentor.model.colours.memory_part import MemoryPart
from stentor.model.routing_state import ExitNumbers
from stentor.model.scope import ScopePath
from stentor.nodes.broker.broker import Broker
from stentor.simulation.checkers.delivery_oracle import summary
from stentor.simulation.checkers.network_oracle import NetworkOracle
from stentor.simulation.checkers.network_views import views_of
from stentor.simulation.host import Factory
from stentor.simulation.outcome import Outcome
from stentor.simulation.scenario import Scenario
from stentor.simulation.scenarios.plans import LoadedNetwork
from stentor.wire.parcel import MOST_HOPS

_HEARTBEATS_NS = 4 * SECOND  # that both ends of a link, and clients, need besides: they are of a second
_LAST_NS = 2 * SECOND  # what is published just before the next damage may be under way then
_LOADED = 2 * SECOND  # for how long all that is published must be delivered


class MemoryDamaged(Input, frozen=True, tag="memory damaged"):
    """What a broker remembers is scrambled by a seed."""

    parts: tuple[MemoryPart, ...]
    seed: int


class _Ordeal(NamedTuple):
    """A time in which some brokers were damaged."""

    start: int
    end: int
    untouched: set[tuple[str, str]]  # brokers between which events went by none of them when it began


class _Play(LoadedNetwork):
    """The network, and what it has to heal itself of."""

    depths = (1, 1, 1, 2, 2, 2, 2, 3)  # bounds add up over levels, and so does the time that a run takes
    pauses = (20 * MILLISECOND, 200 * MILLISECOND)

    def __init__(self, seed: int, keep_trace: bool) -> None:
        super().__init__(seed, keep_trace, SCENARIO.name)
        self.struck: Counter[str] = Counter()
        self.tolerated: Counter[str] = Counter()  # what went wrong until the bound was over

    def _broker(self, name: str) -> Factory:
        build = super()._broker(name)

        def build_damageable() -> Broker:
            broker = build()
            assert isinstance(broker, Broker), "brokers are built here"
            broker._inputs[MemoryDamaged] = lambda damage: broker.scramble(damage.parts, Random(damage.seed))
            return broker

        return build_damageable

    def run(self) -> None:
        self.start_load()
        ordeals = [self._damage() for _ in range(self.random.choice((1, 1, 2)))]
        start = self.world.now
        self.world.run(start + _LOADED)
        self.end_load()
        self.check_deliveries(start)
        for ordeal in ordeals:
            self._check_collateral(ordeal)

    def _damage(self) -> _Ordeal:
        """Damage some brokers, and wait until they must be well again."""
        random, world = self.random, self.world
        sound, names = len(world.anomalies), sorted(self.addresses)
        damaged = names if random.random() < 0.3 else random.sample(names, random.randint(1, len(names) - 1))
        parts = tuple(MemoryPart) if random.random() < 0.3 else tuple(random.sample(list(MemoryPart), 2))
        self.struck.update(parts)
        start, untouched = world.now, self._untouched(damaged)
        for name in damaged:
            world.tell(self.addresses[name], MemoryDamaged(parts, random.randrange(1 << 32)))
        world.run(start + self._bound_ns(parts))
        harmed = tuple(f"{self.addresses[name]} " for name in damaged)
        found = world.anomalies[sound:]
        raised = [each for each in found if each.kind == "raised"]
        world.anomalies[sound:] = [each for each in raised if not each.detail.startswith(harmed)]
        self.tolerated.update(anomaly.kind for anomaly in found)
        return _Ordeal(start, world.now - _LAST_NS, untouched)

    def _untouched(self, damaged: Collection[str]) -> set[tuple[str, str]]:
        """Return the pairs of brokers between which events go by none of the damaged ones."""
        sound = {name: broker for name, broker in self.brokers().items() if name not in damaged}
        # A unit that is held together by the damaged alone may be in parts for a while: they forget, or lose, links.
        oracle = NetworkOracle(views_of(sound, self.topology, self.addresses, self.applications))
        starts = [name for name in sound if oracle.is_whole(name, "")]
        return {(near, far) for near in starts for far in sound if not set(self._path(near, far)) & set(damaged)}

    def _path(self, near: str, far: str) -> list[str]:
        """Return by which brokers events go now, both ends included; with "" if one of them knows no way."""
        names, exits, brokers = [near], ExitNumbers(), self.brokers()
        while names[-1] not in (far, "") and len(names) < MOST_HOPS:
            network = brokers[names[-1]].network
            _, unit = network.context.view(ScopePath.parse(far))
            following, exits = network.routes.way_towards(unit, exits)
            names.append(following)
        return names

    def _bound_ns(self, parts: tuple[MemoryPart, ...]) -> int:
        bounds: dict[int, float] = {}
        for broker in self.brokers().values():
            for level, colours in enumerate(broker.network.colouring.scopes):
                timing = colours.timing
                plans = timing.prepare_within + timing.drain_within if MemoryPart.PLANS in parts else 0
                bounds[level] = max(bounds.get(level, 0.0), timing.bound(len(self.addresses)) + plans)
        return int(sum(bounds.values()) * SECOND) + _HEARTBEATS_NS

    def _check_collateral(self, ordeal: _Ordeal) -> None:
        """Whoever gets events by no damaged broker has got all of them."""
        for application in self.applications:
            home = self.homes[application.host]
            events = [
                event
                for event in self.oracle.events.values()
                if ordeal.start <= event.time < ordeal.end
                and (self.homes[event.source.partition(".")[0]], home) in ordeal.untouched
            ]
            for history in application.life.subscriptions.values():
                lost = history.reader.missing(events)
                self.counts["undisturbed"] += len(events) - len(lost)
                if lost:
                    self.anomaly("collateral", f"{history.reader.name} at {home} never got {summary(lost)}")

    def statistics(self) -> dict[str, int]:
        tolerated = {f"tolerated-{kind}": count for kind, count in self.tolerated.items()}
        return dict(sorted((Counter(super().statistics()) + self.struck + Counter(tolerated)).items()))


def run(seed: int, keep_trace: bool = False) -> Outcome:
    play = _Play(seed, keep_trace)
    play.run()
    world = play.world
    return Outcome.of(SCENARIO.name, seed, world.trace, world.anomalies, play.statistics())


SCENARIO = Scenario("damage", "3 to 8 brokers with clients, under load, whose memory is damaged and heals itself", run)
