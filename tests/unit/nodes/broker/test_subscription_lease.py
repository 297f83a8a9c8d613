"""The lease of subscriptions: a heartbeat stands for all of a client's subscriptions, and the broker comes to agree."""

from random import Random
from typing import TYPE_CHECKING

import pytest

from stentor.model.colours.memory_part import MemoryPart
from stentor.model.errors import Refusal
from stentor.model.ids import SubscriptionId
from stentor.model.limits import Limits
from stentor.model.messages import Heartbeat, Receipt, Subscription, SubscriptionInventory, Unsubscription
from stentor.nodes.broker import subscription_lease
from stentor.nodes.client_api import SubscribeRequested, UnsubscribeRequested
from stentor.nodes.damage.corruption import Corruption
from stentor.wire import frame

if TYPE_CHECKING:
    from tests.unit.nodes.conftest import Actor, Peer, Stage

WANTS = [("a", ""), ("b/#", ""), ("c", "n > 1"), ("c", "n = 7"), ("d/+", "n < 9"), ("e", "")]
HEALED = 3 * Limits().heartbeat  # an audit and the heartbeat after it, both of which may just have been


def subscribed(stage: "Stage", name: str) -> "Actor":
    client = stage.client(name)
    for number, (pattern, where) in enumerate(WANTS, 1):
        client.subscribe(number, pattern, where)
    return client


def asked(stage: "Stage") -> int:
    """How often a broker had something else in force than a client said."""
    return sum(report.what == "subscriptions differ" for report in stage.reports)


def in_force(stage: "Stage", client: "Actor") -> list[tuple[int, str, str]]:
    """What events are matched with for a client, whatever its list says."""
    filed = stage.broker._forwarder.table.subscriptions.values()
    return sorted(
        (each.id, each.pattern, str(each.filter or "")) for each in filed if each.destination.link == client.link
    )


def wanted(client: "Actor") -> list[tuple[int, str, str]]:
    return sorted(
        (each.id, each.pattern, str(each.filter or "")) for each in client.machine.subscriber.subscriptions.values()
    )


@pytest.mark.req("CO-14")
def test_a_client_whose_subscriptions_are_in_force_is_never_asked(stage: "Stage") -> None:
    client, draw = subscribed(stage, "me"), Random(1)
    stage.cuts = Random(2)
    for number in range(100, 160):
        client.tell(SubscribeRequested(SubscriptionId(number), f"t/{number}", draw.choice(("", " n>1 ", "(n = 2)"))))
        if draw.random() < 0.3:
            client.tell(UnsubscribeRequested(SubscriptionId(number - draw.randrange(5))))
        stage.wait(draw.choice((0.0, 1.0, 2.5)))
    assert asked(stage) == 0
    assert in_force(stage, client) == wanted(client)


@pytest.mark.req("CO-14")
@pytest.mark.parametrize("seed", range(40))
def test_damaged_lists_are_the_clients_own_again_after_an_audit_and_a_heartbeat(stage: "Stage", seed: int) -> None:
    publisher, clients = stage.client("p"), [subscribed(stage, name) for name in ("x", "y")]
    broker = stage.broker
    Corruption(broker.network, broker.subscription_lists, Random(seed)).scramble([MemoryPart.SUBSCRIPTIONS])
    stage.wait(HEALED)
    healed = asked(stage)
    for topic in ("a", "b/1", "c", "d/1", "e"):
        publisher.publish(topic, topic.encode(), n=7)
    for client in clients:
        assert in_force(stage, client) == wanted(client)
        assert [[body for _, _, body in client.read(number)] for number in range(1, 7)] == [
            [b"a"],
            [b"b/1"],
            [b"c"],
            [b"c"],
            [b"d/1"],
            [b"e"],
        ]
    broker._forwarder.table.validate()
    stage.wait(HEALED)
    assert asked(stage) == healed, "once healed, nobody is asked"
    for client in clients:
        client.do(*(UnsubscribeRequested(SubscriptionId(number)) for number in range(1, 7)))
    assert not broker._forwarder.table.subscriptions, "nothing is left behind"


