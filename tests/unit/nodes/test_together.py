"""Broker and clients against each other, without a driver: what is published arrives, whatever happens in between."""

import tracemalloc
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.machine import SECOND, StopRequested
from stentor.model.attribute import Value
from stentor.model.errors import Refusal
from stentor.model.filter import Filter
from stentor.model.ids import CatenationNumber, Incarnation, SubscriptionId, topic_id
from stentor.model.limits import Limits
from stentor.model.messages import StatusReport, StatusRequest, Subscription
from stentor.model.topic import matches
from stentor.nodes.client_api import (
    AnswerQuery,
    Asked,
    CompleteFlush,
    ConfirmSubscription,
    Connect,
    Deliver,
    DenySubscription,
    Disconnect,
    FlushRequested,
    MoreRequested,
    Refuse,
    SubscribeRequested,
    TurnEnded,
    UnsubscribeRequested,
)
from stentor.nodes.client_link import RedialBroker
from stentor.simulation.clients.typed_calls import PublishCalled, PublishManyCalled
from stentor.wire import block
from stentor.wire.block import Origin
from stentor.wire.frame import FRAME_OVERHEAD
from stentor.wire.head import UNIFORM

if TYPE_CHECKING:
    from tests.unit.nodes.conftest import Actor, Stage

ONE, TWO = SubscriptionId(1), SubscriptionId(2)


def test_a_client_connects_subscribes_publishes_and_gets_its_event(stage: "Stage") -> None:
    client = stage.client("me")
    assert client.told == [Connect("campus/b1", "anonymous")]
    assert client.subscribe(1, "flights/#", "carrier = 'UA' AND dep_delay > 60") == [ConfirmSubscription(ONE)]
    client.publish("flights/jfk", b"late", carrier="UA", dep_delay=75.0)
    client.publish("flights/jfk", b"in time", carrier="UA", dep_delay=5.0)
    client.publish("flights/jfk", b"other", carrier="DL", dep_delay=99.0)
    assert client.read(1) == [("flights/jfk", {"carrier": "UA", "dep_delay": 75.0}, b"late")]


def test_a_refused_subscription_is_denied_and_the_rest_goes_on(new_stage: "type[Stage]") -> None:
    stage = new_stage(Limits(subscriptions_per_client=1))
    client = stage.client("me")
    client.subscribe(1, "a")
    (denied,) = client.subscribe(2, "b")
    assert isinstance(denied, DenySubscription)
    assert (denied.subscription, denied.code) == (TWO, Refusal.TOO_MANY)
    client.publish("a", b"x")
    assert len(client.read(1)) == 1


def test_nothing_published_after_the_confirmation_is_missed(stage: "Stage") -> None:
    publisher, subscriber = stage.client("p"), stage.client("s")
    publisher.publish("t", b"before")
    subscriber.subscribe(1, "t")
    publisher.publish("t", b"after")
    assert [body for _, _, body in subscriber.read(1)] == [b"after"]


@pytest.mark.req("GE-10")
def test_a_client_comes_back_by_itself_with_its_wishes_and_what_it_kept(stage: "Stage") -> None:
    publisher, subscriber = stage.client("p"), stage.client("s")
    subscriber.subscribe(1, "t")
    stage.open = False
    stage.cut(publisher)
    stage.cut(subscriber)
    publisher.publish("t", b"offline 1")
    stage.wait(20)
    publisher.publish("t", b"offline 2")
    assert publisher.heard(Connect) == [Connect("campus/b1", "anonymous")]
    stage.open = True
    stage.wait(6)
    assert len(publisher.heard(Connect)) == len(subscriber.heard(Connect)) == 2
    assert subscriber.heard(ConfirmSubscription) == [ConfirmSubscription(ONE), ConfirmSubscription(ONE)]
    publisher.publish("t", b"online")
    bodies = [body for _, _, body in subscriber.read(1)]
    assert bodies[-1] == b"online"
    assert bodies[:-1] in ([], [b"offline 1", b"offline 2"]), "depending on who came back first"


