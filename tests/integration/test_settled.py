"""Networks of real brokers: what a subscription promises, and which brokers know it when `settled` returns."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from tests.integration.house import Node, run, take, until
from tests.integration.ports import free_port
from tests.integration.proxy import Proxy

from stentor import LinkBroken, Refused, Settled, blocking, connect
from stentor.model.errors import Closed
from stentor.model.limits import Limits
from stentor.model.messages import MARKS
from stentor.model.scope import ScopePath
from stentor.model.trust.token import FabricToken
from stentor.nodes.broker.broker import Broker
from stentor.nodes.network.network import GatewaySettings, NetworkSettings
from stentor.runtime.dialler import Dialler
from stentor.runtime.disk import NodeStorage
from stentor.runtime.driver import Driver
from stentor.runtime.server import listen

TOKEN = FabricToken(b"a token of the tests of this file")
CAMPUS = {  # who is dialled by whom
    "north/library/b1": (),
    "north/library/b2": ("north/library/b1",),
    "north/hall/b1": ("north/library/b1",),
    "south/lab/b1": ("north/hall/b1",),
    "south/lab/b2": ("south/lab/b1", "north/library/b2"),
    "south/dorm/b1": ("south/lab/b1",),
}
ROW: dict[str, tuple[str, ...]] = {"b0": (), "b1": ("b0",), "b2": ("b1",)}
_HEARTBEAT = 60.0  # on a busy machine nobody is suspected


class Brokers:
    """Brokers by name; each link runs through a proxy."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.proxies: dict[tuple[str, str], Proxy] = {}  # by who dials and who is dialled

    async def start(
        self, name: str, dials: tuple[str, ...], home: Path, stack: AsyncExitStack, heartbeat: float
    ) -> None:
        for other in dials:
            proxy = self.proxies[name, other] = Proxy(self.nodes[other].port)
            await stack.enter_async_context(proxy)
        addresses = [self.proxies[name, other].url.removeprefix("stentor://") for other in dials]
        numbers = tuple(sum(map(ord, part)) % 64 for part in name.split("/"))
        port = free_port()
        settings = NetworkSettings(
            numbers=numbers,
            address=f"127.0.0.1:{port}",
            gateways=tuple(GatewaySettings(address=each) for each in addresses),
        )
        storage = NodeStorage(home)
        broker = Broker(ScopePath.parse(name), Limits(heartbeat=heartbeat), "test", settings)
        driver = Driver(broker, dialler=Dialler(None, TOKEN), storage=storage)
        driver.start()
        await driver.serving
        server = await listen(driver, "127.0.0.1", port, token=TOKEN)
        node = self.nodes[name] = Node(broker, driver, storage, server, home)
        stack.push_async_callback(node.stop)

    def slow_down(self) -> None:
        for proxy in self.proxies.values():
            proxy.up.delay = proxy.down.delay = 0.03

    def is_linked(self) -> bool:
        return sum(len(node.broker.network.peers) for node in self.nodes.values()) == 2 * len(self.proxies)

    def is_whole(self) -> bool:
        """Whether everybody reaches all that there is to see."""
        graphs = {name: node.broker.network.gateways.graph for name, node in self.nodes.items()}
        return self.is_linked() and all(graphs[near].reaches(_seen(near, far)) for near in graphs for far in graphs)


def _seen(near: str, far: str) -> str:
    """What a broker sees of another one."""
    parts = far.split("/")
    units = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
    return next((unit for unit in units if not f"{near}/".startswith(f"{unit}/")), far)


@asynccontextmanager
async def brokers(
    names: dict[str, tuple[str, ...]], homes: Path, heartbeat: float = _HEARTBEAT
) -> AsyncIterator[Brokers]:
    made = Brokers()
    async with AsyncExitStack() as stack:
        for number, (name, dials) in enumerate(names.items()):
            await made.start(name, dials, homes / str(number), stack, heartbeat)
        await until(made.is_whole)
        yield made


@pytest.mark.req("GE-20")
def test_nothing_that_is_published_anywhere_after_settled_is_missed(tmp_path: Path) -> None:
    async def main() -> None:
        async with brokers(CAMPUS, tmp_path) as campus:
            campus.slow_down()
            first = campus.nodes["north/library/b2"]
            others = [node for node in campus.nodes.values() if node is not first]
            async with AsyncExitStack() as stack:
                reader = await stack.enter_async_context(connect(first.url))
                writers = [await stack.enter_async_context(connect(node.url)) for node in others]
                for number in range(15):
                    writer = writers[number % len(writers)]
                    async with reader.subscribe(f"t/{number}", where="n > 1") as events:
                        assert await events.settled() == Settled(len(CAMPUS))
                        await writer.publish(f"t/{number}", b"%d" % number, n=2)
                        assert (await take(events, 1))[0].body == b"%d" % number

    run(main())


