"""`python -m benchmarks.backlog`: a repository with a million stored events: how soon it serves, what memory it takes.

A ledger is filled with batches of a thousand events and with single ones, each a record; then a broker and the
repository run as processes, a new subscriber reads everything from the beginning, and one that was away comes back.
"""

import asyncio
import datetime
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from stentor.admin.topics import Registrar
from stentor.bench import machine
from stentor.bench.narada.topologies import TOPOLOGIES, network
from stentor.cli.bench import running
from stentor.cli.running.process import Readiness
from stentor.client.fabric import connect
from stentor.model.attribute import EMPTY_SCHEMA, Schema
from stentor.model.communication import end_name
from stentor.model.errors import StentorError
from stentor.model.ids import CatenationNumber, Incarnation, publisher_id, topic_id
from stentor.model.stored.record import Fact, Record, RecordHeader, RecordKind
from stentor.protocols.delivery.repository.storing.event_log import HORIZON, SCHEMA, digest_of
from stentor.storage.ledger_store import open_ledger
from stentor.wire.block import Block, Origin, encode

RESULTS = Path(__file__).parent / "results"
TOPIC, PUBLISHER, AWAY, NEW = "backlog", "shop", "away", "new"
REPOSITORY = "r1"
KINDS = ("sqlite", "segments")
BODY = 100  # bytes of an event
_SLOT = 1  # of the first subscriber
_GROUP = 1 << 20  # bytes that become durable together while a ledger is filled
_PATIENCE = 120.0
_EVERY = 0.05  # seconds between looks at the memory


class Trial(msgspec.Struct, frozen=True):
    """How the events are stored."""

    storage: str
    events: int
    batch: int


class Outcome(msgspec.Struct):
    """Seconds and MiB."""

    trial: Trial
    filled: float = 0.0
    disk: float = 0.0
    opened: float = 0.0  # in this process, the ledger alone
    answers: float = 0.0  # from the start of the processes until the repository answers for the topic
    resting: float = 0.0  # memory then
    first: dict[str, float] = {}  # until the first event, for whom
    all_of_it: dict[str, float] = {}
    highest: dict[str, float] = {}  # memory meanwhile


def records(trial: Trial) -> Iterator[Record]:
    """What the publisher had stored, as the repository would have written it, for the one that is away."""
    sender = publisher_id("", end_name("publisher", PUBLISHER, TOPIC))
    now = time.time_ns()
    for first in range(1, trial.events + 1, trial.batch):
        count = min(trial.batch, trial.events - first + 1)
        origin = Origin(topic_id(TOPIC), sender, Incarnation(1), CatenationNumber(first), now)
        bodies = [b"%0*d" % (BODY, first + at) for at in range(count)]
        block = Block(encode(origin, EMPTY_SCHEMA, [], bodies), EMPTY_SCHEMA)
        line = RecordHeader(0, count, sender, 1, first, RecordKind.EVENTS, digest_of(block))
        yield Record(line, bytes(block.frame), {_SLOT: b""}, now)


def fill(
    place: str, repository: str, topic: str, stored: Iterable[Record], schema: Schema = EMPTY_SCHEMA
) -> tuple[float, int]:
    """Put the records behind what the ledger has; returns how long that took, and how large it is."""
    ledger = open_ledger(place, repository, topic)
    following = ledger.load().next
    begin = time.perf_counter()
    waiting: list[Record | Fact] = [Fact(f"{SCHEMA}{schema.id:016x}", msgspec.msgpack.encode(schema))]
    size = 0
    for record in stored:
        waiting.append(record._replace(line=record.line._replace(sequence=following)))
        following += record.line.length
        size += len(record.frame)
        if size >= _GROUP:
            ledger.commit(waiting)
            waiting, size = [], 0
    ledger.commit([*waiting, Fact(HORIZON, b"%d" % (following - 1))])
    ledger.close()
    return time.perf_counter() - begin, ledger.usage()


def load(folder: Path, trial: Trial) -> float:
    begin = time.perf_counter()
    ledger = open_ledger(f"{trial.storage}:{folder / REPOSITORY}", REPOSITORY, TOPIC)
    ledger.load()
    taken = time.perf_counter() - begin
    ledger.close()
    return taken


