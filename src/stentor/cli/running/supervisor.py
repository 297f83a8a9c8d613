"""The supervisor: one child process per node, started together, watched, restarted when they die, stopped together."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence

import msgspec

from stentor.cli.running.node_logs import LineWriter
from stentor.cli.running.process import ALLOCATOR, GONE, AnyAssignment, Assignment, Readiness
from stentor.model.errors import StentorError

_STOP_WITHIN = 5.0
_READY_WITHIN = 30.0
_PAUSE = 1.0  # before a node that died is started again


class NodeFailed(StentorError):
    """A node did not come up; it has said why."""


class Supervisor:
    """Runs nodes until told to stop."""

    def __init__(
        self, assignments: Sequence[AnyAssignment], tell: Callable[[str], None], output: LineWriter | None = None
    ) -> None:
        """What nodes write to standard error goes to `output`, which is closed in the end."""
        self._assignments = assignments
        self._tell = tell
        self._output = output or LineWriter()
        self._forwarders: set[asyncio.Task[None]] = set()
        self._children: dict[str, asyncio.subprocess.Process] = {}
        self._up: dict[str, AnyAssignment] = {}  # those that are ready, with the ports that they have
        self._away: set[str] = set()  # those that are being started again
        self._watchers: dict[str, asyncio.Task[None]] = {}
        self._purged: set[str] = set()
        self._end = asyncio.Event()

    def stop(self) -> None:
        self._end.set()

    async def run(
        self,
        ready: Callable[[list[Readiness]], None],
        *meanwhile: Callable[[], Coroutine[None, None, None]],
    ) -> None:
        """Returns after `stop`, SIGINT or SIGTERM, with every child gone; `meanwhile` runs while nodes do."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        try:
            nodes = await self._start_all()
            ready(nodes)
            for each, node in zip(self._assignments, nodes, strict=True):
                self._keep(each, node)
            aside = [loop.create_task(each()) for each in meanwhile]
            await self._end.wait()
            for task in aside:
                task.cancel()
            if aside:
                await asyncio.wait(aside)
        finally:
            self._end.set()
            for watcher in self._watchers.values():
                watcher.cancel()  # first, or one could start a node that nobody stops
            await self._stop()
            await asyncio.gather(*self._forwarders)
            await self._output.close()

    def running(self) -> list[Assignment]:
        """The brokers that are up, with the ports that they have."""
        return [each for each in self._up.values() if isinstance(each, Assignment)]

    def away(self) -> list[str]:
        """The brokers that are being started again."""
        return sorted(self._away)

    async def add(self, assignment: Assignment) -> Readiness:
        """Start another node, and keep it running; one that does not come up is given up."""
        child = self._children.get(assignment.name)
        if assignment.name in self._away or (child is not None and child.returncode is None):
            raise NodeFailed(f"node {assignment.name} runs already")
        try:
            node = await self._start(assignment)
        except NodeFailed:
            self._children.pop(assignment.name).kill()
            raise
        self._keep(assignment, node)
        return node

    async def purge(self, name: str) -> None:
        """End a node at once; it is not started again."""
        self._purged.add(name)
        self._up.pop(name, None)
        child = self._children[name]
        if child.returncode is None:
            child.kill()
        await child.wait()

    def _keep(self, assignment: AnyAssignment, node: Readiness) -> None:
        # a node that took any free port must come back where its clients look for it
        settled = self._up[assignment.name] = _settle(assignment, node)
        self._purged.discard(assignment.name)
        self._watchers[assignment.name] = asyncio.get_running_loop().create_task(self._watch(settled))

    async def _start_all(self) -> list[Readiness]:
        """Start brokers first: a repository that finds its own one missing goes to another, and stays there."""
        turns = asyncio.Semaphore(2 * (os.cpu_count() or 1))  # more would only slow each other down
        started: dict[str, Readiness] = {}
        for are_brokers in (True, False):
            some = [each for each in self._assignments if isinstance(each, Assignment) is are_brokers]
            found = await asyncio.gather(*(self._start_in_turn(each, turns) for each in some))
            started |= {each.name: node for each, node in zip(some, found, strict=True)}
        return [started[each.name] for each in self._assignments]

    async def _start_in_turn(self, assignment: AnyAssignment, turns: asyncio.Semaphore) -> Readiness:
        async with turns:
            return await self._start(assignment)

    async def _start(self, assignment: AnyAssignment) -> Readiness:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "stentor.cli.running.process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **ALLOCATOR},
            start_new_session=True,  # Ctrl-C is ours to hand on, in order
        )
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        self._children[assignment.name] = child
        forwarder = asyncio.get_running_loop().create_task(self._output.forward(child.stderr))
        self._forwarders.add(forwarder)
        forwarder.add_done_callback(self._forwarders.discard)
        child.stdin.write(msgspec.json.encode(assignment) + b"\n")
        try:
            line = await asyncio.wait_for(child.stdout.readline(), _READY_WITHIN)
        except TimeoutError:
            raise NodeFailed(f"node {assignment.name} did not come up within {_READY_WITHIN:g} s") from None
        if not line:
            raise NodeFailed(f"node {assignment.name} did not start")
        return msgspec.json.decode(line, type=Readiness)

    async def _watch(self, assignment: AnyAssignment) -> None:
        name = assignment.name
        while not self._end.is_set():
            code = await self._children[name].wait()
            self._up.pop(name, None)
            if self._end.is_set() or name in self._purged:
                return
            if code == GONE:
                self._tell(f"node {name} left the network")
                return
            if isinstance(assignment, Assignment):
                self._away.add(name)
            self._tell(f"node {name} ended ({_describe(code)}): starting it again")
            await asyncio.sleep(_PAUSE)
            try:
                await self._start(assignment)
                self._up[name] = assignment
                self._away.discard(name)
                self._tell(f"node {name} is back")
            except NodeFailed as error:
                self._tell(str(error))

    async def _stop(self) -> None:
        """Stop repositories first: their last traces, and those of others, reach them through brokers."""
        repositories = {each.name for each in self._assignments if not isinstance(each, Assignment)}
        await _stop_all([child for name, child in self._children.items() if name in repositories])
        await _stop_all(list(self._children.values()))


async def _stop_all(children: Sequence[asyncio.subprocess.Process]) -> None:
    alive = [child for child in children if child.returncode is None]
    for child in alive:
        child.terminate()
    if alive:
        waiting = [asyncio.ensure_future(child.wait()) for child in alive]
        _, late = await asyncio.wait(waiting, timeout=_STOP_WITHIN)
        if late:
            for child in alive:
                if child.returncode is None:
                    child.kill()
            await asyncio.wait(late)


def _settle(assignment: AnyAssignment, node: Readiness) -> AnyAssignment:
    if not isinstance(assignment, Assignment):
        return assignment
    return msgspec.structs.replace(assignment, listen=node.listen)


def _describe(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
