"""`stentor reconfigure`: makes a running network what a file says, without losing an event."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from stentor.admin.plans import draw_plan, root_of, withdraw
from stentor.admin.survey import Survey, survey, within_unit
from stentor.cli.network.search import Search
from stentor.cli.terminal.options import TlsOption, TokenOption, UrlOption, WaitOption
from stentor.cli.terminal.printable import print_json, printable
from stentor.cli.topology.departure import remove
from stentor.cli.topology.newcomers import Newcomer, bring_in
from stentor.cli.topology.planned import carry_out
from stentor.cli.topology.wanted_topology import ScopeChanges, WantedTopology, differences
from stentor.config import Config, load
from stentor.model.colours.plan import ENDED, PlanPhase, PlanView, TopologyChange
from stentor.model.colours.wave_timing import ColourSettings, timing_of
from stentor.model.errors import InvalidInput, StentorError, Unreachable
from stentor.model.reports.view import NetworkView
from stentor.model.scope import ScopePath
from stentor.model.wording.count import counted


class BrokerChange(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that joins or leaves."""

    name: str
    joins_by: str = ""  # the broker that it is linked with first; "" if it leaves
    clients: int = 0  # that have to move when it leaves


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One plan of a reconfiguration."""

    scope: str
    root: str
    round: int
    waves: int  # that it takes: one announces, one switches
    longest: float  # seconds that it can take, if nothing fails
    changes: tuple[TopologyChange, ...]
    roots: tuple[str, ...] | None = None  # the root group of the scope from then on; None if it stays
    ended: PlanView | None = None

    @property
    def size(self) -> int:
        return len(self.changes) + (self.roots is not None)


class Reconfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """All that changes, in this order."""

    joining: tuple[BrokerChange, ...]
    plans: tuple[PlannedStep, ...]
    leaving: tuple[BrokerChange, ...]

    def __bool__(self) -> bool:
        return bool(self.joining or self.plans or self.leaving)


def reconfigure(
    wanted: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="As `stentor up` reads it.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Only show the plans that roots know of.")] = False,
    abort: Annotated[bool, typer.Option("--abort", help="Take back what is not switched yet.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The changes and what became of them, as JSON.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds to wait for each broker that joins or leaves.")
    ] = 300.0,
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Make a running network what a file says: brokers join and leave, links come, go, and cost something else, scopes
    have other root groups.

    A broker that is in the file and does not run is started by the `stentor up` that runs the fabric of that file here,
    or waited for. One that runs and is not in the file leaves when its clients have moved. What changes in a scope is a
    plan, or two if several scopes change: what comes, then what goes. Links are opened and tables made while everything
    goes on as before; one wave switches all brokers; links are closed when nothing is under way on them any more. No
    event is lost, doubled or overtaken. The same file again changes nothing. Ctrl-C leaves a plan that is under way
    running: --status shows it, and --abort takes back what is not switched yet. Exit codes: 0 it is so, 1 a plan was
    undone, and nothing of it has changed.
    """
    search = Search(url, tls, wait, token)
    if [wanted is not None, status, abort].count(True) != 1:
        raise InvalidInput("expected a file, or --status, or --abort")
    found = asyncio.run(survey(url, tls, wait=wait))
    if wanted is None:
        asyncio.run(_abort(search, found)) if abort else _show(found, is_json=json)
        return
    config = load(wanted)
    changes = _describe(found, differences(config, found))
    if not dry_run:
        run = _Run(search, config, url, tls, timeout, (lambda _: None) if json else _echo)
        changes = asyncio.run(run.all(changes))
    if json:
        print_json(changes)
    elif not changes:
        typer.echo("the network is as the file says")
    elif dry_run:
        _print(changes)


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
        seen = _view_in(found, scope)
        assert seen is not None, "somebody told of the plan"
        root = await search.find(root_of(seen, scope))
        async with search.connect(root.address) as fabric:
            await withdraw(fabric, scope, view.number)
        typer.echo(printable(f"{_title(scope)}: {counted(view.changes, 'change')} taken back, nothing has changed"))


def _describe(found: Survey, wanted: WantedTopology) -> Reconfiguration:
    """Return what changes, with what is known of how it will go."""
    views = found.views()
    return Reconfiguration(
        joining=tuple(BrokerChange(name=each.name, joins_by=each.neighbour) for each in wanted.joining),
        plans=tuple(_step(found, changes) for changes in wanted.plans),
        leaving=tuple(BrokerChange(name=name, clients=views[name].clients) for name in wanted.leaving),
    )


