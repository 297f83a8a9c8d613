"""`stentor topic`: reliable topics, who stores them, who may publish and subscribe, and how far everyone is."""

import asyncio
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stentor.admin.topics import NOBODY, Incomplete, Registrar, TopicReport
from stentor.cli.network.status import size
from stentor.cli.reliable.holders import leave, steer
from stentor.cli.reliable.peek import peek
from stentor.cli.reliable.registrar import (
    JsonOption,
    WithinOption,
    registrar,
    seconds,
    several,
    waiting,
)
from stentor.cli.terminal.options import TlsOption, TokenOption, UrlOption, WaitOption
from stentor.cli.terminal.printable import cell, print_json, printable
from stentor.config.quantity import span
from stentor.model.communication import Role
from stentor.model.errors import InvalidInput, Unreachable
from stentor.model.trust.access import ANONYMOUS
from stentor.model.wording.count import counted

_MOST_AWAITED = 3  # ranges that are named in a table, where there is little room
app = typer.Typer(
    help="Reliable topics: every event is stored, and everyone who must have it gets it, in order and once.\n\n"
    "stentor topic create orders --reliable\n\nstentor topic grant orders --publisher shop --subscriber billing\n\n"
    "stentor topic show orders\n\nstentor topic peek orders --last 10",
    no_args_is_help=True,
)
app.command()(peek)
app.command()(steer)
app.command()(leave)

TopicArgument = Annotated[str, typer.Argument(metavar="NAME", help="The topic.")]
PublisherOption = Annotated[
    list[str] | None, typer.Option("--publisher", help="A publisher's name; may be given repeatedly.")
]
SubscriberOption = Annotated[
    list[str] | None, typer.Option("--subscriber", help="A subscriber's name; may be given repeatedly.")
]


class Action(StrEnum):
    ADD = "add"
    REMOVE = "remove"


