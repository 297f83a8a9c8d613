"""`stentor pub`: publish from the command line, from a file or from standard input."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from stentor.cli.options import AttributesOption, TlsOption, UrlOption, WaitOption, parse_attributes
from stentor.client import connect
from stentor.model.errors import InvalidInput
from stentor.model.topic import check_topic

_SHOW_AFTER = 1.0  # seconds of work before a progress bar appears


def pub(
    topic: Annotated[str, typer.Argument(help="The topic, such as flights/jfk.")],
    body: Annotated[str | None, typer.Argument(help="The body; without it and without --from, it is empty.")] = None,
    attr: AttributesOption = None,
    from_: Annotated[
        str | None, typer.Option("--from", help="A file, or - for standard input: a line is a body.")
    ] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Events per second.")] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="How many: repeats the body, or stops the file early.")
    ] = None,
    url: UrlOption = None,
    tls: TlsOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Publish events; returns when the broker has taken them in."""
    if body is not None and from_ is not None:
        raise InvalidInput("give a body or --from, not both")
    check_topic(topic)
    attributes = parse_attributes(attr or [])
    source = None if from_ is None else _open(from_)
    total = count if source is None else None
    console = Console(stderr=True)
    columns = (TextColumn("publishing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=(count or 1) if source is None else total, visible=False)

        async def run() -> int:
            published = 0
            began = time.monotonic()
            async with connect(url, tls=tls, wait=wait) as fabric:
                async for each in _paced(_bodies(source, body, count), rate):
                    await fabric.publish(topic, each, attributes=attributes)
                    published += 1
                    if not published & 255 or rate:
                        progress.update(bar, completed=published, visible=time.monotonic() - began > _SHOW_AFTER)
                await fabric.flush()
            return published

        published = asyncio.run(run())
    console.print(f"published {published} event{'s' if published != 1 else ''} on {topic}", highlight=False)


def _open(name: str) -> BinaryIO:
    if name == "-":
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise InvalidInput(f"--from {name}: {error.strerror}") from None


async def _bodies(source: BinaryIO | None, body: str | None, count: int | None) -> AsyncIterator[bytes]:
    if source is None:
        for _ in range(count or 1):
            yield (body or "").encode()
        return
    published = 0
    rest = b""
    while block := await asyncio.to_thread(_read, source):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            if count is not None and published >= count:
                return
            published += 1
            yield line
    if rest and (count is None or published < count):
        yield rest


def _read(source: BinaryIO) -> bytes:
    """What is there, without waiting for more: lines typed or piped slowly leave at once."""
    return os.read(source.fileno(), 1 << 16)


async def _paced(bodies: AsyncIterator[bytes], rate: float | None) -> AsyncIterator[bytes]:
    due = time.monotonic()
    async for body in bodies:
        if rate:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            due += 1 / rate
        yield body