def test_an_idle_link_stays_up_for_hours(stage: "Stage") -> None:
    quiet, listener, talker = stage.client("quiet"), stage.client("listener"), stage.client("talker")
    listener.subscribe(1, "t")
    for _ in range(360):
        stage.wait(10)
        talker.publish("t", b"now and then")
        listener.read(1)
    for client in (quiet, listener, talker):
        assert client.heard(Disconnect) == []
    assert stage.broker.status(stage.now).clients == 3


def test_clocks_of_a_whole_machine_that_slept_break_nothing(stage: "Stage") -> None:
    client = stage.client("me")
    stage.wait(60)
    stage.now += 10 * 3600 * SECOND
    stage.wait(60)
    assert client.heard(Disconnect) == []


def test_a_frozen_client_is_dropped_and_comes_back(stage: "Stage") -> None:
    client = stage.client("me")
    link = client.link
    frozen = {who: stage.timers.pop(who) for who in list(stage.timers) if who[0] == "me"}
    stage.wait(30)
    stage.timers.update(dict.fromkeys(frozen, stage.now))
    stage.wait(30)
    assert client.link not in (None, link)
    assert len(client.heard(Connect)) == 2


def test_a_newer_holder_of_a_name_halts_the_older_for_good(stage: "Stage") -> None:
    old = stage.client("me", incarnation=Incarnation(1))
    del stage.actors["me"]
    new = stage.client("me", incarnation=Incarnation(2))
    (halt,) = old.heard(Refuse)
    assert halt.code is Refusal.FENCED
    assert old.link is None
    assert new.heard(Disconnect) == []
    new.subscribe(1, "t")
    new.publish("t", b"mine")
    assert len(new.read(1)) == 1


def test_an_older_holder_of_a_name_is_refused_for_good(stage: "Stage") -> None:
    new = stage.client("me", incarnation=Incarnation(2))
    old = stage.client("me", incarnation=Incarnation(1))
    assert [halt.code for halt in old.heard(Refuse)] == [Refusal.FENCED]
    assert new.heard(Disconnect) == []


def test_a_flush_settles_when_the_broker_has_it_all(stage: "Stage") -> None:
    client = stage.client("me")
    client.do(PublishManyCalled("t", {}, [bytes(1000)] * 1000, 0), FlushRequested(3))
    assert client.heard(CompleteFlush) == [CompleteFlush(3)]
    assert stage.broker.status(0).events_in == 1000


def test_a_flush_is_settled_with_the_reason_when_the_link_breaks(stage: "Stage") -> None:
    client = stage.client("me")
    client.tell(PublishCalled("t", {}, b"x", 0), FlushRequested(3))
    stage.cut(client)
    assert client.heard(CompleteFlush) == [CompleteFlush(3, "cable cut")]


def test_a_status_reaches_who_asked(stage: "Stage") -> None:
    client = stage.client("me")
    client.do(Asked(StatusRequest(4)))
    (told,) = client.heard(AnswerQuery)
    assert isinstance(told.answer, StatusReport)
    assert told.answer.token == 4
    assert b"campus/b1" in bytes(told.answer.status)


def test_who_leaves_in_good_order_delivers_its_last_word(stage: "Stage") -> None:
    publisher, subscriber = stage.client("p"), stage.client("s")
    subscriber.subscribe(1, "t")
    publisher.tell(PublishCalled("t", {}, b"last", 0))
    publisher.do(StopRequested())
    assert [body for _, _, body in subscriber.read(1)] == [b"last"]
    status = stage.broker.status(0)
    assert (status.clients, status.refused) == (1, {})


def test_a_broker_that_stops_is_waited_for(stage: "Stage") -> None:
    client = stage.client("me")
    stage.tell_broker(StopRequested())
    stage.run()
    assert client.heard(Disconnect) == [Disconnect("the broker is stopping")]
    assert ("me", RedialBroker()) in stage.timers


