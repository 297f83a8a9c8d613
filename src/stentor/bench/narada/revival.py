"""A repository in a process that may be killed: how long it takes from its start until it serves clients.

{"name": "r1", "addresses": […], "storage": "sqlite:…", "known": true}   is answered by   {"linked": 3.1, "ready": 20.5}
"""

import asyncio
import sys
import time
from collections.abc import Mapping

import msgspec
import uvloop

from stentor.bench.lines import WorkerFailed, read_lines, say
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.runtime.log import Logger
from stentor.runtime.repository import RepositoryHost
from stentor.storage.ledger_store import find_ledger_store

_READY_WITHIN = 60.0


class Revive(msgspec.Struct):
    """Which repository to start; if the topic is `known` to it, it is ready once it steers clients of it."""

    name: str
    addresses: list[str]
    storage: str
    known: bool


class Revived(msgspec.Struct):
    """In ms from its start, the interpreter's not counted: its link to a broker, and that it serves."""

    linked: float
    ready: float


class _Witness(Logger):
    """Sees what a repository reports."""

    def __init__(self) -> None:
        super().__init__()
        self.ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def log(self, level: str, what: str, details: Mapping[str, str | int | float]) -> None:
        if what == "repository is ready" and not self.ready.done():
            self.ready.set_result(time.perf_counter_ns())
        super().log(level, what, details)


async def attend() -> None:
    lines = read_lines()
    revive = msgspec.json.decode(await anext(lines), type=Revive)
    witness = _Witness()
    begin = time.perf_counter_ns()
    host = RepositoryHost(
        RepositorySettings(name=revive.name),
        tuple(revive.addresses),
        find_ledger_store(revive.storage, revive.name),
        log=witness,
    )
    host.start()
    try:
        async with asyncio.timeout(_READY_WITHIN):
            await host.linked
            linked = ready = time.perf_counter_ns()
            if revive.known:
                ready = await witness.ready
    except TimeoutError:
        raise WorkerFailed(f"{revive.name} did not recover within {_READY_WITHIN:g} s") from None
    say(Revived((linked - begin) / 1e6, (ready - begin) / 1e6))
    async for _ in lines:
        pass
    await host.close()


if __name__ == "__main__":
    sys.exit(uvloop.run(attend()))
