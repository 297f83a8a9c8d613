"""Reliable topics over real sockets and real ledgers: a broker and its repositories in this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.integration.house import PATIENCE, Node, node, run, until, until_asked

from stentor import blocking
from stentor.admin.topics import Registrar
from stentor.client.event import StoredEvent
from stentor.client.fabric import Fabric, connect
from stentor.client.reliable_publisher import Publisher
from stentor.client.reliable_subscription import Subscription
from stentor.model.errors import (
    BodyTooLarge,
    BufferFull,
    Closed,
    Fenced,
    FilterError,
    InvalidInput,
    Refusal,
    Refused,
    Unreachable,
)
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.runtime.repository import RepositoryHost
from stentor.storage.ledger_store import find_ledger_store


class House:
    """A broker, repositories, and the reliable topic "orders"."""

    def __init__(self, home: Path, broker: Node, storage: str = "sqlite") -> None:
        self._home, self.broker, self._storage = home, broker, storage
        self.hosts: dict[str, RepositoryHost] = {}

    @property
    def url(self) -> str:
        return self.broker.url

    def start(self, name: str) -> None:
        store = find_ledger_store(f"{self._storage}:{self._home / name}", name)
        address = self.url.removeprefix("stentor://")
        self.hosts[name] = RepositoryHost(RepositorySettings(name=name), (address,), store)
        self.hosts[name].start()

    async def stop(self, name: str) -> None:
        await self.hosts.pop(name).close()

    async def create(self, *names: str, copies: int = 0) -> None:
        async with connect(self.url, wait=PATIENCE) as fabric, Registrar(fabric) as registrar:
            await registrar.create("orders", list(names), copies=copies)
            await registrar.grant("orders", "publisher", "shop")
            for name in ("billing", "audit"):
                await registrar.grant("orders", "subscriber", name)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Fabric]:
        async with connect(self.url, wait=PATIENCE) as fabric:
            yield fabric


@asynccontextmanager
async def house(home: Path, *names: str, copies: int = 0, storage: str = "sqlite") -> AsyncIterator[House]:
    async with node(home / "broker") as broker:
        here = House(home, broker, storage)
        for name in names:
            here.start(name)
        try:
            await here.create(*names, copies=copies)
            yield here
        finally:
            for name in list(here.hosts):
                await here.stop(name)


async def take(events: Subscription, count: int) -> list[StoredEvent]:
    """The next events, all but the last one acknowledged."""
    async with asyncio.timeout(PATIENCE):
        return [await anext(events) for _ in range(count)]


async def send_for_ever(publisher: Publisher) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            await publisher.send(b"2")


def fill(publisher: Publisher) -> None:
    for _ in range(100):
        publisher.send_nowait(bytes(10_000))


def bodies(events: list[StoredEvent]) -> list[bytes]:
    return [event.body for event in events]


@pytest.mark.req("RD-02", "RD-09", "RD-23")
@pytest.mark.parametrize("storage", ["sqlite", "segments"])
def test_what_is_sent_is_stored_and_delivered_once_and_in_order(tmp_path: Path, storage: str) -> None:
    async def main() -> None:
        async with (
            house(tmp_path, "r1", storage=storage) as here,
            here.client() as fabric,
            fabric.subscribe("orders", name="billing", where="price > 2") as events,
            fabric.publisher("orders", name="shop") as shop,
        ):
            for number in range(20):
                stored = await shop.send(b"%d" % number, price=number % 5)
                assert stored.copies == 1
            for number in range(20, 500):
                shop.send_nowait(b"%d" % number, price=number % 5)
            await shop.flush()
            got = await take(events, 200)
            assert bodies(got) == [b"%d" % number for number in range(500) if number % 5 > 2]
            assert not any(event.redelivered for event in got)

    run(main())


@pytest.mark.req("RD-01")
def test_publishing_at_best_effort_on_a_reliable_topic_is_refused_with_the_way_to_do_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1") as here, here.client() as fabric:
            way = r"orders is a reliable topic.*fabric\.publisher.*--name NAME"
            with pytest.raises(Refused, match=way):
                await fabric.publish("orders", b"1")
            with pytest.raises(Refused, match=way):
                await fabric.publish_many("orders", [b"1", b"2"])
            async with fabric.subscribe("news") as events:
                await fabric.publish("news", b"not reliable")
                assert (await anext(events)).body == b"not reliable"

    run(main())


@pytest.mark.req("RD-13", "RD-11")
def test_a_name_that_comes_back_goes_on_where_it_was(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1") as here, here.client() as fabric:
            async with fabric.publisher("orders", name="shop") as shop:
                async with fabric.subscribe("orders", name="billing") as events:
                    for number in range(5):
                        await shop.send(b"%d" % number)
                    assert bodies(await take(events, 3)) == [b"0", b"1", b"2"]
                await shop.send(b"5")
            async with here.client() as elsewhere, elsewhere.subscribe("orders", name="billing") as events:
                assert bodies(await take(events, 3)) == [b"3", b"4", b"5"], "the third was acknowledged in good order"

    run(main())


@pytest.mark.req("RD-13")
def test_what_a_crashed_application_had_not_acknowledged_comes_again_and_is_marked(tmp_path: Path) -> None:
    async def main() -> None:
        async def crash(fabric: Fabric, shop: Publisher) -> None:
            async with fabric.subscribe("orders", name="billing") as events:
                for number in range(3):
                    await shop.send(b"%d" % number)
                async for event in events:
                    if event.body == b"1":
                        raise ZeroDivisionError

        async with (
            house(tmp_path, "r1") as here,
            here.client() as fabric,
            fabric.publisher("orders", name="shop") as shop,
        ):
            with pytest.raises(ZeroDivisionError):
                await crash(fabric, shop)
            async with fabric.subscribe("orders", name="billing") as events:
                again = await take(events, 2)
                assert bodies(again) == [b"1", b"2"]
                assert [event.redelivered for event in again] == [True, False], "the other one was never handed out"

    run(main())


@pytest.mark.req("RD-13")
@pytest.mark.parametrize("repositories", [("r1",), ("r1", "r2", "r3")])
def test_a_life_that_never_asked_leaves_no_mark(tmp_path: Path, repositories: tuple[str, ...]) -> None:
    async def main() -> None:
        async with (
            house(tmp_path, *repositories) as here,
            here.client() as fabric,
            fabric.publisher("orders", name="shop") as shop,
        ):
            killed = fabric.subscribe("orders", name="billing")
            await killed.__aenter__()
            for number in range(6):
                await shop.send(b"%d" % number)
            await killed._driver.close()  # type: ignore[union-attr]  # as a kill would end it: nothing more is said
            async with here.client() as other, other.subscribe("orders", name="billing") as events:
                first = await take(events, 2)
            async with here.client() as other, other.subscribe("orders", name="billing") as events:
                rest = await take(events, 4)
            assert bodies([*first, *rest]) == [b"%d" % number for number in range(6)]
            assert not any(event.redelivered for event in (*first, *rest))

    run(main())


@pytest.mark.req("RD-13")
def test_nothing_is_handed_out_once_a_subscription_closes(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            house(tmp_path, "r1") as here,
            here.client() as fabric,
            fabric.publisher("orders", name="shop") as shop,
        ):
            async with fabric.subscribe("orders", name="billing") as events:
                await shop.send_many([b"%d" % number for number in range(6)])
                await shop.flush()
                first = await take(events, 2)
                await events.close()
                assert [event async for event in events] == []
            async with fabric.subscribe("orders", name="billing") as events:
                rest = await take(events, 5)
            assert bodies([*first[:1], *rest]) == [b"%d" % number for number in range(6)]
            assert [event.redelivered for event in rest] == [True, False, False, False, False]

    run(main())


@pytest.mark.req("RD-13")
def test_what_a_killed_life_was_told_of_is_marked_and_what_came_later_is_not(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            house(tmp_path, "r1") as here,
            here.client() as fabric,
            fabric.publisher("orders", name="shop") as shop,
        ):
            killed = fabric.subscribe("orders", name="billing")
            await killed.__aenter__()
            await shop.send(b"0")
            await take(killed, 1)
            await killed._driver.close()  # type: ignore[union-attr]
            async with here.client() as other, other.subscribe("orders", name="billing") as events:
                await shop.send(b"1")
                got = await take(events, 2)
            assert [(event.body, event.redelivered) for event in got] == [(b"0", True), (b"1", False)]

    run(main())


@pytest.mark.req("RD-10")
def test_events_may_be_acknowledged_by_hand_and_in_any_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1") as here, here.client() as fabric:
            async with (
                fabric.subscribe("orders", name="billing", ack="manual") as events,
                fabric.publisher("orders", name="shop") as shop,
            ):
                for number in range(4):
                    await shop.send(b"%d" % number)
                got = await take(events, 4)
                got[3].ack()
                got[1].ack()
                got[0].ack()
                await events.sync()
            async with fabric.subscribe("orders", name="billing", ack="manual") as events:
                assert bodies(await take(events, 1)) == [b"2"]

    run(main())


@pytest.mark.req("GE-13")
def test_a_new_name_begins_where_it_wants(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1") as here, here.client() as fabric, Registrar(fabric) as registrar:
            for name in ("now", "all", "later", "epoch", "number"):
                await registrar.grant("orders", "subscriber", name)
            async with fabric.publisher("orders", name="shop") as shop:
                await shop.send(b"0")
                await asyncio.sleep(0.01)
                noon = datetime.now(UTC)
                await asyncio.sleep(0.01)
                await shop.send(b"1")
                async with fabric.subscribe("orders", name="now") as now:
                    await shop.send(b"2")
                    assert shop.stored == 3
                    assert bodies(await take(now, 1)) == [b"2"]
                async with fabric.subscribe("orders", name="all", from_="beginning") as everything:
                    batches = everything.batches()
                    first = await anext(batches)
                    assert first.bodies[0] == b"0"
                    second = await anext(batches)
                    start = first.epochs[1]
                    assert [(event.repository, event.sequence) for event in first] == [("r1", start)]
                async with fabric.subscribe("orders", name="later", from_=noon) as later:
                    assert bodies(await take(later, 2)) == [b"1", b"2"]
                for name, epoch in (("epoch", next(iter(second)).epoch), ("number", second.epochs[1])):
                    async with fabric.subscribe("orders", name=name, from_=epoch) as rest:
                        assert bodies(await take(rest, 2)) == [b"1", b"2"]

    run(main())


@pytest.mark.req("RD-01")
def test_whoever_is_not_authorised_is_refused_with_the_reason(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1") as here, here.client() as fabric, Registrar(fabric) as registrar:
            with pytest.raises(Refused, match="topic grant orders --publisher thief") as refusal:
                async with fabric.publisher("orders", name="thief"):
                    pass
            assert refusal.value.code is Refusal.NOT_AUTHORISED
            async with fabric.publisher("orders", name="shop") as shop:
                await shop.send(b"1")
                await registrar.revoke("orders", "publisher", "shop")
                with pytest.raises(Refused, match="not registered as a publisher"):
                    await send_for_ever(shop)

    run(main())


def test_a_topic_that_is_not_reliable_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1") as here, connect(here.url, timeout=1.0) as fabric:
            with pytest.raises(Unreachable, match="stentor topic create invoices --reliable"):
                async with fabric.publisher("invoices", name="shop"):
                    pass

    run(main())


def test_bad_input_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1") as here, here.client() as fabric:
            with pytest.raises(FilterError):
                fabric.subscribe("orders", name="billing", where="price >")
            with pytest.raises(InvalidInput, match="from_"):
                fabric.subscribe("orders", name="billing", from_="yesterday")
            with pytest.raises(InvalidInput, match="stored_on"):
                fabric.publisher("orders", name="shop", stored_on=-1)
            async with (
                fabric.subscribe("orders", name="billing") as events,
                fabric.publisher("orders", name="shop", buffer=100_000) as shop,
            ):
                await shop.send(b"1")
                with pytest.raises(BodyTooLarge):
                    await shop.send(bytes(2 << 20))
                with pytest.raises(InvalidInput):
                    await shop.send("text")  # type: ignore[arg-type]
                with pytest.raises(BufferFull):
                    fill(shop)
                await shop.flush()
                await shop.send(b"last")
                while (event := await anext(events)).body != b"last":
                    assert event.body in (b"1", bytes(10_000))
            with pytest.raises(Closed):
                await shop.send(b"2")

    run(main())


def test_a_newer_holder_of_a_name_fences_the_older_one_off(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            house(tmp_path, "r1") as here,
            here.client() as fabric,
            here.client() as other,
            fabric.subscribe("orders", name="billing") as older,
            other.subscribe("orders", name="billing"),
        ):
            with pytest.raises(Fenced):
                await take(older, 1)

    run(main())


@pytest.mark.req("RD-15", "RD-16", "RD-19")
def test_repositories_may_die_and_clients_move_to_those_that_live(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            house(tmp_path, "r1", "r2", "r3") as here,
            here.client() as fabric,
            fabric.subscribe("orders", name="billing") as events,
            fabric.publisher("orders", name="shop") as shop,
        ):
            assert (await shop.send(b"0")).copies >= 2
            assert (await shop.send(b"1", stored_on=3)).copies == 3
            await here.stop(shop.repository)
            assert (await shop.send(b"2")).copies == 2
            await here.stop(shop.repository)
            assert (await shop.send(b"3")).copies == 1
            assert bodies(await take(events, 4)) == [b"0", b"1", b"2", b"3"]
            (last,) = here.hosts
            for name in {"r1", "r2", "r3"} - {last}:
                here.start(name)
            assert (await shop.send(b"4", stored_on=3)).copies == 3, "they caught up"

    run(main())


@pytest.mark.req("RD-13", "RD-14")
def test_a_broker_and_a_repository_that_restart_lose_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1") as here, here.client() as fabric:
            async with (
                fabric.subscribe("orders", name="billing") as events,
                fabric.publisher("orders", name="shop") as shop,
            ):
                await shop.send(b"0")
                port = here.broker.port
                await here.broker.crash()
                shop.send_nowait(b"1")
                here.broker = await Node.start(tmp_path / "broker", port=port)
                await shop.send(b"2")
                await here.stop("r1")
                shop.send_nowait(b"3")
                here.start("r1")
                await shop.send(b"4")
                assert bodies(await take(events, 5)) == [b"%d" % number for number in range(5)]
            await here.broker.stop()

    run(main())


@pytest.mark.req("RD-13")
def test_a_subscriber_that_was_away_for_long_gets_everything_from_the_ledger(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1") as here, here.client() as fabric:
            async with fabric.subscribe("orders", name="billing", where="n % 10 = 3"):
                pass
            async with fabric.publisher("orders", name="shop") as shop:
                for start in range(0, 50_000, 1000):
                    numbers = list(range(start, start + 1000))
                    await shop.send_many([b"%d" % number for number in numbers], {"n": numbers})
                await shop.flush()
            await here.stop("r1")
            here.start("r1")
            async with fabric.subscribe("orders", name="billing", where="n % 10 = 3") as events:
                got = [int(body) for event in [await anext(events) for _ in range(5000)] for body in [event.body]]
                assert got == list(range(3, 50_000, 10))

    run(main())


def test_the_blocking_facade_does_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1") as here:

            def work() -> None:
                with (
                    blocking.connect(here.url, wait=PATIENCE) as fabric,
                    fabric.subscribe("orders", name="billing") as events,
                    fabric.publisher("orders", name="shop") as shop,
                ):
                    assert shop.send(b"1").copies == 1
                    shop.send_many([b"2", b"3"])
                    shop.flush()
                    assert [next(iter(events)).body for _ in range(3)] == [b"1", b"2", b"3"]
                with blocking.connect(here.url, wait=PATIENCE) as fabric:
                    with (
                        fabric.subscribe("orders", name="audit", from_="beginning", ack="manual") as events,
                        fabric.publisher("orders", name="shop") as shop,
                    ):
                        shop.send(b"4")
                        for event in events:
                            event.ack()
                            if event.body == b"4":
                                break
                    with (
                        fabric.subscribe("orders", name="audit") as events,
                        fabric.publisher("orders", name="shop") as shop,
                    ):
                        shop.send(b"5")
                        assert next(iter(events)).body == b"5", "the others were acknowledged, on this thread"

            await asyncio.to_thread(work)

    run(main())


@pytest.mark.req("RD-21")
def test_a_repository_joins_catches_up_and_another_leaves(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            house(tmp_path, "r1") as here,
            here.client() as fabric,
            Registrar(fabric) as registrar,
            fabric.subscribe("orders", name="billing") as events,
            fabric.publisher("orders", name="shop") as shop,
        ):
            for number in range(100):
                shop.send_nowait(b"%d" % number)
            await shop.flush()
            here.start("r2")
            await registrar.add("orders", "r2")
            await registrar.remove("orders", "r1")
            await until(lambda: shop.repository == "r2")
            await shop.send(b"100")
            assert bodies(await take(events, 101)) == [b"%d" % number for number in range(101)]

    run(main())


@pytest.mark.req("RD-10")
def test_acknowledgements_are_told_although_the_application_asks_for_nothing_more(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            house(tmp_path, "r1") as here,
            here.client() as fabric,
            Registrar(fabric) as registrar,
            fabric.subscribe("orders", name="billing") as events,
            fabric.publisher("orders", name="shop") as shop,
        ):
            await shop.send_many([b"%d" % number for number in range(1000)])
            await shop.flush()
            await take(events, 1000)

            async def known() -> bool:
                return (await registrar.show("orders"))["r1"].subscribers["billing"].lag <= 1

            await until_asked(known)

    run(main())


async def say(fabric: Fabric, after: int, numbers: range, incarnation: int, cut: int) -> None:
    """A life of "shop" that resumes: it sends these numbers, so many in a frame."""
    async with fabric.publisher("orders", name="shop", resume=(incarnation, after)) as shop:
        assert shop.incarnation == incarnation
        for start in range(numbers.start, numbers.stop, cut):
            part = range(start, min(start + cut, numbers.stop))
            await shop.send_many([b"%d" % each for each in part], {"price": list(part)}, time_ns=5)
        await shop.flush(PATIENCE)


@pytest.mark.req("RD-02", "RD-25")
@pytest.mark.parametrize("copies", [1, 2])
def test_whoever_resumes_its_stream_has_everything_stored_once(tmp_path: Path, copies: int) -> None:
    async def main() -> None:
        names = ("r1", "r2")[:copies]
        async with house(tmp_path, *names, copies=copies) as here, here.client() as fabric:
            async with fabric.subscribe("orders", name="billing") as events:
                stream = fabric.publisher("orders", name="shop").incarnation
                await say(fabric, 0, range(1, 101), stream, 40)
                await say(fabric, 0, range(1, 121), stream, 7)
                async with fabric.publisher("orders", name="shop") as other:
                    assert other.incarnation > stream
                    await other.send(b"in between")
                await say(fabric, 60, range(61, 151), stream, 30)
                got = await take(events, 151)
            mine = [event for event in got if event.body != b"in between"]
            assert bodies(mine) == [b"%d" % number for number in range(1, 151)]
            assert [event.number for event in mine] == list(range(1, 151))
            async with Registrar(fabric) as registrar:
                for report in (await registrar.show("orders")).values():
                    assert report.conflicts == 0
            async with fabric.publisher("orders", name="shop", resume=(stream, 0)) as shop:
                assert shop.recovered == (stream, 150)

    run(main())


@pytest.mark.parametrize("resume", [(0, 1), (1 << 48, 1), (5, -1)])
def test_what_cannot_be_resumed_is_refused(tmp_path: Path, resume: tuple[int, int]) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, connect(broker.url) as fabric:
            with pytest.raises(InvalidInput, match="resume"):
                fabric.publisher("orders", name="shop", resume=resume)

    run(main())
