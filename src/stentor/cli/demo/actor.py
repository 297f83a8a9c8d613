"""A client of a reliable topic as a process of its own, that may be killed: a publisher of flights, or a subscriber.

It is told its part as an argument, writes evidence of all that it does, and ends in good order when told `end` on
standard input; `move URL` sends it to another broker. When standard input ends, so does it.
"""

import asyncio
import os
import sys
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from stentor.cli.demo.evidence import Began, Done, Ended, EvidenceReader, EvidenceWriter, Got, Kept, Sent
from stentor.cli.demo.flights import flights
from stentor.client.event import StoredEvent
from stentor.client.fabric import Fabric, connect
from stentor.client.reliable_publisher import Publisher
from stentor.client.reliable_subscription import Subscription
from stentor.model.errors import Unresponsive

_TICK = 0.02  # seconds between two turns of a publisher
_COMMIT_EVERY = 0.2  # seconds, by a subscriber
_PATIENCE = 60.0  # with the first connection, in seconds


class DemoPart(msgspec.Struct, frozen=True, kw_only=True):
    """What a process of the demo has to do."""

    url: str
    topic: str
    name: str
    evidence: str
    rows: int = 0  # of the trace, over and over, that a publisher sends; a subscriber sends none
    rate: float = 1000.0  # rows in a second
    where: str = ""


class Orders:
    """What comes on standard input."""

    def __init__(self, fabric: Fabric) -> None:
        self.end = asyncio.Event()
        self._fabric = fabric

    async def obey(self, work: Coroutine[Any, Any, None]) -> None:
        reading = asyncio.ensure_future(self._read())
        await work
        reading.cancel()

    async def _read(self) -> None:
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        async for line in reader:
            match line.split():
                case [b"end"]:
                    self.end.set()
                case [b"move", url]:
                    with suppress(Unresponsive):  # it keeps trying
                        await self._fabric.move(url.decode())
        os._exit(1)  # whoever started us is gone


async def _publish(part: DemoPart, publisher: Publisher, evidence: EvidenceWriter, orders: Orders) -> None:
    earlier, stored = publisher.recovered or (0, 0)
    row = _next_row(part, earlier, stored)
    life, number = publisher.incarnation, 0
    evidence.write(Began(life, earlier, stored))
    loop = asyncio.get_running_loop()
    sent = asyncio.Event()

    async def confirm() -> None:
        kept = 0
        while True:
            await sent.wait()
            sent.clear()
            if (last := number) > kept:
                evidence.write(Kept(life, last, (await publisher.flush()).copies))
                kept = last

    confirming = loop.create_task(confirm())
    due = loop.time()
    while row < part.rows and not orders.end.is_set():
        await publisher.room()
        rows = range(row, min(part.rows, row + max(1, int(part.rate * _TICK))))
        evidence.write(*(Sent(life, number + place, each) for place, each in enumerate(rows, 1)))
        for each in rows:
            number += 1
            flight = flights()[each % len(flights())]
            publisher.send_nowait(f"{life} {number} {each}".encode(), attributes=flight.attributes)
        row = rows.stop
        sent.set()
        due = max(due + len(rows) / part.rate, loop.time() - 1)
        await asyncio.sleep(due - loop.time())
    evidence.write(Kept(life, number, (await publisher.flush()).copies))
    confirming.cancel()
    await asyncio.wait([confirming])


def _next_row(part: DemoPart, earlier: int, stored: int) -> int:
    """Where to go on: after what the repositories have of an earlier life."""
    rows: dict[tuple[int, int], int] = {}
    row = 0
    for fact in EvidenceReader(Path(part.evidence)).read():
        if isinstance(fact, Sent):
            rows[fact.life, fact.number] = fact.row + 1
        elif isinstance(fact, Kept):
            row = max(row, rows.get((fact.life, fact.number), 0))
    return max(row, rows.get((earlier, stored), 0))


async def _subscribe(events: Subscription, evidence: EvidenceWriter, orders: Orders) -> None:
    evidence.write(Began(0))
    working: list[StoredEvent] = []
    done = 0

    async def confirm() -> None:
        """As an application does that commits its work now and then."""
        nonlocal done
        count = len(working)
        for event in working[:count]:
            event.ack()
        await events.sync()
        del working[:count]
        done += count
        evidence.write(Done(done))

    async def work() -> None:
        while True:
            await asyncio.sleep(_COMMIT_EVERY)
            if working:
                await confirm()

    async def read() -> None:
        async for event in events:
            life, number, row = map(int, event.body.split())
            intact = event.attributes == flights()[row % len(flights())].attributes
            evidence.write(Got(life, number, row, event.redelivered, intact))
            working.append(event)

    tasks = [asyncio.ensure_future(each) for each in (work(), read(), orders.end.wait())]
    finished, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    for task in finished:
        task.result()
    await confirm()


async def act(part: DemoPart) -> None:
    evidence = EvidenceWriter(Path(part.evidence))
    async with connect(part.url, wait=_PATIENCE) as fabric:
        orders = Orders(fabric)
        if part.rows:
            async with fabric.publisher(part.topic, name=part.name) as publisher:
                await orders.obey(_publish(part, publisher, evidence, orders))
        else:
            async with fabric.subscribe(
                part.topic, part.where, name=part.name, from_="beginning", ack="manual"
            ) as events:
                await orders.obey(_subscribe(events, evidence, orders))
    evidence.write(Ended())


if __name__ == "__main__":
    uvloop.run(act(msgspec.json.decode(sys.argv[1], type=DemoPart)))
