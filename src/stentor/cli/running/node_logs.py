"""What a supervisor and its nodes write, as whole lines: on one pipe, long lines of several processes would mix.

One thread of one process writes all of it, line by line. Whoever reads slowly holds up the nodes that write, as if each
had the pipe for itself, but never the event loop that looks after them.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

_CHUNK = 1 << 16  # bytes that a pipe holds
_LONGEST_LINE = 1 << 20  # a longer one is cut: nobody may fill our memory by never ending a line


class LineWriter:
    """Writes one thing after another."""

    def __init__(self) -> None:
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="output")

    def print(self, show: Callable[..., None], *what: object) -> None:
        """Call `show`, which prints something, when all that came before is written."""
        self._writer.submit(show, *what)

    async def forward(self, stream: asyncio.StreamReader) -> None:
        """Write to standard error what a process writes to a pipe, until it ends."""
        loop = asyncio.get_running_loop()
        rest = b""
        while chunk := await stream.read(_CHUNK):
            whole, newline, rest = (rest + chunk).rpartition(b"\n")
            if len(rest) > _LONGEST_LINE:
                whole, newline, rest = whole + newline + rest, b"\n", b""
            if newline:
                await loop.run_in_executor(self._writer, _write, whole + newline)
        if rest:
            await loop.run_in_executor(self._writer, _write, rest + b"\n")

    async def close(self) -> None:
        """Return when everything is written."""
        await asyncio.to_thread(self._writer.shutdown)


def _write(lines: bytes) -> None:
    sys.stderr.flush()
    left = memoryview(lines)
    with suppress(OSError):  # nobody reads it any more; that is no reason to stop
        while left:
            left = left[os.write(sys.stderr.fileno(), left) :]
