"""The report and the plot of durable publishing."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.results import Results
from benchmarks.workloads import Goal
from stentor.bench import machine

WINDOWS = (1, 64, 1024, 4096)
NOTHING = "-"
BATCHED = " batched"
_OURS = ("stentor sqlite", "stentor segments")
_BOUNDS = (
    (1, "redis", 0.7),
    (64, "redis", 1.0),
    (1024, "nats", 1.5),
    (1024, "redis", 4.0),
    (1024, "rabbitmq", 10.0),
    (4096, "nats", 3.0),
)
_COLOURS = ("#1b5e20", "#66bb6a", "#0d47a1", "#64b5f6", "#c0504d", "#8064a2", "#f9a825")


def workload(window: int) -> str:
    return f"window {window}"


def goals() -> tuple[Goal, ...]:
    """Of each of our storages, single events and in batches, against the peers."""
    return tuple(
        Goal(workload(window), f"{ours}{how}", "rate", peer, bound)
        for ours in _OURS
        for how in ("", BATCHED)
        for window, peer, bound in _BOUNDS
    )


def show(results: Results, promises: dict[str, str], console: Console) -> None:
    names = list(dict.fromkeys(sample.contestant for sample in results.samples))
    console.print()
    console.print(Text("Acknowledged durable publishing, 256 B, thousand/s by messages in flight", style="bold"))
    table = Table("", *(f"{window:,}" for window in WINDOWS), "before it acknowledges")
    for name in names:
        cells = [_cell(results, window, name) for window in WINDOWS]
        plain = name.removesuffix(BATCHED)
        table.add_row(f"{name} {results.versions.get(plain, '')}", *cells, promises.get(plain, ""))
    console.print(table)
    verdicts = results.judge(goals())
    if verdicts:
        console.print(Text("Goals", style="bold"))
        table = Table("in flight", "", "goal", "measured", "")
        for each in verdicts:
            mark = Text("met", "green") if each.met else Text("missed", "yellow")
            table.add_row(each.workload.split()[1], each.contestant, each.goal, f"{each.ratio:.2f}x", mark)
        console.print(table)
    _notes(results, console)


def _cell(results: Results, window: int, name: str) -> str:
    rate = results.median(workload(window), name, "rate")
    if rate is None:
        return "failed" if name in results.contestants(workload(window)) else NOTHING
    return f"{rate / 1e3:,.1f}"


def _notes(results: Results, console: Console) -> None:
    for name, why in results.skipped.items():
        console.print(f"skipped {name}: {why}", style="yellow", highlight=False, markup=False)
    for sample in results.errors():
        text = f"failed: {sample.workload} {sample.contestant}, round {sample.round}: {sample.error}"
        console.print(text, style="red", highlight=False, markup=False)
    noise = [sample.figures["noise_cores"] for sample in results.samples if "noise_cores" in sample.figures]
    if disturbed := [cores for cores in noise if cores > machine.QUIET]:
        share = f"{len(disturbed)} of {len(noise)} trials"
        text = f"not a quiet machine: in {share} others used up to {max(disturbed):.1f} cores"
        console.print(text, style="yellow", highlight=False)
    sync = results.settings.get("fdatasync_us", 0.0)
    about = results.machine
    console.print(
        f"medians of {results.settings['rounds']:g} rounds; peers are driven in raw bytes, Stentor by its "
        f"Python client; an fdatasync of 256 B took {sync:,.0f} µs\n"
        f"{about.processors} x {about.model}, {about.memory_gib:g} GiB, {about.system}, {about.python}",
        style="dim",
        highlight=False,
    )


def draw(results: Results, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.5, 4.6))
    names = list(dict.fromkeys(sample.contestant for sample in results.samples))
    for name, colour in zip(names, _COLOURS, strict=False):
        rates = [(window, results.median(workload(window), name, "rate")) for window in WINDOWS]
        points = [(window, rate / 1e3) for window, rate in rates if rate is not None]
        if points:
            axes.plot(*zip(*points, strict=True), label=name, color=colour, marker="o", markersize=4)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(WINDOWS, [f"{window:,}" for window in WINDOWS])
    axes.set_xlabel("messages in flight", fontsize=8)
    axes.set_ylabel("thousand acknowledged messages/s of 256 B", fontsize=8)
    axes.grid(visible=True, which="major", color="#e0e0e0", linewidth=0.6)
    axes.legend(fontsize=7, frameon=False)
    about = results.machine
    axes.set_title(
        f"durable publishing; {about.processors} x {about.model}, {about.python}, {results.date}", fontsize=8
    )
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
