"""Reading what is stored, at rest, over real sockets and real ledgers: a broker and its repositories here."""

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.integration.house import run, until_asked
from tests.integration.test_reliable import house

from stentor.admin.topics import Registrar
from stentor.client.fabric import Fabric
from stentor.client.stored_reader import Availability, Reader
from stentor.model.errors import Refusal, Refused, StentorError
from stentor.model.stored.position import Position

Numbered = tuple[int, bytes]  # a sequence number and a body


async def read(reader: Reader, wanted: Position, where: str = "", *repositories: str) -> list[Numbered]:
    found: list[Numbered] = []
    async for leaf in reader.pages("orders", wanted, where, repositories):
        for block, base in zip(leaf.blocks, leaf.bases, strict=True):
            numbers = [base + block.catenation + offset for offset in block.offsets()]
            found += zip(numbers, block.bodies(), strict=True)
            assert list(leaf.publishers) == [(int(block.publisher), "shop")]
    return found


async def fill(fabric: Fabric, start: int, end: int) -> None:
    async with fabric.publisher("orders", name="shop") as shop:
        for number in range(start, end):
            shop.send_nowait(b"%d" % number, price=number % 5)
            if number % 37 == 0:
                await shop.flush()
        await shop.flush()


def bodies(found: list[Numbered]) -> list[int]:
    return [int(body) for _, body in sorted(found)]


async def everywhere(reader: Reader, count: int) -> Availability:
    """Wait until every repository has so many."""
    while True:
        stock = await reader.stock("orders", since="beginning", parts=7)
        if len(stock.end) >= count:
            return stock
        await asyncio.sleep(0.02)


@pytest.mark.req("SP-01")
@pytest.mark.parametrize("storage", ["sqlite", "segments"])
def test_parts_hold_every_event_once_at_every_repository(tmp_path: Path, storage: str) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1", "r2", "r3", storage=storage) as here, here.client() as fabric:
            await fill(fabric, 0, 400)
            await fill(fabric, 400, 1000)  # another life of the publisher: another stream
            async with Reader(fabric, "audit") as reader:
                stock = await everywhere(reader, 1000)
                assert stock.members == ("r1", "r2", "r3")
                assert 1 < len(stock.parts) <= 7
                for repository in stock.members:
                    parts = [await read(reader, part, "", repository) for part in stock.parts]
                    found = [pair for part in parts for pair in part]
                    assert Counter(bodies(found)) == Counter(range(1000))
                    assert [number for number, _ in found] == sorted({number for number, _ in found})

                most = await reader.stock("orders", since="beginning", most=250)
                assert len(most.end) == 250
                first = await read(reader, most.end, "", stock.repository)
                assert sorted(bodies(first)) == list(range(250))
                rest = await reader.stock("orders", done=most.end, upto=stock.end)
                assert bodies(await read(reader, rest.parts[0], "", "r2")) == list(range(250, 1000))
                filtered = await read(reader, stock.end, "price = 3", "r3")
                assert bodies(filtered) == list(range(3, 1000, 5))

    run(main())


