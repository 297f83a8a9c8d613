"""The report: tables for people."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.matching.contestants import ANY, ENTRIES
from benchmarks.matching.goals import judge
from benchmarks.matching.reading import READING
from benchmarks.matching.results import Results
from benchmarks.matching.rows import rows
from benchmarks.matching.workloads import MASKS, WORKLOADS

NOTHING = "–"
# what else is told of an index: title, figures, factor
_COSTS = (
    ("add µs, p50 / p99", ("add_p50", "add_p99"), 1.0),
    ("remove µs, p50 / p99", ("remove_p50", "remove_p99"), 1.0),
    ("first event after an add, µs", ("after_one",), 1.0),
    ("batches of 1,000, each after an add and a remove, k/s", ("churn",), 1e-3),
    ("bytes a filter", ("bytes",), 1.0),
    ("build, s", ("build_s",), 1.0),
    ("snapshot made / pickled, ms", ("snapshot_s", "pickle_s"), 1e3),
    ("snapshot pickled, kB", ("snapshot_bytes",), 1e-3),
)


def show(results: Results, console: Console) -> None:
    """Everything that was measured, and what it means against the goals."""
    for workload in results.workloads():
        if results.sizes(workload):
            title = f"{workload}, {WORKLOADS[workload].title}: thousand events a second, by number of filters"
            _print(console, title, _rates(results, workload))
            _print(console, f"{workload}: what changes and memory cost", _costs(results, workload))
    _print(console, "A filter's text, before any index has it: µs, p50 / p99", _reading(results))
    if judge(results):
        _print(console, "Goals: the worst of all masks and sizes counts", _goals(results))
    _notes(results, console)


def _print(console: Console, title: str, table: Table) -> None:
    console.print()
    console.print(Text(title, style="bold"))
    console.print(table)


def number(value: float) -> str:
    """Three digits that count."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.001 else f"{value:.1g}"


def _sized(results: Results, workload: str, *first: str) -> Table:
    table = Table(*first)
    for size in results.sizes(workload):
        table.add_column(f"{size:,}", justify="right", no_wrap=True)
    return table


def _cell(results: Results, where: tuple[str, str, str, int], figures: tuple[str, ...], factor: float = 1.0) -> str:
    """Medians of a trial, or what became of it."""
    sample = results.find(*where)
    if sample is None:
        return NOTHING
    if sample.error:
        return "failed"
    values = [sample.median(figure) for figure in figures]
    return " / ".join(NOTHING if value is None else number(value * factor) for value in values)


def _rates(results: Results, workload: str) -> Table:
    table = _sized(results, workload, "")
    sizes = results.sizes(workload)
    for row in rows(results, workload):
        cells = [_cell(results, (workload, row.masks, row.contestant, size), (row.figure,), 1e-3) for size in sizes]
        table.add_row(row.title, *cells, style="" if ENTRIES[row.contestant].peer else "bold")
    table.add_section()
    for name, title, factor in (("matching", "filters that match an event, %", 100), ("bits", "bits of its mask", 1)):
        for masks in MASKS if name == "bits" else (ANY,):
            told = [_told(results, workload, masks, size, name) for size in sizes]
            if any(value is not None for value in told):
                cells = [NOTHING if value is None else number(value * factor) for value in told]
                table.add_row(title if masks == ANY else f"{title}, {masks}", *cells, style="dim")
    return table


def _told(results: Results, workload: str, masks: str, size: int, figure: str) -> float | None:
    """A figure about the workload itself, by whoever has it."""
    samples = [each for each in results.of(workload) if each.size == size and masks in (ANY, each.masks)]
    return next((value for each in samples if (value := each.median(figure)) is not None), None)


def _costs(results: Results, workload: str) -> Table:
    table = _sized(results, workload, "", "")
    samples = results.of(workload)
    for title, figures, factor in _COSTS:
        measured = dict.fromkeys((each.contestant, each.masks) for each in samples if figures[0] in each.figures)
        told = title
        for contestant, masks in sorted(measured, key=lambda each: list(ENTRIES).index(each[0])):
            name = ENTRIES[contestant].title
            cells = [
                _cell(results, (workload, masks, contestant, size), figures, factor) for size in results.sizes(workload)
            ]
            table.add_row(told, name if masks == ANY else f"{name}, {masks}", *cells)
            told = ""
        table.add_section()
    return table


def _reading(results: Results) -> Table:
    table = Table("", "text of a known shape", "of a new shape", "normal form")
    for workload in results.workloads():
        cells = [
            _cell(results, (workload, ANY, READING, 0), (f"{name}_p50", f"{name}_p99"))
            for name in ("parse", "shape", "normal")
        ]
        table.add_row(workload, *cells)
    return table


def _goals(results: Results) -> Table:
    table = Table("goal", "measured", "worst at", "")
    for verdict in judge(results):
        unit = "µs" if verdict.at_most else "/s"
        mark = Text("reached" if verdict.met else "missed", style="green" if verdict.met else "red")
        table.add_row(verdict.text, f"{number(verdict.measured)} {unit}", verdict.where, mark)
    return table


def _notes(results: Results, console: Console) -> None:
    """What a reader must know before quoting a figure."""
    console.print()
    for who, workloads in results.skipped.items():
        console.print(Text(f"{NOTHING} not tried on {', '.join(workloads)}: {who}", style="yellow"))
    for sample in results.errors():
        where = f"{sample.contestant} on {sample.workload}, {sample.size:,} filters, {sample.masks} masks"
        console.print(Text(f"failed {where}: {sample.error}", style="red"))
    if disturbed := results.disturbed():
        share = f"{len(disturbed)} of {len(results.samples)} trials"
        text = f"not a quiet machine: in {share} others used up to {max(disturbed):.1f} cores"
        console.print(Text(text, style="yellow"))
    rounds = results.settings["rounds"]
    if rounds < 3:
        console.print(Text("fewer than 3 rounds: figures to look at, not to quote", style="yellow"))
    about = results.machine
    console.print(
        f"processor time on one core, medians of {rounds:g} round{'s' if rounds > 1 else ''} of "
        f"{results.settings['seconds']:g} s; add and remove with the normal form, without parsing, both told apart; "
        "columns of batches are made beforehand\n"
        f"{about.processors} x {about.model}, {about.memory_gib:g} GiB, {about.system}, {about.python}",
        style="dim",
        highlight=False,
    )
