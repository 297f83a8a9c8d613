"""`stentor repository`: repositories that come to a running network, leave it, and tell how they are."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from stentor.admin import network as operation
from stentor.admin.survey import within_unit
from stentor.admin.topics import NOBODY, Incomplete, PeerReport, Registrar, RepositoryReport, TopicReport
from stentor.cli.network.status import size
from stentor.cli.reliable.registrar import JsonOption, WithinOption, registrar, waiting
from stentor.cli.reliable.topic import state
from stentor.cli.running.process import RepositoryAssignment, become
from stentor.cli.running.up import JsonLogOption, LogOption, check_level
from stentor.cli.terminal.narrow_table import Cell, narrow_table
from stentor.cli.terminal.options import HttpOption, TlsOption, TokenOption, UrlOption, WaitOption, http_address
from stentor.cli.terminal.printable import cell, print_json, printable
from stentor.client.connection.url import addresses_of
from stentor.client.fabric import connect
from stentor.config import check_repository_name, home_of, quantity, storage_in, storage_line
from stentor.config.settings import DATA
from stentor.model.errors import InvalidInput, Unreachable
from stentor.model.scope import ScopePath
from stentor.model.topic import check_pattern
from stentor.runtime.token import pointed_path

app = typer.Typer(
    help="Repositories, which store the events of reliable topics: start one, look at them, make one leave.",
    no_args_is_help=True,
)

NameArgument = Annotated[str, typer.Argument(help="The repository's name.")]

_PAUSE = 0.1


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Its own among all repositories, such as r4.")],
    storage: Annotated[
        str,
        typer.Option(
            help="sqlite:DIR, segments:DIR or postgresql://USER@HOST/DATABASE.",
            show_default="sqlite:DATA/repositories",
        ),
    ] = "sqlite:",
    unit: Annotated[str, typer.Option(help="The unit whose clients it serves.", show_default="the whole network")] = "",
    data: Annotated[Path, typer.Option(help="Where to keep data.")] = DATA,
    accepts: Annotated[
        list[str] | None, typer.Option(help="A topic or pattern that it is willing to manage.", show_default="all")
    ] = None,
    most_topics: Annotated[int, typer.Option(min=0, help=r"Topics that it manages; 0 is as \[limits] says.")] = 0,
    most_bytes: Annotated[
        str | None,
        typer.Option(help="On its disk, with which it takes more topics: 10GiB.", show_default="any number"),
    ] = None,
    http: HttpOption = "127.0.0.1:0",
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
    log: LogOption = None,
    json_log: JsonLogOption = False,
) -> None:
    """Run a new repository in this terminal until Ctrl-C, or until it is removed.

    It is linked to the broker at --url, and to others of that one's cluster while that is away. With TLS it needs a
    node's certificate that names it, without it the fabric's token. It stores nothing before a topic is created there,
    or `stentor topic bundle` adds it to one.
    """
    check_level(log)
    check_repository_name(name)
    line = storage_line(storage, storage_in(data))
    if unit:
        ScopePath.parse(unit)
    patterns = tuple(map(check_pattern, accepts or ()))
    most = 0 if most_bytes is None else quantity.size(most_bytes)
    addresses = asyncio.run(_look_around(name, unit, url, tls, wait))
    become(
        RepositoryAssignment(
            name=name,
            unit=unit,
            addresses=addresses,
            storage=line,
            home=str(home_of(name, data)),
            http=http_address(http, tls),
            accepts=patterns,
            most_topics=most_topics,
            most_bytes=most,
            certificates=None if tls is None else str(tls),
            token=str(token or pointed_path(addresses[0]) or ""),
            log=log or "info",
            json_log=json_log,
        )
    )


async def _look_around(name: str, unit: str, url: str | None, tls: Path | None, wait: float) -> tuple[str, ...]:
    """The brokers that it may link to; that it would not take the place of another one."""
    async with connect(url, tls=tls, wait=wait) as fabric, Registrar(fabric) as asking:
        if name in await asking.find(within=1.0):
            raise InvalidInput(f"there is a repository {name} already: choose another name")
        view = await operation.view(fabric)
        known = addresses_of(fabric.url)
    if not within_unit(view.node, unit):
        raise InvalidInput(f"{view.node} is not in {unit}: a repository links to a broker of the unit that it serves")
    others = [each.address for each in view.scopes[0].members if each.members and each.reachable and each.address]
    return tuple(dict.fromkeys((*known, *others)))


@app.command()
def remove(
    name: NameArgument,
    timeout: WithinOption = 60.0,
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Make a repository leave all its topics and end; refused if it is the last one of a topic.

    One that `stentor up` runs is not started again until the next `stentor up`.
    """
    asyncio.run(_drain(name, registrar(url, tls, wait, token), timeout, retire=True))
    typer.echo(f"{name} left")


