"""Goals: what the index shall reach, and whether it does; of all masks and sizes that a goal names the worst counts."""

from dataclasses import dataclass

import msgspec

from benchmarks.matching.contestants import ANY
from benchmarks.matching.results import Results, Sample


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on a figure: at least so many a second, or at most so many microseconds."""

    text: str
    workload: str
    contestant: str
    figure: str
    bound: float
    least: int = 0  # filters
    most: int = 1_000_000
    at_most: bool = False
    inverse: bool = False  # the figure is a rate, and the bound a time


class Verdict(msgspec.Struct, frozen=True):
    """A goal, and the worst that was measured."""

    text: str
    measured: float
    where: str
    at_most: bool
    met: bool


def _one(size: int, bound: float) -> Goal:
    text = f"W2: an event against {size:,} filters ≤ {bound:g} µs"
    return Goal(text, "W2", "masks", "one", bound, size, size, at_most=True, inverse=True)


def _local(size: int, bound: float) -> Goal:
    text = f"W2: local lists, {size:,} subscriptions, batches of 1,000 ≥ {bound:,.0f} events/s"
    return Goal(text, "W2", "lists", "batch1000", bound, size, size)


def _change(workload: str, change: str, bound: float) -> Goal:
    text = f"{workload}: {change} ≤ {bound:g} µs up to 100,000 filters (median)"
    return Goal(text, workload, "masks", f"{change}_p50", bound, most=100_000, at_most=True)


GOALS: tuple[Goal, ...] = (
    _one(1_000, 6),
    _one(100_000, 12),
    _one(1_000_000, 15),
    Goal("W1: batches of 1,000 ≥ 400,000 events/s at every size", "W1", "masks", "batch1000", 400_000),
    Goal("W2: batches of 1,000 ≥ 400,000 events/s at every size", "W2", "masks", "batch1000", 400_000),
    Goal("W3: batches of 1,000 ≥ 50,000 events/s at every size", "W3", "masks", "batch1000", 50_000),
    Goal("W3: one event at a time ≥ 50,000 events/s at every size", "W3", "masks", "one", 50_000),
    *(_change(workload, "add", 25) for workload in ("W1", "W2", "W3")),
    *(_change(workload, "remove", 60) for workload in ("W1", "W2", "W3")),
    _local(10_000, 100_000),
    _local(100_000, 25_000),
)


def judge(results: Results, goals: tuple[Goal, ...] = GOALS) -> list[Verdict]:
    """Those of the goals for which something was measured."""
    verdicts = []
    for goal in goals:
        values = [
            (1e6 / value if goal.inverse else value, _place(sample))
            for sample in results.samples
            if (sample.workload, sample.contestant) == (goal.workload, goal.contestant)
            and goal.least <= sample.size <= goal.most
            and (value := sample.median(goal.figure)) is not None
        ]
        if values:
            worst, where = max(values) if goal.at_most else min(values)
            met = worst <= goal.bound if goal.at_most else worst >= goal.bound
            verdicts.append(Verdict(goal.text, worst, where, goal.at_most, met))
    return verdicts


def _place(sample: Sample) -> str:
    return f"{sample.size:,} filters" + ("" if sample.masks == ANY else f", {sample.masks} masks")
