"""`stentor sub`: print events as they come."""

import asyncio
import signal
from typing import Annotated, NamedTuple

import typer
from rich.console import Console

from stentor.admin.topics import Registrar
from stentor.cli.terminal.options import FromOption, StayOption, TlsOption, UrlOption, WaitOption, parse_from
from stentor.cli.terminal.output import Output, as_json, as_line, groups
from stentor.cli.terminal.printable import printable
from stentor.cli.terminal.watch import watched
from stentor.client.connection.settling import Settled
from stentor.client.event import Event, StoredEvent
from stentor.client.fabric import Events, Fabric, connect
from stentor.client.losses import LostEvents
from stentor.client.reliable_subscription import From, Subscription
from stentor.matching.topic_tree import is_wild
from stentor.model.errors import InvalidInput
from stentor.model.wording.count import counted


class SubscribeOptions(NamedTuple):
    """What the command line asks for."""

    pattern: str
    where: str | None
    name: str | None
    since: From | None
    most: int | None
    json: bool
    settled: bool


def sub(
    pattern: Annotated[str, typer.Argument(help="Topics: + is any one level, # any rest; with --name, one topic.")],
    where: Annotated[
        str | None,
        typer.Option(
            help="A CESQL filter, such as \"carrier = 'UA' AND dep_delay > 60\"; with --name, the one that it had "
            "before unless another is given, and * is everything."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The name of a subscriber of a reliable topic: what it has not got comes first.")
    ] = None,
    from_: FromOption = None,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after this many events.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    settled: Annotated[
        bool, typer.Option("--settled", help="Say when all brokers know it: nothing that is published later is missed.")
    ] = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    wait: WaitOption = 0.0,
    stay: StayOption = False,
) -> None:
    """Subscribe and print events until Ctrl-C, or --count of them.

    With --name, what was printed is acknowledged, and only that: the rest comes the next time, wherever that is. Events
    that an earlier life of the name may have printed are marked as redelivered.
    """
    if name is None and from_ is not None:
        raise InvalidInput("--from is where a new name of a reliable topic begins: give it a --name, too")
    if name is not None and is_wild(pattern):
        raise InvalidInput(f"--name subscribes to one reliable topic, and {pattern!r} holds a wildcard")
    if name is not None and settled:
        raise InvalidInput("--settled is for best effort: with --name, repositories keep what is published meanwhile")
    since = None if from_ is None else parse_from(from_)
    client = connect(url, tls=tls, wait=wait, stay=stay)
    asyncio.run(_run(SubscribeOptions(pattern, where, name, since, count, json, settled), client))


async def _run(wanted: SubscribeOptions, client: Fabric) -> None:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    interrupted = []

    def interrupt() -> None:
        interrupted.append(True)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    errors = Console(stderr=True, highlight=False)
    try:
        async with client as fabric:
            await (_print_live if wanted.name is None else _print_stored)(fabric, wanted, errors)
    except asyncio.CancelledError:
        if not interrupted:
            raise
    except BrokenPipeError:
        pass  # the reader of our output left: that is no error


def _announce(errors: Console, wanted: SubscribeOptions, where: str | None) -> None:
    name = f" as {wanted.name}" if wanted.name is not None else ""
    where = f" where {where}" if where else ""
    errors.print(printable(f"subscribed to {wanted.pattern}{name}{where}"), markup=False, soft_wrap=True)


# ---- best effort


async def _print_live(fabric: Fabric, wanted: SubscribeOptions, errors: Console) -> None:
    async with fabric.subscribe(wanted.pattern, wanted.where) as events, watched(fabric, fabric.url, errors):
        _announce(errors, wanted, wanted.where)
        if wanted.settled:
            _tell_settled(errors, await events.settled())
        await _print_batches(events, wanted, errors)


def _tell_settled(errors: Console, settled: Settled) -> None:
    if settled.is_everywhere:
        errors.print(f"settled: {settled.brokers} of {settled.brokers} brokers know it")
        return
    silent = ", ".join(settled.silent)
    errors.print(
        f"[yellow]not settled: no answer from {silent}: what is published there may be missed[/]", soft_wrap=True
    )


async def _print_batches(events: Events, wanted: SubscribeOptions, errors: Console) -> None:
    output, left = Output(), wanted.most
    missed = 0
    async for batch in events.batches():
        if events.missed > missed:
            errors.print(f"[yellow]missed {counted(events.missed - missed, 'event')}: too slow[/]")
            missed = events.missed
        lines = [_show(event, wanted.json) for event in list(batch)[:left]]
        await output.write(b"".join(lines))
        if left is not None:
            left -= len(lines)
            if not left:
                return


def _show(event: Event, json: bool) -> bytes:
    return as_json(event) if json else as_line(event, event.topic)


# ---- reliable topics


async def _print_stored(fabric: Fabric, wanted: SubscribeOptions, errors: Console) -> None:
    assert wanted.name is not None
    if wanted.since is not None:
        await _warn_of_known(fabric, wanted, errors)
    since = "now" if wanted.since is None else wanted.since
    subscription = fabric.subscribe(wanted.pattern, wanted.where, name=wanted.name, from_=since, ack="manual")
    async with subscription, watched(subscription, fabric.url, errors):
        _announce(errors, wanted, subscription.where)
        await _print_and_acknowledge(subscription, wanted, errors)


async def _warn_of_known(fabric: Fabric, wanted: SubscribeOptions, errors: Console) -> None:
    """A name that has come before goes on where it was."""
    async with Registrar(fabric) as registrar:
        reports = await registrar.show(wanted.pattern)
    known = [each.subscribers[wanted.name] for each in reports.values() if wanted.name in each.subscribers]
    if any(each.known for each in known):
        text = f"{wanted.name} has come before, and goes on where it was: --from is for new names"
        errors.print(printable(text), markup=False, style="yellow", soft_wrap=True)


async def _print_and_acknowledge(subscription: Subscription, wanted: SubscribeOptions, errors: Console) -> None:
    output, left = Output(), wanted.most
    lost: set[LostEvents] = set()
    async for batch in subscription.batches():
        for each in subscription.lost:
            if each not in lost:
                told = f"lost {each.first} … {each.last} of {each.name or each.publisher}: damaged, and given up"
                errors.print(printable(told), style="red", markup=False)
        lost.update(subscription.lost)
        events = list(batch)[:left]
        lines = [_show_stored(event, wanted.json) for event in events]
        for start, end in groups(lines):
            await output.write(b"".join(lines[start:end]))
            for event in events[start:end]:
                event.ack()
        if left is not None:
            left -= len(lines)
            if not left:
                return


def _show_stored(event: StoredEvent, json: bool) -> bytes:
    if not json:
        return as_line(event, event.topic, after=" redelivered" if event.redelivered else "")
    place = {"repository": event.repository, "sequence": event.sequence, "epoch": event.epoch}
    return as_json(event, **place, redelivered=event.redelivered)
