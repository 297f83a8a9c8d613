"""Frames: every message goes through, and whatever else comes is refused with a reason."""

import re
import struct
import typing
import zlib
from contextlib import suppress

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stentor.model.attribute import Kind, Schema
from stentor.model.colours.manifest import ManifestRow
from stentor.model.colours.plan import PlanStage, TopologyChange, TopologyPlan
from stentor.model.colours.plan_messages import Announce, Go, PlanAnswer, Poll
from stentor.model.colours.wave_messages import Ack, Crown, Place, Rejoin, RootClaim, Rotate, ScopeManifest
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import SubscriptionId
from stentor.model.messages import (
    AdminReceipt,
    AdminRequest,
    AdminTask,
    AnyMessage,
    Challenge,
    ChallengeRequest,
    Credit,
    Digest,
    ExplanationReport,
    ExplanationRequest,
    Farewell,
    Gateway,
    Heartbeat,
    Hello,
    Inventory,
    LinkCost,
    LinkReturned,
    MarkReceipt,
    Message,
    Missed,
    Ping,
    Pong,
    Presence,
    ProfileChange,
    Receipt,
    Redirect,
    Rejection,
    SchemaDefinition,
    SettlementReport,
    SettlementRequest,
    StatusReport,
    StatusRequest,
    Subscription,
    SubscriptionInventory,
    Topic,
    Unsubscription,
    ViewReport,
    ViewRequest,
    Welcome,
)
from stentor.model.trust.access_messages import (
    AccessFacts,
    AccessInventory,
    AccessReceipt,
    AccessReport,
    AccessRequest,
    BundleReport,
    BundleRequest,
    FlowRefusal,
)
from stentor.wire.frame import (
    CONTROL,
    CONTROL_HEADER,
    EVENTS,
    LARGEST_CONTROL,
    LARGEST_GREETING,
    MEASURABLE,
    PREAMBLE,
    VERSION,
    check_preamble,
    decode,
    encode,
    measure,
)

