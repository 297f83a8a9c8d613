"""One holder of a name over real sockets: two brokers, repositories at both, and two processes under one name."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.integration.house import PATIENCE, Node, run, until, until_asked
from tests.integration.ports import free_port
from tests.integration.test_reliable import take

from stentor import blocking
from stentor.admin.topics import Registrar
from stentor.client.fabric import Fabric, connect
from stentor.model.errors import Fenced, InvalidInput, Refused
from stentor.model.limits import Limits
from stentor.model.scope import ScopePath
from stentor.nodes.broker.broker import Broker
from stentor.nodes.network.network import GatewaySettings, NetworkSettings
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.runtime.dialler import Dialler
from stentor.runtime.disk import NodeStorage
from stentor.runtime.driver import Driver
from stentor.runtime.repository import RepositoryHost
from stentor.runtime.server import listen
from stentor.runtime.token import announce_token, make_token
from stentor.storage.ledger_store import find_ledger_store


class Pair:
    """Brokers b0 and b1, of which the second dials the first; repository r0 is at b0, and r1 at b1."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._token = make_token(home / "fabric.token")
        self._ports = [free_port(), free_port()]
        self.nodes: list[Node] = []
        self.hosts: dict[str, RepositoryHost] = {}

    async def start(self, place: int) -> None:
        gateways = tuple(GatewaySettings(address=f"127.0.0.1:{port}") for port in self._ports[:place])
        address = f"127.0.0.1:{self._ports[place]}"
        settings = NetworkSettings(numbers=(place,), address=address, gateways=gateways)
        broker = Broker(ScopePath.parse(f"b{place}"), Limits(heartbeat=1.0), "test", settings)
        storage = NodeStorage(self._home / f"b{place}")
        driver = Driver(broker, dialler=Dialler(None, self._token), storage=storage)
        driver.start()
        await driver.serving
        server = await listen(driver, "127.0.0.1", self._ports[place], token=self._token)
        assert announce_token(address, self._home / "fabric.token") == ""
        self.nodes.append(Node(broker, driver, storage, server, self._home / f"b{place}"))

    def start_repository(self, place: int) -> None:
        name = f"r{place}"
        store = find_ledger_store(f"sqlite:{self._home / name}", name)
        addresses = (f"127.0.0.1:{self._ports[place]}",)
        host = RepositoryHost(RepositorySettings(name=name), addresses, store, token=self._token)
        host.start()
        self.hosts[name] = host

    @asynccontextmanager
    async def client(self, place: int) -> AsyncIterator[Fabric]:
        async with connect(self.nodes[place].url, wait=PATIENCE) as fabric:
            yield fabric


@asynccontextmanager
async def pair(home: Path) -> AsyncIterator[Pair]:
    made = Pair(home)
    try:
        for place in range(2):
            await made.start(place)
        await until(lambda: all(node.broker.network.peers for node in made.nodes))
        for place in range(2):
            made.start_repository(place)
        async with made.client(0) as fabric, Registrar(fabric) as registrar:
            await registrar.create("orders", ["r0", "r1"])
            await registrar.grant("orders", "publisher", "shop")
            await registrar.grant("orders", "subscriber", "billing")
        yield made
    finally:
        for host in made.hosts.values():
            await host.close()
        for node in made.nodes:
            await node.stop()


@pytest.mark.req("RD-16", "RD-25")
def test_a_subscriber_is_fenced_by_a_newer_one_at_another_broker(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            pair(tmp_path) as here,
            here.client(0) as one,
            here.client(1) as two,
            one.publisher("orders", name="shop") as shop,
            one.subscribe("orders", name="billing", ack="manual") as older,
        ):
            for number in range(200):
                shop.send_nowait(b"%d" % number)
            await shop.flush()
            await take(older, 1)
            async with two.subscribe("orders", name="billing") as newer:
                await until(lambda: not older.is_open)
                with pytest.raises(Fenced, match="at b1"):
                    await anext(older)  # although its buffer holds nearly all of them
                got = await take(newer, 200)
                assert [event.body for event in got] == [b"%d" % number for number in range(200)]

    run(main())


