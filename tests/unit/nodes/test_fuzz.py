"""Hostile bytes at both ends: nothing but effects comes out, and whoever behaves is undisturbed."""

import itertools
import zlib
from random import Random
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stentor.machine import SECOND, Effect, LinkLost, LinkOpened, Received, Started, TimerFired
from stentor.model.attribute import EMPTY_SCHEMA, Kind, Schema, Value
from stentor.model.errors import Refusal
from stentor.model.ids import CatenationNumber, Incarnation, LinkId, SubscriptionId, publisher_id, topic_id
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
from stentor.nodes.client import Client, Settings
from stentor.nodes.client_api import Disconnect, FlushRequested, MoreRequested, SubscribeRequested, TurnEnded
from stentor.nodes.client_link import ClientTick, RedialBroker, WelcomeTimeout
from stentor.wire import block, frame
from stentor.wire.block import Block, Origin
from stentor.wire.block_view import BlockView
from stentor.wire.frame import CONTROL, CONTROL_HEADER, PREAMBLE
from stentor.wire.head import HEADER_SIZE

if TYPE_CHECKING:
    from tests.unit.nodes.conftest import Actor, Stage

HOSTILE = "hostile"
ALL_KINDS = Schema(("yes", "n", "price", "who"), (Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.STRING))
TOPICS = ["t", "t/u", "v"]
LIMITS = Limits(largest_body=5000, window=65536, queue=20_000, flows=4, topics=20, subscriptions_per_client=20)


def events(random: Random, first: int) -> bytes:
    """Events of the hostile client: sound, but of every sort."""
    count = random.choice((1, 1, 2, 5, 40))
    origin = Origin(
        topic_id(random.choice(("t", *TOPICS))),
        publisher_id("anonymous", HOSTILE),
        Incarnation(1),
        CatenationNumber(first),
        0,
    )
    bodies = [random.randbytes(random.choice((0, 3, 100))) for _ in range(count)]
    if random.random() < 0.4:
        return block.encode(origin, EMPTY_SCHEMA, [], bodies)
    values: list[list[Value]] = [[True, False], [0, 5, -(2**63)], [0.5, 1e300, -0.0], ["", "a", "été"]]
    columns: list[list[Value | None]] = [
        [None if random.random() < 0.2 else random.choice(pool) for _ in range(count)] for pool in values
    ]
    frame = block.encode(origin, ALL_KINDS, columns, bodies)
    if count == 1 or random.random() < 0.7:
        return frame
    keep = np.array([index % 3 == 1 for index in range(count)])
    return bytes(BlockView([Block(frame, ALL_KINDS)]).pick(keep)[0][0])


def client_words(random: Random) -> list[Message]:
    number = SubscriptionId(random.randrange(4))
    return [
        Topic(topic_id(topic := random.choice(TOPICS)), topic),
        SchemaDefinition(ALL_KINDS),
        Subscription(
            number, random.choice(["#", "t/+", "v", "a/#/b"]), random.choice(["", "n > 1", "who LIKE 'a%'", "("])
        ),
        Unsubscription(number),
        Credit(random.choice((0, 1000, 2**63))),
        Ping(random.randrange(9)),
        StatusRequest(1),
        Heartbeat(random.randrange(500)),
        Hello(name=HOSTILE, incarnation=Incarnation(1), window=1 << 20),
        Farewell("x"),
    ]


def broker_words(random: Random) -> list[Message]:
    number = SubscriptionId(random.randrange(4))
    return [
        Topic(topic_id(topic := random.choice(TOPICS)), topic),
        Topic(topic_id("t"), random.choice(["v", "", "\0/#"])),
        SchemaDefinition(ALL_KINDS),
        Receipt(number),
        Receipt(number, Refusal.TOO_MANY, "no"),
        Credit(random.choice((-1, 0, 1000, 2**63))),
        Missed({number: random.choice((0, 5, -5, 2**63))}),
        Pong(random.randrange(9)),
        StatusReport(1, msgspec.Raw(b"\xc0")),
        Heartbeat(random.randrange(500)),
        Rejection(Refusal.BUSY, "busy"),
        Farewell("bye"),
        Welcome(node="n", boot=1, principal="p", window=1 << 20, largest_body=1 << 20, heartbeat=5.0),
    ]


