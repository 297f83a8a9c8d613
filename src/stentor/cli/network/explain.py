"""`stentor explain`: where an event would go, hop by hop, and why."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from stentor.admin import network as operation
from stentor.admin.survey import WITHIN, survey
from stentor.cli.network.route import check_broker
from stentor.cli.terminal.options import AttributesOption, TlsOption, UrlOption, WaitOption, parse_attributes
from stentor.cli.terminal.printable import cell, print_json, printable
from stentor.client.fabric import connect
from stentor.model.attribute import Value
from stentor.model.errors import StentorError
from stentor.model.reports.view import Explanation, HopView
from stentor.model.topic import check_topic
from stentor.model.wording.count import counted

_AT_ONCE = 16  # visits


class ExplainedStop(msgspec.Struct, frozen=True):
    """A broker where the event comes by, and where it goes from there."""

    broker: str
    trouble: str  # why it could not be asked, or why it is not followed any further
    matchings: int  # on the way to its clients, the one for themselves included; 0 if it is not for them
    explanation: Explanation | None
    onward: tuple["Leg", ...]


class Leg(msgspec.Struct, frozen=True):
    """A hop to the next broker; nobody is there if the channel stops the event."""

    hop: HopView
    station: ExplainedStop | None


def explain(
    topic: Annotated[str, typer.Argument(help="The event's topic, e.g. flights/jfk.")],
    attr: AttributesOption = None,
    start: Annotated[
        str | None, typer.Option("--from", help="The broker where it is published.", show_default="the one at --url")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="All of it, as JSON.")] = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Show where an event would go and why, without publishing it: who matches it, who wants it, who hands it on.

    Each broker on the way says what it would do, decided by what decides it for real.
    """
    check_topic(topic)
    attributes = parse_attributes(attr or [])
    journey = asyncio.run(_explain(topic, attributes, start, url, tls, wait))
    if json:
        print_json(journey)
        return
    console = Console(highlight=False)
    tree = Tree(_headline(journey, None))
    _grow(tree, journey)
    console.print(tree)
    console.print(_summary(journey), soft_wrap=True)


async def _explain(
    topic: str, attributes: dict[str, Value], start: str | None, url: str | None, tls: Path | None, wait: float
) -> ExplainedStop:
    if start is not None:
        found = await survey(url, tls, wait=wait)
        check_broker(found, start)
        url = f"stentor://{found.brokers[start].address}"
    return await Journey(topic, attributes, tls).begin(url, wait)


class Journey:
    """An event that is followed without being sent."""

    def __init__(self, topic: str, attributes: dict[str, Value], tls: str | Path | None = None) -> None:
        self._topic = topic
        self._attributes = attributes
        self._tls = tls
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def begin(self, url: str | None, wait: float = 0.0) -> ExplainedStop:
        """At the broker of its publisher; raises if that one cannot be asked."""
        told = await self._ask(url, None, wait)
        depth = told.node.count("/") + 1
        onward = await self._go_on(told, (1,) * depth, (told.node,))
        return ExplainedStop(told.node, "", 1, told, onward)

    async def _ask(self, url: str | None, hop: HopView | None, wait: float = 0.0) -> Explanation:
        """Ask a broker what it would do with the event, which comes to it by a hop, or from one of its clients."""
        level, masks, exits = (0, None, ()) if hop is None else (hop.level, hop.masks, hop.exits)
        async with self._turns, connect(url, tls=self._tls, timeout=WITHIN, wait=wait, stay=True) as fabric:
            return await operation.explain(
                fabric, self._topic, self._attributes, level=level, masks=masks, exits=exits, within=WITHIN
            )

    async def _go_on(self, told: Explanation, matchings: tuple[int, ...], path: tuple[str, ...]) -> tuple[Leg, ...]:
        legs = [self._leg(hop, matchings, path) for hop in told.hops]
        return tuple(await asyncio.gather(*legs))

    async def _leg(self, hop: HopView, matchings: tuple[int, ...], path: tuple[str, ...]) -> Leg:
        if not hop.passes:
            return Leg(hop, None)
        if hop.peer in path:
            return Leg(hop, ExplainedStop(hop.peer, "it has been here: the way goes in a circle", 0, None, ()))
        try:
            told = await self._ask(f"stentor://{hop.address}", hop)
        except StentorError as error:
            return Leg(hop, ExplainedStop(hop.peer, str(error), 0, None, ()))
        before = matchings[hop.level]
        if told.matched:  # for the levels below the one on which it entered, as parcels count it
            matchings = (before + 1,) * hop.level + matchings[hop.level :]
        onward = await self._go_on(told, matchings, (*path, hop.peer))
        return Leg(hop, ExplainedStop(told.node, "", before + 1 if told.enters else 0, told, onward))


# ---- for people


def _headline(station: ExplainedStop, hop: HopView | None) -> Text:
    told = station.explanation
    label = Text()
    if hop is not None:
        units = "" if hop.units == (hop.peer,) else printable(f"for {', '.join(hop.units)} ")
        label.append(units, "dim").append("→ ", "dim")
    label.append(printable(station.broker), "bold")
    if told is None:
        return label.append(f"  {printable(station.trouble)}", "red")
    if hop is None:
        label.append("  begins here, matching no. 1")
    elif told.enters:
        label.append(f"  enters, matching no. {station.matchings}")
    else:
        label.append("  hands it on unread")
    if told.matched:
        members = ", ".join(each or "the network" for each in told.matched)
        label.append(printable(f"; for the members of {members}"), "cyan")
    if hop is not None and hop.way:
        label.append(printable(f"; {hop.way}"), "yellow" if hop.way.startswith("off") else "dim")
    return label


def _grow(branch: Tree, station: ExplainedStop) -> None:
    told = station.explanation
    if told is None:
        return
    if told.clients:
        branch.add(Text("wanted by its clients ").append(printable(", ".join(told.clients)), "green"))
    if told.stranded:
        branch.add(cell(f"wanted by {', '.join(told.stranded)}, which cannot be reached", "red"))
    for leg in station.onward:
        if leg.station is None:
            units = ", ".join(leg.hop.units)
            branch.add(cell(f"for {units} → {leg.hop.peer}  the channel to it lets no such event pass", "yellow"))
        else:
            _grow(branch.add(_headline(leg.station, leg.hop)), leg.station)
    if not (told.clients or told.stranded or station.onward):
        branch.add(Text("nobody wants it" if told.enters else "it ends here", "dim"))


def _summary(journey: ExplainedStop) -> Text:
    stations = list(_stations(journey))
    asked = [each for each in stations if each.explanation is not None]
    clients = {client for each in asked if each.explanation for client in each.explanation.clients}
    most = max((each.matchings for each in asked if each.explanation and each.explanation.clients), default=0)
    ways = f"; at most {counted(most, 'matching')} on the way to any client" if clients else ""
    brokers = len({each.broker for each in asked})
    return Text(
        f"{counted(len(clients), 'client')}, {counted(brokers, 'broker')}, {counted(len(stations) - 1, 'hop')}{ways}"
    )


def _stations(station: ExplainedStop) -> Iterator[ExplainedStop]:
    yield station
    for leg in station.onward:
        if leg.station is not None:
            yield from _stations(leg.station)
