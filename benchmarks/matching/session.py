"""A session: all trials of a run, one after the other, each in a process of its own."""

import datetime
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.matching.contestants import ANY, ENTRIES
from benchmarks.matching.reading import READING
from benchmarks.matching.results import Results, Sample
from benchmarks.matching.trial import Rounds, Task
from benchmarks.matching.workloads import WORKLOADS
from stentor.bench import machine

ROOT = Path(__file__).parents[2]
PATIENCE = 600.0  # seconds for one trial


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run measures, and how long."""

    workloads: Sequence[str]
    masks: Sequence[str]
    contestants: Sequence[str]
    sizes: Sequence[int]
    rounds: int
    seconds: float


class Session:
    """The trials, and what came of them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.results = Results(
            date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            machine=machine.describe(),
            settings={"rounds": settings.rounds, "seconds": settings.seconds},
        )
        self.tasks = list(self._plan())

    def _plan(self) -> Iterator[Task]:
        settings = self._settings
        for workload in settings.workloads:
            yield Task(workload, ANY, READING, 0, settings.rounds, settings.seconds)
            for size in settings.sizes:
                for entry in (ENTRIES[name] for name in settings.contestants):
                    if size > entry.limit(workload):
                        key = f"{entry.title} beyond {entry.limit(workload):,} filters: {entry.why}"
                        if workload not in (left_out := self.results.skipped.setdefault(key, [])):
                            left_out.append(workload)
                        continue
                    for masks in settings.masks if entry.by_masks else (ANY,):
                        yield Task(workload, masks, entry.name, size, settings.rounds, settings.seconds)

    def run(self, before: Callable[[Task], None], after: Callable[[Task, Sample], None]) -> None:
        for task in self.tasks:
            before(task)
            sample = _sample(task)
            self.results.samples.append(sample)
            after(task, sample)


def title(task: Task) -> str:
    if task.contestant == READING:
        return f"{task.workload}, reading texts"
    masks = "" if task.masks == ANY else f", {task.masks} masks"
    return f"{task.workload}, {task.size:,} filters{masks}: {ENTRIES[task.contestant].title}"


def weight(task: Task) -> float:
    """Roughly the seconds that a trial takes, for the progress bar."""
    return 1.5 + 4 * task.rounds * task.seconds + task.size * WORKLOADS[task.workload].toll


def _sample(task: Task) -> Sample:
    figures: Rounds = {}
    error = ""
    command = [sys.executable, "-m", "benchmarks.matching.worker", msgspec.json.encode(task).decode()]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        error = f"not finished after {PATIENCE:.0f} s"
    else:
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            error = lines[-1] if lines else f"ended with status {done.returncode}"
        else:
            figures = msgspec.json.decode(done.stdout, type=Rounds)
    return Sample(task.workload, task.masks, task.contestant, task.size, figures, error)
