"""`python -m benchmarks.colours`: plans under load beside sudden changes, plans of many changes, and healing.

Real processes: 22 brokers in three clusters, four publishers and four subscribers. Links go and come back by plans, and
then at once, which is the control: it shows what is lost without colours.
"""

import asyncio
import datetime
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Annotated, Any

import matplotlib as mpl
import msgspec
import typer
from matplotlib import pyplot
from rich.console import Console
from rich.table import Table

from benchmarks.colours.load import Figures, Load
from benchmarks.colours.running import Link, Network, clusters, running, write
from stentor.bench import machine
from stentor.model.colours.wave_messages import Ack, Rotate
from stentor.wire import frame

mpl.use("Agg")  # a picture in a file, on machines without a screen too

RESULTS = Path(__file__).parents[1] / "results" / "colours"
_SIZES = (7, 7, 8)
_MANY = 15  # brokers of a cluster, all of them linked: enough for a hundred links
_CHANGES = 100
_QUIET = 6.0  # seconds before anything happens
_PARTS = ("routes", "profiles", "pointers", "rounds")


class Results(msgspec.Struct):
    """One run."""

    date: str
    machine: machine.MachineDescription
    settings: dict[str, float]
    under_load: dict[str, Figures] = {}
    many: dict[str, float] = {}
    healing: dict[str, list[dict[str, float]]] = {}
    waves: dict[str, float] = {}
    noise_cores: dict[str, float] = {}


def under_load(folder: Path, plans: int, rate: float) -> dict[str, Figures]:
    """Rates and delays before plans, during plans, and during the same changes at once."""
    brokers, links = clusters(*_SIZES)
    random = Random(1)
    inner = [link for link in links if link[0].split("/")[0] == link[1].split("/")[0]]
    drawn = [random.choice(inner) for _ in range(plans)]

    async def play(network: Network) -> dict[str, Figures]:
        load = Load(network.urls, brokers[3::6], brokers[::6], rate)
        spans: dict[str, tuple[float, float]] = {}

        async def during(name: str, work: Callable[[], Any]) -> None:
            begin = time.perf_counter()
            await asyncio.to_thread(work)
            spans[name] = begin, time.perf_counter()
            await asyncio.sleep(1.0)

        async with asyncio.TaskGroup() as group:
            await load.begin(group)
            await asyncio.sleep(2.0)
            await during("quiet", lambda: time.sleep(_QUIET))
            await during("plans", lambda: _toggle(network, drawn))
            await during("at once", lambda: _toggle(network, drawn, "--at-once"))
            load.end()
        return {name: load.figures(*span) for name, span in spans.items()}

    with running(write(folder / "stentor.toml", brokers, links)) as network:
        return asyncio.run(play(network))


def _toggle(network: Network, links: list[Link], *options: str) -> None:
    for near, far in links:
        network.say("link", "remove", near, far, *options)
        network.say("link", "add", near, far, "--cost", "1", *options)


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
    brokers, links = clusters(*_SIZES)
    found: dict[str, list[dict[str, float]]] = {part: [] for part in _PARTS}
    with running(write(folder / "stentor.toml", brokers, links)) as network:
        for part in _PARTS:
            for seed in range(trials):
                told = network.tell("corrupt", part, "--seed", str(seed))["healing"]
                found[part].append({key: told[key] for key in ("rounds", "seconds", "bound")})
    return found


def waves() -> dict[str, float]:
    """The bytes of a wave message and its answer if nothing has changed, with long names."""
    name = "continent/country/campus/broker-17"
    scope = name.rpartition("/")[0]
    rotate = Rotate(scope=scope, round=2**40, root=name, rank=4095, depth=3, manifest=2**63)
    answer = Ack(scope=scope, round=2**40, is_complete=True, brokers=64, height=5, confirmed=2**64 - 1, free=name)
    return {"rotate_bytes": len(frame.encode(rotate)), "ack_bytes": len(frame.encode(answer))}


def main(
    plans: Annotated[int, typer.Option(min=1, help="Links that are taken away and put back under load.")] = 20,
    rate: Annotated[float, typer.Option(min=1, help="Events a second of each of four publishers.")] = 500.0,
    trials: Annotated[int, typer.Option(min=1, help="Damages of each part.")] = 5,
    only: Annotated[str, typer.Option(help="Parts, comma-separated: load, many, healing, waves. Default: all.")] = "",
    out: Annotated[str, typer.Option(help="Name of the JSON and the PNG in benchmarks/results/colours.")] = "colours",
) -> None:
    """Measure what colours cost and save, and write benchmarks/results/colours/NAME.json."""
    parts: dict[str, tuple[str, Callable[[Path], Any]]] = {
        "load": ("under_load", lambda folder: under_load(folder, plans, rate)),
        "many": ("many", many),
        "healing": ("healing", lambda folder: healing(folder, trials)),
        "waves": ("waves", lambda _: waves()),
    }
    chosen = [part.strip() for part in only.split(",") if part.strip()] or list(parts)
    if unknown := [part for part in chosen if part not in parts]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(parts)}", param_hint="--only")
    console = Console(width=None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "120")))
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    results = Results(now, machine.describe(), {"plans": plans, "rate": rate, "trials": trials})
    for part in chosen:
        field, measure = parts[part]
        noise = machine.Noise()
        with console.status(part), tempfile.TemporaryDirectory() as folder:
            setattr(results, field, measure(Path(folder)))
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
