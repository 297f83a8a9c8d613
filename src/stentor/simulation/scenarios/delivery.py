"""Reliable delivery: publishers, subscribers and a bundle of repositories, whose links, disks and processes fail."""

from collections import Counter
from random import Random

from stentor.machine import MILLISECOND, SECOND
from stentor.simulation.checkers.final_checks import FinalChecks
from stentor.simulation.delivery.fault_script import FaultScript
from stentor.simulation.delivery.letter_network import CALM, LetterNetwork
from stentor.simulation.delivery.participants import Participants
from stentor.simulation.delivery.plan import (
    DeliveryPlan,
    draw_ages,
    draw_brief_lives,
    draw_departures,
    draw_former,
    draw_lives,
    draw_mail,
    draw_newcomers,
    draw_plan,
    draw_resuming_publishers,
    draw_returns,
    draw_rivals,
    draw_rot,
    draw_stored_readers,
    draw_strangers,
    draw_units,
    draw_visits,
)
from stentor.simulation.delivery.process import MOST_STEPS, TOPIC, DeliveryWorld, Endless
from stentor.simulation.delivery.recovery import recover
from stentor.simulation.outcome import Anomaly, Outcome
from stentor.simulation.replay_trace import ReplayTrace
from stentor.simulation.scenario import Scenario
from stentor.simulation.schedule import Schedule


class _Play:
    """One run: a bundle is founded in peace, then things go wrong, then everything must come right."""

    def __init__(self, seed: int, keep_trace: bool) -> None:
        schedule = Schedule()
        schedule.now = SECOND
        office = LetterNetwork(schedule, Random(f"{seed}/post"), TOPIC)
        self.world = DeliveryWorld(seed, schedule, ReplayTrace(keep_trace), office, [])
        plan = draw_units(Random(f"{seed}/units"), draw_plan(self.world.random))
        plan = draw_resuming_publishers(Random(f"{seed}/scribes"), plan)
        plan = draw_newcomers(Random(f"{seed}/newcomers"), plan)
        plan = draw_lives(Random(f"{seed}/lives"), plan)
        plan = draw_returns(Random(f"{seed}/returns"), plan)
        plan = draw_rivals(Random(f"{seed}/rivals"), plan)
        plan = draw_brief_lives(Random(f"{seed}/brief lives"), plan)
        plan = draw_stored_readers(Random(f"{seed}/scholars"), plan)
        plan = draw_strangers(Random(f"{seed}/strangers"), plan)
        plan = draw_visits(Random(f"{seed}/visits"), plan)
        plan = draw_rot(Random(f"{seed}/rot"), plan)
        plan = draw_former(Random(f"{seed}/former"), plan)
        plan = draw_ages(Random(f"{seed}/ages"), plan)
        plan = draw_departures(Random(f"{seed}/departures"), plan)
        self.plan: DeliveryPlan = draw_mail(Random(f"{seed}/mail"), plan)
        self.world.history.calm = self.plan.visits
        self.participants = Participants(self.world, self.plan, seed)
        self.fault_script = FaultScript(self.participants)
        self.final_checks = FinalChecks(self.participants)

    def run(self) -> None:
        try:
            self.participants.found()
            self._suffer()
            self.world.office.faults = CALM
            recover(self.participants, self.fault_script, self.final_checks, MOST_STEPS)
            self.final_checks.judge()
        except Endless as endless:
            self.world.anomalies.append(Anomaly("endless", str(endless)))

    def _suffer(self) -> None:
        world, plan = self.world, self.plan
        world.office.faults = plan.weather
        begin = world.now
        # there is a past
        latecomers = [each for each in self.participants.subscribers if each.page.since.startswith("epoch")]
        for client in [
            *self.participants.publishers,
            *self.participants.subscribers,
            *self.participants.stored_readers,
        ]:
            late = plan.duration if world.random.random() < 0.3 or client in latecomers else 50 * MILLISECOND
            world.after(world.random.randrange(late), client.start)
        for stranger in self.participants.strangers:
            stranger.start()
        for time, what in plan.strikes:
            world.schedule.run(begin + time)
            self.fault_script.strike(what)
        world.schedule.run(begin + plan.duration)

    def statistics(self) -> dict[str, int]:
        counts = Counter({"steps": self.world.trace.steps})
        for repository in self.participants.repositories.values():
            counts.update(repository.disk.faults_seen)
        return dict(sorted((counts + self.world.seen + self.world.office.seen).items()))


def run(seed: int, keep_trace: bool = False) -> Outcome:
    play = _Play(seed, keep_trace)
    play.run()
    return Outcome.of(SCENARIO.name, seed, play.world.trace, play.world.anomalies, play.statistics())


SCENARIO = Scenario("delivery", "reliable delivery over 1 to 4 repositories; links, disks and processes fail", run)
