"""The client, stepped: dialling and backing off, greeting, publishing, flushing, subscribing, giving up."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from stentor.machine import (
    MILLISECOND,
    SECOND,
    Close,
    Dial,
    Effect,
    Input,
    LinkLost,
    LinkOpened,
    Received,
    Report,
    Send,
    Started,
    StartTimer,
    StopRequested,
    StopTimer,
    TimerFired,
)
from stentor.model.attribute import EMPTY_SCHEMA, Kind, Schema
from stentor.model.errors import BodyTooLarge, FilterError, InvalidInput, Refusal, TopicError
from stentor.model.ids import (
    CatenationNumber,
    Incarnation,
    LinkId,
    PublisherId,
    SubscriptionId,
    publisher_id,
    topic_id,
)
from stentor.model.messages import (
    AnyMessage,
    Credit,
    Farewell,
    Heartbeat,
    Hello,
    Message,
    Missed,
    Ping,
    Pong,
    Receipt,
    Rejection,
    SchemaDefinition,
    StatusReport,
    StatusRequest,
    Subscription,
    SubscriptionInventory,
    Topic,
    Unsubscription,
    Welcome,
)
from stentor.nodes.client import Client, Settings
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
    ResumePublishing,
    SubscribeRequested,
    TurnEnded,
    UnsubscribeRequested,
)
from stentor.nodes.client_link import ClientTick, RedialBroker, WelcomeTimeout
from stentor.simulation.clients import typed_calls
from stentor.simulation.clients.typed_calls import PublishCalled, PublishManyCalled
from stentor.wire import block, frame
from stentor.wire.block import Block, Origin
from stentor.wire.frame import CONTROL, LARGEST_GREETING, PREAMBLE

WELCOME = Welcome(node="b1", boot=1, principal="alice", window=1 << 20, largest_body=1 << 20, heartbeat=5.0)
ONE, TWO, THREE = SubscriptionId(1), SubscriptionId(2), SubscriptionId(3)
NUMBERED = Schema(("n",), (Kind.INTEGER,))


class Desk:
    """A client, with a test in the place of its network and its broker."""

    def __init__(self, **settings: Any) -> None:
        settings = {"incarnation": Incarnation(3), "addresses": ("host:7420",), **settings}
        self.client = Client(Settings(name="me", **settings))
        self.now = 0
        self.link = LinkId(0)

    def tell(self, *happened: Input) -> list[Effect]:
        return [effect for each in happened for effect in typed_calls.step(self.client, self.now, each)]

    def open(self) -> list[Effect]:
        """Start it, or let it dial again, and open the link that it asks for."""
        effects = self.tell(TimerFired(RedialBroker()) if self.link else Started())
        (dial,) = [effect for effect in effects if isinstance(effect, Dial)]
        self.link = dial.link
        return self.tell(LinkOpened(self.link, dialled=True))

    def connected(self, welcome: Welcome = WELCOME) -> "Desk":
        self.open()
        self.hear(PREAMBLE, welcome)
        return self

    def hear(self, *words: Message | bytes) -> list[Effect]:
        data = b"".join(word if isinstance(word, bytes) else frame.encode(word) for word in words)
        return self.tell(Received(self.link, data))


def said(effects: list[Effect]) -> list[AnyMessage | bytes]:
    """What left, message by message; event frames as bytes."""
    words: list[AnyMessage | bytes] = []
    for effect in effects:
        if isinstance(effect, Send):
            for data in effect.data:
                control = data != PREAMBLE and data[4] == CONTROL
                words.append(frame.decode(bytes(data)) if control else bytes(data))
    return words


def told(effects: list[Effect]) -> list[Effect]:
    """What is not for the network, the clock or the log."""
    return [each for each in effects if not isinstance(each, Send | Close | Dial | StartTimer | StopTimer | Report)]


def events(topic: str, first: int = 1, numbers: list[int] | None = None, body: bytes = b"x") -> bytes:
    origin = Origin(topic_id(topic), PublisherId(1), Incarnation(1), CatenationNumber(first), 0)
    if numbers is None:
        return block.encode(origin, EMPTY_SCHEMA, [], [body])
    return block.encode(origin, NUMBERED, [list(numbers)], [body] * len(numbers))


@contextmanager
def guarded() -> Iterator[None]:
    """A step that never returns fails the test instead of stopping it all."""

    def interrupt(*_: object) -> None:
        raise AssertionError("this step never ends")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(5)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# ---- the link


def test_it_dials_when_it_starts_and_says_hello_when_the_link_is_there() -> None:
    desk = Desk(window=70_000, heartbeat=7.0, agent="test")
    assert desk.tell(Started()) == [Dial(LinkId(1), "host:7420")]
    effects = desk.tell(LinkOpened(LinkId(1), dialled=True))
    assert said(effects) == [
        PREAMBLE,
        Hello(
            name="me", incarnation=Incarnation(3), window=70_000, role="client", heartbeat=7.0, agent="test", attempt=1
        ),
    ]
    assert StartTimer(WelcomeTimeout(), 5 * SECOND) in effects


def test_it_is_connected_when_it_is_welcome() -> None:
    desk = Desk()
    desk.open()
    effects = desk.hear(PREAMBLE, WELCOME)
    assert told(effects) == [Connect("b1", "alice")]
    assert StopTimer(WelcomeTimeout()) in effects
    assert StartTimer(ClientTick(), 5 * SECOND // 2) in effects


def test_a_welcome_may_come_byte_by_byte() -> None:
    desk = Desk()
    desk.open()
    stream = PREAMBLE + frame.encode(WELCOME)
    effects = [effect for byte in stream for effect in desk.hear(bytes([byte]))]
    assert told(effects) == [Connect("b1", "alice")]


def redial(effects: list[Effect]) -> StartTimer:
    (timer,) = [each for each in effects if isinstance(each, StartTimer) and each.timer == RedialBroker()]
    return timer


def test_pauses_between_attempts_grow_up_to_a_bound_and_begin_anew_after_a_welcome() -> None:
    desk = Desk()
    pauses = []
    effects = desk.tell(Started())
    for _ in range(10):
        (dial,) = [each for each in effects if isinstance(each, Dial)]
        effects = desk.tell(LinkLost(dial.link, "refused"))
        assert told(effects) == [Disconnect("refused")]
        timer = redial(effects)
        pauses.append(timer.at - desk.now)
        assert timer.jitter == (timer.at - desk.now) // 2
        desk.now = timer.at
        effects = desk.tell(TimerFired(RedialBroker()))
    assert pauses == [50 * MILLISECOND * 2**n for n in range(7)] + [5 * SECOND] * 3
    (dial,) = [each for each in effects if isinstance(each, Dial)]
    desk.link = dial.link
    desk.tell(LinkOpened(dial.link, dialled=True))
    desk.hear(PREAMBLE, WELCOME)
    assert redial(desk.tell(LinkLost(desk.link, "cut"))).at == desk.now + 50 * MILLISECOND


def test_a_link_that_opens_without_a_welcome_does_not_count_as_success() -> None:
    desk = Desk()
    first = redial([*desk.open(), *desk.tell(LinkLost(desk.link, "cut"))])
    second = redial([*desk.open(), *desk.tell(LinkLost(desk.link, "cut"))])
    assert second.at - desk.now == 2 * (first.at - desk.now)


def test_news_of_a_link_that_is_not_ours_any_more_are_ignored() -> None:
    desk = Desk().connected()
    old = desk.link
    desk.tell(LinkLost(old, "cut"))
    desk.open()
    assert desk.tell(LinkLost(old, "again")) == []
    assert desk.tell(Received(old, b"late")) == []
    assert desk.tell(LinkOpened(LinkId(99), dialled=True)) == [Close(LinkId(99), "no longer wanted")]


def test_a_peer_without_a_welcome_is_given_up() -> None:
    desk = Desk()
    desk.open()
    desk.hear(PREAMBLE)
    effects = desk.tell(TimerFired(WelcomeTimeout()))
    assert Close(desk.link, "no welcome within 5 s: is that a Stentor broker?") in effects
    assert isinstance(told(effects)[0], Disconnect)
    assert redial(effects)


@pytest.mark.parametrize("first", [b"HTTP/1.1 400 Bad Request", b"\x15\x03\x01\x00\x02\x02\x46", b"garbage!"])
def test_a_peer_of_another_protocol_is_told_apart_and_tried_again(first: bytes) -> None:
    desk = Desk()
    desk.open()
    effects = desk.hear(first)
    (disconnect,) = told(effects)
    assert isinstance(disconnect, Disconnect)
    assert "not a Stentor node" in disconnect.reason
    assert redial(effects)


@pytest.mark.parametrize("code", list(Refusal))
def test_a_refusal_ends_the_link_and_some_end_the_client(code: Refusal) -> None:
    desk = Desk().connected()
    effects = desk.hear(Rejection(code, "because"))
    assert Close(desk.link, "because") in effects
    fatal = code in (Refusal.FENCED, Refusal.UNAUTHENTICATED, Refusal.NOT_AUTHORISED)
    assert told(effects) == [Disconnect("because"), *([Refuse(code, "because")] if fatal else [])]
    if fatal:
        assert StopTimer(RedialBroker()) in effects
        assert desk.tell(LinkLost(desk.link, "later"), TurnEnded()) == []


def test_a_farewell_of_the_broker_is_a_reason_to_come_back() -> None:
    desk = Desk().connected()
    effects = desk.hear(Farewell("the broker is stopping"))
    assert told(effects) == [Disconnect("the broker is stopping")]
    assert redial(effects)


@pytest.mark.parametrize(
    "word",
    [Topic(topic_id("t"), "t"), Receipt(ONE), Credit(1), Pong(1), Missed({}), SchemaDefinition(NUMBERED)],
)
def test_nothing_is_heard_before_the_welcome(word: Message) -> None:
    desk = Desk()
    desk.open()
    effects = desk.hear(PREAMBLE, word)
    assert said(effects) == [Rejection(Refusal.PROTOCOL, f"the message {word.tag!r} has no place here")]
    assert isinstance(told(effects)[0], Disconnect)


@pytest.mark.parametrize(
    "word",
    [
        WELCOME,
        Hello(name="n", incarnation=Incarnation(1), window=1),
        Subscription(ONE, "t"),
        Unsubscription(ONE),
        Ping(1),
        StatusRequest(1),
    ],
)
def test_a_clients_own_words_have_no_place_in_a_brokers_mouth(word: Message) -> None:
    effects = Desk().connected().hear(word)
    assert said(effects) == [Rejection(Refusal.PROTOCOL, f"the message {word.tag!r} has no place here")]


def test_before_the_welcome_frames_are_small() -> None:
    desk = Desk()
    desk.open()
    effects = desk.hear(PREAMBLE, (LARGEST_GREETING + 1).to_bytes(4, "little") + b"\x02\x01")
    (rejection,) = said(effects)
    assert isinstance(rejection, Rejection)
    assert rejection.code is Refusal.TOO_LARGE


@pytest.mark.parametrize(
    "welcome",
    [
        Welcome(node="b", boot=1, principal="p", window=1 << 20, largest_body=1 << 20, heartbeat=float("nan")),
        Welcome(node="b", boot=1, principal="p", window=1 << 20, largest_body=1 << 20, heartbeat=float("inf")),
        Welcome(node="b", boot=1, principal="p", window=1 << 20, largest_body=1 << 20, heartbeat=-1.0),
        Welcome(node="b", boot=1, principal="p", window=1 << 20, largest_body=1 << 20, heartbeat=0.0),
        Welcome(node="b", boot=1, principal="p", window=1 << 20, largest_body=-5, heartbeat=5.0),
    ],
)
def test_a_welcome_that_cannot_be_is_refused(welcome: Welcome) -> None:
    desk = Desk()
    desk.open()
    effects = desk.hear(PREAMBLE, welcome)
    assert [type(each) for each in told(effects)] == [Disconnect]


# ---- heartbeats


@pytest.mark.req("CO-14")
def test_a_client_ends_and_makes_subscriptions_until_those_in_force_are_its_own() -> None:
    desk = Desk().connected()
    wants = {ONE: Subscription(ONE, "a"), TWO: Subscription(TWO, "b", "n > 1"), THREE: Subscription(THREE, "c")}
    desk.tell(*(SubscribeRequested(each.id, each.pattern, each.where) for each in wants.values()))
    ghost, lost, right = SubscriptionId(7), TWO, THREE
    first = SubscriptionInventory({ghost: 5, ONE: 6}, more=True)
    assert said(desk.hear(first)) == []
    told = said(desk.hear(SubscriptionInventory({right: wants[right].digest})))
    assert told == [Unsubscription(ghost), wants[ONE], wants[lost]]
    assert said(desk.hear(SubscriptionInventory({each.id: each.digest for each in wants.values()}))) == []


def test_a_client_that_has_read_a_refusal_wants_nothing_more() -> None:
    desk = Desk().connected()
    desk.tell(SubscribeRequested(ONE, "a", ""))
    assert said(desk.hear(Receipt(ONE, Refusal.NOT_AUTHORISED, "no"), SubscriptionInventory({}))) == []


def test_the_part_of_an_inventory_that_came_on_a_link_that_is_lost_counts_no_more() -> None:
    desk = Desk().connected()
    desk.tell(SubscribeRequested(ONE, "a", ""))
    desk.hear(SubscriptionInventory({TWO: 5}, more=True))
    desk.tell(LinkLost(desk.link, "cable cut"))
    desk.connected()
    assert said(desk.hear(SubscriptionInventory({ONE: Subscription(ONE, "a").digest}))) == []


def test_a_quiet_client_beats() -> None:
    desk = Desk().connected()
    beats = []
    for _ in range(8):
        desk.now += 5 * SECOND // 2
        desk.hear(b"")  # the broker is alive
        effects = desk.tell(TimerFired(ClientTick()))
        assert StartTimer(ClientTick(), desk.now + 5 * SECOND // 2) in effects
        beats += said(effects)
    written = len(PREAMBLE) + len(
        frame.encode(
            Hello(
                name="me", incarnation=Incarnation(3), window=4 << 20, role="client", heartbeat=5.0, agent="", attempt=1
            )
        )
    )
    assert beats[0] == Heartbeat(written, 0, 4 << 20, 0)
    assert 3 <= len(beats) <= 4


def test_a_silent_broker_is_given_up() -> None:
    desk = Desk().connected()
    effects: list[Effect] = []
    for _ in range(8):
        desk.now += 5 * SECOND // 2
        effects += desk.tell(TimerFired(ClientTick()))
    assert Disconnect("the broker was silent for three heartbeats") in effects
    assert redial(effects)


def test_a_client_that_slept_itself_blames_nobody() -> None:
    desk = Desk().connected()
    desk.now += 3600 * SECOND
    assert told(desk.tell(TimerFired(ClientTick()))) == []


def test_a_broker_that_asks_for_slower_heartbeats_gets_them() -> None:
    desk = Desk()
    desk.open()
    effects = desk.hear(
        PREAMBLE, Welcome(node="b", boot=1, principal="p", window=1 << 20, largest_body=1 << 20, heartbeat=60.0)
    )
    assert StartTimer(ClientTick(), 30 * SECOND) in effects


def test_a_heartbeat_at_a_wrong_position_breaks_the_link() -> None:
    desk = Desk().connected()
    written = len(PREAMBLE) + len(frame.encode(WELCOME))
    assert told(desk.hear(Heartbeat(written))) == []
    (rejection,) = said(desk.hear(Heartbeat(written)))
    assert isinstance(rejection, Rejection)
    assert rejection.code is Refusal.CORRUPT


# ---- publishing


def test_what_is_offered_leaves_when_the_turn_ends() -> None:
    desk = Desk().connected()
    assert desk.tell(PublishCalled("t", {"n": 1}, b"a", 5), PublishCalled("t", {"n": 2}, b"b", 6)) == []
    topic, schema, sent = said(desk.tell(TurnEnded()))
    assert (topic, schema) == (Topic(topic_id("t"), "t"), SchemaDefinition(NUMBERED))
    assert isinstance(sent, bytes)
    read = Block(sent, NUMBERED)
    assert (read.publisher, read.incarnation) == (publisher_id("alice", "me"), 3)
    assert (read.rows(), read.bodies(), read.catenation, read.time) == ([{"n": 1}, {"n": 2}], [b"a", b"b"], 1, 5)


@pytest.mark.req("GE-10")
def test_what_is_offered_offline_leaves_after_the_welcome_in_order() -> None:
    desk = Desk()
    assert desk.tell(PublishCalled("t", {}, b"1", 0), TurnEnded()) == []
    desk.open()
    desk.tell(PublishCalled("t", {}, b"2", 0), TurnEnded())
    *_, sent = said(desk.hear(PREAMBLE, WELCOME))
    assert isinstance(sent, bytes)
    assert Block(sent, EMPTY_SCHEMA).bodies() == [b"1", b"2"]


def test_wrong_input_raises_and_changes_nothing() -> None:
    desk = Desk().connected()
    wrong: list[tuple[Input, type[InvalidInput]]] = [
        (PublishCalled("a/#", {}, b"", 0), TopicError),
        (PublishCalled("t", {"a": float("nan")}, b"", 0), InvalidInput),
        (PublishCalled("t", {}, bytes((1 << 20) + 1), 0), BodyTooLarge),
        (PublishManyCalled("t", {"a": [1, 2]}, [b""], 0), InvalidInput),
        (SubscribeRequested(ONE, "a/#/b"), TopicError),
        (SubscribeRequested(ONE, "a", "n >"), FilterError),
    ]
    for happened, error in wrong:
        with pytest.raises(error):
            desk.tell(happened)
    assert desk.tell(TurnEnded()) == []
    assert desk.client.subscriber.subscriptions == {}


def test_a_full_buffer_makes_publishers_wait_and_tells_them_when_there_is_room() -> None:
    desk = Desk(buffer=100_000).connected(
        Welcome(node="b", boot=1, principal="p", window=50_000, largest_body=1 << 20, heartbeat=5.0)
    )
    assert desk.client.room
    desk.tell(PublishManyCalled("t", {}, [bytes(10_000)] * 20, 0))
    assert not desk.client.room
    effects = desk.tell(TurnEnded())
    assert ResumePublishing() not in effects
    assert not desk.client.room
    effects = desk.hear(Credit(1 << 20))
    assert told(effects) == [ResumePublishing()]
    assert desk.client.room
    assert told(desk.tell(TurnEnded())) == []


def test_only_the_brokers_credit_lets_events_go() -> None:
    desk = Desk().connected(Welcome(node="b", boot=1, principal="p", window=1000, largest_body=1 << 20, heartbeat=5.0))
    first = said(desk.tell(PublishCalled("t", {}, bytes(2000), 0), TurnEnded()))
    assert len(first) == 2
    assert said(desk.tell(PublishCalled("t", {}, b"later", 0), TurnEnded())) == []
    (sent,) = said(desk.hear(Credit(1 << 20)))
    assert isinstance(sent, bytes)
    assert Block(sent, EMPTY_SCHEMA).bodies() == [b"later"]


# ---- flushing


def test_a_flush_settles_when_its_echo_comes() -> None:
    desk = Desk().connected()
    desk.tell(PublishCalled("t", {}, b"x", 0))
    words = said(desk.tell(FlushRequested(7)))
    assert isinstance(words[1], bytes)
    assert words[2:] == [Ping(7)], "behind what was offered before it"
    assert told(desk.hear(Pong(8))) == []
    assert told(desk.hear(Pong(7))) == [CompleteFlush(7)]
    assert told(desk.hear(Pong(7))) == []


def test_a_flush_waits_until_everything_before_it_has_left() -> None:
    desk = Desk().connected(Welcome(node="b", boot=1, principal="p", window=100, largest_body=1 << 20, heartbeat=5.0))
    desk.tell(PublishManyCalled("t", {}, [bytes(60_000)] * 3, 0))
    assert Ping(7) not in said(desk.tell(FlushRequested(7)))
    assert Ping(7) not in said(desk.hear(Credit(60_200)))
    assert said(desk.hear(Credit(1 << 30)))[-1] == Ping(7)


def test_a_flush_is_settled_with_the_reason_when_the_link_breaks() -> None:
    desk = Desk().connected()
    desk.tell(PublishCalled("t", {}, b"x", 0), FlushRequested(7), FlushRequested(8))
    effects = desk.tell(LinkLost(desk.link, "cable cut"))
    assert told(effects) == [Disconnect("cable cut"), CompleteFlush(7, "cable cut"), CompleteFlush(8, "cable cut")]


def test_a_flush_while_offline_waits_for_the_link() -> None:
    desk = Desk()
    desk.tell(PublishCalled("t", {}, b"x", 0), FlushRequested(7))
    desk.open()
    assert said(desk.hear(PREAMBLE, WELCOME))[-1] == Ping(7)
    assert told(desk.hear(Pong(7))) == [CompleteFlush(7)]


def test_a_flush_never_claims_what_was_lost_with_a_link() -> None:
    """Part of what was offered left on a link that broke, the rest waited for credit: nobody knows about the first."""
    desk = Desk().connected(Welcome(node="b", boot=1, principal="p", window=100, largest_body=1 << 20, heartbeat=5.0))
    desk.tell(PublishManyCalled("t", {}, [bytes(60_000)] * 3, 0))
    effects = desk.tell(FlushRequested(7))
    effects += desk.tell(LinkLost(desk.link, "cable cut"))
    desk.open()
    effects += desk.hear(PREAMBLE, WELCOME)
    effects += desk.hear(Pong(7))
    assert CompleteFlush(7) not in effects
    assert CompleteFlush(7, "cable cut") in effects


def test_a_flush_asked_for_after_a_break_tells_that_something_may_be_lost() -> None:
    desk = Desk().connected()
    desk.tell(PublishCalled("t", {}, b"sent, and perhaps lost", 0), TurnEnded())
    desk.tell(LinkLost(desk.link, "cable cut"))
    desk.open()
    desk.hear(PREAMBLE, WELCOME)
    effects = [*desk.tell(FlushRequested(7)), *desk.hear(Pong(7))]
    (settled,) = [each for each in effects if isinstance(each, CompleteFlush)]
    assert settled.reason
    effects = [*desk.tell(FlushRequested(8)), *desk.hear(Pong(8))]
    assert told(effects) == [CompleteFlush(8)], "told once"


def test_a_break_that_lost_nothing_fails_no_flush() -> None:
    desk = Desk().connected()
    desk.tell(PublishCalled("t", {}, b"x", 0), FlushRequested(7))
    desk.hear(Pong(7))
    desk.tell(LinkLost(desk.link, "cable cut"))
    desk.tell(PublishCalled("t", {}, b"offline", 0))
    desk.open()
    desk.hear(PREAMBLE, WELCOME)
    desk.tell(FlushRequested(8))
    assert told(desk.hear(Pong(8))) == [CompleteFlush(8)]


# ---- status


def test_a_status_is_asked_for_and_told() -> None:
    desk = Desk().connected()
    assert said(desk.tell(Asked(StatusRequest(5)))) == [StatusRequest(5)]
    assert told(desk.hear(StatusReport(5, msgspec.Raw(b"\xa2hi")))) == [
        AnswerQuery(StatusReport(5, msgspec.Raw(b"\xa2hi")))
    ]


def test_a_status_without_a_link_is_refused_at_once() -> None:
    assert told(Desk().tell(Asked(StatusRequest(5)))) == [CompleteFlush(5, "not connected")]


def test_a_status_that_will_never_come_is_settled() -> None:
    desk = Desk().connected()
    desk.tell(Asked(StatusRequest(5)))
    assert CompleteFlush(5, "cable cut") in desk.tell(LinkLost(desk.link, "cable cut"))


# ---- subscribing


def test_a_wish_is_told_confirmed_and_told_again_after_a_reconnect() -> None:
    desk = Desk()
    desk.tell(SubscribeRequested(ONE, "a/#"), SubscribeRequested(TWO, "b", "n > 1"))
    desk.open()
    words = said(desk.hear(PREAMBLE, WELCOME))
    assert words == [Subscription(ONE, "a/#"), Subscription(TWO, "b", "n > 1")]
    assert told(desk.hear(Receipt(ONE), Receipt(TWO))) == [ConfirmSubscription(ONE), ConfirmSubscription(TWO)]
    desk.tell(LinkLost(desk.link, "cut"))
    desk.open()
    assert said(desk.hear(PREAMBLE, WELCOME)) == words
    assert told(desk.hear(Receipt(TWO))) == [ConfirmSubscription(TWO)]


def test_a_refused_wish_is_denied_and_not_asked_for_again() -> None:
    desk = Desk().connected()
    desk.tell(SubscribeRequested(ONE, "a"))
    assert told(desk.hear(Receipt(ONE, Refusal.TOO_MANY, "no"))) == [DenySubscription(ONE, Refusal.TOO_MANY, "no")]
    desk.tell(LinkLost(desk.link, "cut"))
    desk.open()
    assert said(desk.hear(PREAMBLE, WELCOME)) == []


def test_an_unwish_is_told_and_its_receipt_is_no_news() -> None:
    desk = Desk().connected()
    desk.tell(SubscribeRequested(ONE, "a"))
    assert said(desk.tell(UnsubscribeRequested(ONE))) == [Unsubscription(ONE)]
    assert told(desk.hear(Receipt(ONE))) == []
    offline = Desk()
    offline.tell(SubscribeRequested(ONE, "a"), UnsubscribeRequested(ONE))
    offline.open()
    assert said(offline.hear(PREAMBLE, WELCOME)) == []


def test_events_are_delivered_on_demand_and_their_credit_given_back() -> None:
    desk = Desk(window=70_000).connected()
    desk.tell(SubscribeRequested(ONE, "t"))
    sent = events("t", 1, body=bytes(40_000))
    assert told(desk.hear(Topic(topic_id("t"), "t"), sent)) == []
    effects = desk.tell(MoreRequested(ONE))
    (delivery,) = told(effects)
    assert isinstance(delivery, Deliver)
    assert (delivery.subscription, b"".join(block.frame for block in delivery.blocks), delivery.missed) == (
        ONE,
        sent,
        0,
    )
    assert said(effects) == [Credit(70_000 + len(sent))]
    assert told(desk.tell(MoreRequested(ONE))) == []
    assert [type(each) for each in told(desk.hear(events("t", 2)))] == [Deliver], "as soon as something comes"
    assert told(desk.hear(events("t", 3))) == [], "once per demand"


def test_credit_for_bytes_of_an_older_link_is_not_given_on_the_new_one() -> None:
    desk = Desk(window=70_000).connected()
    desk.tell(SubscribeRequested(ONE, "t"))
    desk.hear(Topic(topic_id("t"), "t"), events("t", 1, body=bytes(40_000)))
    desk.tell(LinkLost(desk.link, "cut"))
    desk.open()
    desk.hear(PREAMBLE, WELCOME)
    assert said(desk.tell(MoreRequested(ONE))) == [], "nothing has come over this link yet"


def test_what_the_broker_dropped_is_told_with_the_next_delivery() -> None:
    desk = Desk().connected()
    desk.tell(SubscribeRequested(ONE, "t"))
    effects = desk.hear(Topic(topic_id("t"), "t"), Missed({ONE: 5, TWO: 7}), events("t", 9))
    assert Report("warning", "events missed", {"events": 12}) in effects
    (delivery,) = told(desk.tell(MoreRequested(ONE)))
    assert isinstance(delivery, Deliver)
    assert delivery.missed == 5


def test_a_demand_for_what_is_not_wished_is_nothing() -> None:
    assert Desk().connected().tell(MoreRequested(TWO)) == []


def test_damaged_events_are_never_delivered() -> None:
    desk = Desk().connected()
    desk.tell(SubscribeRequested(ONE, "t"), MoreRequested(ONE))
    broken = bytearray(events("t", 1))
    broken[-1] ^= 1
    effects = desk.hear(Topic(topic_id("t"), "t"), bytes(broken))
    assert [each for each in told(effects) if isinstance(each, Deliver)] == []


def test_events_that_nobody_defined_are_refused() -> None:
    desk = Desk().connected()
    desk.tell(SubscribeRequested(ONE, "t"))
    (rejection,) = said(desk.hear(events("t")))
    assert isinstance(rejection, Rejection)
    assert rejection.code is Refusal.PROTOCOL


@pytest.mark.parametrize("length", [12, 40, 63])
def test_an_events_frame_shorter_than_its_header_is_refused(length: int) -> None:
    desk = Desk().connected()
    desk.tell(SubscribeRequested(ONE, "t"))
    desk.hear(Topic(topic_id("t"), "t"), events("t"))
    with guarded():
        effects = desk.hear(length.to_bytes(4, "little") + events("t")[4:length], bytes(100))
    assert [type(each) for each in told(effects)] == [Disconnect]


def test_a_schema_that_cannot_be_is_refused() -> None:
    effects = Desk().connected().hear(SchemaDefinition(Schema(("a",), ())))
    assert [type(each) for each in told(effects)] == [Disconnect]


# ---- the end


def test_it_leaves_in_good_order() -> None:
    desk = Desk().connected()
    desk.tell(PublishCalled("t", {}, b"last", 0))
    effects = desk.tell(StopRequested())
    topic, sent, farewell = said(effects)
    assert isinstance(sent, bytes)
    assert Block(sent, EMPTY_SCHEMA).bodies() == [b"last"]
    assert (topic, farewell) == (Topic(topic_id("t"), "t"), Farewell())
    assert effects[-1] == Close(desk.link, "the client left")
    assert [each for each in effects if isinstance(each, StopTimer)] == [
        StopTimer(ClientTick()),
        StopTimer(RedialBroker()),
        StopTimer(WelcomeTimeout()),
    ]
    assert desk.tell(LinkLost(desk.link, "later"), Received(desk.link, b"x")) == []


def test_it_leaves_while_it_dials() -> None:
    desk = Desk()
    desk.tell(Started())
    assert [each for each in desk.tell(StopRequested()) if not isinstance(each, StopTimer)] == []
    assert desk.tell(LinkOpened(LinkId(1), dialled=True)) == [Close(LinkId(1), "no longer wanted")]
    assert desk.tell(LinkLost(LinkId(1), "x")) == []
