"""Odd messages, made from the definitions of messages themselves: well-formed, with values at and beyond the ends of
their ranges. What is made here is plain data, so that no constructor of ours has a say in it.
"""

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, get_args

import msgspec
from msgspec import inspect

from stentor.model.control import AnyControlEvent
from stentor.model.messages import AnyMessage
from stentor.model.ranges import BITS, LAST_VERSION
from stentor.model.stored.reading import AnyReadingEvent
from stentor.model.trust.access import Grant, Membership, TopicTerms
from stentor.protocols.delivery.repository.registry import Holding, PublisherRecord, SubscriptionRecord
from stentor.wire.block import with_checksum
from stentor.wire.frame import LARGEST_CONTROL
from stentor.wire.head import HEADER, HEADER_SIZE

MESSAGES: Final[tuple[type[msgspec.Struct], ...]] = get_args(AnyMessage)
LETTERS: Final[tuple[type[msgspec.Struct], ...]] = (*get_args(AnyControlEvent), *get_args(AnyReadingEvent))
_FACTS: Final[dict[str, type[msgspec.Struct]]] = {
    "topic": TopicTerms,
    "member": Membership,
    "grant": Grant,
    "publisher": PublisherRecord,
    "subscription": SubscriptionRecord,
    "life": Holding,
}
_VERSION: Final = inspect.IntType(ge=1, le=LAST_VERSION)
_POWERS: Final = (31, 32, 48, 53, 62, 63, 64)
_INTEGERS: Final = (0, 1, -1, 2, *(2**power + by for power in _POWERS for by in (-1, 0, 1) if 2**power + by < 2**64))
_DECIMALS: Final = (0.0, -0.0, 1.0, -1.0, 5e-324, 1e9, 1e308, -1e308, math.nan, math.inf, -math.inf)
_TEXTS: Final = (
    "",
    "a",
    "a/b",
    "a/#/b",
    "#",
    "+",
    "+/a",
    "a#",
    "/",
    "//",
    "a/",
    "$",
    "$to/a",
    "$bundle/a",
    "$stentor/trace",
    "a\0b",
    "\0",
    ":",
    "a:b:c",
    "publisher:a:b",
    "repository:r1",
    "a b",
    "\u202eba",
    "\ufeff",
    "é",
    "\U0001f600",
    "²",
    "-0",
    "epoch ²",
    "time 1",
    "epoch -5",
    "%",
    "%2f",
    "..",
    "../a",
    "null",
    "n > 1",
    "n LIKE '%'",
    "n >",
    "/".join("a" * 64),
    "/".join("a" * 65),
    "é" * 255,
)
_NOT_UTF8: Final = msgspec.Raw(b"\xa3\xed\xa0\x80")  # half of a character, which no decoder of ours may pass on
_SOUND_TEXTS: Final = ("a", "b", "r1", "t/u")
_LONG: Final = 70_000  # items, or characters: more than any sound message has


