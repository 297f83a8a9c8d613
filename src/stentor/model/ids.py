"""Names of things, and the 64-bit numbers that stand for them on the wire."""

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


def fingerprint(kind: str, name: str) -> int:
    """The same name has the same number on every node, in every log and in Spark, so no hop translates it."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8, person=kind.encode()).digest(), "little") or 1


@lru_cache(4096)
def topic_id(name: str) -> TopicId:
    return TopicId(fingerprint("topic", name))


def publisher_id(principal: str, name: str) -> PublisherId:
    return PublisherId(fingerprint("publisher", f"{principal}\0{name}"))
