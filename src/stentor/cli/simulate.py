"""`stentor simulate`: whole scenarios in virtual time, out of a seed; the same seed gives the same run anywhere."""

import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from difflib import get_close_matches
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from stentor.simulation.outcome import Outcome
from stentor.simulation.scenarios import SCENARIOS

ALL = "all"
_CHUNK = 20  # seeds that a process runs before it reports
_SHOWN = 10  # failing seeds that are listed


class Campaign(msgspec.Struct, kw_only=True):
    """What many seeds of one scenario came to."""

    scenario: str
    first: int
    seeds: int = 0
    seconds: float = 0.0
    statistics: Counter[str] = msgspec.field(default_factory=Counter)
    failed: list[Outcome] = []

    def add(self, outcomes: list[Outcome]) -> None:
        self.seeds += len(outcomes)
        for outcome in outcomes:
            for what, count in outcome.statistics.items():
                before = self.statistics[what]
                self.statistics[what] = max(before, count) if what.startswith("most-") else before + count
            if outcome.anomalies:
                self.failed.append(outcome)


def complete(incomplete: str) -> list[str]:
    """Scenarios that begin like this."""
    return [name for name in (*SCENARIOS, ALL) if name.startswith(incomplete)]


def simulate(
    scenario: Annotated[
        str | None, typer.Argument(help="Which one, or 'all'; without it they are listed.", autocompletion=complete)
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Replay this seed.", min=0)] = None,
    seeds: Annotated[int, typer.Option("--seeds", help="Run this many seeds, on all cores.", min=1)] = 100,
    first: Annotated[int, typer.Option("--from", help="The first of them.", min=0)] = 0,
    trace: Annotated[bool, typer.Option("--trace", help="With --seed: print every step.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The outcome as JSON.")] = False,
) -> None:
    """Simulate nodes, network, disks and everything that can go wrong with them.

    Exit code 1 if something happened that must not; each such seed is listed with the command that replays it.
    """
    if scenario is None:
        _list_scenarios()
        return
    names = resolve(scenario)
    if trace and seed is None:
        raise typer.BadParameter("a trace is of one run: say which --seed")
    if seed is not None:
        outcomes = [SCENARIOS[name].run(seed, keep_trace=trace) for name in names]
        for outcome in outcomes:
            _show(outcome, json)
        failed = any(outcome.anomalies for outcome in outcomes)
    else:
        campaigns = [_campaign(name, first, seeds, quiet=json) for name in names]
        for campaign in campaigns:
            _summarise(campaign, json)
        failed = any(campaign.failed for campaign in campaigns)
    if failed:
        raise typer.Exit(1)


def resolve(scenario: str) -> list[str]:
    """Which scenarios are meant."""
    if scenario == ALL:
        return list(SCENARIOS)
    if scenario in SCENARIOS:
        return [scenario]
    near = get_close_matches(scenario, [*SCENARIOS, ALL], n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, [*SCENARIOS, ALL]))}"
    raise typer.BadParameter(f"there is no scenario {scenario!r}: {hint}")


def _list_scenarios() -> None:
    table = Table("scenario", "what it is about", box=None, pad_edge=False)
    for each in SCENARIOS.values():
        table.add_row(each.name, each.description)
    Console().print(table)


def _campaign(name: str, first: int, seeds: int, *, quiet: bool) -> Campaign:
    """Many seeds, spread over all cores."""
    campaign = Campaign(scenario=name, first=first, failed=[])
    started = time.monotonic()
    progress = Progress(
        TextColumn(name),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]} failed"),
        console=Console(stderr=True),
        disable=quiet or not sys.stderr.isatty(),
    )
    with progress:
        task = progress.add_task(name, total=seeds, failed=0)
        for outcomes in _run_all(name, first, seeds):
            campaign.add(outcomes)
            progress.update(task, advance=len(outcomes), failed=len(campaign.failed))
    campaign.seconds = time.monotonic() - started
    campaign.failed.sort(key=lambda outcome: outcome.seed)
    return campaign


def _run_all(name: str, first: int, seeds: int) -> Iterator[list[Outcome]]:
    """The outcomes of chunks of seeds, as they are ready; in this process if there are but a few."""
    chunks = [range(start, min(start + _CHUNK, first + seeds)) for start in range(first, first + seeds, _CHUNK)]
    workers = min(os.cpu_count() or 1, len(chunks))
    if workers == 1:
        yield from (_run_chunk(name, chunk) for chunk in chunks)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        try:
            for future in as_completed([pool.submit(_run_chunk, name, chunk) for chunk in chunks]):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_chunk(name: str, seeds: range) -> list[Outcome]:
    return [SCENARIOS[name].run(seed) for seed in seeds]


def _show(outcome: Outcome, json: bool) -> None:
    if json:
        sys.stdout.write(msgspec.json.encode(outcome).decode() + "\n")
        return
    console = Console(highlight=False, soft_wrap=True)
    for line in outcome.trace:
        console.print(line, markup=False)
    console.print(f"[bold]{outcome.scenario}[/] seed {outcome.seed}")
    console.print(f"  digest {outcome.digest}")
    console.print("  " + ", ".join(f"{count:,} {what}" for what, count in outcome.statistics.items()))
    for anomaly in outcome.anomalies:
        console.print(f"  [red]{anomaly.kind}[/]: ", end="")
        console.print(anomaly.detail, markup=False)
    if not outcome.anomalies:
        console.print("  [green]nothing happened that must not[/]")


def _summarise(campaign: Campaign, json: bool) -> None:
    if json:
        sys.stdout.write(msgspec.json.encode(campaign).decode() + "\n")
        return
    console = Console(highlight=False, soft_wrap=True)
    last = campaign.first + campaign.seeds - 1
    rate = campaign.seeds / campaign.seconds if campaign.seconds else 0.0
    console.print(
        f"[bold]{campaign.scenario}[/]: seeds {campaign.first} to {last} in {campaign.seconds:.1f} s ({rate:.0f}/s), "
        + (f"[red]{len(campaign.failed)} failed[/]" if campaign.failed else "[green]all well[/]")
    )
    console.print("  " + ", ".join(f"{count:,} {what}" for what, count in sorted(campaign.statistics.items())))
    for outcome in campaign.failed[:_SHOWN]:
        kinds = ", ".join(f"{kind} ×{count}" for kind, count in Counter(a.kind for a in outcome.anomalies).items())
        console.print(f"  stentor simulate {outcome.scenario} --seed {outcome.seed}    [red]{kinds}[/]")
    if len(campaign.failed) > _SHOWN:
        console.print(f"  … and {len(campaign.failed) - _SHOWN} more")
