"""Steady load: one publisher, one subscriber, a broker and a repository as processes; what memory and processor time
these take as time goes by.
"""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.backlog import REPOSITORY, TOPIC, resident
from stentor.admin.topics import Registrar
from stentor.bench import machine
from stentor.bench.narada.topologies import TOPOLOGIES, network
from stentor.cli.bench import running
from stentor.cli.running.process import Readiness
from stentor.client.fabric import Fabric, connect

_BATCH = 50
_LOOK = 5.0  # seconds between looks
_BODY = b"x" * 100
_KEEP = 60  # seconds that events are kept: what is stored does not grow from then on either


class Look(NamedTuple):
    """What broker and repository had taken when they were looked at."""

    at_s: float  # since the beginning
    broker_mib: float
    repository_mib: float
    cpu_s: float  # of both together
    taken: int  # events that the subscriber had got


async def steady(seconds: float, rate: int, place: Path | None, seen: list[Look]) -> str:
    """Note what broker and repository took, every few seconds; return why that ended early, "" if it did not. What was
    seen until then is worth as much as the time that it took.
    """
    pids: dict[str, int] = {}

    def noticed(node: Readiness) -> None:
        pids[node.name] = node.pid

    with tempfile.TemporaryDirectory(dir=place) as folder:
        config = network(TOPOLOGIES["A"], Path(folder), "sqlite")
        async with running(lambda _: None, noticed)(config) as urls, connect(urls["b1"]) as fabric:
            async with Registrar(fabric) as registrar:
                await registrar.create(TOPIC, (REPOSITORY,), copies=1, keep=_KEEP)
                await registrar.grant(TOPIC, "publisher", "load")
                await registrar.grant(TOPIC, "subscriber", "load")
            taken = [0]
            reader = asyncio.create_task(_read(fabric, taken))
            begin = time.monotonic()
            writer = asyncio.create_task(_write(fabric, begin + seconds, rate))
            while not writer.done():
                await asyncio.sleep(_LOOK)
                usage = machine.family()
                if gone := [name for name, pid in pids.items() if pid not in usage]:
                    writer.cancel()
                    reader.cancel()
                    return f"{', '.join(gone)} is gone after {time.monotonic() - begin:.0f} s"
                cpu_s = sum(usage[pid].own for pid in pids.values())
                sizes = round(resident(pids["b1"]), 1), round(resident(pids[REPOSITORY]), 1)
                seen.append(Look(round(time.monotonic() - begin, 1), *sizes, round(cpu_s, 2), taken[0]))
            await writer
            reader.cancel()
            return ""


async def _write(fabric: Fabric, end: float, rate: int) -> None:
    async with fabric.publisher(TOPIC, name="load") as publisher:
        due = time.monotonic()
        while due < end:
            await publisher.send_many([_BODY] * _BATCH, {"n": list(range(_BATCH))})
            due += _BATCH / rate
            await asyncio.sleep(max(due - time.monotonic(), 0))


async def _read(fabric: Fabric, taken: list[int]) -> None:
    async with fabric.subscribe(TOPIC, name="load") as events:
        async for batch in events.batches():
            taken[0] += len(batch)