def resealed(piece: bytes) -> bytes:
    """With a right length and a right checksum, whatever it holds."""
    if len(piece) >= 12 and piece[4] == CONTROL:
        payload = piece[12:]
        return CONTROL_HEADER.pack(len(piece), CONTROL, 1, 0, zlib.crc32(payload)) + payload
    if len(piece) >= HEADER_SIZE:
        head = bytearray(piece[:HEADER_SIZE])
        head[:4] = len(piece).to_bytes(4, "little")
        head[60:64] = block.checksum(bytes(head), piece[HEADER_SIZE:]).to_bytes(4, "little")
        return bytes(head) + piece[HEADER_SIZE:]
    return piece


def mutated(random: Random, piece: bytes) -> bytes:
    """Something goes wrong with a frame, by accident or on purpose."""
    if random.random() < 0.6:
        return piece
    broken = bytearray(piece)
    for _ in range(random.choice((1, 1, 2, 5))):
        position = random.randrange(len(broken))
        match random.randrange(5):
            case 0 if len(broken) >= HEADER_SIZE:  # where much depends on little: flags, count, numbers, sizes
                at, value = random.choice((6, 32, 40, 48, 56, HEADER_SIZE)), random.choice((0, 1, 7, 2**16 - 1))
                broken[at : at + 2] = value.to_bytes(2, "little")
            case 1:
                broken[position] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
            case 2:
                del broken[position : position + random.randrange(1, 9)]
            case 3:
                broken[position:position] = random.randbytes(random.randrange(1, 9))
            case _:
                broken[position] ^= 1 << random.randrange(8)
        if not broken:
            return b""
    if random.random() < 0.7:
        return resealed(bytes(broken))
    return bytes(broken)


def stream(random: Random, words: list[Message], first: int) -> bytes:
    pieces = []
    for _ in range(random.randrange(1, 8)):
        if random.random() < 0.3:  # several of one flow, as they come in a run
            seed = random.random()
            pieces += [mutated(random, events(Random(seed), first + 50 * number)) for number in range(5)]
        else:
            piece = events(random, first) if random.random() < 0.3 else frame.encode(random.choice(words))
            pieces.append(mutated(random, piece))
        first += 300
    return b"".join(pieces)


def chunks(random: Random, data: bytes) -> list[bytes]:
    edges = sorted({0, len(data), *(random.randrange(len(data) + 1) for _ in range(random.randrange(3)))})
    return [data[start:end] for start, end in itertools.pairwise(edges)]


class Pair:
    """Two who behave, and exchange events all the time."""

    def __init__(self, stage: "Stage") -> None:
        self.publisher: Actor = stage.client("good-publisher")
        self.subscriber: Actor = stage.client("good-subscriber", window=65536)
        self.subscriber.subscribe(1, "own/#")
        self.subscriber.subscribe(2, "own/#", "n > 5")
        self.sent = 0

    def exchange(self) -> None:
        self.sent += 1
        self.publisher.publish("own/topic", str(self.sent).encode(), n=self.sent % 10)
        wanted = [str(self.sent).encode()]
        assert [body for _, _, body in self.subscriber.read(1)] == wanted
        assert [body for _, _, body in self.subscriber.read(2)] == (wanted if self.sent % 10 > 5 else [])
        for each in (self.publisher, self.subscriber):
            assert each.heard(Disconnect) == []


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
@example(0)
def test_a_hostile_client_disturbs_nobody(new_stage: "type[Stage]", seed: int) -> None:
    random = Random(seed)
    stage = new_stage(LIMITS)
    pair = Pair(stage)
    listener = stage.client("listener")  # to the hostile one, of all people
    listener.subscribe(1, "#")
    listener.subscribe(2, "t/#", "n >= 0 OR who = 'a'")
    picky = stage.client("picky")
    picky.subscribe(1, "+/#", "n < 3 AND NOT (who LIKE '%b')")
    for attempt in range(6):
        hostile = stage.peer()
        hello = frame.encode(Hello(name=HOSTILE, incarnation=Incarnation(1), window=1 << 20))
        definitions = b"".join(frame.encode(Topic(topic_id(topic), topic)) for topic in TOPICS)
        schema = frame.encode(SchemaDefinition(ALL_KINDS))
        if random.random() < 0.85:
            hostile.say(PREAMBLE + hello + definitions + schema)
        elif random.random() < 0.5:
            hostile.say(mutated(random, PREAMBLE) + mutated(random, hello))
        for _ in range(random.randrange(1, 5)):
            for chunk in chunks(random, stream(random, client_words(random), 10_000 * attempt + 1)):
                stage.tell_broker(Received(hostile.link, chunk))
            pair.exchange()
            for each, number in ((listener, 1), (listener, 2), (picky, 1)):
                each.read(number)  # whatever comes can be decoded
                assert each.heard(Disconnect) == []
        if random.random() < 0.5:
            stage.tell_broker(LinkLost(hostile.link, "gone"))
    stage.wait(4)
    pair.exchange()
    status = stage.broker.status(stage.now)
    assert status.queued <= 6 * LIMITS.queue


