"""What one broker still has to tell a neighbour of reliable topics, a bounded part of it at a time.

The neighbour confirms what it has written down, and is told more then: a broker that knows nothing yet is told
everything without a flood.
"""

from collections import deque
from collections.abc import Iterable, Iterator

from stentor.model.trust.access import SharedFact
from stentor.model.trust.access_messages import AccessFacts
from stentor.model.trust.facts import PORTION, rank_of, size_of
from stentor.protocols.dissemination.access.charters import Charters

_UNDER_WAY = 64  # messages that are not confirmed: a disk writes them as one group
_BYTES_UNDER_WAY = 128 << 10  # so that a broker that reads all at once serves others some milliseconds later


class Transfer:
    """All that is to be told on one link."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, None] | None] = {}  # keys that the neighbour lacks; None is that it lacks all
        self._topic = ""  # that is being told
        self._keys: deque[str] = deque()  # what is left to be told of it
        self._under_way: dict[int, int] = {}  # tokens of messages that are not confirmed, and their sizes
        self.has_compared = False  # the neighbour told all that it knows, so we know what it lacks
        self.has_concluded = False  # and it was told that it has all of that

    def add(self, topic: str, keys: Iterable[str] | None = None) -> None:
        """The neighbour lacks these facts, or does not know the topic as we do."""
        known = self._topics.get(topic, {})
        if keys is None or known is None:
            self._topics[topic] = None
        else:
            self._topics[topic] = {**known, **dict.fromkeys(keys)}

    def confirm(self, token: int) -> None:
        self._under_way.pop(token, None)

    @property
    def is_idle(self) -> bool:
        return not (self._topics or self._keys or self._under_way)

    def send(self, charters: Charters, tokens: Iterator[int]) -> Iterator[AccessFacts]:
        """Return what may leave now."""
        total = sum(self._under_way.values())
        while (self._keys or self._topics) and len(self._under_way) < _UNDER_WAY and total < _BYTES_UNDER_WAY:
            if not self._keys:
                self._topic = next(iter(self._topics))
                keys = self._topics.pop(self._topic)
                self._keys.extend(charters.keys_of(self._topic) if keys is None else sorted(keys, key=rank_of))
            facts = self._next_portion(charters)
            if facts:
                token = next(tokens)
                size = self._under_way[token] = sum(map(size_of, facts))
                total += size
                yield AccessFacts(topic=self._topic, facts=tuple(facts), token=token)

    def _next_portion(self, charters: Charters) -> list[SharedFact]:
        facts: list[SharedFact] = []
        size = 0
        while self._keys and size < PORTION:
            found = charters.facts_of(self._topic, (self._keys.popleft(),))
            facts += found
            size += sum(map(size_of, found))
        return facts