@pytest.mark.req("RD-16", "RD-32")
def test_a_holder_is_told_that_it_has_left_and_the_name_may_come_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            pair(tmp_path) as here,
            here.client(0) as one,
            here.client(1) as two,
            one.publisher("orders", name="shop") as shop,
            Registrar(two) as registrar,
        ):
            async with one.subscribe("orders", name="billing") as holder:
                await registrar.leave("orders", "billing")
                await until(lambda: not holder.is_open)
                with pytest.raises(Fenced, match="billing has left orders"):
                    await anext(holder)
                with pytest.raises(Refused, match="there is nothing to leave"):
                    await registrar.leave("orders", "billing")
            await shop.send(b"for nobody")
            async with two.subscribe("orders", name="billing") as again:
                await shop.send(b"for the next one")
                assert [event.body for event in await take(again, 1)] == [b"for the next one"]

    run(main())


@pytest.mark.req("RD-16", "RD-25")
def test_a_publisher_is_fenced_by_a_newer_one_at_another_broker(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            pair(tmp_path) as here,
            here.client(0) as one,
            here.client(1) as two,
            one.publisher("orders", name="shop") as older,
        ):
            await older.send(b"1")
            async with two.publisher("orders", name="shop") as newer:
                await newer.send(b"2")
                await until(lambda: not older.is_open)
                with pytest.raises(Fenced):
                    await older.send(b"3")
                await newer.send(b"4")

    run(main())


def test_without_async_the_error_comes_at_once_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with pair(tmp_path) as here, here.client(0) as one, one.publisher("orders", name="shop") as shop:
            is_ready = threading.Event()

            def read(url: str) -> None:
                with blocking.connect(url) as fabric, fabric.subscribe("orders", name="billing") as older:
                    is_ready.set()
                    assert older.next(PATIENCE) is not None
                    while True:
                        older.next(PATIENCE)

            reading = asyncio.create_task(asyncio.to_thread(read, here.nodes[0].url))
            await until(is_ready.is_set)
            await shop.send(b"1")
            async with here.client(1) as two, two.subscribe("orders", name="billing"):
                with pytest.raises(Fenced):
                    await reading

    run(main())


@pytest.mark.req("RD-16")
def test_clients_are_moved_by_hand_and_lose_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            pair(tmp_path) as here,
            here.client(0) as one,
            one.publisher("orders", name="shop") as shop,
            one.subscribe("orders", name="billing") as events,
            Registrar(one) as registrar,
        ):
            for number, repository in enumerate(("r1", "r0", "r1")):
                await registrar.steer("orders", "subscriber", "billing", repository)
                await registrar.steer("orders", "publisher", "shop", repository)
                await until(lambda to=repository: (shop.repository, events.repository) == (to, to))  # type: ignore[misc]
                await shop.send(b"%d" % number)
            assert [event.body for event in await take(events, 3)] == [b"0", b"1", b"2"]
            with pytest.raises(InvalidInput, match="it is not there now"):
                await registrar.steer("orders", "subscriber", "audit", "r0", within=1.0)

    run(main())


@pytest.mark.req("RD-13", "RD-32")
def test_a_filter_comes_back_and_a_subscription_is_ended(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            pair(tmp_path) as here,
            here.client(0) as one,
            here.client(1) as two,
            one.publisher("orders", name="shop") as shop,
            Registrar(one) as registrar,
        ):
            async with one.subscribe(
                "orders", "price > 2", name="billing", ack_every=1, ack_within=0.01, nak_after=0.01
            ):
                pass
            for number in range(6):
                await shop.send(b"%d" % number, price=number)
            async with two.subscribe("orders", name="billing") as events:
                assert events.where == "price > 2"
                assert [event.body for event in await take(events, 3)] == [b"3", b"4", b"5"]
                await events.unsubscribe()
                with pytest.raises(StopAsyncIteration):
                    await anext(events)

            async def is_forgotten() -> bool:
                seen = await registrar.show("orders")
                return len(seen) == 2 and not any(each.subscribers["billing"].known for each in seen.values())

            await until_asked(is_forgotten)
            async with two.subscribe("orders", "*", name="billing", from_="beginning") as events:
                assert [event.body for event in await take(events, 6)] == [b"%d" % number for number in range(6)]

    run(main())