@settings(deadline=None, max_examples=100)
@given(st.lists(st.binary(max_size=200), max_size=5), st.sampled_from(["", "preamble", "hello"]))
@example([b"\x18\0\0\0\x02\x01\0\0\x00HC\xfd\x92\xa8farewell\xa1\xff"], "preamble")
def test_any_bytes_at_all_disturb_nobody(new_stage: "type[Stage]", garbage: list[bytes], after: str) -> None:
    stage = new_stage(LIMITS)
    pair = Pair(stage)
    peer = stage.peer()
    if after:
        peer.say(PREAMBLE)
    if after == "hello":
        peer.say(Hello(name=HOSTILE, incarnation=Incarnation(1), window=1 << 20))
    for each in garbage:
        stage.tell_broker(Received(peer.link, each))
    pair.exchange()


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32), st.sampled_from(["nothing", "preamble", "welcome"]))
def test_a_hostile_broker_gets_nothing_but_effects_out_of_a_client(seed: int, after: str) -> None:
    random = Random(seed)
    client = Client(Settings(name="me", addresses=("x",), incarnation=Incarnation(1), window=65536))
    now = 0

    def step(*inputs: object) -> None:
        for each in inputs:
            effects = client.step(now, each)  # type: ignore[arg-type]
            assert all(isinstance(effect, Effect) for effect in effects)

    step(Started(), SubscribeRequested(SubscriptionId(1), "#"), SubscribeRequested(SubscriptionId(2), "t/#", "n > 1"))
    for link in range(1, 5):
        if link > 1:
            step(LinkLost(LinkId(link - 1), "cut"), TimerFired(RedialBroker()))
        step(LinkOpened(LinkId(link), dialled=True))
        greeting = b""
        if after != "nothing":
            greeting += PREAMBLE
        if after == "welcome":
            greeting += frame.encode(
                Welcome(node="n", boot=1, principal="p", window=1 << 20, largest_body=1 << 20, heartbeat=5.0)
            )
            greeting += frame.encode(Topic(topic_id("t"), "t")) + frame.encode(SchemaDefinition(ALL_KINDS))
        data = greeting + stream(random, broker_words(random), 10_000 * link + 1)
        for chunk in chunks(random, data):
            step(Received(LinkId(link), chunk))
            client.publish("t", {"n": 1}, b"x", 0)
            step(TurnEnded(), MoreRequested(SubscriptionId(1)), FlushRequested(link))
        now += 3 * SECOND
        step(TimerFired(ClientTick()), TimerFired(WelcomeTimeout()))


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=300), st.booleans())
@example(frame.encode(SchemaDefinition(Schema(("a",), ()))), True)
@example(
    frame.encode(Welcome(node="n", boot=1, principal="p", window=1, largest_body=1, heartbeat=float("nan"))), False
)
def test_any_bytes_from_a_broker_are_survived(garbage: bytes, welcome: bool) -> None:
    client = Client(Settings(name="me", addresses=("x",), incarnation=Incarnation(1)))
    client.step(0, Started())
    client.step(0, LinkOpened(LinkId(1), dialled=True))
    greeting = PREAMBLE + (
        frame.encode(Welcome(node="n", boot=1, principal="p", window=1 << 20, largest_body=1 << 20, heartbeat=5.0))
        if welcome
        else b""
    )
    client.step(0, Received(LinkId(1), greeting))
    client.step(0, Received(LinkId(1), garbage))
    client.step(0, TurnEnded())
