"""Reliable delivery: publishers, subscribers and a bundle of repositories, whose links, disks and processes fail."""

from collections import Counter
from random import Random

from stentor.machine import MILLISECOND, SECOND
from stentor.simulation.delivery.actor import MOST_STEPS, TOPIC, Endless, Stage
from stentor.simulation.delivery.cast import Cast
from stentor.simulation.delivery.mischief import Mischief
from stentor.simulation.delivery.plan import (
    Plan,
    draw_ages,
    draw_brief_lives,
    draw_former,
    draw_lives,
    draw_mail,
    draw_newcomers,
    draw_plan,
    draw_returns,
    draw_rivals,
    draw_rot,
    draw_scholars,
    draw_scribes,
    draw_strangers,
    draw_units,
    draw_visits,
)
from stentor.simulation.delivery.post_office import CALM, PostOffice
from stentor.simulation.delivery.recovery import recover
from stentor.simulation.delivery.verdict import Verdict
from stentor.simulation.outcome import Anomaly, Outcome
from stentor.simulation.scenario import Scenario
from stentor.simulation.schedule import Schedule
from stentor.simulation.trace import Trace


class _Play:
    """One run: a bundle is founded in peace, then things go wrong, then everything must come right."""

    def __init__(self, seed: int, keep_trace: bool) -> None:
        schedule = Schedule()
        schedule.now = SECOND
        office = PostOffice(schedule, Random(f"{seed}/post"), TOPIC)
        self.stage = Stage(seed, schedule, Trace(keep_trace), office, [])
        plan = draw_units(Random(f"{seed}/units"), draw_plan(self.stage.random))
        plan = draw_scribes(Random(f"{seed}/scribes"), plan)
        plan = draw_newcomers(Random(f"{seed}/newcomers"), plan)
        plan = draw_lives(Random(f"{seed}/lives"), plan)
        plan = draw_returns(Random(f"{seed}/returns"), plan)
        plan = draw_rivals(Random(f"{seed}/rivals"), plan)
        plan = draw_brief_lives(Random(f"{seed}/brief lives"), plan)
        plan = draw_scholars(Random(f"{seed}/scholars"), plan)
        plan = draw_strangers(Random(f"{seed}/strangers"), plan)
        plan = draw_visits(Random(f"{seed}/visits"), plan)
        plan = draw_rot(Random(f"{seed}/rot"), plan)
        plan = draw_former(Random(f"{seed}/former"), plan)
        plan = draw_ages(Random(f"{seed}/ages"), plan)
        self.plan: Plan = draw_mail(Random(f"{seed}/mail"), plan)
        self.stage.book.calm = self.plan.visits
        self.cast = Cast(self.stage, self.plan, seed)
        self.mischief = Mischief(self.cast)
        self.verdict = Verdict(self.cast)

    def run(self) -> None:
        try:
            self.cast.found()
            self._suffer()
            self.stage.office.weather = CALM
            recover(self.cast, self.mischief, self.verdict, MOST_STEPS)
            self.verdict.judge()
        except Endless as endless:
            self.stage.anomalies.append(Anomaly("endless", str(endless)))

    def _suffer(self) -> None:
        stage, plan = self.stage, self.plan
        stage.office.weather = plan.weather
        begin = stage.now
        latecomers = [each for each in self.cast.readers if each.page.since.startswith("epoch")]  # there is a past
        for client in [*self.cast.authors, *self.cast.readers, *self.cast.scholars]:
            late = plan.duration if stage.random.random() < 0.3 or client in latecomers else 50 * MILLISECOND
            stage.after(stage.random.randrange(late), client.start)
        for stranger in self.cast.strangers:
            stranger.start()
        for time, what in plan.strikes:
            stage.schedule.run(begin + time)
            self.mischief.strike(what)
        stage.schedule.run(begin + plan.duration)

    def statistics(self) -> dict[str, int]:
        counts = Counter({"steps": self.stage.trace.steps})
        for depot in self.cast.depots.values():
            counts.update(depot.disk.faults_seen)
        return dict(sorted((counts + self.stage.seen + self.stage.office.seen).items()))


def run(seed: int, keep_trace: bool = False) -> Outcome:
    play = _Play(seed, keep_trace)
    play.run()
    return Outcome.of(SCENARIO.name, seed, play.stage.trace, play.stage.anomalies, play.statistics())


SCENARIO = Scenario("delivery", "reliable delivery over 1 to 4 repositories; links, disks and processes fail", run)
