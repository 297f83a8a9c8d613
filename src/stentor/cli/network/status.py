"""`stentor status`: what a broker does, and who is slow."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stentor.admin.topics import Registrar, RepositoryReport
from stentor.cli.terminal.narrow_table import Cell, narrow_table
from stentor.cli.terminal.options import TlsOption, UrlOption, WaitOption
from stentor.cli.terminal.printable import cell, print_json
from stentor.client.fabric import connect
from stentor.model.reports.status import NodeStatus
from stentor.model.wording.count import counted

_SHOWN = 20
_ANSWERS_WITHIN = 2.0  # seconds that repositories are given to tell of troubles


def status(
    json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Show what the broker counts: events, clients, subscriptions, queues, who is slow; and troubles of repositories.

    Ends with 1 if a repository that answers has trouble with a topic: something is damaged, or cannot be written.
    """

    async def ask() -> tuple[NodeStatus, dict[str, RepositoryReport]]:
        async with connect(url, tls=tls, wait=wait, stay=True) as fabric:
            found = await fabric.status()
            if not found.reliable:
                return found, {}
            async with Registrar(fabric) as asking:
                return found, await asking.find(within=_ANSWERS_WITHIN)

    answer, repositories = asyncio.run(ask())
    troubles = [
        f"! {topic.topic} at {name}: {topic.trouble}"
        for name, report in repositories.items()
        for topic in report.topics.values()
        if topic.trouble
    ]
    console = Console(highlight=False)
    if json:
        print_json(answer)
    else:
        console.print(_summary(answer))
        console.print(_links(answer, console.width))
        if answer.interests:
            console.print(_interests(answer, console.width))
        for trouble in troubles:
            console.print(cell(trouble, "red"))
    if troubles:
        raise typer.Exit(1)


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
    topics = f"{status.topics:,}, {status.reliable:,} reliable" if status.reliable else f"{status.topics:,}"
    others = f"{counted(status.subscriptions, 'subscription')}, {counted(status.clients, 'client')}"
    table.add_row("topics", f"{topics}, {others}")
    slow = f"[red]{status.slow} slow[/], {size(status.queued)} wait" if status.slow else "nobody is slow"
    table.add_row("queues", slow)
    return table


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
