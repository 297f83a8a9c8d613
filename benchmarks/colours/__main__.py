"""`python -m benchmarks.colours`: plans under load beside sudden changes, plans of many changes, and healing.

Real processes: 22 brokers in three clusters, four publishers and four subscribers. Links go and come back by plans, and
then at once, which is the control: it shows what is lost without colours.
"""

import datetime
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import matplotlib as mpl
import msgspec
import typer
from matplotlib import pyplot
from rich.console import Console
from rich.table import Table

from benchmarks.colours.load import Figures
from benchmarks.colours.loaded import SIZES, under_load
from benchmarks.colours.machines import audit, memory, waves
from benchmarks.colours.running import clusters, running, write
from stentor.bench import machine

mpl.use("Agg")  # a picture in a file, on machines without a screen too

RESULTS = Path(__file__).parents[1] / "results" / "colours"
_MANY = 15  # brokers of a cluster, all of them linked: enough for a hundred links
_CHANGES = 100
_PARTS = ("routes", "profiles", "pointers", "rounds")


class Results(msgspec.Struct):
    """One run."""

    date: str
    machine: machine.MachineDescription
    settings: dict[str, float]
    under_load: dict[str, Figures] = {}
    plans: dict[str, float] = {}
    many: dict[str, float] = {}
    healing: dict[str, list[dict[str, float]]] = {}
    waves: dict[str, float] = {}
    memory: dict[str, float] = {}
    audit: dict[str, float] = {}
    noise_cores: dict[str, float] = {}


def many(folder: Path) -> dict[str, float]:
    """How long a plan of many changes takes."""
    brokers = [f"u/b{number}" for number in range(_MANY)]
    links = [(one, other) for place, one in enumerate(brokers) for other in brokers[place + 1 :]]
    with running(write(folder / "stentor.toml", brokers, links)) as network:
        dearer = write(folder / "dearer.toml", brokers, links, dict.fromkeys(links[:_CHANGES], 2.0))
        (plan,) = network.tell("reconfigure", str(dearer))["plans"]
    return {"changes": len(plan["changes"]), "seconds": plan["ended"]["seconds"], "brokers": plan["ended"]["brokers"]}


def healing(folder: Path, trials: int) -> dict[str, list[dict[str, float]]]:
    """In how many rounds and seconds damage heals, of each part of the memory of some brokers."""
    brokers, links = clusters(*SIZES)
    found: dict[str, list[dict[str, float]]] = {part: [] for part in _PARTS}
    with running(write(folder / "stentor.toml", brokers, links)) as network:
        for part in _PARTS:
            for seed in range(trials):
                told = network.tell("corrupt", part, "--seed", str(seed))["healing"]
                found[part].append({key: told[key] for key in ("rounds", "seconds", "bound")})
    return found


def main(
    plans: Annotated[int, typer.Option(min=1, help="Links that are taken away and put back under load.")] = 20,
    rate: Annotated[
        float,
        typer.Option(min=0, help="Events a second of each of four publishers; 0: 80 % of the most without drops."),
    ] = 0.0,
    trials: Annotated[int, typer.Option(min=1, help="Damages of each part.")] = 5,
    only: Annotated[
        str, typer.Option(help="Parts, comma-separated: load, many, healing, waves, memory, audit. Default: all.")
    ] = "",
    out: Annotated[str, typer.Option(help="Name of the JSON and the PNG in benchmarks/results/colours.")] = "colours",
) -> None:
    """Measure what colours cost and save, and write benchmarks/results/colours/NAME.json."""
    parts: dict[str, Callable[[Path], dict[str, Any]]] = {
        "load": lambda folder: dict(zip(("under_load", "plans"), under_load(folder, plans, rate), strict=True)),
        "many": lambda folder: {"many": many(folder)},
        "healing": lambda folder: {"healing": healing(folder, trials)},
        "waves": lambda _: {"waves": waves()},
        "memory": lambda _: {"memory": memory()},
        "audit": lambda _: {"audit": audit()},
    }
    chosen = [part.strip() for part in only.split(",") if part.strip()] or list(parts)
    if unknown := [part for part in chosen if part not in parts]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(parts)}", param_hint="--only")
    console = Console(width=None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "120")))
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    results = Results(now, machine.describe(), {"plans": plans, "rate": rate, "trials": trials})
    for part in chosen:
        noise = machine.Noise()
        with console.status(part), tempfile.TemporaryDirectory() as folder:
            for field, measured in parts[part](Path(folder)).items():
                setattr(results, field, measured)
        results.noise_cores[part] = round(noise.cores(), 2)
    _show(results, console)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{out}.json").write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1))
    _draw(results, RESULTS / f"{out}.png")
    console.print(f"written: {RESULTS / out}.json and .png", highlight=False)


