"""`stentor map`: the whole network, asked broker by broker, for people, programs and pictures."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from stentor.admin.legality_survey import ColoursSeen
from stentor.admin.survey import SUSPECTED, UP, BrokerSeen, Survey, UnitSeen, concerns, survey
from stentor.cli.network.drawing import draw, short
from stentor.cli.terminal.narrow_table import Cell, narrow_table
from stentor.cli.terminal.options import TlsOption, UrlOption, WaitOption
from stentor.cli.terminal.printable import cell, print_json, printable
from stentor.model.colours.plan import ENDED
from stentor.model.errors import StentorError
from stentor.model.wording.count import counted

_COLOURS = {UP: "green", SUSPECTED: "yellow", "down": "red", "unreachable": "red"}
_SHARPNESS = 2.0  # pixels of a PNG for each of the SVG


def network_map(
    svg: Annotated[Path | None, typer.Option("--svg", help="Draw it into this file.", dir_okay=False)] = None,
    png: Annotated[
        Path | None, typer.Option("--png", help="The same as pixels (needs stentor\\[map]).", dir_okay=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Show the network: units, brokers and their load, links with level, cost and traffic, and what is not reached.

    Of each unit it says which broker is its root, in which round it is, whether it is in its correct state or why not,
    and the bound: the seconds within which it heals itself after the last fault.

    A broker sees only its own surroundings, so the walk begins at --url and goes on to every broker that anybody there
    knows. Who does not answer within 4 seconds is marked. With --svg or --png, a picture is drawn.
    """
    found = asyncio.run(survey(url, tls, wait=wait, is_judged=True))
    if svg is not None or png is not None:
        picture = draw(found)
        if svg is not None:
            svg.write_text(picture, encoding="utf-8")
        if png is not None:
            png.write_bytes(render(picture))
    if json:
        print_json(found)
        return
    console = Console(highlight=False)
    console.print(_tree(found))
    if found.links:
        console.print(_links(found, console.width))
    troubles = concerns(found)
    for line in troubles:
        console.print(cell(f"! {line}", "red"), soft_wrap=True)
    if not troubles:
        console.print("all brokers answer, no unit is in parts, and all are in their correct state", style="green")
    for path in (svg, png):
        if path is not None:
            console.print(Text(f"drawn: {path}", "dim"), soft_wrap=True)


def render(picture: str) -> bytes:
    """An SVG picture as PNG."""
    try:
        from resvg_py import svg_to_bytes  # an extra: few need pixels
    except ImportError:
        raise StentorError("--png needs a renderer: pip install 'stentor[map]', or use --svg") from None
    return bytes(svg_to_bytes(svg_string=picture, zoom=_SHARPNESS))


def _tree(found: Survey) -> Tree:
    silent = len(found.brokers) - len(found.views())
    words = f"network: {counted(len(found.brokers), 'broker')}, {counted(len(found.links), 'link')}"
    words += f", {silent} silent" if silent else ""
    paths = _path_length(found, "")
    words += f", {paths:.1f} on a path between its members on average" if paths else ""
    label = Text(words, "bold").append_text(_policy(found, ""))
    if found.network.colours is not None:
        label.append(", ").append_text(_colours("", found.network.colours))
    root = Tree(label)
    _grow(root, found.network, found)
    return root


def _grow(branch: Tree, unit: UnitSeen, found: Survey) -> None:
    for each in unit.units:
        label = cell(each.name.rpartition("/")[2], "bold")
        if len(each.parts) > 1:
            label.append(f"  in {len(each.parts)} parts", "red")
        if not each.seen:
            label.append("  nobody answers", "red")
        label.append_text(_policy(found, each.name))
        paths = _path_length(found, each.name)
        if paths > 1:
            label.append(f"  paths of {paths:.1f} links on average", "dim")
        if each.colours is not None:
            label.append("  ").append_text(_colours(each.name, each.colours))
        _grow(branch.add(label), each, found)
    for name in unit.brokers:
        branch.add(_broker(found.brokers[name], first=name == found.origin))