@app.command()
def drain(
    name: NameArgument,
    timeout: WithinOption = 60.0,
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Make a repository leave all its topics, and go on without any; refused if it is the last one of a topic."""
    asyncio.run(_drain(name, registrar(url, tls, wait, token), timeout, retire=False))
    typer.echo(f"{name} has no topics any more")


async def _drain(name: str, opening: AbstractAsyncContextManager[Registrar], timeout: float, *, retire: bool) -> None:
    async with opening as asking:
        await asking.drain(name, retire=retire)
        end = asyncio.get_running_loop().time() + timeout
        with waiting(f"{name} leaves") as progress:
            while True:
                found = (await asking.find([name], within=1.0, only=True)).get(name)
                if found is None if retire else found is not None and not found.topics:
                    return
                left = ", ".join(found.topics) if found is not None and found.topics else ""
                progress(left)
                if asyncio.get_running_loop().time() > end:
                    raise Incomplete(
                        f"after {timeout:g} s, {name} still has {left or 'not ended'}: it waits until others have all "
                        "that it has, and leaves then"
                    )
                await asyncio.sleep(_PAUSE)


@app.command("accept-loss")
def accept_loss(
    name: NameArgument,
    topic: Annotated[str | None, typer.Option(help="Which topic.", show_default="all that lost something")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Give up events that are damaged at a repository, or awaited there, and that nobody else has.

    Until then subscribers that need them wait. If another repository has them, it is enough to start that one. Readers
    of what was damaged are told that it is lost.
    """

    async def run() -> None:
        async with registrar(url, tls, wait, token) as asking:
            found = await asking.status(name)
            losses = {each: loss for each, report in found.topics.items() if (loss := _loss(report))}
            wanted = {each: loss for each, loss in losses.items() if topic in (None, each)}
            if not wanted:
                what = "nothing" if topic is None else f"nothing of {topic}"
                raise InvalidInput(f"{what} is damaged at {name}, or awaited there")
            for each, loss in wanted.items():
                if not yes:
                    typer.confirm(printable(f"{each} at {name}: {loss}: give them up for good?"), abort=True)
                await asking.accept_loss(name, each)
                typer.echo(printable(f"{name} has given up {loss} of {each}"))

    asyncio.run(run())


def _loss(topic: TopicReport) -> str:
    """Return what is damaged, and what a repository awaits that does not become ready."""
    damaged = [
        ", ".join(_span(first, last) for first, last in each.numbers)
        + (f" of {each.publisher}" if each.publisher else ", sequence numbers of nobody knows whom")
        for each in topic.damage
    ]
    awaited = [
        ", ".join(_span(first, last) for _, first, last in spans) + f" of {name}"
        for name, spans in topic.awaits.items()
        if not topic.ready
    ]
    return "; ".join(damaged + awaited)


def _span(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,} … {last:,}"


@app.command()
def status(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="All that answer without.")] = None,
    json: JsonOption = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Show what repositories store, how far their subscribers are, whom they steer and how they get on together.

    Ends with 1 if a topic is in trouble: something is damaged, or cannot be opened or written.
    """
    wanted = list(dict.fromkeys(names or []))

    async def ask() -> dict[str, RepositoryReport]:
        async with registrar(url, tls, wait) as asking:
            found = await asking.find(wanted)
            return {name: found[name] for name in wanted or found if name in found}

    reports = asyncio.run(ask())
    silent = [name for name in wanted if name not in reports]
    if not reports:
        raise Unreachable(f"{', '.join(silent)}: no answer" if silent else NOBODY)
    if json:
        print_json(reports)
    else:
        console = Console(highlight=False)
        for report in reports.values():
            serves = escape(printable(f"{report.repository}, serves {report.unit or 'everyone'}{_accepted(report)}"))
            console.print(_table(report, serves, console.width) if report.topics else f"{serves}, has no topics")
    if silent:
        raise Unreachable(f"{', '.join(silent)}: no answer")
    if any(topic.trouble for report in reports.values() for topic in report.topics.values()):
        raise typer.Exit(1)


def _accepted(report: RepositoryReport) -> str:
    return f", accepts {', '.join(report.accepts)}" if report.accepts else ""


def _table(report: RepositoryReport, title: str, width: int) -> Table:
    topics = report.topics.values()
    columns: dict[str, list[Cell]] = {
        "topic": [cell(topic.topic) for topic in topics],
        "state": [state(topic) for topic in topics],
        "events": [f"{topic.events:,}" for topic in topics],
        "first": [f"{topic.first:,}" for topic in topics],
        "next": [f"{topic.next:,}" for topic in topics],
        "horizon": [f"{topic.horizon:,}" for topic in topics],
        "subscribers": [Text("\n".join(map(printable, _subscribers(topic)))) for topic in topics],
        "steers": [Text("\n".join(map(printable, topic.steers))) for topic in topics],
        "others": ["\n".join(_peers(topic)) for topic in topics],
        "disk": [size(topic.bytes) for topic in topics],
        "trouble": [cell(topic.trouble, "red") for topic in topics],
    }
    right = ("events", "first", "next", "horizon", "disk")
    return narrow_table(columns, width, right=right, spare=("first", "horizon", "steers"), title=title)


def _subscribers(topic: TopicReport) -> list[str]:
    return [
        f"{name} at {each.sync:,}, {each.lag:,} behind" if each.known else f"{name} has not come yet"
        for name, each in topic.subscribers.items()
    ]


def _peers(topic: TopicReport) -> list[str]:
    return [f"{escape(printable(name))} {_peer(each)}" for name, each in topic.peers.items()]


def _peer(peer: PeerReport) -> str:
    if peer.heard is None:
        return "[red]never heard[/]"
    if peer.heard > 2:
        return f"[red]silent for {peer.heard:.0f} s[/]"
    if peer.missing:
        return f"[yellow]has {peer.missing:,} more[/]"
    if not peer.agrees:
        return "[yellow]other registrations[/]"
    return "ready" if peer.ready else "[yellow]catching up[/]"
