"""The plots of the Narada benchmark, after the paper's figures 3 to 6; matplotlib is loaded only here."""

from pathlib import Path
from typing import Any

from stentor.bench.narada.results import NaradaResults
from stentor.bench.narada.statistic import describe
from stentor.bench.narada.topologies import TOPOLOGIES

_COLOURS = {"A": "#1b5e20", "B": "#4472c4", "C": "#c0504d"}
_FIGURES = {"A": 3, "B": 4, "C": 5}


def draw(results: NaradaResults, path: Path) -> list[Path]:
    """A panel for each topology, and one with all of them; ImportError without matplotlib."""
    import matplotlib as mpl

    mpl.use("Agg")  # a picture in a file, on machines without a screen too
    from matplotlib import pyplot

    topologies = results.topologies()
    if not topologies:
        return []
    count = len(topologies) + 1
    figure, grid = pyplot.subplots(1, count, figsize=(4.2 * count, 4.0), squeeze=False)
    for axes, name in zip(grid[0], topologies, strict=False):
        _line(axes, results, name, "plain", "best effort", "#9e9e9e")
        _line(axes, results, name, "reliable", "reliable", _COLOURS[name])
        _dress(axes, f"topology {name}: {TOPOLOGIES[name].title} (figure {_FIGURES[name]})")
    for name in topologies:
        _line(grid[0][-1], results, name, "reliable", name, _COLOURS[name])
    _dress(grid[0][-1], "reliable delivery in all (figure 6)")
    grid[0][0].set_ylabel("delay, ms: mean and deviation", fontsize=8)
    about = results.machine
    figure.suptitle(
        f"Stentor {results.version}, {results.clients} clients, {results.plan.runs} runs, {results.plan.storage}\n"
        f"{about.processors} x {about.model}, {about.python}, {results.date}",
        fontsize=9,
    )
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return [path]


def _line(axes: Any, results: NaradaResults, topology: str, kind: str, label: str, colour: str) -> None:
    samples = [found for size in results.sizes() if (found := results.delay(topology, size)) is not None]
    values = [describe(getattr(sample, kind)) for sample in samples]
    axes.errorbar(
        [sample.size for sample in samples],
        [value.mean for value in values],
        [value.deviation for value in values],
        label=label,
        color=colour,
        marker="o",
        markersize=3.5,
        capsize=2,
        linewidth=1.2,
    )


def _dress(axes: Any, title: str) -> None:
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, which="major", color="#e0e0e0", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    axes.set_xlabel("payload, bytes", fontsize=8)
    axes.set_title(title, fontsize=8)
    axes.legend(fontsize=8, frameon=False)
