"""`stentor sub`: print events as they come."""

import asyncio
import base64
import signal
import sys
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from stentor.cli.options import TlsOption, UrlOption, WaitOption
from stentor.client import Events, connect
from stentor.event import Event


def sub(
    pattern: Annotated[str, typer.Argument(help="Topics: + is any one level, # any rest.")],
    where: Annotated[
        str | None, typer.Option(help="A CESQL filter, such as \"carrier = 'UA' AND dep_delay > 60\".")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after this many events.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Subscribe and print events until Ctrl-C, or --count of them."""
    asyncio.run(_run(pattern, where, count, json, url, tls, wait))


async def _run(
    pattern: str, where: str | None, count: int | None, json: bool, url: UrlOption, tls: TlsOption, wait: float
) -> None:
    errors = Console(stderr=True, highlight=False)
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    interrupted = []

    def interrupt() -> None:
        interrupted.append(True)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        async with connect(url, tls=tls, wait=wait) as fabric, fabric.subscribe(pattern, where) as events:
            errors.print(f"subscribed to {pattern}" + (f" where {where}" if where else ""), markup=False)
            await _print(events, count, json, errors)
    except asyncio.CancelledError:
        if not interrupted:
            raise
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output left: that is no error


async def _print(events: Events, count: int | None, json: bool, errors: Console) -> None:
    show = _as_json if json else _as_line
    left = count if count is not None else -1
    missed = 0
    async for batch in events.batches():
        if events.missed > missed:
            errors.print(f"[yellow]missed {events.missed - missed} events: too slow[/]")
            missed = events.missed
        lines = [show(event) for event in list(batch)[: left if left >= 0 else None]]
        sys.stdout.buffer.write(b"".join(lines))
        sys.stdout.buffer.flush()
        if left >= 0:
            left -= len(lines)
            if not left:
                return


def _as_line(event: Event) -> bytes:
    pairs = "".join(f" {name}={_plain(value)}" for name, value in event.attributes.items())
    return f"{event.topic}{pairs}  {event.body.decode(errors='backslashreplace')}\n".encode()


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_json(event: Event) -> bytes:
    record: dict[str, object] = {
        "topic": event.topic,
        "attributes": dict(event.attributes),
        "publisher": event.publisher,
        "number": event.number,
        "time": event.time.isoformat(),
    }
    try:
        record["body"] = event.body.decode()
    except UnicodeDecodeError:
        record["body_base64"] = base64.b64encode(event.body).decode()
    return msgspec.json.encode(record) + b"\n"
