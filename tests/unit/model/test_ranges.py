"""Ranges: every field of every message has one, and what is outside is refused where it is decoded."""

import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from stentor.model.control import (
    AnyControlEvent,
    GossipAck,
    GossipFacts,
    Probe,
    PublisherOrder,
    Recovery,
    Registration,
    SequenceRun,
    StreamRanges,
    SubscriberAck,
    TopicTask,
)
from stentor.model.errors import FrameError
from stentor.model.ids import SubscriptionId, topic_id
from stentor.model.messages import AnyMessage, Digest, ExplanationRequest, LinkCost, Message, Subscription, Topic
from stentor.model.ranges import BITS, LAST_NUMBER, LAST_SEQUENCE
from stentor.model.stored.reading import AnyReadingEvent, PageRequest
from stentor.model.trust.access import Grant, Membership, TopicTerms
from stentor.model.trust.access_messages import BundleRequest
from stentor.protocols.delivery.repository.registry import PublisherRecord, SubscriptionRecord
from stentor.wire import frame, letter

FACTS = (TopicTerms, Membership, Grant, PublisherRecord, SubscriptionRecord)  # values of facts, which letters hold
ALL = (*typing.get_args(AnyMessage), *typing.get_args(AnyControlEvent), *typing.get_args(AnyReadingEvent), *FACTS)


def unbounded(kind: inspect.Type, where: str, bits: int | None = None) -> Iterator[str]:
    """Where in a type something has no range."""
    match kind:
        case inspect.Metadata():
            yield from unbounded(kind.type, where, (kind.extra or {}).get(BITS))
        case inspect.IntType() if kind.ge is None or (kind.le is None and bits is None):
            yield f"{where}: an int"
        case inspect.FloatType() if kind.ge is None or kind.le is None:
            yield f"{where}: a float"
        case inspect.StrType() | inspect.BytesType() if kind.max_length is None:
            yield f"{where}: a text"
        case inspect.VarTupleType():
            if kind.max_length is None:
                yield f"{where}: a tuple"
            yield from unbounded(kind.item_type, f"{where}[]")
        case inspect.DictType():
            if kind.max_length is None:
                yield f"{where}: a dict"
            yield from unbounded(kind.key_type, f"{where} key")
            yield from unbounded(kind.value_type, f"{where} value")
        case inspect.TupleType():
            for place, each in enumerate(kind.item_types):
                yield from unbounded(each, f"{where}[{place}]")
        case inspect.UnionType():
            for each in kind.types:
                yield from unbounded(each, where)
        case inspect.StructType():
            for field in kind.fields:
                yield from unbounded(field.type, f"{where}.{field.name}")
        case inspect.AnyType() | inspect.ListType() | inspect.SetType() | inspect.FrozenSetType():
            yield f"{where}: {kind}"
        case _:  # bool, None, enums, literals; a Raw is as long as its frame, and read by people's tools alone
            pass


@pytest.mark.parametrize("message", ALL, ids=lambda message: message.__name__)
def test_every_field_of_every_message_has_a_range(message: type[msgspec.Struct]) -> None:
    assert list(unbounded(inspect.type_info(message), message.__name__)) == []


def test_a_field_without_a_range_is_found() -> None:
    class Loose(msgspec.Struct):
        number: int
        names: dict[str, tuple[float, ...]]

    assert list(unbounded(inspect.type_info(Loose), "Loose")) == [
        "Loose.number: an int",
        "Loose.names: a dict",
        "Loose.names key: a text",
        "Loose.names value: a tuple",
        "Loose.names value[]: a float",
    ]


@pytest.mark.parametrize(
    "message",
    [
        Subscription(SubscriptionId(2**63), "a", "n > 1"),
        Subscription(SubscriptionId(-1), "a"),
        Subscription(SubscriptionId(1), "a" * ((1 << 20) + 1)),
        LinkCost(float("nan")),
        LinkCost(float("inf")),
        Digest({"a b": 1}),
        Digest({}, -1),
        BundleRequest("a/#/b"),
        BundleRequest("a\0"),
        ExplanationRequest(token=1, topic="t", attributes={"n": float("inf")}),
        ExplanationRequest(token=1, topic="t", attributes={"n": 2**63}),
    ],
)
def test_a_message_out_of_range_is_refused(message: Message) -> None:
    with pytest.raises(FrameError):
        frame.decode(frame.encode(message))


