"""How a repository behaves towards clients and other repositories."""

import msgspec

from stentor.machine import MILLISECOND, SECOND


class RepositorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in nanoseconds."""

    name: str
    unit: str = ""  # that it serves; "" is everyone
    lake: bool = False  # what is forgotten may be in a lake
    window: int = 8192  # events that a subscriber is told of before it acknowledges some
    tail: int = 32 << 20  # bytes of the newest events in memory
    interval: int = 500 * MILLISECOND  # between states that repositories tell each other
    suspicion: int = 2 * SECOND  # of silence, after which another repository does not count
    patience: int = 30 * MILLISECOND  # before what is missing is asked for
    again: int = 250 * MILLISECOND  # before it is asked for again
    degrade: int = 10 * SECOND  # of silence, after which fewer copies than asked for are enough
    grace: int = 5 * SECOND  # that a repository gives others to speak before it goes on without them
    absence: int = 30 * SECOND  # the same, if they may have gone on without it
    void_after: int = 30 * SECOND  # of a publisher's silence, after which its gaps are closed: others wait behind them
    void_anew: int = 2 * SECOND  # … if it came back anew, and has forgotten what is missing
    collect_every: int = 5 * SECOND  # between looks at what may be forgotten
    rectify_after: int = SECOND  # of silence, after which a subscriber is told again
    unsaved: int = 64 << 20  # bytes that may wait for a disk that takes nothing
