"""Steady load: one publisher, one subscriber, a broker and a repository as processes; how much memory these take."""

import asyncio
import tempfile
import time
from pathlib import Path

from benchmarks.backlog import REPOSITORY, TOPIC, resident
from stentor.admin.topics import Registrar
from stentor.bench.narada.topologies import TOPOLOGIES, network
from stentor.cli.bench import running
from stentor.cli.process import Readiness
from stentor.client.fabric import Fabric, connect

_BATCH = 50
_LOOK = 1.0  # seconds between looks at the memory
_BODY = b"x" * 100


async def steady(seconds: float, rate: int, place: Path | None) -> list[tuple[float, float]]:
    """Return how many MiB broker and repository took together, by seconds since the beginning."""
    pids: dict[str, int] = {}

    def noticed(node: Readiness) -> None:
        pids[node.name] = node.pid

    with tempfile.TemporaryDirectory(dir=place) as folder:
        config = network(TOPOLOGIES["A"], Path(folder), "sqlite")
        async with running(lambda _: None, noticed)(config) as urls, connect(urls["b1"]) as fabric:
            async with Registrar(fabric) as registrar:
                await registrar.create(TOPIC, (REPOSITORY,), copies=1)
                await registrar.grant(TOPIC, "publisher", "load")
                await registrar.grant(TOPIC, "subscriber", "load")
            seen: list[tuple[float, float]] = []
            reader = asyncio.create_task(_read(fabric))
            begin = time.monotonic()
            writer = asyncio.create_task(_write(fabric, begin + seconds, rate))
            while not writer.done():
                await asyncio.sleep(_LOOK)
                seen.append((round(time.monotonic() - begin, 1), sum(map(resident, pids.values()))))
            await writer
            reader.cancel()
            return seen


async def _write(fabric: Fabric, end: float, rate: int) -> None:
    async with fabric.publisher(TOPIC, name="load") as publisher:
        due = time.monotonic()
        while due < end:
            await publisher.send_many([_BODY] * _BATCH, {"n": list(range(_BATCH))})
            due += _BATCH / rate
            await asyncio.sleep(max(due - time.monotonic(), 0))


async def _read(fabric: Fabric) -> None:
    async with fabric.subscribe(TOPIC, name="load") as events:
        async for _ in events.batches():
            pass