@app.command()
def create(
    name: TopicArgument,
    reliable: Annotated[
        bool, typer.Option("--reliable", help="Store its events; other topics need no creation.")
    ] = False,
    repositories: Annotated[
        list[str] | None, typer.Option(help="Its bundle, such as r1,r2,r3; by default all repositories that answer.")
    ] = None,
    copies: Annotated[
        int,
        typer.Option(min=0, help="Repositories that must have an event before it is stored; 0 is 2, or all of one."),
    ] = 0,
    keep: Annotated[
        str | None, typer.Option(help="How long events are kept after everyone has them: 12h, 7d.", show_default="1d")
    ] = None,
    expire: Annotated[
        str | None,
        typer.Option(help="After which they are dropped even if somebody has not got them.", show_default="never"),
    ] = None,
    hold_at_border: Annotated[
        bool,
        typer.Option(
            "--hold-at-border", help="No event leaves its top-level unit before a repository for that unit has it."
        ),
    ] = False,
    join: Annotated[bool, typer.Option("--join", help="Repositories for one unit serve it together.")] = False,
    timeout: WithinOption = 30.0,
    url: UrlOption = None,
    tls: TlsOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Register a reliable topic at its repositories; you own it. Returns when all of them are ready.

    The same once more changes nothing, and finishes what was not finished; other settings are refused.
    """
    if not reliable:
        raise InvalidInput(f"best-effort topics need no creation: publish on {name}; --reliable makes a reliable one")
    kept, expired = seconds(keep, "--keep"), seconds(expire, "--expire")

    async def run() -> dict[str, TopicReport]:
        async with registrar(url, tls, wait) as asking:
            with waiting(f"creating {name}"):
                return await asking.create(
                    name,
                    several(repositories),
                    copies=copies,
                    keep=kept,
                    expire=expired,
                    hold=hold_at_border,
                    join=join,
                    within=timeout,
                )

    reports = asyncio.run(run())
    one = next(iter(reports.values()))
    held = ", held at borders" if one.hold else ""
    typer.echo(f"{name} is reliable on {', '.join(reports)}, {counted(one.copies, 'copy')}{held}")


@app.command()
def grant(
    name: TopicArgument,
    publisher: PublisherOption = None,
    subscriber: SubscriberOption = None,
    principal: Annotated[
        str | None,
        typer.Option(
            help="Who may use these names: whoever has a certificate of this name.", show_default="the names themselves"
        ),
    ] = None,
    anyone: Annotated[bool, typer.Option("--anyone", help="Whoever can connect may use these names.")] = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Let publishers and subscribers use a topic under these names; only its owner can do that.

    With TLS, the name shop is for whoever has a certificate of that name, unless --principal or --anyone is given.
    """
    ends = _ends(publisher, subscriber)
    if anyone and principal:
        raise InvalidInput(f"either {principal} may use these names, or anyone: give --principal or --anyone, not both")

    async def run() -> None:
        async with registrar(url, tls, wait, token) as asking:
            for role, end in ends:
                report = await asking.grant(name, role, end, "" if anyone else principal)
                typer.echo(f"{end} may be a {role} of {name}{_condition(report, role, end)}")

    asyncio.run(run())


@app.command()
def revoke(
    name: TopicArgument,
    publisher: PublisherOption = None,
    subscriber: SubscriberOption = None,
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Take back what was granted; what a subscriber has not got yet is forgotten."""
    ends = _ends(publisher, subscriber)

    async def run() -> None:
        async with registrar(url, tls, wait, token) as asking:
            for role, end in ends:
                await asking.revoke(name, role, end)
                typer.echo(f"{end} is no {role} of {name} any more")

    asyncio.run(run())


def _condition(report: TopicReport, role: Role, end: str) -> str:
    """Say who may use a name; where nobody has a certificate there is nothing to say."""
    holder = report.publishers[end] if role == "publisher" else report.subscribers[end].holder
    if holder == ANONYMOUS:
        return ""
    return f", if they are {holder}" if holder else ", whoever they are"


def _ends(publishers: list[str] | None, subscribers: list[str] | None) -> list[tuple[Role, str]]:
    ends: list[tuple[Role, str]] = [("publisher", end) for end in several(publishers)]
    ends += [("subscriber", end) for end in several(subscribers)]
    if not ends:
        raise InvalidInput("nobody is named: give --publisher NAME or --subscriber NAME, or both")
    return ends


@app.command()
def bundle(
    name: TopicArgument,
    action: Annotated[Action, typer.Argument(metavar="add|remove", help="Whether it joins or leaves.")],
    repository: Annotated[str, typer.Argument(metavar="REPOSITORY", help="Which one.")],
    join: Annotated[
        bool, typer.Option("--join", help="It serves its unit together with a repository that does so already.")
    ] = False,
    timeout: WithinOption = 60.0,
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Let another repository store a topic, or make one leave it; returns when it has caught up, or left."""

    async def run() -> None:
        async with registrar(url, tls, wait, token) as asking:
            if action is Action.ADD:
                unit = await _join(asking, name, repository, join, timeout)
                lacked = f" that clients in {unit} have not got yet" if unit else ""
                typer.echo(f"{repository} has all of {name}{lacked}")
            else:
                await _leave(asking, name, repository, timeout)
                typer.echo(f"{repository} left {name}")

    asyncio.run(run())


async def _join(asking: Registrar, topic: str, repository: str, join: bool, timeout: float) -> str:
    """Return the unit that the repository serves, once it does."""

    def waits(seen: dict[str, TopicReport]) -> str:
        if repository not in seen:
            return f"{repository} has not joined yet"
        missing = max((peer.missing for peer in seen[repository].peers.values()), default=0)
        return f"{repository} has yet to get {counted(missing, 'event')}"

    await asking.add(topic, repository, join=join)
    with waiting(f"{repository} joins {topic}") as progress:
        there = await asking.until(
            topic, lambda seen: repository in seen and seen[repository].ready, waits, timeout, progress
        )
    return there[repository].unit


async def _leave(asking: Registrar, topic: str, repository: str, timeout: float) -> None:
    there = repository in await asking.show(topic)
    await asking.remove(topic, repository)
    if not there:
        raise Incomplete(
            f"{repository} is none of the repositories of {topic} now, but did not answer: it leaves when it comes back"
        )
    with waiting(f"{repository} leaves {topic}") as progress:
        await asking.until(
            topic,
            lambda seen: repository not in seen,
            lambda _: f"{repository} waits until others have all that it has",
            timeout,
            progress,
        )


@app.command()
def delete(
    name: TopicArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Delete a topic and all events that are stored of it, for good; only its owner can do that."""

    async def run() -> tuple[str, ...]:
        async with registrar(url, tls, wait, token) as asking:
            seen = await asking.show(name)
            asking.check_can_change(_best(seen).owner)
            if not yes:
                stored = max(report.events for report in seen.values())
                what = f"{counted(stored, 'event')} at {', '.join(seen)}"
                typer.confirm(printable(f"{name} has {what}: delete all of it?"), abort=True)
            return await asking.delete(name)

    silent = asyncio.run(run())
    later = f"; what {', '.join(silent)} has, which did not answer, is deleted when it is back" if silent else ""
    typer.echo(f"{name} is deleted{later}")


@app.command()
def show(
    name: Annotated[str | None, typer.Argument(help="A topic; all of them without.")] = None,
    json: JsonOption = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Show reliable topics: owner, repositories, copies, who may publish and subscribe, and who lags behind.

    Ends with 1 if a repository has trouble with one: something is damaged, or cannot be opened or written.
    """

    async def run() -> dict[str, dict[str, TopicReport]]:
        async with registrar(url, tls, wait) as asking:
            if name is not None:
                return {name: await asking.show(name)}
            found = await asking.find()
            if not found:
                raise Unreachable(NOBODY)
            topics = sorted({topic for report in found.values() for topic in report.topics})
            return {
                topic: {each: report.topics[topic] for each, report in found.items() if topic in report.topics}
                for topic in topics
            }

    topics = asyncio.run(run())
    console = Console(highlight=False)
    if json:
        print_json(topics if name is None else topics[name])
    elif name is None:
        console.print(_overview(topics) if topics else "there are no reliable topics yet")
        for trouble in (trouble for reports in topics.values() for trouble in _troubles(reports)):
            console.print(trouble)
    else:
        for part in _details(topics[name]):
            console.print(part)
    if any(report.trouble for reports in topics.values() for report in reports.values()):
        raise typer.Exit(1)


def _table(*headings: str, numbers: tuple[str, ...] = ()) -> Table:
    """Return an empty table that fits a narrow terminal: cells wrap, and headings and numbers stay whole."""
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        width = max(map(len, heading.split()))
        if heading in numbers:
            table.add_column(heading, min_width=width, no_wrap=True, justify="right")
        else:
            table.add_column(heading, min_width=width, overflow="fold")
    return table


def _overview(topics: dict[str, dict[str, TopicReport]]) -> Table:
    table = _table("topic", "owner", "copies on", "publishers", "subscribers", "most behind")
    for topic, reports in topics.items():
        one = _best(reports)
        behind = max((_lag(reports, each) or (0, each) for each in one.subscribers), default=(0, ""))
        table.add_row(
            cell(topic),
            cell(one.owner),
            cell(f"{one.copies} of {', '.join(one.members)}"),
            cell(", ".join(one.publishers)),
            cell(", ".join(one.subscribers)),
            cell(f"{behind[1]}, {counted(behind[0], 'event')}" if behind[0] else "nobody"),
        )
    return table


def _details(reports: dict[str, TopicReport]) -> list[Table | Text]:
    one = _best(reports)
    summary = Table(box=None, show_header=False, pad_edge=False)
    expire = f", dropped after {span(one.expire)} in any case" if one.expire else ""
    summary.add_row("topic", cell(f"{one.topic}, owned by {one.owner}"))
    summary.add_row("copies", f"{one.copies} of {len(one.members)}")
    summary.add_row("events", f"{one.events:,}, kept {span(one.keep)} after everyone has them{expire}")
    return [summary, Text(), _repositories(one, reports), *_troubles(reports), Text(), _clients(one, reports)]


def _troubles(reports: dict[str, TopicReport]) -> list[Text]:
    return [cell(f"! {each.topic} at {name}: {each.trouble}", "red") for name, each in reports.items() if each.trouble]


def _repositories(one: TopicReport, reports: dict[str, TopicReport]) -> Table:
    unit = ("unit",) if any(report.unit for report in reports.values()) else ()
    headings = ("repository", *unit, "state", "events", "sequence numbers", "disk", "steers")
    table = _table(*headings, numbers=("events", "disk"))
    for name in sorted({*one.members, *reports}):
        report = reports.get(name)
        if report is None:
            table.add_row(cell(name), *("" for _ in unit), "[red]silent[/]")
            continue
        used = f"{report.first:,} to {report.next - 1:,}" if report.next > report.first else "none"
        table.add_row(
            cell(name),
            *(cell(report.unit or "all") for _ in unit),
            state(report),
            f"{report.events:,}",
            used,
            size(report.bytes),
            cell(", ".join(report.steers)),
        )
    return table


def _clients(one: TopicReport, reports: dict[str, TopicReport]) -> Table:
    table = _table("client", "role", "principal", "where", "sync", "lag", "steered by", numbers=("sync", "lag"))
    for end, holder in one.publishers.items():
        table.add_row(cell(end), "publisher", _principal(holder), "", "", "", _steering(reports, end))
    for end, subscriber in one.subscribers.items():
        principal = _principal(subscriber.holder)
        if not subscriber.known:
            table.add_row(cell(end), "subscriber", principal, "has not come yet")
            continue
        behind = _lag(reports, end)
        lag = f"{behind[0]:,}" if behind else ""
        where = cell(subscriber.where)
        table.add_row(cell(end), "subscriber", principal, where, f"{subscriber.sync:,}", lag, _steering(reports, end))
    return table


def _principal(holder: str) -> Text:
    return cell(holder) if holder else cell("! anyone", "yellow")


def state(report: TopicReport) -> Text:
    if report.leaving:
        return cell("leaving", "yellow")
    if report.damaged:
        return cell("damaged", "red")
    if report.ready:
        return cell("ready", "green")
    awaited = [f"{first:,} … {last:,} of {name}" for name, spans in report.awaits.items() for _, first, last in spans]
    rest = f" and {len(awaited) - _MOST_AWAITED} more" if len(awaited) > _MOST_AWAITED else ""
    waits = f", awaits {', '.join(awaited[:_MOST_AWAITED])}{rest}" if awaited else ""
    return cell(f"catching up{waits}", "yellow")


def _best(reports: dict[str, TopicReport]) -> TopicReport:
    """What the repository says that has most."""
    return max(reports.values(), key=lambda report: (report.ready, report.next))


def _lag(reports: dict[str, TopicReport], name: str) -> tuple[int, str] | None:
    """How far a subscriber is behind: who steers it knows best, then who has most."""
    seen = [(each.subscribers[name], each) for each in reports.values() if name in each.subscribers]
    known = [(mine.steered, report.ready, report.next, mine.lag) for mine, report in seen if mine.known]
    return (max(known)[3], name) if known else None


def _steering(reports: dict[str, TopicReport], end: str) -> Text:
    return cell(", ".join(name for name, report in reports.items() if end in report.steers))
