"""A fabric plan: who takes part, what happens to them by name, and what happens to links, hosts and disks."""

from collections.abc import Callable, Mapping
from random import Random

import msgspec

from stentor.machine import MILLISECOND, SECOND
from stentor.simulation.delivery.plan import (
    DeliveryPlan,
    draw_ages,
    draw_brief_lives,
    draw_lives,
    draw_newcomers,
    draw_plan,
    draw_resuming_publishers,
    draw_returns,
    draw_rivals,
    draw_rot,
    draw_stored_readers,
    draw_strangers,
    draw_strikes,
    draw_units,
    draw_visits,
)
from stentor.simulation.disk import SOUND_DISK, DiskFaults
from stentor.simulation.faults import DAMAGES, Faults, LinkFaults

# What befalls links is the adversary's; a host does a whole step or none; no letter outlives the link it was sent on.
_NOT_HERE = {"partition", "cut-in-step", "echo"}


_OF_NODES = {"stop-broker": 0.2, "stop-repository": 0.2, "stumble": 0.1}  # in so many of the worlds

# Brokers in units and their numbers, each linked with the next one; a network has one depth everywhere.
NODES: dict[str, tuple[int, ...]] = {
    "north/hall/b1": (1, 1, 1),
    "north/hall/b2": (1, 1, 2),
    "north/yard/b3": (1, 2, 1),
    "south/quay/b4": (2, 1, 1),
    "south/quay/b5": (2, 1, 2),
}


# By the names of their random numbers, which stay whatever the functions are called.
_DRAWS: Mapping[str, Callable[[Random, DeliveryPlan], DeliveryPlan]] = {
    "draw_units": draw_units,
    "draw_scribes": draw_resuming_publishers,
    "draw_returns": draw_returns,
    "draw_rivals": draw_rivals,
    "draw_brief_lives": draw_brief_lives,
    "draw_scholars": draw_stored_readers,
    "draw_strangers": draw_strangers,
    "draw_rot": draw_rot,
    "draw_newcomers": draw_newcomers,
    "draw_lives": draw_lives,
    "draw_visits": draw_visits,
    "draw_ages": draw_ages,
}


def draw_fabric(seed: int) -> DeliveryPlan:
    """Links take longer to be found broken than letters to be sent again, so troubles last longer than in delivery."""
    random = Random(f"{seed}/fabric")
    duration = random.choice((1, 2, 3)) * SECOND
    plan = msgspec.structs.replace(
        draw_plan(random),
        duration=duration,
        pause=random.choice((60, 120, 200)) * MILLISECOND,
        events=random.randrange(6, 24),
        strikes=draw_strikes(random, duration),
    )
    for stream, draw in _DRAWS.items():
        plan = draw(Random(f"{seed}/fabric/{stream}"), plan)
    # A client whose clock was set back is refused by a broker at which a link of its former life is half-open.
    plan = msgspec.structs.replace(plan, clocks=False)
    strikes = [strike for strike in plan.strikes if strike[1] not in _NOT_HERE]
    for what, share in _OF_NODES.items():
        strikes += [(random.randrange(duration), what)] * (random.random() < share)
    strikes.sort()
    return msgspec.structs.replace(plan, strikes=tuple(strikes), nodes=tuple(NODES) if plan.nodes else ())


def draw_faults(seed: int) -> Faults:
    """Each seed has troubles of its own: all at once would hide what some of them do alone."""
    random = Random(f"{seed}/faults")

    def some(rate: float) -> float:
        return rate * random.uniform(0.3, 1.0) if random.random() < 0.4 else 0.0

    return Faults(
        weather=LinkFaults(
            mean_delay=random.choice((1, 1, 5)) * MILLISECOND,
            cut=0.1,
            damage=some(random.choice((0.01, 0.002))),
            damages=random.choice((DAMAGES, DAMAGES, *((kind,) for kind in DAMAGES))),
        ),
        disk=random.choice((SOUND_DISK, SOUND_DISK, DiskFaults(sync_error=0.03, full=0.05))),
        breaks=some(5.0),
        latest_notice=4 * SECOND,
        partitions=some(2.0),
        mean_partition=SECOND,
        crashes=some(3.0),
        mean_downtime=SECOND // 2,
        stalls=some(1.0),
        mean_stall=SECOND // 2,
        jumps=some(0.5),
        mean_jump=2 * SECOND,
        drift=random.choice((0, 0, 1000)),
    )
