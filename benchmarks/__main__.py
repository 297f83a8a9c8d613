"""`python -m benchmarks`: Stentor, nats-server, mosquitto and redis side by side; tables, JSON and a plot."""

import os
import signal
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks import plot, report
from benchmarks.compiler import CompilerError
from benchmarks.results import Results, Sample
from benchmarks.session import Session, Settings
from benchmarks.targets import TARGETS
from benchmarks.workloads import GOALS, WORKLOADS, Workload

RESULTS = Path(__file__).parent / "results"


def _chosen(text: str, known: Collection[str], option: str) -> list[str]:
    """Names from a comma-separated list, in the order in which they are known."""
    names = [name.strip() for name in text.split(",") if name.strip()] or list(known)
    if unknown := [name for name in names if name not in known]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(known)}", param_hint=option)
    return [name for name in known if name in names]


def _line(sample: Sample) -> str:
    """One sample as a line of text."""
    if sample.error:
        return f"{sample.workload} {sample.round} {sample.contestant}: failed, {sample.error}"
    parts = [f"{report.thousands(sample.figures['rate'])} k/s"] if "rate" in sample.figures else []
    parts += [f"{name} {sample.figures[name]:,.0f} µs" for name in ("p50", "p99", "p999") if name in sample.figures]
    return f"{sample.workload} {sample.round} {sample.contestant}: {', '.join(parts)}"


def _measure(settings: Settings, names: list[str], workloads: list[Workload], console: Console) -> Results:
    """Run the trials behind a progress line; what is there is kept if the run is interrupted."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)

        def done(sample: Sample) -> None:
            progress.advance(task)
            if not console.is_terminal or sample.error:
                console.print(_line(sample), highlight=False, markup=False)

        with Session(settings, names, lambda text: progress.update(task, description=text)) as session:
            progress.update(task, total=len(session.steps(workloads)) * settings.rounds)
            try:
                session.run(workloads, done)
            except KeyboardInterrupt:
                console.print("interrupted: this is what was measured so far", style="yellow")
                session.results.settings["interrupted"] = 1
        return session.results


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; figures are medians over them, quote 3 or more.")] = 3,
    duration: Annotated[float, typer.Option(min=0.2, help="Seconds of one trial.")] = 2.0,
    only: Annotated[str, typer.Option(help=f"Workloads, comma-separated: {', '.join(WORKLOADS)}. Default: all.")] = "",
    targets: Annotated[str, typer.Option(help=f"Brokers, comma-separated: {', '.join(TARGETS)}. Default: all.")] = "",
    out: Annotated[str, typer.Option(help="Name of the JSON and the PNG in benchmarks/results.")] = "latest",
    settle: Annotated[float, typer.Option(min=0, help="Seconds to wait for a quiet machine before a trial.")] = 8.0,
    install: Annotated[bool, typer.Option(help="Install missing peers with apt-get, if this is root.")] = True,
) -> None:
    """Measure Stentor and its peers in one run on this machine, each driven in its own raw bytes.

    Prints rates and ratios against nats-server, and writes benchmarks/results/NAME.json and NAME.png.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # brokers are stopped whoever ends us
    console = Console(width=None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "160")))
    workloads = [WORKLOADS[name] for name in _chosen(only, WORKLOADS, "--only")]
    names = _chosen(targets, TARGETS, "--targets")
    try:
        results = _measure(Settings(out, rounds, duration, settle, install), names, workloads, console)
    except CompilerError as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(2) from None
    report.show(results, console)
    if not results.samples:
        raise typer.Exit(1)
    results.write(RESULTS / f"{out}.json", GOALS)
    plot.draw(results, RESULTS / f"{out}.png")
    console.print(f"written: {RESULTS / out}.json and .png", highlight=False)
    if results.errors() or "interrupted" in results.settings:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
