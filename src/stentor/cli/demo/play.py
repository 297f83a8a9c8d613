"""What happens in the demo, and the table at the end of it."""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table

from stentor.admin.topics import Registrar
from stentor.cli.demo.actor import DemoPart
from stentor.cli.demo.audit import Publication, SubscriberVerdict, judge
from stentor.cli.demo.epilogue import Epilogue
from stentor.cli.demo.evidence import Got, Kept
from stentor.cli.demo.flights import Flight, flights
from stentor.cli.demo.rebuilding import damage, rebuild
from stentor.cli.demo.stage import BROKERS, REPOSITORIES, DemoClient, DemoNetwork, Stopped, network
from stentor.client.fabric import connect

_TOPIC = "flights/nyc"
_PICTURE = Path("stentor-demo.png")  # where the demo is started
_RATE = 450.0  # flights in a second
_LOOK = 0.1  # seconds between two looks at the evidence
_PATIENCE = 120.0  # seconds without progress after which something is taken to be lost for good


@dataclass(frozen=True)
class Desk:
    """A subscriber: its filter, and what that means, said once more without Stentor."""

    name: str
    where: str
    wants: Callable[[Flight], bool]

    def wants_row(self, row: int) -> bool:
        return self.wants(flights()[row])


_DESKS = (
    Desk("late", "dep_delay > 15", lambda flight: flight.delay is not None and flight.delay > 15),
    Desk(
        "west",
        "carrier IN ('UA', 'VX', 'B6') AND distance >= 1000",
        lambda flight: flight.carrier in {"UA", "VX", "B6"} and flight.distance >= 1000,
    ),
)


def demo(
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Let Spark audit it at the end.")] = True,
) -> None:
    """Publish a week of flights reliably while brokers, repositories and clients are killed; end with a table.

    Then Spark audits the same by the traces that the fabric emitted, and draws how long events took.
    """
    console = Console(highlight=False)
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="stentor-demo-") as folder:
            play = _Play(console, Path(folder), spark=spark)
            sound = asyncio.run(play.run())
    except Stopped:
        console.print("interrupted: everything was stopped and removed")
        raise typer.Exit(130) from None
    left = f"{play.epilogue.picture} shows how long events took; nothing else" if play.is_drawn else "nothing"
    console.print(f"[dim]{time.monotonic() - began:.0f} s; {left} is left on disk. Next: [bold]stentor up[/][/]")
    sys.stdout.flush()
    if not sound:
        console.print("[red]that is not what Stentor promises[/]")
        raise typer.Exit(1)


