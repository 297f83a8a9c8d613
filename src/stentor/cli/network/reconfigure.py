"""`stentor reconfigure`: makes the links of a running network what a file says, without losing an event."""

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from stentor.admin.plans import draw_plan, root_of, withdraw
from stentor.admin.survey import Survey, survey
from stentor.cli.network.planned import carry_out
from stentor.cli.network.search import Search
from stentor.cli.network.wanted_topology import ScopeChanges, differences
from stentor.cli.terminal.options import TlsOption, TokenOption, UrlOption, WaitOption
from stentor.cli.terminal.printable import print_json, printable
from stentor.config import load
from stentor.model.colours.plan import ENDED, PlanPhase, PlanView, TopologyChange
from stentor.model.colours.wave_timing import timing_of
from stentor.model.errors import InvalidInput, StentorError, Unreachable
from stentor.model.reports.view import NetworkView
from stentor.model.wording.count import counted


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One plan of a reconfiguration."""

    scope: str
    root: str
    round: int
    waves: int  # that it takes: one announces, one switches
    longest: float  # seconds that it can take, if nothing fails
    changes: tuple[TopologyChange, ...]
    ended: PlanView | None = None


def reconfigure(
    wanted: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="As `stentor up` reads it.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Only show the plans that roots know of.")] = False,
    abort: Annotated[bool, typer.Option("--abort", help="Take back what is not switched yet.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The plans and what became of them, as JSON.")] = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Make the links of a running network what a file says: links come, go, and cost something else.

    What changes in a scope is a plan, or two if several scopes change: what comes, then what goes. Links are opened and
    tables made while everything goes on as before; one wave switches all brokers; links are closed when nothing is
    under way on them any more. No event is lost, doubled or overtaken. The same file again changes nothing. Ctrl-C
    leaves a plan that is under way running: --status shows it, and --abort takes back what is not switched yet. Exit
    codes: 0 it is so, 1 a plan was undone, and nothing of it has changed.
    """
    search = Search(url, tls, wait, token)
    if [wanted is not None, status, abort].count(True) != 1:
        raise InvalidInput("expected a file, or --status, or --abort")
    found = asyncio.run(survey(url, tls, wait=wait))
    if wanted is None:
        asyncio.run(_abort(search, found)) if abort else _show(found, is_json=json)
        return
    config = load(wanted)
    steps = [_step(found, changes) for changes in differences(config, found)]
    if not dry_run:
        steps = asyncio.run(_run(search, found, steps, is_quiet=json))
    if json:
        print_json(steps)
    elif not steps:
        typer.echo("the network is as the file says")
    elif dry_run:
        for step in steps:
            _describe(step)


def _plans(found: Survey) -> dict[str, tuple[PlanView, ...]]:
    """Return the plans that the roots of all scopes know of."""
    return {unit.name: unit.colours.plans for unit in found.units() if unit.colours is not None and unit.colours.plans}


def _show(found: Survey, *, is_json: bool) -> None:
    plans = _plans(found)
    if is_json:
        print_json(plans)
    elif not plans:
        typer.echo("no root knows of a plan")
    for scope, known in {} if is_json else plans.items():
        for view in known:
            typer.echo(printable(f"{_title(scope)}, {counted(view.changes, 'change')}: {_progress(view)}"))


async def _abort(search: Search, found: Survey) -> None:
    """Take back the plans that have not ended; the root refuses what is switched."""
    open_plans = [(scope, view) for scope, known in _plans(found).items() for view in known if view.phase not in ENDED]
    if not open_plans:
        typer.echo("no plan is under way")
    for scope, view in open_plans:
        root = await search.find(root_of(_view_in(found, scope), scope))
        async with search.connect(root.address) as fabric:
            await withdraw(fabric, scope, view.number)
        typer.echo(printable(f"{_title(scope)}: {counted(view.changes, 'change')} taken back, nothing has changed"))


def _step(found: Survey, changes: ScopeChanges) -> PlannedStep:
    """Return the plan of one scope, with what is known of how it will go."""
    view = _view_in(found, changes.scope)
    known = next((each for each in view.scopes if each.scope == changes.scope), None)
    if known is None or known.colours is None or not known.colours.tree.root:
        raise Unreachable(f"{changes.scope or 'the network'} has no root at the moment, so nothing can be planned")
    timing = timing_of(known.colour_settings)
    return PlannedStep(
        scope=changes.scope,
        root=root_of(view, changes.scope),
        round=known.colours.tree.round,
        waves=2,
        longest=timing.prepare_within + 4 * timing.crossing + timing.drain_within,
        changes=changes.changes,
    )


def _view_in(found: Survey, scope: str) -> NetworkView:
    """Return what a broker in a scope told."""
    for name, view in sorted(found.views().items()):
        if not scope or name.startswith(scope + "/"):
            return view
    raise InvalidInput(f"no broker runs in {scope}")


async def _run(search: Search, found: Survey, steps: list[PlannedStep], *, is_quiet: bool) -> list[PlannedStep]:
    """Carry the plans out, one after the other."""
    done: list[PlannedStep] = []
    for step in steps:
        plan = draw_plan(step.changes)
        if not is_quiet:
            typer.echo(printable(f"{_title(step.scope)}, root {step.root}: {counted(len(step.changes), 'change')}"))

        def tell(view: PlanView) -> None:
            if not is_quiet:
                typer.echo(printable(f"  {_progress(view)}"))

        try:
            ended = await carry_out(search, _view_in(found, step.scope), step.scope, plan, tell)
        except StentorError as error:
            left = len(steps) - len(done)
            if not is_quiet and left > 1:
                typer.echo(f"{counted(left, 'plan')} of {len(steps)} not done", err=True)
            raise error from None
        done.append(msgspec.structs.replace(step, ended=ended))
    return done


def _progress(view: PlanView) -> str:
    """Return how far a plan has come, in words."""
    took = f"{view.seconds:.2f} s"
    match view.phase:
        case PlanPhase.PREPARING:
            waits = f": {view.reason}" if view.reason else ""
            return f"prepared {view.prepared} of {view.brokers} ({took}){waits}"
        case PlanPhase.DONE | PlanPhase.UNDONE:
            return f"{view.phase.value} in {took}" + (f": {view.reason}" if view.reason else "")
        case _:
            return f"{view.phase.value} ({took})"


def _describe(step: PlannedStep) -> None:
    typer.echo(
        printable(
            f"{_title(step.scope)}: {counted(len(step.changes), 'change')} in {step.waves} waves, by the root "
            f"{step.root} after round {step.round}; at most {step.longest:.0f} s"
        )
    )
    for change in step.changes:
        typer.echo(printable(f"  {_words(change)}"))
    typer.echo("  nothing falls apart: by the links of the file every member reaches every other one")


def _words(change: TopologyChange) -> str:
    link = f"{change.near} - {change.far}"
    if change.comes:
        return f"+ {link}, cost {change.after / 1000:g}"
    if change.goes:
        return f"- {link}"
    return f"~ {link}, cost {change.before / 1000:g} -> {change.after / 1000:g}"


def _title(scope: str) -> str:
    return scope or "the network"
