"""Standard output for commands that print events as they come, and how an event looks there."""

import asyncio
import base64
import os
import select
import sys
from collections.abc import Iterator, Sequence

from stentor.cli.terminal.printable import printable, printable_json
from stentor.client.event import Event

_AT_ONCE = select.PIPE_BUF  # bytes: a pipe that takes anything takes so many, without blocking us


class Output:
    """Writes without blocking the event loop: a reader that is slow or stopped must not keep us from hearing the
    broker, nor Ctrl-C.
    """

    def __init__(self) -> None:
        self._handle = sys.stdout.fileno()

    async def write(self, data: bytes) -> None:
        """Return when the system has all of it; BrokenPipeError if whoever read it has left."""
        rest = memoryview(data)
        while rest:
            if not select.select([], [self._handle], [], 0)[1]:
                await self._wait()
                continue
            try:
                rest = rest[os.write(self._handle, rest[:_AT_ONCE]) :]
            except BlockingIOError:  # whoever started us made it so
                await self._wait()

    async def _wait(self) -> None:
        loop, writable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_writer(self._handle, writable.set)
        try:
            await writable.wait()
        finally:
            loop.remove_writer(self._handle)


def groups(lines: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Cut lines into groups that can be written at once: the first of each, and the first after it."""
    start = size = 0
    for place, line in enumerate(lines):
        if place > start and size + len(line) > _AT_ONCE:
            yield start, place
            start, size = place, 0
        size += len(line)
    if lines:
        yield start, len(lines)


def as_line(event: Event, *before: str, after: str = "") -> bytes:
    """Return an event as one line for people: words, attributes, another word, and the body."""
    pairs = "".join(f" {name}={_plain(value)}" for name, value in event.attributes.items())
    body = event.body.decode(errors="backslashreplace")
    return f"{printable(' '.join(before) + pairs)}{after}  {printable(body)}\n".encode()


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_json(event: Event, **more: object) -> bytes:
    """Return an event as one line for programs, with more fields if there are any."""
    record: dict[str, object] = {
        "topic": event.topic,
        "attributes": dict(event.attributes),
        "publisher": event.publisher,
        "number": event.number,
        "time": event.time.isoformat(),
        **more,
    }
    try:
        record["body"] = event.body.decode()
    except UnicodeDecodeError:
        record["body_base64"] = base64.b64encode(event.body).decode()
    return printable_json(record) + b"\n"