def resident(pid: int) -> float:
    """MiB that a process holds."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


async def watch(pid: int, seen: list[float]) -> None:
    while True:
        seen.append(resident(pid))
        await asyncio.sleep(_EVERY)


async def catch_up(url: str, name: str, trial: Trial, pid: int, outcome: Outcome) -> None:
    """A subscriber reads everything; how soon it began, and what the repository needed meanwhile."""
    seen: list[float] = []
    watcher = asyncio.create_task(watch(pid, seen))
    got = 0
    begin = time.perf_counter()
    async with (
        asyncio.timeout(_PATIENCE + trial.events / 1000),
        connect(url, wait=_PATIENCE) as fabric,
        fabric.subscribe(TOPIC, name=name, from_="beginning") as events,
    ):
        async for batch in events.batches():
            if not got:
                outcome.first[name] = time.perf_counter() - begin
            got += len(batch)
            if got >= trial.events:
                break
        outcome.all_of_it[name] = time.perf_counter() - begin
    watcher.cancel()
    outcome.highest[name] = max(seen)


async def until_ready(url: str, topic: str = TOPIC) -> None:
    async with asyncio.timeout(_PATIENCE), connect(url) as fabric, Registrar(fabric) as registrar:
        while True:
            with suppress(StentorError):  # nobody answers before the ledger is open
                if all(report.ready for report in (await registrar.show(topic)).values()):
                    return


async def measure(folder: Path, trial: Trial, say: Callable[[str], None]) -> Outcome:
    outcome = Outcome(trial)
    config = network(TOPOLOGIES["A"], folder, trial.storage)
    async with running(say)(config) as urls, connect(urls["b1"]) as fabric, Registrar(fabric) as registrar:
        await registrar.create(TOPIC, (REPOSITORY,), copies=1)
        await registrar.grant(TOPIC, "publisher", PUBLISHER)
        for name in (AWAY, NEW):
            await registrar.grant(TOPIC, "subscriber", name)
        async with fabric.publisher(TOPIC, name=PUBLISHER), fabric.subscribe(TOPIC, name=AWAY):
            pass
    say("filling the ledger")
    place = f"{trial.storage}:{folder / REPOSITORY}"
    outcome.filled, size = await asyncio.to_thread(fill, place, REPOSITORY, TOPIC, records(trial))
    outcome.disk = size / (1 << 20)
    outcome.opened = await asyncio.to_thread(load, folder, trial)
    pids: dict[str, int] = {}

    def noticed(node: Readiness) -> None:
        pids[node.name] = node.pid

    say("starting the repository")
    begin = time.perf_counter()
    async with running(say, noticed)(config) as urls:
        await until_ready(urls["b1"])
        outcome.answers = time.perf_counter() - begin
        outcome.resting = resident(pids[REPOSITORY])
        for name in (NEW, AWAY):
            say(f"{name} reads all of it")
            await catch_up(urls["b1"], name, trial, pids[REPOSITORY], outcome)
    return outcome


def table(outcomes: list[Outcome]) -> Table:
    found = Table(
        "ledger",
        "events",
        "a record",
        "opened s",
        "answers s",
        "new: first s",
        "all s",
        "away: first s",
        "all s",
        "MiB at rest",
        "highest",
        "on disk",
        box=None,
        pad_edge=False,
    )
    for each in outcomes:
        times = [f"{times[name]:.2f}" for name in (NEW, AWAY) for times in (each.first, each.all_of_it)]
        found.add_row(
            each.trial.storage,
            f"{each.trial.events:,}",
            f"{each.trial.batch:,}",
            f"{each.opened:.2f}",
            f"{each.answers:.2f}",
            *times,
            f"{each.resting:,.0f}",
            f"{max(each.highest.values()):,.0f}",
            f"{each.disk:,.0f}",
        )
    return found


def main(
    events: Annotated[int, typer.Option(min=1, help="Events that are stored.")] = 1_000_000,
    batch: Annotated[str, typer.Option(help="Events of a record, comma-separated.")] = "1000,1",
    storage: Annotated[str, typer.Option(help="Ledgers, comma-separated.")] = ",".join(KINDS),
    place: Annotated[Path | None, typer.Option(help="Directory on the disk to use; else the temporary one.")] = None,
    out: Annotated[str, typer.Option(help="Name of the JSON in benchmarks/results.")] = "backlog",
) -> None:
    """Store many events, start the repository, catch up; write benchmarks/results/NAME.json."""
    console = Console(width=None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "160")))
    noise = machine.Noise()
    outcomes = []
    for kind in storage.split(","):
        for size in batch.split(","):
            trial = Trial(kind, events, int(size))
            with tempfile.TemporaryDirectory(dir=place) as directory, console.status(f"{kind}, batches of {size}"):
                outcomes.append(asyncio.run(measure(Path(directory), trial, lambda _: None)))
            console.print(table(outcomes[-1:]))
    report: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": msgspec.to_builtins(machine.describe()),
        "noise_cores": round(noise.cores(), 2),
        "body_bytes": BODY,
        "outcomes": msgspec.to_builtins(outcomes),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{out}.json").write_text(json.dumps(report, indent=1))
    console.print(f"written: {RESULTS / out}.json", highlight=False)


if __name__ == "__main__":
    typer.run(main)
