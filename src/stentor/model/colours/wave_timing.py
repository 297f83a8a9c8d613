"""How long waves take, and within which time a scope is well again whatever has happened to it.

Times follow from what is configured and never from what is measured: a bound that could be learnt could be learnt
wrong. A wave reaches everybody within D = h·δ. Whoever has heard of none for ξ' = ξ + D knows that something is wrong.
"""

import math

import msgspec

from stentor.model.errors import InvalidInput

_REBUILD_S = 0.5  # in which tables are made of a manifest: 64 members take milliseconds, busy machines a hundred times
_QUICKEST_PERIOD_S = 1.0  # by default: a wave costs a message and its answer for each broker
_DELAY_MAX_S = 0.1  # by default: crowded machines hold a process up for tens of milliseconds
_HEIGHT = 64  # by default: as many as a cluster has members
_DEGREE = 64
_DRAIN_WITHIN_S = 10.0  # by default: longer than a link that carries anything keeps a queue
_PREPARE_WITHIN_S = 30.0  # a broker that has just been started is there by then
_ROUNDING_S = 1e-6  # by which sums of decimals miss: 2 · (6 · 0.1) + 0.5 is a little more than 1.7


class ColourSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is configured of the colours of one scope; 0 leaves it to the defaults."""

    period: float = 0.0  # ξ: seconds from one wave to the next
    brokers_max: int = 0  # η: brokers that the scope has at most
    delay_max: float = 0.0  # δ_max: seconds that a wave needs from a parent to its child
    degree: int = 0  # b: children that a broker has at most
    height: int = 0  # h: brokers below the root on any way down, at most
    drain_within: float = 0.0  # seconds that a plan waits for what is under way by the topology before it
    audit: float = 0.0  # seconds in which everything that a broker holds of what members want is audited once
    roots: tuple[str, ...] = ()  # brokers that are to be the root, the first that can; then the others, by name


class WaveTiming(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one scope, in seconds, and the shape that its tree may have."""

    period: float
    delay_max: float
    height: int
    degree: int
    drain_within: float = _DRAIN_WITHIN_S
    audit: float = 0.0  # 0 leaves it to the audit how much it looks at in each round
    prepare_within: float = _PREPARE_WITHIN_S  # seconds after which a plan is undone whose links are not all there

    @property
    def crossing(self) -> float:
        """D: how long a wave needs to reach everybody, at most."""
        return self.height * self.delay_max

    @property
    def patience(self) -> float:
        """ξ': how long whoever is not the root waits for the next wave, before it knows that something is wrong."""
        return self.period + self.crossing

    @property
    def rejoining(self) -> float:
        """J: how long a request to rejoin and its answer take, and the dialling of a new parent, at most."""
        return 2 * self.crossing + 2 * self.delay_max

    @property
    def audit_rounds(self) -> int:
        """Return in how many rounds everything is audited once, at least one; 0 leaves that to the audit."""
        return max(1, int(self.audit / self.patience)) if self.audit else 0

    def bound(self, roots_lost: int = 0) -> float:
        """Return the time after the last fault within which the scope is well again.

        Damaged messages vanish (D), orphans notice (ξ') and rejoin (J), a wave reaches everybody (ξ'), and what owners
        say of themselves takes three rounds to get to everybody. What is damaged in an index is found by the audit, in
        one round unless more is configured. Each root that died with the others costs ξ' more.
        """
        audit = max(self.audit, self.patience)
        return self.crossing + self.rejoining + (5 + roots_lost) * self.patience + audit


def shortest_period(crossing: float) -> float:
    """Return the smallest ξ that works: everybody has heard and answered, and has rebuilt its tables."""
    return 2 * crossing + _REBUILD_S


def timing_of(settings: ColourSettings) -> WaveTiming:
    """Return the times of a scope; InvalidInput if they do not fit together."""
    delay_max = settings.delay_max or _DELAY_MAX_S
    height = settings.height or settings.brokers_max or _HEIGHT
    least = shortest_period(height * delay_max)
    period = settings.period or max(_QUICKEST_PERIOD_S, least)
    if period < least - _ROUNDING_S:
        raise InvalidInput(
            f"xi = {period:g} is too short for waves that take up to {height * delay_max:g} s "
            f"(height {height}, delta_max {delay_max:g}): the smallest that works is {_rounded_up(least):.10g}"
        )
    return WaveTiming(
        period=period,
        delay_max=delay_max,
        height=height,
        degree=settings.degree or _DEGREE,
        drain_within=settings.drain_within or _DRAIN_WITHIN_S,
        audit=settings.audit,
    )


def _rounded_up(seconds: float) -> float:
    """Return a time in whole milliseconds that is not less: whoever is told it writes it down, and it must work."""
    return math.ceil((seconds - _ROUNDING_S) * 1000) / 1000
