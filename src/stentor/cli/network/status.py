"""`stentor status`: what a broker does, and who is slow."""

import asyncio
from contextlib import nullcontext, suppress
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from stentor.admin.topics import Registrar
from stentor.cli.terminal.narrow_table import Cell, narrow_table
from stentor.cli.terminal.options import TlsOption, UrlOption, WaitOption
from stentor.cli.terminal.output import Output
from stentor.cli.terminal.printable import cell, print_json, printable_json
from stentor.cli.terminal.watch import watched
from stentor.client.fabric import Fabric, connect
from stentor.model.colours.colour import current_colour, new_colour, old_colour
from stentor.model.errors import LinkBroken, Unresponsive
from stentor.model.reports.status import NodeStatus, Traffic
from stentor.model.wording.count import counted

_SHOWN = 20
_CHILDREN_SHOWN = 3  # by name; of more than that a number fits better, and --json names them
_ANSWERS_WITHIN = 2.0  # seconds that repositories are given to tell of troubles
_PAUSE = 1.0  # seconds from one look to the next


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Ask again every second, until Ctrl-C.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Show what the broker counts: events, clients, subscriptions, queues, who is slow; and troubles of repositories.

    Of each scope around a broker of a network it shows the root, the round, the broker's place in the tree, and the
    bound: the seconds within which the scope heals itself after the last fault.

    Ends with 1 if a repository that answers has trouble with a topic: something is damaged, or cannot be written.
    """
    client = connect(url, tls=tls, wait=wait, stay=True)
    if watch:
        with suppress(BrokenPipeError):  # whoever read it has left: that is no error
            asyncio.run(_watch(client, json))
        return
    answer, troubles = asyncio.run(_ask_once(client))
    if json:
        print_json(answer)
    else:
        console = Console(highlight=False)
        for part in _shown(answer, troubles, console.width):
            console.print(part)
    if troubles:
        raise typer.Exit(1)


async def _ask_once(client: Fabric) -> tuple[NodeStatus, list[str]]:
    async with client as fabric:
        return await _ask(fabric)


async def _ask(fabric: Fabric) -> tuple[NodeStatus, list[str]]:
    """Return the status of the broker, and the troubles of repositories."""
    found = await fabric.status()
    if not found.reliable:
        return found, []
    async with Registrar(fabric) as asking:
        repositories = await asking.find(within=_ANSWERS_WITHIN)
    return found, [
        f"! {topic.topic} at {name}: {topic.trouble}"
        for name, report in repositories.items()
        for topic in report.topics.values()
        if topic.trouble
    ]


async def _watch(client: Fabric, json: bool) -> None:
    """Show the status again and again: as JSON a line each, in a terminal always at the same place."""
    console, errors = Console(highlight=False), Console(stderr=True, highlight=False)
    is_drawn, output = console.is_terminal and not json, Output()
    async with client as fabric, watched(fabric, fabric.url, errors):
        with Live(console=console, auto_refresh=False) if is_drawn else nullcontext() as live:
            while True:
                await fabric.wait_until(connected=True)
                with suppress(LinkBroken, Unresponsive):  # `watched` says so, and the broker may come back
                    answer, troubles = await _ask(fabric)
                    if json:
                        await output.write(printable_json(answer) + b"\n")
                    elif live is not None:
                        live.update(Group(*_shown(answer, troubles, console.width)), refresh=True)
                    else:
                        console.print(Group(*_shown(answer, troubles, console.width), ""))
                await asyncio.sleep(_PAUSE)


def _shown(answer: NodeStatus, troubles: list[str], width: int) -> list[Table | Text]:
    parts: list[Table | Text] = [_summary(answer), _links(answer, width)]
    if answer.interests:
        parts.append(_interests(answer, width))
    if answer.traffic.brokers or answer.traffic.unreachable:
        parts.append(_scopes(answer, width))
    return parts + [cell(trouble, "red") for trouble in troubles]


def _summary(status: NodeStatus) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    node = f"{status.node} ({status.role}), boot {status.boot}, up {_duration(status.uptime)}"
    table.add_row("node", cell(node))
    table.add_row("events", f"{status.events_in:,} in, {status.events_out:,} out")
    table.add_row("bytes", f"{size(status.bytes_in)} in, {size(status.bytes_out)} out")
    mean = status.events_in / status.chunks if status.chunks else 0
    table.add_row("batches", f"{mean:.1f} events per chunk")
    table.add_row("dropped", ", ".join(f"{count:,} {reason}" for reason, count in status.dropped.items()) or "nothing")
    table.add_row("refused", ", ".join(f"{count:,} {reason}" for reason, count in status.refused.items()) or "nobody")
    traffic = status.traffic
    if traffic.brokers or traffic.unreachable:
        lost = f", [red]{counted(traffic.unreachable, 'member')} cannot be reached[/]" if traffic.unreachable else ""
        passed = f"{counted(traffic.relayed, 'event')} handed on, {traffic.entered:,} came in"
        table.add_row("network", f"{counted(traffic.brokers, 'broker')}, {passed}{lost}")
        table.add_row("on the way", _fates(traffic))
    topics = f"{status.topics:,}, {status.reliable:,} reliable" if status.reliable else f"{status.topics:,}"
    others = f"{counted(status.subscriptions, 'subscription')}, {counted(status.clients, 'client')}"
    table.add_row("topics", f"{topics}, {others}")
    slow = f"[red]{status.slow} slow[/], {size(status.queued)} wait" if status.slow else "nobody is slow"
    table.add_row("queues", slow)
    return table


def _fates(traffic: Traffic) -> str:
    """Return what has befallen events between brokers: those of plans first, then those of faults."""
    counts = {
        "held": traffic.held,
        "held now": traffic.waiting,
        "held too many": traffic.overflowed,
        "re-routed": traffic.rerouted,
        "foreign": traffic.foreign,
        "in doubt": traffic.in_doubt,
        "stranded": traffic.stranded,
        "circling": traffic.circling,
    }
    return ", ".join(f"{count:,} {fate}" for fate, count in counts.items() if count) or "nothing happened"


def _links(status: NodeStatus, width: int) -> Table:
    links = [each for each in status.links if each.role == "client"][:_SHOWN]
    columns: dict[str, list[Cell]] = {
        "client": [cell(link.name) for link in links],
        "address": [cell(link.address) for link in links],
        "in": [f"{link.events_in:,}" for link in links],
        "out": [f"{link.events_out:,}" for link in links],
        "queued": [size(link.queued) for link in links],
        "dropped": [f"{link.dropped:,}" for link in links],
        "idle": [f"{link.idle:.1f} s" for link in links],
        "": ["[red]slow[/]" if link.slow else "" for link in links],
    }
    right = ("in", "out", "queued", "dropped", "idle")
    table = narrow_table(columns, width, right=right, spare=("address", "idle"), title="clients")
    if status.clients > _SHOWN:
        table.caption = f"{_SHOWN} of {status.clients}: --json shows more"
    return table


def _interests(status: NodeStatus, width: int) -> Table:
    shown = status.interests[:_SHOWN]
    columns: dict[str, list[Cell]] = {
        "client": [cell(interest.client) for interest in shown],
        "pattern": [cell(interest.pattern) for interest in shown],
        "where": [cell(interest.where) for interest in shown],
        "accepted": [f"{interest.accepted:,}" for interest in shown],
        "rejected": [f"{interest.rejected:,}" for interest in shown],
    }
    return narrow_table(columns, width, right=("accepted", "rejected"), title="subscriptions")


def _scopes(status: NodeStatus, width: int) -> Table:
    """Return where the broker is in the tree of each scope, the smallest first."""
    scopes = status.colours.items()
    now = {scope: each.tree.at(current_colour(each.tree.round)) for scope, each in scopes}
    columns: dict[str, list[Cell]] = {
        "scope": [cell(scope or "the network") for scope in now],
        "role": [cell(each.tree.role, "red" if each.tree.role == "orphan" else "") for _, each in scopes],
        "root": [cell(_inside(scope, each.tree.root) or "nobody") for scope, each in scopes],
        "round": [str(each.tree.round) for _, each in scopes],
        "colours": [_colour_numbers(each.tree.round) for _, each in scopes],
        "parent": [cell(_inside(scope, pointers.parent) or "–") for scope, pointers in now.items()],
        "children": [_children(scope, pointers.children) for scope, pointers in now.items()],
        "brokers": [f"{each.brokers:,}" for _, each in scopes],
        "bound": [f"{each.bound:.0f} s" for _, each in scopes],
    }
    if any(each.roots for _, each in scopes):
        columns["root group"] = [
            cell(", ".join(_inside(scope, name) for name in each.roots) or "–") for scope, each in scopes
        ]
    if any(each.stage for _, each in scopes):
        columns["plan"] = [cell(each.stage or "–") for _, each in scopes]
    if any(each.detours for _, each in scopes):
        columns["detours"] = [cell(str(each.detours), "yellow" if each.detours else "") for _, each in scopes]
    return narrow_table(columns, width, right=("round", "brokers", "bound"), spare=("colours", "bound"), title="scopes")


def _colour_numbers(round_number: int) -> str:
    """Return which of the three colours are old, current and new."""
    return f"{old_colour(round_number)} {current_colour(round_number)} {new_colour(round_number)}"


def _children(scope: str, names: tuple[str, ...]) -> Cell:
    if len(names) > _CHILDREN_SHOWN:
        return f"{len(names)}"
    return cell(", ".join(_inside(scope, name) for name in names) or "–")


def _inside(scope: str, name: str) -> str:
    """Return a broker's name without that of a scope around it."""
    return name.removeprefix(f"{scope}/")


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
