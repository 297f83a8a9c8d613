"""A client inside the broker's own process: it publishes and subscribes like any other, without a link."""

from typing import TYPE_CHECKING

import pytest

from stentor.machine import Buffer, TimerFired
from stentor.model.attribute import Kind, Schema
from stentor.model.errors import Refusal
from stentor.model.ids import Incarnation, LinkId, SubscriptionId
from stentor.model.limits import Limits
from stentor.model.messages import AnyMessage, Missed, Receipt, SchemaDefinition, Topic
from stentor.nodes.broker.heartbeats import BrokerTick
from stentor.nodes.broker.local_client import LocalClient
from stentor.wire import frame
from stentor.wire.block import Block
from stentor.wire.frame import CONTROL

if TYPE_CHECKING:
    from tests.unit.nodes.conftest import Stage

SCHEMA = Schema(("n",), (Kind.INTEGER,))
ONE = SubscriptionId(1)


def local(stage: "Stage", limits: Limits | None = None, number: int = 1 << 40) -> LocalClient:
    broker = stage.broker
    client = LocalClient(
        "inside",
        LinkId(number),
        limits or Limits(),
        broker._forwarder,
        broker.network.relay,
        broker._subscriptions,
    )
    client.begin(Incarnation(1))
    return client


def publish(client: LocalClient, topic: str, *numbers: int) -> None:
    client.publish(topic, SCHEMA, [list(numbers)], [b"%d" % number for number in numbers], 0)


def flush(stage: "Stage") -> None:
    """A step of the broker, which sends what its outboxes hold."""
    stage.tell_broker(TimerFired(BrokerTick()))
    stage.run()


def read(taken: list[Buffer]) -> tuple[list[AnyMessage], list[bytes]]:
    """Messages, and the bodies of events."""
    messages = [frame.decode(bytes(each)) for each in taken if each[4] == CONTROL]
    blocks = [Block(bytes(each), SCHEMA) for each in taken if each[4] != CONTROL]
    return messages, [bytes(body) for block in blocks for body in block.bodies()]


def test_what_it_publishes_reaches_clients_by_topic_and_filter(stage: "Stage") -> None:
    everything, some = stage.client("everything"), stage.client("some")
    everything.subscribe(1, "news/#")
    some.subscribe(1, "news/sport", "n > 1")
    client = local(stage)
    publish(client, "news/sport", 1, 2)
    publish(client, "weather", 3)
    flush(stage)
    assert [body for _, _, body in everything.read()] == [b"1", b"2"]
    assert [body for _, _, body in some.read()] == [b"2"]


def test_whether_anybody_wants_a_topic(stage: "Stage") -> None:
    client = local(stage)
    client.announce("news")
    assert not client.is_wanted("news")
    stage.client("reader").subscribe(1, "news")
    assert client.is_wanted("news")


def test_what_it_subscribed_to_is_there_with_definitions_and_in_order(stage: "Stage") -> None:
    client, writer = local(stage), stage.client("writer")
    assert client.subscribe(ONE, "news/#", "n > 1") == Receipt(ONE)
    assert client.take() == []
    for number in range(4):
        writer.publish("news/sport", b"%d" % number, n=number)
    messages, bodies = read(client.take())
    assert [type(message) for message in messages] == [Topic, SchemaDefinition]
    assert bodies == [b"2", b"3"]
    assert client.take() == []
    client.unsubscribe(ONE)
    writer.publish("news/sport", b"9", n=9)
    assert client.take() == []


def test_nothing_for_it_is_sent_over_a_link_nor_is_it_a_link(stage: "Stage") -> None:
    client, writer = local(stage), stage.client("writer")
    client.subscribe(ONE, "news")
    writer.publish("news", b"1", n=1)
    status = stage.broker.status(stage.now)
    assert [link.name for link in status.links] == ["writer"]
    assert status.subscriptions == 1
    assert read(client.take())[1] == [b"1"]


def test_it_hears_what_it_publishes_itself_and_other_local_clients_do(stage: "Stage") -> None:
    one, other = local(stage), local(stage, number=(1 << 40) + 1)
    for client in (one, other):
        client.subscribe(ONE, "news")
    publish(one, "news", 5)
    flush(stage)
    assert read(one.take())[1] == read(other.take())[1] == [b"5"]


def test_what_an_owner_does_not_take_in_time_is_dropped_and_counted(stage: "Stage") -> None:
    limits = Limits(window=1000, queue=1000)
    client, writer = local(stage, limits), stage.client("writer")
    client.subscribe(ONE, "news")
    for number in range(100):
        writer.publish("news", bytes(100), n=number)
    taken = client.take()
    assert sum(map(len, taken)) <= 4 * 1000, "two windows, frames that begin in them, and definitions"
    while more := client.take():
        taken += more
    messages, bodies = read(taken)
    missed = sum(message.events[ONE] for message in messages if isinstance(message, Missed))
    assert missed > 0
    assert len(bodies) + missed == 100, "each event is there, or was told to be missed"


@pytest.mark.parametrize(("pattern", "where"), [("a//b#", ""), ("news", "n >")])
def test_what_cannot_be_subscribed_to_is_refused_with_a_reason(stage: "Stage", pattern: str, where: str) -> None:
    receipt = local(stage).subscribe(ONE, pattern, where)
    assert receipt.code in (Refusal.TOPIC, Refusal.FILTER)
    assert receipt.reason
