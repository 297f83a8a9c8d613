"""The report: tables for people."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.results import BASE, Results
from benchmarks.workloads import GOALS, WORKLOADS, Kind, Workload

NOTHING = "-"
CLIENT_BASE = "nats-py"


def show(results: Results, console: Console) -> None:
    """Everything that was measured, and what it means against the goals."""
    measured = [WORKLOADS[name] for name in dict.fromkeys(sample.workload for sample in results.samples)]
    plain = [workload for workload in measured if workload.kind is Kind.THROUGHPUT and not workload.attributes]
    filtered = [workload for workload in measured if workload.attributes]
    kinds = {workload.kind for workload in measured}
    if plain:
        _print(console, f"Thousand messages a second, and times {BASE}", _rates(results, plain))
        console.print(
            "xN: batch frames of N events, fewer if they would pass 64 KiB; 1→20 counts deliveries", style="dim"
        )
        title = f"Processor time of the broker, µs a published message, and times {BASE}: less is better"
        _print(console, title, _costs(results, plain))
    if filtered:
        _print(console, "Thousand events a second published, 256 B", _filters(results, filtered))
    if Kind.LATENCY in kinds:
        title = f"{WORKLOADS['latency'].title}: µs, and times {BASE}, less is better"
        _print(console, title, _latencies(results))
    if Kind.CLIENTS in kinds:
        title = f"Python clients, one publisher and one subscriber process, 256 B, and times {CLIENT_BASE}"
        _print(console, title, _clients(results))
    if results.judge(GOALS):
        _print(console, "Goals", _goals(results))
    _notes(results, console)


def _print(console: Console, title: str, table: Table) -> None:
    console.print()
    console.print(Text(title, style="bold"))
    console.print(table)


def thousands(rate: float) -> str:
    return f"{rate / 1e3:,.0f}" if rate >= 1e5 else f"{rate / 1e3:,.1f}"


def _microseconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _cell(results: Results, workload: str, contestant: str, figure: str, base: str = BASE) -> str:
    """A median and its ratio to the base, or what became of it."""
    value = results.median(workload, contestant, figure)
    if value is None:
        return "failed" if contestant in results.contestants(workload) else NOTHING
    text = thousands(value) if figure in ("rate", "published") else _microseconds(value)
    ratio = results.ratio(workload, contestant, figure, base)
    return text if ratio is None or contestant == base else f"{text}  {ratio:.2f}x"


def _contestants(results: Results, workloads: Iterable[Workload]) -> list[str]:
    return list(dict.fromkeys(name for workload in workloads for name in results.contestants(workload.name)))


def _titled(results: Results, contestant: str) -> str:
    return f"{contestant} {results.versions.get(contestant, '')}".strip()


def _rates(results: Results, workloads: list[Workload]) -> Table:
    table = Table("", *(workload.title for workload in workloads))
    for name in _contestants(results, workloads):
        cells = []
        for workload in workloads:
            lost = results.median(workload.name, name, "lost") or 0
            text = _cell(results, workload.name, name, "rate")
            cells.append(f"{text}  lost {lost:.1%}" if lost > 0.0005 else text)
        table.add_row(_titled(results, name), *cells)
    return table


def _costs(results: Results, workloads: list[Workload]) -> Table:
    table = Table("", *(workload.title for workload in workloads))
    for name in _contestants(results, workloads):
        table.add_row(name, *(_cell(results, workload.name, name, "cpu_us") for workload in workloads))
    return table


def _filters(results: Results, workloads: list[Workload]) -> Table:
    table = Table("", *(workload.title for workload in workloads), "filtered / not")
    for name in _contestants(results, workloads):
        whole, filtered = (results.median(workload, name, "rate") for workload in ("attributes", "filter"))
        share = f"{filtered / whole:.2f}x" if whole and filtered else NOTHING
        table.add_row(name, *(_cell(results, workload.name, name, "rate") for workload in workloads), share)
    return table


def _latencies(results: Results) -> Table:
    table = Table("", "p50", "p99", "p999")
    for name in results.contestants("latency"):
        cells = (_cell(results, "latency", name, figure) for figure in ("p50", "p99", "p999"))
        table.add_row(_titled(results, name), *cells)
    return table


def _clients(results: Results) -> Table:
    table = Table("", "published k/s", "received k/s", "lost", "round trip p50 µs", "p99 µs")
    for name in results.contestants("clients"):
        published, received, p50, p99 = (
            _cell(results, "clients", name, figure, CLIENT_BASE) for figure in ("published", "rate", "p50", "p99")
        )
        lost = results.median("clients", name, "lost")
        table.add_row(name, published, received, NOTHING if lost is None else f"{lost:.1%}", p50, p99)
    return table


def _goals(results: Results) -> Table:
    table = Table("workload", "contestant", "goal", "measured")
    for verdict in results.judge(GOALS):
        text = f"{verdict.ratio:.2f}x {'reached' if verdict.met else 'missed'}"
        mark = Text(text, style="green" if verdict.met else "red")
        table.add_row(verdict.workload, verdict.contestant, verdict.goal, mark)
    return table


def _notes(results: Results, console: Console) -> None:
    """What a reader must know before quoting a figure."""
    console.print()
    for name, reason in results.skipped.items():
        console.print(Text(f"skipped {name}: {reason}", style="yellow"))
    for sample in results.errors():
        text = f"failed {sample.contestant} on {sample.workload}, round {sample.round}: {sample.error}"
        console.print(Text(text, style="red"))
    noise = [sample.figures["noise_cores"] for sample in results.samples if "noise_cores" in sample.figures]
    if noise and max(noise) > 0.25:
        disturbed = sum(value > 0.25 for value in noise)
        text = f"not a quiet machine: in {disturbed} of {len(noise)} trials others used up to {max(noise):.1f} cores"
        console.print(Text(text, style="yellow"))
    if results.settings["rounds"] < 3:
        console.print(Text("fewer than 3 rounds: figures to look at, not to quote", style="yellow"))
    about = results.machine
    console.print(
        f"medians of {results.settings['rounds']:g} rounds of {results.settings['seconds']:g} s; "
        f"{about.processors} x {about.model}, {about.memory_gib:g} GiB, {about.system}, {about.python}",
        highlight=False,
    )
