"""`python -m benchmarks.growth`: does a repository cost by what is open, or by what ever was?

Lives of publishers and named subscribers are measured with the real machines over real ledgers, each size in a process
of its own and in a time that is only counted; topics and steady load with processes, in real time.
"""

import asyncio
import datetime
import itertools
import json
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import matplotlib as mpl
import msgspec
import typer
from matplotlib import pyplot
from rich.console import Console
from rich.table import Table

from benchmarks.growth.point import Point
from benchmarks.growth.sizes import KINDS, run
from benchmarks.growth.steady import Look, steady
from stentor.bench import machine

mpl.use("Agg")
RESULTS = Path(__file__).parent.parent / "results"
SHORT = {"lives": (100, 1_000, 10_000), "topics": (10, 100, 1_000), "subscribers": (10, 100, 1_000)}
FULL = {"lives": (1_000, 10_000, 100_000, 1_000_000), "topics": (1_000, 10_000, 100_000)}
FULL |= {"subscribers": (100, 1_000, 10_000)}


_ROOM = 1.4  # above the highest value: a line that is flat would lie on the frame


def measure(kind: str, place: Path | None, size: int) -> Point:
    """In a process of its own, whose memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(run, (kind, place, size))


def table(points: list[Point]) -> Table:
    found = Table(
        "what",
        "how many",
        "idle, s of a core/min",
        "MiB",
        "opened s",
        "each, ms",
        "left",
        "highest MiB",
        box=None,
        pad_edge=False,
    )
    for each in points:
        found.add_row(
            each.kind,
            f"{each.size:,}",
            f"{each.idle_cpu_s:.3f}",
            f"{each.resident_mib:,.1f}",
            f"{each.opened_s:.2f}",
            f"{each.each_ms:.2f}",
            f"{each.held:,}",
            f"{each.highest_mib:,.0f}",
        )
    return found


def draw(points: list[Point], load: list[Look], path: Path) -> None:
    """A panel for each kind: idle processor time and memory by size; and both by time under steady load."""
    kinds = list(dict.fromkeys(each.kind for each in points))
    panels = len(kinds) + bool(load)
    figure, grid = pyplot.subplots(1, panels, figsize=(5.2 * panels, 3.8), squeeze=False)
    for axes, kind in zip(grid.flat, kinds, strict=False):
        mine = [each for each in points if each.kind == kind]
        sizes = [each.size for each in mine]
        axes.plot(sizes, [each.idle_cpu_s for each in mine], "o-", color="#1b5e20", label="idle, s of a core/min")
        axes.set(xscale="log", title=kind, ylim=(0, _ROOM * max(each.idle_cpu_s for each in mine)))
        other = axes.twinx()
        other.plot(sizes, [each.resident_mib for each in mine], "s--", color="#4472c4", label="MiB")
        other.set_ylim(0, _ROOM * max(each.resident_mib for each in mine))
        axes.legend(loc="upper left", fontsize=8)
        other.legend(loc="lower right", fontsize=8)
    if load:
        _draw_load(grid.flat[-1], load)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw_load(axes: Any, load: list[Look]) -> None:
    minutes = [each.at_s / 60 for each in load]
    axes.plot(minutes, [each.repository_mib for each in load], color="#4472c4", label="repository, MiB")
    axes.plot(minutes, [each.broker_mib for each in load], color="#c55a11", label="broker, MiB")
    axes.set(title="steady load", xlabel="minutes", ylim=(0, None))
    axes.legend(loc="lower left", fontsize=8)
    every = max(len(load) // 60, 1)  # shares of single looks are mostly noise
    marks = load[::every]
    shares = [100 * (late.cpu_s - early.cpu_s) / (late.at_s - early.at_s) for early, late in itertools.pairwise(marks)]
    other = axes.twinx()
    other.plot([each.at_s / 60 for each in marks[1:]], shares, color="#1b5e20", lw=0.8, label="both, % of a core")
    other.set_ylim(0, None)
    other.legend(loc="lower right", fontsize=8)


def _describe(load: list[Look]) -> str:
    """Return what the second and the last third of a steady load took, one after the other."""
    third = max(len(load) // 3, 1)
    parts = []
    for part in (load[third : 2 * third], load[2 * third :]):
        mib = max(each.broker_mib + each.repository_mib for each in part)
        share = (part[-1].cpu_s - part[0].cpu_s) / max(part[-1].at_s - part[0].at_s, 1)
        parts.append(f"{mib:,.1f} MiB and {100 * share:.1f} % of a core")
    return f"{', at last '.join(parts)}; {load[-1].taken:,} events taken"


def main(
    full: Annotated[bool, typer.Option("--full", help="Up to a million lives; takes about an hour.")] = False,
    kinds: Annotated[str, typer.Option(help="What grows, comma-separated.")] = ",".join(KINDS),
    sizes: Annotated[str, typer.Option(help="How many, comma-separated; else as many as fit the kind.")] = "",
    minutes: Annotated[float, typer.Option(min=0, help="Of steady load; 0 leaves it out.")] = 1.0,
    rate: Annotated[int, typer.Option(min=1, help="Events a second of the steady load.")] = 1000,
    place: Annotated[Path | None, typer.Option(help="Directory on the disk to use; else the temporary one.")] = None,
    out: Annotated[str, typer.Option(help="Name of the JSON and the plot in benchmarks/results.")] = "growth",
) -> None:
    """Let repositories grow old; write benchmarks/results/NAME.json and NAME.png."""
    console = Console(width=None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "120")))
    noise = machine.Noise()
    chosen = {kind: (FULL if full else SHORT)[kind] for kind in kinds.split(",") if kind}
    points: list[Point] = []
    for kind, usual in chosen.items():
        for size in tuple(map(int, sizes.split(","))) if sizes else usual:
            with console.status(f"{size:,} {kind}"):
                points.append(measure(kind, place, size))
        console.print(table([each for each in points if each.kind == kind]))
    load: list[Look] = []
    ended = ""
    if minutes:
        with console.status(f"{minutes:g} minutes of {rate:,} events/s"):
            ended = asyncio.run(steady(minutes * 60, rate, place, load))
        if ended:
            console.print(f"[red]the steady load ended early: {ended}")
        console.print(f"steady load, {minutes:g} min of {rate:,} events/s: {_describe(load)}")
    report: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": msgspec.to_builtins(machine.describe()),
        "noise_cores": round(noise.cores(), 2),
        "points": msgspec.to_builtins(points),
        "steady": {"rate": rate, "looks": load, "ended_early": ended},
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{out}.json").write_text(json.dumps(report, indent=1))
    draw(points, load, RESULTS / f"{out}.png")
    console.print(f"written: {RESULTS / out}.json, .png", highlight=False)


if __name__ == "__main__":
    typer.run(main)
