"""Results: every delay and flood of a run of the Narada benchmark, what follows from them, and their file."""

import statistics
from pathlib import Path
from typing import NamedTuple

import msgspec

from stentor.bench.machine import QUIET, MachineDescription
from stentor.bench.narada.paper import TABLE_1, PaperRow
from stentor.bench.narada.plan import TABLE_PAYLOAD, NaradaPlan
from stentor.bench.narada.statistic import Statistic, describe

LATENCY_GOAL = 3.0  # fdatasyncs that reliable delivery may take more than best effort
THROUGHPUT_GOAL = 0.5  # of the rate at best effort
RECOVERY_GOAL = 50.0  # times as fast as the paper's


class DelaySample(msgspec.Struct, frozen=True):
    """One topology and payload: each delay, in ms."""

    topology: str
    size: int
    plain: list[float]
    reliable: list[float]
    sync: list[float]
    noise_cores: float

    @property
    def overhead(self) -> float:
        """Of the medians, in ms."""
        return statistics.median(self.reliable) - statistics.median(self.plain)

    @property
    def overhead_in_syncs(self) -> float:
        return self.overhead / statistics.median(self.sync)


class FloodSample(msgspec.Struct, frozen=True):
    """One flood."""

    topology: str
    size: int
    reliable: bool
    rate: float  # events/s at the measuring subscriber
    others: float  # events/s at one of the others, on average
    noise_cores: float


class Rates(NamedTuple):
    """Events/s at the measuring subscriber, and at one of the others on average."""

    measured: float
    others: float


class PaperComparison(NamedTuple):
    """A row of table 1; `factor` is how many times as fast we are."""

    row: PaperRow
    ours: Statistic
    factor: float


class GoalVerdict(msgspec.Struct, frozen=True):
    """A goal, and what was measured."""

    goal: str
    value: float
    met: bool


class NaradaResults(msgspec.Struct):
    """The trials of one run of the Narada benchmark."""

    date: str
    version: str
    machine: MachineDescription
    plan: NaradaPlan
    clients: int = 0
    delays: list[DelaySample] = []
    floods: list[FloodSample] = []
    operations: dict[str, list[float]] = {}  # ms, by the keys of table 1
    interrupted: bool = False

    def delay(self, topology: str, size: int) -> DelaySample | None:
        found = [each for each in self.delays if (each.topology, each.size) == (topology, size)]
        return found[0] if found else None

    def topologies(self) -> list[str]:
        return sorted({each.topology for each in self.delays})

    def sizes(self) -> list[int]:
        return sorted({each.size for each in self.delays})

    def table_1(self) -> list[PaperComparison]:
        """The rows that were measured."""
        found = dict(self.operations)
        for each in self.delays:
            if each.size == TABLE_PAYLOAD:
                found[f"delivery {each.topology}"] = each.reliable
        ours = {key: describe(values) for key, values in found.items() if values}
        return [
            PaperComparison(row, ours[row.key], row.mean / ours[row.key].mean) for row in TABLE_1 if row.key in ours
        ]

    def rates(self, topology: str, reliable: bool) -> Rates | None:
        """Medians over the floods of a kind; None if there was none."""
        found = [each for each in self.floods if each.topology == topology and each.reliable is reliable]
        if not found:
            return None
        return Rates(statistics.median(each.rate for each in found), statistics.median(each.others for each in found))

    def throughput(self, topology: str) -> float | None:
        """Reliable against best effort, at the measuring subscriber."""
        plain, reliable = self.rates(topology, reliable=False), self.rates(topology, reliable=True)
        return reliable.measured / plain.measured if plain and reliable and plain.measured else None

    def judge(self) -> list[GoalVerdict]:
        verdicts = []
        for topology in self.topologies():
            delay = self.delay(topology, TABLE_PAYLOAD)
            if delay is not None:
                value = delay.overhead_in_syncs
                goal = f"{topology}: reliable − best effort ≤ {LATENCY_GOAL:g} fdatasyncs (medians, 8 KB)"
                verdicts.append(GoalVerdict(goal, value, value <= LATENCY_GOAL))
            ratio = self.throughput(topology)
            if ratio is not None:
                goal = f"{topology}: throughput ≥ {THROUGHPUT_GOAL:g}x of best effort (8 KB)"
                verdicts.append(GoalVerdict(goal, ratio, ratio >= THROUGHPUT_GOAL))
        for each in self.table_1():
            if each.row.key == "catching up":
                goal = f"recovery of 1,000 missed ≥ {RECOVERY_GOAL:g}x as fast as the paper's"
                verdicts.append(GoalVerdict(goal, each.factor, each.factor >= RECOVERY_GOAL))
        return verdicts

    def disturbed(self) -> list[float]:
        """Cores that others used, in the trials in which they used many."""
        noise = [each.noise_cores for each in self.delays] + [each.noise_cores for each in self.floods]
        return [cores for cores in noise if cores > QUIET]

    def content(self) -> bytes:
        """All of it as JSON."""
        table = [
            {"operation": each.row.operation, "paper": each.row.mean, "ours": each.ours, "factor": each.factor}
            for each in self.table_1()
        ]
        whole = {
            **msgspec.to_builtins(self),
            "figures": [_figures(each) for each in self.delays],
            "table_1": table,
            "goals": self.judge(),
        }
        return msgspec.json.format(msgspec.json.encode(whole), indent=1) + b"\n"

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.content())


def _figures(sample: DelaySample) -> dict[str, object]:
    return {
        "topology": sample.topology,
        "size": sample.size,
        "plain": describe(sample.plain),
        "reliable": describe(sample.reliable),
        "sync": describe(sample.sync),
        "overhead_in_syncs": sample.overhead_in_syncs,
    }
