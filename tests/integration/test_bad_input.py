"""What an application can do wrong: each has an error that says what to do, and nothing else suffers."""

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from tests.integration.house import PATIENCE, node, refused, run, take, until
from tests.integration.peer import Peer, pretender, wait_for_end

import stentor
from stentor.model.ids import SubscriptionId
from stentor.model.limits import Limits
from stentor.model.messages import Receipt, Subscription

WRONG_EVENTS: list[tuple[str, str, Any, dict[str, Any], type[Exception], str]] = [
    ("wildcard", "flights/+", b"", {}, stentor.TopicError, "subscribing"),
    ("rest wildcard", "flights/#", b"", {}, stentor.TopicError, "subscribing"),
    ("no topic", "", b"", {}, stentor.TopicError, "must not be empty"),
    ("long topic", "x" * 1025, b"", {}, stentor.TopicError, "at most 1024 bytes"),
    ("deep topic", "/" * 64, b"", {}, stentor.TopicError, "at most 64 levels"),
    ("NUL in topic", "a\0b", b"", {}, stentor.TopicError, "NUL"),
    ("lone surrogate in topic", "a\ud800", b"", {}, stentor.TopicError, "Unicode"),
    ("10 MB body", "t", bytes(10_000_000), {}, stentor.BodyTooLarge, "10000000 bytes, the broker takes 1048576"),
    ("text as body", "t", "text", {}, stentor.InvalidInput, "encode it"),
    ("NaN", "t", b"", {"x": math.nan}, stentor.AttributeValueError, "'x' is nan"),
    ("infinity", "t", b"", {"x": math.inf}, stentor.AttributeValueError, "'x' is inf"),
    ("list", "t", b"", {"x": [1]}, stentor.AttributeValueError, "'x' is list: attributes are bool, int, float or str"),
    ("None", "t", b"", {"x": None}, stentor.AttributeValueError, "NoneType"),
    ("bytes", "t", b"", {"x": b"1"}, stentor.AttributeValueError, "bytes"),
    ("huge integer", "t", b"", {"x": 2**63}, stentor.AttributeValueError, "64 bits"),
    ("long text", "t", b"", {"x": "y" * 8193}, stentor.AttributeValueError, "at most 8192"),
    ("lone surrogate", "t", b"", {"x": "\udfff"}, stentor.AttributeValueError, "Unicode"),
    ("attribute name", "t", b"", {"a-b": 1}, stentor.AttributeValueError, "letters, digits and '_'"),
    ("empty name", "t", b"", {"": 1}, stentor.AttributeValueError, "letters, digits and '_'"),
    ("many attributes", "t", b"", {f"a{n}": n for n in range(257)}, stentor.AttributeValueError, "at most 256"),
]


@pytest.mark.req("UX-02")
@pytest.mark.parametrize(
    ("topic", "body", "attributes", "kind", "says"),
    [wrong[1:] for wrong in WRONG_EVENTS],
    ids=[w[0] for w in WRONG_EVENTS],
)
def test_a_wrong_event_is_refused_before_it_leaves(
    tmp_path: Path, topic: str, body: Any, attributes: dict[str, Any], kind: type[Exception], says: str
) -> None:
    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url) as fabric,
            fabric.subscribe("#") as events,
        ):
            await fabric.publish("before", b"1")
            with pytest.raises(kind, match=says.replace("(", r"\(")):
                await fabric.publish(topic, body, attributes=attributes)
            await fabric.publish("after", b"2")
            assert [event.topic for event in await take(events, 2)] == ["before", "after"]
            assert broker.status().events_in == 2
            assert broker.status().refused == {}

    run(main())


