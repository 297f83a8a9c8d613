"""The suites: which of a side's benchmarks are run, in which parts, and how rows are read from what they write.

A part is what one process measures before the other side has its turn.
"""

import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.durable.stentor import OverSegments, OverSqlite
from benchmarks.results import Sample
from benchmarks.trial import Figures
from benchmarks.workloads import WORKLOADS

_OURS = "stentor"  # contestants whose names begin so
_COUNTED = {"traffic": "content_bytes", "profiles": "wants"}  # what is counted in a part, by the column that matters


class SuiteError(Exception):
    """A side's benchmark wrote no results; the text is the end of what it said."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How long a part takes."""

    seconds: float  # of one trial
    settle: float  # seconds that a trial waits for a quiet machine
    events: int  # that Spark reads


Row = tuple[str, Figures, str]  # its name, its figures, or why there are none


@dataclass(frozen=True, slots=True)
class Suite:
    module: str
    parts: tuple[str, ...]
    options: Callable[[Scale], list[str]]
    rows: Callable[[Any], Iterator[Row]]
    counted: tuple[str, ...] = ()  # parts that come to the same in every round: one is enough

    def rounds(self, part: str, wanted: int) -> int:
        return 1 if part in self.counted else wanted

    def measure(self, directory: Path, part: str, scale: Scale) -> list[Row]:
        """Run one part of one side once."""
        with tempfile.TemporaryDirectory(prefix="stentor-against-") as folder:
            out = Path(folder) / "measured"
            command = [
                str(directory / ".venv/bin/python"),
                "-m",
                self.module,
                "--rounds",
                "1",
                "--only",
                part,
                "--out",
                str(out),
                *self.options(scale),
            ]
            said = _run(command, directory, Path(folder) / "said")
            try:
                content = msgspec.json.decode(out.with_suffix(".json").read_bytes())
            except OSError:
                raise SuiteError(said[-400:] or "it ended without a word") from None
        return [(f"{part}: {name}", figures, error) for name, figures, error in self.rows(content)]


def _run(command: list[str], directory: Path, log: Path) -> str:
    """Return what a command said. If we are interrupted it stops its brokers before we go on."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=directory, stdout=output, stderr=subprocess.STDOUT)
        try:
            process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    return log.read_text(errors="replace").strip()


def _samples(content: Any) -> Iterator[Row]:
    """Rows of what benchmarks.results writes."""
    for sample in msgspec.convert(content["samples"], list[Sample]):
        if sample.contestant.startswith(_OURS):
            name = sample.contestant if sample.workload in WORKLOADS else f"{sample.workload}, {sample.contestant}"
            yield name, sample.figures, sample.error


def _network(content: Any) -> Iterator[Row]:
    """Rows of what benchmarks.network writes: processor time of hops, and what is counted."""
    for row in content["hops"]:
        for kind in ("relay", "matching"):
            yield f"{row['filters']:,} filters, {row['batch']} events, {kind}", {"us": row[f"{kind}_us"]}, ""
    for part, column in _COUNTED.items():
        for number, row in enumerate(content[part], 1):
            yield f"row {number}, {column}", {"count": row[column]}, ""
    for name in ("inside", "outside_most"):
        if content["joining"].get(name):
            yield name, {"count": content["joining"][name]}, ""


SUITES: Mapping[str, Suite] = {
    "bench": Suite(
        "benchmarks",
        tuple(WORKLOADS),
        lambda scale: [
            "--targets",
            _OURS,
            "--no-install",
            "--duration",
            str(scale.seconds),
            "--settle",
            str(scale.settle),
        ],
        _samples,
    ),
    "durable": Suite(
        "benchmarks.durable",
        (OverSqlite.name, OverSegments.name),
        lambda scale: ["--no-install", "--duration", str(scale.seconds), "--settle", str(scale.settle)],
        _samples,
    ),
    # not `failing`, whose figure is when in a heartbeat a broker was killed, nor `settling`, which depends on disks
    "network": Suite(
        "benchmarks.network",
        ("hops", "traffic", "profiles", "joining"),
        lambda scale: ["--seconds", str(scale.seconds)],
        _network,
        counted=("traffic", "profiles", "joining"),
    ),
    "spark": Suite(
        "benchmarks.spark",
        ("source",),
        lambda scale: ["--events", str(scale.events), "--settle", str(scale.settle)],
        _samples,
    ),
}