def test_a_slow_reader_is_told_exactly_what_it_missed(new_stage: "type[Stage]") -> None:
    stage = new_stage(Limits(window=1 << 17, queue=1 << 16))
    publisher, subscriber = stage.client("p"), stage.client("s", window=1 << 17)
    subscriber.subscribe(1, "t")
    for number in range(100):
        publisher.publish("t", bytes(5000), n=number)
    total = missed = 0
    for _ in range(100):
        for delivery in subscriber.deliveries(1):
            total += len(subscriber.opened(delivery))
            missed += delivery.missed
    publisher.publish("t", b"", n=100)
    for delivery in subscriber.deliveries(1):
        total += len(subscriber.opened(delivery))
        missed += delivery.missed
    assert missed > 0
    assert total + missed == 101


def test_one_subscription_that_is_not_read_starves_no_other_of_its_client(stage: "Stage") -> None:
    publisher, subscriber = stage.client("p"), stage.client("s", window=1 << 18)
    subscriber.subscribe(1, "t")
    subscriber.subscribe(2, "t", "n = 0")
    for _ in range(40):
        publisher.do(PublishManyCalled("t", {"n": list(range(10))}, [bytes(5000)] * 10, 0), TurnEnded())
        assert len(subscriber.read(1)) == 10


@pytest.mark.parametrize("window", [1 << 17, 1 << 24])
def test_a_slow_subscription_starves_no_other_whatever_the_windows_are(new_stage: "type[Stage]", window: int) -> None:
    stage = new_stage(Limits(window=1 << 17))
    publisher, subscriber = stage.client("p"), stage.client("s", window=window)
    subscriber.subscribe(1, "read")
    subscriber.subscribe(2, "unread")
    for _ in range(40):
        publisher.publish("unread", bytes(10_000))
        publisher.publish("read", bytes(10_000))
        assert len(subscriber.read(1)) == 1


def test_an_unsubscribed_filter_leaves_no_events_for_another_subscription(stage: "Stage") -> None:
    publisher, subscriber = stage.client("p"), stage.client("s")
    subscriber.subscribe(1, "t/#", "n > 5")
    subscriber.subscribe(2, "t/#")
    publisher.tell(PublishCalled("t/new", {"n": 1}, b"unwanted", 0), TurnEnded())
    assert stage.step()  # it is on its way from the broker to the subscriber
    subscriber.tell(UnsubscribeRequested(TWO))
    stage.run()
    assert subscriber.read(1) == []


def test_a_selection_never_makes_a_frame_too_large_for_its_reader(stage: "Stage") -> None:
    publisher, subscriber = stage.client("p"), stage.client("s")
    subscriber.subscribe(1, "t", "a = 0")
    count = 65_535
    first: list[Value | None] = [1, *[0] * (count - 1)]
    columns: dict[str, list[Value | None]] = {
        "a": first,
        "b": [1] * count,
        "c": [True] * count,
        "d": [True] * count,
    }
    publisher.do(PublishManyCalled("t", columns, [b"x"] * count, 0), TurnEnded())
    assert len(subscriber.read(1)) == count - 1
    assert publisher.heard(Disconnect) == subscriber.heard(Disconnect) == []


def test_joined_frames_are_never_too_large_for_their_reader(new_stage: "type[Stage]") -> None:
    stage = new_stage(Limits(largest_body=1024))
    publisher, subscriber = stage.client("p"), stage.client("s")
    subscriber.subscribe(1, "t", "a")
    count = 30_000
    column: list[Value | None] = [False, *[True] * (count - 1)]
    for time in (1, 2):  # of different times, in one turn
        publisher.tell(PublishManyCalled("t", {"a": column}, [b""] * count, time))
    publisher.do(TurnEnded())
    assert subscriber.heard(Disconnect) == []
    assert len(subscriber.read(1)) == 2 * (count - 1)


