"""What a simulated run came to."""

import msgspec


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
