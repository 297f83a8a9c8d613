"""A fabric of real processes for tests of Spark: two brokers and three repositories, with a topic for each test."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.end_to_end.command import PATIENCE
from tests.end_to_end.troupe import REPOSITORIES, Network

import stentor
from stentor.admin.topics import Registrar
from stentor.client.reliable_subscription import Subscription
from stentor.model.attribute import Value
from stentor.pipeline.options import read_options
from stentor.pipeline.source.blocking_stored_reader import BlockingStoredReader

Columns = Mapping[str, Sequence[Value | None]]


class Stage(Network):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.url_of_all = self.url()

    def topic(self, name: str, *, publisher: str = "shop", subscriber: str = "spark") -> str:
        """A reliable topic on all repositories."""

        async def create() -> None:
            async with stentor.connect(self.url_of_all, wait=PATIENCE) as fabric, Registrar(fabric) as registrar:
                await registrar.create(name, REPOSITORIES, within=PATIENCE)
                await registrar.grant(name, "publisher", publisher)
                await registrar.grant(name, "subscriber", subscriber)

        asyncio.run(create())
        return name

    def publish(
        self, topic: str, bodies: Sequence[bytes], attributes: Columns | None = None, portion: int = 100
    ) -> None:
        """Returns when all of it is stored; by a life of its own."""

        async def publish() -> None:
            async with (
                stentor.connect(self.url_of_all, wait=PATIENCE) as fabric,
                fabric.publisher(topic, name="shop") as shop,
            ):
                for start in range(0, len(bodies), portion):
                    part = {name: column[start : start + portion] for name, column in (attributes or {}).items()}
                    await shop.send_many(bodies[start : start + portion], part)
                await shop.flush()

        asyncio.run(publish())

    def shown(self, topic: str) -> int:
        """How many events readers are shown, by whichever repository is the first to answer; the least of some."""
        with BlockingStoredReader(read_options({"url": self.url_of_all, "topic": topic}, streaming=False)) as catalogue:
            return min(len(catalogue.stock(topic, since="beginning").end) for _ in range(9))

    def lags(self, topic: str) -> dict[str, int]:
        """How many events each subscriber has not acknowledged, at the repository that knows least of it."""

        async def ask() -> dict[str, int]:
            async with stentor.connect(self.url_of_all, wait=PATIENCE) as fabric, Registrar(fabric) as registrar:
                reports = await registrar.show(topic)
            found: dict[str, int] = {}
            for report in reports.values():
                for name, subscriber in report.subscribers.items():
                    if subscriber.known:
                        found[name] = max(found.get(name, 0), subscriber.lag)
            return found

        return asyncio.run(ask())


def everything(stage: Stage, topic: str, count: int) -> list[bytes]:
    """What a new subscriber gets from the beginning: so many bodies, and whatever comes after them."""

    async def take() -> list[bytes]:
        async with (
            stentor.connect(stage.url_of_all, wait=PATIENCE) as fabric,
            fabric.subscribe(topic, name="spark", from_="beginning") as events,
        ):
            return await _gather(events, count)

    return asyncio.run(take())


async def _gather(events: Subscription, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(PATIENCE):
        async for batch in events.batches():
            found += batch.bodies
            if len(found) >= count:
                break
    try:
        async with asyncio.timeout(0.5):  # one too many would be stored already
            async for batch in events.batches():
                found += batch.bodies
    except TimeoutError:
        pass
    return found
