"""The report: tables for people."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.network.results import Results, Row
from stentor.bench.machine import QUIET

_HOPS = {
    "filters": "filters",
    "batch": "events",
    "relay_us": "relay µs",
    "matching_us": "matching µs",
    "ratio": "relay / matching",
}
_TRAFFIC = {
    "network": "network",
    "wanted": "every client wants",
    "flooding_events": "flooding, events",
    "content_events": "content",
    "events_ratio": "less",
    "flooding_bytes": "flooding, bytes",
    "content_bytes": "content",
    "bytes_ratio": "less",
}
_PROFILES = {
    "subscriptions": "subscriptions",
    "level": "level",
    "predicates": "predicates of a member",
    "distinct": "distinct ones",
    "wants": "told as",
}

_SETTLING = {
    "network": "network",
    "changes": "profile changes",
    "receipts": "receipts",
    "median_ms": "median ms",
    "most_ms": "most ms",
}


def show(results: Results, console: Console) -> None:
    if results.hops:
        _print(console, "A parcel that is passed on, and one that enters a unit of 64 members", _HOPS, results.hops)
    if results.traffic:
        _print(console, "Links between brokers, 1,000 events of 250 B", _TRAFFIC, results.traffic)
    if results.profiles:
        _print(console, "What a member of a level is told to want, 36 brokers in 4 levels", _PROFILES, results.profiles)
    if results.settling:
        _print(console, "From `settled()` to its answer: messages between brokers, time", _SETTLING, results.settling)
    if joining := results.joining:
        _line(
            console,
            f"the {joining['brokers']:,}th broker joins: {joining['inside']:.1f} messages at a broker of its cluster "
            f"(most {joining['inside_most']:g}), {joining['outside']:.2f} at one outside (most "
            f"{joining['outside_most']:g}; {joining['outside_reached']:g} of them heard anything)",
        )
    if graph := results.graph:
        _line(
            console,
            f"a broker of {graph['brokers']:,} in {graph['levels']} levels holds {graph['nodes']} nodes and "
            f"{graph['edges']} edges",
        )
    if results.failing:
        _line(
            console,
            f"a broker on the way is killed: nothing arrives for {1000 * results.median_gap('killed'):.0f} ms; is "
            f"silent: {results.median_gap('silent'):.2f} s, at most {results.worst_heartbeats():.2f} heartbeats",
        )
    _verdicts(results, console)


def _print(console: Console, title: str, columns: dict[str, str], rows: Iterable[Row]) -> None:
    console.print()
    console.print(Text(title, style="bold"))
    table = Table(*columns.values())
    for row in rows:
        table.add_row(*(_cell(row[name]) for name in columns))
    console.print(table)


def _cell(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _line(console: Console, text: str) -> None:
    console.print()
    console.print(text, highlight=False)


def _verdicts(results: Results, console: Console) -> None:
    table = Table("goal", "measured", "")
    for verdict in results.verdicts():
        mark = Text("reached" if verdict.met else "missed", style="green" if verdict.met else "red")
        table.add_row(verdict.goal, _cell(verdict.measured), mark)
    if table.row_count:
        console.print(table)
    if disturbed := {part: cores for part, cores in results.noise_cores.items() if cores > QUIET}:
        told = ", ".join(f"{part} {cores:.1f}" for part, cores in disturbed.items())
        console.print(f"not a quiet machine, cores of others: {told}", style="yellow", highlight=False)
    about = results.machine
    text = f"{about.processors} x {about.model}, {about.memory_gib:g} GiB, {about.system}, {about.python}"
    console.print(text, style="dim", highlight=False)
