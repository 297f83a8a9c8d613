"""Ranges: what the fields of messages may hold. A decoder refuses everything else before a machine sees it.

Every field of every message has one of these types, or one made as they are. msgspec checks what stands in a `Meta`
while it decodes; `extra["check"]`, and the method `check` of a message, say what a `Meta` cannot, and a
`RangedDecoder` calls them. Numbers that end up in a signed 64-bit column stay so far below its end that the sum of two
of them does, too.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from sys import float_info
from typing import Annotated, Any, Final, Generic, TypeVar, get_args

import msgspec
from msgspec import Meta, inspect

from stentor.model.attribute import LARGEST_INTEGER, LONGEST_NAME, LONGEST_STRING, SMALLEST_INTEGER
from stentor.model.errors import InvalidInput
from stentor.model.filter import LONGEST_FILTER
from stentor.model.ids import Incarnation, SubscriptionId, TopicId
from stentor.model.scope import LARGEST_UNIT, LONGEST_NODE_NAME
from stentor.model.stored.epoch import PATTERN
from stentor.model.topic import LONGEST_TOPIC, check_pattern, check_topic

BITS: Final = "bits"  # in `extra`: as many as a number has without a sign; msgspec's own limits end at 63
CHECK: Final = "check"  # in `extra`: a function that raises InvalidInput
LAST_NUMBER: Final = 2**53 - 1  # of a stream's events: 28 years of ten million in a second
LAST_SEQUENCE: Final = 2**62  # of a repository's numbers: all that publishers may make it set aside does not reach it
LAST_VERSION: Final = 2**62
LAST_MILLISECOND: Final = 4_102_444_800_000  # since 1970: 2100 begins; versions that count on from it have room
MOST_COUNTED: Final = 2**53
MOST_ITEMS: Final = 1 << 20  # of a collection: more do not fit into a control frame
LONGEST_CLIENT_NAME: Final = 255
LONGEST_RELIABLE_TOPIC: Final = 800  # bytes: names of repositories and units stand before it in the topics of letters
DEEPEST_RELIABLE_TOPIC: Final = 60
_DEEPEST_PATH: Final = 8  # as many levels as a parcel has masks


# ---- what a Meta cannot say


@lru_cache(4096)
def check_client_name(name: str) -> None:
    if not 0 < len(name) <= LONGEST_CLIENT_NAME or not name.isprintable():
        raise InvalidInput(f"{name[:40]!r}: a client's name has 1 to {LONGEST_CLIENT_NAME} printable characters")


@lru_cache(4096)
def check_reliable_topic(topic: str) -> None:
    """Refuse a topic that no repository could manage."""
    check_topic(topic)
    if len(topic.encode()) > LONGEST_RELIABLE_TOPIC or topic.count("/") >= DEEPEST_RELIABLE_TOPIC:
        raise InvalidInput(
            f"topic {topic[:40]!r}…: a reliable topic has at most {LONGEST_RELIABLE_TOPIC} bytes and "
            f"{DEEPEST_RELIABLE_TOPIC} levels"
        )


@lru_cache(4096)
def _check_any_name(name: str) -> None:
    if name:
        check_client_name(name)


@lru_cache(4096)
def _check_any_reliable_topic(topic: str) -> None:
    if topic:
        check_reliable_topic(topic)


def _check_any_topic(topic: str) -> None:
    if topic:
        check_topic(topic)


def _check_beginning(beginning: str) -> None:
    """Its number is one of a repository's, or nanoseconds since 1970."""
    number = beginning.partition(" ")[2].rpartition(":")[2]
    if number and not SMALLEST_INTEGER <= int(number) <= LARGEST_INTEGER:
        raise InvalidInput(f"{beginning!r} is no beginning")


def _check_spans(spans: Iterable[tuple[int, int]]) -> None:
    for first, last in spans:
        if first > last:
            raise InvalidInput(f"a range from {first} to {last}")


# ---- numbers

