"""`stentor demo`: the main job in half a minute, with real processes, checked as it goes."""

import asyncio
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from stentor.cli.process import Assignment, Readiness
from stentor.cli.supervisor import Supervisor
from stentor.client import Events, Fabric, connect
from stentor.model.attribute import Value
from stentor.model.filter import Filter
from stentor.model.limits import Limits
from stentor.model.topic import matches

_FLIGHTS = 20_000
_STALLED_FLIGHTS = 60_000
_PATIENCE = 30.0
_AIRPORTS = ("jfk", "lga", "ewr")
_CARRIERS = ("UA", "AA", "DL", "B6", "WN")


@dataclass
class Desk:
    """A subscriber of the demo and what it should and did get."""

    name: str
    pattern: str
    where: str
    expected: int = 0
    got: int = 0
    wrong: int = 0
    missed: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def wants(self, topic: str, attributes: dict[str, Value]) -> bool:
        return matches(self.pattern, topic) and (not self.where or Filter(self.where).matches(attributes))


def demo() -> None:
    """Run a fabric, publish flights, filter them by content, stall a subscriber, kill the broker; end with a table."""
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="stentor-demo-") as folder:
        sound = asyncio.run(_run(console, Path(folder)))
    if not sound:
        console.print("[red]something was delivered that should not have been, or the other way round[/]")
        raise typer.Exit(1)


def _flights(seed: int, count: int) -> Iterator[tuple[str, bytes, dict[str, Value]]]:
    dice = random.Random(seed)
    for number in range(count):
        carrier = dice.choice(_CARRIERS)
        delay = round(dice.expovariate(1 / 25) - 10, 1)
        body = f"{carrier}{dice.randrange(1, 2000)} flight {number}".encode()
        yield f"flights/{dice.choice(_AIRPORTS)}", body, {"carrier": carrier, "dep_delay": delay}


async def _run(console: Console, folder: Path) -> bool:
    port = _free_port()
    assignment = Assignment(
        name="demo/b1", listen=f"127.0.0.1:{port}", http=None, storage=str(folder / "b1"), certificates=None,
        limits=Limits(queue=1 << 20), log="error", supervised=True,
    )  # fmt: skip
    started: asyncio.Future[Readiness] = asyncio.get_running_loop().create_future()
    supervisor = Supervisor([assignment], lambda text: console.print(f"   [dim]supervisor: {text}[/]"))
    running = asyncio.create_task(supervisor.run(lambda nodes: started.set_result(nodes[0])))
    waiting: list[asyncio.Future[Any]] = [running, started]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        await running
    node = started.result()
    url = f"stentor://{node.listen}"
    console.print(f"[bold]1[/] a broker runs as process {node.pid} at {url}")
    try:
        desks = await _filter_by_content(console, url)
        stalled = await _stall(console, url)
        survived = await _kill(console, url, node.pid)
    finally:
        supervisor.stop()
        await running
    _summarise(console, [*desks, stalled, survived])
    return all(d.wrong == 0 and d.got + d.missed == d.expected for d in [*desks, stalled, survived])


async def _filter_by_content(console: Console, url: str) -> list[Desk]:
    desks = [
        Desk("everything", "flights/#", ""),
        Desk("United, an hour late", "flights/#", "carrier = 'UA' AND dep_delay > 60"),
        Desk("early at Kennedy", "flights/jfk", "dep_delay < 0"),
        Desk("two carriers", "flights/+", "carrier IN ('DL', 'B6') AND NOT (dep_delay <= 30)"),
    ]
    async with connect(url, name="airport") as airport, connect(url, name="desks") as office:
        subscriptions = [office.subscribe(desk.pattern, desk.where) for desk in desks]
        for subscription in subscriptions:
            await subscription.__aenter__()
        readers = [asyncio.create_task(_read(d, s)) for d, s in zip(desks, subscriptions, strict=True)]
        began = time.perf_counter()
        await _publish(airport, desks, seed=1, count=_FLIGHTS)
        await asyncio.wait_for(asyncio.gather(*(desk.arrived.wait() for desk in desks if desk.expected)), _PATIENCE)
        took = time.perf_counter() - began
        for reader in readers:
            reader.cancel()
    console.print(f"[bold]2[/] {_FLIGHTS:,} flights published, one by one, and filtered by content in {took:.1f} s")
    return desks