@pytest.mark.req("CO-01")
@pytest.mark.parametrize("seed", range(20))
def test_flows_whose_routes_are_damaged_lead_to_their_subscribers_after_an_audit(stage: "Stage", seed: int) -> None:
    publisher, clients = stage.client("p"), {topic: stage.client(topic) for topic in ("a", "b", "c")}
    for topic, client in clients.items():
        client.subscribe(1, topic)
        publisher.publish(topic, b"before")
        assert len(client.read()) == 1
    Corruption(stage.broker.network, stage.broker.subscription_lists, Random(seed)).scramble([MemoryPart.ROUTES])
    stage.wait(HEALED)
    for topic, client in clients.items():
        publisher.publish(topic, b"after")
        assert client.read() == [(topic, {}, b"after")]
    stage.broker._forwarder.table.validate()


def test_a_client_that_leaves_with_a_damaged_list_leaves_nothing_behind(new_stage: "type[Stage]") -> None:
    for seed in range(20):
        stage = new_stage()
        client = subscribed(stage, "me")
        broker = stage.broker
        Corruption(broker.network, broker.subscription_lists, Random(seed)).scramble([MemoryPart.SUBSCRIPTIONS])
        stage.open = False
        stage.cut(client)
        stage.wait(HEALED)
        assert not stage.broker._forwarder.table.subscriptions
        stage.broker._forwarder.table.validate()


# ---- what is said


def heartbeat(written: int, *subscriptions: Subscription) -> bytes:
    digest = 0
    for each in subscriptions:
        digest ^= each.digest
    return frame.encode(Heartbeat(written, None, None, digest))


def greeted(stage: "Stage") -> tuple["Peer", int]:
    """A bare client, and how many bytes it has written."""
    peer = stage.peer("raw")
    peer.hear()
    return peer, stage.broker._sessions[peer.link].connection.received


A, B = Subscription(SubscriptionId(1), "a"), Subscription(SubscriptionId(2), "b", "n > 1")


def test_a_heartbeat_is_held_against_what_came_before_it(stage: "Stage") -> None:
    peer, written = greeted(stage)
    words = frame.encode(A) + frame.encode(B)
    said = peer.say(words, heartbeat(written + len(words), A, B))
    stage.wait(0.1)  # a step takes in one subscription, and what comes behind it waits
    assert [*said, *peer.hear()] == [Receipt(A.id), Receipt(B.id)]


def test_a_mismatch_is_answered_with_what_is_in_force(stage: "Stage") -> None:
    peer, written = greeted(stage)
    words = frame.encode(A)
    said = peer.say(words, heartbeat(written + len(words), A, B))
    assert said == [Receipt(A.id), SubscriptionInventory({A.id: A.digest})]


def test_what_was_refused_is_told_before_what_is_in_force(stage: "Stage") -> None:
    peer, written = greeted(stage)
    bad = Subscription(SubscriptionId(3), "a/#/b")
    words = frame.encode(bad)
    receipt, inventory = peer.say(words, heartbeat(written + len(words), bad))
    assert (receipt.code, inventory) == (Refusal.TOPIC, SubscriptionInventory({}))


def test_a_client_that_tells_no_digest_is_not_asked(stage: "Stage") -> None:
    peer, written = greeted(stage)
    words = frame.encode(A)
    assert peer.say(words, Heartbeat(written + len(words))) == [Receipt(A.id)]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5])
def test_many_subscriptions_are_told_in_parts(stage: "Stage", monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(subscription_lease, "_IN_A_MESSAGE", 2)
    peer, written = greeted(stage)
    made = [Subscription(SubscriptionId(number), "a") for number in range(count)]
    words = b"".join(map(frame.encode, made))
    peer.say(words)
    stage.wait(0.1)
    said = [*peer.hear(), *peer.say(heartbeat(written + len(words), *made, B))]
    parts = [each for each in said if isinstance(each, SubscriptionInventory)]
    assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False]
    assert len(parts) == max(1, (count + 1) // 2)
    assert {number: digest for part in parts for number, digest in part.digests.items()} == {
        each.id: each.digest for each in made
    }


def test_what_a_client_ends_is_no_mismatch(stage: "Stage") -> None:
    peer, written = greeted(stage)
    words = frame.encode(A) + frame.encode(B) + frame.encode(Unsubscription(A.id))
    peer.say(words)
    stage.wait(0.1)
    peer.hear()
    assert peer.say(heartbeat(written + len(words), B)) == []
