"""`python -m benchmarks.durable`: acknowledged durable publishing, us beside redis, JetStream and RabbitMQ."""

import datetime
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, ClassVar, Protocol

import typer
from rich.console import Console

from benchmarks.durable import report
from benchmarks.durable.lane import SIZE, Outcome
from benchmarks.durable.nats import JetStream
from benchmarks.durable.rabbitmq import RabbitMq
from benchmarks.durable.redis import RedisStreams
from benchmarks.durable.report import BATCHED, WINDOWS, workload
from benchmarks.durable.stentor import OverSegments, OverSqlite
from benchmarks.process import Server, StartError
from benchmarks.results import Results, Sample
from benchmarks.targets.target import TargetError
from benchmarks.trial import Cost, Figures
from stentor.bench import machine

RESULTS = Path(__file__).parents[1] / "results"
CONTESTANTS = (OverSqlite, OverSegments, RedisStreams, JetStream, RabbitMq)


class Contestant(Protocol):
    name: ClassVar[str]
    promise: ClassVar[str]
    server: Server | None

    def prepare(self, directory: Path, install: bool) -> str: ...
    def start(self, directory: Path) -> None: ...
    def stop(self) -> None: ...
    def publish(self, window: int, seconds: float, batched: bool) -> Outcome: ...


def sync_microseconds(directory: Path, count: int = 200) -> float:
    """The median of a write and an fdatasync of one message, on the disk that all of them use."""
    path = directory / "sync"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.pwrite(descriptor, bytes(SIZE * count), 0)
    os.fsync(descriptor)
    taken = []
    for number in range(count):
        begin = time.perf_counter_ns()
        os.pwrite(descriptor, b"x" * SIZE, number * SIZE)
        os.fdatasync(descriptor)
        taken.append((time.perf_counter_ns() - begin) / 1e3)
    os.close(descriptor)
    path.unlink()
    return statistics.median(taken)


def _start(
    names: Sequence[str], directory: Path, install: bool, results: Results, stack: ExitStack
) -> list[Contestant]:
    """Those that could be started; the others are named with the reason."""
    running: list[Contestant] = []
    for kind in CONTESTANTS:
        if kind.name not in names:
            continue
        contestant: Contestant = kind()
        stack.callback(contestant.stop)
        try:
            results.versions[kind.name] = contestant.prepare(directory, install)
            contestant.start(directory / kind.name.replace(" ", "-"))
        except (TargetError, StartError, OSError, subprocess.SubprocessError) as error:
            results.skipped[kind.name] = str(error)
            contestant.stop()
        else:
            running.append(contestant)
    return running


def _try(contestant: Contestant, window: int, seconds: float, batched: bool) -> Figures:
    assert contestant.server is not None
    cost = Cost(contestant.server)
    outcome = contestant.publish(window, seconds, batched)
    return {"rate": outcome.acknowledged / outcome.seconds, **cost.figures(outcome.acknowledged)}


def _measure(
    running: Sequence[Contestant],
    rounds: int,
    seconds: float,
    settle: float,
    results: Results,
    say: Callable[[str], None],
) -> None:
    """Window by window, the contestants in turn in every round, so that drift hits all of them alike."""
    for window in WINDOWS:
        for number in range(1, rounds + 1):
            for contestant in running:
                for batched in (False, True) if "stentor" in contestant.name and window > 1 else (False,):
                    name = contestant.name + (BATCHED if batched else "")
                    machine.await_quiet(settle)
                    try:
                        sample = Sample(workload(window), name, number, _try(contestant, window, seconds, batched))
                    except Exception as error:  # one failed trial is a result too, and must not end the run
                        sample = Sample(workload(window), name, number, {}, f"{type(error).__name__}: {error}")
                    results.samples.append(sample)
                    rate = sample.figures.get("rate")
                    say(f"{window} in flight, {name}: {f'{rate / 1e3:,.1f} k/s' if rate else sample.error}")


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; figures are medians over them, quote 3 or more.")] = 3,
    duration: Annotated[float, typer.Option(min=0.2, help="Seconds of one trial.")] = 2.0,
    only: Annotated[str, typer.Option(help="Contestants, comma-separated. Default: all.")] = "",
    out: Annotated[str, typer.Option(help="Name of the JSON and the PNG in benchmarks/results.")] = "durable",
    settle: Annotated[float, typer.Option(min=0, help="Seconds to wait for a quiet machine before a trial.")] = 8.0,
    install: Annotated[bool, typer.Option(help="Install missing peers with apt-get, if this is root.")] = True,
) -> None:
    """Stentor with one repository beside redis streams, JetStream and a RabbitMQ quorum queue, on this machine."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # brokers are stopped whoever ends us
    console = Console(width=None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "160")))
    known = [kind.name for kind in CONTESTANTS]
    names = [name.strip() for name in only.split(",") if name.strip()] or known
    if unknown := [name for name in names if name not in known]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(known)}", param_hint="--only")
    results = Results(
        name=out,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine=machine.describe(),
        settings={"rounds": rounds, "seconds": duration},
        versions={},
    )
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stentor-bench-")))
        results.settings["fdatasync_us"] = sync_microseconds(directory)
        running = _start(names, directory, install, results, stack)
        try:
            _measure(running, rounds, duration, settle, results, lambda text: console.print(text, highlight=False))
        except KeyboardInterrupt:
            console.print("interrupted: this is what was measured so far", style="yellow")
    report.show(results, {kind.name: kind.promise for kind in CONTESTANTS}, console)
    results.write(RESULTS / f"{out}.json", report.goals())
    report.draw(results, RESULTS / f"{out}.png")
    console.print(f"written: {RESULTS / out}.json and .png", highlight=False)
    if results.errors():
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
