"""The broker, stepped: greetings, refusals, forwarding, fencing, limits, heartbeats, status and its own life."""

from typing import TYPE_CHECKING

import msgspec
import pytest

from stentor.machine import (
    SECOND,
    Append,
    Appended,
    AppendFailed,
    Close,
    LinkLost,
    LinkOpened,
    Received,
    Send,
    Serve,
    Started,
    StartTimer,
    Stop,
    StopRequested,
    StopTimer,
    TimerFired,
)
from stentor.model.attribute import Kind, Schema
from stentor.model.errors import Refusal
from stentor.model.ids import Incarnation, LinkId, SubscriptionId, topic_id
from stentor.model.limits import Limits
from stentor.model.messages import (
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
    Topic,
    Unsubscription,
    Welcome,
)
from stentor.model.reports.status import NodeStatus
from stentor.model.scope import ScopePath
from stentor.nodes.broker.broker import Broker
from stentor.nodes.broker.deferred_work import DeferredWork, DeferredWorkDue
from stentor.nodes.broker.heartbeats import BrokerTick
from stentor.nodes.broker.link_session import HelloTimeout
from stentor.nodes.client_api import Disconnect
from stentor.protocols.dissemination.held_parcels import HeldRun
from stentor.protocols.dissemination.parcel_sender import ParcelHistory
from stentor.wire import frame
from stentor.wire.block import Block
from stentor.wire.frame import LARGEST_CONTROL, LARGEST_GREETING, PREAMBLE

if TYPE_CHECKING:
    from tests.unit.nodes.conftest import Peer, Stage

NUMBERED = Schema(("n",), (Kind.INTEGER,))
ONE = SubscriptionId(1)


def rejected(peer: "Peer", *words: "Message | bytes") -> Rejection:
    """The last word to a peer who said this."""
    answer = peer.say(*words)
    assert isinstance(answer[-1], Rejection), answer
    assert peer.closed == answer[-1].reason
    return answer[-1]


# ---- the node's own life