class OddMessages:
    """Draws messages; `known` has values by the name of a field that make a machine look further into them."""

    def __init__(
        self, random: Random, known: Mapping[str, Sequence[object]], keys: Sequence[str], oddness: float
    ) -> None:
        """`keys` are those of facts that are worth telling."""
        self._random = random
        self._known = known
        self._keys = keys
        self._oddness = oddness
        self._familiar = random.choice((0.3, 0.7, 0.9))  # of fields have values that are known

    def encode(self, kind: type[msgspec.Struct]) -> bytes:
        """Return the bytes of a message of this kind."""
        while True:
            payload = msgspec.msgpack.encode(self._damage(self._value(inspect.type_info(kind), "")))
            if len(payload) < LARGEST_CONTROL // 2:
                return payload

    def _chance(self, rate: float) -> bool:
        return self._random.random() < rate

    def _damage(self, message: Any) -> object:
        """Now and then a field is missing, one too many, or of another type."""
        if isinstance(message, list) and self._chance(self._oddness / 10):
            at = self._random.randrange(len(message))
            match self._random.randrange(3):
                case 0:
                    del message[at:]
                case 1:
                    message.append(self._anything())
                case _:
                    message[at] = self._anything()
        return message

    def _anything(self) -> object:
        nested: list[object] = [[[]], {"a": {"b": []}}, None, True, b"\xc1", _NOT_UTF8, msgspec.msgpack.Ext(1, b"x")]
        return self._random.choice([*nested, *_INTEGERS, *_DECIMALS, *_TEXTS])

    def _value(self, kind: inspect.Type, field: str, bits: int | None = None) -> object:
        random = self._random
        if field in self._known and self._chance(self._familiar):
            return random.choice(self._known[field])
        match kind:
            case inspect.Metadata():
                return self._value(kind.type, field, (kind.extra or {}).get(BITS))
            case inspect.StructType():
                fields = [self._value(each.type, each.name) for each in kind.fields]
                return fields if kind.tag is None else [kind.tag, *fields]
            case inspect.UnionType():
                return self._value(random.choice(kind.types), field)
            case inspect.IntType():
                return self._integer(kind, bits)
            case inspect.FloatType():
                ends = (kind.ge or 0.0, kind.le or 0.0)
                return random.choice((*_DECIMALS, *ends)) if self._chance(self._oddness) else random.choice(ends)
            case inspect.StrType():
                return self._text(kind)
            case inspect.BytesType():
                return self._bytes()
            case inspect.EnumType():
                return random.choice([each.value for each in kind.cls])
            case inspect.LiteralType():
                return random.choice(kind.values)
            case inspect.BoolType():
                return random.random() < 0.5
            case _:
                return self._collection(kind, field)

    def _collection(self, kind: inspect.Type, field: str) -> object:
        match kind:
            case inspect.VarTupleType():
                items = [self._value(kind.item_type, field) for _ in range(self._random.choice((0, 0, 1, 1, 2, 5)))]
                if items and self._chance(self._oddness):  # the same twice, or in another order
                    items = self._random.choices(items, k=self._random.choice((2, 3, 300)))
                return items
            case inspect.TupleType() if field == "facts":
                return self._fact()
            case inspect.TupleType():
                return [self._value(each, field) for each in kind.item_types]
            case inspect.DictType():
                keys = [self._value(kind.key_type, "") for _ in range(self._random.choice((0, 1, 2)))]
                return {key: self._value(kind.value_type, "") for key in keys if not isinstance(key, msgspec.Raw)}
            case _:
                return None

    def _integer(self, kind: inspect.IntType, bits: int | None) -> int:
        low, high = kind.ge or 0, (1 << bits) - 1 if bits else kind.le or 0
        if not self._chance(self._oddness):
            return self._random.choice((max(low, 0), max(low, 0) + 1, min(7, high), min(100, high), high))
        ends = [low - 1, low, high, high + 1]
        chosen: int = self._random.choice([*(end for end in ends if -(2**63) <= end < 2**64), *_INTEGERS])
        return chosen

    def _text(self, kind: inspect.StrType) -> object:
        if not self._chance(self._oddness):
            return self._random.choice(_SOUND_TEXTS)
        longest = min(kind.max_length or 0, _LONG)
        return self._random.choice((*_TEXTS, "x" * longest, "x" * (longest + 1), "é" * longest, _NOT_UTF8))

    def _bytes(self) -> bytes:
        return self._random.choice((b"", b"\xc1", b"\x91" * 1000, self._random.randbytes(20)))

    def _fact(self) -> list[object]:
        """A key, a version, who wrote it, and a value of the kind that the key wants, or of another one."""
        key = self._random.choice(self._keys)
        kind = _FACTS[key.partition("/")[0]] if self._chance(0.9) else self._random.choice([*_FACTS.values()])
        value = self._bytes() if self._chance(0.2) else msgspec.msgpack.encode(self._value(inspect.type_info(kind), ""))
        if self._chance(self._oddness):
            key = key.partition("/")[0] + "/" + self._random.choice(_TEXTS)
        return [key, self._integer(_VERSION, None), self._random.choice(("r9", "owner", "")), value]


def odd_events(random: Random, frame: bytes) -> bytes:
    """Return an events frame with odd numbers in its head, and a checksum that is right."""
    parts = list(HEADER.unpack_from(frame))
    place = random.choice((3, 4, 8, 8, 9, 9, 9, 10, 11))  # flags, hop, count and incarnation, number, time, columns
    widths = {3: 8, 4: 8, 11: 32}
    value = random.choice([each for each in _INTEGERS if each >= 0]) & (1 << widths.get(place, 64)) - 1
    parts[place] = value - (1 << 64) if place == 10 and value >> 63 else value
    head = HEADER.pack(*parts)
    return with_checksum(head, frame[HEADER_SIZE:])