def test_a_hostile_frame_near_the_limit_does_not_grow_beyond_it_when_selected(stage: "Stage") -> None:
    subscriber, hostile = stage.client("s"), stage.peer("hostile")
    subscriber.subscribe(1, "t", "n = 0")
    hostile.define("t")
    count = 65_535
    sent = hostile.events("t", 1, [1, *[0] * (count - 1)], body=bytes(11))
    assert len(sent) < stage.broker._limits.largest_body + FRAME_OVERHEAD
    hostile.say(sent)
    assert subscriber.heard(Disconnect) == []
    honest = stage.client("honest")
    honest.publish("t", b"fine", n=0)
    assert subscriber.read(1)[-1] == ("t", {"n": 0}, b"fine")


def test_a_frame_that_claims_no_events_hides_behind_no_other(stage: "Stage") -> None:
    subscriber, hostile = stage.client("s"), stage.peer("hostile")
    subscriber.subscribe(1, "t")
    hostile.define("t")
    empty = bytearray(hostile.events("t", 2, body=b"none"))
    empty[32:34] = bytes(2)
    for order in ((0, 1), (1, 0)):
        pair = (hostile.events("t", 1 + 10 * order[0], body=b"one"), bytes(empty))
        if hostile.closed is None:
            hostile.say(pair[order[0]], pair[order[1]])
    honest = stage.client("honest")
    honest.publish("t", b"fine")
    bodies = [body for _, _, body in subscriber.read(1)]
    assert b"none" not in bodies
    assert bodies[-1] == b"fine"
    assert subscriber.heard(Disconnect) == []


@pytest.mark.parametrize("attributes", [3, 10])
def test_many_events_with_attributes_and_no_bodies_arrive(stage: "Stage", attributes: int) -> None:
    publisher, subscriber = stage.client("p"), stage.client("s", window=64 << 20)
    subscriber.subscribe(1, "t")
    count = 65_535
    publisher.do(
        PublishManyCalled("t", {f"a{n}": [1] * count for n in range(attributes)}, [b""] * count, 0), TurnEnded()
    )
    assert publisher.heard(Disconnect) == []
    assert stage.broker.status(0).events_in == count


def test_events_of_very_many_shapes_arrive(stage: "Stage") -> None:
    client = stage.client("me")
    client.subscribe(1, "t")
    client.do(*(PublishCalled("t", {f"a{number}": number}, b"", 0) for number in range(300)), TurnEnded())
    assert client.heard(Disconnect) == []
    assert [row for _, row, _ in client.read(1)] == [{f"a{number}": number} for number in range(300)]


def test_a_malformed_block_with_a_right_checksum_costs_no_subscriber_its_link(stage: "Stage") -> None:
    """The broker looks at it only where somebody filters; a subscriber with two wishes filters for itself."""
    subscriber, hostile = stage.client("s"), stage.peer("hostile")
    subscriber.subscribe(1, "t")
    subscriber.subscribe(2, "t/#", "n > 5")
    hostile.define("t")
    origin = Origin(topic_id("t"), hostile.publisher, Incarnation(1), CatenationNumber(1), 0)
    schema = int.from_bytes(hostile.events("t", 1, [9])[24:32], "little")
    bad = block.seal(origin, schema, 1, UNIFORM, 3, b"\x01\x00\x00" + bytes(4))
    hostile.say(bad)
    honest = stage.client("honest")
    honest.publish("t", b"fine", n=7)
    assert subscriber.heard(Disconnect) == []
    assert [body for _, _, body in subscriber.read(2)] == [b"fine"]


def test_frames_that_claim_many_events_cost_the_broker_no_memory(stage: "Stage") -> None:
    """A frame of 68 bytes can hold 65,535 empty events; a chunk of them must not become one array."""
    subscriber, hostile = stage.peer("s"), stage.peer("hostile")
    subscriber.subscribe(1, "t", "NOT (EXISTS a)")
    hostile.define("t")
    origin = Origin(topic_id("t"), hostile.publisher, Incarnation(1), CatenationNumber(1), 0)
    frame = block.seal(origin, 0, 65_535, UNIFORM, 0, bytes(4))
    hostile.say(frame)
    tracemalloc.start()
    try:
        hostile.say(frame * 400)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20


