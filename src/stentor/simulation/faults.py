"""What may go wrong, how often and until when. Rates are per second of virtual time and for the whole world."""

import msgspec

from stentor.machine import MILLISECOND, SECOND
from stentor.simulation.disk import SOUND_DISK, DiskFaults

DAMAGES = ("lost", "repeated", "swapped", "flipped")


class LinkFaults(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to bytes under way on links."""

    shortest_delay: int = MILLISECOND // 10
    mean_delay: int = 2 * MILLISECOND
    cut: float = 0.3  # of writes arrive in two pieces
    merge: float = 0.3  # of writes arrive together with the one before
    damage: float = 0.0  # of writes to a stream are changed on the way, as a broken middlebox would
    damages: tuple[str, ...] = DAMAGES  # how
    loss: float = 0.0  # of datagrams
    duplication: float = 0.0  # of datagrams


FAIR_WEATHER = LinkFaults()


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """What breaks, and how often; by default nothing. From `until` on all is healed, and liveness can be checked."""

    until: int = 0
    weather: LinkFaults = FAIR_WEATHER
    disk: DiskFaults = SOUND_DISK

    breaks: float = 0.0  # a link is lost, with what is under way
    half_open: float = 0.5  # of lost links and crashes are noticed late, or never, on one side
    latest_notice: int = 60 * SECOND

    partitions: float = 0.0  # two nodes cannot reach each other
    asymmetric: float = 0.5  # of partitions stop one direction only
    partition_breaks: float = 0.3  # of partitions end in lost links, the others heal
    mean_partition: int = 5 * SECOND

    crashes: float = 0.0  # a node dies, and comes back
    power_cuts: float = 0.5  # of crashes take the disk's cache and every word to the peers with them
    mean_downtime: int = 3 * SECOND

    stalls: float = 0.0  # a process is not run for a while
    mean_stall: int = 2 * SECOND
    jumps: float = 0.0  # a node's clock jumps forward
    mean_jump: int = 10 * SECOND
    drift: int = 0  # largest deviation of a node's clock, in parts per million


CALM = Faults()
