"""The plot: events a second over the number of filters, a panel for each workload and kind of masks."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot

from benchmarks.matching.contestants import ANY, ENTRIES
from benchmarks.matching.goals import GOALS
from benchmarks.matching.results import Results
from benchmarks.matching.rows import Row, rows
from benchmarks.matching.workloads import MASKS, WORKLOADS

mpl.use("Agg")  # a picture in a file, on machines without a screen too

_FORMATS = ("png", "svg")
_COLOURS = {
    ("naive", "one"): "#9e9e9e",
    ("tree", "one"): "#c0504d",
    ("masks", "one"): "#1b5e20",
    ("masks", "batch1000"): "#43a047",
    ("lists", "one"): "#1f3f77",
    ("lists", "batch1000"): "#5b8fd6",
}  # what has no colour here is in the tables alone
_UNITS = ((1e6, "M"), (1e3, "k"))


def draw(results: Results, path: Path) -> None:
    """A row of panels for each kind of masks, as PNG and SVG; no picture if nothing was measured."""
    workloads = [name for name in results.workloads() if any(True for _ in rows(results, name))]
    kinds = [each for each in MASKS if any(sample.masks == each for sample in results.samples)] or [ANY]
    if not workloads:
        for suffix in _FORMATS:
            path.with_suffix(f".{suffix}").unlink(missing_ok=True)  # one of an earlier run would belie this one
        return
    size = (4.6 * len(workloads) + 0.4, 3.5 * len(kinds) + 1.3)
    figure, grid = pyplot.subplots(len(kinds), len(workloads), figsize=size, squeeze=False, sharex=True, sharey=True)
    for line, masks in zip(grid, kinds, strict=True):
        for axes, workload in zip(line, workloads, strict=True):
            _panel(axes, results, workload, masks)
        line[0].set_ylabel("events/s, processor time of one core", fontsize=8)
    for axes in grid[-1]:
        axes.set_xlabel("filters", fontsize=8)
    _legend(figure, grid)
    about, rounds = results.machine, results.settings["rounds"]
    figure.suptitle(
        f"Matching: events a second by number of filters, medians of {rounds:g} round{'s' if rounds > 1 else ''}\n"
        f"{about.processors} x {about.model}, {about.python}, {results.date}",
        fontsize=10,
    )
    figure.tight_layout(rect=(0, 0.5 / size[1], 1, 1))
    for suffix in _FORMATS:
        figure.savefig(path.with_suffix(f".{suffix}"), dpi=120)
    pyplot.close(figure)


def _panel(axes: Any, results: Results, workload: str, masks: str) -> None:
    for row in rows(results, workload):
        if row.masks in (masks, ANY) and (row.contestant, row.figure) in _COLOURS:
            _curve(axes, results, workload, row)
    for goal in GOALS:
        if (goal.workload, goal.contestant, goal.figure) == (workload, "masks", "batch1000"):
            colour = _COLOURS[goal.contestant, goal.figure]
            axes.axhline(goal.bound, label="goal of batches", color=colour, linestyle=":", linewidth=1.2)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(visible=True, which="major", color="#e0e0e0", linewidth=0.6)
    axes.set_axisbelow(True)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: _short(value))
        axis.set_minor_formatter(lambda *_: "")
    axes.tick_params(labelsize=8, labelbottom=True, labelleft=True)
    owners = "" if masks == ANY else f", {masks} masks"
    axes.set_title(f"{workload}: {WORKLOADS[workload].title}{owners}", fontsize=9)


def _curve(axes: Any, results: Results, workload: str, row: Row) -> None:
    points = [
        (size, value)
        for size in results.sizes(workload)
        if (value := results.median(workload, row.masks, row.contestant, size, row.figure)) is not None
    ]
    peer = ENTRIES[row.contestant].peer
    axes.plot(
        *zip(*points, strict=True),
        label=row.how,
        color=_COLOURS[row.contestant, row.figure],
        linestyle="--" if peer else "-",
        marker="o",
        markersize=3.5,
        linewidth=1.4 if peer else 1.8,
    )


def _legend(figure: Any, grid: Any) -> None:
    """One for all panels, below them."""
    lines = {label: line for axes in grid.flat for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(lines.values(), lines.keys(), loc="lower center", ncols=min(4, len(lines)), fontsize=8, frameon=False)


def _short(value: float) -> str:
    for unit, letter in _UNITS:
        if value >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"
