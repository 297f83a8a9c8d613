"""A broker leaves without a loss: its clients move to a neighbour, and plans take its links away."""

import asyncio

import typer

from stentor.admin import network as operation
from stentor.admin.plans import draw_plan
from stentor.cli.network.planned import carry_out
from stentor.cli.network.search import Search
from stentor.model.colours.plan import TopologyChange
from stentor.model.messages import AdminTask
from stentor.model.reports.view import NetworkView
from stentor.model.wording.count import counted
from stentor.nodes.network.link_cost import thousandths

_PAUSE = 0.1  # seconds between two looks
_ALL = 1 << 20  # clients: more than a broker has


async def depart(search: Search, view: NetworkView, end: float) -> bool:
    """Part a broker from the network; return False if it has no neighbour in its own unit, and so must go at once."""
    links = [link for link in view.links if link.state == "up"]
    near = [link for link in links if link.level == 0]
    if not near:
        return False
    await _move_clients(search, view, near[0].address, end)
    for level in sorted({link.level for link in links}, reverse=True):
        changes = [
            TopologyChange(near=view.node, far=link.peer, before=thousandths(link.base or link.cost), after=0)
            for link in links
            if link.level == level
        ]
        await carry_out(search, view, view.scopes[level].scope, draw_plan(changes, leaves=[view.node]))
    return True


async def _move_clients(search: Search, view: NetworkView, address: str, end: float) -> None:
    """Ask all clients of a broker to go to a neighbour, and wait until they have."""
    loop = asyncio.get_running_loop()
    async with search.connect(view.address) as fabric:
        await operation.order(fabric, AdminTask.MOVE_CLIENTS, address=address, count=_ALL)
        while (left := (await operation.view(fabric)).clients - 1) > 0:  # we are one ourselves
            if loop.time() > end:
                typer.echo(f"{counted(left, 'client')} of {view.node} did not move: they connect again", err=True)
                return
            await asyncio.sleep(_PAUSE)
