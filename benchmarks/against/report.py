"""The report of a comparison: a table for people, JSON for the next one."""

from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.against.comparison import BOUND, COST, JUDGED, RATE, Comparison, compare, one_sided
from benchmarks.report import NOTHING, thousands
from benchmarks.results import Results
from benchmarks.trial import Figures
from stentor.bench.machine import QUIET

_UNITS = {RATE: "k/s", "p50": "µs", "us": "µs", "count": ""}


def line(figures: Figures) -> str:
    """Return one sample's figures as text; "" if it has none."""
    told = [_told(name, figures[name]) for name in JUDGED if name in figures][:1]
    return ", ".join(told + ([f"{figures[COST]:.3g} µs of processor time"] if figures.get(COST) else []))


def _told(figure: str, value: float) -> str:
    number = thousands(value) if figure == RATE else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{number} {_UNITS[figure]}".strip()


def show(results: Results, base: str, head: str, console: Console) -> None:
    console.print()
    console.print(Text(f"{head} beside {base}: above 1 it is faster, below {BOUND} slower", style="bold"))
    table = Table("", base, head, "times as fast", f"processor time, {base}", head, "times less")
    for each in compare(results, base, head):
        mark = Text(f"{each.ratio:.2f}", style="green" if each.met else "red")
        cells = _told(each.figure, each.base), _told(each.figure, each.head), mark
        table.add_row(each.row, *cells, *_costs(each))
    console.print(table)
    for row in one_sided(results, base, head):
        console.print(
            Text(f"not compared: {row}, measured by {' and '.join(results.contestants(row))}", style="yellow")
        )
    for sample in results.errors():
        text = f"failed: {sample.workload}, {sample.contestant}, round {sample.round}: {sample.error}"
        console.print(Text(text, style="red"))
    noise = [sample.figures["noise_cores"] for sample in results.samples if "noise_cores" in sample.figures]
    if disturbed := sum(value > QUIET for value in noise):
        text = f"not a quiet machine: in {disturbed} of {len(noise)} trials others used up to {max(noise):.1f} cores"
        console.print(Text(text, style="yellow"))


def _costs(each: Comparison) -> tuple[str, str, str]:
    if each.cost_ratio is None:
        return NOTHING, NOTHING, NOTHING
    return f"{each.base_cost:.3g} µs", f"{each.head_cost:.3g} µs", f"{each.cost_ratio:.2f}"


def write(results: Results, base: str, head: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        **msgspec.to_builtins(results),
        "rows": [msgspec.to_builtins(each) | {"met": each.met} for each in compare(results, base, head)],
    }
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
