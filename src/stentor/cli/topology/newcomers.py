"""Brokers that a file wants and that do not run: in which order they join, by which link, and who starts them.

A broker joins by one link, with which it moves nobody's way. All its other links come by plans, as those of everybody.
"""

import asyncio
from collections.abc import Callable, Collection

import msgspec

from stentor.admin import network as operation
from stentor.admin.survey import within_unit
from stentor.cli.network.placement import numbers_for
from stentor.cli.network.search import Found, Search, common_unit, member_of, members
from stentor.cli.running.control import start_broker
from stentor.cli.running.process import Assignment
from stentor.cli.running.up import assign
from stentor.config import Config, DialledLink, Node
from stentor.model.errors import InvalidInput, StentorError, Unreachable
from stentor.model.reports.view import NetworkView
from stentor.model.scope import ScopePath

_PAUSE = 0.2  # seconds between two looks


class Newcomer(msgspec.Struct, frozen=True):
    """A broker that is to join."""

    name: str
    neighbour: str  # the broker that it joins by


def newcomers(config: Config, running: Collection[str]) -> list[Newcomer]:
    """Return who is to join, in an order in which each finds somebody to join by; InvalidInput if one does not."""
    present = set(running)
    missing = sorted(str(node.name) for node in config.nodes if node.role == "broker" and str(node.name) not in present)
    found: list[Newcomer] = []
    while missing:
        ready = [(name, near) for name in missing if (near := _way_in(config, name, present))]
        if not ready:
            unit = _smallest_unit(missing[0], present)
            raise InvalidInput(
                f"{missing[0]} does not run, and has no link in the file to a broker of {unit or 'the network'} by "
                "which it could join: members of a unit must reach each other inside it"
            )
        name, near = ready[0]
        found.append(Newcomer(name, near))
        present.add(name)
        missing.remove(name)
    return found


def _smallest_unit(name: str, present: Collection[str]) -> str:
    """Return the smallest unit around a broker in which there are others; "" is the network."""
    path = ScopePath.parse(name)
    return max((common_unit(other, path) for other in present), key=len, default="")


def _way_in(config: Config, name: str, present: Collection[str]) -> str:
    """Return the broker that one could join by: it is in the smallest unit around it that there is; "" if none is."""
    unit = _smallest_unit(name, present)
    ends = [tuple(map(str, link.between)) for link in config.links]
    others = [one if other == name else other for one, other in ends if name in (one, other)]
    return next((other for other in others if other in present and within_unit(other, unit)), "")


async def bring_in(
    search: Search, config: Config, newcomer: Newcomer, within: float, tell: Callable[[str], None]
) -> None:
    """Have a broker started by the `stentor up` that runs the fabric, or wait until somebody has started it."""
    path = ScopePath.parse(newcomer.name)
    views, neighbour = await search.towards(path), await search.find(newcomer.neighbour)
    ready = await start_broker(config.fabric.data, _assignment(config, path, views, neighbour))
    if ready is None:
        tell(f"{newcomer.name} does not run: it is waited for, for {within:g} s; start it with")
        tell(f"  {_command(config, newcomer, neighbour)}")
    end = asyncio.get_running_loop().time() + within
    while not await _has_joined(search, path, neighbour):
        if asyncio.get_running_loop().time() > end:
            raise Unreachable(f"{newcomer.name} has not joined {newcomer.neighbour} within {within:g} s")
        await asyncio.sleep(_PAUSE)
    tell(f"{newcomer.name} has joined by {newcomer.neighbour}")


def _node(config: Config, name: str) -> Node:
    return next(node for node in config.nodes if str(node.name) == name)


def _assignment(config: Config, path: ScopePath, views: list[NetworkView], neighbour: Found) -> Assignment:
    """Return what the process of a newcomer is told: what the file says, and where it comes into what is there."""
    name = str(path)
    assignment = assign(config, _node(config, name), None, False, supervised=True)
    around = [scope for view in views for scope in view.scopes if within_unit(name, scope.scope)]
    link = next(link for link in config.links if {str(end) for end in link.between} == {name, neighbour.name})
    is_unit_there = common_unit(views[-1].node, path) == str(path.parent or "")
    taken = {member.number for member in members(views[-1], 0)} if is_unit_there else set()
    wanted = None if assignment.numbers[-1] in taken else assignment.numbers[-1]
    return msgspec.structs.replace(
        assignment,
        numbers=numbers_for(path, views, wanted),
        gateways=(DialledLink(name=neighbour.name, address=neighbour.address, cost=link.cost),),
        forwarding=assignment.forwarding | {scope.scope: scope.forwarding for scope in around},
        colours=assignment.colours | {scope.scope: scope.colour_settings for scope in around},
    )


def _command(config: Config, newcomer: Newcomer, neighbour: Found) -> str:
    node = _node(config, newcomer.name)
    return (
        f"stentor broker add {newcomer.name} --knowing {neighbour.address} --link {newcomer.neighbour} "
        f"--listen {node.listen} --data {config.fabric.data}"
    )


async def _has_joined(search: Search, path: ScopePath, neighbour: Found) -> bool:
    """Whether a broker has its place in the trees of all scopes around it, so that plans reach it."""
    seen = await search.look(neighbour.address)
    level = ScopePath.parse(neighbour.name).level_of_difference(path)
    member = member_of(seen, path, level)
    if member is None or not member.reachable:
        return False
    try:
        async with search.connect(member.address, wait=0.0) as fabric:
            view = await operation.view(fabric)
    except StentorError:
        return False
    trees = [scope.colours.tree for scope in view.scopes if scope.colours is not None and len(scope.members) > 1]
    return view.node == str(path) and all(tree.root not in ("", view.node) for tree in trees)
