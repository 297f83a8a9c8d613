"""The client comes back by itself, with its subscriptions and what was published offline."""

import asyncio
from pathlib import Path

import pytest
from tests.integration.house import Node, node, numbers_until_last, publish_numbers, run, standstill, take, until
from tests.integration.peer import Peer, pretender, wait_for_end
from tests.integration.proxy import Proxy

import stentor
from stentor.client.fabric import Fabric
from stentor.model.limits import Limits


async def restarted(home: Path, port: int) -> Node:
    """A node on a port that was in use a moment ago."""
    return await Node.start(home, port=port)


async def back(*fabrics: Fabric) -> None:
    for fabric in fabrics:
        await fabric.wait_until(connected=True)


@pytest.mark.req("UX-02", "GE-10")
@pytest.mark.parametrize("ending", ["stop", "crash"])
def test_subscriptions_are_renewed_and_offline_events_sent(tmp_path: Path, ending: str) -> None:
    async def main() -> None:
        first = await Node.start(tmp_path)
        async with (
            stentor.connect(first.url) as publisher,
            stentor.connect(first.url) as subscriber,
            subscriber.subscribe("a/#", where="n >= 0") as filtered,
            subscriber.subscribe("b") as plain,
        ):
            await publisher.publish("a/x", n=1)
            await publisher.publish("b", b"1")
            assert (await take(filtered, 1))[0]["n"] == 1
            await take(plain, 1)
            await publisher.flush()
            await (first.stop() if ending == "stop" else first.crash())
            for fabric in (publisher, subscriber):
                await fabric.wait_until(connected=False)
            for number in range(2, 1000):
                await publisher.publish("a/x", n=number)
            flushing = asyncio.create_task(publisher.flush())
            second = await restarted(tmp_path, first.port)
            await back(subscriber)
            await subscriber.flush()  # so its subscriptions are in force again
            if not publisher.connected:
                await back(publisher)
            await flushing
            assert second.status().events_in == 998
            await publisher.publish("a/x", n=1000)
            found = [event["n"] for event in await numbered(filtered, 1000)]
            assert found == sorted(set(found)), "in order and never twice"
            assert found[-1] == 1000
            assert second.status().subscriptions == 2
            assert second.status().boot == 2
        await second.stop()

    run(main())


async def numbered(events: stentor.Events, last: int) -> list[stentor.Event]:
    """Events up to the one whose attribute `n` is `last`."""
    found = await take(events, 1)
    while found[-1]["n"] != last:
        found += await take(events, 1)
    return found


def test_a_subscription_made_while_offline_is_in_force_when_the_broker_is_back(tmp_path: Path) -> None:
    async def main() -> None:
        first = await Node.start(tmp_path)
        async with stentor.connect(first.url) as fabric:
            await first.crash()
            await fabric.wait_until(connected=False)
            events = fabric.subscribe("t")
            subscribing = asyncio.create_task(events.__aenter__())
            await asyncio.sleep(0)
            assert not subscribing.done()
            second = await restarted(tmp_path, first.port)
            await subscribing
            await fabric.publish("t", b"there")
            assert (await take(events, 1))[0].body == b"there"
            await events.close()
        await second.stop()

    run(main())


def test_a_subscription_ended_while_offline_does_not_come_back(tmp_path: Path) -> None:
    async def main() -> None:
        first = await Node.start(tmp_path)
        async with stentor.connect(first.url) as fabric:
            async with fabric.subscribe("gone"), fabric.subscribe("stays") as stays:
                await first.crash()
                await fabric.wait_until(connected=False)
            assert stays.pattern == "stays"
            second = await restarted(tmp_path, first.port)
            await back(fabric)
            await fabric.flush()
            assert second.status().subscriptions == 0
        await second.stop()

    run(main())


@pytest.mark.req("UX-02")
def test_flush_says_when_the_link_broke_under_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, Proxy(broker.port) as proxy, stentor.connect(proxy.url) as fabric:
            proxy.up.stall()
            await fabric.publish("t", b"x")
            flushing = asyncio.create_task(fabric.flush())
            await until(lambda: proxy.up.held > 0)
            proxy.cut()
            with pytest.raises(stentor.LinkBroken, match="may be lost"):
                await flushing
            proxy.up.resume()
            await back(fabric)
            await fabric.publish("t", b"y")
            await fabric.flush()
            assert broker.status().events_in == 1

    run(main())


