"""An operator in a process of its own that lives as long as the network: no change of a link takes a command's start.

`python -m benchmarks.colours.operator URL` reads a line for each change, `remove|add NEAR FAR planned|sudden`, and
answers each with a line: seconds that the plan took and those of them in which events waited; zeros without a plan.
"""

import asyncio
import sys
import time

from stentor.admin import network as operation
from stentor.admin.plans import draw_plan
from stentor.cli.network.search import Found, Search
from stentor.cli.topology.planned import carry_out
from stentor.model.colours.plan import TopologyChange
from stentor.model.errors import Refused, StentorError
from stentor.model.messages import AdminTask
from stentor.model.scope import ScopePath
from stentor.nodes.network.link_cost import thousandths

_COST = 1.0
_UP_WITHIN = 10.0  # seconds
_PAUSE = 0.01


async def _by_plan(search: Search, near: str, far: str, comes: bool) -> tuple[float, float]:
    one, other = await search.find(near), await search.find(far)
    view = await search.view_at(one.address)
    scope = view.scopes[ScopePath.parse(near).level_of_difference(ScopePath.parse(far))].scope
    before, after = (0, thousandths(_COST)) if comes else (thousandths(_COST), 0)
    change = TopologyChange(near=near, far=far, before=before, after=after, address=other.address)
    ended = await carry_out(search, view, scope, draw_plan([change]))
    return ended.seconds, ended.held


async def _at_once(search: Search, near: str, far: str, comes: bool) -> None:
    one, other = await search.find(near), await search.find(far)
    if not comes:
        refusals = [await _remove(search, here, there) for here, there in ((one, other), (other, one))]
        if all(refusals):  # only the end that opens a link can do without it
            raise StentorError(refusals[0])
        return
    async with search.connect(one.address) as fabric:
        await operation.order(fabric, AdminTask.ADD_LINK, far, address=other.address, cost=_COST)
    end = time.monotonic() + _UP_WITHIN
    while not await _is_up(search, one.address, far):
        if time.monotonic() > end:
            raise StentorError(f"no link from {near} to {far}")
        await asyncio.sleep(_PAUSE)


async def _remove(search: Search, here: Found, there: Found) -> str:
    """Return why not, "" if it is removed."""
    async with search.connect(here.address) as fabric:
        try:
            await operation.order(fabric, AdminTask.REMOVE_LINK, there.name, address=there.address)
        except Refused as error:
            return error.reason
    return ""


async def _is_up(search: Search, address: str, peer: str) -> bool:
    return any(link.peer == peer and link.state == "up" for link in (await search.look(address)).links)


async def _serve(url: str) -> None:
    known = Search(url, None)
    for line in sys.stdin:
        what, near, far, how = line.split()
        search = known.anew()
        if how == "planned":
            seconds, held = await _by_plan(search, near, far, what == "add")
        else:
            await _at_once(search, near, far, what == "add")
            seconds = held = 0.0
        print(seconds, held, flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
