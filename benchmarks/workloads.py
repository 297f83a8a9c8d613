"""Workloads: the columns of the goals' table, with the ratios that Stentor wants to reach."""

import enum
from dataclasses import dataclass

from benchmarks.targets.target import Target

LATENCY_RATE = 1000  # messages a second
SOFT_FRAME = 64 << 10  # a batch is closed when it gets near this, so batches of large bodies are smaller


class Kind(enum.Enum):
    """How a workload is measured."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
    CLIENTS = "clients"


@dataclass(frozen=True, slots=True)
class Workload:
    """Who publishes what to whom."""

    name: str
    title: str
    kind: Kind = Kind.THROUGHPUT
    size: int = 256
    subscribers: int = 1
    topics: int = 1  # each with its own subscribers, published in turn
    publishers: int = 1  # more than one: each sends one frame at a time
    batches: tuple[int, ...] = (1, 32, 100)
    attributes: bool = False
    where: str = ""

    def suits(self, target: Target) -> bool:
        """Whether the target can do this at all."""
        return (target.attributes or not self.attributes) and (target.topics or self.topics == 1)

    def batches_of(self, target: Target) -> list[int]:
        """The batches to try, without those that come to the same frames as a larger one."""
        batches = [batch for batch in target.batches if batch in self.batches]
        largest = {self.batch(batch): batch for batch in sorted(batches)}
        return sorted(largest.values())

    def batch(self, wanted: int) -> int:
        """Events that a client would put into one frame, when it wants this many."""
        return max(1, min(wanted, SOFT_FRAME // self.size))


WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("16B", "16 B", size=16),
        Workload("256B", "256 B"),
        Workload("8KiB", "8 KiB", size=8192),
        Workload("fanout", "1→20, 256 B", subscribers=20),
        Workload("topics", "16 topics interleaved", topics=16),
        Workload("publishers", "64 publishers, unbatched", publishers=64, batches=(1,)),
        Workload("attributes", "two attributes, no filter", batches=(32, 100), attributes=True),
        Workload(
            "filter", "two attributes, filter takes 10 %", batches=(32, 100), attributes=True, where="level >= 90"
        ),
        Workload("latency", f"latency at {LATENCY_RATE} msg/s, 256 B", kind=Kind.LATENCY, batches=(1,)),
        Workload("clients", "Python clients, 256 B", kind=Kind.CLIENTS, batches=(1,)),
    )
}


@dataclass(frozen=True, slots=True)
class Goal:
    """`figure` of `contestant`, divided by that of a peer or of another workload, against a bound."""

    workload: str
    contestant: str
    figure: str
    against: str  # a contestant
    bound: float
    at_most: bool = False  # for latencies
    against_workload: str = ""  # the same workload unless told

    def met(self, ratio: float) -> bool:
        return ratio <= self.bound if self.at_most else ratio >= self.bound

    @property
    def text(self) -> str:
        base = f"{self.against} on {self.against_workload}" if self.against_workload else self.against
        return f"{self.figure} {'≤' if self.at_most else '≥'} {self.bound:g}x {base}"


GOALS: tuple[Goal, ...] = (
    Goal("16B", "stentor", "rate", "nats", 1.5),
    Goal("16B", "stentor x100", "rate", "nats", 8),
    Goal("256B", "stentor", "rate", "nats", 1.2),
    Goal("256B", "stentor x100", "rate", "nats", 3),
    Goal("8KiB", "stentor", "rate", "nats", 1),
    Goal("fanout", "stentor", "rate", "nats", 3),
    Goal("topics", "stentor", "rate", "nats", 1),
    Goal("topics", "stentor x100", "rate", "nats", 3),
    Goal("publishers", "stentor", "rate", "nats", 1),
    Goal("latency", "stentor", "p50", "redis", 1.3, at_most=True),
    Goal("latency", "stentor", "p99", "nats", 1, at_most=True),
    Goal("filter", "stentor x32", "rate", "stentor x32", 0.5, against_workload="attributes"),
    Goal("filter", "stentor x100", "rate", "stentor x100", 0.5, against_workload="attributes"),
)
