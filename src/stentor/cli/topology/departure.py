"""A broker leaves for good: others become roots in its place, its clients move to a neighbour, and plans take its links
away, so that nothing is lost. One that is dead already is forgotten.
"""

import asyncio
from contextlib import suppress

import typer

from stentor.admin import network as operation
from stentor.admin.plans import draw_plan
from stentor.cli.network.placement import parted_without
from stentor.cli.network.search import Search, common_unit, level_in, member_of
from stentor.cli.topology.planned import carry_out
from stentor.model.colours.plan import TopologyChange
from stentor.model.errors import Refusal, Refused, Unreachable
from stentor.model.messages import AdminTask
from stentor.model.reports.view import MemberView, NetworkView
from stentor.model.scope import ScopePath
from stentor.model.wording.count import counted
from stentor.nodes.network.link_cost import thousandths

_PAUSE = 0.1  # seconds between two looks
_ALL = 1 << 20  # clients: more than a broker has


async def remove(
    search: Search, path: ScopePath, timeout: float, *, force: bool = False, at_once: bool = False
) -> None:
    """Make a broker leave; of one that is dead already, or whose whole unit is, make the network forget it."""
    name, end = str(path), asyncio.get_running_loop().time() + timeout
    if await _dismiss_unit(search, path, force):
        return
    found = await search.find(name)
    try:
        view = await search.look(found.address)
        alive = view.node == name
    except Unreachable:
        alive = False
    if not alive:
        await _dismiss(search, path, end)
        typer.echo(f"{name} was dead already; the network forgets it")
        return
    parted = parted_without(view)
    if parted and not force:
        raise Refused(Refusal.PROTOCOL, f"{parted}; --force removes it anyway")
    neighbours = [each.address for each in view.links if each.state == "up"]
    has_departed = not (force or at_once) and await _depart(search, view, end)
    async with search.connect(found.address) as fabric:
        await operation.order(fabric, AdminTask.LEAVE)
    if has_departed:  # it had no links left to tell anybody
        await _dismiss(search, path, end + timeout)
    for address in neighbours[:1]:
        while _stays(await search.look(address), path):
            if asyncio.get_running_loop().time() > end:
                raise Unreachable(f"{name} was told to leave, and is still there after {timeout:g} s")
            await asyncio.sleep(_PAUSE)
    typer.echo(f"{name} left the network")


async def _depart(search: Search, view: NetworkView, end: float) -> bool:
    """Part a broker from the network; return False if it has no neighbour in its own unit, and so must go at once."""
    links = [link for link in view.links if link.state == "up"]
    near = [link for link in links if link.level == 0]
    if not near:
        return False
    view = await _hand_over(search, view, end)
    await _move_clients(search, view, near[0].address, end)
    for level in sorted({link.level for link in links}, reverse=True):
        changes = [
            TopologyChange(near=view.node, far=link.peer, before=thousandths(link.base or link.cost), after=0)
            for link in links
            if link.level == level
        ]
        await carry_out(search, view, view.scopes[level].scope, draw_plan(changes, leaves=[view.node]))
    return True


async def _hand_over(search: Search, view: NetworkView, end: float) -> NetworkView:
    """Let others be the roots of all scopes around a broker; return what it tells when they are."""
    loop = asyncio.get_running_loop()
    async with search.connect(view.address) as fabric:
        while not _has_handed_over(view) and loop.time() < end:
            with suppress(Refused):  # a plan is under way, or the tree is not whole
                await operation.order(fabric, AdminTask.HAND_OVER)
            await asyncio.sleep(_PAUSE)
            view = await operation.view(fabric)
    return view


def _has_handed_over(view: NetworkView) -> bool:
    """Whether every scope that holds others has a root, and that is not this broker."""
    known = [scope.colours for scope in view.scopes if scope.colours is not None and len(scope.members) > 1]
    return all(colours.tree.root not in ("", view.node) for colours in known)


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


async def _dismiss_unit(search: Search, path: ScopePath, force: bool) -> bool:
    """If nobody in a broker's unit can be reached, those around that unit can only forget all of it."""
    seer = (await search.towards(path))[-1]
    level = level_in(seer, path)
    unit = member_of(seer, path, level)
    if level == 0 or unit is None or not unit.members or unit.reachable:
        return False
    if unit.members > 1 and not force:
        raise Refused(
            Refusal.PROTOCOL,
            f"{seer.node} cannot reach {unit.unit}, which had {unit.members} members: --force makes the network forget "
            "them all",
        )
    async with search.connect(seer.address) as fabric:
        await operation.order(fabric, AdminTask.DISMISS, unit.unit)
    typer.echo(f"{unit.unit} was dead already, with all that was in it; the network forgets it")
    return True


async def _dismiss(search: Search, path: ScopePath, end: float) -> None:
    """Say it to a broker of the dead one's unit; those there may need some time to notice that it is dead."""
    seer = (await search.towards(path))[-1]
    while True:
        try:
            async with search.connect(seer.address) as fabric:
                await operation.order(fabric, AdminTask.DISMISS, str(path))
            return
        except Refused as error:
            member = _member(await search.look(seer.address), path)
            if member is None or not member.reachable:
                raise
            if asyncio.get_running_loop().time() > end:
                raise Unreachable(f"{path} does not answer, but the network reaches it: {error}") from None
        await asyncio.sleep(_PAUSE)


def _member(view: NetworkView, path: ScopePath) -> MemberView | None:
    return member_of(view, path, 0) if common_unit(view.node, path) == str(path.parent or "") else None


def _stays(view: NetworkView, path: ScopePath) -> bool:
    """Whether a broker knows of a link to another, or that this is in its unit."""
    member = _member(view, path)
    return any(each.peer == str(path) and each.state != "down" for each in view.links) or (
        member is not None and member.members > 0
    )
