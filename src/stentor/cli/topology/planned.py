"""Carries plans out for commands: finds the root of a scope, asks it, and says how far the plan has come."""

from collections.abc import Callable

import typer

from stentor.admin.plans import request, root_of, watch
from stentor.cli.network.search import Search
from stentor.cli.terminal.printable import printable
from stentor.model.colours.plan import PlanPhase, PlanView, TopologyPlan
from stentor.model.errors import Refusal, Refused, Unreachable
from stentor.model.reports.view import NetworkView
from stentor.model.wording.count import counted

WITHIN = 120.0  # seconds: longer than a plan may take to be prepared and to drain, several times


async def carry_out(
    search: Search,
    view: NetworkView,
    scope: str,
    plan: TopologyPlan,
    on_progress: Callable[[PlanView], None] = lambda _: None,
) -> PlanView:
    """Carry a plan out in a scope that a broker is in, and wait for its end; raises Refused if it is undone."""
    root = root_of(view, scope)
    if not root:
        raise Unreachable(
            f"{scope or 'the network'} has no root at the moment, so nothing can be planned; --at-once needs none"
        )
    found = await search.find(root)
    async with search.connect(found.address) as fabric:
        await request(fabric, scope, plan)
        ended = await watch(fabric, scope, plan.number, WITHIN, on_progress)
    if ended.phase is PlanPhase.UNDONE:
        raise Refused(Refusal.BUSY, f"nothing has changed: {ended.reason}")
    if ended.in_doubt:
        typer.echo(printable(f"{counted(ended.in_doubt, 'parcel')} may have been lost: {ended.reason}"), err=True)
    return ended
