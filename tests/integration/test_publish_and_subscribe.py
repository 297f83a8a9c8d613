"""Publishing and subscribing with the public Python API, over real sockets."""

import asyncio
import contextlib
from pathlib import Path

import numpy as np
import pytest
import uvloop
from tests.integration.house import node, prove_well, run, take, take_batches, until

import stentor
from stentor.model.attribute import Value
from stentor.model.limits import Limits


@pytest.mark.req("UX-02", "GE-06")
def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url) as fabric,
            fabric.subscribe("flights/#", where="carrier = 'UA' AND dep_delay > 60") as events,
        ):
            await fabric.publish("flights/jfk", b"early", carrier="UA", dep_delay=-5.0)
            await fabric.publish("flights/jfk", b"other", carrier="AA", dep_delay=99.0)
            await fabric.publish("trains/jfk", b"train", carrier="UA", dep_delay=99.0)
            await fabric.publish("flights/jfk", b"late", carrier="UA", dep_delay=75.0)
            async for event in events:
                assert (event.topic, event["dep_delay"], event.body) == ("flights/jfk", 75.0, b"late")
                assert event.number == 3, "numbers grow by one per publisher and topic, also past what a filter took"
                break

    run(main())


@pytest.mark.parametrize("window", [1 << 10, 4 << 20, 1 << 32], ids=["smallest", "usual", "largest"])
def test_everybody_on_uvloop(tmp_path: Path, window: int) -> None:
    """As nodes run it, with every window that a configuration may set."""

    async def main() -> None:
        async with node(tmp_path, Limits(window=window)) as broker:
            await prove_well(broker.url)

    run(main(), uvloop.new_event_loop)


@pytest.mark.req("UX-02", "GE-06")
def test_every_type_of_attribute_arrives_as_it_was_sent(tmp_path: Path) -> None:
    sent: dict[str, Value] = {
        "yes": True,
        "no": False,
        "small": -(2**63),
        "large": 2**63 - 1,
        "zero": 0,
        "decimal": -0.1,
        "tiny": 5e-324,
        "text": "Zürich ✈ \U0001f6eb",
        "empty": "",
        "long": "x" * 8192,
    }

    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url) as fabric,
            fabric.subscribe("types") as events,
        ):
            await fabric.publish("types", bytes(range(256)), attributes=sent)
            (event,) = await take(events, 1)
            assert dict(event.attributes) == sent
            assert [type(value) for value in event.attributes.values()] == [type(value) for value in sent.values()]
            assert event.body == bytes(range(256))
            assert "yes" in event
            assert "other" not in event
            assert event.get("other") is None

    run(main())


def test_attributes_may_have_the_names_of_parameters(tmp_path: Path) -> None:
    clashing: dict[str, Value] = {"topic": "a", "body": "b", "attributes": 1, "self": True, "where": 2.5}

    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url) as fabric,
            fabric.subscribe("clash", where="topic = 'a' AND body = 'b' AND attributes = 1") as events,
        ):
            await fabric.publish("clash", attributes=clashing)
            await fabric.publish("clash", attributes={"topic": "a", "body": "b"}, more=1)
            await fabric.publish("clash", attributes={"topic": "a", "body": "b", "attributes": 1}, more=2)
            first, second = await take(events, 2)
            assert dict(first.attributes) == clashing
            assert dict(second.attributes) == {"topic": "a", "body": "b", "attributes": 1, "more": 2}

    run(main())


@pytest.mark.req("UX-02")
def test_many_events_with_columns(tmp_path: Path) -> None:
    count = 3000
    bodies = [b"%d" % number for number in range(count)]
    delays = [None if number % 3 == 0 else float(number) for number in range(count)]
    carriers = ["UA" if number % 2 else "AA" for number in range(count)]

    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url) as fabric,
            fabric.subscribe("flights") as everything,
            fabric.subscribe("flights", where="carrier = 'UA' AND delay >= 2000") as some,
        ):
            await fabric.publish_many("flights", bodies, {"delay": delays, "carrier": carriers, "none": [None] * count})
            batches = await take_batches(everything, count)
            assert [body for batch in batches for body in batch.bodies] == bodies
            assert [number for batch in batches for number in batch.numbers] == list(range(1, count + 1))
            found_delays: list[object] = []
            for batch in batches:
                delay, carrier = batch.column("delay"), batch.column("carrier")
                assert delay is not None
                assert carrier is not None
                assert delay.values.dtype == np.float64
                found_delays += delay.to_list()
                assert batch.column("none") is None, "a column of nothing is left out"
                assert [event.get("carrier") for event in batch] == carrier.to_list()
            assert found_delays == delays
            wanted = [n for n in range(count) if n % 2 and n % 3 and n >= 2000]
            assert [int(event.body) for event in await take(some, len(wanted))] == wanted

    run(main())


