"""`python -m benchmarks.against.pairs COMMIT`: durable publishing of this tree and another commit, turn by turn.

Both sides' fabrics run all the time, and one publishes for half a second, then the other. What the machine does for
longer than a second hits both, so a row is the median of many ratios, and how far that can be trusted is told with it.
Suites that start a fabric for each trial have trials half a minute apart, which differ by up to three times.
"""

import datetime
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.against.checkout import ROOT, CheckoutError, check_out, resolve
from benchmarks.against.comparison import BOUND
from benchmarks.durable.report import WINDOWS
from benchmarks.durable.stentor import OverSegments, OverSqlite
from stentor.bench import machine

RESULTS = ROOT / "benchmarks" / "results" / "against"
_SIDE = Path(__file__).with_name("side.py")
_DRAWS = 1000  # of the pairs, with repetition: how much the median depends on which there are
_SURE = 0.95

Workload = tuple[int, str]  # its window, and whether events go one by one or in batches
_WORKLOADS = [(window, kind) for window in WINDOWS for kind in ("single", "batched") if window > 1 or kind == "single"]


class Row(msgspec.Struct):
    """One kind of publishing on one storage. Above 1 this tree is faster, or takes less processor time."""

    name: str
    ratio: float
    low: float
    high: float
    cost_ratio: float
    noise_cores: float
    pairs: list[tuple[float, float]]  # events a second, of the other commit and of this tree


class Results(msgspec.Struct):
    date: str
    machine: machine.MachineDescription
    base: str
    head: str
    seconds: float
    rows: list[Row] = []
    first_times: dict[str, float] = {}  # ratios of rows that were below the bound, and were measured once more


class Side:
    """A side's fabric and its publisher."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def publish(self, window: int, kind: str, seconds: float) -> tuple[float, float, float]:
        """Return events a second, processor time per event, and what others took of the cores."""
        assert self._process.stdin is not None
        print(window, kind, seconds, file=self._process.stdin, flush=True)
        return self.answer()

    def answer(self) -> tuple[float, float, float]:
        assert self._process.stdout is not None
        words = self._process.stdout.readline().split()
        if words == ["ready"]:
            return 0.0, 0.0, 0.0
        if not words:
            raise RuntimeError("a side has ended: its error is above")
        rate, cost, noise = map(float, words)
        return rate, cost, noise


@contextmanager
def _running(tree: Path, storage: str) -> Iterator[Side]:
    command = [str(tree / ".venv" / "bin" / "python"), str(_SIDE), storage]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    with subprocess.Popen(
        command, cwd=tree, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        side = Side(process)
        try:
            side.answer()
            yield side
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()


def _row_name(storage: str, workload: Workload) -> str:
    window, kind = workload
    return f"{storage}, window {window}, {kind}"


def _compare(name: str, sides: Sequence[Side], workload: Workload, pairs: int, seconds: float) -> Row:
    window, kind = workload
    for side in sides:
        side.publish(window, kind, seconds)
    rates: list[tuple[float, float]] = []
    costs: list[float] = []
    noise: list[float] = []
    for number in range(pairs):
        order = (0, 1) if number % 2 else (1, 0)  # the second finds the machine as the first has left it
        found = {place: sides[place].publish(window, kind, seconds) for place in order}
        rates.append((found[0][0], found[1][0]))
        costs.append(found[0][1] / found[1][1])
        noise += [found[0][2], found[1][2]]
    ratios = [head / base for base, head in rates]
    low, high = _trusted(ratios)
    return Row(name, statistics.median(ratios), low, high, statistics.median(costs), statistics.median(noise), rates)


def _trusted(ratios: Sequence[float]) -> tuple[float, float]:
    """Return between what the median is likely to lie."""
    dice = random.Random(len(ratios))
    medians = sorted(statistics.median(dice.choices(ratios, k=len(ratios))) for _ in range(_DRAWS))
    outside = int(_DRAWS * (1 - _SURE) / 2)
    return medians[outside], medians[-1 - outside]


def _show(results: Results, console: Console) -> None:
    table = Table("", "times as fast", f"{_SURE:.0%} sure", "processor time, times less", "noise, cores")
    for row in results.rows:
        mark = Text(f"{row.ratio:.2f}", style="green" if row.ratio >= BOUND else "red")
        table.add_row(
            row.name, mark, f"{row.low:.2f}–{row.high:.2f}", f"{row.cost_ratio:.2f}", f"{row.noise_cores:.2f}"
        )
    console.print(Text(f"this tree ({results.head}) beside {results.base}", style="bold"))
    console.print(table)


def main(
    commit: Annotated[str, typer.Argument(help="The commit to compare with.")],
    pairs: Annotated[int, typer.Option(min=5, help="Pairs of turns for each row.")] = 40,
    seconds: Annotated[float, typer.Option(min=0.1, help="Of one turn.")] = 0.4,
    only: Annotated[str, typer.Option(help="Rows with this in their names: 'sqlite', 'window 64'.")] = "",
    out: Annotated[str, typer.Option(help="Name of the JSON in benchmarks/results/against.")] = "pairs",
) -> None:
    """Compare durable publishing of this tree, as it lies here, with another commit; exit with 1 if a row is slower.

    A row below the bound is measured once more with twice the pairs, and then counts.
    """
    console = Console(width=None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "120")))
    try:
        base = resolve(commit)
        with console.status(f"setting {base} up"):
            trees = check_out(base), ROOT
    except CheckoutError as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(2) from None
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    results = Results(now, machine.describe(), base, resolve("HEAD"), seconds)
    for storage in (OverSqlite.name, OverSegments.name):
        workloads = [each for each in _WORKLOADS if only in _row_name(storage, each)]
        with ExitStack() as stack:
            sides = [stack.enter_context(_running(tree, storage)) for tree in trees if workloads]
            for workload in workloads:
                with console.status(_row_name(storage, workload)):
                    row = _compare(_row_name(storage, workload), sides, workload, pairs, seconds)
                    if row.ratio < BOUND:
                        results.first_times[row.name] = row.ratio
                        row = _compare(row.name, sides, workload, 2 * pairs, seconds)
                results.rows.append(row)
    _show(results, console)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{out}.json").write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1))
    console.print(f"written: {RESULTS / out}.json", highlight=False)
    if any(row.ratio < BOUND for row in results.rows):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
