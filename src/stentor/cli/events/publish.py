"""`stentor pub`: publish from the command line, from a file or from standard input."""

import asyncio
import os
import select
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Annotated, BinaryIO, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from stentor.cli.terminal.options import (
    AttributesOption,
    StayOption,
    TlsOption,
    UrlOption,
    WaitOption,
    parse_attributes,
)
from stentor.cli.terminal.printable import printable
from stentor.cli.terminal.watch import watched
from stentor.client.fabric import Fabric, connect
from stentor.client.reliable_publisher import Publisher, Stored
from stentor.model.attribute import Value
from stentor.model.errors import BodyTooLarge, InvalidInput, StentorError
from stentor.model.mail import check_no_mail
from stentor.model.topic import check_topic
from stentor.model.wording.count import counted

_SHOW_AFTER = 1.0  # seconds of work before a progress bar appears
_BATCH = 1000  # events that are handed over at once, if they do not come from a file


class Given(NamedTuple):
    """What the command line gives to be published."""

    topic: str
    attributes: dict[str, Value]
    source: BinaryIO | None
    body: bytes
    most: int | None
    rate: float | None


def pub(
    topic: Annotated[str, typer.Argument(help="The topic, such as flights/jfk.")],
    body: Annotated[str | None, typer.Argument(help="The body; without it and without --from, it is empty.")] = None,
    attr: AttributesOption = None,
    from_: Annotated[
        str | None, typer.Option("--from", help="A file, or - for standard input: a line is a body.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The name of a publisher of a reliable topic: returns when all is stored.")
    ] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Events per second.")] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="How many: repeats the body, or stops the file early.")
    ] = None,
    url: UrlOption = None,
    tls: TlsOption = None,
    wait: WaitOption = 0.0,
    stay: StayOption = False,
) -> None:
    """Publish events; returns when the broker has taken them in, or, with --name, when they are stored."""
    if body is not None and from_ is not None:
        raise InvalidInput("give a body or --from, not both")
    check_no_mail(check_topic(topic))
    attributes = parse_attributes(attr or [])
    source = None if from_ is None else _open(from_)
    given = Given(topic, attributes, source, (body or "").encode(), count, rate)
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("publishing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=(count or 1) if source is None else None, visible=False)
        began = time.monotonic()

        def show(done: int) -> None:
            progress.update(bar, completed=done, visible=time.monotonic() - began > _SHOW_AFTER)

        async def run() -> str:
            async with connect(url, tls=tls, wait=wait, stay=stay) as fabric:
                if name is None:
                    return await _publish(fabric, given, show)
                return await _store(fabric, given, name, show, console)

        told = asyncio.run(run())
    console.print(printable(told), markup=False, soft_wrap=True)


# ---- best effort


async def _publish(fabric: Fabric, given: Given, show: Callable[[int], None]) -> str:
    published = 0
    async for bodies in _paced(given):
        for body in bodies:
            await fabric.publish(given.topic, body, attributes=given.attributes)
        published += len(bodies)
        show(published)
    await fabric.flush()
    return f"published {counted(published, 'event')} on {given.topic}"


# ---- reliable topics


async def _store(fabric: Fabric, given: Given, name: str, show: Callable[[int], None], errors: Console) -> str:
    publisher = fabric.publisher(given.topic, name=name)
    interrupted = _interruptible()
    sent = 0
    try:
        async with publisher, watched(publisher, fabric.url, errors):
            async for bodies in _paced(given):
                await _send(publisher, given, bodies, sent)
                sent += len(bodies)
                show(publisher.stored)
            stored = await _flushed(publisher, show)
    except (StentorError, OSError, asyncio.CancelledError) as error:
        if sent:
            known = f"known to be stored on {given.topic}: {publisher.stored:,} of {sent:,} sent"
            errors.print(printable(known), markup=False, soft_wrap=True)
        if interrupted:
            raise KeyboardInterrupt from error
        raise
    copies = f" ({counted(stored.copies, 'copy')})" if sent else ""
    return f"stored {counted(sent, 'event')} on {given.topic}{copies}"


async def _send(publisher: Publisher, given: Given, bodies: list[bytes], sent: int) -> None:
    columns = {key: [value] * len(bodies) for key, value in given.attributes.items()}
    try:
        await publisher.send_many(bodies, columns)
    except BodyTooLarge as error:
        place = next(place for place, body in enumerate(bodies) if len(body) > publisher.largest_body)
        raise BodyTooLarge(f"event {sent + place + 1}: {error}") from None
    await asyncio.sleep(0)  # acknowledgements come in meanwhile


def _interruptible() -> list[bool]:
    """Make Ctrl-C and SIGTERM cancel this task; returns what is not empty once that has happened."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    interrupted: list[bool] = []

    def interrupt() -> None:
        interrupted.append(True)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    return interrupted


async def _flushed(publisher: Publisher, show: Callable[[int], None]) -> Stored:
    """Wait until all is stored, and show how far it is."""
    flushing = asyncio.ensure_future(publisher.flush())
    try:
        while not (await asyncio.wait({flushing}, timeout=0.1))[0]:
            show(publisher.stored)
        return flushing.result()
    finally:
        flushing.cancel()


# ---- what is published


def _open(name: str) -> BinaryIO:
    if name == "-":
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise InvalidInput(f"--from {name}: {error.strerror}") from None


async def _paced(given: Given) -> AsyncIterator[list[bytes]]:
    """What is there at once, or one by one at a rate."""
    due = time.monotonic()
    async for bodies in _bodies(given):
        if given.rate is None:
            yield bodies
            continue
        for body in bodies:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            due += 1 / given.rate
            yield [body]


async def _bodies(given: Given) -> AsyncIterator[list[bytes]]:
    source, most = given.source, given.most
    if source is None:
        left = most or 1
        while left:
            bodies = [given.body] * min(left, _BATCH)
            left -= len(bodies)
            yield bodies
        return
    published = 0
    rest = b""
    while block := await _read(source.fileno()):
        *lines, rest = (rest + block).split(b"\n")
        lines = lines[: None if most is None else most - published]
        published += len(lines)
        if lines:
            yield lines
        if published == most:
            return
    if rest:
        yield [rest]


async def _read(handle: int) -> bytes:
    """What is there, without waiting for more: lines typed or piped slowly leave at once."""
    if not select.select([handle], [], [], 0)[0]:
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(handle, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(handle)
    return os.read(handle, 1 << 16)
