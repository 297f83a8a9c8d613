"""A slow subscriber harms nobody else, has a bounded queue, and is told exactly what it missed."""

import asyncio
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.integration.house import Node, node, publish_numbers, run, standstill, until
from tests.integration.http import get
from tests.integration.peer import Peer

import stentor
from stentor.model.ids import SubscriptionId
from stentor.model.limits import Limits
from stentor.model.messages import Credit, Missed, Receipt, Subscription
from stentor.model.reports.status import LinkStatus

_QUEUE = 256 << 10
_SIZE = 500


async def count(events: stentor.Events, counted: list[int]) -> None:
    async for batch in events.batches():
        counted += [int(body) for body in batch.bodies]


def slow_link(broker: Node, name: str) -> LinkStatus:
    return next(link for link in broker.status().links if link.name == name)


@pytest.mark.req("UX-07", "SC-14")
def test_the_neighbour_gets_everything_and_the_slow_one_knows_what_it_missed(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path, Limits(queue=_QUEUE)) as broker,
            stentor.connect(broker.url) as publisher,
            stentor.connect(broker.url) as neighbour,
            neighbour.subscribe("t") as lively,
            await Peer.dial(broker.port) as slow,
        ):
            broker.serve_http()
            counted: list[int] = []
            counting = asyncio.create_task(count(lively, counted))
            await slow.hello("slow", window=64 << 10)
            await slow.send(Subscription(SubscriptionId(3), "t"))
            await slow.expect(Receipt)
            largest = 0
            for turn in range(20):
                await publish_numbers(publisher, "t", 200, _SIZE)
                await publisher.flush()
                largest = max(largest, slow_link(broker, "slow").queued)
                assert turn < 2 or broker.status().slow == 1
            assert 0 < largest <= _QUEUE, "the queue is bounded in bytes"
            assert broker.status().queued == slow_link(broker, "slow").queued <= _QUEUE
            await until(lambda: len(counted) == 4000)
            assert counted == list(range(200)) * 20
            assert lively.missed == 0
            dropped = slow_link(broker, "slow").dropped
            assert dropped > 0
            assert broker.status().dropped == {"slow subscriber": dropped}
            await check_metrics(broker, dropped)

            await slow.send(Credit(1 << 40))
            said = await slow.receive_events(4000)
            told = [message.events for message in said if isinstance(message, Missed)]
            assert all(set(each) == {3} for each in told)
            assert sum(each[SubscriptionId(3)] for each in told) == dropped
            assert slow.count_events() + dropped == 4000
            assert broker.status().slow == 0
            assert broker.status().queued == 0
            counting.cancel()

    run(main())


def test_a_subscription_is_not_told_that_it_missed_what_it_never_wanted(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path, Limits(queue=_QUEUE)) as broker,
            stentor.connect(broker.url) as publisher,
            await Peer.dial(broker.port) as slow,
        ):
            await slow.hello("slow", window=64 << 10)
            await slow.send(Subscription(SubscriptionId(3), "t"), Subscription(SubscriptionId(4), "t", "FALSE"))
            await slow.expect(Receipt)
            await slow.expect(Receipt)
            await publish_numbers(publisher, "t", 2000, _SIZE)
            await publisher.flush()
            dropped = slow_link(broker, "slow").dropped
            assert dropped > 0
            await slow.send(Credit(1 << 40))
            told = [each.events for each in await slow.receive_events(2000) if isinstance(each, Missed)]
            assert told == [{3: dropped}]

    run(main())


async def check_metrics(broker: Node, dropped: int) -> None:
    _, text = await get(broker.http_port, "/metrics")
    samples = {
        (sample.name, sample.labels.get("client") or sample.labels.get("reason")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["stentor_events_dropped_total", "slow subscriber"] == dropped
    assert samples["stentor_client_events_dropped_total", "slow"] == dropped
    assert samples["stentor_slow_clients", None] == 1
    assert 0 < samples["stentor_queue_bytes", None] <= _QUEUE
    assert samples["stentor_client_queue_bytes", "slow"] == samples["stentor_queue_bytes", None]


def test_an_application_that_wakes_up_is_told_what_it_missed(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path, Limits(queue=_QUEUE)) as broker,
            stentor.connect(broker.url) as publisher,
            stentor.connect(broker.url, window=64 << 10, name="sleeper") as sleeper,
            sleeper.subscribe("t") as events,
        ):
            await publish_numbers(publisher, "t", 5000, _SIZE)
            await publisher.flush()
            await standstill(lambda: broker.status().events_out)
            found: list[int] = []
            gaps = 0
            while not found or found[-1] != 4999:
                batch = await events.next_batch()
                numbers = [int(body) for body in batch.bodies]
                before = found[-1] if found else -1
                assert numbers[0] - before - 1 == batch.missed_before, "each gap is told where it is"
                gaps += bool(batch.missed_before)
                found += numbers
            assert events.missed == 5000 - len(found) > 0
            assert gaps >= 1
            await publish_numbers(publisher, "t", 10)
            more: list[int] = []
            while len(more) < 10:
                more += [int(body) for body in (await events.next_batch()).bodies]
            assert more == list(range(10)), "awake again, it misses nothing"
            assert events.missed == 5000 - len(found)

    run(main())


def test_what_a_sleeping_application_misses_is_shown_by_the_broker(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path, Limits(queue=_QUEUE)) as broker,
            stentor.connect(broker.url) as publisher,
            stentor.connect(broker.url, window=256 << 10, name="sleeper") as sleeper,
            sleeper.subscribe("t") as events,
        ):
            await publish_numbers(publisher, "t", 5000, _SIZE)
            await publisher.flush()
            await standstill(lambda: broker.status().events_out)
            assert broker.status().slow == 1
            dropped = broker.status().dropped.get("slow subscriber", 0)
            found = 0
            while found + events.missed < 5000:
                found += len(await events.next_batch())
            assert events.missed == dropped

    run(main())