async def _publish(fabric: Fabric, desks: list[Desk], seed: int, count: int) -> None:
    for topic, body, attributes in _flights(seed, count):
        for desk in desks:
            desk.expected += desk.wants(topic, attributes)
        await fabric.publish(topic, body, attributes=attributes)
    await fabric.flush()
    for desk in desks:
        if desk.got + desk.missed >= desk.expected:
            desk.arrived.set()


async def _read(desk: Desk, events: Events) -> None:
    filter_ = Filter(desk.where) if desk.where else None
    async for batch in events.batches():
        for event in batch:
            desk.wrong += not matches(desk.pattern, event.topic) or (
                filter_ is not None and not filter_.matches(event.attributes)
            )
        desk.got += len(batch)
        desk.missed = events.missed
        if desk.expected and desk.got + desk.missed >= desk.expected:
            desk.arrived.set()


async def _stall(console: Console, url: str) -> Desk:
    stalled = Desk("stalled, then back", "flights/#", "")
    lively = Desk("its lively neighbour", "flights/#", "")
    async with (
        connect(url, name="airport") as airport,
        connect(url, name="sleeper", window=64 << 10) as sleeper,
        connect(url, name="neighbour") as neighbour,
        sleeper.subscribe(stalled.pattern) as unread,
        neighbour.subscribe(lively.pattern) as read,
    ):
        reader = asyncio.create_task(_read(lively, read))
        await _publish(airport, [stalled, lively], seed=2, count=_STALLED_FLIGHTS)
        await asyncio.wait_for(lively.arrived.wait(), _PATIENCE)
        status = await airport.status()
        slow = ", ".join(link.name for link in status.links if link.slow)
        console.print(
            f"[bold]3[/] one subscriber slept through {_STALLED_FLIGHTS:,} flights: its neighbour got {lively.got:,}; "
            f"the broker kept {status.queued >> 10:,} KiB for it, dropped the oldest and names the slow one: {slow}"
        )
        stalled.arrived.clear()
        sleeping = asyncio.create_task(_read(stalled, unread))
        await asyncio.wait_for(stalled.arrived.wait(), _PATIENCE)
        reader.cancel()
        sleeping.cancel()
    stalled.wrong += lively.got != lively.expected
    return stalled


async def _kill(console: Console, url: str, pid: int) -> Desk:
    desk = Desk("after kill -9", "flights/#", "dep_delay > 30")
    async with (
        connect(url, name="airport") as airport,
        connect(url, name="desk") as office,
        office.subscribe(desk.pattern, desk.where) as events,
    ):
        os.kill(pid, signal.SIGKILL)
        began = time.perf_counter()
        for fabric in (airport, office):
            await fabric.wait_until(connected=False)
        for fabric in (airport, office):
            await fabric.wait_until(connected=True)
        back = time.perf_counter() - began
        await office.flush()  # the subscription was renewed before this came back
        reader = asyncio.create_task(_read(desk, events))
        await _publish(airport, [desk], seed=3, count=_FLIGHTS)
        await asyncio.wait_for(desk.arrived.wait(), _PATIENCE)
        reader.cancel()
    console.print(f"[bold]4[/] kill -9: the broker was restarted, clients reconnected by themselves in {back:.1f} s")
    return desk


def _summarise(console: Console, desks: list[Desk]) -> None:
    table = Table("subscriber", "expected", "delivered", "told missed", "lost", "wrong")
    for column in table.columns[1:]:
        column.justify = "right"
    for desk in desks:
        lost = desk.expected - desk.got - desk.missed
        table.add_row(
            desk.name, f"{desk.expected:,}", f"{desk.got:,}", f"{desk.missed:,}",
            f"[{'red' if lost else 'green'}]{lost}[/]", f"[{'red' if desk.wrong else 'green'}]{desk.wrong}[/]",
        )  # fmt: skip
    console.print(table)
    console.print("expected is counted by the publisher, delivered by each subscriber; next: [bold]stentor up[/]")
    sys.stdout.flush()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