# what every field takes; tests/unit/model/test_ranges.py tries the ends of their ranges
i64 = st.integers(1, 63)
texts = st.text("abz09_-.", min_size=1, max_size=20)
floats = st.floats(0, 1e6)
stamps = st.tuples(i64, texts)
wants = st.lists(st.tuples(texts, texts), max_size=3).map(tuple)
changes = st.builds(TopologyChange, near=texts, far=texts, before=i64, after=i64, address=texts)
plans = st.builds(TopologyPlan, i64, st.lists(changes, max_size=3).map(tuple))
rows = st.lists(
    st.builds(
        ManifestRow,
        unit=texts,
        speaker=texts,
        number=i64,
        presence=i64,
        presence_version=i64,
        profile=i64,
        profile_version=i64,
        profile_maker=texts,
        predicates=i64,
    ),
    max_size=3,
).map(tuple)
MESSAGES: dict[type[Message], st.SearchStrategy[Message]] = {
    Hello: st.builds(Hello, name=texts, incarnation=i64, window=i64, role=texts, heartbeat=floats, agent=texts),
    Welcome: st.builds(
        Welcome, node=texts, boot=i64, principal=texts, window=i64, largest_body=i64, heartbeat=floats, agent=texts
    ),
    Rejection: st.builds(Rejection, st.sampled_from(Refusal), texts),
    Topic: st.builds(Topic, i64, texts),
    SchemaDefinition: st.builds(
        SchemaDefinition,
        st.builds(
            Schema,
            st.lists(texts, max_size=3).map(tuple),
            st.lists(st.sampled_from(Kind), max_size=3).map(tuple),
        ),
    ),
    Subscription: st.builds(Subscription, i64, texts, texts),
    Unsubscription: st.builds(Unsubscription, i64),
    Receipt: st.builds(Receipt, i64, st.none() | st.sampled_from(Refusal), texts),
    Credit: st.builds(Credit, i64),
    Missed: st.builds(Missed, st.dictionaries(i64.map(SubscriptionId), i64, max_size=3)),
    Heartbeat: st.builds(Heartbeat, i64, subscriptions=st.none() | i64),
    SubscriptionInventory: st.builds(
        SubscriptionInventory, st.dictionaries(i64.map(SubscriptionId), i64, max_size=3), st.booleans()
    ),
    Ping: st.builds(Ping, i64),
    Pong: st.builds(Pong, i64),
    StatusRequest: st.builds(StatusRequest, i64),
    StatusReport: st.builds(StatusReport, i64, texts.map(msgspec.msgpack.encode).map(msgspec.Raw)),
    Farewell: st.builds(Farewell, texts),
    ViewRequest: st.builds(ViewRequest, i64),
    ViewReport: st.builds(ViewReport, i64, texts.map(msgspec.msgpack.encode).map(msgspec.Raw)),
    ExplanationRequest: st.builds(
        ExplanationRequest,
        token=i64,
        topic=texts,
        attributes=st.dictionaries(texts, st.booleans() | i64 | floats | texts, max_size=3),
        level=i64,
        masks=st.none() | st.dictionaries(i64, i64, max_size=3),
    ),
    ExplanationReport: st.builds(ExplanationReport, i64, texts.map(msgspec.msgpack.encode).map(msgspec.Raw)),
    AdminRequest: st.builds(
        AdminRequest, token=i64, task=st.sampled_from(AdminTask), name=texts, address=texts, cost=floats
    ),
    AdminReceipt: st.builds(AdminReceipt, i64, st.none() | st.sampled_from(Refusal), texts),
    Presence: st.builds(
        Presence,
        unit=texts,
        version=i64,
        speaker=texts,
        number=i64,
        address=texts,
        gateways=st.lists(st.builds(Gateway, texts, i64, i64), max_size=3).map(tuple),
        members=i64,
        left=st.booleans(),
    ),
    ProfileChange: st.builds(
        ProfileChange,
        unit=texts,
        before=stamps,
        stamp=stamps,
        added=wants,
        removed=wants,
        predicates=i64,
        more=st.booleans(),
    ),
    Inventory: st.builds(
        Inventory, texts, st.dictionaries(texts, stamps, max_size=3), st.dictionaries(texts, stamps, max_size=3)
    ),
    LinkCost: st.builds(LinkCost, floats),
    LinkReturned: st.just(LinkReturned()),
    Digest: st.builds(Digest, st.dictionaries(texts, i64, max_size=3), i64),
    AccessFacts: st.builds(
        AccessFacts,
        topic=texts,
        facts=st.lists(st.tuples(texts, i64, texts, st.binary(max_size=9)), max_size=3).map(tuple),
        token=i64,
    ),
    AccessReceipt: st.builds(AccessReceipt, i64),
    AccessInventory: st.builds(AccessInventory, texts, texts, st.dictionaries(texts, i64, max_size=3)),
    BundleRequest: st.builds(BundleRequest, texts),
    BundleReport: st.builds(BundleReport, texts, st.dictionaries(texts, texts, max_size=3)),
    FlowRefusal: st.builds(FlowRefusal, i64, st.sampled_from(Refusal), texts),
    ChallengeRequest: st.builds(ChallengeRequest),
    Challenge: st.builds(Challenge, st.binary(max_size=64)),
    AccessRequest: st.builds(
        AccessRequest,
        token=i64,
        principal=texts,
        topic=st.just("a/b"),
        attributes=st.lists(texts, max_size=3).map(tuple),
    ),
    SettlementRequest: st.builds(SettlementRequest, i64, st.floats(0, 1e6)),
    SettlementReport: st.builds(SettlementReport, i64, st.integers(0, 1000), st.just(("a/b",))),
    MarkReceipt: st.builds(
        MarkReceipt,
        mark=st.just("$mark/a"),
        broker=st.just("a/b"),
        neighbours=st.just(("a/c",)),
        hops=st.integers(0, 64),
    ),
    Redirect: st.builds(Redirect, st.just("127.0.0.1:7420")),
    AccessReport: st.builds(AccessReport, i64, texts.map(msgspec.msgpack.encode).map(msgspec.Raw)),
    Rotate: st.builds(
        Rotate, scope=texts, round=i64, root=texts, rank=i64, depth=i64, manifest=i64, rows=st.none() | rows
    ),
    Ack: st.builds(Ack, scope=texts, round=i64, brokers=i64, height=i64, confirmed=i64, rows=rows, free=texts),
    ScopeManifest: st.builds(ScopeManifest, texts, i64, rows),
    Crown: st.builds(Crown, texts),
    RootClaim: st.builds(RootClaim, scope=texts, root=texts, rank=i64, depth=i64),
    Rejoin: st.builds(Rejoin, scope=texts, broker=texts, has_room=st.booleans(), trail=st.lists(texts).map(tuple)),
    Place: st.builds(Place, scope=texts, broker=texts, parent=texts, root=texts, rank=i64, round=i64, address=texts),
    Announce: st.builds(Announce, scope=texts, plan=plans, stage=st.sampled_from(PlanStage), round=i64),
    Poll: st.builds(Poll, scope=texts, plan=i64, turn=i64, is_known=st.booleans()),
    PlanAnswer: st.builds(PlanAnswer, scope=texts, plan=i64, turn=i64, brokers=i64, sent=i64, complaint=texts),
    Go: st.builds(Go, texts, i64),
}
messages = st.one_of(list(MESSAGES.values()))


def framed(payload: bytes, version: int = VERSION) -> bytes:
    """A control frame of whatever bytes, with a right checksum."""
    return CONTROL_HEADER.pack(len(payload) + 12, CONTROL, version, 0, zlib.crc32(payload)) + payload


