"""Three real brokers in a row, with disks and sockets: who may do what is known to all, and survives."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.integration.house import Node, run, until
from tests.integration.peer import Peer
from tests.integration.ports import free_port
from tests.integration.proxy import Proxy

from stentor.client.fabric import connect
from stentor.model.errors import Refusal
from stentor.model.ids import Incarnation
from stentor.model.limits import Limits
from stentor.model.messages import Challenge, ChallengeRequest, Hello, Rejection, Welcome
from stentor.model.scope import ScopePath
from stentor.model.trust.access import Grant, Membership, SharedFact, TopicTerms
from stentor.model.trust.access_messages import AccessFacts, AccessReceipt, BundleReport, BundleRequest
from stentor.model.trust.token import FabricToken
from stentor.nodes.broker.broker import Broker
from stentor.nodes.network.network import GatewaySettings, NetworkSettings
from stentor.runtime.dialler import Dialler
from stentor.runtime.disk import NodeStorage
from stentor.runtime.driver import Driver
from stentor.runtime.server import listen
from stentor.runtime.token import make_token
from stentor.wire.frame import PREAMBLE

pytestmark = pytest.mark.req("SC-21")

TOKEN = FabricToken(b"a token of the tests of this file")


def topic(version: int = 1) -> SharedFact:
    return "topic", version, "r1", msgspec.msgpack.encode(TopicTerms("olga"))


def member(name: str, version: int = 1) -> SharedFact:
    return f"member/{name}", version, "r1", msgspec.msgpack.encode(Membership(principal="anonymous"))


class Row:
    """Brokers b0, b1 and b2; each dials the one before it."""

    def __init__(self, homes: Path) -> None:
        self._homes = homes
        self.token = make_token(homes / "fabric.token")
        self._ports = [free_port() for _ in range(3)]
        self.nodes: dict[int, Node] = {}

    async def start(self, place: int, via: int = 0) -> Node:
        """Start a broker that dials the one before it, or whoever leads there."""
        before = via or self._ports[place - 1]
        gateways = tuple(GatewaySettings(address=f"127.0.0.1:{before}") for _ in range(min(place, 1)))
        address = f"127.0.0.1:{self._ports[place]}"
        settings = NetworkSettings(numbers=(place,), address=address, gateways=gateways)
        broker = Broker(ScopePath.parse(f"b{place}"), Limits(heartbeat=1.0), "test", settings)
        home = self._homes / f"b{place}"
        storage = NodeStorage(home)
        driver = Driver(broker, dialler=Dialler(None, TOKEN), storage=storage)
        driver.start()
        await driver.serving
        server = await listen(driver, "127.0.0.1", self._ports[place], token=TOKEN)
        node = self.nodes[place] = Node(broker, driver, storage, server, home)
        return node

    async def crash(self, place: int) -> None:
        await self.nodes.pop(place).crash()

    def digests(self) -> set[int]:
        return {node.broker.network.access.digest for node in self.nodes.values()}

    def is_linked(self) -> bool:
        peers = [len(node.broker.network.peers) for node in self.nodes.values()]
        return sum(peers) == 2 * (len(self.nodes) - 1)


@asynccontextmanager
async def row(homes: Path) -> AsyncIterator[Row]:
    made = Row(homes)
    try:
        for place in range(3):
            await made.start(place)
        await until(made.is_linked)
        yield made
    finally:
        for node in made.nodes.values():
            await node.stop()


async def introduce(peer: Peer, name: str) -> None:
    """Say hello as a node does, which proves the fabric's token."""
    await peer.send(PREAMBLE, ChallengeRequest())
    assert await peer.reader.readexactly(len(PREAMBLE)) == PREAMBLE
    challenge = await peer.expect(Challenge)
    proof = TOKEN.dialler_proof(challenge.nonce, b"nonce", "client", name)
    await peer.send(
        Hello(
            name=name,
            incarnation=Incarnation(1),
            window=1 << 20,
            role="client",
            heartbeat=3600.0,
            nonce=b"nonce",
            proof=proof,
        )
    )
    await peer.expect(Welcome)


