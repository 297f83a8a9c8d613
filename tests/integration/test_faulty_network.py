"""Real clients and a real broker on a network that cuts, stalls, delays, slices and flips.

What may never happen, whatever the network does: an event twice, out of order per publisher, or with other bytes than
were published. What may happen on a link that breaks is that events are lost; then `flush` does not claim otherwise.
"""

import asyncio
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.house import node, prove_well, run, take, until
from tests.integration.proxy import Proxy

import stentor
from stentor.client.fabric import Events, Fabric
from stentor.model.limits import Limits


def sealed(publisher: int, number: int, padding: int = 0) -> bytes:
    """A body that proves itself."""
    text = b"%d %d " % (publisher, number) + bytes(padding)
    return b"%08x %s" % (zlib.crc32(text), text)


def opened(body: bytes) -> tuple[int, int]:
    checksum, _, text = body.partition(b" ")
    assert int(checksum, 16) == zlib.crc32(text), "a corrupt event was delivered"
    publisher, number = text.split(b" ")[:2]
    return int(publisher), int(number)


class Listener:
    """Reads a subscription and checks all that must hold of it."""

    def __init__(self) -> None:
        self.last: dict[int, int] = {}
        self.counted: dict[int, int] = {}

    async def listen(self, events: Events) -> None:
        async for batch in events.batches():
            for event in batch:
                publisher, number = opened(event.body)
                assert event["n"] == number, "an attribute of another event"
                assert number > self.last.get(publisher, -1), (
                    f"{number} after {self.last[publisher]}: twice, or unordered"
                )
                self.last[publisher] = number
                self.counted[publisher] = self.counted.get(publisher, 0) + 1


async def publish(
    fabric: Fabric, publisher: int, count: int, stop: Callable[[], bool] = lambda: False, padding: int = 0
) -> int:
    """Publish numbered events, `count` of them or until it is time to stop; returns how many it were."""
    number = 0
    while number < count and not stop():
        await fabric.publish(f"t/{publisher}", sealed(publisher, number, padding), n=number)
        number += 1
        if number % 64 == 0:
            await asyncio.sleep(0)
    return number


async def last_ones_arrive(listener: Listener, fabrics: list[Fabric], counts: list[int], subscriber: Fabric) -> None:
    """When the network is well again, everything goes through again."""
    for fabric in (*fabrics, subscriber):
        await fabric.wait_until(connected=True)
    async with asyncio.timeout(60):
        while any(listener.last.get(publisher, -1) < count - 1 for publisher, count in enumerate(counts)):
            for publisher, fabric in enumerate(fabrics):
                if listener.last.get(publisher, -1) < counts[publisher] - 1:
                    await fabric.publish(f"t/{publisher}", sealed(publisher, counts[publisher]), n=counts[publisher])
                    counts[publisher] += 1
            await asyncio.sleep(0.05)


@pytest.mark.req("GE-10", "UX-02")
@pytest.mark.parametrize("seed", range(3))
def test_links_that_are_cut_under_load_lose_nothing_but_what_was_under_way(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)

    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            Proxy(broker.port, seed) as proxy,
            stentor.connect(proxy.url) as one,
            stentor.connect(proxy.url) as two,
            stentor.connect(proxy.url) as subscriber,
            subscriber.subscribe("t/#", where="n >= 0") as events,
        ):
            listener = Listener()
            listening = asyncio.create_task(listener.listen(events))
            done = False
            publishing = [
                asyncio.create_task(publish(fabric, number, 1 << 30, lambda: done))
                for number, fabric in enumerate((one, two))
            ]
            for _ in range(8):
                heard = sum(listener.counted.values())
                await until(lambda heard=heard: sum(listener.counted.values()) > heard + 200)  # type: ignore[misc]
                await asyncio.sleep(dice.random() / 50)
                proxy.cut()
            done = True
            counts = await asyncio.gather(*publishing)
            await last_ones_arrive(listener, [one, two], list(counts), subscriber)
            assert proxy.accepted >= 3 + 8, "they did reconnect"
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            await until(lambda: broker.status().clients == 3)

    run(main())