Id = Annotated[int, Meta(ge=0, extra={BITS: 64})]  # that stands for a name, or sums up something
TopicNumber = Annotated[TopicId, Meta(ge=0, extra={BITS: 64})]
SubscriptionNumber = Annotated[SubscriptionId, Meta(ge=0, le=2**63 - 1)]
Incarnation48 = Annotated[Incarnation, Meta(ge=0, le=2**48 - 1)]
Life = Annotated[int, Meta(ge=0, le=2**48 - 1)]  # the same, where it is the half of a stream's name
EventNumber = Annotated[int, Meta(ge=0, le=LAST_NUMBER)]
SequenceNumber = Annotated[int, Meta(ge=0, le=LAST_SEQUENCE)]
SequenceBase = Annotated[int, Meta(ge=-LAST_SEQUENCE, le=LAST_SEQUENCE)]  # one of them less an event's number
Version = Annotated[int, Meta(ge=0, le=LAST_VERSION)]
Millisecond = Annotated[int, Meta(ge=0, le=LAST_MILLISECOND)]
Nanosecond = Annotated[int, Meta(ge=SMALLEST_INTEGER, le=LARGEST_INTEGER)]  # since 1970, by somebody's clock
Count = Annotated[int, Meta(ge=0, le=MOST_COUNTED)]
ByteCount = Annotated[int, Meta(ge=0, le=2**62)]
BodySize = Annotated[int, Meta(ge=1, le=2**40)]
Attempt = Annotated[int, Meta(ge=0, le=2**63 - 1)]
ChorusOrAttempt = Annotated[int, Meta(ge=-(2**63) + 1, le=2**63 - 1)]  # below zero it is the number of a notice group
Token = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Level = Annotated[int, Meta(ge=0, le=255)]
ExitNumber = Annotated[int, Meta(ge=0, le=64)]  # 0 is none, or 1 + the number of a member
MemberNumber = Annotated[int, Meta(ge=0, le=LARGEST_UNIT - 1)]
Copies = Annotated[int, Meta(ge=0, le=4096)]
WholeSeconds = Annotated[int, Meta(ge=0, le=2**40)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Cost = Annotated[float, Meta(ge=0, le=1e6)]
AnyCost = Annotated[float, Meta(ge=-1e9, le=1e9)]  # as somebody may have typed it
GatewayCost = Annotated[int, Meta(ge=0, le=MOST_COUNTED)]  # in thousandths

# ---- texts

ClientName = Annotated[str, Meta(min_length=1, max_length=LONGEST_CLIENT_NAME, extra={CHECK: check_client_name})]
AnyClientName = Annotated[str, Meta(max_length=LONGEST_CLIENT_NAME, extra={CHECK: _check_any_name})]  # or nobody's
RepositoryName = Annotated[str, Meta(max_length=LONGEST_NODE_NAME, pattern=r"^[A-Za-z0-9_.-]+\Z")]
AnyRepositoryName = Annotated[str, Meta(max_length=LONGEST_NODE_NAME, pattern=r"^[A-Za-z0-9_.-]*\Z")]  # or nobody's
Path = Annotated[
    str, Meta(max_length=(LONGEST_NODE_NAME + 1) * _DEEPEST_PATH, pattern=r"^[A-Za-z0-9_./-]*\Z")
]  # of a unit or broker; "" is the whole network, or none
Principal = Annotated[str, Meta(max_length=1024, pattern=r"^[^\0]*\Z")]
TopicName = Annotated[str, Meta(min_length=1, max_length=LONGEST_TOPIC, extra={CHECK: check_topic})]
AnyTopicName = Annotated[str, Meta(max_length=LONGEST_TOPIC, extra={CHECK: _check_any_topic})]  # or none
ReliableTopic = Annotated[
    str, Meta(min_length=1, max_length=LONGEST_RELIABLE_TOPIC, extra={CHECK: check_reliable_topic})
]
AnyReliableTopic = Annotated[
    str, Meta(max_length=LONGEST_RELIABLE_TOPIC, extra={CHECK: _check_any_reliable_topic})
]  # or none
TopicPattern = Annotated[str, Meta(min_length=1, max_length=LONGEST_TOPIC, extra={CHECK: check_pattern})]
FilterText = Annotated[str, Meta(max_length=LONGEST_FILTER)]
Text = Annotated[str, Meta(max_length=1 << 20)]  # whoever handles it checks it, and says itself what is wrong with it
Beginning = Annotated[
    str, Meta(max_length=320, pattern=rf"^[a-z]*( (-[0-9]{{1,19}}|{PATTERN}))?\Z", extra={CHECK: _check_beginning})
]
Reason = Annotated[str, Meta(max_length=1 << 16)]
Address = Annotated[str, Meta(max_length=1024)]
Agent = Annotated[str, Meta(max_length=1024)]
Word = Annotated[str, Meta(max_length=64)]
WaveName = Annotated[str, Meta(max_length=2048)]  # a broker, its life and a number
AttributeName = Annotated[str, Meta(max_length=LONGEST_NAME)]
AttributeText = Annotated[str, Meta(max_length=LONGEST_STRING)]
AttributeInteger = Annotated[int, Meta(ge=SMALLEST_INTEGER, le=LARGEST_INTEGER)]
AttributeDecimal = Annotated[float, Meta(ge=-float_info.max, le=float_info.max)]  # NaN and infinity are none
Report = Annotated[bytes, Meta(max_length=1 << 30)]  # JSON for people, as large as a body may be

# ---- collections

NumberSpan = tuple[EventNumber, EventNumber]  # the first and the last
SequenceSpan = tuple[SequenceNumber, SequenceNumber]
NumberSpans = Annotated[tuple[NumberSpan, ...], Meta(max_length=MOST_ITEMS, extra={CHECK: _check_spans})]
SequenceSpans = Annotated[tuple[SequenceSpan, ...], Meta(max_length=MOST_ITEMS, extra={CHECK: _check_spans})]
StreamNumber = tuple[Id, Life, EventNumber]  # a stream and one of its numbers
StreamNumbers = Annotated[tuple[StreamNumber, ...], Meta(max_length=MOST_ITEMS)]
RepositoryNames = Annotated[tuple[RepositoryName, ...], Meta(max_length=4096)]
Principals = Annotated[tuple[Principal, ...], Meta(max_length=4096)]
Units = Annotated[tuple[Path, ...], Meta(max_length=4096)]
Nanoseconds = Annotated[tuple[Nanosecond, ...], Meta(max_length=MOST_ITEMS)]
AnyClientNames = Annotated[tuple[AnyClientName, ...], Meta(max_length=MOST_ITEMS)]
SubscriberNames = Annotated[tuple[ClientName, ...], Meta(max_length=MOST_ITEMS)]


# ---- checking

T = TypeVar("T")
Check = Callable[[Any], None]
_PLACE = re.compile(r" - at `\$\[(\d+)\]")


class _Tagged(msgspec.Struct, array_like=True):
    """As much of a message as tells what it is."""

    tag: str


_tag = msgspec.msgpack.Decoder(_Tagged)


class RangedDecoder(Generic[T]):
    """Decodes messages, and refuses with InvalidInput whatever is not one or is out of range."""

    def __init__(self, kind: type[T]) -> None:
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._check = _check_for(inspect.type_info(kind)) or _pass
        kinds = [each for each in get_args(kind) or (kind,) if issubclass(each, msgspec.Struct)]
        self._kinds = {each.__struct_config__.tag: each for each in kinds}

    def decode(self, payload: bytes) -> T:
        try:
            message = self._decode(payload)
            self._check(message)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(self._describe(str(error), payload)) from None
        return message

    def _describe(self, wrong: str, payload: bytes) -> str:
        """Name the field that is out of range: msgspec tells its place in an array."""
        place = _PLACE.search(wrong)
        try:
            kind = self._kinds.get(_tag.decode(payload).tag)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return wrong
        if place is None or kind is None or not 0 < int(place[1]) <= len(kind.__struct_fields__):
            return wrong
        field = kind.__struct_fields__[int(place[1]) - 1]
        return f"the {field} of the message {kind.__struct_config__.tag!r}: {wrong[: place.start()]}"


def _pass(value: object) -> None:
    """Of most types a Meta says all."""


def _check_for(kind: inspect.Type) -> Check | None:
    match kind:
        case inspect.Metadata():
            said = (kind.extra or {}).get(CHECK)
            inner = _check_for(kind.type)
            return _both(inner, said)
        case inspect.StructType():
            return _check_struct(kind)
        case inspect.UnionType():
            return _check_union(kind)
        case inspect.VarTupleType():
            return _check_items(_check_for(kind.item_type))
        case inspect.DictType():
            return _check_dict(_check_for(kind.key_type), _check_for(kind.value_type))
        case inspect.TupleType():
            return _check_tuple([_check_for(each) for each in kind.item_types])
        case _:
            return None


def _both(one: Check | None, other: Check | None) -> Check | None:
    if one is None or other is None:
        return one or other

    def check(value: Any) -> None:
        one(value)
        other(value)

    return check


def _check_struct(kind: inspect.StructType) -> Check | None:
    found = [(field.name, each) for field in kind.fields if (each := _check_for(field.type)) is not None]
    whole: Check | None = getattr(kind.cls, "check", None)
    if not found:
        return whole

    def check(value: msgspec.Struct) -> None:
        for name, each in found:
            each(getattr(value, name))
        if whole is not None:
            whole(value)

    return check


def _check_union(kind: inspect.UnionType) -> Check | None:
    """Structs are told apart by their class; of anything else a union has one kind, and perhaps None."""
    structs = {each.cls: _check_for(each) for each in kind.types if isinstance(each, inspect.StructType)}
    others = [each for each in map(_check_for, kind.types) if each is not None and not structs]
    assert len(others) <= 1, "of a union of other things than structs, one is checked"
    if not others and not any(structs.values()):
        return None

    def check(value: Any) -> None:
        found = others[0] if others and value is not None else structs.get(type(value))
        if found is not None:
            found(value)

    return check


def _check_items(each: Check | None) -> Check | None:
    if each is None:
        return None

    def check(values: Iterable[Any]) -> None:
        for value in values:
            each(value)

    return check


def _check_dict(key: Check | None, value: Check | None) -> Check | None:
    keys, values = _check_items(key), _check_items(value)
    if keys is None and values is None:
        return None

    def check(found: dict[Any, Any]) -> None:
        if keys is not None:
            keys(found)
        if values is not None:
            values(found.values())

    return check


def _check_tuple(checks: list[Check | None]) -> Check | None:
    found = [(place, each) for place, each in enumerate(checks) if each is not None]
    if not found:
        return None

    def check(values: tuple[Any, ...]) -> None:
        for place, each in found:
            each(values[place])

    return check
