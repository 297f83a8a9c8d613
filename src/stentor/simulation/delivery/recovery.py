"""Recovery: faults have ended, and everything must come right before long."""

from stentor.machine import MILLISECOND, SECOND
from stentor.simulation.checkers.final_checks import FinalChecks
from stentor.simulation.delivery.fault_script import FaultScript
from stentor.simulation.delivery.participants import Participants
from stentor.simulation.delivery.plan import LONGEST

_LOOK = 100 * MILLISECOND  # between looks at whether all is quiet
_ACCEPTED_AFTER = 4 * SECOND  # an operator waits for longer than gaps are waited for, which damage must not become
_STANDSTILL = 5 * SECOND  # without new events, after which a slow application is not waited for any more
_REST = 300 * MILLISECOND  # that it must stay so


def recover(
    participants: Participants, fault_script: FaultScript, verdict: FinalChecks, most_steps: int, longest: int = LONGEST
) -> None:
    """Mend what was broken, and wait until all is quiet, or for so long that it never will be."""
    world, schedule, seen = participants.world, participants.world.schedule, participants.world.seen
    fault_script.mend()
    for process in participants.actors:
        process.start()
    begin = world.now
    news = seen["delivered"] - seen["redelivered"]  # a slow application is no standstill while it gets new events
    limit = begin + longest
    while schedule.now < limit and world.trace.steps < most_steps:
        schedule.run(schedule.now + _LOOK)
        fault_script.accept_losses()
        if schedule.now > begin + _ACCEPTED_AFTER:
            fault_script.accept_damage()
        if not verdict.troubles():
            schedule.run(schedule.now + _REST)
            if not verdict.troubles():
                return
        if seen["delivered"] - seen["redelivered"] > news:
            news = seen["delivered"] - seen["redelivered"]
            limit = max(limit, schedule.now + _STANDSTILL)
