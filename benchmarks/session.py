"""A session: all brokers up side by side, and round after round of trials over them."""

import datetime
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from benchmarks import clients, trial
from benchmarks.clients import pair
from benchmarks.load import Generator
from benchmarks.process import StartError
from benchmarks.results import Results, Sample
from benchmarks.targets import TARGETS
from benchmarks.targets.target import Target, TargetError
from benchmarks.trial import Contestant, Cost, Figures
from benchmarks.workloads import Kind, Workload
from stentor.bench import machine


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line asks for."""

    name: str
    rounds: int
    seconds: float
    patience: float  # seconds to wait for a quiet machine before each trial
    install: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One trial to come: what is tried, and how."""

    workload: Workload
    contestant: str
    run: Callable[[], Figures]


class Session(AbstractContextManager["Session"]):
    """Brokers live as long as the session; files go with it."""

    def __init__(self, settings: Settings, targets: Sequence[str], say: Callable[[str], None]) -> None:
        self._settings, self._say = settings, say
        self._stack = ExitStack()
        self._wanted = targets
        self._targets: dict[str, Target] = {}
        self.results = Results(
            name=settings.name,
            date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            machine=machine.describe(),
            settings={"rounds": settings.rounds, "seconds": settings.seconds},
            versions={},
        )

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stentor-bench-")))
            self._directory.chmod(0o755)  # mosquitto gives root up and must still read its files
            self._generator = Generator(self._directory)
            for name in self._wanted:
                self._start(TARGETS[name](), stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, target: Target, stack: ExitStack) -> None:
        self._say(f"starting {target.name}")
        stack.callback(target.stop)
        try:
            self.results.versions[target.name] = target.prepare(self._directory, self._settings.install)
            target.start(self._directory / target.name)
        except (TargetError, StartError, OSError, subprocess.SubprocessError) as error:
            self.results.skipped[target.name] = str(error)
            target.stop()
        else:
            self._targets[target.name] = target

    def steps(self, workloads: Sequence[Workload]) -> list[Step]:
        """The trials of one round, workload by workload."""
        return [step for workload in workloads for step in self._steps(workload)]

    def _steps(self, workload: Workload) -> Iterator[Step]:
        if workload.kind is Kind.CLIENTS:
            yield from self._client_steps(workload)
            return
        for target in self._targets.values():
            for batch in workload.batches_of(target):
                if workload.suits(target):
                    contestant = Contestant(target, batch)
                    yield Step(workload, contestant.name, self._attempt(contestant, workload))

    def _attempt(self, contestant: Contestant, workload: Workload) -> Callable[[], Figures]:
        return lambda: trial.attempt(self._generator, contestant, workload, self._settings.seconds)

    def _client_steps(self, workload: Workload) -> Iterator[Step]:
        for name, entry in clients.DRIVERS.items():
            target = self._targets.get(entry.broker)
            if target is None:
                continue
            try:
                entry.load()
            except ImportError as error:
                self.results.skipped[name] = str(error)
            else:
                yield Step(workload, name, self._pair(name, target, workload))

    def _pair(self, name: str, target: Target, workload: Workload) -> Callable[[], Figures]:
        def run() -> Figures:
            assert target.server is not None
            cost = Cost(target.server)
            figures = pair.measure(name, target.port, workload.size, self._settings.seconds)
            return figures | {"cpu_cores": cost.figures(0)["cpu_cores"]}

        return run

    def run(self, workloads: Sequence[Workload], done: Callable[[Sample], None]) -> None:
        """Workload by workload, its contestants in turn in every round, so that drift hits all of them alike."""
        for workload in workloads:
            steps = self.steps([workload])
            for number in range(1, self._settings.rounds + 1):
                for step in steps:
                    sample = self._sample(step, number)
                    self.results.samples.append(sample)
                    done(sample)

    def _sample(self, step: Step, number: int) -> Sample:
        self._say(f"{step.workload.title}, round {number} of {self._settings.rounds}: {step.contestant}")
        machine.await_quiet(self._settings.patience)
        try:
            return Sample(step.workload.name, step.contestant, number, step.run())
        except Exception as error:  # one failed trial is a result too, and must not end the run
            return Sample(step.workload.name, step.contestant, number, {}, f"{type(error).__name__}: {error}")
