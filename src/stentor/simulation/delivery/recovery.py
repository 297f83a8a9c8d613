"""After the troubles: nothing goes wrong any more, and everything must come right before long."""

from stentor.machine import MILLISECOND, SECOND
from stentor.simulation.delivery.cast import Cast
from stentor.simulation.delivery.mischief import Mischief
from stentor.simulation.delivery.plan import LONGEST
from stentor.simulation.delivery.verdict import Verdict

_LOOK = 100 * MILLISECOND  # between looks at whether all is quiet
_ACCEPTED_AFTER = 4 * SECOND  # an operator waits for longer than gaps are waited for, which damage must not become
_STANDSTILL = 5 * SECOND  # without new events, after which a slow application is not waited for any more
_REST = 300 * MILLISECOND  # that it must stay so


def recover(cast: Cast, mischief: Mischief, verdict: Verdict, most_steps: int, longest: int = LONGEST) -> None:
    """Mend what was broken, and wait until all is quiet, or for so long that it never will be."""
    stage, schedule, seen = cast.stage, cast.stage.schedule, cast.stage.seen
    mischief.mend()
    for actor in cast.actors:
        actor.start()
    begin = stage.now
    news = seen["delivered"] - seen["redelivered"]  # a slow application is no standstill while it gets new events
    limit = begin + longest
    while schedule.now < limit and stage.trace.steps < most_steps:
        schedule.run(schedule.now + _LOOK)
        mischief.accept_losses()
        if schedule.now > begin + _ACCEPTED_AFTER:
            mischief.accept_damage()
        if not verdict.troubles():
            schedule.run(schedule.now + _REST)
            if not verdict.troubles():
                return
        if seen["delivered"] - seen["redelivered"] > news:
            news = seen["delivered"] - seen["redelivered"]
            limit = max(limit, schedule.now + _STANDSTILL)