@pytest.mark.parametrize("way", ["up", "down", "both"])
def test_flipped_bits_reach_no_application(tmp_path: Path, way: str) -> None:
    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            Proxy(broker.port, seed=7) as proxy,
            stentor.connect(proxy.url) as one,
            stentor.connect(proxy.url) as two,
            stentor.connect(proxy.url) as subscriber,
            subscriber.subscribe("t/#", where="n >= 0") as events,
            subscriber.subscribe("t/#", where="n < 1000000"),
        ):
            listener = Listener()
            listening = asyncio.create_task(listener.listen(events))
            done = False
            publishing = [
                asyncio.create_task(publish(fabric, number, 1 << 30, lambda: done, padding=100))
                for number, fabric in enumerate((one, two))
            ]
            sick = [proxy.up] if way == "up" else [proxy.down] if way == "down" else [proxy.up, proxy.down]
            for direction in sick:
                direction.flips = 0.2
            await until(lambda: sum(direction.flipped for direction in sick) >= 40 or listening.done())
            for direction in sick:
                direction.flips = 0.0
            done = True
            counts = await asyncio.gather(*publishing)
            if listening.done():
                listening.result()
            await last_ones_arrive(listener, [one, two], list(counts), subscriber)
            assert not listening.done()
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
        await until(lambda: broker.status().clients == 0)

    run(main())


@pytest.mark.parametrize("largest", [1, 3, 50])
def test_events_arrive_though_bytes_come_in_slices(tmp_path: Path, largest: int) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, Proxy(broker.port) as proxy:
            proxy.up.largest_slice = proxy.down.largest_slice = largest
            async with (
                stentor.connect(proxy.url, wait=60) as publisher,
                stentor.connect(proxy.url, wait=60) as subscriber,
                subscriber.subscribe("t/#", where="n >= 0") as events,
            ):
                listener = Listener()
                listening = asyncio.create_task(listener.listen(events))
                await publish(publisher, 0, 50 * largest)
                await publisher.flush()
                await until(lambda: listener.counted.get(0) == 50 * largest or listening.done())
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
                assert listener.counted == {0: 50 * largest}, "a slow network loses nothing"
                assert proxy.accepted == 2, "and no link was given up over it"

    run(main())


def test_events_arrive_over_a_link_with_a_long_delay(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, Proxy(broker.port) as proxy:
            proxy.up.delay = proxy.down.delay = 0.02
            await prove_well(proxy.url)

    run(main())


def test_a_stall_towards_the_broker_holds_the_publisher_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path, Limits(window=128 << 10)) as broker,
            Proxy(broker.port) as proxy,
            stentor.connect(proxy.url, buffer=128 << 10) as publisher,
            stentor.connect(broker.url) as subscriber,
            subscriber.subscribe("t/#") as events,
        ):
            listener = Listener()
            listening = asyncio.create_task(listener.listen(events))
            proxy.up.stall()
            publishing = asyncio.create_task(publish(publisher, 0, 2000, padding=1000))
            await until(lambda: proxy.up.held > 0)
            proxy.up.resume()
            assert await publishing == 2000
            await publisher.flush()
            await until(lambda: listener.counted.get(0) == 2000 or listening.done())
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            assert listener.counted == {0: 2000}, "a stall that ends loses nothing"

    run(main())


def test_a_stall_towards_a_subscriber_harms_nobody_else(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path, Limits(queue=256 << 10)) as broker,
            Proxy(broker.port) as proxy,
            stentor.connect(broker.url) as publisher,
            stentor.connect(proxy.url, window=128 << 10, name="stalled") as stalled,
            stentor.connect(broker.url) as neighbour,
            stalled.subscribe("t/#") as unheard,
            neighbour.subscribe("t/#") as heard,
        ):
            listener = Listener()
            listening = asyncio.create_task(listener.listen(heard))
            proxy.down.stall()
            assert await publish(publisher, 0, 2000, padding=1000) == 2000
            await publisher.flush()
            await until(lambda: listener.counted.get(0) == 2000 or listening.done())
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            link = next(link for link in broker.status().links if link.name == "stalled")
            assert link.slow
            assert 0 < link.queued <= 256 << 10
            proxy.down.resume()
            found = 0
            while found + unheard.missed < 2000:
                found += len(await unheard.next_batch())
            assert found + unheard.missed == 2000
            assert unheard.missed >= link.dropped > 0

    run(main())


def test_a_broker_that_is_reached_again_after_many_refusals(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            Proxy(broker.port) as proxy,
            stentor.connect(proxy.url) as fabric,
            fabric.subscribe("t") as events,
        ):
            proxy.refuses = True
            proxy.cut()
            await fabric.wait_until(connected=False)
            await until(lambda: proxy.accepted >= 4)
            await fabric.publish("t", b"from the dark")
            proxy.refuses = False
            await fabric.wait_until(connected=True)
            await fabric.flush()
            await fabric.publish("t", b"from the light")
            assert (await take(events, 1))[0].body in (b"from the dark", b"from the light")

    run(main())
