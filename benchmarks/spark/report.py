"""The report and the plot of the data pipeline."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.results import Results
from benchmarks.spark import audit, matching, sink, source
from benchmarks.workloads import Goal
from stentor.bench import machine

SOURCE = (source.ATTRIBUTES, source.TYPED, source.WHERE, source.SINGLE)
MATCHING = tuple(map(matching.workload, matching.FILTERS))
PARTS = {
    f"The source, events of {source.BODY} B": SOURCE,
    f"The sink, events of {sink.SIZE} B": (sink.SINK,),
    f"Matching, events of {matching.BODY} B": MATCHING,
    "The audit, rows of traces": (audit.SHORT, audit.LONG),
}
_OURS, _PEERS = ("#1b5e20", "#66bb6a"), ("#8da0b3", "#c5cfd9")


def goals(results: Results) -> tuple[Goal, ...]:
    """The sink is held against the lesser of its peers."""
    rates = {name: results.median(sink.SINK, name, "rate") or 0.0 for name in (sink.NATIVE, sink.NOTHING)}
    return (
        *(Goal(workload, source.OURS, "rate", source.FILES, 0.6) for workload in SOURCE[:3]),
        Goal(source.SINGLE, source.OURS, "rate", source.OURS, 0.05, against_workload=source.ATTRIBUTES),
        Goal(sink.SINK, sink.OURS, "rate", min(rates, key=rates.__getitem__), 0.5),
        *(Goal(workload, matching.LAKE, "rate", matching.OUTSIDE, 0.8) for workload in MATCHING),
        Goal(audit.LONG, audit.OURS, "rate", audit.OURS, 1.0, against_workload=audit.SHORT),
    )


def show(results: Results, console: Console) -> None:
    for title, workloads in PARTS.items():
        measured = [workload for workload in workloads if results.contestants(workload)]
        if measured:
            console.print()
            console.print(Text(title, style="bold"))
            table = Table("", "", "thousand/s", "µs of processors each, all processes", "others used, cores")
            for workload in measured:
                for number, name in enumerate(results.contestants(workload)):
                    rate, cost, noise = (
                        results.median(workload, name, figure) or 0.0 for figure in ("rate", "cpu_us", "noise_cores")
                    )
                    cells = f"{rate / 1e3:,.0f}", f"{cost:,.2f}", f"{noise:.2f}"
                    table.add_row("" if number else workload, name, *cells)
            console.print(table)
    verdicts = results.judge(goals(results))
    if verdicts:
        console.print(Text("Goals", style="bold"))
        table = Table("", "", "goal", "measured", "")
        for each in verdicts:
            mark = Text("met", "green") if each.met else Text("missed", "yellow")
            table.add_row(each.workload, each.contestant, each.goal, f"{each.ratio:.2f}x", mark)
        console.print(table)
    _notes(results, console)


def _notes(results: Results, console: Console) -> None:
    noise = [sample.figures["noise_cores"] for sample in results.samples]
    if disturbed := [cores for cores in noise if cores > machine.QUIET]:
        share = f"{len(disturbed)} of {len(noise)} trials"
        text = f"not a quiet machine: in {share} others used up to {max(disturbed):.1f} cores"
        console.print(text, style="yellow", highlight=False)
    about = results.machine
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    console.print(
        f"medians of {results.settings['rounds']:g} rounds; {versions}\n"
        f"{about.processors} x {about.model}, {about.memory_gib:g} GiB, {about.system}, {about.python}",
        style="dim",
        highlight=False,
    )


def draw(results: Results, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    chosen = {
        title: measured
        for title, workloads in PARTS.items()
        if (measured := [workload for workload in workloads if results.contestants(workload)])
    }
    if not chosen:
        path.unlink(missing_ok=True)  # one of an earlier run would belie this one
        return
    figure, grid = pyplot.subplots(1, len(chosen), figsize=(4.6 * len(chosen), 4.2), squeeze=False)
    for axes, (title, workloads) in zip(grid[0], chosen.items(), strict=True):
        names = list(dict.fromkeys(name for workload in workloads for name in results.contestants(workload)))
        width = 0.8 / len(names)
        for number, name in enumerate(names):
            ours = name.startswith("stentor")
            rank = sum(other.startswith("stentor") == ours for other in names[:number])
            rates = [(results.median(workload, name, "rate") or 0.0) / 1e3 for workload in workloads]
            places = [place + width * (number - (len(names) - 1) / 2) for place in range(len(workloads))]
            axes.bar(places, rates, width, label=name, color=(_OURS if ours else _PEERS)[rank])
        axes.set_xticks(range(len(workloads)), [workload.replace(" ", "\n", 1) for workload in workloads], fontsize=7)
        axes.set_ylabel("thousand/s", fontsize=8)
        axes.set_title(title, fontsize=9)
        axes.tick_params(axis="y", labelsize=8)
        axes.legend(fontsize=7, frameon=False)
    about = results.machine
    figure.suptitle(f"{about.processors} x {about.model}, {about.python}, {results.date}", fontsize=8)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