@pytest.mark.parametrize("where", [None, "n >= 0"])
def test_of_two_subscriptions_in_one_client_the_unread_one_harms_nobody(tmp_path: Path, where: str | None) -> None:
    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url) as publisher,
            stentor.connect(broker.url, window=1 << 20) as reader,
            reader.subscribe("t", where) as unread,
            reader.subscribe("t") as read,
        ):
            counted: list[int] = []
            counting = asyncio.create_task(count(read, counted))
            for number in range(8000):
                await publisher.publish("t", (b"%d" % number).ljust(_SIZE), n=number)
            await publisher.flush()
            await until(lambda: len(counted) + read.missed == 8000)
            assert counted == list(range(8000))
            counting.cancel()
            left = 0
            while left + unread.missed < 8000:
                left += len(await unread.next_batch())
            assert unread.missed > 0
            assert left + unread.missed == 8000, "it is told exactly what it missed"

    run(main())


def test_a_client_with_many_subscriptions_that_reads_them_all_misses_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url) as publisher,
            stentor.connect(broker.url) as reader,
        ):
            subscriptions = [reader.subscribe(f"t/{number}") for number in range(100)]
            counted: list[int] = []
            for subscription in subscriptions:
                await subscription.__aenter__()
            counting = [asyncio.create_task(count(subscription, counted)) for subscription in subscriptions]
            for _ in range(10):  # a megabyte in all, a quarter of the window
                for topic in ("t/1", "t/2"):
                    await publisher.publish_many(topic, [b"1".ljust(_SIZE)] * 100)
            await publisher.flush()
            await until(lambda: len(counted) + sum(each.missed for each in subscriptions) == 2000)
            for task in counting:
                task.cancel()
            await asyncio.gather(*counting, return_exceptions=True)
            for subscription in subscriptions:
                await subscription.close()
            assert sum(each.missed for each in subscriptions) == 0

    run(main())


def test_an_unread_subscription_that_takes_little_harms_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url) as publisher,
            stentor.connect(broker.url, window=256 << 10) as reader,
            reader.subscribe("t", "n = 0"),
            reader.subscribe("t") as read,
        ):
            counted: list[int] = []
            counting = asyncio.create_task(count(read, counted))
            for _ in range(100):
                await publisher.publish_many("t", [b"1".ljust(_SIZE)] * 100, {"n": list(range(100))})
                await publisher.flush()
            assert await standstill(lambda: len(counted)) == 10_000
            counting.cancel()

    run(main())


def test_two_slow_subscribers_are_named_slowest_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path, Limits(queue=_QUEUE)) as broker,
            stentor.connect(broker.url) as publisher,
            await Peer.dial(broker.port) as slow,
            await Peer.dial(broker.port) as slower,
        ):
            for peer, name, window in ((slow, "slow", 1 << 20), (slower, "slower", 64 << 10)):
                await peer.hello(name, window=window)
                await peer.send(Subscription(SubscriptionId(1), "t"))
                await peer.expect(Receipt)
            await publish_numbers(publisher, "t", 4000, _SIZE)
            await publisher.flush()
            status = await publisher.status()
            assert [link.name for link in status.links[:2]] == ["slower", "slow"]
            assert status.slow == 2

    run(main())


def test_what_waits_for_a_subscriber_that_leaves_is_counted(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, stentor.connect(broker.url) as publisher:
            async with await Peer.dial(broker.port) as slow:
                await slow.hello("slow", window=64 << 10)
                await slow.send(Subscription(SubscriptionId(1), "t"))
                await slow.expect(Receipt)
                await publish_numbers(publisher, "t", 1000, _SIZE)
                await publisher.flush()
                waited = 1000 - slow_link(broker, "slow").events_out
                assert waited > 0
            await until(lambda: broker.status().clients == 1)
            assert broker.status().dropped == {"subscriber gone": waited}
            assert broker.status().queued == 0
            assert broker.status().subscriptions == 0

    run(main())
