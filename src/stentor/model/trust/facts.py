"""Facts with versions: whoever heard the same of them, in any order and any number of times, knows the same.

A fact has a key, and the newest counts. What is taken back stays as a fact without a value, since a fact that is gone
would come back with the next one who has not heard of that.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import msgspec

from stentor.model.trust.access import MEMBER, TOPIC, SharedFact

Stamped = tuple[int, str, bytes]  # version, who wrote it, value
PORTION = 24 << 10  # bytes of facts in one message: some hundred, which a broker learns in some milliseconds
_OVERHEAD = 24  # bytes that a fact takes in a message beside its texts and its value

_encode = msgspec.msgpack.Encoder().encode


class Facts(dict[str, Stamped]):
    """Facts by key. Only `put` and `drop` change them, so that the digest is that of what is there."""

    def __init__(self) -> None:
        super().__init__()
        self._digests: dict[str, int] = {}
        self.digest = 0  # Equal facts have equal digests. Invariant: the exclusive or of all values of `_digests`.

    def is_news(self, key: str, fact: Stamped) -> bool:
        known = self.get(key)
        return known is None or fact > known

    def put(self, key: str, fact: Stamped) -> None:
        self.drop(key)
        number = int.from_bytes(blake2b(_encode((key, fact)), digest_size=7).digest(), "little")
        self[key], self._digests[key] = fact, number
        self.digest ^= number

    def drop(self, key: str) -> None:
        """Forget a fact as if it had never been heard of."""
        if self.pop(key, None) is not None:
            self.digest ^= self._digests.pop(key)

    def shared(self, key: str) -> SharedFact:
        version, writer, value = self[key]
        return key, version, writer, value

    def versions(self) -> dict[str, tuple[int, str]]:
        return {key: (version, writer) for key, (version, writer, _) in self.items()}

    def newer_than(self, versions: dict[str, tuple[int, str]]) -> tuple[SharedFact, ...]:
        """Return what whoever knows these versions does not know."""
        found = sorted(key for key, fact in self.items() if fact[:2] > versions.get(key, (0, "")))
        return tuple(self.shared(key) for key in found)


def portions(facts: Iterable[SharedFact]) -> Iterator[tuple[SharedFact, ...]]:
    """Divide access facts for messages that fit into frames: the topic and its members first, since a broker takes
    facts of a topic that it does not know only from a member.
    """
    portion: list[SharedFact] = []
    size = 0
    for fact in sorted(facts, key=lambda fact: (rank_of(fact[0]), fact[1])):
        added = size_of(fact)
        if portion and size + added > PORTION:
            yield tuple(portion)
            portion, size = [], 0
        portion.append(fact)
        size += added
    if portion:
        yield tuple(portion)


def size_of(fact: SharedFact) -> int:
    """Return about how many bytes a fact takes in a message, rather too many."""
    return _OVERHEAD + len(fact[0].encode()) + len(fact[2].encode()) + len(fact[3])


def rank_of(key: str) -> int:
    """Return when a fact is told: the topic's first, then the members', then the others."""
    return 0 if key == TOPIC else 1 if key.startswith(MEMBER) else 2
