"""`python -m benchmarks.matching`: the index, a loop and the paper's tree; tables, JSON and a plot."""

import os
import signal
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.matching import plot, report
from benchmarks.matching.contestants import ENTRIES
from benchmarks.matching.goals import judge
from benchmarks.matching.results import Results, Sample
from benchmarks.matching.session import Session, Settings, title, weight
from benchmarks.matching.trial import Task
from benchmarks.matching.workloads import MASKS, SIZES, WORKLOADS

RESULTS = Path(__file__).parents[1] / "results" / "matching"
QUICK_SIZES = (100, 1_000, 10_000)
_USUAL = [name for name, workload in WORKLOADS.items() if workload.usual]


def _chosen(text: str, known: Collection[str], usual: Collection[str], option: str) -> list[str]:
    """Names from a comma-separated list, in the order in which they are known."""
    names = [name.strip() for name in text.split(",") if name.strip()] or list(usual)
    if unknown := [name for name in names if name not in known]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(known)}", param_hint=option)
    return [name for name in known if name in names]


def _sizes(text: str, usual: Collection[int]) -> list[int]:
    try:
        sizes = [int(part.replace("_", "")) for part in text.split(",") if part.strip()] or list(usual)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a list of numbers like 100,10000", param_hint="--sizes") from None
    if min(sizes) < 1:
        raise typer.BadParameter("there is at least one filter", param_hint="--sizes")
    return sorted(set(sizes))


def _line(task: Task, sample: Sample) -> str:
    """One sample as a line of text."""
    if sample.error:
        return f"{title(task)}: failed, {sample.error}"
    rates = [
        f"{report.number(value / 1e3)} k/s ({figure})"
        for figure in sample.figures
        if (figure == "one" or figure.startswith("batch")) and (value := sample.median(figure)) is not None
    ]
    return f"{title(task)}: {', '.join(rates) or 'done'}"


def _measure(settings: Settings, console: Console) -> Results:
    """Run the trials behind a progress line; what is there is kept if the run is interrupted."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    session = Session(settings)
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=sum(weight(task) for task in session.tasks))

        def before(task: Task) -> None:
            progress.update(bar, description=title(task))

        def after(task: Task, sample: Sample) -> None:
            progress.advance(bar, weight(task))
            if not console.is_terminal or sample.error:
                console.print(_line(task, sample), highlight=False, markup=False)

        try:
            session.run(before, after)
        except KeyboardInterrupt:
            console.print("interrupted: this is what was measured so far", style="yellow")
            session.results.settings["interrupted"] = 1
    return session.results


def main(
    sizes: Annotated[str, typer.Option(help="Numbers of filters, comma-separated. Default: 100 to 1000000.")] = "",
    workloads: Annotated[str, typer.Option(help=f"Of {', '.join(WORKLOADS)}. Default: {', '.join(_USUAL)}.")] = "",
    only: Annotated[str, typer.Option(help=f"Contestants, of {', '.join(ENTRIES)}. Default: all.")] = "",
    masks: Annotated[str, typer.Option(help=f"Of {', '.join(MASKS)}. Default: both.")] = "",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; figures are medians over them, quote 3 or more.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.01, help="Seconds of one measurement.")] = 0.1,
    out: Annotated[Path, typer.Option(help="Directory of the JSON and the plots.")] = RESULTS,
    quick: Annotated[bool, typer.Option("--quick", help="Up to 10,000 filters, one short round: a minute.")] = False,
) -> None:
    """Measure how fast events find their filters, and what filters cost, from 100 to a million of them.

    Prints tables, and writes matching.json, matching.png and matching.svg. A wrong answer of any contestant is an
    error. Times are processor time; each trial has a process of its own.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a trial is stopped whoever ends us
    console = Console(width=None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "160")))
    settings = Settings(
        workloads=_chosen(workloads, WORKLOADS, _USUAL, "--workloads"),
        masks=_chosen(masks, MASKS, MASKS, "--masks"),
        contestants=_chosen(only, ENTRIES, ENTRIES, "--only"),
        sizes=_sizes(sizes, QUICK_SIZES if quick else SIZES),
        rounds=1 if quick else rounds,
        seconds=0.05 if quick else seconds,
    )
    results = _measure(settings, console)
    report.show(results, console)
    results.write(out / "matching.json", judge(results))
    plot.draw(results, out / "matching")
    console.print(f"written: {out}/matching.json, .png and .svg", highlight=False)
    if results.errors() or "interrupted" in results.settings:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