@pytest.mark.req("SP-01")
def test_another_repository_goes_on_when_the_one_that_is_read_dies(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1", "r2") as here, here.client() as fabric:
            async with fabric.publisher("orders", name="shop") as shop:
                for _ in range(100):
                    await shop.send_many([bytes(10_000)] * 10)
                await shop.flush()
            async with Reader(fabric, "audit") as reader:
                stock = await everywhere(reader, 1000)
                count = leaves = 0
                async for leaf in reader.pages("orders", stock.end, "", ("r1", "r2")):
                    count += sum(block.count for block in leaf.blocks)
                    leaves += 1
                    if leaves == 1:
                        assert leaf.repository == "r1"
                        await here.stop("r1")
                assert (count, leaf.repository) == (1000, "r2")

    run(main())


@pytest.mark.req("SP-01", "GE-15")
def test_what_a_reader_has_not_acknowledged_is_kept_for_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            house(tmp_path, "r1", "r2") as here,
            here.client() as fabric,
            Registrar(fabric) as registrar,
            Reader(fabric, "audit") as reader,
        ):
            start = await reader.stock("orders", since="now", enrol=True, where="price > 2")
            await fill(fabric, 0, 100)
            await until_asked(lambda: lag(registrar, 100))
            stock = await everywhere(reader, 100)
            assert start.end.minus(stock.end) == Position()
            await reader.acknowledge("orders", stock.end)
            await until_asked(lambda: lag(registrar, 0))
            await fill(fabric, 100, 200)
            stock = await everywhere(reader, 200)
            async with Reader(fabric, "audit") as another:  # it has read nothing, and ends at once
                await another.acknowledge("orders", stock.end)
            await until_asked(lambda: lag(registrar, 0))

    async def lag(registrar: Registrar, expected: int) -> bool:
        seen = await registrar.show("orders")
        return all("audit" in each.subscribers and each.subscribers["audit"].lag == expected for each in seen.values())

    run(main())


@pytest.mark.req("SP-01")
def test_a_reader_begins_where_it_asks_to(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1") as here, here.client() as fabric, Reader(fabric, "audit") as reader:
            await fill(fabric, 0, 50)
            between = time.time_ns()
            await fill(fabric, 50, 80)
            assert not (await reader.stock("orders", since="now")).parts
            late = await reader.stock("orders", since=f"time {between}")
            assert sorted(bodies(await read(reader, late.parts[0]))) == list(range(50, 80))
            number = max(number for number, _ in await read(reader, (await everywhere(reader, 80)).end))
            last = await reader.stock("orders", since=f"epoch {number}")
            assert bodies(await read(reader, last.parts[0])) == [79]

    run(main())


@pytest.mark.req("SP-01")
def test_those_who_may_not_read_are_told_why(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1") as here, here.client() as fabric:
            async with Reader(fabric, "stranger") as reader:
                with pytest.raises(Refused, match="topic grant orders --subscriber stranger") as refused:
                    await reader.stock("orders", since="beginning")
                assert refused.value.code is Refusal.NOT_AUTHORISED
            async with Reader(fabric, "audit") as reader:
                with pytest.raises(Refused, match="price >"):
                    await reader.stock("orders", since="beginning", where="price >")
                with pytest.raises(Refused, match="no beginning"):
                    await reader.stock("orders", since="yesterday")
                stock = await reader.stock("orders", since="beginning")
                assert not stock.parts
                with pytest.raises(StentorError, match="ask for its stock first"):
                    await anext(reader.pages("other", stock.end))

    run(main())


@pytest.mark.req("RD-01")
def test_an_owner_reads_without_a_name_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            house(tmp_path, "r1") as here,
            here.client() as fabric,
            Registrar(fabric) as registrar,
            Reader(fabric) as reader,
        ):
            await fill(fabric, 0, 50)
            before = (await registrar.show("orders"))["r1"]
            stock = await everywhere(reader, 50)
            assert bodies(await read(reader, stock.end)) == list(range(50))
            await reader.acknowledge("orders", stock.end)
            with pytest.raises(Refused, match="events are kept for a name: this reader has none"):
                await reader.stock("orders", since="beginning", enrol=True)
            after = (await registrar.show("orders"))["r1"]
            assert (after.subscribers, after.next, after.events) == (before.subscribers, before.next, 50)

    run(main())


def test_a_position_is_the_same_after_it_was_written_down() -> None:
    from stentor.model.errors import InvalidInput
    from stentor.model.stored.span import Spans

    position = Position({(1 << 63, 5): Spans([(1, 5), (8, 8)]), (7, 1 << 40): Spans([(1, 1)])})
    assert position.to_text() == {"0000000000000007/1099511627776": "1", "8000000000000000/5": "1-5,8"}
    assert Position.from_text(position.to_text()) == position == Position.of(position.held)
    with pytest.raises(InvalidInput, match="no position"):
        Position.from_text({"x": "1"})