def test_batches_of_a_subscription(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url, name="sensor") as fabric,
            fabric.subscribe("a/+/c") as events,
        ):
            for number in range(100):
                await fabric.publish(f"a/{number % 2}/c", b"%d" % number, n=number)
            seen: dict[str, list[int]] = {"a/0/c": [], "a/1/c": []}
            async for batch in events.batches():
                seen[batch.topic] += [int(event.body) for event in batch]
                assert batch[0].body == batch.bodies[0]
                assert batch[-1].body == batch.bodies[-1]
                with pytest.raises(IndexError):
                    batch[len(batch)]
                assert batch.missed_before == 0
                if sum(map(len, seen.values())) == 100:
                    break
            assert seen == {"a/0/c": list(range(0, 100, 2)), "a/1/c": list(range(1, 100, 2))}

    run(main())


def test_events_published_one_by_one_travel_together(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, stentor.connect(broker.url) as fabric:
            for number in range(1000):
                await fabric.publish("t", b"x", n=number)
            await fabric.flush()
            status = broker.status()
            assert status.events_in == 1000
            assert status.chunks < 100, "what one turn of the loop brings is one batch"

    run(main())


def test_flush_returns_when_the_broker_has_everything(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, stentor.connect(broker.url) as fabric:
            await fabric.flush()  # of nothing
            for turn in range(1, 6):
                for _ in range(1000):
                    await fabric.publish("t", b"x" * 1000)
                await fabric.flush()
                assert broker.status().events_in == turn * 1000
            await asyncio.gather(*(fabric.flush() for _ in range(10)))

    run(main())


def test_a_subscription_is_in_force_when_its_block_is_entered(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url) as publisher,
            stentor.connect(broker.url) as subscriber,
        ):
            for turn in range(50):
                async with subscriber.subscribe("t") as events:
                    await publisher.publish("t", b"%d" % turn)
                    (event,) = await take(events, 1)
                    assert event.body == b"%d" % turn

    run(main())


def test_a_loop_left_with_break_can_be_entered_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, stentor.connect(broker.url) as fabric:
            async with fabric.subscribe("t") as events:
                await fabric.publish_many("t", [b"%d" % number for number in range(10)])
                found = []
                async for event in events:
                    found.append(int(event.body))
                    if len(found) == 3:
                        break
                found += [int(event.body) for event in await take(events, 7)]
                assert found == list(range(10))
            await fabric.flush()
            await until(lambda: broker.status().subscriptions == 0)
            await fabric.publish("t", b"nobody")
            await fabric.flush()
            assert broker.status().dropped == {"no subscriber": 1}

    run(main())


def test_leaving_a_subscription_leaves_the_others_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url) as fabric,
            fabric.subscribe("t/#", where="n >= 5") as stays,
        ):
            async with fabric.subscribe("t/#") as goes:
                for number in range(10):
                    await fabric.publish("t/a", n=number)
                assert [event["n"] for event in await take(goes, 3)] == [0, 1, 2]
            for number in range(10, 20):
                await fabric.publish("t/a", n=number)
            assert [event["n"] for event in await take(stays, 15)] == list(range(5, 20))

    run(main())


def test_overlapping_subscriptions_each_get_what_they_asked_for_once(tmp_path: Path) -> None:
    wheres = {"": range(100), "n < 10": range(10), "n >= 90": range(90, 100), "n = 5 OR n = 95": (5, 95)}

    async def main() -> None:
        async with node(tmp_path) as broker, stentor.connect(broker.url) as fabric:
            subscriptions = [fabric.subscribe("a/#", where) for where in wheres]
            for subscription in subscriptions:
                await subscription.__aenter__()
            for number in range(100):
                await fabric.publish("a/b", n=number)
            await fabric.publish("a/b", n=7, last=True)
            for subscription, wanted in zip(subscriptions, wheres.values(), strict=True):
                assert [event["n"] for event in await take(subscription, len(wanted))] == list(wanted)
                await subscription.close()

    run(main())


def test_topics_that_begin_with_a_dollar_are_not_seen_by_wildcards_in_front(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url) as fabric,
            fabric.subscribe("#") as everything,
            fabric.subscribe("$stentor/#") as secret,
        ):
            await fabric.publish("$stentor/a", b"1")
            await fabric.publish("plain", b"2")
            assert (await take(everything, 1))[0].body == b"2"
            assert (await take(secret, 1))[0].body == b"1"

    run(main())