def test_every_message_is_tried_here() -> None:
    assert set(MESSAGES) == set(typing.get_args(AnyMessage))


@settings(deadline=None, max_examples=150)
@given(messages)
def test_every_message_goes_through(message: Message) -> None:
    frame = encode(message)
    assert measure(frame, 0, 1 << 20) == (CONTROL, len(frame))
    assert decode(frame) == message


def test_messages_look_the_same_for_ever() -> None:
    hello = encode(Hello(name="n", incarnation=5, window=65536, role="client", heartbeat=5.0, agent="x"))  # type: ignore[arg-type]
    assert hello[12:] == (
        b"\x9e\xa5hello\xa1n\x05\xce\x00\x01\x00\x00\xa6client\xcb\x40\x14\0\0\0\0\0\0\xa1x\0\xa0\xcb\0\0\0\0\0\0\0\0"
        b"\xc4\0\xc4\0\xc2\xc2"
    )
    assert encode(Rejection(Refusal.TOO_LARGE, "r"))[12:] == b"\x93\xa9rejection\xa9too-large\xa1r"
    assert encode(Credit(1)) == b"\x15\0\0\0\x02\x01\0\0" + zlib.crc32(b"\x92\xa6credit\x01").to_bytes(4, "little") + (
        b"\x92\xa6credit\x01"
    )


def test_a_field_that_a_newer_peer_added_is_passed_over() -> None:
    assert decode(framed(b"\x93\xa6marker\x05\xa5extra")) == Ping(5)


def test_a_field_with_a_default_may_be_left_out() -> None:
    assert decode(framed(b"\x93\xacsubscription\x05\xa1#")) == Subscription(SubscriptionId(5), "#")


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc0",  # nil
        b"\x90",  # no tag
        b"\x92\xa7unknown\x01",
        b"\x92\x05\x01",  # a number for a tag
        b"\x81\xa4type\xa6marker",  # a map
        b"\x91\xa6marker",  # a field is missing
        b"\x92\xa6marker\xa1x",  # a text for a number
        b"\x92\xa6marker\xcb\x40\x14\0\0\0\0\0\0",  # a float for an integer
        b"\x92\xa6marker\xc0",
        b"\x93\xa9rejection\xa7nothing\xa1x",  # no such refusal
        b"\x92\xa6schema\x92\x91\xa1a\x91\x09",  # no such kind
        b"\x92\xa6missed\x81\xa1a\x01",
        b"\x92\xa6marker\x05\x05",  # something behind it
        b"\x92\xa6marke",  # cut short
        b"\xdd\xff\xff\xff\xff",
        b"\x92\xa8farewell\xdb\xff\xff\xff\xff",
        b"\x92\xa6missed\xdf\xff\xff\xff\xff",
        b"\x92\xa6schema\x92\xdd\x7f\xff\xff\xff\xa1a",
        b"\x92\xa8farewell\xa2\xff\xfe",  # not UTF-8
        b"\x92\xa8farew\xffll\xa1x",
        b"\x93\xa9rejection\xa2\xff\xfe\xa1x",
        b"\x93\xa6marker\x05" + b"\x91" * 4000 + b"\x01",  # nested too deep, in a field we pass over
        b"\x93\xa6status\x05" + b"\x91" * 4000 + b"\x01",
        b"\x91" * 4000,
    ],
)
def test_a_control_frame_that_says_nothing_known_is_refused(payload: bytes) -> None:
    with pytest.raises(FrameError) as caught:
        decode(framed(payload))
    assert caught.value.code is Refusal.PROTOCOL


def test_every_flipped_bit_of_a_control_frame_is_found() -> None:
    frame = encode(Topic(5, "été"))  # type: ignore[arg-type]
    for bit in range(64, 8 * len(frame)):
        broken = bytearray(frame)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FrameError, match="damaged") as caught:
            decode(bytes(broken))
        assert caught.value.code is Refusal.CORRUPT


def test_another_version_of_a_frame_is_refused() -> None:
    frame = framed(b"\x92\xa6marker\x05", version=2)
    for attempt in (lambda: decode(frame), lambda: measure(frame, 0, 1 << 20)):
        with pytest.raises(FrameError, match="version 2"):
            attempt()


@settings(deadline=None, max_examples=200)
@given(messages, st.lists(st.tuples(st.integers(0, 100), st.integers(0, 255)), max_size=4), st.integers(0, 100))
@example(Farewell("x"), [(11, 0xFF)], 100)
def test_a_mutated_message_with_a_right_checksum_is_refused_or_understood(
    message: Message, changes: list[tuple[int, int]], length: int
) -> None:
    payload = bytearray(encode(message)[12:])
    for position, value in changes:
        payload[position % len(payload)] = value
    with suppress(FrameError):
        decode(framed(bytes(payload[:length])))


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=60))
def test_any_payload_is_refused_or_understood(payload: bytes) -> None:
    with suppress(FrameError):
        decode(framed(payload))


