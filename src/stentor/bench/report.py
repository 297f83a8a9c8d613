"""The report of the GES benchmark: the paper's figures beside ours."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stentor.bench.ges22 import FAR, MIDWAY, MIDWAY_AT, NEAR, STORAGES
from stentor.bench.grid import TrialGrid
from stentor.bench.paper import HOP, MACHINES, TABLE_2
from stentor.bench.results import Extreme, GesResults

NOTHING = "–"


def show(results: GesResults, grid: TrialGrid, console: Console) -> None:
    """Tables, and what a reader must know before quoting a figure."""
    if results.samples:
        title = f"Table 2: mean latency of 22 brokers and {results.clients} clients over {FAR} hops, ms"
        _print(console, title, table_2(results))
        console.print(f"at <events/s, bytes>; the paper had {MACHINES}", style="dim", highlight=False)
        _print(console, f"Mean latency over {FAR} hops by rate and size, ms (figure 7)", figure_7(results))
    if results.hops:
        _print(console, "Mean latency by hops at a match rate of 50 %, ms (figure 10)", figure_10(results))
        for line in filter(None, (hop_line(results), alone_line(results))):
            console.print(line, highlight=False)
    if results.stored:
        _print(console, "Table 2 with one and two replications: mean latency over 9 hops, ms", table_2_stored(results))
        _print(console, "Mean latency by replications, ms (figure 8)", figure_8(results))
        console.print(
            f"one: stored by the repository at broker {STORAGES['r1']}; two: and by that of SC-6, at broker "
            f"{STORAGES['r2']}; the paper measured one at broker {MIDWAY_AT}, {MIDWAY} hops away, and two at {FAR}",
            style="dim",
            highlight=False,
        )
    _notes(results, grid, console)


def _print(console: Console, title: str, table: Table) -> None:
    console.print()
    console.print(Text(title, style="bold"))
    console.print(table)


def number(value: float) -> str:
    """Three digits that count."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _at(value: float, rate: float, size: int) -> str:
    return f"{number(value)} @ <{rate:g}, {size}>"


def _ours(extreme: Extreme) -> str:
    return _at(extreme.latency.mean, extreme.trial.rate, extreme.trial.size)


def table_2(results: GesResults) -> Table:
    """The lowest and highest mean of each match rate, and the variance there."""
    table = Table("match", "lowest, paper", "ours", "highest, paper", "ours", "variance, paper", "ours")
    for match in results.matches():
        theirs, ours = TABLE_2.get(match), results.extremes(match)
        paper = (NOTHING,) * 3
        if theirs is not None:
            variance = f"{number(theirs.low_variance)} – {number(theirs.high_variance)}"
            paper = (_at(theirs.low, *theirs.low_at), _at(theirs.high, *theirs.high_at), variance)
        mine = (NOTHING,) * 3
        if ours is not None:
            low, high = ours
            mine = (_ours(low), _ours(high), f"{number(low.latency.variance)} – {number(high.latency.variance)}")
        row = (cell for both in zip(paper, mine, strict=True) for cell in both)
        table.add_row(f"{match} %", *row)
    return table


def figure_7(results: GesResults) -> Table:
    """All means of the grid: a column for each match rate."""
    matches = results.matches()
    table = Table("events/s", "bytes", *(f"{match} %" for match in matches))
    for rate, size in sorted({(each.trial.rate, each.trial.size) for each in results.samples}):
        means = [results.mean(match, rate, size) for match in matches]
        table.add_row(f"{rate:g}", f"{size}", *(NOTHING if mean is None else number(mean) for mean in means))
    return table


def table_2_stored(results: GesResults) -> Table:
    """The lowest and highest mean of each match rate that was tried with replications."""
    names = ("none", "one", "two")
    table = Table("match", *(f"{end}, {name}" for end in ("lowest", "highest") for name in names))
    for match in sorted({each.trial.match for each in results.stored}, reverse=True):
        found = [results.extremes(match, copies) for copies in range(len(names))]
        cells = [NOTHING if both is None else _ours(both[end]) for end in (0, 1) for both in found]
        table.add_row(f"{match} %", *cells)
    return table