def test_bodies_of_every_size_up_to_the_limit(tmp_path: Path) -> None:
    sizes = [0, 1, 63, 64, 65, 4095, 4096, 65535, 65536, 65537, (1 << 20) - 1, 1 << 20]

    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url) as fabric,
            fabric.subscribe("t") as events,
        ):
            for size in sizes:
                await fabric.publish("t", bytes([size % 251]) * size, n=size)
            for event, size in zip(await take(events, len(sizes)), sizes, strict=True):
                assert event.body == bytes([size % 251]) * size
                assert event["n"] == size

    run(main())


def test_closing_ends_a_loop_that_waits(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker:
            fabric = stentor.connect(broker.url)
            await fabric.__aenter__()
            events = fabric.subscribe("t")
            await events.__aenter__()

            async def read() -> int:
                return len([event async for event in events])

            reading = asyncio.create_task(read())
            await asyncio.sleep(0)
            await fabric.close()
            assert await reading == 0, "the loop ends, it does not fail"
            await fabric.close()  # a second time does nothing
            with pytest.raises(stentor.Closed):
                await fabric.publish("t")
            with pytest.raises(stentor.Closed):
                await fabric.flush()
            with pytest.raises(stentor.Closed):
                await fabric.subscribe("t").__aenter__()
            await until(lambda: broker.status().clients == 0)

    run(main())


def test_closing_a_subscription_ends_its_loop(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, stentor.connect(broker.url) as fabric:
            events = fabric.subscribe("t")
            await events.__aenter__()
            reading = asyncio.create_task(anext(events, None))
            await asyncio.sleep(0)
            await events.close()
            assert await reading is None
            await fabric.publish("t", b"the client goes on")
            await fabric.flush()

    run(main())


def test_a_cancelled_read_loses_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url) as fabric,
            fabric.subscribe("t") as events,
        ):
            found: list[int] = []
            for number in range(50):
                await fabric.publish("t", b"%d" % number)
                with contextlib.suppress(TimeoutError):
                    found.append(int((await asyncio.wait_for(anext(events), number % 3 / 1000)).body))
            found += [int(event.body) for event in await take(events, 50 - len(found))]
            assert found == list(range(50))

    run(main())


def test_a_client_that_is_not_entered_says_so() -> None:
    async def main() -> None:
        fabric = stentor.connect("stentor://127.0.0.1:1")
        with pytest.raises(stentor.Closed, match="async with"):
            await fabric.publish("t")
        with pytest.raises(stentor.Closed, match="async with"):
            async with fabric.subscribe("t"):
                pass
        with pytest.raises(stentor.Closed, match="async with"):
            await anext(fabric.subscribe("t"))

    run(main())


@pytest.mark.req("UX-07")
def test_the_status_tells_who_does_what(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url, name="airport") as airport,
            stentor.connect(broker.url, name="desk") as desk,
            desk.subscribe("flights/#", where="delay > 10") as events,
        ):
            for number in range(30):
                await airport.publish("flights/jfk", delay=number)
            await take(events, 19)
            status = await desk.status()
            assert (status.node, status.role, status.boot) == ("test/b1", "broker", 1)
            assert (status.clients, status.subscriptions, status.topics) == (2, 1, 1)
            assert (status.events_in, status.events_out) == (30, 19)
            links = {link.name: link for link in status.links}
            assert links["airport"].events_in == 30
            assert links["desk"].events_out == 19
            assert links["desk"].principal == "anonymous"
            assert not any(link.slow for link in status.links)
            (interest,) = status.interests
            assert (interest.client, interest.pattern, interest.where) == ("desk", "flights/#", "delay > 10")
            assert (interest.accepted, interest.rejected) == (19, 11)

    run(main())


@pytest.mark.req("GE-06")
def test_an_event_may_name_its_destinations(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url, name="a/lice +1") as alice,
            stentor.connect(broker.url, name="bob") as bob,
            stentor.connect(broker.url, name="carol") as carol,
            alice.inbox() as for_alice,
            bob.inbox("urgent = TRUE") as for_bob,
            carol.subscribe("#") as for_all,
        ):
            await carol.send(["a/lice +1", "bob", "bob", "nobody"], b"mail", urgent=False)
            await carol.send(["bob"], b"again", urgent=True)
            await carol.publish("t", b"to all")
            assert (await anext(for_alice)).body == b"mail"
            assert (await anext(for_bob)).body == b"again"
            assert (await anext(for_all)).body == b"to all"

    run(main())
