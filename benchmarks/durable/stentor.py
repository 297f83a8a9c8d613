"""Stentor: one broker and one repository, spoken to by the Python client that everybody has."""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

import uvloop

from benchmarks.durable.lane import SIZE, Outcome
from benchmarks.targets.target import Broker, TargetError
from stentor.admin.topics import Registrar
from stentor.client.fabric import connect
from stentor.client.reliable_publisher import Publisher, Stored

_TOPIC, _NAME = "bench/durable", "bench"
_PARTS, _SMALLEST = 4, 256  # of a window, each awaited as a whole; smaller ones would take a sync each
_WARM_UP = 0.2  # seconds

_CONFIGURATION = """\
[fabric]
data = "{directory}/data"
[[node]]
name = "broker"
listen = "127.0.0.1:{port}"
http = ""
[[repository]]
name = "r1"
storage = "{storage}:{directory}/ledgers"
http = ""
"""


class StentorRepository(Broker):
    """`storage` is what its ledgers are in."""

    storage: ClassVar[str]
    promise: ClassVar[str] = "fdatasync before the acknowledgement"

    def prepare(self, directory: Path, install: bool) -> str:  # noqa: ARG002
        self._program = Path(sys.executable).with_name("stentor")
        if not self._program.exists():
            raise TargetError("the stentor command is not in this environment: make setup")
        return version("stentor")

    def command(self, directory: Path) -> Sequence[str]:
        file = directory / "stentor.toml"
        file.write_text(_CONFIGURATION.format(directory=directory, port=self.port, storage=self.storage))
        return [str(self._program), "up", "--config", str(file)]

    def start(self, directory: Path) -> None:
        super().start(directory)
        uvloop.run(self._enrol())

    async def _enrol(self) -> None:
        async with connect(self._url) as fabric, Registrar(fabric) as registrar:
            await registrar.create(_TOPIC, ("r1",))
            await registrar.grant(_TOPIC, "publisher", _NAME)

    @property
    def _url(self) -> str:
        return f"stentor://127.0.0.1:{self.port}"

    def publish(self, window: int, seconds: float, batched: bool) -> Outcome:
        return uvloop.run(self._publish(window, seconds, batched))

    async def _publish(self, window: int, seconds: float, batched: bool) -> Outcome:
        async with connect(self._url) as fabric, fabric.publisher(_TOPIC, name=_NAME) as publisher:
            await _drive(publisher, window, _WARM_UP, batched)
            return await _drive(publisher, window, seconds, batched)


async def _drive(publisher: Publisher, window: int, seconds: float, batched: bool) -> Outcome:
    """So many at most that are not acknowledged: another part as soon as the oldest one is."""
    body = b"x" * SIZE
    parts = max(1, min(_PARTS, window // _SMALLEST))
    part = window // parts
    waiting: deque[asyncio.Task[Stored]] = deque()
    begin = time.perf_counter()
    end = begin + seconds
    count = 0
    while time.perf_counter() < end:
        if window == 1:
            await publisher.send(body)
        else:
            if len(waiting) == parts:
                await waiting.popleft()
            if batched:
                await publisher.send_many([body] * part)
            else:
                for _ in range(part):
                    publisher.send_nowait(body)
            waiting.append(asyncio.create_task(publisher.flush()))
        count += part
    await publisher.flush()
    taken = time.perf_counter() - begin
    await asyncio.gather(*waiting)
    return Outcome(count, taken)


class OverSqlite(StentorRepository):
    name: ClassVar[str] = "stentor sqlite"
    storage: ClassVar[str] = "sqlite"


class OverSegments(StentorRepository):
    name: ClassVar[str] = "stentor segments"
    storage: ClassVar[str] = "segments"
