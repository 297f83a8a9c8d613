"""Results of a run: figures by part, what they mean against the goals, and the file they are kept in."""

import statistics
from collections.abc import Iterator
from pathlib import Path

import msgspec

from stentor.bench.machine import MachineDescription

Row = dict[str, float | str]


class Verdict(msgspec.Struct, frozen=True):
    """A goal, and what was measured; the worst counts."""

    goal: str
    measured: float
    met: bool


class Results(msgspec.Struct):
    """One run; parts that were not asked for are empty."""

    date: str
    machine: MachineDescription
    noise_cores: dict[str, float] = {}  # what others used, by part
    hops: list[Row] = []
    traffic: list[Row] = []
    profiles: list[Row] = []
    settling: list[Row] = []
    joining: Row = {}
    failing: dict[str, list[Row]] = {}
    graph: Row = {}

    def worst_heartbeats(self) -> float:
        return max(_number(each, "heartbeats") for each in self.failing["silent"])

    def median_gap(self, kind: str) -> float:
        return statistics.median(_number(each, "gap_s") for each in self.failing[kind])

    def verdicts(self) -> Iterator[Verdict]:
        for batch, bound, told in ((1, 1 / 3, "a third"), (100, 0.1, "a tenth")):
            ratios = [_number(row, "ratio") for row in self.hops if row["batch"] == batch]
            if ratios:
                yield Verdict(
                    f"a relay hop costs at most {told} of a matching one, batch {batch}",
                    max(ratios),
                    max(ratios) <= bound,
                )
        same = [_number(row, "events_ratio") for row in self.traffic if str(row["wanted"]).startswith("the same")]
        if same:
            yield Verdict("content routing sends 5 times less than flooding at 5 %", min(same), min(same) >= 5)
        if self.failing:
            worst = self.worst_heartbeats()
            yield Verdict("a silent broker is gone round within two heartbeats", worst, worst <= 2)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {**msgspec.to_builtins(self), "goals": msgspec.to_builtins(list(self.verdicts()))}
        path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")


def _number(row: Row, name: str) -> float:
    value = row[name]
    assert not isinstance(value, str), f"{name} is a number"
    return value
