"""The outcome of a simulated run."""

from collections.abc import Iterable

import msgspec

from stentor.simulation.replay_trace import ReplayTrace


class Anomaly(msgspec.Struct, frozen=True):
    """One thing that must not happen, and did. `kind` is the name that Jepsen's kafka checker has for it, if any."""

    kind: str
    detail: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The same scenario and seed have the same outcome, wherever and whenever they are run."""

    scenario: str
    seed: int
    digest: str
    anomalies: tuple[Anomaly, ...]
    statistics: dict[str, int]
    trace: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, scenario: str, seed: int, trace: ReplayTrace, anomalies: Iterable[Anomaly], statistics: dict[str, int]
    ) -> "Outcome":
        """Return what came of a run, as its trace and its checkers have it."""
        return cls(
            scenario=scenario,
            seed=seed,
            digest=trace.digest(),
            anomalies=tuple(anomalies),
            statistics=statistics,
            trace=tuple(trace.lines),
        )