def test_it_serves_when_its_boot_number_is_durable() -> None:
    broker = Broker(ScopePath.parse("b"), Limits())
    assert broker.step(0, Started()) == [Append("boot", 1, (b"1",))]
    assert not broker.ready
    assert broker.step(5, Appended("boot", 1)) == [StartTimer(BrokerTick(), 5 + 5 * SECOND // 2), Serve()]
    assert broker.ready


def test_each_boot_has_the_next_number() -> None:
    broker = Broker(ScopePath.parse("b"), Limits())
    assert broker.step(0, Started({"boot": [b"1", b"41"]})) == [Append("boot", 42, (b"42",))]


def test_it_stops_if_its_boot_number_cannot_be_written() -> None:
    broker = Broker(ScopePath.parse("b"), Limits())
    broker.step(0, Started())
    assert broker.step(0, AppendFailed("boot", 1, "disk full")) == [Stop("cannot write the boot log: disk full")]
    assert not broker.ready


def test_a_link_before_it_is_ready_is_asked_to_try_again() -> None:
    broker = Broker(ScopePath.parse("b"), Limits())
    broker.step(0, Started())
    send, close, *_ = broker.step(0, LinkOpened(LinkId(1)))
    assert isinstance(send, Send)
    assert b"".join(send.data) == PREAMBLE + frame.encode(
        Rejection(Refusal.BUSY, "this node is still starting: try again")
    )
    assert isinstance(close, Close)


def test_when_stopped_it_says_goodbye_to_everyone_and_takes_no_more(stage: "Stage") -> None:
    one, stranger = stage.peer("one"), stage.peer()
    one.hear()
    effects = stage.tell_broker(StopRequested())
    assert StopTimer(BrokerTick()) in effects
    stage.run()
    assert one.hear() == [Farewell("the broker is stopping")]
    assert one.closed == stranger.closed == "the broker is stopping"
    late = stage.peer()
    assert isinstance(late.hear()[-1], Rejection)
    assert not stage.broker.ready


# ---- greetings


def test_hello_is_answered_with_the_brokers_limits(new_stage: "type[Stage]") -> None:
    stage = new_stage(Limits(window=70_000, largest_body=5000, heartbeat=2.0))
    peer = stage.peer(principal="alice")
    limits = Welcome(
        node="campus/b1",
        boot=1,
        principal="alice",
        window=70_000,
        largest_body=5000,
        heartbeat=2.0,
        agent="test",
        ahead=70_000,
        is_operator=True,
    )
    assert peer.greet("me") == [limits]


def test_who_has_no_certificate_is_anonymous(stage: "Stage") -> None:
    (welcome,) = stage.peer().greet("me")
    assert welcome.principal == "anonymous"


@pytest.mark.parametrize(
    ("asked", "given"),
    [(0.0, 5.0), (1.0, 5.0), (60.0, 60.0), (1e9, 3600.0)],
)
def test_a_client_may_ask_for_slower_heartbeats_within_reason(stage: "Stage", asked: float, given: float) -> None:
    (welcome,) = stage.peer().say(
        PREAMBLE, Hello(name="me", incarnation=Incarnation(1), window=1 << 20, heartbeat=asked)
    )
    assert welcome.heartbeat == given


@pytest.mark.parametrize(
    "hello",
    [
        Hello(name="", incarnation=Incarnation(1), window=1 << 20),
        Hello(name="x" * 256, incarnation=Incarnation(1), window=1 << 20),
        Hello(name="a\nb", incarnation=Incarnation(1), window=1 << 20),
        Hello(name="a\0", incarnation=Incarnation(1), window=1 << 20),
        Hello(name="a\u202e", incarnation=Incarnation(1), window=1 << 20),
        Hello(name="a", incarnation=Incarnation(-1), window=1 << 20),
        Hello(name="a", incarnation=Incarnation(1 << 48), window=1 << 20),
        Hello(name="a", incarnation=Incarnation(1), window=65535),
        Hello(name="a", incarnation=Incarnation(1), window=-1),
        Hello(name="a", incarnation=Incarnation(1), window=1 << 20, heartbeat=-1.0),
        Hello(name="a", incarnation=Incarnation(1), window=1 << 20, heartbeat=float("nan")),
        Hello(name="a", incarnation=Incarnation(1), window=1 << 20, heartbeat=float("inf")),
    ],
)
def test_a_hello_that_cannot_be_is_refused(stage: "Stage", hello: Hello) -> None:
    assert rejected(stage.peer(), PREAMBLE, hello).code is Refusal.PROTOCOL


def test_the_limits_of_a_hello_are_inclusive(stage: "Stage") -> None:
    for hello in (
        Hello(name="x" * 255, incarnation=Incarnation((1 << 48) - 1), window=65536),
        Hello(name="été", incarnation=Incarnation(0), window=2**62),
    ):
        assert isinstance(stage.peer().say(PREAMBLE, hello)[0], Welcome)


def test_a_second_hello_is_refused(stage: "Stage") -> None:
    peer = stage.peer("me")
    assert "said before" in rejected(peer, Hello(name="other", incarnation=Incarnation(1), window=1 << 20)).reason


@pytest.mark.parametrize(
    "word",
    [
        Topic(topic_id("t"), "t"),
        SchemaDefinition(NUMBERED),
        Subscription(ONE, "#"),
        Unsubscription(ONE),
        Credit(5),
        Ping(1),
        StatusRequest(1),
        Farewell(),
    ],
)
def test_nothing_else_is_heard_before_hello(stage: "Stage", word: Message) -> None:
    peer = stage.peer()
    rejection = rejected(peer, PREAMBLE, word)
    assert rejection == Rejection(Refusal.PROTOCOL, f"the message {word.tag!r} has no place here")


def test_events_before_hello_are_refused(stage: "Stage") -> None:
    peer = stage.peer()
    assert rejected(peer, PREAMBLE, peer.events("t")).code is Refusal.PROTOCOL


@pytest.mark.parametrize(
    "word",
    [
        Welcome(node="n", boot=1, principal="p", window=1, largest_body=1, heartbeat=5.0),
        Rejection(Refusal.BUSY, "no"),
        Receipt(ONE),
        Missed({ONE: 1}),
        Pong(1),
        StatusReport(1, msgspec.Raw(b"\x01")),
    ],
)
def test_a_brokers_own_words_have_no_place_in_a_clients_mouth(stage: "Stage", word: Message) -> None:
    assert rejected(stage.peer("me"), word).code is Refusal.PROTOCOL


def test_a_peer_that_says_nothing_is_refused_after_three_seconds(stage: "Stage") -> None:
    silent, spoken = stage.peer(), stage.peer("me")
    halfway = stage.peer()
    halfway.say(PREAMBLE)
    stage.wait(2.9)
    assert silent.closed is None
    stage.wait(0.2)
    for peer in (silent, halfway):
        assert peer.hear()[-1] == Rejection(Refusal.SILENT, "no hello within 3 s")
        assert peer.closed is not None
    assert spoken.closed is None
    assert not [who for who in stage.timers if isinstance(who[1], HelloTimeout)], "no timer is left behind"


def test_a_timer_that_fires_late_harms_nobody(stage: "Stage") -> None:
    peer = stage.peer("me")
    assert stage.tell_broker(TimerFired(HelloTimeout(peer.link))) == []
    assert stage.tell_broker(TimerFired(HelloTimeout(LinkId(999)))) == []


def test_another_protocol_is_named_and_another_version_told(stage: "Stage") -> None:
    browser = rejected(stage.peer(), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert browser.code is Refusal.PROTOCOL
    assert "a web browser" in browser.reason
    newer = rejected(
        stage.peer(), b"STENTOR\x01" + frame.encode(Hello(name="me", incarnation=Incarnation(1), window=1 << 20))
    )
    assert newer.code is Refusal.VERSION


def test_a_preamble_in_pieces_is_fine(stage: "Stage") -> None:
    peer = stage.peer()
    for byte in PREAMBLE:
        assert peer.say(bytes([byte])) == []
    assert isinstance(peer.say(Hello(name="me", incarnation=Incarnation(1), window=1 << 20))[0], Welcome)


# ---- limits on bytes


@pytest.mark.parametrize("kind", [1, 2])
def test_a_frame_of_ten_megabytes_is_refused_at_its_header(stage: "Stage", kind: int) -> None:
    peer = stage.peer("me")
    header = (10_000_000).to_bytes(4, "little") + bytes([kind, 1])
    rejection = rejected(peer, header)
    assert rejection.code is Refusal.TOO_LARGE
    assert "10000000 bytes" in rejection.reason
    again = Close(peer.link, "nobody here knows this link")
    assert stage.tell_broker(Received(peer.link, bytes(1000))) == [again], "whatever else comes is not even looked at"


def test_a_stranger_has_four_kibibytes(stage: "Stage") -> None:
    header = (LARGEST_GREETING + 1).to_bytes(4, "little") + b"\x02\x01"
    assert rejected(stage.peer(), PREAMBLE, header).code is Refusal.TOO_LARGE
    waiting = stage.peer()
    assert waiting.say(PREAMBLE, LARGEST_GREETING.to_bytes(4, "little") + b"\x02\x01" + bytes(4000)) == []


def test_a_control_frame_has_one_mebibyte_even_where_events_may_be_larger(new_stage: "type[Stage]") -> None:
    peer = new_stage(Limits(largest_body=10 << 20)).peer("me")
    header = (LARGEST_CONTROL + 1).to_bytes(4, "little") + b"\x02\x01"
    assert rejected(peer, header).code is Refusal.TOO_LARGE


def test_a_body_may_be_as_large_as_the_limit(stage: "Stage") -> None:
    peer = stage.peer("me")
    peer.define("t")
    peer.subscribe(1, "t")
    sent = peer.events("t", body=bytes(1 << 20))
    heard = peer.say(sent)
    assert heard[:1] == [Topic(topic_id("t"), "t")]
    assert sent in heard


def test_a_frame_held_halfway_is_completed_by_the_rest(stage: "Stage") -> None:
    peer = stage.peer("me")
    peer.define("t")
    peer.subscribe(1, "t")
    sent = peer.events("t", body=bytes(100_000))
    for start in range(0, len(sent), 30_000):
        heard = peer.say(sent[start : start + 30_000])
    assert heard[-1] == sent


# ---- events


def test_events_reach_who_subscribed_with_definitions_in_front(stage: "Stage") -> None:
    publisher, subscriber, other = stage.peer("p"), stage.peer("s"), stage.peer("o")
    assert subscriber.subscribe(1, "a/#")[-1] == Receipt(ONE)
    other.subscribe(1, "b/#")
    publisher.define("a/x")
    sent = publisher.events("a/x", 1, [1, 2])
    assert publisher.say(sent) == []
    assert subscriber.hear() == [Topic(topic_id("a/x"), "a/x"), SchemaDefinition(NUMBERED), sent]
    assert other.hear() == []
    again = publisher.events("a/x", 3, [3])
    publisher.say(again)
    assert subscriber.hear() == [again], "told once"


def test_a_filter_gets_just_what_matches(stage: "Stage") -> None:
    publisher, subscriber = stage.peer("p"), stage.peer("s")
    subscriber.subscribe(1, "t", "n > 2")
    publisher.define("t")
    publisher.say(publisher.events("t", 1, [1, 2, 3, 4]), publisher.events("t", 5, [0]))
    *_, chosen = subscriber.hear()
    assert Block(chosen, NUMBERED).bodies() == [b"3", b"4"]


def test_control_and_events_of_one_chunk_are_taken_in_order(stage: "Stage") -> None:
    peer = stage.peer("me")
    heard = peer.say(
        Subscription(ONE, "t"),
        Topic(topic_id("t"), "t"),
        peer.events("t", 1),
        Ping(1),
        Unsubscription(ONE),
        peer.events("t", 2),
        Ping(2),
    )
    assert [word for word in heard if isinstance(word, bytes)] == [peer.events("t", 1)]
    assert [word for word in heard if isinstance(word, Pong)] == [Pong(1), Pong(2)]


def test_an_echo_says_that_everything_before_was_taken_in(stage: "Stage") -> None:
    peer = stage.peer("me")
    peer.define("t")
    assert peer.say(*(peer.events("t", number) for number in range(1, 50)), Ping(7)) == [Pong(7)]
    assert stage.broker.status(0).events_in == 49


def test_a_subscription_that_is_refused_costs_no_link(stage: "Stage") -> None:
    peer = stage.peer("me")
    (receipt,) = peer.subscribe(5, "a/#/b")
    assert (receipt.id, receipt.code) == (5, Refusal.TOPIC)
    (receipt,) = peer.subscribe(6, "a", "n >")
    assert (receipt.id, receipt.code) == (6, Refusal.FILTER)
    assert peer.closed is None
    assert stage.broker.status(0).refused == {"filter": 1, "topic": 1}


def test_too_many_subscriptions_are_refused_one_by_one(new_stage: "type[Stage]") -> None:
    stage = new_stage(Limits(subscriptions_per_client=2, subscriptions=3))
    one, two = stage.peer("one"), stage.peer("two")
    codes = [one.subscribe(number, "t")[-1].code for number in (1, 2, 3)]
    assert codes == [None, None, Refusal.TOO_MANY]
    assert [two.subscribe(number, "t")[-1].code for number in (1, 2)] == [None, Refusal.TOO_MANY]
    one.say(Farewell())
    assert two.subscribe(2, "t")[-1].code is None


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ((7, 1), Refusal.PROTOCOL),  # hop bits
        ((6, 0x42), Refusal.PROTOCOL),  # flags
        ((16, 0xEE), Refusal.FORGED),  # another publisher
        ((8, 0xEE), Refusal.TOPIC),  # an undefined topic
        ((24, 0xEE), Refusal.SCHEMA),  # an undefined schema
    ],
)
def test_a_wrong_flow_costs_its_sender_the_link_and_nobody_else(
    stage: "Stage", change: tuple[int, int], code: Refusal
) -> None:
    bad, good, subscriber = stage.peer("bad"), stage.peer("good"), stage.peer("s")
    subscriber.subscribe(1, "#")
    for peer in (bad, good):
        peer.define("t")
    frame_ = bytearray(bad.events("t"))
    frame_[change[0]] ^= change[1]
    assert rejected(bad, bytes(frame_)).code is code
    subscriber.hear()
    sent = good.events("t")
    good.say(sent)
    assert subscriber.hear()[-1] == sent
    assert subscriber.closed is None


def test_nobody_publishes_under_the_name_of_another_principal(stage: "Stage") -> None:
    mallory = stage.peer("alice", principal="mallory")
    alice = stage.peer("alice", principal="alice")
    mallory.define("t")
    assert rejected(mallory, alice.events("t")).code is Refusal.FORGED


def test_an_events_frame_shorter_than_its_header_is_refused(stage: "Stage") -> None:
    peer = stage.peer("me")
    peer.define("t")
    peer.say(peer.events("t"))
    short = (40).to_bytes(4, "little") + peer.events("t")[4:40]
    assert rejected(peer, short + bytes(200)).code is Refusal.PROTOCOL


def test_a_wrong_definition_is_refused(stage: "Stage") -> None:
    assert rejected(stage.peer("a"), Topic(topic_id("t"), "u")).code is Refusal.TOPIC
    assert rejected(stage.peer("b"), Topic(topic_id("#"), "#")).code is Refusal.TOPIC
    assert rejected(stage.peer("c"), SchemaDefinition(Schema(("a",), ()))).code is Refusal.SCHEMA


def test_a_publisher_of_damaged_events_costs_no_subscriber_its_link(stage: "Stage") -> None:
    subscriber = stage.client("s")
    subscriber.subscribe(1, "t")
    wanted = []
    for number, damage in enumerate(("checksum", "count", "columns", "size")):
        publisher = stage.peer(f"p{number}")
        publisher.define("t")
        bad = bytearray(publisher.events("t", 1, body=b"bad"))
        if damage == "checksum":
            bad[60] ^= 1
        elif damage == "count":
            bad[32:34] = b"\0\0"
        elif damage == "columns":
            bad[56:60] = b"\xff\xff\xff\xff"
        else:
            bad[-4:] = b"\xff\xff\xff\xff"
        publisher.say(bytes(bad))
        honest = stage.peer(f"honest{number}")
        honest.define("t")
        honest.say(honest.events("t", 1, body=damage.encode()))
        wanted.append(damage.encode())
    assert [body for _, _, body in subscriber.read(1)] == wanted
    assert subscriber.heard(Disconnect) == []


# ---- flow control


def test_a_publisher_is_granted_more_as_it_goes(new_stage: "type[Stage]") -> None:
    peer = new_stage(Limits(window=100_000)).peer("p")
    peer.define("t")
    sent, limit = 0, 100_000
    for number in range(1, 30):
        data = peer.events("t", number, body=bytes(10_000))
        assert sent + len(data) <= limit, "who keeps to its credit never starves"
        sent += len(data)
        for word in peer.say(data):
            assert isinstance(word, Credit)
            limit = word.limit
            assert limit <= sent + 100_000


@pytest.mark.req("CO-12")
def test_a_publisher_is_granted_nothing_while_half_of_the_room_for_held_events_is_used(
    new_stage: "type[Stage]",
) -> None:
    stage = new_stage(Limits(window=100_000))
    peer, held = stage.peer("p"), stage.broker.network.relay.held
    peer.define("t")
    held.append(HeldRun(1, (0,), (), {0: 2}, {}, bytes(33 << 20), 1, ParcelHistory(0, 0, bytes(8))))
    assert [peer.say(peer.events("t", number, body=bytes(10_000))) for number in range(1, 10)] == [[]] * 9
    held.take()
    (pong, credit) = peer.say(Ping(1))
    assert isinstance(credit, Credit)
    assert credit.limit > 150_000
    assert pong == Pong(1)


def test_a_slow_subscriber_waits_bounded_is_told_and_harms_nobody(new_stage: "type[Stage]") -> None:
    stage = new_stage(Limits(window=70_000, queue=50_000))
    publisher, fast, slow = stage.peer("p"), stage.client("fast", window=70_000), stage.peer()
    slow.say(PREAMBLE, Hello(name="slow", incarnation=Incarnation(1), window=70_000))
    slow.subscribe(3, "t")
    fast.subscribe(1, "t")
    publisher.define("t")
    for number in range(1, 101):
        publisher.say(publisher.events("t", number, body=bytes(10_000)))
        assert len(fast.read(1)) == 1
    status = stage.broker.status(0)
    assert status.slow == 1
    assert 0 < status.queued <= 50_000
    assert status.links[0].name == "slow"
    heard = [word for word in slow.hear() if isinstance(word, bytes)]
    dropped = status.dropped["slow subscriber"]
    assert len(heard) == 7
    assert dropped == 100 - 7 - status.queued // len(heard[0])
    rest = slow.say(Credit(10_000_000))
    assert rest[0] == Missed({SubscriptionId(3): dropped})
    assert [Block(word, NUMBERED).catenation for word in rest[1:]] == list(range(8 + dropped, 101))


@pytest.mark.parametrize("window", [1 << 16, 1 << 20, 1 << 24])
def test_a_client_with_another_window_than_the_brokers_gets_everything(new_stage: "type[Stage]", window: int) -> None:
    stage = new_stage(Limits(window=70_000))
    publisher, subscriber = stage.peer("p"), stage.client("s", window=window)
    subscriber.subscribe(1, "t")
    publisher.define("t")
    for number in range(1, 51):
        publisher.say(publisher.events("t", number, body=bytes(10_000)))
        assert len(subscriber.read(1)) == 1


# ---- names


def test_a_newer_incarnation_fences_the_older_off(stage: "Stage") -> None:
    old = stage.peer()
    old.greet("me", incarnation=5)
    old.subscribe(1, "t")
    new = stage.peer()
    assert isinstance(new.greet("me", incarnation=6)[0], Welcome)
    last = old.hear()[-1]
    assert (last.code, old.closed) == (Refusal.FENCED, "another client with the name 'me' took over")
    assert stage.broker.status(0).subscriptions == 0, "its wishes went with it"
    assert stage.broker.status(0).clients == 1
    assert stage.tell_broker(Received(old.link, b"late words")) == [Close(old.link, "nobody here knows this link")]
    assert stage.tell_broker(LinkLost(old.link, "late news")) == []
    assert new.say(Ping(1)) == [Pong(1)]


def test_an_older_incarnation_is_refused_while_the_newer_is_there(stage: "Stage") -> None:
    new, old = stage.peer(), stage.peer()
    new.greet("me", incarnation=6)
    (rejection,) = old.greet("me", incarnation=5)
    assert rejection.code is Refusal.FENCED
    assert new.say(Ping(1)) == [Pong(1)]
    new.say(Farewell())
    assert isinstance(stage.peer().greet("me", incarnation=5)[0], Welcome)


def test_the_same_incarnation_on_a_new_link_takes_over(stage: "Stage") -> None:
    first, second = stage.peer(), stage.peer()
    first.greet("me", incarnation=5)
    assert isinstance(second.greet("me", incarnation=5)[0], Welcome)
    assert first.closed is not None


def test_one_name_of_two_principals_is_two_clients(stage: "Stage") -> None:
    one, two = stage.peer("me", principal="alice"), stage.peer("me", principal="bob")
    assert one.closed is None
    assert two.closed is None
    assert stage.broker.status(0).clients == 2


# ---- links


def test_too_many_links_are_refused_and_the_others_stay(new_stage: "type[Stage]") -> None:
    stage = new_stage(Limits(links=2))
    one, two = stage.peer("one"), stage.peer("two")
    three = stage.peer()
    (rejection,) = three.hear()
    assert rejection == Rejection(Refusal.TOO_MANY, "this node takes 2 links: use another one")
    assert one.say(Ping(1))[-1] == Pong(1)
    stage.tell_broker(LinkLost(two.link, "gone"))
    assert isinstance(stage.peer().greet("three")[0], Welcome)


def test_a_farewell_ends_a_link_without_a_complaint(stage: "Stage") -> None:
    peer = stage.peer("me")
    assert peer.say(Ping(1), Farewell("bye"), Ping(2))[-1] == Pong(1)
    assert peer.closed == "the client left"
    assert stage.broker.status(0).clients == 0
    assert [report for report in stage.reports if report.level == "warning"] == []


def test_whoever_is_refused_is_reported(stage: "Stage") -> None:
    rejected(stage.peer("me"), b"\xff" * 100)
    (report,) = [report for report in stage.reports if report.what == "peer refused"]
    assert report.level == "warning"
    assert report.details["client"] == "me"
    assert report.details["address"] == "127.0.0.1:1"
    assert stage.broker.status(0).refused == {"protocol": 1}


def test_nothing_is_left_of_clients_that_came_and_went(stage: "Stage") -> None:
    for number in range(30):
        publisher, subscriber = stage.peer(f"p{number}"), stage.peer(f"s{number}")
        subscriber.subscribe(1, f"t/{number}")
        subscriber.subscribe(2, "t/#", "n > 0")
        publisher.define(f"t/{number}")
        publisher.say(publisher.events(f"t/{number}", 1, [1, 2]))
        stage.tell_broker(LinkLost(publisher.link, "gone"))
        subscriber.say(Farewell())
    status = stage.broker.status(0)
    assert (status.clients, status.subscriptions, status.topics, status.queued) == (0, 0, 0, 0)
    table = stage.broker._forwarder.table
    for wanted in (table.filed._whole, table.filed._audiences):
        assert (wanted._exact, wanted._tree._root.branches) == ({}, None)
    assert (table.filed._by_pattern, table._tree._root.branches, table._shared) == ({}, None, {})
    assert (table.slots._numbers, table.slots._destinations) == ({}, {})
    assert len(stage.broker._sessions._names) == 0
    assert set(stage.timers) == {("broker", BrokerTick())}


def test_one_client_cannot_use_up_every_schema_for_ever(stage: "Stage") -> None:
    greedy = stage.peer("greedy")
    for start in range(0, 65_536, 4096):
        words = [SchemaDefinition(Schema((f"a{number}",), (Kind.INTEGER,))) for number in range(start, start + 4096)]
        greedy.say(*words)
    stage.tell_broker(LinkLost(greedy.link, "gone"))
    honest = stage.peer("honest")
    honest.say(SchemaDefinition(Schema(("brand_new",), (Kind.INTEGER,))))
    assert honest.closed is None


# ---- more than a step can do


def wishes(*numbers: int) -> list[Subscription]:
    return [Subscription(SubscriptionId(number), "t", f"n = {number}") for number in numbers]


def test_events_of_others_pass_between_the_subscriptions_of_one_client(stage: "Stage") -> None:
    publisher, plain, greedy = stage.peer("p"), stage.peer("s"), stage.peer("greedy")
    plain.subscribe(1, "t")
    publisher.define("t")
    publisher.say(publisher.events("t", 1))
    plain.hear()
    receipts = greedy.say(*wishes(*range(100)), Ping(5))
    assert 0 < len(receipts) < 10
    assert stage.paused == {greedy.link}
    publisher.say(publisher.events("t", 2))
    assert len(plain.hear()) == 1, "others are served while the greedy one waits"
    greedy.say(*wishes(100, 101))  # read before the pause took hold
    stage.wait(0)
    assert stage.paused == set()
    answers = greedy.hear()
    assert answers == [
        *(Receipt(SubscriptionId(number)) for number in range(len(receipts), 100)),
        Pong(5),
        Receipt(SubscriptionId(100)),
        Receipt(SubscriptionId(101)),
    ]
    assert stage.broker.status(0).subscriptions == 103
    assert set(stage.timers) == {("broker", BrokerTick())}


def test_two_busy_clients_take_turns(stage: "Stage") -> None:
    one, other = stage.peer("one"), stage.peer("other")
    heard = [len(one.say(*wishes(*range(300)))), len(other.say(*wishes(*range(300))))]
    for _ in range(40):
        del stage.timers["broker", DeferredWorkDue()]
        stage.tell_broker(TimerFired(DeferredWorkDue()))
        stage.run()
        heard = [total + len(peer.hear()) for total, peer in zip(heard, (one, other), strict=True)]
    assert max(heard) - min(heard) <= 1
    assert min(heard) > 20
    stage.wait(0)
    assert stage.broker.status(0).subscriptions == 600


def test_a_busy_client_that_leaves_or_errs_leaves_nothing(stage: "Stage") -> None:
    leaver, liar = stage.peer("leaver"), stage.peer("liar")
    leaver.say(*wishes(*range(300)), Farewell())
    liar.say(*wishes(*range(100)), Welcome(node="x", boot=1, principal="y", window=1, largest_body=1, heartbeat=1.0))
    stage.wait(0)
    assert leaver.closed is not None
    assert liar.closed is not None
    assert stage.broker.status(0).subscriptions == 0
    gone = stage.peer("gone")
    gone.say(*wishes(*range(300)))
    stage.tell_broker(LinkLost(gone.link, "cable cut"))
    stage.wait(0)
    assert stage.broker.status(0).subscriptions == 0
    assert set(stage.timers) == {("broker", BrokerTick())}


def test_a_client_that_waits_for_its_turn_is_not_taken_for_silent(
    stage: "Stage", monkeypatch: pytest.MonkeyPatch
) -> None:
    greedy = stage.peer("greedy")
    stage.broker._deferred._left[:] = [0] * len(stage.broker._deferred._left)
    monkeypatch.setattr(DeferredWork, "begin_turn", lambda _: None)  # its turn does not come
    greedy.say(*wishes(*range(50)))
    stage.wait(20)
    assert greedy.closed is None


# ---- heartbeats


def test_a_quiet_link_hears_a_heartbeat_that_tells_its_position(stage: "Stage") -> None:
    peer = stage.peer("me")
    written = len(peer.stream)
    for _ in range(3):
        stage.wait(4)
        peer.say(Ping(0))
        written = len(peer.stream)
    stage.wait(9.9)
    heartbeats = [word for word in peer.hear() if isinstance(word, Heartbeat)]
    assert heartbeats[0] == Heartbeat(written, 0, Limits().window)
    assert peer.closed is None


def test_a_silent_client_is_refused_after_three_heartbeats(stage: "Stage") -> None:
    silent = stage.peer("silent")
    stage.wait(14)
    assert silent.closed is None
    stage.wait(5)
    assert silent.hear()[-1].code is Refusal.SILENT
    assert stage.broker.status(stage.now).clients == 0


def test_any_word_keeps_a_link_alive(stage: "Stage") -> None:
    peer = stage.peer("me")
    written = len(PREAMBLE) + len(frame.encode(Hello(name="me", incarnation=Incarnation(1), window=1 << 20)))
    for _ in range(10):
        stage.wait(10)
        peer.say(Heartbeat(written))
        written += len(frame.encode(Heartbeat(written)))
    assert peer.closed is None


def test_a_node_that_slept_itself_blames_nobody(stage: "Stage") -> None:
    peer = stage.peer("me")
    stage.wait(5)
    stage.now += 3600 * SECOND  # the whole machine was asleep
    stage.timers["broker", BrokerTick()] = stage.now
    stage.wait(0)
    assert peer.closed is None
    stage.wait(20)
    assert peer.closed is not None, "but it is silent from then on"


@pytest.mark.parametrize("shift", [-1, 1, 1000])
def test_a_heartbeat_at_a_wrong_position_breaks_the_link(stage: "Stage", shift: int) -> None:
    peer = stage.peer("me")
    written = len(PREAMBLE) + len(frame.encode(Hello(name="me", incarnation=Incarnation(1), window=1 << 20)))
    rejection = rejected(peer, Heartbeat(written + shift))
    assert rejection.code is Refusal.CORRUPT
    assert f"had written {written + shift} bytes, {written} were read" in rejection.reason


def test_a_heartbeat_in_the_middle_of_a_chunk_is_counted_right(stage: "Stage") -> None:
    peer = stage.peer("me")
    written = len(PREAMBLE) + len(frame.encode(Hello(name="me", incarnation=Incarnation(1), window=1 << 20)))
    marker = frame.encode(Ping(1))
    assert peer.say(marker, Heartbeat(written + len(marker)), marker, b"\x20") == [Pong(1), Pong(1)]
    assert peer.closed is None


# ---- status


def test_status_tells_who_is_there_and_what_went_through(stage: "Stage") -> None:
    publisher, subscriber = stage.peer("p"), stage.peer("s", principal="alice")
    subscriber.subscribe(1, "t")
    subscriber.subscribe(2, "t", "n > 1")
    publisher.define("t", "unheard")
    publisher.say(publisher.events("t", 1, [1, 2, 3]), publisher.events("unheard"))
    stage.now = 7 * SECOND
    (report,) = publisher.say(StatusRequest(99))
    assert report.token == 99
    status = msgspec.msgpack.decode(bytes(report.status), type=NodeStatus)
    assert (status.node, status.role, status.boot, status.version, status.uptime) == (
        "campus/b1",
        "broker",
        1,
        "test",
        7.0,
    )
    assert (status.clients, status.subscriptions, status.topics) == (2, 2, 2)
    assert (status.events_in, status.events_out, status.dropped) == (4, 3, {"no subscriber": 1})
    assert [(each.id, each.accepted, each.rejected) for each in status.interests] == [(1, 3, 0), (2, 2, 1)]
    mine = next(link for link in status.links if link.name == "s")
    assert (mine.principal, mine.subscriptions, mine.events_out, mine.idle) == ("alice", 2, 3, 7.0)
    assert mine.bytes_out == len(subscriber.stream)


def test_totals_outlive_the_links_that_made_them(stage: "Stage") -> None:
    publisher, subscriber = stage.peer("p"), stage.peer("s")
    subscriber.subscribe(1, "t")
    publisher.define("t")
    publisher.say(publisher.events("t", 1, [1, 2]))
    before = stage.broker.status(0)
    publisher.say(Farewell())
    stage.tell_broker(LinkLost(subscriber.link, "gone"))
    after = stage.broker.status(0)
    assert (after.events_in, after.events_out, after.bytes_out) == (
        before.events_in,
        before.events_out,
        before.bytes_out,
    )


def test_a_status_fits_into_a_frame_however_much_there_is_to_tell(stage: "Stage") -> None:
    busy = stage.peer("busy")
    for number in range(600):
        busy.subscribe(number, f"t/{number}/" + "x" * 1000, "a = '" + "y" * 2000 + "'")
    asker = stage.peer("asker")
    (report,) = asker.say(StatusRequest(1))
    assert len(frame.encode(report)) <= LARGEST_CONTROL
