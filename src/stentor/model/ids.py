"""Names of things, and the 64-bit numbers that stand for them on the wire."""

import re
from functools import lru_cache
from hashlib import blake2b
from typing import NewType

LinkId = NewType("LinkId", int)
TopicId = NewType("TopicId", int)
PublisherId = NewType("PublisherId", int)
SchemaId = NewType("SchemaId", int)
SubscriptionId = NewType("SubscriptionId", int)
Incarnation = NewType("Incarnation", int)
CatenationNumber = NewType("CatenationNumber", int)

NO_SCHEMA = SchemaId(0)
LIFE_BITS = 7  # of an incarnation: a draw that tells lives apart which began in the same millisecond
_LIFE_EPOCH_MS = 1_577_836_800_000  # 2020-01-01 in milliseconds since 1970, so that a life fits into 48 bits
_MADE_UP = re.compile(r".+-[0-9]+-[0-9a-f]{6}")


def fingerprint(kind: str, name: str) -> int:
    """The same name has the same number on every node, in every log and in Spark, so no hop translates it."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8, person=kind.encode()).digest(), "little") or 1


@lru_cache(4096)
def link_number(one: str, other: str) -> int:
    """Return the number of the link between two brokers, by their names in whichever order."""
    return fingerprint("link", " ".join(sorted((one, other))))


@lru_cache(4096)
def topic_id(name: str) -> TopicId:
    return TopicId(fingerprint("topic", name))


def is_made_up(name: str) -> bool:
    """Return whether a client's name looks like one that the library makes up: host, process and a random part."""
    return _MADE_UP.fullmatch(name) is not None


def incarnation_at(time: int) -> Incarnation:
    """Return the lowest incarnation of a life that began at a time, in nanoseconds since 1970."""
    return Incarnation(max(time // 1_000_000 - _LIFE_EPOCH_MS, 1) << LIFE_BITS)


def publisher_id(principal: str, name: str) -> PublisherId:
    return PublisherId(fingerprint("publisher", f"{principal}\0{name}"))