def _colours(unit: str, colours: ColoursSeen) -> Text:
    """Return which broker is a unit's root, its root group and round, whether it is legal or why not, and the bound."""
    label = Text(style="not bold")
    if colours.root:
        root = colours.root.removeprefix(f"{unit}/")
        group = ", ".join(name.removeprefix(f"{unit}/") for name in colours.roots)
        label.append(printable(f"root {root}{f' of {group}' if group else ''}, round {colours.round}, "), "dim")
    if colours.is_legal:
        label.append("legal", "green")
    else:
        more = len(colours.reasons) - 1
        label.append(printable(colours.reasons[0]) + (f"; {more} more" if more else ""), "red")
    label.append(f", bound {colours.bound:.0f} s", "dim")
    if colours.detours:
        label.append(f", detours to {counted(colours.detours, 'member')}", "yellow")
    for plan in colours.plans:
        if plan.phase not in ENDED:
            label.append(f", plan of {counted(plan.changes, 'change')}: {plan.phase.value}", "yellow")
    return label


def _policy(found: Survey, unit: str) -> Text:
    """Return how a unit's members forward to each other, as those inside say, if it is not as usual."""
    scopes = (scope for view in found.views().values() for scope in view.scopes)
    policy = next((scope.forwarding for scope in scopes if scope.scope == unit), "")
    return Text(f"  {printable(policy)}" if policy not in ("", "content") else "", "not bold dim")


def _path_length(found: Survey, unit: str) -> float:
    """How long paths between a unit's members are on average, as the broker says that reaches most of them."""
    scopes = [scope for view in found.views().values() for scope in view.scopes if scope.scope == unit]
    widest = max(scopes, key=lambda scope: sum(each.reachable for each in scope.members), default=None)
    return 0.0 if widest is None else widest.path_length


def _broker(broker: BrokerSeen, *, first: bool) -> Text:
    colour = _COLOURS[broker.state]
    label = Text("● " if broker.view is not None else "○ ", colour)
    label.append(printable(broker.name.rpartition("/")[2]), "bold underline" if first else "bold")
    view = broker.view
    if view is None:
        return label.append(f"  {broker.state}", colour).append(f"  {printable(broker.address)}", "dim")
    label.append(f"  {counted(view.clients, 'client')}, {view.relayed:,} relayed, {view.entered:,} entered")
    if view.stranded or view.circling:
        label.append(f", {view.stranded:,} stranded, {view.circling:,} circling", "red")
    if view.foreign:
        label.append(f", {view.foreign:,} foreign", "yellow")
    above = [unit for unit in view.speaks_for if unit != view.node]
    if above:
        label.append(printable(f"  speaks for {', '.join(above)}"), "cyan")
    return label.append(f"  {printable(broker.address)}", "dim")


def _links(found: Survey, width: int) -> Table:
    links = sorted(found.links, key=lambda link: (-link.level, link.one, link.other))
    columns: dict[str, list[Cell]] = {
        "from": [cell(link.one) for link in links],
        "to": [cell(link.other or f"? at {link.address}") for link in links],
        "level": [str(link.level) for link in links],
        "cost": [f"{link.cost:g}" for link in links],
        "state": [cell(_state(link.ends, link.state), _COLOURS[link.state]) for link in links],
        "round trip": [f"{1000 * link.round_trip:.1f} ms" if link.round_trip else "–" for link in links],
        "events →": [short(link.onward) for link in links],
        "events ←": [short(link.backward) for link in links],
    }
    right = ("level", "cost", "round trip", "events →", "events ←")
    return narrow_table(columns, width, right=right, spare=("cost", "round trip"), title="links")


def _state(ends: tuple[str, str], state: str) -> str:
    """Both words if the two ends do not agree."""
    said = [each for each in ends if each]
    return state if len(set(said)) < 2 else " / ".join(said)
