"""Results: every sample of a run, and the file they are kept in."""

import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.matching.trial import Rounds
from stentor.bench.machine import QUIET, MachineDescription


class Sample(msgspec.Struct, frozen=True):
    """One trial's figures, a value for each round, or why it failed."""

    workload: str
    masks: str
    contestant: str
    size: int
    figures: Rounds
    error: str = ""

    @property
    def key(self) -> tuple[str, str, str, int]:
        return self.workload, self.masks, self.contestant, self.size

    def median(self, figure: str) -> float | None:
        values = self.figures.get(figure)
        return statistics.median(values) if values else None


class Results(msgspec.Struct):
    """One run."""

    date: str
    machine: MachineDescription
    settings: dict[str, float]
    skipped: dict[str, list[str]] = {}  # who was not tried from where on and why, with the workloads
    samples: list[Sample] = []

    def find(self, workload: str, masks: str, contestant: str, size: int) -> Sample | None:
        wanted = (workload, masks, contestant, size)
        return next((each for each in self.samples if each.key == wanted), None)

    def median(self, workload: str, masks: str, contestant: str, size: int, figure: str) -> float | None:
        sample = self.find(workload, masks, contestant, size)
        return None if sample is None else sample.median(figure)

    def of(self, workload: str) -> list[Sample]:
        return [sample for sample in self.samples if sample.workload == workload]

    def workloads(self) -> list[str]:
        return list(dict.fromkeys(sample.workload for sample in self.samples))

    def sizes(self, workload: str = "") -> list[int]:
        return sorted({each.size for each in self.samples if each.size and workload in ("", each.workload)})

    def errors(self) -> list[Sample]:
        return [sample for sample in self.samples if sample.error]

    def disturbed(self) -> list[float]:
        """Cores that others used, in the trials in which they used many."""
        return [noise for each in self.samples if (noise := each.median("noise_cores") or 0.0) > QUIET]

    def write(self, path: Path, verdicts: Sequence[msgspec.Struct]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        medians = [
            {
                **{name: getattr(sample, name) for name in ("workload", "masks", "contestant", "size")},
                **{figure: sample.median(figure) for figure in sample.figures},
            }
            for sample in self.samples
        ]
        content = {**msgspec.to_builtins(self), "medians": medians, "goals": msgspec.to_builtins(verdicts)}
        path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