def test_ids_have_all_64_bits() -> None:
    topic = Topic(topic_id("t"), "t")
    largest = msgspec.structs.replace(topic, id=2**64 - 1)
    assert frame.decode(frame.encode(largest)) == largest


def facts(key: str, value: bytes) -> GossipFacts:
    return GossipFacts("t", "r1", facts=((key, 1, "r1", value),))


@pytest.mark.parametrize(
    "event",
    [
        Probe("a/#/b", "me", role="publisher", attempt=1),
        Probe("a\0", "me", role="publisher", attempt=1),
        Probe("/".join(["a"] * 65), "me", role="publisher", attempt=1),
        Probe("/".join(["a"] * 61), "me", role="publisher", attempt=1),
        Probe("", "me", role="publisher", attempt=1),
        Probe("t", "x" * 1100, role="publisher", attempt=1),
        Probe("t", "", role="publisher", attempt=1),
        Probe("t", "\u202e", role="publisher", attempt=1),
        Probe("t", "é" * 200, role="publisher", attempt=1),
        Registration("", "x" * 1100, token=1, task=TopicTask.STATUS),
        Registration("", "é" * 200, token=1, task=TopicTask.STATUS),
        Registration("t", "me", token=1, task=TopicTask.CREATE, repositories=("a/b",)),
        Recovery("t", "me", role="subscriber", attempt=1, principal="me", incarnation=1, since="epoch ²"),
        Recovery(
            "t", "me", role="subscriber", attempt=1, principal="me", incarnation=1, since="time 9223372036854775808"
        ),
        Recovery("t", "me", role="subscriber", attempt=1, principal="me", incarnation=2**48),
        PublisherOrder("t", "me", incarnation=1, first=1, last=LAST_NUMBER + 1),
        PublisherOrder("t", "me", incarnation=1, first=1, last=1, singles=((5, 4),)),
        SubscriberAck("t", "me", incarnation=1, repository="r1", spans=((1, LAST_SEQUENCE + 1),)),
        PageRequest("t", "me", 1, "me", "me", (StreamRanges(1, 1, 0, ((3, 2),)),)),
        GossipAck("t", "r1", stretches=(SequenceRun(1, 1, 1, 1, 1),), digests=()),
        facts("topic", b"junk"),
        facts("member/a b", b""),
        facts("member/r1", b"\xc1"),
        facts("grant/king/me", b""),
        facts("grant/publisher/me", msgspec.msgpack.encode(Grant("x" * 1025))),
    ],
)
def test_a_letter_out_of_range_is_refused(event: Any) -> None:
    with pytest.raises(FrameError):
        letter.read(letter.write([event]))


@pytest.mark.parametrize(
    "event",
    [
        Probe("/".join(["a"] * 60), "x" * 100, role="publisher", attempt=1),
        Registration("", "x" * 255, token=1, task=TopicTask.STATUS),
        PublisherOrder("t", "me", incarnation=2**48 - 1, first=1, last=LAST_NUMBER, singles=((1, 1), (3, LAST_NUMBER))),
        facts("topic", msgspec.msgpack.encode(TopicTerms("me"))),
        facts("topic", b""),
        facts("unheard of", b"\xc1"),
    ],
)
def test_a_letter_at_the_ends_of_ranges_goes_through(event: Any) -> None:
    assert letter.read(letter.write([event])).events == [event]


@pytest.mark.parametrize("payload", [b"\x91\xa3\xed\xa0\x80", b"\x91" * 100_000, b"", b"\xc1"])
def test_a_letter_of_odd_bytes_is_refused(payload: bytes) -> None:
    with pytest.raises(FrameError):
        letter.read(letter.frame_of(payload))
