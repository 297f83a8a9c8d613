"""The plot: hops, links and profiles as one picture."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot

from benchmarks.network.results import Results

mpl.use("Agg")  # a picture in a file, on machines without a screen too

_RELAY, _MATCHING, _LEVELS = "#43a047", "#c0504d", ("#c0504d", "#8064a2", "#4472c4", "#1b5e20")


def draw(results: Results, path: Path) -> None:
    """A panel for each part that was measured; no picture if none was."""
    panels = [
        (_hops, results.hops),
        (_traffic, results.traffic),
        (_profiles, results.profiles),
    ]
    chosen = [panel for panel, rows in panels if rows]
    if not chosen:
        path.unlink(missing_ok=True)  # one of an earlier run would belie this one
        return
    figure, grid = pyplot.subplots(1, len(chosen), figsize=(5.2 * len(chosen), 4.2), squeeze=False)
    for axes, panel in zip(grid[0], chosen, strict=True):
        panel(axes, results)
        axes.tick_params(labelsize=8)
    about = results.machine
    figure.suptitle(
        f"A network of brokers\n{about.processors} x {about.model}, {about.python}, {results.date}", fontsize=9
    )
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _hops(axes: Any, results: Results) -> None:
    for batch, style in ((1, "--"), (100, "-")):
        rows = [row for row in results.hops if row["batch"] == batch]
        for name, figure, colour in (("matching", "matching_us", _MATCHING), ("relay", "relay_us", _RELAY)):
            points = [(row["filters"], row[figure]) for row in rows]
            axes.plot(*zip(*points, strict=True), style, color=colour, marker="o", label=f"{name}, parcels of {batch}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("filters at the level", fontsize=8)
    axes.set_ylabel("µs of processor time for a parcel", fontsize=8)
    axes.set_title("a relay hop and a matching hop", fontsize=9)
    axes.legend(fontsize=8, frameon=False, loc="center right", bbox_to_anchor=(1.0, 0.35))


def _traffic(axes: Any, results: Results) -> None:
    names = [f"{row['network']}\n{row['wanted']}" for row in results.traffic]
    for offset, policy, colour in ((-0.2, "flooding", _MATCHING), (0.2, "content", _RELAY)):
        places = [place + offset for place in range(len(names))]
        axes.bar(places, [row[f"{policy}_events"] for row in results.traffic], 0.4, color=colour, label=policy)
    axes.set_xticks(range(len(names)), names, fontsize=7)
    axes.set_yscale("log")
    axes.set_ylabel("events on links, of 1,000 published", fontsize=8)
    axes.set_title("flooding and content routing", fontsize=9)
    axes.legend(fontsize=8, frameon=False)


def _profiles(axes: Any, results: Results) -> None:
    for level, colour in enumerate(_LEVELS):
        rows = [row for row in results.profiles if row["level"] == level]
        if rows:
            points = [(row["predicates"], row["wants"]) for row in rows]
            axes.plot(*zip(*points, strict=True), color=colour, marker="o", label=f"level {level}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("predicates of clients behind a member", fontsize=8)
    axes.set_ylabel("wants that are told", fontsize=8)
    axes.set_title("profiles", fontsize=9)
    axes.legend(fontsize=8, frameon=False)
