"""Many subscriptions on one topic, over real sockets: everyone gets what it asked for, and the counts are right."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop
from tests.integration.house import node, run, take, until_asked

import stentor
from stentor.model.attribute import Value

SYMBOLS = 40


def test_every_subscription_gets_its_own(tmp_path: Path) -> None:
    """Two clients with 200 filters each, on the same topic: equality, ranges, OR, functions."""

    async def main() -> None:
        filters = [
            *(f"symbol = 'S{number % SYMBOLS}' AND price > {number}" for number in range(140)),
            *(f"price = {number} OR symbol = 'S{number}'" for number in range(30)),
            *(f"LENGTH(symbol) = 2 AND price % 30 = {number}" for number in range(30)),
        ]
        events: list[dict[str, Value]] = [
            {"symbol": f"S{number * 7 % SYMBOLS}", "price": number} for number in range(150)
        ]
        async with node(tmp_path) as broker, AsyncExitStack() as stack:
            publisher = await stack.enter_async_context(stentor.connect(broker.url))
            readers = []
            for _ in range(2):
                client = await stack.enter_async_context(stentor.connect(broker.url))
                wishes = [client.subscribe("t", where=where) for where in filters]
                readers += [
                    (where, await stack.enter_async_context(wish)) for where, wish in zip(filters, wishes, strict=True)
                ]
            for event in events:
                await publisher.publish("t", str(event["price"]).encode(), attributes=event)
            await publisher.flush()
            for where, reader in readers:
                expected = [str(event["price"]).encode() for event in events if stentor.Filter(where).matches(event)]
                assert [event.body for event in await take(reader, len(expected))] == expected, where
            status = await publisher.status()
            assert status.subscriptions == 2 * len(filters)
            for each in status.interests:
                wanted = sum(stentor.Filter(each.where).matches(event) for event in events)
                assert (each.accepted, each.rejected) == (wanted, len(events) - wanted), each.where

    run(main(), uvloop.new_event_loop)


def test_a_client_that_asks_for_thousands_keeps_nobody_waiting_and_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, stentor.connect(broker.url) as other:
            async with stentor.connect(broker.url) as greedy:
                wishes = [greedy.subscribe("t", where=f"n = {number} AND x > 0.5") for number in range(3000)]
                async with AsyncExitStack() as stack:
                    asking = asyncio.gather(*(stack.enter_async_context(wish) for wish in wishes))
                    async with other.subscribe("t") as everything:
                        await other.publish("t", b"one", n=2999, x=1.0)
                        assert [event.body for event in await take(everything, 1)] == [b"one"]
                    await asking
                    await other.publish("t", b"two", n=2999, x=1.0)
                    assert [event.body for event in await take(wishes[2999], 1)] in ([b"two"], [b"one"])

            async def forgotten() -> bool:
                return (await other.status()).subscriptions == 0

            await until_asked(forgotten)

    run(main(), uvloop.new_event_loop)
