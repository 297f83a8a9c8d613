"""The plots of the GES benchmark, after the paper's figures 7, 8 and 10; matplotlib is loaded only here."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stentor.bench.ges22 import FAR, NEAR
from stentor.bench.results import GesResults

MISSING = "plots need matplotlib: pip install 'stentor[bench]'"
_SHOWN = (100, 50, 10)  # match rates of figure 7
_COLOURS = ("#1b5e20", "#4472c4", "#c0504d", "#8064a2", "#9e9e9e")


def draw(results: GesResults, folder: Path) -> list[Path]:
    """Pictures of what was measured; ImportError without matplotlib."""
    import matplotlib as mpl

    mpl.use("Agg")  # a picture in a file, on machines without a screen too
    drawn = []
    sizes = sorted({each.trial.size for each in results.samples})
    matches = [match for match in results.matches() if match in _SHOWN] or results.matches()[:3]
    if sizes and matches:
        rates = sorted({each.trial.rate for each in results.samples})

        def mean(match: int, size: int, rate: float) -> float | None:
            return results.mean(match, rate, size)

        path = folder / "ges-latency.png"
        titles = [f"match rate {match} %" for match in matches]
        _panels(
            path, results, "22 brokers, 9 hops", titles, matches, [(size, f"{size} B") for size in sizes], rates, mean
        )
        drawn.append(path)
    points = {(each.rate, each.size): each.means for each in results.by_hops()}
    if points:
        rates, sizes = sorted({rate for rate, _ in points}), sorted({size for _, size in points})

        def at(size: int, hops: int, rate: float) -> float | None:
            return points.get((rate, size), {}).get(hops)

        path = folder / "ges-hops.png"
        lines = [(hops, f"{hops} hop{'s' if hops > 1 else ''}") for hops in (*NEAR, FAR)]
        titles = [f"{size} B, match rate 50 %" for size in sizes]
        _panels(path, results, "latency by broker hops", titles, sizes, lines, rates, at)
        drawn.append(path)
    if results.stored:
        drawn.append(_draw_stored(results, folder / "ges-stored.png"))
    return drawn


def _draw_stored(results: GesResults, path: Path) -> Path:
    """By replications, at the match rate of figure 8 if it is there."""
    found = list(results.by_copies())
    match = min({each.match for each in found}, key=lambda match: abs(match - 50))
    points = {(each.size, each.rate): (each.none, each.one, each.two) for each in found if each.match == match}
    sizes, rates = sorted({size for size, _ in points}), sorted({rate for _, rate in points})

    def at(size: int, copies: int, rate: float) -> float | None:
        means = points.get((size, rate))
        return None if means is None else means[copies]

    titles = [f"{size} B, match rate {match} %" for size in sizes]
    lines = [(0, "not stored"), (1, "one replication"), (2, "two replications")]
    _panels(path, results, "22 brokers, 9 hops", titles, sizes, lines, rates, at)
    return path


def _panels(
    path: Path,
    results: GesResults,
    title: str,
    titles: Sequence[str],
    keys: Sequence[int],
    lines: Sequence[tuple[int, str]],
    rates: Sequence[float],
    value: Callable[[int, int, float], float | None],
) -> None:
    """A panel for each key, a line for each size or number of hops, over the publish rate."""
    from matplotlib import pyplot

    figure, grid = pyplot.subplots(1, len(keys), figsize=(4.6 * len(keys), 4.0), squeeze=False, sharey=True)
    for axes, key, name in zip(grid[0], keys, titles, strict=True):
        for (line, label), colour in zip(lines, _COLOURS, strict=False):
            points = [(rate, mean) for rate in rates if (mean := value(key, line, rate)) is not None]
            if points:
                axes.plot(*zip(*points, strict=True), label=label, color=colour, marker="o", markersize=3.5)
        _dress(axes, name)
    grid[0][0].set_ylabel("mean latency, ms", fontsize=8)
    about = results.machine
    figure.suptitle(
        f"Stentor {results.version}, {title}, {results.clients} clients\n"
        f"{about.processors} x {about.model}, {about.python}, {results.date}",
        fontsize=9,
    )
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _dress(axes: Any, title: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(lambda *_: "")
    axes.grid(visible=True, which="major", color="#e0e0e0", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    axes.set_xlabel("events/s", fontsize=8)
    axes.set_title(title, fontsize=9)
    axes.legend(fontsize=8, frameon=False)
