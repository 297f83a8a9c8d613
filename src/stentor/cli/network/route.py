"""`stentor route`: the way from a broker to a unit or another broker, as each broker on it would go on."""

import asyncio
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from stentor.admin.survey import Survey, survey, within_unit
from stentor.cli.terminal.narrow_table import Cell, narrow_table
from stentor.cli.terminal.options import TlsOption, UrlOption, WaitOption
from stentor.cli.terminal.printable import cell, print_json
from stentor.model.errors import InvalidInput, Unreachable
from stentor.model.reports.view import MemberView, NetworkView
from stentor.model.wording.count import counted
from stentor.model.wording.suggestion import suggestion


class RouteStep(msgspec.Struct, frozen=True):
    """A broker on the way, and what it thinks of the rest."""

    broker: str
    address: str
    towards: str  # what it sees of the goal, or the exit to which it goes first; "" if it is there, or knows nothing
    distance: tuple[float, ...]  # per level, the highest first
    hop: str  # its neighbour to go to next; "" if it has none


class BrokerRoute(msgspec.Struct, frozen=True):
    """The way from a broker to its target, as far as it goes."""

    start: str
    goal: str
    arrives: bool
    reason: str  # why it ends before the goal
    steps: tuple[RouteStep, ...]


def route(
    start: Annotated[str, typer.Argument(metavar="FROM", help="The broker where it begins, e.g. north/library/b1.")],
    goal: Annotated[str, typer.Argument(metavar="TO", help="A broker, or a unit such as south or south/lab.")],
    json: Annotated[bool, typer.Option("--json", help="The way, as JSON.")] = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Show the way from a broker to a unit or broker, hop by hop, with the distance that each broker sees.

    Every broker decides by its own routing cache, so each one on the way is asked. Exit codes: 0 it arrives, 1 it ends
    before, 2 there is no such broker or unit, 3 nobody can be asked.
    """
    found = asyncio.run(survey(url, tls, wait=wait))
    check_broker(found, start)
    known = [unit.name for unit in found.units() if unit.name] + list(found.brokers)
    if goal not in known:
        raise InvalidInput(f"there is no broker or unit {goal!r} in this network{suggestion(goal, known)}")
    way = follow(found, start, goal)
    if json:
        print_json(way)
    else:
        _show(way)
    if not way.arrives:
        raise typer.Exit(1)


def check_broker(found: Survey, name: str) -> None:
    """A broker that was asked has this name."""
    broker = found.brokers.get(name)
    if broker is None:
        raise InvalidInput(f"there is no broker {name!r} in this network{suggestion(name, found.brokers)}")
    if broker.view is None:
        raise Unreachable(f"{name} does not answer: {broker.trouble}")


def follow(found: Survey, start: str, goal: str) -> BrokerRoute:
    """Go from broker to broker, wherever each one's view points to."""
    views, steps = found.views(), list[RouteStep]()
    broker, reason = start, ""
    goals = [goal]  # the exits by which events leave the units around a broker come before what is beyond them
    while not reason:
        address = found.brokers[broker].address if broker in found.brokers else ""
        view = views.get(broker)
        there = within_unit(broker, goal)
        goals = [goal, *(each for each in goals[1:] if _is_ahead(broker, each))]
        member = None if view is None or there else _towards(view, goals[-1])
        circle = any(step.broker == broker for step in steps)
        hop = "" if member is None or circle else member.hop
        seen = ("", ()) if member is None else (member.unit, member.distance)
        steps.append(RouteStep(broker, address, *seen, hop))
        if view is None:
            reason = f"{broker} does not answer"
        elif there:
            return BrokerRoute(start, goal, True, "", tuple(steps))
        elif circle:
            reason = f"the way goes in a circle: it comes to {broker} again"
        elif member is None:
            reason = f"{broker} knows nothing of {goal}"
        elif not hop:
            reason = f"{broker} cannot reach {member.unit}"
        else:
            goals += member.exits
        broker = hop
    return BrokerRoute(start, goal, False, reason, tuple(steps))


def _is_ahead(broker: str, leaving: str) -> bool:
    """Return whether a broker is in the unit that has an exit, and not there yet."""
    return within_unit(broker, leaving.rpartition("/")[0]) and not within_unit(broker, leaving)


def _towards(view: NetworkView, goal: str) -> MemberView | None:
    """The member of a scope around a broker that is the goal, or holds it."""
    members = (member for scope in view.scopes for member in scope.members if member.members)
    return next((one for one in members if within_unit(goal, one.unit) and not within_unit(view.node, one.unit)), None)


def _show(way: BrokerRoute) -> None:
    console = Console(highlight=False)
    columns: dict[str, list[Cell]] = {
        "": [str(number) for number in range(len(way.steps))],
        "broker": [cell(step.broker, "bold") for step in way.steps],
        "address": [cell(step.address, "dim") for step in way.steps],
        "sees": [cell(step.towards) for step in way.steps],
        "distance": [distance_text(step.distance) for step in way.steps],
        "goes to": [cell(step.hop) for step in way.steps],
    }
    console.print(narrow_table(columns, console.width, spare=("address",)))
    if way.arrives:
        hops = counted(len(way.steps) - 1, "hop")
        console.print(cell(f"arrives at {way.goal} after {hops}", "green"), soft_wrap=True)
    else:
        console.print(cell(f"ends at {way.steps[-1].broker}: {way.reason}", "red"), soft_wrap=True)


def distance_text(distance: tuple[float, ...]) -> str:
    """What it costs on each level, the highest first: one step up outweighs any number of steps below."""
    levels = zip(range(len(distance) - 1, -1, -1), distance, strict=True)
    return " + ".join(f"{cost:g} at level {level}" for level, cost in levels if cost)
