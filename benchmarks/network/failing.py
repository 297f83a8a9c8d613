"""Rerouting: a broker on the way is killed, or stops without a word, while events pass; how long nothing arrives.

Real processes: two brokers and two ways between them, each over one more broker. Publisher and subscriber are here.
"""

import asyncio
import os
import signal
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from stentor.admin.network import view
from stentor.cli.bench import running
from stentor.client.fabric import Events, Fabric, connect
from stentor.config import parse

HEARTBEAT = 1.0  # seconds
RATE = 500  # events/s
_NAMES = ("a/1", "a/2", "a/3", "a/4")
_LINKS = (("a/1", "a/2"), ("a/1", "a/3"), ("a/2", "a/4"), ("a/3", "a/4"))
_QUIET = 1.0  # seconds of traffic before anything happens
_AFTER = 4.0  # heartbeats of traffic after it
_WITHIN = 30.0


class Listener:
    """When each event arrived."""

    def __init__(self) -> None:
        self.arrived: list[float] = []
        self.first = asyncio.Event()

    async def listen(self, events: Events) -> None:
        async for batch in events.batches():
            self.arrived += [time.perf_counter()] * len(batch)
            self.first.set()

    def gap(self, since: float) -> float:
        """The longest time without an event that begins or ends after a moment."""
        times = [moment for moment in self.arrived if moment > since - 0.1]
        return max((after - before for before, after in pairwise(times)), default=float("inf"))


async def _publish(fabric: Fabric, end: asyncio.Event) -> int:
    begin, sent = time.perf_counter(), 0
    while not end.is_set():
        while sent < (time.perf_counter() - begin) * RATE:
            await fabric.publish("t", b"x" * 100, n=sent)
            sent += 1
        await asyncio.sleep(0.001)
    return sent


async def _trial(number: signal.Signals, folder: Path) -> dict[str, float]:
    lines = ["[fabric]", 'data = "."', 'log = "error"', "[limits]", f'heartbeat = "{HEARTBEAT:g} s"']
    for name in _NAMES:
        lines += ["[[node]]", f'name = "{name}"', 'listen = "127.0.0.1:0"', 'http = ""']
    for one, other in _LINKS:
        lines += ["[[link]]", f'between = ["{one}", "{other}"]']
    config = parse("\n".join(lines), str(folder / "failing.toml"))
    pids: dict[str, int] = {}
    launch = running(lambda text: None, lambda node: pids.update({node.name: node.pid}))  # noqa: ARG005
    async with (
        launch(config) as urls,
        connect(urls["a/1"], wait=_WITHIN) as publisher,
        connect(urls["a/4"], wait=_WITHIN) as subscriber,
        subscriber.subscribe("t") as events,
    ):
        listener, end = Listener(), asyncio.Event()
        listening = asyncio.create_task(listener.listen(events))
        publishing = asyncio.create_task(_publish(publisher, end))
        await asyncio.wait_for(listener.first.wait(), _WITHIN)
        await asyncio.sleep(_QUIET)
        scopes = (await view(publisher)).scopes
        victim = next(member.hop for scope in scopes for member in scope.members if member.unit == "a/4")
        before, moment = len(listener.arrived), time.perf_counter()
        os.kill(pids[victim], number)
        await asyncio.sleep(_AFTER * HEARTBEAT)
        gap = listener.gap(moment)
        if number is signal.SIGSTOP:
            os.kill(pids[victim], signal.SIGCONT)
        end.set()
        sent = await publishing
        await asyncio.sleep(0.5)
        listening.cancel()
        return {"gap_s": gap, "heartbeats": gap / HEARTBEAT, "lost": sent - len(listener.arrived), "before": before}


def measure(rounds: int) -> dict[str, list[dict[str, float]]]:
    """Gaps of every round, for a broker that is killed and for one that is only silent."""
    found: dict[str, list[dict[str, float]]] = {"killed": [], "silent": []}
    for _ in range(rounds):
        for name, number in (("killed", signal.SIGKILL), ("silent", signal.SIGSTOP)):
            with tempfile.TemporaryDirectory() as folder:
                found[name].append(asyncio.run(_trial(number, Path(folder))))
    return found
