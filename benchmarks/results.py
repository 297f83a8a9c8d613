"""Results: every sample of a run, their medians, and the file they are kept in."""

import statistics
from pathlib import Path

import msgspec

from benchmarks.trial import Figures
from benchmarks.workloads import Goal
from stentor.bench.machine import MachineDescription

BASE = "nats"


class Sample(msgspec.Struct, frozen=True):
    """One trial's figures, or why it failed."""

    workload: str
    contestant: str
    round: int
    figures: Figures
    error: str = ""


class Verdict(msgspec.Struct, frozen=True):
    """A goal, and what was measured."""

    workload: str
    contestant: str
    goal: str
    ratio: float
    met: bool


class Results(msgspec.Struct):
    """One run."""

    name: str
    date: str
    machine: MachineDescription
    settings: dict[str, float]
    versions: dict[str, str]
    skipped: dict[str, str] = {}
    samples: list[Sample] = []

    def median(self, workload: str, contestant: str, figure: str) -> float | None:
        """Over the rounds that succeeded; None if there is none."""
        values = [
            sample.figures[figure]
            for sample in self.samples
            if sample.workload == workload and sample.contestant == contestant and figure in sample.figures
        ]
        return statistics.median(values) if values else None

    def ratio(self, workload: str, contestant: str, figure: str, base: str = BASE) -> float | None:
        value, against = self.median(workload, contestant, figure), self.median(workload, base, figure)
        return value / against if value is not None and against else None

    def contestants(self, workload: str) -> list[str]:
        """Those that were tried, in the order of their first trial."""
        return list(dict.fromkeys(sample.contestant for sample in self.samples if sample.workload == workload))

    def errors(self) -> list[Sample]:
        return [sample for sample in self.samples if sample.error]

    def judge(self, goals: tuple[Goal, ...]) -> list[Verdict]:
        """Those of the goals for which both sides were measured."""
        verdicts = []
        for goal in goals:
            value = self.median(goal.workload, goal.contestant, goal.figure)
            against = self.median(goal.against_workload or goal.workload, goal.against, goal.figure)
            if value is not None and against:
                ratio = value / against
                verdicts.append(Verdict(goal.workload, goal.contestant, goal.text, ratio, goal.met(ratio)))
        return verdicts

    def medians(self) -> dict[str, dict[str, Figures]]:
        table: dict[str, dict[str, Figures]] = {}
        for sample in self.samples:
            for figure in sample.figures:
                value = self.median(sample.workload, sample.contestant, figure)
                if value is not None:
                    table.setdefault(sample.workload, {}).setdefault(sample.contestant, {})[figure] = value
        return table

    def write(self, path: Path, goals: tuple[Goal, ...]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            **msgspec.to_builtins(self),
            "medians": self.medians(),
            "goals": [msgspec.to_builtins(verdict) for verdict in self.judge(goals)],
        }
        path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
