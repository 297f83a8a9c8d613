"""The stage of the demo: three brokers, three repositories and clients of them, each as a process."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from stentor.cli.demo.actor import DemoPart
from stentor.cli.demo.audit import Id
from stentor.cli.demo.evidence import EvidenceReader
from stentor.cli.running.process import Assignment, Readiness
from stentor.cli.running.supervisor import Supervisor
from stentor.cli.running.up import assign_all, settle_ports
from stentor.config import Config, home_of, parse
from stentor.model.errors import StentorError
from stentor.model.stored.record import RecordKind
from stentor.storage.ledger_store import open_ledger

BROKERS = ("demo/b1", "demo/b2", "demo/b3")
REPOSITORIES = ("r1", "r2", "r3")


class Stopped(StentorError):
    """Ctrl-C."""


class DemoNetwork:
    """The nodes of the demo, while they run."""

    def __init__(self, folder: Path, tell: Callable[[str], None], held: ExitStack) -> None:
        self.config = settle_ports(_config(folder), held)
        self._away: dict[str, asyncio.Event] = {}
        self._tell = tell

    def url(self, *names: str) -> str:
        listen = {str(node.name): str(node.listen) for node in self.config.nodes}
        return "stentor://" + ",".join(listen[name] for name in names)

    def kill(self, *names: str) -> None:
        """kill -9, all at the same time; the supervisor starts them again."""
        pids = [int((self._home(name) / "lock").read_text()) for name in names]
        for name, pid in zip(names, pids, strict=True):
            self._away[name] = asyncio.Event()
            os.kill(pid, signal.SIGKILL)

    async def back(self, *names: str) -> None:
        for name in names:
            await self._away[name].wait()

    def stored(self, topic: str) -> list[set[Id]]:
        """The events that each repository has, by its files, when nobody uses them any more."""
        return [stored(each.storage, each.name, topic) for each in self.config.repositories]

    def notice(self, text: str) -> None:
        """What the supervisor tells."""
        for name, back in self._away.items():
            if text == f"node {name} is back":
                back.set()
        self._tell(text)

    def _home(self, name: str) -> Path:
        data = self.config.fabric.data
        return home_of(name, data) if name in REPOSITORIES else data / name


@asynccontextmanager
async def network(folder: Path, tell: Callable[[str], None]) -> AsyncIterator[DemoNetwork]:
    """All nodes, until the end, or until Ctrl-C: then Stopped is raised inside."""
    with ExitStack() as held:
        nodes = DemoNetwork(folder, tell, held)
        started: asyncio.Future[list[Readiness]] = asyncio.get_running_loop().create_future()
        assignments = [
            replace(each, chaos=True) if isinstance(each, Assignment) else each
            for each in assign_all(nodes.config, None, False, supervised=True, embedded=False)
        ]
        supervisor = Supervisor(assignments, nodes.notice)
        running = asyncio.create_task(supervisor.run(started.set_result))
        waiting: list[asyncio.Future[Any]] = [running, started]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
            raise Stopped("interrupted")
        user = asyncio.current_task()
        assert user is not None
        interrupted = lambda _: user.cancel()  # noqa: E731
        running.add_done_callback(interrupted)
        try:
            yield nodes
        except asyncio.CancelledError:
            if not running.done():
                raise
            raise Stopped("interrupted") from None
        finally:
            running.remove_done_callback(interrupted)
            supervisor.stop()
            await asyncio.wait([running])


class DemoClient:
    """A client that is a process, or was."""

    def __init__(self, part: DemoPart, evidence: Path) -> None:
        self._part = msgspec.structs.replace(part, evidence=str(evidence))
        self.evidence = EvidenceReader(evidence)
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, url: str) -> None:
        part = msgspec.structs.replace(self._part, url=url)
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "stentor.cli.demo.actor",
            msgspec.json.encode(part).decode(),
            stdin=asyncio.subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def kill(self) -> None:
        if self._process is not None and self.is_running:
            self._process.kill()
            await self._process.wait()

    def end(self) -> None:
        """Ask it to end in good order."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(b"end\n")


def _config(folder: Path) -> Config:
    lines = ["[fabric]", f"data = {msgspec.json.encode(str(folder)).decode()}", 'log = "error"', 'traces = "all"']
    for name in BROKERS:
        lines += ["[[node]]", f'name = "{name}"', 'listen = "127.0.0.1:0"', 'http = ""']
    lines += ["[[unit]]", 'name = "demo"', 'connect = "mesh"']
    for name, broker in zip(REPOSITORIES, BROKERS, strict=True):
        lines += ["[[repository]]", f'name = "{name}"', f'broker = "{broker}"', 'http = ""']
    return parse("\n".join(lines))


def stored(storage: str, repository: str, topic: str) -> set[Id]:
    """The events that a repository has, by its files; it must not run."""
    ledger = open_ledger(storage, repository, topic)
    try:
        lines = [line for line in ledger.load().lines if line.kind is RecordKind.EVENTS]
        return {(line.incarnation, number) for line in lines for number in range(line.first, line.last + 1)}
    finally:
        ledger.close()