def _show(results: Results, console: Console) -> None:
    if results.under_load:
        quiet = results.under_load["quiet"]
        table = Table("", "events/s", "× quiet", "p50 ms", "p99 ms", "× quiet", "lost", "doubled", "reordered")
        for name, each in results.under_load.items():
            table.add_row(
                name,
                f"{each['rate']:,.0f}",
                f"{each['rate'] / quiet['rate']:.2f}",
                f"{each['p50_ms']:.1f}",
                f"{each['p99_ms']:.1f}",
                f"{each['p99_ms'] / quiet['p99_ms']:.2f}",
                *(f"{each[key]:,.0f}" for key in ("lost", "doubled", "reordered")),
            )
        console.print(f"Links that go and come back, {results.settings['plans']:.0f} times, under load")
        console.print(table)
        _show_plans(results.plans, quiet, console)
    if results.many:
        console.print("a plan of {changes:.0f} changes, {brokers:.0f} brokers: {seconds:.2f} s".format(**results.many))
    if results.healing:
        table = Table("damaged", "rounds, median", "seconds, median", "longest", "bound, seconds")
        for part, trials in results.healing.items():
            seconds = [each["seconds"] for each in trials]
            rounds = statistics.median(each["rounds"] for each in trials)
            row = (statistics.median(seconds), max(seconds), trials[0]["bound"])
            table.add_row(part, f"{rounds:g}", *(f"{each:.1f}" for each in row))
        console.print("Healing")
        console.print(table)
    if results.waves:
        console.print("a wave message {rotate_bytes:.0f} B, its answer {ack_bytes:.0f} B".format(**results.waves))
    if results.memory:
        one, every = results.memory["one_colour"], results.memory["all_colours"]
        console.print(f"tables of one colour {one:,.0f} B, of all three {every / one:.2f} times as much")
    if results.audit:
        line = "{subscriptions:,.0f} subscriptions that rest: {share:.2%} of a core; none: {share_without:.2%}"
        console.print(line.format(**results.audit))


def _show_plans(plans: dict[str, float], quiet: Figures, console: Console) -> None:
    console.print("{rate:,.0f} events/s of each publisher".format(**plans))
    console.print(
        "a plan took {seconds_median:.3f} s (median of {plans:.0f}), of which events waited {held_median:.3f} s, at "
        "most {held_most:.3f} s".format(**plans)
    )
    times = plans["elsewhere_p99_ms"] / quiet["p99_ms"]
    console.print(
        f"flows through no cluster with a plan: p99 {plans['elsewhere_p99_ms']:.1f} ms, {times:.2f} times the quiet one"
    )


def _draw(results: Results, path: Path) -> None:
    """Losses by plans and at once, and healing within the bound; no picture if neither was measured."""
    panels: list[Callable[[Any], None]] = []
    if results.under_load:

        def losses(axes: Any) -> None:
            names = list(results.under_load)
            axes.bar(names, [results.under_load[name]["lost"] for name in names], color="#c0504d")
            axes.set_ylabel("events lost")

        panels.append(losses)
    if results.healing:

        def healed(axes: Any) -> None:
            axes.boxplot([[each["seconds"] for each in trials] for trials in results.healing.values()])
            axes.set_xticklabels(list(results.healing))
            axes.axhline(next(iter(results.healing.values()))[0]["bound"], color="#c0504d", linestyle="--")
            axes.set_ylabel("seconds until healed; dashed: the bound")

        panels.append(healed)
    if not panels:
        path.unlink(missing_ok=True)
        return
    figure, grid = pyplot.subplots(1, len(panels), figsize=(5.2 * len(panels), 4.0), squeeze=False)
    for axes, panel in zip(grid[0], panels, strict=True):
        panel(axes)
    about = results.machine
    figure.suptitle(f"Colours\n{about.processors} x {about.model}, {about.python}, {results.date}", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    typer.run(main)