def figure_8(results: GesResults) -> Table:
    """All means of what was stored, beside what was not."""
    table = Table("match", "events/s", "bytes", "none", "one", "two", f"one, {MIDWAY} hops")
    for each in results.by_copies():
        means = (each.none, each.one, each.two, each.midway)
        cells = (NOTHING if mean is None else number(mean) for mean in means)
        table.add_row(f"{each.match} %", f"{each.rate:g}", f"{each.size}", *cells)
    return table


def figure_10(results: GesResults) -> Table:
    """Means by hops; nine are in the network with few links, the others in the well-connected one."""
    columns = [*NEAR, FAR]
    table = Table("events/s", "bytes", *(f"{hops} hop{'s' if hops > 1 else ''}" for hops in columns), "a hop costs")
    for each in results.by_hops():
        cells = [number(each.means[hops]) if hops in each.means else NOTHING for hops in columns]
        per_hop = NOTHING if each.per_hop is None else number(each.per_hop)
        table.add_row(f"{each.rate:g}", f"{each.size}", *cells, per_hop)
    return table


def hop_line(results: GesResults) -> str | None:
    """What a hop costs at the lowest rate and the highest, beside the paper's word."""
    known = [each for each in results.by_hops() if each.per_hop is not None]
    if not known:
        return None
    first, last = known[0], known[-1]
    costs = [
        f"{number(each.per_hop or 0.0)} ms at {each.rate:g} events/s of {each.size} B"
        for each in ([first] if first is last else [first, last])
    ]
    return f"a hop, (latency at {FAR} − at 1) / {FAR - 1}: {', '.join(costs)}; the paper's: {HOP[0]:g} to {HOP[1]:g} ms"


def alone_line(results: GesResults) -> str | None:
    """The same while only the publisher and the measuring subscribers share the cores with the brokers."""
    found = results.hops_alone()
    if not found:
        return None
    costs = sorted(cost for _, cost in found)
    rates = sorted({trial.rate for trial, _ in found})
    return (
        f"a hop without the other clients, who share the cores: {number(costs[0])} to {number(costs[-1])} ms "
        f"at {rates[0]:g} to {rates[-1]:g} events/s"
    )


def _notes(results: GesResults, grid: TrialGrid, console: Console) -> None:
    console.print()
    if results.interrupted:
        console.print("interrupted: this is what was measured so far", style="yellow")
    for failure in results.failures:
        console.print(f"given up, with the trials that follow in that part: {failure}", style="yellow", highlight=False)
    if lost := results.lost():
        console.print(f"{lost:,} events did not arrive, or not in time", style="yellow", highlight=False)
    behind = [each for each in results.everything() if each.reached < 0.95 * each.trial.rate]
    behind = [each for each in behind if each.trial.events > each.trial.rate]  # the last of few ends early
    if behind:
        worst = min(behind, key=lambda each: each.reached / each.trial.rate)
        text = f"{len(behind)} trials fell behind, down to {worst.reached:,.0f} of {worst.trial.rate:g} events/s"
        console.print(text, style="yellow", highlight=False)
    if pairs := grid.left_out():
        told = ", ".join(f"{match} % of {rate:g}/s" for rate, match in pairs)
        console.print(f"left out, since few events would be wanted in time: {told}", style="dim", highlight=False)
    if disturbed := results.disturbed():
        share = f"{len(disturbed)} of {len(results.everything())} trials"
        text = f"not a quiet machine: in {share} others used up to {max(disturbed):.1f} cores"
        console.print(text, style="yellow", highlight=False)
    about = results.machine
    console.print(
        "all brokers and clients on this machine, a process for each broker; size is that of the body, "
        "next to six attributes; latency is from the call of publish to the application that reads\n"
        f"{about.processors} x {about.model}, {about.memory_gib:g} GiB, {about.system}, {about.python}",
        style="dim",
        highlight=False,
    )
