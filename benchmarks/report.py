"""The report: tables for people."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.results import BASE, Results
from benchmarks.workloads import GOALS, WORKLOADS, Kind, Workload

NOTHING = "-"


def show(results: Results, console: Console) -> None:
    """Everything that was measured, and what it means against the goals."""
    console.print()
    measured = [WORKLOADS[name] for name in dict.fromkeys(sample.workload for sample in results.samples)]
    throughput = [workload for workload in measured if workload.kind is Kind.THROUGHPUT]
    against_peers = [workload for workload in throughput if not workload.attributes]
    if against_peers:
        console.print(_rates(results, against_peers))
        console.print(_costs(results, against_peers))
    if attributes := [workload for workload in throughput if workload.attributes]:
        console.print(_filters(results, attributes))
    if any(workload.kind is Kind.LATENCY for workload in measured):
        console.print(_latencies(results))
    if any(workload.kind is Kind.CLIENTS for workload in measured):
        console.print(_clients(results))
    if verdicts := results.judge(GOALS):
        table = Table("workload", "contestant", "goal", "measured", title="Goals")
        for verdict in verdicts:
            mark = Text(f"{verdict.ratio:.2f}x {'reached' if verdict.met else 'missed'}")
            mark.stylize("green" if verdict.met else "red")
            table.add_row(verdict.workload, verdict.contestant, verdict.goal, mark)
        console.print(table)
    _notes(results, console)


def _rates(results: Results, workloads: list[Workload]) -> Table:
    table = Table(
        "", *(workload.title for workload in workloads), title=f"Thousand messages/s, and times {BASE} (median)"
    )
    for name in _contestants(results, workloads):
        table.add_row(_titled(results, name), *(_rate(results, workload.name, name) for workload in workloads))
    table.caption = "xN: batch frames of N events, fewer if they would pass 64 KiB; 1→20 counts deliveries"
    return table


def _costs(results: Results, workloads: list[Workload]) -> Table:
    title = f"Processor time of the broker, µs per published message, and times {BASE} (median)"
    table = Table("", *(workload.title for workload in workloads), title=title)
    for name in _contestants(results, workloads):
        cells = []
        for workload in workloads:
            cost = results.median(workload.name, name, "cpu_us")
            ratio = results.ratio(workload.name, name, "cpu_us")
            text = NOTHING if cost is None else f"{cost:.3g}"
            cells.append(text + (f"  {ratio:.2f}x" if ratio is not None and name != BASE else ""))
        table.add_row(name, *cells)
    table.caption = "less is better; others on the machine disturb this less than they disturb rates"
    return table


def _contestants(results: Results, workloads: Iterable[Workload]) -> list[str]:
    return list(dict.fromkeys(name for workload in workloads for name in results.contestants(workload.name)))


def _titled(results: Results, contestant: str) -> str:
    version = results.versions.get(contestant)
    return f"{contestant} {version}" if version else contestant


def _rate(results: Results, workload: str, contestant: str) -> str:
    rate = results.median(workload, contestant, "rate")
    if rate is None:
        failed = contestant in results.contestants(workload)
        return "failed" if failed else NOTHING
    ratio = results.ratio(workload, contestant, "rate")
    lost = results.median(workload, contestant, "lost") or 0
    text = thousands(rate)
    if ratio is not None and contestant != BASE:
        text += f"  {ratio:.2f}x"
    return text + (f"  lost {lost:.1%}" if lost > 0.0005 else "")


def thousands(rate: float) -> str:
    return f"{rate / 1e3:,.0f}" if rate >= 1e5 else f"{rate / 1e3:,.1f}"


def _filters(results: Results, workloads: list[Workload]) -> Table:
    names = [workload.name for workload in workloads]
    table = Table(
        "", *(workload.title for workload in workloads), "filtered / not", title="Thousand events/s published"
    )
    for contestant in _contestants(results, workloads):
        rates = [results.median(name, contestant, "rate") for name in names]
        whole, filtered = (results.median(name, contestant, "rate") for name in ("attributes", "filter"))
        share = f"{filtered / whole:.2f}x" if whole and filtered else NOTHING
        table.add_row(contestant, *(NOTHING if rate is None else thousands(rate) for rate in rates), share)
    return table


def _latencies(results: Results) -> Table:
    table = Table("", "p50 µs", "p99 µs", "p999 µs", title=f"Latency: {WORKLOADS['latency'].title} (times {BASE})")
    for contestant in results.contestants("latency"):
        cells = (_microseconds(results, "latency", contestant, figure, BASE) for figure in ("p50", "p99", "p999"))
        table.add_row(_titled(results, contestant), *cells)
    return table


def _microseconds(results: Results, workload: str, contestant: str, figure: str, base: str) -> str:
    value = results.median(workload, contestant, figure)
    if value is None:
        return "failed"
    ratio = results.ratio(workload, contestant, figure, base)
    return f"{value:,.0f}" + (f"  {ratio:.2f}x" if ratio is not None and contestant != base else "")


def _clients(results: Results) -> Table:
    base = "nats-py"
    title = f"Python clients, one publisher and one subscriber process, 256 B (times {base})"
    table = Table(
        "", "published k/s", "received k/s", "lost", "round trip p50 µs", "p99 µs", title=title
    )  # fmt: skip
    for contestant in results.contestants("clients"):
        cells = []
        for figure in ("published", "rate"):
            value, ratio = (
                results.median("clients", contestant, figure),
                results.ratio("clients", contestant, figure, base),
            )
            text = "failed" if value is None else thousands(value)
            cells.append(text + (f"  {ratio:.2f}x" if ratio is not None and contestant != base else ""))
        lost = results.median("clients", contestant, "lost")
        cells.append(NOTHING if lost is None else f"{lost:.1%}")
        cells += [_microseconds(results, "clients", contestant, figure, base) for figure in ("p50", "p99")]
        table.add_row(contestant, *cells)
    return table


def _notes(results: Results, console: Console) -> None:
    for name, reason in results.skipped.items():
        console.print(Text(f"skipped {name}: {reason}", style="yellow"))
    for sample in results.errors():
        text = f"failed {sample.contestant} on {sample.workload}, round {sample.round}: {sample.error}"
        console.print(Text(text, style="red"))
    noise = [sample.figures["noise_cores"] for sample in results.samples if "noise_cores" in sample.figures]
    if noise and max(noise) > 0.25:
        share = sum(value > 0.25 for value in noise)
        text = f"not a quiet machine: in {share} of {len(noise)} trials others used up to {max(noise):.1f} cores"
        console.print(Text(text, style="yellow"))
    if results.settings["rounds"] < 3:
        console.print(Text("fewer than 3 rounds: figures to look at, not to quote", style="yellow"))
    about = results.machine
    console.print(f"{about.processors} x {about.model}, {about.memory_gib:g} GiB, {about.system}, {about.python}")
