"""`stentor pipeline campaign`: thousands of simulations as tasks of Spark, summed up."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from stentor.cli.pipeline.spark import MasterOption, followed, start
from stentor.cli.simulate import complete, resolve
from stentor.model.errors import InvalidInput
from stentor.simulation.outcome import Outcome
from stentor.simulation.scenarios import SCENARIOS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FILE = 100_000  # outcomes in a file
_FRUGAL = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}  # all the work is Python's: it needs the cores
_SHOWN = 10  # failing seeds of a scenario that are listed


class FailedSeed(msgspec.Struct, frozen=True):
    """A seed that failed."""

    scenario: str
    seed: int
    kinds: list[str]
    detail: str

    @property
    def command(self) -> str:
        return f"stentor simulate {self.scenario} --seed {self.seed}"


class CampaignSummary(msgspec.Struct, kw_only=True):
    """What many seeds of one scenario came to."""

    scenario: str
    first: int
    seeds: int
    failed: int
    seconds: float  # of one core
    slowest: float
    statistics: dict[str, int] = {}
    anomalies: dict[str, int] = {}  # by kind
    failing: list[FailedSeed] = []  # the first of them


def run(scenario: str, seed: int) -> Outcome:
    """Runs on the workers."""
    return SCENARIOS[scenario].run(seed)


def campaign(
    scenario: Annotated[str, typer.Argument(help="Which one, or 'all'.", autocompletion=complete)],
    seeds: Annotated[int, typer.Option("--seeds", help="Run this many seeds.", min=1)] = 1000,
    first: Annotated[int, typer.Option("--first", help="The first of them.", min=0)] = 0,
    master: MasterOption = "local[*]",
    out: Annotated[
        str | None, typer.Option("--out", help="Write every outcome as Parquet there; all workers must see it.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="A line of JSON for each scenario.")] = False,
) -> None:
    """Simulate with many seeds on Spark: nodes, network, disks and everything that can go wrong with them.

    Exit code 1 if something happened that must not; such seeds are listed with the command that replays them.
    """
    names = resolve(scenario)
    if out is not None and Path(out).exists():
        raise InvalidInput(f"--out {out}: is there already; a campaign is written once")
    spark = start(master, f"stentor campaign {scenario}", **_FRUGAL)
    from stentor.pipeline import campaign as job

    started = time.monotonic()
    found = job.outcomes(spark, names, first, seeds, run).persist()
    try:
        rows = followed(spark, scenario, job.summary(found).collect, quiet=json)
        seconds = time.monotonic() - started
        summaries = {row.scenario: CampaignSummary(first=first, **row.asDict()) for row in rows}
        _detail(found, summaries)
        for name in names:
            _show(summaries[name], seconds, json=json)
        if out is not None:
            found.coalesce(-(-len(names) * seeds // _FILE)).write.parquet(out)
    finally:
        found.unpersist()
    if any(each.failed for each in summaries.values()):
        raise typer.Exit(1)


def _detail(found: "DataFrame", summaries: dict[str, CampaignSummary]) -> None:
    from stentor.pipeline import campaign as job

    for row in job.statistics(found).orderBy("what").collect():
        summaries[row.scenario].statistics[row.what] = row["count"]
    if not any(each.failed for each in summaries.values()):
        return
    for row in job.failures(found).orderBy("kind").collect():
        summaries[row.scenario].anomalies[row.kind] = row.anomalies
    for row in job.failed(found, _SHOWN).orderBy("seed").collect():
        summaries[row.scenario].failing.append(FailedSeed(**row.asDict()))


def _show(summary: CampaignSummary, seconds: float, *, json: bool) -> None:
    if json:
        sys.stdout.write(msgspec.json.encode(summary).decode() + "\n")
        return
    console = Console(highlight=False, soft_wrap=True)
    verdict = f"[red]{summary.failed:,} failed[/]" if summary.failed else "[green]all well[/]"
    last = summary.first + summary.seeds - 1
    console.print(f"[bold]{summary.scenario}[/]: seeds {summary.first} to {last}, {verdict}")
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_row("seeds", f"{summary.seeds:,}")
    table.add_row("seconds", f"{seconds:.1f}, on one core {summary.seconds:.1f}, the slowest {summary.slowest:.2f}")
    for what, count in summary.statistics.items():
        table.add_row(what, f"{count:,}")
    for kind, count in summary.anomalies.items():
        table.add_row(f"[red]{kind}[/]", f"{count:,}")
    console.print(table)
    for failed in summary.failing:
        console.print(f"  {failed.command}    [red]{', '.join(failed.kinds)}[/]")
    if summary.failed > len(summary.failing):
        console.print(f"  … and {summary.failed - len(summary.failing):,} more")