# ---- at random


TOPICS = ["a", "a/b", "a/c", "b", "$stentor/x"]
PATTERNS = ["a", "a/#", "+", "#", "a/+", "$stentor/#"]
WHERES = ["", "n > 4", "n <= 4", "EXISTS n AND n > 7", "colour = 'red'"]


def wanted(pattern: str, where: str, topic: str, attributes: dict[str, Value]) -> bool:
    return matches(pattern, topic) and (not where or Filter(where).matches(attributes))


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32))
def test_everyone_gets_just_what_he_asked_for_in_order_and_once(new_stage: "type[Stage]", seed: int) -> None:
    random = Random(seed)
    stage = new_stage(Limits(flows=3))
    stage.cuts = Random(seed)
    clients = [stage.client(f"c{number}") for number in range(3)]
    wishes: dict[tuple[str, int], tuple[str, str]] = {}
    expected: dict[tuple[str, int], dict[str, list[bytes]]] = {}
    found: dict[tuple[str, int], dict[str, list[bytes]]] = {}

    def collect(client: "Actor", number: int) -> None:
        for topic, _, body in client.read(number):
            found[client.name, number].setdefault(topic, []).append(body)

    serial = 0
    for step in range(40):
        client = random.choice(clients)
        action = random.random()
        if action < 0.25:
            wish = (random.choice(PATTERNS), random.choice(WHERES))
            wishes[client.name, step] = wish
            expected[client.name, step], found[client.name, step] = {}, {}
            client.subscribe(step, *wish)
        elif action < 0.35 and wishes:
            name, number = random.choice(sorted(wishes))
            collect(stage.actors[name], number)
            stage.actors[name].do(UnsubscribeRequested(SubscriptionId(number)))
            del wishes[name, number]
        else:
            inputs = []
            for _ in range(random.randrange(1, 6)):
                topic = random.choice(TOPICS)
                attributes: dict[str, Value] = {}
                if random.random() < 0.8:
                    attributes["n"] = random.randrange(10)
                if random.random() < 0.4:
                    attributes["colour"] = random.choice(["red", "blue"])
                serial += 1
                body = f"{client.name}/{serial}".encode()
                inputs.append(PublishCalled(topic, attributes, body, 0))
                for wisher, wish in wishes.items():
                    if wanted(*wish, topic, attributes):
                        expected[wisher].setdefault(topic, []).append(body)
            client.do(*inputs, TurnEnded())
    for name, number in sorted(wishes):
        collect(stage.actors[name], number)
    assert found == expected
    assert all(client.heard(Disconnect) == [] for client in clients)
    status = stage.broker.status(0)
    assert status.dropped.get("slow subscriber", 0) == 0


def test_the_same_steps_have_the_same_effects(new_stage: "type[Stage]") -> None:
    def play() -> bytes:
        stage = new_stage()
        publisher, subscriber = stage.client("p"), stage.peer("s")
        for number, pattern in enumerate(PATTERNS):
            subscriber.say(Subscription(SubscriptionId(number), pattern, WHERES[number % len(WHERES)]))
        for number in range(50):
            publisher.publish(TOPICS[number % 4], b"x", n=number % 10)
        return subscriber.stream

    assert play() == play()


def test_a_demand_before_and_after_an_event_is_served_alike(stage: "Stage") -> None:
    client = stage.client("me")
    client.do(SubscribeRequested(ONE, "t"), SubscribeRequested(TWO, "t"), MoreRequested(ONE))
    client.publish("t", b"x")
    client.do(MoreRequested(TWO))
    assert [(each.subscription, client.opened(each)) for each in client.heard(Deliver)] == [
        (ONE, [("t", {}, b"x")]),
        (TWO, [("t", {}, b"x")]),
    ]
