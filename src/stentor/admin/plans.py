"""Plans, as operators see them: asked of the root of a scope, watched until they have ended, taken back."""

import asyncio
from collections.abc import Callable, Iterable
from random import SystemRandom

from stentor.admin import network as operation
from stentor.client.fabric import Fabric
from stentor.model.colours.plan import ENDED, PlanView, TopologyChange, TopologyPlan
from stentor.model.errors import Refused, Unreachable
from stentor.model.messages import AdminReceipt, AdminRequest, AdminTask
from stentor.model.reports.view import NetworkView

_PAUSE = 0.05  # seconds between two looks at a plan
_WITHIN = 10.0  # seconds for an answer
_LAST_NUMBER = 2**63 - 1


def draw_plan(
    changes: Iterable[TopologyChange], leaves: Iterable[str] = (), roots: tuple[str, ...] | None = None
) -> TopologyPlan:
    """Return a plan with a number that no other one has."""
    return TopologyPlan(SystemRandom().randint(1, _LAST_NUMBER), tuple(changes), tuple(leaves), roots)


def root_of(view: NetworkView, scope: str) -> str:
    """Return the root of a scope, as a broker in it tells; "" if it knows none."""
    found = next((each for each in view.scopes if each.scope == scope), None)
    return "" if found is None or found.colours is None else found.colours.tree.root


def plan_in(view: NetworkView, scope: str, number: int) -> PlanView | None:
    """Return what a broker tells of a plan of which it is, or was, the root."""
    found = next((each for each in view.scopes if each.scope == scope), None)
    plans = () if found is None or found.colours is None else found.colours.plans
    return next((each for each in plans if each.number == number), None)


async def request(fabric: Fabric, scope: str, plan: TopologyPlan) -> None:
    """Ask the root of a scope to carry a plan out; raises Refused with its reason."""
    await _order(fabric, AdminTask.RECONFIGURE, scope, plan)


async def withdraw(fabric: Fabric, scope: str, number: int) -> None:
    """Ask the root of a scope to take a plan back; raises Refused if it is switched already."""
    await _order(fabric, AdminTask.WITHDRAW_PLAN, scope, TopologyPlan(number, ()))


async def _order(fabric: Fabric, task: AdminTask, scope: str, plan: TopologyPlan) -> None:
    answer = await fabric.ask(AdminRequest(token=fabric.token(), task=task, scope=scope, plan=plan), _WITHIN)
    assert isinstance(answer, AdminReceipt)
    if answer.code is not None:
        raise Refused(answer.code, answer.reason)


async def watch(
    fabric: Fabric, scope: str, number: int, within: float, on_progress: Callable[[PlanView], None] = lambda _: None
) -> PlanView:
    """Wait until a plan has ended; raises Unreachable if it has not in time, or the broker knows nothing of it."""
    loop = asyncio.get_running_loop()
    end, last = loop.time() + within, None
    while True:
        plan = plan_in(await operation.view(fabric), scope, number)
        if plan is None:
            raise Unreachable(f"nobody knows what has become of plan {number}: the root of the scope is another one")
        if (plan.phase, plan.prepared, plan.reason) != last:
            last = plan.phase, plan.prepared, plan.reason
            on_progress(plan)
        if plan.phase in ENDED:
            return plan
        if loop.time() > end:
            raise Unreachable(f"plan {number} is still {plan.phase} after {within:g} s, and goes on: {plan.reason}")
        await asyncio.sleep(_PAUSE)
