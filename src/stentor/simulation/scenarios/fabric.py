"""A whole fabric: brokers in a network, repository nodes over their ledgers, publishers, subscribers and readers."""

from collections import Counter

import msgspec

from stentor.machine import MILLISECOND, SECOND
from stentor.model.stored.record import StreamId
from stentor.model.stored.span import Spans
from stentor.nodes.containment import REFUSED_FOR
from stentor.simulation.checkers.final_checks import FinalChecks
from stentor.simulation.checkers.trace_checker import lost_traces
from stentor.simulation.delivery.participants import Participants
from stentor.simulation.delivery.plan import LONGEST
from stentor.simulation.delivery.recovery import recover
from stentor.simulation.disk import SOUND_DISK, DiskFaults
from stentor.simulation.fabric.brokers import FabricStage, FabricWorld
from stentor.simulation.fabric.housed import Housed
from stentor.simulation.fabric.kinds import HOUSED, HousedRepository
from stentor.simulation.fabric.mischief import FabricMischief
from stentor.simulation.fabric.plan import draw_fabric, draw_faults
from stentor.simulation.fault_injector import FaultInjector
from stentor.simulation.outcome import Anomaly, Outcome
from stentor.simulation.scenario import Scenario

_MOST_STEPS = 200_000
_TRACES_KEPT_WITHIN = 5 * SECOND  # of quiet: they are asked for at once, and written once a second


class _Play:
    """One run: a bundle is founded in peace, then things go wrong, then everything must come right."""

    def __init__(self, seed: int, keep_trace: bool) -> None:
        self.plan = draw_fabric(seed)
        self.world = FabricWorld(seed, draw_faults(seed), keep_trace=keep_trace)
        self.stage = FabricStage(seed, self.world, self.plan.nodes)
        self.participants = Participants(self.stage, self.plan, seed, HOUSED)
        self.mischief = FabricMischief(self.participants)
        self.final_checks = FinalChecks(self.participants)
        self.fault_injector = FaultInjector(self.world)

    def run(self) -> None:
        sky, faults = self.world.network.sky, self.world.faults.weather
        sky.faults = msgspec.structs.replace(faults, damage=0.0)
        self._have_disks(SOUND_DISK)
        self.stage.open()
        self.participants.found()
        sky.faults = faults
        self._suffer()
        longest = LONGEST + (REFUSED_FOR if self.stage.seen["stumble"] else 0)
        recover(self.participants, self.mischief, self.final_checks, _MOST_STEPS, longest)
        if self.world.trace.steps >= _MOST_STEPS:
            self.world.anomalies.append(Anomaly("endless", f"{self.world.trace.steps} steps"))
        self.final_checks.judge()
        if self.stage.traces:
            self._check_traces()

    def _check_traces(self) -> None:
        """Accuse nodes of which traces are kept, but not earlier ones that they remember."""
        self.world.run(self.stage.now + _TRACES_KEPT_WITHIN)
        kept: dict[StreamId, Spans] = {}
        for repository in self.participants.repositories.values():
            for stream, spans in repository.kept_traces() if isinstance(repository, HousedRepository) else ():
                kept.setdefault(stream, Spans()).update(spans)
        for process in self.participants.actors:
            if isinstance(process, Housed) and (traces := process.told_traces()) is not None:
                stream, remembered = traces
                if lost := lost_traces(kept.get(stream, Spans()), remembered):
                    self.world.anomalies.append(Anomaly("lost-traces", f"{lost} of {process.name}"))

    def _have_disks(self, faults: DiskFaults) -> None:
        for disk in [disk for host in self.world.hosts.values() for disk in host.disks]:
            disk.faults = faults

    def _suffer(self) -> None:
        stage, plan, world = self.stage, self.plan, self.world
        begin = stage.now
        world.faults = msgspec.structs.replace(world.faults, until=begin + plan.duration)
        self._have_disks(world.faults.disk)
        self.fault_injector.begin()
        # there is a past
        latecomers = [each for each in self.participants.subscribers if each.page.since.startswith("epoch")]
        for client in [
            *self.participants.publishers,
            *self.participants.subscribers,
            *self.participants.stored_readers,
        ]:
            late = plan.duration if stage.random.random() < 0.3 or client in latecomers else 50 * MILLISECOND
            stage.after(stage.random.randrange(late), client.start)
        for stranger in self.participants.strangers:
            stranger.start()
        for time, what in plan.strikes:
            world.run(begin + time)
            self.mischief.strike(what)
        world.run(begin + plan.duration)

    def statistics(self) -> dict[str, int]:
        world = self.world
        counts = Counter({"steps": world.trace.steps, "brokers": len(self.stage.addresses)})
        for host in world.hosts.values():
            for disk in host.disks:
                counts += disk.faults_seen
        counts += self.stage.seen + self.fault_injector.struck + world.network.sky.seen + world.failures
        return dict(sorted(counts.items()))


def run(seed: int, keep_trace: bool = False) -> Outcome:
    play = _Play(seed, keep_trace)
    play.run()
    return Outcome.of(SCENARIO.name, seed, play.world.trace, play.world.anomalies, play.statistics())


SCENARIO = Scenario("fabric", "whole nodes: brokers, repositories, publishers, subscribers; all that can fails", run)