@pytest.mark.req("GE-20")
def test_brokers_that_do_not_answer_in_time_are_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with brokers(ROW, tmp_path) as row:
            proxy = row.proxies["b2", "b1"]
            proxy.up.stall()
            async with connect(row.nodes["b0"].url) as fabric, fabric.subscribe("t") as events:
                settled = await events.settled(timeout=0.3)
                assert settled == Settled(2, ("b2",))
                assert not settled.is_everywhere
                proxy.up.resume()
                assert (await events.settled()).is_everywhere

    run(main())


@pytest.mark.req("GE-20")
def test_who_waits_for_the_network_is_told_of_it_by_the_next_broker(tmp_path: Path) -> None:
    async def main() -> None:
        async with brokers(ROW, tmp_path) as row:
            row.proxies["b2", "b1"].up.stall()
            url = f"{row.nodes['b0'].url},127.0.0.1:{row.nodes['b1'].port}"
            async with connect(url) as fabric, fabric.subscribe("t") as events:
                waiting = asyncio.create_task(events.settled(timeout=60.0))
                await until(lambda: not row.nodes["b0"].broker.network.settlement.is_idle)
                await row.nodes["b0"].crash()
                row.proxies["b2", "b1"].up.resume()
                assert await waiting == Settled(2)
                assert fabric.node == "b1"

    run(main())


def test_a_client_that_loses_its_only_broker_does_not_know(tmp_path: Path) -> None:
    async def main() -> None:
        async with brokers(ROW, tmp_path) as row:
            row.proxies["b2", "b1"].up.stall()
            async with connect(row.nodes["b0"].url) as fabric, fabric.subscribe("t") as events:
                waiting = asyncio.create_task(events.settled(timeout=1.0))
                await until(lambda: not row.nodes["b0"].broker.network.settlement.is_idle)
                await row.nodes["b0"].crash()
                with pytest.raises(LinkBroken):
                    await waiting

    run(main())


def test_only_a_subscription_that_is_open_settles(tmp_path: Path) -> None:
    async def main() -> None:
        async with brokers({"b0": ()}, tmp_path) as alone, connect(alone.nodes["b0"].url) as fabric:
            events = fabric.subscribe("t")
            with pytest.raises(Closed, match="not subscribed"):
                await events.settled()
            async with events:
                assert await events.settled() == Settled(1)
            with pytest.raises(Closed):
                await events.settled()

    run(main())


def test_marks_are_no_topics_for_clients(tmp_path: Path) -> None:
    async def main() -> None:
        async with brokers({"b0": ()}, tmp_path) as alone, connect(alone.nodes["b0"].url) as fabric:
            for pattern in (f"{MARKS}1/1/b0", f"{MARKS}#"):
                with pytest.raises(Refused):
                    await fabric.subscribe(pattern).__aenter__()
            with pytest.raises(Refused):
                await fabric.publish(f"{MARKS}1/1/b0", b"")

    run(main())


def test_the_blocking_api_settles(tmp_path: Path) -> None:
    async def main() -> None:
        async with brokers(ROW, tmp_path) as row:

            def script() -> Settled:
                with blocking.connect(row.nodes["b0"].url) as fabric, fabric.subscribe("t") as events:
                    return events.settled()

            assert await asyncio.to_thread(script) == Settled(3)

    run(main())


@pytest.mark.req("GE-07")
def test_how_many_subscriptions_a_unit_has_is_known_far_away(tmp_path: Path) -> None:
    async def main() -> None:
        async with brokers(CAMPUS, tmp_path, heartbeat=1.0) as campus:
            far = campus.nodes["south/dorm/b1"].broker

            def counted() -> int:
                members = [member for scope in far.view().scopes for member in scope.members]
                return next(member.predicates for member in members if member.unit == "north")

            async with AsyncExitStack() as stack:
                reader = await stack.enter_async_context(connect(campus.nodes["north/library/b2"].url))
                for where in ("n > 1", "n > 1", "n > 7"):  # one is told, the others are equal and covered
                    await stack.enter_async_context(reader.subscribe("t", where))
                await until(lambda: counted() == 3, within=30)
            await until(lambda: counted() == 0, within=30)

    run(main())
