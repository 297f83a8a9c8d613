"""A fleet: all nodes of a file on one event loop in one process, for more of them than a machine can run processes.

One of them that fails is started again, as the supervisor does with a process; but they share one core, and one memory.
"""

import asyncio
import gc
import signal
from collections.abc import Callable, Sequence

from stentor.cli.running.process import GONE, AnyAssignment, Assignment, Readiness, serve
from stentor.cli.running.supervisor import NodeFailed
from stentor.model.filter import Filter
from stentor.runtime.descriptors import raise_descriptor_limit
from stentor.runtime.log import logger

_AT_ONCE = 16  # nodes that start at the same time: more would only wait for the disk
_PAUSE = 1.0  # before a node that failed is started again


class Fleet:
    """Runs nodes until told to stop."""

    def __init__(self, assignments: Sequence[AnyAssignment], tell: Callable[[str], None]) -> None:
        self._assignments = assignments
        self._tell = tell
        self._ends = {each.name: asyncio.Event() for each in assignments}
        self._end = asyncio.Event()
        self._repositories: dict[str, asyncio.Task[None]] = {}
        self._ready: dict[str, Readiness] = {}

    def stop(self) -> None:
        self._end.set()

    async def run(self, ready: Callable[[list[Readiness]], None]) -> None:
        """Returns after `stop`, SIGINT or SIGTERM, with every node gone; raises what keeps one from starting."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        _make_room()
        turns = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as nodes:
            nodes.create_task(self._stop_all())
            for each in self._assignments:
                await turns.acquire()
                if self._end.is_set():
                    break
                task = nodes.create_task(self._keep(each, lambda: self._one_is_ready(turns, ready)))
                if not isinstance(each, Assignment):
                    self._repositories[each.name] = task

    def _one_is_ready(self, turns: asyncio.Semaphore, ready: Callable[[list[Readiness]], None]) -> None:
        turns.release()
        if len(self._ready) == len(self._assignments):
            gc.collect()
            gc.freeze()  # what is loaded now lives as long as the fleet
            ready([self._ready[each.name] for each in self._assignments])

    async def _stop_all(self) -> None:
        """Stop repositories first: their last traces, and those of others, reach them through brokers."""
        await self._end.wait()
        for name in self._repositories:
            self._ends[name].set()
        if self._repositories:
            await asyncio.wait(self._repositories.values())
        for end in self._ends.values():
            end.set()

    async def _keep(self, assignment: AnyAssignment, started: Callable[[], None]) -> None:
        """One node, again and again until it leaves or all stop."""
        name, log = assignment.name, logger.named(assignment.name)

        def first(readiness: Readiness) -> None:
            self._ready[name] = readiness
            started()

        code = await serve(assignment, self._ends[name], first, log)
        if name not in self._ready:
            raise NodeFailed(f"node {name} did not start")
        while not self._end.is_set():
            if code == GONE:
                self._tell(f"node {name} left the network")
                return
            self._tell(f"node {name} failed: starting it again")
            await asyncio.sleep(_PAUSE)
            if self._end.is_set():
                return
            self._ends[name].clear()
            code = await serve(assignment, self._ends[name], lambda _: self._tell(f"node {name} is back"), log)


def _make_room() -> None:
    """As many files as the system lets us open; the grammar of filters is read once for all."""
    raise_descriptor_limit()
    Filter("ready = TRUE")