async def first_report(port: int, topic: str, refusals: list[Rejection]) -> BundleReport:
    """What a broker says of a bundle as soon as it lets a client in; how it refused it before that is noted."""
    while True:
        try:
            async with await Peer.dial(port) as peer:
                await peer.send(
                    PREAMBLE,
                    Hello(name="alice", incarnation=Incarnation(1), window=1 << 20, role="client", heartbeat=3600.0),
                )
                assert await peer.reader.readexactly(len(PREAMBLE)) == PREAMBLE
                answer = await peer.receive()
                if isinstance(answer, Welcome):
                    await peer.send(BundleRequest(topic))
                    return await peer.expect(BundleReport)
                assert isinstance(answer, Rejection)
                assert answer.code is Refusal.BUSY
                refusals.append(answer)
        except (ConnectionError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.005)


def test_a_receipt_means_that_all_brokers_that_can_be_reached_have_it_on_disk(tmp_path: Path) -> None:
    async def main() -> None:
        async with row(tmp_path) as brokers, await Peer.dial(brokers.nodes[0].port) as r1:
            await introduce(r1, "repository:r1")
            await r1.send(AccessFacts(topic="orders", facts=(topic(), member("r1")), token=1))
            assert await r1.expect(AccessReceipt) == AccessReceipt(1)
            assert len(brokers.digests()) == 1
            for place in (0, 1, 2):
                assert b"orders" in (tmp_path / f"b{place}" / "access.log").read_bytes()
            grants = [(f"grant/subscriber/s{n}", 2, "r1", msgspec.msgpack.encode(Grant())) for n in range(5000)]
            await r1.send(AccessFacts(topic="orders", facts=tuple(grants), token=2))
            assert await r1.expect(AccessReceipt) == AccessReceipt(2)
            assert len(brokers.nodes[2].broker.network.access.charters.of("orders").subscribers) == 5000  # type: ignore[union-attr]

    run(main())


def test_a_broker_that_was_killed_is_not_waited_for_and_serves_nobody_before_it_has_caught_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with row(tmp_path) as brokers, await Peer.dial(brokers.nodes[0].port) as r1:
            await introduce(r1, "repository:r1")
            await r1.send(AccessFacts(topic="orders", facts=(topic(), member("r1"), member("r2")), token=1))
            assert await r1.expect(AccessReceipt) == AccessReceipt(1)
            await brokers.crash(2)
            await r1.send(AccessFacts(topic="orders", facts=(("member/r2", 2, "r1", b""),), token=2))
            assert await r1.expect(AccessReceipt) == AccessReceipt(2)
            async with Proxy(brokers.nodes[1].port) as proxy:
                proxy.down.stall()
                node = await brokers.start(2, via=int(proxy.url.rpartition(":")[2]))
                charter = node.broker.network.access.charters.of("orders")
                assert charter is not None
                assert charter.members == {"r1": "anonymous", "r2": "anonymous"}, "as its disk has it"
                refusals: list[Rejection] = []
                asking = asyncio.create_task(first_report(node.port, "orders", refusals))
                await until(lambda: bool(refusals) or asking.done())
                proxy.down.resume()
                assert (await asking).members == {"r1": "anonymous"}
                await until(lambda: len(brokers.digests()) == 1)
                await brokers.crash(2)

    run(main())


def test_what_was_confirmed_is_there_when_all_brokers_were_killed(tmp_path: Path) -> None:
    async def main() -> None:
        async with row(tmp_path) as brokers:
            async with await Peer.dial(brokers.nodes[2].port) as r1:
                await introduce(r1, "repository:r1")
                for version in range(1, 6):
                    await r1.send(
                        AccessFacts(topic="orders", facts=(topic(version), member("r1", version)), token=version)
                    )
                    assert await r1.expect(AccessReceipt) == AccessReceipt(version)
            for place in (2, 1, 0):
                await brokers.crash(place)
            node = await brokers.start(0)
            assert node.broker.network.access.charters.facts_of("orders") == [topic(5), member("r1", 5)]
            refusals: list[Rejection] = []
            assert (await first_report(node.port, "orders", refusals)).members == {"r1": "anonymous"}
            assert refusals == [], "alone it serves from its disk at once"
            await until(lambda: (tmp_path / "b0" / "access.log").stat().st_size < 300)

    run(main())


def test_clients_of_a_broker_that_asks_its_neighbours_connect_by_themselves(tmp_path: Path) -> None:
    async def main() -> None:
        async with row(tmp_path) as brokers:
            await brokers.crash(1)
            node = await brokers.start(1)
            async with connect(node.url) as fabric:
                await fabric.publish("well", b"")
            assert node.status().events_in == 1

    run(main())
