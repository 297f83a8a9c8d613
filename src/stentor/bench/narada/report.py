"""The report of the Narada benchmark: the paper's table and figures beside ours."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stentor.bench.narada.paper import MACHINES
from stentor.bench.narada.results import NaradaResults
from stentor.bench.narada.statistic import Statistic, describe
from stentor.bench.narada.topologies import TOPOLOGIES
from stentor.bench.report import NOTHING, number


def show(results: NaradaResults, console: Console) -> None:
    """Tables, goals, and what a reader must know before quoting a figure."""
    if results.delays:
        title = f"Delays by payload, ms: mean ± deviation (standard error) of {results.plan.runs} (figures 3 to 6)"
        _print(console, title, figures(results))
    if rows := table_1(results):
        _print(console, "Table 1: reliable delivery, 8 KB", rows)
        console.print(f"the paper had {MACHINES}", style="dim", highlight=False)
    if results.floods:
        _print(
            console,
            "Throughput of 8 KB, events/s at the measuring subscriber and at one of the others",
            throughput(results),
        )
    if results.judge():
        _print(console, "Goals", goals(results))
    _notes(results, console)


def _print(console: Console, title: str, table: Table) -> None:
    console.print()
    console.print(Text(title, style="bold"))
    console.print(table)


def spread(statistic: Statistic) -> str:
    return f"{number(statistic.mean)} ± {number(statistic.deviation)} ({number(statistic.error)})"


def quantity(milliseconds: float) -> str:
    """In the unit that the paper would use."""
    return f"{number(milliseconds)} ms" if milliseconds >= 2 else f"{number(milliseconds * 1000)} µs"


def figures(results: NaradaResults) -> Table:
    table = Table("topology", "bytes", "best effort", "reliable", "fdatasync", "medians: reliable − best effort")
    for topology in results.topologies():
        for size in results.sizes():
            found = results.delay(topology, size)
            if found is not None:
                cells = [spread(describe(values)) for values in (found.plain, found.reliable, found.sync)]
                more = f"{number(found.overhead)} ms = {number(found.overhead_in_syncs)} fdatasyncs"
                table.add_row(topology, f"{size:,}", *cells, more)
    return table


def table_1(results: NaradaResults) -> Table | None:
    rows = results.table_1()
    table = Table("operation", "paper", "± (error)", "ours", "± (error)", "runs", "times as fast")
    section = ""
    for row, ours, factor in rows:
        if row.section != section:
            section = row.section
            table.add_row(Text(section, style="bold"))
        table.add_row(
            f"  {row.operation}",
            quantity(row.mean),
            f"{quantity(row.deviation)} ({quantity(row.error)})",
            quantity(ours.mean),
            f"{quantity(ours.deviation)} ({quantity(ours.error)})",
            str(ours.count),
            number(factor),
        )
    return table if rows else None


def throughput(results: NaradaResults) -> Table:
    """At best effort a broker drops what a subscriber does not read in time; reliably it comes later."""
    table = Table(
        "topology", "", "best effort", "one of the others", "reliable", "one of the others", "ratio", "others"
    )
    for name in results.topologies():
        plain, reliable = results.rates(name, reliable=False), results.rates(name, reliable=True)
        if plain is not None and reliable is not None:
            cells = [f"{rate:,.0f}" for rate in (*plain, *reliable)]
            ratios = [f"{ours / base:.2f}" if base else NOTHING for ours, base in zip(reliable, plain, strict=True)]
            table.add_row(name, TOPOLOGIES[name].title, *cells, *ratios)
    return table


def goals(results: NaradaResults) -> Table:
    table = Table("goal", "measured", "")
    for each in results.judge():
        table.add_row(each.goal, number(each.value), Text("met", "green") if each.met else Text("missed", "yellow"))
    return table


def _notes(results: NaradaResults, console: Console) -> None:
    console.print()
    if results.interrupted:
        console.print("interrupted: this is what was measured so far", style="yellow")
    if disturbed := results.disturbed():
        share = f"{len(disturbed)} of {len(results.delays) + len(results.floods)} trials"
        text = f"not a quiet machine: in {share} others used up to {max(disturbed):.1f} cores"
        console.print(text, style="yellow", highlight=False)
    about = results.machine
    console.print(
        f"all processes on this machine: brokers, repositories ({results.plan.storage}), publisher with measuring "
        "subscriber, 18 others; a delay is from the call of publish to the application that reads; recovery is from "
        "the start of a killed repository, its interpreter's not counted, until it serves clients\n"
        f"{about.processors} x {about.model}, {about.memory_gib:g} GiB, {about.system}, {about.python}",
        style="dim",
        highlight=False,
    )