def test_columns_that_do_not_fit_are_refused_whole(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, stentor.connect(broker.url) as fabric:
            with pytest.raises(stentor.AttributeValueError, match="2 values for 3 bodies"):
                await fabric.publish_many("t", [b""] * 3, {"x": [1, 2]})
            with pytest.raises(stentor.AttributeValueError, match="mixes float, int"):
                await fabric.publish_many("t", [b""] * 3, {"x": [1, 2.0, 3]})
            with pytest.raises(stentor.BodyTooLarge):
                await fabric.publish_many("t", [b"", bytes((1 << 20) + 1)])
            await fabric.publish_many("t", [])
            await fabric.flush()
            assert broker.status().events_in == 0

    run(main())


@pytest.mark.parametrize(
    ("bodies", "columns"),
    [
        ([b"", b"1"], {"x": [1.0, math.nan]}),
        ([b"", b"1"], {"x": [1.0, -math.inf]}),
        ([b"", b"1"], {"x": [1, 2**63]}),
        ([b"", b"1"], {"x": [None, [1]]}),
        ([b"", b"1"], {"x": ["", "y" * 8193]}),
        ([b"", "1"], {}),
    ],
)
def test_one_wrong_event_among_many_refuses_all(tmp_path: Path, bodies: list[Any], columns: dict[str, Any]) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, stentor.connect(broker.url) as fabric:
            with pytest.raises(stentor.InvalidInput):
                await fabric.publish_many("t", bodies, columns)
            await fabric.flush()
            assert broker.status().events_in == 0

    run(main())


@pytest.mark.parametrize(
    ("shape", "count"),
    [
        ("columns", 65_535),
        ("texts", 1000),
        ("bodies", 5000),
    ],
)
def test_however_events_come_their_frames_fit(tmp_path: Path, shape: str, count: int) -> None:
    """What is allowed one by one must be allowed together: the client cuts frames so that the broker takes them."""

    async def main() -> None:
        async with node(tmp_path) as broker, stentor.connect(broker.url) as fabric:
            if shape == "columns":
                await fabric.publish_many("t", [b""] * count, {name: list(range(count)) for name in "abc"})
            elif shape == "texts":
                for number in range(count):
                    await fabric.publish("t", text=f"{number:08000d}")
            else:
                await fabric.publish_many("t", [bytes(1000)] * count)
            await fabric.flush()
            assert broker.status().events_in == count

    run(main())


def test_an_event_whose_attributes_are_too_large_together_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, stentor.connect(broker.url) as fabric:
            with pytest.raises(stentor.InvalidInput):
                await fabric.publish("t", attributes={f"a{number}": chr(200 + number) * 8192 for number in range(256)})
            await fabric.flush()
            assert broker.status().refused == {}

    run(main())


def test_a_broker_with_another_limit_tells_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path, Limits(largest_body=4096)) as broker, stentor.connect(broker.url) as fabric:
            await fabric.publish("t", bytes(4096))
            with pytest.raises(stentor.BodyTooLarge, match=r"the broker takes 4096: .*limits\.largest_body"):
                await fabric.publish("t", bytes(4097))
            await fabric.flush()
            assert broker.status().events_in == 1

    run(main())


@pytest.mark.parametrize(
    ("pattern", "where", "kind", "says"),
    [
        ("a/#/b", None, stentor.TopicError, "must be the last level"),
        ("a/b+", None, stentor.TopicError, "whole level"),
        ("", None, stentor.TopicError, "must not be empty"),
        ("t", "carrier =", stentor.FilterError, "ends too early"),
        ("t", "a = 1 AND b = 2 OR c = 3", stentor.FilterError, "parenthes"),
        ("t", "x" * 5000, stentor.FilterError, "4,096 characters"),
    ],
)
def test_a_wrong_subscription_is_refused_by_the_client(
    tmp_path: Path, pattern: str, where: str | None, kind: type[Exception], says: str
) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, stentor.connect(broker.url) as fabric:
            with pytest.raises(kind, match=says):
                async with fabric.subscribe(pattern, where):
                    pass
            await fabric.flush()
            assert broker.status().subscriptions == 0
            assert broker.status().refused == {}, "the broker never saw it"

    run(main())