# ---- measuring


@pytest.mark.parametrize("size", range(MEASURABLE))
def test_too_few_bytes_tell_no_length(size: int) -> None:
    assert measure(b"\xff" * size, 0, 1) == (0, 0)
    assert measure(b"before" + b"\xff" * size, 6, 1) == (0, 0)


def head(length: int, kind: int = EVENTS, version: int = VERSION) -> bytes:
    return struct.pack("<IBB", length, kind, version)


@pytest.mark.parametrize(
    ("kind", "limit"),
    [(EVENTS, LARGEST_GREETING), (EVENTS, 10 << 20), (CONTROL, LARGEST_GREETING), (CONTROL, LARGEST_CONTROL)],
)
def test_a_frame_may_be_as_large_as_the_limit_and_no_larger(kind: int, limit: int) -> None:
    assert measure(head(limit, kind), 0, limit) == (kind, limit)
    with pytest.raises(FrameError, match=f"{limit + 1} bytes, at most {limit}") as caught:
        measure(head(limit + 1, kind), 0, limit)
    assert caught.value.code is Refusal.TOO_LARGE


def test_a_control_frame_is_bounded_even_where_events_are_large() -> None:
    with pytest.raises(FrameError, match=f"at most {LARGEST_CONTROL}"):
        measure(head(LARGEST_CONTROL + 1, CONTROL), 0, 10 << 20)
    assert measure(head(LARGEST_CONTROL + 1, EVENTS), 0, 10 << 20) == (EVENTS, LARGEST_CONTROL + 1)


@pytest.mark.parametrize("length", [0, 1, 11])
def test_a_frame_too_short_to_be_one_is_refused(length: int) -> None:
    for kind in (EVENTS, CONTROL):
        with pytest.raises(FrameError, match="too short"):
            measure(head(length, kind), 0, 100)
        shortest = 12 if kind == CONTROL else 64
        assert measure(head(shortest, kind), 0, 100) == (kind, shortest)


@pytest.mark.parametrize("kind", [0, 4, 255])
def test_a_frame_of_an_unknown_kind_is_refused(kind: int) -> None:
    with pytest.raises(FrameError, match=f"unknown kind {kind}") as caught:
        measure(head(100, kind), 0, 1000)
    assert caught.value.code is Refusal.PROTOCOL


# ---- greetings


def test_every_beginning_of_the_preamble_is_fine() -> None:
    for length in range(len(PREAMBLE) + 1):
        check_preamble(PREAMBLE[:length])


def test_another_version_is_told_apart_from_another_protocol() -> None:
    with pytest.raises(FrameError, match=r"speaks version 1 .* this node version 2: upgrade the peer") as caught:
        check_preamble(b"STENTOR\x01")
    assert caught.value.code is Refusal.VERSION
    with pytest.raises(FrameError, match=r"speaks version 3 .* version 2: this node is the older one: upgrade it"):
        check_preamble(b"STENTOR\x03")
    check_preamble(b"STENTOR")


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (b"GET / HTTP/1.1\r\n", "a web browser"),
        (b"POST /x HTTP/1.1", "a web client"),
        (b"HTTP/1.1 400 Bad", "a web server"),
        (b"PRI * HTTP/2.0", "an HTTP/2 client"),
        (b'INFO {"server_id', "a NATS server"),
        (b'CONNECT {"verb', "a NATS client"),
        (b"\x10\x10\x00\x04MQTT\x04", "an MQTT client"),
        (b"\x16\x03\x01\x02\x00\x01", "a TLS peer"),
        (b"\x15\x03\x01\x00\x02\x02", "a TLS server"),
        (b"SSH-2.0-OpenSSH_9", "an SSH peer"),
        (b"AMQP\x00\x00\x09\x01", "an AMQP peer"),
        (b"*1\r\n$4\r\nPING\r\n", "a Redis client"),
        (b"-ERR unknown command", "a Redis or NATS server"),
    ],
)
def test_a_peer_of_another_protocol_is_named(first: bytes, name: str) -> None:
    with pytest.raises(FrameError, match=f"not a Stentor node: it looks like {re.escape(name)}") as caught:
        check_preamble(first[:8])
    assert caught.value.code is Refusal.PROTOCOL


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=8))
@example(b"stentor\x01")
@example(b"STENTOS\x01")
@example(b"\0")
def test_anything_else_is_refused_with_what_it_began_with(first: bytes) -> None:
    if PREAMBLE.startswith(first) or first[:7] == PREAMBLE[:7]:
        return
    with pytest.raises(FrameError, match="not a Stentor node"):
        check_preamble(first)
