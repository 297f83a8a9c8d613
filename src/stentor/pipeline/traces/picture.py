"""Pictures of reports; matplotlib is loaded only here."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import Row

from stentor.model.errors import InvalidInput

_SUFFIXES = (".png", ".svg")
_COLOURS = ("#1b5e20", "#4472c4", "#c0504d", "#8064a2", "#e69f00", "#56b4e9", "#9e9e9e")


def check_picture(path: Path) -> Path:
    if path.suffix not in _SUFFIXES:
        raise InvalidInput(f"{path}: a picture is {' or '.join(_SUFFIXES)}")
    return path


def draw(path: Path, rows: Sequence[Row], panels: str, lines: Callable[[Row], str], value: str, unit: str) -> None:
    """A panel for each value of a column, a line for each name, over time."""
    import matplotlib as mpl

    mpl.use("Agg")  # a picture in a file, on machines without a screen too
    import matplotlib.dates as dates
    import matplotlib.pyplot as plt

    names = sorted({row[panels] for row in rows})
    figure, axes = plt.subplots(len(names), 1, figsize=(10, 1 + 2.8 * len(names)), squeeze=False, sharex=True)
    for axis, name in zip(axes[:, 0], names, strict=True):
        series: dict[str, list[tuple[Any, float]]] = {}
        for row in rows:
            if row[panels] == name and row[value] is not None:
                series.setdefault(lines(row), []).append((row["start"], row[value]))
        for place, (label, points) in enumerate(sorted(series.items())):
            times, values = zip(*sorted(points), strict=True)
            colour = _COLOURS[place % len(_COLOURS)]
            axis.plot(times, values, marker="o", markersize=3, linewidth=1.4, label=label, color=colour)
        axis.set_title(f"{name}: {value}", loc="left", fontsize=10)
        axis.set_ylabel(unit)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        axis.xaxis.set_major_formatter(dates.ConciseDateFormatter(axis.xaxis.get_major_locator()))  # type: ignore[no-untyped-call]
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
