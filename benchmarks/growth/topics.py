"""Topics that were used once, each with a ledger of its own, in a repository that is a process and was just started:
what it takes when all of them have been opened, told to its broker, and have fallen asleep.
"""

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path

from benchmarks.backlog import REPOSITORY, resident
from benchmarks.growth.machines import Bundle
from benchmarks.growth.point import Point
from stentor.bench import machine
from stentor.bench.narada.topologies import TOPOLOGIES, network
from stentor.cli.bench import running
from stentor.cli.running.process import Readiness
from stentor.model.control import TopicTask

_MINUTE = 60.0
_FEW_FILES = 30  # that a repository has open beside those of topics
_STILL = 25.0  # seconds with few files, after which no topic waits to be opened any more
_PATIENCE = 3600.0


def topics(folder: Path, size: int) -> Point:
    begin = time.process_time()
    for number in range(size):
        _fill(folder, f"topic/{number}")
    taken = time.process_time() - begin
    return asyncio.run(_rest(folder, size, 1000 * taken / size))


def _fill(folder: Path, topic: str) -> None:
    bundle = Bundle(folder, (REPOSITORY,), topic, "sqlite")
    bundle.owner(TopicTask.CREATE)
    bundle.owner(TopicTask.GRANT, name="shop")
    bundle.pass_time(10)
    bundle.recover("publisher", "shop", 1, REPOSITORY)
    bundle.publish("shop", 1, 1, 10)
    bundle.settle()
    bundle.close(REPOSITORY)


async def _rest(folder: Path, size: int, each_ms: float) -> Point:
    pids: dict[str, int] = {}

    def noticed(node: Readiness) -> None:
        pids[node.name] = node.pid

    begin = time.monotonic()
    async with running(lambda _: None, noticed)(network(TOPOLOGIES["A"], folder, "sqlite")), asyncio.timeout(_PATIENCE):
        pid = pids[REPOSITORY]
        highest = before = 0.0
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < _STILL:
            await asyncio.sleep(0.5)
            highest = max(highest, resident(pid))
            if _open_files(pid) > _FEW_FILES:
                quiet_since = time.monotonic()
        opened = quiet_since - begin
        before = machine.family()[pid].own
        await asyncio.sleep(_MINUTE)
        idle = machine.family()[pid].own - before
        return Point("topics", size, idle, resident(pid), opened, each_ms, _open_files(pid), highest)


def _open_files(pid: int) -> int:
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - counted often
    return 0
