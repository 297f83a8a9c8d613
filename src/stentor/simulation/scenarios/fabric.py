"""A whole fabric: brokers in a network, repository nodes over their ledgers, publishers, subscribers and readers."""

from collections import Counter
from random import Random

import msgspec

from stentor.machine import MILLISECOND
from stentor.simulation.adversary import Adversary
from stentor.simulation.delivery.cast import Cast
from stentor.simulation.delivery.mischief import Mischief
from stentor.simulation.delivery.plan import LONGEST, Plan, draw_plan
from stentor.simulation.delivery.verdict import Verdict
from stentor.simulation.fabric.brokers import FabricStage, FabricWorld
from stentor.simulation.fabric.kinds import HOUSED
from stentor.simulation.faults import Faults
from stentor.simulation.outcome import Outcome
from stentor.simulation.scenario import Scenario

_LOOK = 100 * MILLISECOND  # between looks at whether all is quiet
_REST = 300 * MILLISECOND  # that it must stay so
_MOST_STEPS = 200_000


def _draw_plan(random: Random) -> Plan:
    plan = draw_plan(random)
    return msgspec.structs.replace(plan, strikes=(), keep=0)


class _Play:
    """One run: a bundle is founded in peace, then things go wrong, then everything must come right."""

    def __init__(self, seed: int, keep_trace: bool) -> None:
        self.plan = _draw_plan(Random(f"{seed}/fabric"))
        self.world = FabricWorld(seed, Faults(), keep_trace=keep_trace)
        self.stage = FabricStage(seed, self.world, self.plan.nodes)
        self.cast = Cast(self.stage, self.plan, seed, HOUSED)
        self.mischief = Mischief(self.cast)
        self.verdict = Verdict(self.cast)
        self.adversary = Adversary(self.world)

    def run(self) -> None:
        self.stage.open()
        self.cast.found()
        self._suffer()
        self._recover()
        self.verdict.judge()

    def _suffer(self) -> None:
        stage, plan, world = self.stage, self.plan, self.world
        begin = stage.now
        world.faults = msgspec.structs.replace(world.faults, until=begin + plan.duration)
        self.adversary.begin()
        for client in [*self.cast.authors, *self.cast.readers, *self.cast.scholars]:
            late = plan.duration if stage.random.random() < 0.3 else 50 * MILLISECOND
            stage.after(stage.random.randrange(late), client.start)
        for time, what in plan.strikes:
            world.run(begin + time)
            self.mischief.strike(what)
        world.run(begin + plan.duration)

    def _recover(self) -> None:
        """Nothing goes wrong any more; wait until all is quiet."""
        world = self.world
        self.mischief.mend()
        for actor in self.cast.actors:
            actor.start()
        limit = world.now + LONGEST
        while world.now < limit and world.trace.steps < _MOST_STEPS:
            world.run(world.now + _LOOK)
            if not self.verdict.troubles():
                world.run(world.now + _REST)
                if not self.verdict.troubles():
                    return

    def statistics(self) -> dict[str, int]:
        world = self.world
        counts = Counter({"steps": world.trace.steps, "brokers": len(self.stage.addresses)})
        for host in world.hosts.values():
            for disk in host.disks:
                counts += disk.faults_seen
        counts += self.stage.seen + self.adversary.struck + world.network.sky.seen + world.failures
        return dict(sorted(counts.items()))


def run(seed: int, keep_trace: bool = False) -> Outcome:
    play = _Play(seed, keep_trace)
    play.run()
    return Outcome.of(SCENARIO.name, seed, play.world.trace, play.world.anomalies, play.statistics())


SCENARIO = Scenario("fabric", "whole nodes: brokers, repositories, publishers, subscribers; all that can fails", run)
