"""`python -m benchmarks.against COMMIT`: this tree beside another commit; a table of ratios, JSON, and a verdict."""

import datetime
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.against import comparison, report
from benchmarks.against.checkout import ROOT, CheckoutError, check_out, resolve
from benchmarks.against.suites import SUITES, Scale, Suite, SuiteError
from benchmarks.results import Results, Sample
from stentor.bench import machine

RESULTS = ROOT / "benchmarks" / "results" / "against"
HEAD = "this tree"


@dataclass(frozen=True, slots=True)
class Turns:
    """Both sides, part by part: each has a turn in every round, so that drift hits both alike."""

    suite: Suite
    sides: dict[str, Path]
    scale: Scale
    say: Callable[[str], None]

    def run(self, parts: list[str], rounds: int) -> Iterator[Sample]:
        for part in parts:
            for number in range(1, self.suite.rounds(part, rounds) + 1):
                # who goes first changes, because the second finds the machine as the first has left it
                for side in list(self.sides)[:: 1 if number % 2 else -1]:
                    yield from self._turn(part, side, number)

    def _turn(self, part: str, side: str, number: int) -> Iterator[Sample]:
        try:
            rows = self.suite.measure(self.sides[side], part, self.scale)
        except SuiteError as error:
            rows = [(part, {}, str(error))]
        for row, figures, failure in rows:
            self.say(f"{row}, round {number}, {side}: {report.line(figures) or failure}")
            yield Sample(row, side, number, figures, failure)


def _measure(
    turns: Turns, parts: list[str], rounds: int, base: str, results: Results, say: Callable[[str], None]
) -> None:
    """Rows below the bound are measured once more, with twice the rounds, and that counts."""
    for sample in turns.run(parts, rounds):
        results.samples.append(sample)
    slow = [each for each in comparison.compare(results, base, HEAD) if not each.met]
    if not slow:
        return
    say(f"once more, with {2 * rounds} rounds: {', '.join(each.row for each in slow)}")
    results.settings |= {f"first time, {each.row}": round(each.ratio, 3) for each in slow}
    again = list(
        turns.run([part for part in parts if any(each.row.startswith(f"{part}: ") for each in slow)], 2 * rounds)
    )
    results.samples = comparison.replace(results.samples, [each.row for each in slow], again)


def main(
    commit: Annotated[str, typer.Argument(help="The commit to compare with: a hash, a branch, HEAD~3.")],
    suite: Annotated[str, typer.Option(help=f"What is run: {', '.join(SUITES)}.")] = "bench",
    only: Annotated[str, typer.Option(help="Parts of the suite, comma-separated. Default: all.")] = "",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; ratios are those of medians over them.")] = 5,
    duration: Annotated[float, typer.Option(min=0.2, help="Seconds of one trial.")] = 1.0,
    settle: Annotated[float, typer.Option(min=0, help="Seconds to wait for a quiet machine before a trial.")] = 4.0,
    events: Annotated[int, typer.Option(min=100_000, help="Events that Spark reads.")] = 300_000,
    out: Annotated[str, typer.Option(help="Name of the JSON in benchmarks/results/against. Default: the suite.")] = "",
) -> None:
    """Measure this tree, as it lies here, beside another commit, in one run; exit with 1 if a row is slower.

    The commit is checked out and set up in .against, and stays there for the next time.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # brokers are stopped whoever ends us
    console = Console(width=None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "160")))
    chosen = SUITES.get(suite)
    if chosen is None:
        raise typer.BadParameter(f"{suite!r} is none of {', '.join(SUITES)}", param_hint="--suite")
    parts = [name.strip() for name in only.split(",") if name.strip()] or list(chosen.parts)
    if unknown := [name for name in parts if name not in chosen.parts]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(chosen.parts)}", param_hint="--only")
    try:
        base = resolve(commit)
        with console.status(f"setting {base} up"):
            sides = {base: check_out(base), HEAD: ROOT}
    except CheckoutError as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(2) from None
    results = Results(
        name=out or suite,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine=machine.describe(),
        settings={"rounds": rounds, "seconds": duration},
        versions={base: base, HEAD: resolve("HEAD")},
    )

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False)

    turns = Turns(chosen, sides, Scale(duration, settle, events), say)
    try:
        _measure(turns, parts, rounds, base, results, say)
    except KeyboardInterrupt:
        say("interrupted: this is what was measured so far")
        results.settings["interrupted"] = 1
    report.show(results, base, HEAD, console)
    path = RESULTS / f"{results.name}.json"
    report.write(results, base, HEAD, path)
    say(f"written: {path}")
    if "interrupted" in results.settings or not comparison.is_no_slower(results, base, HEAD):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