class _Play:
    def __init__(self, console: Console, folder: Path, *, spark: bool) -> None:
        self._console = console
        self._folder = folder
        self._spark = spark
        self._airport = self._client("airport", rows=len(flights()), rate=_RATE)
        self._desks = [self._client(desk.name, where=desk.where) for desk in _DESKS]
        self._status: Status | None = None
        self._scene = 0
        self.epilogue = Epilogue(_TOPIC, _PICTURE.absolute())
        self.is_drawn = False

    def _client(self, name: str, *, rows: int = 0, rate: float = 0, where: str = "") -> DemoClient:
        part = DemoPart(url="", topic=_TOPIC, name=name, evidence="", rows=rows, rate=rate, where=where)
        return DemoClient(part, self._folder / f"{name}.jsonl")

    async def run(self) -> bool:
        data = self._folder / "data"
        with self._console.status("starting three brokers and three repositories") as self._status:
            async with (
                network(data, lambda text: self._console.print(f"   [dim]supervisor: {text}[/]")) as nodes,
                AsyncExitStack() as ends,
            ):
                for client in (self._airport, *self._desks):
                    ends.push_async_callback(client.kill)
                await self._open(nodes)
                await self._rebuild(nodes)
                await self._disturb(nodes)
                await self._finish(nodes)
                if self._spark:
                    self._status.update("Spark reads the traces of all this")
                    await self.epilogue.run(nodes.url(*BROKERS), self._console.width)
        sound = self._summarise(nodes)
        if self._spark:
            self.is_drawn = self.epilogue.show(self._console)
        return sound and not self.epilogue.is_violated

    def _tell(self, text: str) -> None:
        self._scene += 1
        self._console.print(f"[bold]{self._scene}[/] {text}", soft_wrap=True)

    async def _open(self, nodes: DemoNetwork) -> None:
        async with connect(nodes.url("demo/b1"), wait=_PATIENCE) as fabric, Registrar(fabric) as registrar:
            await registrar.create(_TOPIC, REPOSITORIES, copies=2, within=_PATIENCE)
            await registrar.grant(_TOPIC, "publisher", "airport")
            for desk in _DESKS:
                await registrar.grant(_TOPIC, "subscriber", desk.name)
        for client, first in zip(self._desks, BROKERS, strict=False):
            await client.start(_near(nodes, first))
        await self._airport.start(_near(nodes, "demo/b3"))
        await self._reach(1)
        self._tell(
            f"three brokers, three repositories, a publisher and two subscribers run, each as a process; {_TOPIC} is "
            f"stored on all three repositories, and acknowledged when it is on two of them"
        )

    async def _rebuild(self, nodes: DemoNetwork) -> None:
        """Change the network itself, while flights go on."""
        await self._reach(len(flights()) // 16)
        took = await rebuild(nodes.url("demo/b1"), "demo/b1", "demo/b3")
        self._tell(
            f"{self._progress()}: the link between b1 and b3 was taken away and put back by plans, in {took:.1f} s"
        )
        healing = await damage(nodes.url("demo/b1"), BROKERS, "demo/b2")
        healed = "it healed itself" if not healing.troubles else "[red]it has not healed[/]"
        self._tell(
            f"{self._progress()}: what broker b2 remembers of the network was [red]damaged[/]; {healed} in "
            f"{healing.seconds:.1f} s of {healing.bound:.0f}"
        )

    async def _disturb(self, nodes: DemoNetwork) -> None:
        everything = len(flights())
        await self._reach(everything // 8)
        self._tell(
            f"{self._progress()}: [red]kill -9[/] of broker b1, to which a subscriber and a repository are linked"
        )
        nodes.kill("demo/b1")
        await self._reach(everything // 4)
        self._tell(f"{self._progress()}: [red]kill -9[/] of repositories r1 and r2 of three, at the same time")
        nodes.kill("r1", "r2")
        await self._reach(everything // 2)
        late, _ = self._desks
        self._tell(f"{self._progress()}: [red]kill -9[/] of the subscriber “late”; nobody starts it again for a while")
        await late.kill()
        await self._reach(everything * 5 // 8)
        self._tell(f"{self._progress()}: “late” comes back, without any state of its own, at another broker: b2")
        await late.start(_near(nodes, "demo/b2"))
        await self._reach(everything * 3 // 4)
        self._tell(f"{self._progress()}: [red]kill -9[/] of the publisher, which comes back and asks what was stored")
        await self._airport.kill()
        await self._airport.start(_near(nodes, "demo/b3"))
        await self._reach(everything * 7 // 8)
        await nodes.back("demo/b1", "r1", "r2")
        self._tell(f"{self._progress()}: [red]kill -9[/] of broker b3 and repository r3")
        nodes.kill("demo/b3", "r3")
        await nodes.back("demo/b3", "r3")

    async def _finish(self, nodes: DemoNetwork) -> None:
        await self._until(lambda: not self._airport.is_running)
        await self._until(lambda: all(not verdict.lost for verdict in self._verdicts()))
        for client in self._desks:
            client.end()
        await self._until(lambda: not any(client.is_running for client in self._desks))
        async with connect(nodes.url(*BROKERS), wait=_PATIENCE) as fabric, Registrar(fabric) as registrar:
            await registrar.until(
                _TOPIC,
                lambda seen: (
                    len(seen) == len(REPOSITORIES)
                    and all(
                        each.ready and all(peer.missing == 0 and peer.agrees for peer in each.peers.values())
                        for each in seen.values()
                    )
                ),
                lambda _: "repositories that were away catch up",
                _PATIENCE,
            )

    # ---- the evidence

    def _publication(self) -> Publication:
        return Publication(self._airport.evidence.read())

    def _verdicts(self) -> list[SubscriberVerdict]:
        readers = [(desk.wants_row, each.evidence.read()) for desk, each in zip(_DESKS, self._desks, strict=True)]
        return judge([self._publication()], readers)

    def _stored(self) -> int:
        kept: dict[int, int] = {}
        for fact in self._airport.evidence.read():
            if isinstance(fact, Kept):
                kept[fact.life] = fact.number
        return sum(kept.values())

    def _progress(self) -> str:
        return f"{self._stored():,} flights stored"

    async def _reach(self, stored: int) -> None:
        await self._until(lambda: self._stored() >= stored)

    async def _until(self, done: Callable[[], bool]) -> None:
        seen, since = (0, 0), time.monotonic()
        while not done():
            got = sum(isinstance(fact, Got) for each in self._desks for fact in each.evidence.read())
            if (now := (self._stored(), got)) != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > _PATIENCE:
                return  # the table says what is missing
            assert self._status is not None
            self._status.update(f"{seen[0]:,} stored, {got:,} delivered")
            await asyncio.sleep(_LOOK)

    # ---- the table

    def _summarise(self, nodes: DemoNetwork) -> bool:
        publication, verdicts = self._publication(), self._verdicts()
        acknowledged = publication.acknowledged
        holders = nodes.stored(_TOPIC)
        copies = [sum(event in each for each in holders) for event in acknowledged]
        missing = sum(count < len(holders) for count in copies)
        self._console.print(
            f"\npublished and acknowledged {len(acknowledged):,} flights of {len(flights()):,}, in {publication.lives} "
            f"lives of the publisher; in the files of all three repositories {copies.count(len(holders)):,}, "
            f"of fewer {missing}"
        )
        table = Table("", "published", "stored", *(f"“{desk.name}”" for desk in _DESKS))
        for column in table.columns[1:]:
            column.justify = "right"
        table.add_row("flights", f"{len(acknowledged):,}", f"{copies.count(len(holders)):,}", *("" for _ in _DESKS))
        rows: dict[str, Sequence[int | Sequence[object]]] = {
            "expected": [each.expected for each in verdicts],
            "delivered": [each.delivered for each in verdicts],
            "redelivered": [each.redelivered for each in verdicts],
            "lost": [each.lost for each in verdicts],
            "duplicated": [each.duplicated for each in verdicts],
            "out of order": [each.misplaced for each in verdicts],
            "wrong": [each.foreign for each in verdicts],
        }
        for name, cells in rows.items():
            table.add_row(name, "", "", *(_cell(cell) for cell in cells))
        for desk in _DESKS:
            self._console.print(f"“{desk.name}” wants {desk.where}")
        self._console.print(table)
        self._console.print(
            "expected: the filter, written once more in Python, over the flights that were acknowledged; the rest is "
            "counted from what each client process wrote down as it happened",
            style="dim",
        )
        whole = len(acknowledged) >= len(flights()) and not missing and not publication.forgotten
        return whole and all(verdict.sound for verdict in verdicts)


def _cell(value: int | Sequence[object]) -> str:
    """A count, or how many faults of a kind were found."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"[{'red' if value else 'green'}]{len(value)}[/]"


def _near(nodes: DemoNetwork, first: str) -> str:
    """One broker, and the others for when it is away."""
    return nodes.url(first, *(name for name in BROKERS if name != first))
