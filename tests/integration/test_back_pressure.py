"""Back-pressure: only a broker's intake slows publishers, a slow subscriber never does."""

import asyncio
from pathlib import Path

import pytest
from tests.integration.house import node, prove_well, run, standstill, until
from tests.integration.peer import NO_ATTRIBUTES, Peer, pretender

import stentor
from stentor.client import fabric as client
from stentor.model.ids import SubscriptionId
from stentor.model.limits import Limits
from stentor.model.messages import Credit, Ping, Pong, Receipt, StatusRequest, Subscription
from stentor.wire.block import Block
from stentor.wire.frame import decode


class Grudging:
    """A server that welcomes with a small window, keeps what it is sent and grants more only when told to.

    It says that it has taken in the first event, and nothing after that.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.peer: Peer | None = None
        self.bytes = 0
        self.events = 0
        self._has_answered = False

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.peer = Peer(reader, writer)
        await self.peer.greet(self.window)
        while True:
            frame = await self.peer.receive_frame()
            if frame[4] == 1:
                self.bytes += len(frame)
                self.events += Block(frame, NO_ATTRIBUTES).count
            elif isinstance(message := decode(frame), Ping) and not self._has_answered:
                self._has_answered = True
                await self.peer.send(Pong(message.token))

    async def grant(self, limit: int) -> None:
        assert self.peer is not None
        await self.peer.send(Credit(limit))


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients do not linger when they are closed: these servers would not tell them that all has arrived."""
    monkeypatch.setattr(client, "LINGER", 0.1)


@pytest.mark.req("SC-14")
def test_a_publisher_waits_for_a_broker_that_takes_nothing_in(hasty: None) -> None:
    async def main() -> None:
        server = Grudging(window=256 << 10)
        buffer = 1 << 20
        async with pretender(server) as port, stentor.connect(f"stentor://127.0.0.1:{port}", buffer=buffer) as fabric:
            published = 0

            async def publish() -> None:
                nonlocal published
                for number in range(8000):
                    await fabric.publish("t", (b"%d" % number).ljust(1000))
                    published += 1

            publishing = asyncio.create_task(publish())
            accepted = await standstill(lambda: published)
            assert accepted < 2000, "window and buffer together hold some 1,300 events of 1,000 bytes"
            assert server.bytes <= server.window + (128 << 10), "no more is sent than was granted, but for one frame"
            assert not publishing.done()

            await server.grant(2 << 20)
            await until(lambda: published > accepted)
            await standstill(lambda: published)
            assert not publishing.done(), "it got on by what was granted, and waits again"
            assert server.bytes <= (2 << 20) + (128 << 10)

            await server.grant(1 << 40)
            await publishing
            await until(lambda: server.events == 8000)

    run(main())


def test_flush_waits_for_a_broker_that_takes_nothing_in(tmp_path: Path) -> None:
    async def main() -> None:
        server = Grudging(window=64 << 10)
        async with pretender(server) as port, stentor.connect(f"stentor://127.0.0.1:{port}") as fabric:
            for _ in range(1000):
                await fabric.publish("t", bytes(1000))
            with pytest.raises(stentor.Unreachable, match="did not answer"):
                await fabric.flush(timeout=0.05)

    run(main())


def test_a_publisher_waits_for_a_kernel_that_takes_nothing(hasty: None) -> None:
    """The server stops to read: what the client holds stays within its window and its buffer."""

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        await peer.greet(1 << 20)
        while not isinstance(message := await peer.receive(), Ping):
            pass
        await peer.send(Pong(message.token))
        await asyncio.Event().wait()

    async def main() -> None:
        async with (
            pretender(deaf) as port,
            stentor.connect(f"stentor://127.0.0.1:{port}", buffer=1 << 20) as fabric,
        ):
            published = 0

            async def publish() -> None:
                nonlocal published
                while True:
                    await fabric.publish("t", bytes(10_000))
                    published += 1

            publishing = asyncio.create_task(publish())
            assert 1 < await standstill(lambda: published) < (3 << 20) // 10_000
            publishing.cancel()
            await asyncio.wait([publishing])

    run(main())


def test_a_slow_subscriber_does_not_slow_its_publisher(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path, Limits(queue=1 << 20)) as broker,
            stentor.connect(broker.url) as publisher,
            stentor.connect(broker.url, window=64 << 10) as sleeper,
            sleeper.subscribe("t"),
        ):
            for _ in range(8000):
                await publisher.publish("t", bytes(1000))
            await publisher.flush()  # returns, although nobody reads
            assert broker.status().events_in == 8000

    run(main())


def test_a_broker_takes_no_more_than_the_credit_it_granted(tmp_path: Path) -> None:
    """Credit is counted from a link's start, so a client that reads gets more, and one that does not gets no more."""

    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url) as publisher,
            await Peer.dial(broker.port) as peer,
        ):
            await peer.hello("peer", window=64 << 10)
            await peer.send(Subscription(SubscriptionId(1), "t"))
            await peer.expect(Receipt)
            for _ in range(500):
                await publisher.publish("t", bytes(1000))
            await publisher.flush()
            assert broker.status().slow == 1
            await peer.send(Ping(7))
            while await peer.receive() != Pong(7):  # control is not held up by events
                pass
            received = sum(map(len, peer.events))
            assert received < 192 << 10, "the window, and the end of what was begun within it"
            await peer.send(Credit(1 << 40))
            await peer.receive_events(500)
            assert broker.status().slow == 0

    run(main())


def test_closing_sends_what_waits(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path, Limits(window=64 << 10)) as broker:
            async with stentor.connect(broker.url) as fabric:
                await fabric.publish_many("t", [bytes(1000)] * 10_000)
            await until(lambda: broker.status().clients == 0)
            assert broker.status().events_in == 10_000

    run(main())


def test_a_peer_that_asks_without_reading_is_ended(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, stentor.connect(broker.url) as fabric:
            subscriptions = [fabric.subscribe(f"some/long/pattern/{number}") for number in range(300)]
            for subscription in subscriptions:
                await subscription.__aenter__()
            async with await Peer.dial(broker.port) as greedy:
                await greedy.hello("greedy")
                asking = asyncio.create_task(ask_for_ever(greedy))
                await until(lambda: broker.status().clients == 1)
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
            for subscription in subscriptions:
                await subscription.close()
            await prove_well(broker.url)

    run(main())


async def ask_for_ever(peer: Peer) -> None:
    while not peer.writer.is_closing():
        await peer.send(*[StatusRequest(1)] * 10)
        await asyncio.sleep(0)


def test_what_a_paused_subscriber_has_no_window_for_waits_at_the_broker(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path, Limits(queue=8 << 20)) as broker,
            stentor.connect(broker.url) as publisher,
            stentor.connect(broker.url, window=256 << 10) as reader,
            reader.subscribe("t") as events,
        ):
            for number in range(4000):
                await publisher.publish("t", (b"%d" % number).ljust(1000))
            await publisher.flush()
            found: list[int] = []
            while len(found) + events.missed < 4000:
                found += [int(body) for body in (await events.next_batch()).bodies]
            assert events.missed == 0
            assert found == list(range(4000))

    run(main())