def test_flush_after_a_break_does_not_claim_what_it_cannot_know(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, Proxy(broker.port) as proxy, stentor.connect(proxy.url) as fabric:
            await fabric.publish("t", b"x")
            await fabric.flush()  # from now on it is known that this topic is not a reliable one
            proxy.up.stall()
            for _ in range(10):
                await fabric.publish("t", b"x")
            await until(lambda: proxy.up.held > 0)
            proxy.cut()
            proxy.up.resume()
            await fabric.wait_until(connected=False)
            await back(fabric)
            with pytest.raises(stentor.LinkBroken):
                await fabric.flush()  # ten events were published before, none was taken in
            await fabric.flush()  # told once, the next one is about what came after
            assert broker.status().events_in == 1

    run(main())


def test_publishing_offline_waits_when_the_buffer_is_full(tmp_path: Path) -> None:
    async def main() -> None:
        first = await Node.start(tmp_path)
        async with stentor.connect(first.url, buffer=1 << 20) as fabric:
            await first.crash()
            await fabric.wait_until(connected=False)
            published = 0

            async def publish() -> None:
                nonlocal published
                for number in range(4096):
                    await fabric.publish("t", (b"%d" % number).ljust(1024))
                    published += 1

            publishing = asyncio.create_task(publish())
            assert 500 < await standstill(lambda: published) < 1500, "1 MiB holds some thousand events of 1 KiB"
            second = await restarted(tmp_path, first.port)
            await publishing
            await fabric.flush()
            assert second.status().events_in == 4096
        await second.stop()

    run(main())


def test_publishing_offline_waits_when_attributes_fill_the_buffer(tmp_path: Path) -> None:
    async def main() -> None:
        first = await Node.start(tmp_path)
        async with stentor.connect(first.url, buffer=1 << 20) as fabric:
            await first.crash()
            await fabric.wait_until(connected=False)
            published = 0

            async def publish() -> None:
                nonlocal published
                for number in range(8192):
                    await fabric.publish("t", text=f"{number:01000d}")
                    published += 1

            publishing = asyncio.create_task(publish())
            assert await standstill(lambda: published) < 4096, "8 MiB of attributes in a buffer of 1 MiB"
            publishing.cancel()

    run(main())


def test_closing_while_offline_ends_everything_that_waits(tmp_path: Path) -> None:
    async def main() -> None:
        first = await Node.start(tmp_path)
        fabric = stentor.connect(first.url, buffer=65536)
        await fabric.__aenter__()
        events = fabric.subscribe("t")
        await events.__aenter__()
        await first.crash()
        await fabric.wait_until(connected=False)
        waiting = [
            asyncio.create_task(publish_numbers(fabric, "t", 1000, size=1024)),
            asyncio.create_task(fabric.flush()),
            asyncio.create_task(fabric.wait_until(connected=True)),
        ]
        reading = asyncio.create_task(anext(events, None))
        subscribing = asyncio.create_task(fabric.subscribe("u").__aenter__())
        await asyncio.wait([*waiting, reading, subscribing], timeout=0.05)
        await fabric.close()
        for task in [*waiting, subscribing]:
            with pytest.raises(stentor.Closed):
                await task
        assert await reading is None

    run(main())


@pytest.mark.req("UX-02")
def test_a_name_outlives_a_lost_link(tmp_path: Path) -> None:
    """The broker has not noticed that the old link is dead: the same client takes its name over."""

    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            Proxy(broker.port) as proxy,
            stentor.connect(proxy.url, name="me") as fabric,
        ):
            proxy.up.stall()  # the broker hears nothing of the end
            proxy.down.stall()
            stuck = broker.status().links[0].address
            proxy.forget()
            await fabric.wait_until(connected=False)
            proxy.up.resume()
            proxy.down.resume()
            await back(fabric)
            await fabric.publish("t")
            await fabric.flush()
            (link,) = broker.status().links
            assert link.name == "me"
            assert link.address != stuck
            assert sum(broker.status().refused.values()) == 1

    run(main())


def test_a_broker_gives_up_a_client_that_falls_silent(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path, Limits(heartbeat=0.05)) as broker, await Peer.dial(broker.port) as silent:
            welcome = await silent.hello("silent", heartbeat=0.01)
            assert welcome.heartbeat == 0.05, "a client cannot ask to be asked more often than the broker likes"
            assert (await silent.last_word_after_welcome()).code is stentor.Refusal.SILENT
            assert broker.status().clients == 0

    run(main())


def test_a_client_gives_up_a_broker_that_falls_silent(tmp_path: Path) -> None:
    links = 0

    async def main() -> None:
        async def fall_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal links
            links += 1
            await Peer(reader, writer).greet(1 << 20, heartbeat=0.05)
            await wait_for_end(reader)

        async with pretender(fall_silent) as port, stentor.connect(f"stentor://127.0.0.1:{port}") as fabric:
            await fabric.wait_until(connected=False)
            await fabric.wait_until(connected=True)
            assert links >= 2

    run(main())


def test_many_restarts_in_a_row(tmp_path: Path) -> None:
    async def main() -> None:
        broker = await Node.start(tmp_path)
        port = broker.port
        async with (
            stentor.connect(broker.url) as publisher,
            stentor.connect(broker.url) as subscriber,
            subscriber.subscribe("t") as events,
        ):
            for turn in range(1, 6):
                await (broker.crash() if turn % 2 else broker.stop())
                broker = await restarted(tmp_path, port)
                while broker.status().clients < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                await back(publisher, subscriber)
                await subscriber.flush()
                for number in range(100):
                    await publisher.publish("t", b"%d" % (turn * 100 + number))
                assert await numbers_until_last(events, turn * 100 + 99) == list(range(turn * 100, turn * 100 + 100))
                assert broker.status().boot == turn + 1
        await broker.stop()

    run(main())
