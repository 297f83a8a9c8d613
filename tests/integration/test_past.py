"""What repositories have forgotten comes from a lake: to a subscriber that is new, and to readers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from tests.integration.house import node, run, until_asked
from tests.integration.test_reliable import House, take

from stentor.admin.topics import Registrar
from stentor.client.reliable_subscription import Subscription
from stentor.client.stored_reader import Reader
from stentor.machine import SECOND
from stentor.model.stored.position import Position
from stentor.model.stored.span import Spans
from stentor.pipeline.source.columns import schema_of, to_arrow
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.runtime.repository import RepositoryHost
from stentor.storage.lake import MARK, Lake, LakeError
from stentor.storage.ledger_store import find_ledger_store


class Shore(House):
    """A house beside a lake, whose repositories forget soon."""

    def __init__(self, home: Path, *arguments: object) -> None:
        super().__init__(home, *arguments)  # type: ignore[arg-type]
        self.lake = Lake(home / "lake")

    def start(self, name: str) -> None:
        store = find_ledger_store(f"{self._storage}:{self._home / name}", name)
        settings = RepositorySettings(name=name, collect_every=SECOND // 20)
        address = self.url.removeprefix("stentor://")
        self.hosts[name] = RepositoryHost(settings, (address,), store, lake=self.lake)
        self.hosts[name].start()

    async def flow(self) -> int:
        """Put all that is stored into the lake."""
        async with self.client() as fabric, Reader(fabric, "audit") as reader:
            stock = await reader.stock("orders", since="beginning")
            schema = schema_of((), origin=True)
            batches: list[pa.RecordBatch] = []
            async for leaf in reader.pages("orders", stock.end):
                batches += to_arrow(leaf, "orders", schema)
            table = pa.Table.from_batches(batches, schema).drop_columns(["topic"])
            target = self.lake.day("orders", datetime.now(UTC).date()) / "000000000000.parquet"
            target.parent.mkdir(parents=True)
            parquet.write_table(table.replace_schema_metadata(MARK), target)
            await reader.acknowledge("orders", stock.end)
        return len(table)

    async def forgotten(self) -> None:
        """Wait until no repository has anything from before."""
        async with (
            self.client() as fabric,
            Registrar(fabric) as registrar,
            fabric.publisher("orders", name="shop") as shop,
        ):

            async def gone() -> bool:
                await shop.send(b"new", price=0, loud=True)
                await asyncio.sleep(0.1)
                seen = await registrar.show("orders")
                return all(report.first > 1000 for report in seen.values())

            await until_asked(gone)


@asynccontextmanager
async def shore(home: Path, *names: str) -> AsyncIterator[Shore]:
    async with node(home / "broker") as broker:
        here = Shore(home, broker)
        for name in names:
            here.start(name)
        try:
            async with here.client() as fabric, Registrar(fabric) as registrar:
                await registrar.create("orders", list(names), keep=1)
                await registrar.grant("orders", "publisher", "shop")
                for name in ("billing", "audit"):
                    await registrar.grant("orders", "subscriber", name)
            yield here
        finally:
            for name in list(here.hosts):
                await here.stop(name)


async def fill(here: Shore, start: int, end: int) -> None:
    async with here.client() as fabric, fabric.publisher("orders", name="shop") as shop:
        numbers = range(start, end)
        await shop.send_many(
            [b"%d" % number for number in numbers],
            {
                "price": [number % 5 for number in numbers],
                "rate": [number / 7 if number % 3 else None for number in numbers],
            },
        )
        await shop.flush()


async def impatiently(events: Subscription, count: int) -> list[int]:
    """The next events, for somebody who gives up again and again, wherever that may be, and comes back."""
    found: list[int] = []
    patience = 0.0002
    while len(found) < count:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                found.append(int((await anext(events)).body))
                continue
        patience *= 1.1
    return found


@pytest.mark.req("SP-02")
def test_a_new_subscriber_gets_what_was_forgotten_and_goes_on_where_it_was(tmp_path: Path) -> None:
    async def main() -> None:
        async with shore(tmp_path, "r1", "r2") as here:
            await fill(here, 0, 600)
            middle = datetime.now(UTC)
            await asyncio.sleep(0.01)
            await fill(here, 600, 1200)
            assert await here.flow() == 1200
            await here.forgotten()
            async with here.client() as fabric:
                first = fabric.subscribe("orders", name="billing", where="price = 3 OR loud = TRUE", from_="beginning")
                async with first as events:
                    some = await take(events, 100)
                assert [int(event.body) for event in some] == list(range(3, 500, 5))
                assert some[1]["rate"] == 8 / 7
                again = fabric.subscribe("orders", name="billing", where="price = 3 OR loud = TRUE")
                async with again as events:
                    rest = await take(events, 141)  # how many new ones there are depends on how busy this machine is
            assert [int(event.body) for event in rest[:140]] == list(range(503, 1200, 5))
            assert {event.body for event in rest[140:]} == {b"new"}

            async with here.client() as fabric, Reader(fabric, "audit") as reader:
                stock = await reader.stock("orders", since=f"time {int(middle.timestamp() * 1e9)}")
                found: list[bytes] = []
                async for leaf in reader.pages("orders", stock.end.minus(stock.done), "price = 2"):
                    found += [body for block in leaf.blocks for body in block.bodies()]
                assert sorted(map(int, found)) == list(range(602, 1200, 5))

            async with here.client() as fabric, fabric.subscribe("orders", name="audit", from_="beginning") as events:
                assert await impatiently(events, 1200) == list(range(1200))

    run(main())


@pytest.mark.req("SP-02")
def test_a_damaged_lake_is_an_error_of_its_own(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    file = lake.day("orders", datetime.now(UTC).date()) / "000000000000.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"PAR1 is not enough")
    with pytest.raises(LakeError, match="cannot be read"):
        lake.recall("orders", Position({(7, 1): Spans([(1, 5)])}), 1000)
    with pytest.raises(LakeError, match="cannot be read"):
        lake.find("orders", 1)
