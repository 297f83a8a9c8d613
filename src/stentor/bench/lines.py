"""Lines of JSON between a benchmark and the processes that it starts; they end when their standard input does."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from typing import Self, TypeVar

import msgspec

from stentor.model.errors import StentorError

T = TypeVar("T")
_LONGEST_LINE = 1 << 24
_STOP_WITHIN = 5.0


class WorkerFailed(StentorError):
    """A process of the benchmark ended, or did not answer."""


async def read_lines() -> AsyncIterator[bytes]:
    """What comes on standard input."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(_LONGEST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line


def say(answer: msgspec.Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


class Worker:
    """A module as a process of its own; use it with `async with`."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            self._module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LONGEST_LINE,
            env={**os.environ},
            start_new_session=True,  # Ctrl-C is ours to hand on
        )
        return self

    async def ask(self, question: msgspec.Struct | None, kind: type[T], within: float) -> T:
        """Send a line and wait for the one that answers it."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write((b"{}" if question is None else msgspec.json.encode(question)) + b"\n")
        try:
            line = await asyncio.wait_for(process.stdout.readline(), within)
        except TimeoutError:
            raise WorkerFailed(f"{self._module} did not answer within {within:.0f} s") from None
        if not line:
            raise WorkerFailed(f"{self._module} ended: what it said is above")
        return msgspec.json.decode(line, type=kind)

    async def kill(self) -> None:
        """As a crash would end it."""
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def __aexit__(self, *_: object) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _STOP_WITHIN)
        except TimeoutError:
            process.kill()
            await process.wait()