def test_a_wrong_subscription_is_refused_by_the_broker(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, await Peer.dial(broker.port) as peer:
            await peer.hello("peer")
            for number, (pattern, where, code) in enumerate(
                [
                    ("a/#/b", "", stentor.Refusal.TOPIC),
                    ("", "", stentor.Refusal.TOPIC),
                    ("t", "carrier =", stentor.Refusal.FILTER),
                    ("t", "(" * 4000, stentor.Refusal.FILTER),
                    ("t", "NOT " * 1000 + "TRUE", stentor.Refusal.FILTER),
                    ("t", "x" * 100_000, stentor.Refusal.FILTER),
                ]
            ):
                await peer.send(Subscription(SubscriptionId(number), pattern, where))
                receipt = await peer.expect(Receipt)
                assert (receipt.id, receipt.code) == (number, code)
                assert receipt.reason
            await peer.send(Subscription(SubscriptionId(99), "t"))
            assert await peer.expect(Receipt) == Receipt(SubscriptionId(99)), "the link goes on"
            await peer.send(Subscription(SubscriptionId(99), "t", "x = 1"))
            assert await peer.expect(Receipt) == Receipt(SubscriptionId(99)), "a number means what was said last"
            assert broker.status().subscriptions == 1

    run(main())


def test_too_many_subscriptions_are_refused_one_by_one(tmp_path: Path) -> None:
    async def main() -> None:
        limits = Limits(subscriptions_per_client=2, subscriptions=3)
        async with (
            node(tmp_path, limits) as broker,
            stentor.connect(broker.url) as one,
            stentor.connect(broker.url) as two,
            one.subscribe("a"),
            one.subscribe("b") as events,
        ):
            with pytest.raises(stentor.Refused, match="too many subscriptions"):
                await one.subscribe("c").__aenter__()
            async with two.subscribe("a"):
                with pytest.raises(stentor.Refused, match="too many subscriptions"):
                    await two.subscribe("b").__aenter__()
            await two.publish("b", b"fine")
            assert (await take(events, 1))[0].body == b"fine"
            assert broker.status().refused == {"too-many": 2}

    run(main())


def test_too_many_links_are_refused_with_a_reason(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path, Limits(links=1)) as broker:
            async with stentor.connect(broker.url) as first:
                await refused(broker.url, "takes 1 link")
                await first.flush()
            await until(lambda: broker.status().clients == 0)
            async with stentor.connect(broker.url) as second:
                await second.flush()

    run(main())


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:7420",
        "stentor://",
        "stentor://:7420",
        "stentor://127.0.0.1:port",
        "stentor://127.0.0.1:99999",
        "stentor://127.0.0.1:7420/path",
        "stentor://127.0.0.1:7420?x=1",
        "//",
        ("stentor://127.0.0.1:0"),
        ("stentor://me@127.0.0.1"),
    ],
)
def test_a_wrong_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(stentor.InvalidInput, match=r"stentor://host:port|port must be"):
        stentor.connect(url)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"window": 1000}, "window"),
        ({"buffer": 0}, "buffer"),
        ({"name": "a\nb"}, "name"),
        ({"name": "x" * 256}, "name"),
    ],
)
def test_a_wrong_parameter_is_refused_at_once(tmp_path: Path, parameters: dict[str, Any], says: str) -> None:
    with pytest.raises(stentor.InvalidInput, match=says):
        stentor.connect("stentor://127.0.0.1", **parameters)


def test_nobody_there_says_where_and_what_to_do() -> None:
    async def main() -> None:
        await refused("stentor://127.0.0.1:1", r"127\.0\.0\.1:1 \(connection refused\).*stentor up")
        await refused("stentor://no-such-host.invalid:1", r"no-such-host\.invalid")

    run(main())


@pytest.mark.parametrize("host", ["a" * 70, "a..b"])
def test_a_host_name_that_cannot_be_says_so(host: str) -> None:
    async def main() -> None:
        await refused(f"stentor://{host}:1", r"label|host")

    run(main())


async def _silent_about_questions(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await Peer(reader, writer).greet(1 << 20)
    await wait_for_end(reader)


def test_a_broker_that_does_not_answer_gives_an_error_of_ours() -> None:
    async def main() -> None:
        async with pretender(_silent_about_questions) as port, stentor.connect(f"127.0.0.1:{port}") as fabric:
            with pytest.raises(stentor.StentorError):
                await fabric.status(timeout=0.1)
            with pytest.raises(stentor.StentorError):
                await fabric.flush(timeout=0.1)

    run(main())


def test_long_filters_do_not_make_a_status_that_nobody_can_read(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url) as fabric,
            await Peer.dial(broker.port) as peer,
        ):
            await peer.hello("many")
            where = " OR ".join(f"name = '{'x' * 900}{number}'" for number in range(4))
            for number in range(400):
                await peer.send(Subscription(SubscriptionId(number), f"t/{number}", where))
                await peer.expect(Receipt)
            assert (await fabric.status(timeout=PATIENCE)).subscriptions == 400

    run(main())
