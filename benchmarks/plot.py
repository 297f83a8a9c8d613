"""The plot: the same medians as one picture."""

import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot

from benchmarks.report import thousands
from benchmarks.results import BASE, Results
from benchmarks.workloads import WORKLOADS, Kind, Workload

mpl.use("Agg")  # a picture in a file, on machines without a screen too

SPREAD = 12  # values further apart than this need a logarithmic scale to be seen
COLOURS = {
    "relay": "#9e9e9e",
    "nats": "#4472c4",
    "mosquitto": "#8064a2",
    "redis": "#c0504d",
    "stentor": "#1b5e20",
    "stentor x32": "#43a047",
    "stentor x100": "#a5d6a7",
    "nats-py": "#4472c4",
    "paho-mqtt": "#8064a2",
    "stentor client": "#1b5e20",
    "stentor client x100": "#a5d6a7",
}


def draw(results: Results, path: Path) -> None:
    """A panel for each workload and figure; no picture if nothing was measured."""
    measured = [WORKLOADS[name] for name in results.medians()]
    rates = [workload for workload in measured if workload.kind is Kind.THROUGHPUT]
    others = [workload for workload in measured if workload.kind is not Kind.THROUGHPUT]
    panels = [("rate", workload) for workload in rates]
    panels += [(figure, workload) for workload in others for figure in _figures(workload)]
    if not panels:
        path.unlink(missing_ok=True)  # one of an earlier run would belie this one
        return
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure, grid = pyplot.subplots(rows, columns, figsize=(5.2 * columns, 3.0 * rows + 0.8), squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, (name, workload) in zip(grid.flat, panels, strict=False):
        _panel(axes, results, workload, name)
    about = results.machine
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    figure.suptitle(
        f"Stentor beside its peers, medians of {results.settings['rounds']:g} rounds; {versions}\n"
        f"{about.processors} x {about.model}, {about.python}, {results.date}",
        fontsize=10,
    )
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _figures(workload: Workload) -> tuple[str, ...]:
    return ("p50", "p99", "p999") if workload.kind is Kind.LATENCY else ("rate", "p50")


def _panel(axes: Any, results: Results, workload: Workload, figure: str) -> None:
    """One bar for each contestant, labelled with its value and its ratio to nats."""
    base = "nats-py" if workload.kind is Kind.CLIENTS else BASE
    bars = [
        (name, value)
        for name in results.contestants(workload.name)
        if (value := results.median(workload.name, name, figure)) is not None
    ]
    names, values = [name for name, _ in bars], [value for _, value in bars]
    is_rate = figure == "rate"
    shown = [value / 1e3 if is_rate else value for value in values]
    drawn = axes.barh(names, shown, color=[COLOURS.get(name, "#607d8b") for name in names])
    labels = []
    for name, value in bars:
        ratio = results.ratio(workload.name, name, figure, base)
        text = thousands(value) if is_rate else f"{value:,.0f}"
        labels.append(f" {text}" + (f"  ({ratio:.2f}x)" if ratio is not None and name != base else ""))
    axes.bar_label(drawn, labels, fontsize=8)
    low, high = min(shown, default=1), max(shown, default=1)
    scale = "log" if high > SPREAD * low else "linear"
    axes.set_xscale(scale)
    if scale == "log":
        floor = 10 ** math.floor(math.log10(low * 0.9))  # bars from a whole decade, so that panels compare
        axes.set_xlim(floor, high * (high / floor) ** 0.45)
    else:
        axes.set_xlim(0, high * 1.45)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    axes.xaxis.set_minor_formatter(lambda *_: "")
    axes.invert_yaxis()
    axes.tick_params(labelsize=8)
    unit = "thousand/s, more is better" if is_rate else "µs, less is better"
    axes.set_xlabel(f"{unit}, {scale} scale", fontsize=8)
    what = f"round trip {figure}" if workload.kind is Kind.CLIENTS else figure
    axes.set_title(workload.title if is_rate else f"{workload.title}: {what}", fontsize=9)
