"""The supervisor: one child process per node, started together, watched, restarted when they die, stopped together."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence

import msgspec

from stentor.cli.process import ALLOCATOR, GONE, Assignment, Readiness
from stentor.model.errors import StentorError

_STOP_WITHIN = 5.0
_READY_WITHIN = 30.0
_PAUSE = 1.0  # before a node that died is started again


class NodeFailed(StentorError):
    """A node did not come up; it has said why."""


class Supervisor:
    """Runs nodes until told to stop."""

    def __init__(self, assignments: Sequence[Assignment], tell: Callable[[str], None]) -> None:
        self._assignments = assignments
        self._tell = tell
        self._children: dict[str, asyncio.subprocess.Process] = {}
        self._end = asyncio.Event()

    def stop(self) -> None:
        self._end.set()

    async def run(self, ready: Callable[[list[Readiness]], None]) -> None:
        """Returns after `stop`, SIGINT or SIGTERM, with every child gone."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        try:
            turns = asyncio.Semaphore(2 * (os.cpu_count() or 1))  # more would only slow each other down
            nodes = await asyncio.gather(*(self._start_in_turn(each, turns) for each in self._assignments))
            ready(nodes)
            # a node that took any free port must come back where its clients look for it
            settled = [_settle(each, node) for each, node in zip(self._assignments, nodes, strict=True)]
            watchers = [loop.create_task(self._watch(each)) for each in settled]
            await self._end.wait()
        finally:
            self._end.set()
            await self._stop()
        for watcher in watchers:
            watcher.cancel()

    async def _start_in_turn(self, assignment: Assignment, turns: asyncio.Semaphore) -> Readiness:
        async with turns:
            return await self._start(assignment)

    async def _start(self, assignment: Assignment) -> Readiness:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "stentor.cli.process",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env={**os.environ, **ALLOCATOR},
            start_new_session=True,  # Ctrl-C is ours to hand on, in order
        )  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        self._children[assignment.name] = child
        child.stdin.write(msgspec.json.encode(assignment) + b"\n")
        try:
            line = await asyncio.wait_for(child.stdout.readline(), _READY_WITHIN)
        except TimeoutError:
            raise NodeFailed(f"node {assignment.name} did not come up within {_READY_WITHIN:g} s") from None
        if not line:
            raise NodeFailed(f"node {assignment.name} did not start")
        return msgspec.json.decode(line, type=Readiness)

    async def _watch(self, assignment: Assignment) -> None:
        while not self._end.is_set():
            code = await self._children[assignment.name].wait()
            if self._end.is_set():
                return
            if code == GONE:
                self._tell(f"node {assignment.name} left the network")
                return
            self._tell(f"node {assignment.name} ended ({_describe(code)}): starting it again")
            await asyncio.sleep(_PAUSE)
            try:
                await self._start(assignment)
                self._tell(f"node {assignment.name} is back")
            except NodeFailed as error:
                self._tell(str(error))

    async def _stop(self) -> None:
        alive = [child for child in self._children.values() if child.returncode is None]
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


def _settle(assignment: Assignment, node: Readiness) -> Assignment:
    http = node.http and node.http.partition("://")[2]
    return msgspec.structs.replace(assignment, listen=node.listen, http=http)


def _describe(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