def _step(found: Survey, changes: ScopeChanges) -> PlannedStep:
    """Return the plan of one scope; of one in which nobody runs yet, the root is not known."""
    view = _view_in(found, changes.scope)
    known = None if view is None else next((each for each in view.scopes if each.scope == changes.scope), None)
    if view is None or known is None:
        timing, root, round_number = timing_of(ColourSettings()), "", 0
    elif known.colours is None or not known.colours.tree.root:
        raise Unreachable(f"{_title(changes.scope)} has no root at the moment, so nothing can be planned")
    else:
        timing, root = timing_of(known.colour_settings), root_of(view, changes.scope)
        round_number = known.colours.tree.round
    return PlannedStep(
        scope=changes.scope,
        root=root,
        round=round_number,
        waves=2,
        longest=timing.prepare_within + 4 * timing.crossing + timing.drain_within,
        changes=changes.changes,
        roots=changes.roots,
    )


def _view_in(found: Survey, scope: str) -> NetworkView | None:
    """Return what a broker in a scope told; None if none runs there."""
    return next((view for name, view in sorted(found.views().items()) if within_unit(name, scope)), None)


class _Run:
    """A reconfiguration that is carried out."""

    def __init__(
        self,
        search: Search,
        config: Config,
        url: str | None,
        tls: Path | None,
        timeout: float,
        tell: Callable[[str], None],
    ) -> None:
        self._search = search
        self._config = config
        self._url = url
        self._tls = tls
        self._timeout = timeout
        self._tell = tell

    async def all(self, changes: Reconfiguration) -> Reconfiguration:
        """Return what was changed; raises what has kept the rest from it."""
        for each in changes.joining:
            newcomer = Newcomer(each.name, each.joins_by)
            await bring_in(self._search.anew(), self._config, newcomer, self._timeout, self._tell)
        found = await survey(self._url, self._tls)
        plans = changes.plans
        if changes.joining:  # now it is known where they listen, and who the roots of new units are
            plans = _describe(found, differences(self._config, found)).plans
        done: list[PlannedStep] = []
        for step in plans:
            try:
                done.append(await self._carry_out(found, step))
            except StentorError as error:
                left = len(plans) - len(done)
                if left > 1:
                    self._tell(f"{counted(left, 'plan')} of {len(plans)} not done")
                raise error from None
        for each in changes.leaving:
            await remove(self._search.anew(), ScopePath.parse(each.name), self._timeout)
        return msgspec.structs.replace(changes, plans=tuple(done))

    async def _carry_out(self, found: Survey, step: PlannedStep) -> PlannedStep:
        view = _view_in(found, step.scope)
        assert view is not None, "everybody who was missing has joined"
        self._tell(f"{_title(step.scope)}, root {step.root}: {counted(step.size, 'change')}")
        plan = draw_plan(step.changes, roots=step.roots)
        ended = await carry_out(self._search, view, step.scope, plan, lambda seen: self._tell(f"  {_progress(seen)}"))
        return msgspec.structs.replace(step, ended=ended)


def _echo(text: str) -> None:
    typer.echo(printable(text))


def _progress(view: PlanView) -> str:
    """Return how far a plan has come, in words."""
    took = f"{view.seconds:.2f} s"
    match view.phase:
        case PlanPhase.PREPARING:
            waits = f": {view.reason}" if view.reason else ""
            return f"prepared {view.prepared} of {view.brokers} ({took}){waits}"
        case PlanPhase.DONE | PlanPhase.UNDONE:
            held = f", events held for {view.held:.2f} s at most" if view.phase is PlanPhase.DONE else ""
            return f"{view.phase.value} in {took}{held}" + (f": {view.reason}" if view.reason else "")
        case _:
            return f"{view.phase.value} ({took})"


def _print(changes: Reconfiguration) -> None:
    for each in changes.joining:
        _echo(f"+ {each.name} joins by {each.joins_by}")
    for step in changes.plans:
        by = f"by the root {step.root} after round {step.round}; at most {step.longest:.0f} s" if step.root else "then"
        _echo(f"{_title(step.scope)}: {counted(step.size, 'change')} in {step.waves} waves, {by}")
        for change in step.changes:
            _echo(f"  {_words(change)}")
        if step.roots is not None:
            _echo(f"  ~ root group: {', '.join(step.roots) or 'every broker, by name'}")
    for each in changes.leaving:
        _echo(f"- {each.name} leaves: {counted(each.clients, 'client')} move to a neighbour first")
    _echo("nothing falls apart: by the links of the file every member reaches every other one")


def _words(change: TopologyChange) -> str:
    link = f"{change.near} - {change.far}"
    if change.comes:
        return f"+ {link}, cost {change.after / 1000:g}"
    if change.goes:
        return f"- {link}"
    return f"~ {link}, cost {change.before / 1000:g} -> {change.after / 1000:g}"


def _title(scope: str) -> str:
    return scope or "the network"
