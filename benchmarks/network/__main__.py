"""`python -m benchmarks.network`: what a network of brokers costs; tables, JSON and a plot."""

import datetime
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.network import failing, growth, hops, plot, report, settling, traffic
from benchmarks.network.results import Results
from stentor.bench import machine

RESULTS = Path(__file__).parents[1] / "results" / "network"


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of what is timed with real processes.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.05, help="Seconds of processor time of one measurement.")] = 1.0,
    only: Annotated[str, typer.Option(help="Parts, comma-separated. Default: all.")] = "",
    out: Annotated[str, typer.Option(help="Name of the JSON and the PNG in benchmarks/results/network.")] = "network",
) -> None:
    """Measure the parts of what a network costs, and write benchmarks/results/network/NAME.json."""
    parts: dict[str, Callable[[], Any]] = {
        "hops": lambda: hops.measure(seconds),
        "traffic": traffic.measure,
        "profiles": growth.profiles,
        "settling": settling.measure,
        "joining": growth.joining,
        "failing": lambda: failing.measure(rounds),
        "graph": growth.holding,
    }
    chosen = [part.strip() for part in only.split(",") if part.strip()] or list(parts)
    if unknown := [part for part in chosen if part not in parts]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(parts)}", param_hint="--only")
    console = Console(width=None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "160")))
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    results = Results(date=now, machine=machine.describe())
    for part in chosen:
        noise = machine.Noise()
        with console.status(part):
            setattr(results, part, parts[part]())
        results.noise_cores[part] = round(noise.cores(), 2)
    report.show(results, console)
    results.write(RESULTS / f"{out}.json")
    plot.draw(results, RESULTS / f"{out}.png")
    console.print(f"written: {RESULTS / out}.json and .png", highlight=False)


if __name__ == "__main__":
    typer.run(main)
