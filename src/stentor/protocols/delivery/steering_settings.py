"""How patient a client is with the repositories of its topic."""

import msgspec

from stentor.machine import MILLISECOND, SECOND


class SteeringSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long a client waits for whom; in nanoseconds."""

    grace: int = 20 * MILLISECOND  # for others, after the first repository that answered
    second_choice: int = 250 * MILLISECOND  # for others, if this one was left out
    first_pause: int = 100 * MILLISECOND  # between probes
    longest_pause: int = 2 * SECOND
    answer: int = 250 * MILLISECOND  # for the answer to a Recovery
    tries: int = 4
    left_out: int = 10 * SECOND  # a repository that failed us
    complaint: int = 5 * SECOND  # before the application is told what the trouble is
    look_after: int = 10 * SECOND  # away from home, before a client looks whether its home is well again
    look_longest: int = 120 * SECOND  # the same, if its home is silent, or had to be left again and again
