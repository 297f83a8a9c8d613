"""Profiles: which members want what of which topics; a mask index for each pattern, and the topics that were seen."""

import numpy as np
from numpy.typing import NDArray

from stentor.matching.facet import Attributes
from stentor.matching.masks import MaskIndex
from stentor.matching.topics import PatternMap, TopicTree
from stentor.model.batch import Batch
from stentor.model.filter import Filter

_MOST_TOPICS = 65_536  # remembered with the indexes that they need

Indexes = tuple[MaskIndex, ...]


class Profile:
    """Filters of members on patterns of topics."""

    def __init__(self) -> None:
        self._indexes: dict[str, MaskIndex] = {}
        self._patterns: PatternMap[MaskIndex] = PatternMap()
        self._seen: dict[str, Indexes] = {}
        self._topics: TopicTree[str] = TopicTree()  # the same topics, to find those that a pattern covers

    def __len__(self) -> int:
        return sum(map(len, self._indexes.values()))

    def add(self, pattern: str, where: Filter | None, member: int) -> bool:
        """Whether any event may now have another answer; None is every event of the topics."""
        index = self._indexes.get(pattern)
        if index is not None:
            return index.add(where, member)
        index = MaskIndex()
        changed = index.add(where, member)  # may refuse the member
        self._indexes[pattern] = index
        self._patterns.add(pattern, 0, index)
        self._forget(pattern)
        return changed

    def remove(self, pattern: str, where: Filter | None, member: int) -> bool:
        """Whether any event may now have another answer; a KeyError if the member does not have it."""
        index = self._indexes[pattern]
        changed = index.remove(where, member)
        if not index:
            del self._indexes[pattern]
            self._patterns.remove(pattern, 0)
            self._forget(pattern)
        return changed

    def match_one(self, topic: str, attributes: Attributes) -> int:
        """The members that want an event, as the bits of a number."""
        found = 0
        for index in self._at(topic):
            found |= index.match_one(attributes)
        return found

    def match(self, topic: str, batch: Batch) -> NDArray[np.uint64]:
        """The same for every event of a batch."""
        found = np.zeros(batch.count, np.uint64)
        for index in self._at(topic):
            found |= index.match(batch)
        return found

    def _at(self, topic: str) -> Indexes:
        indexes = self._seen.get(topic)
        if indexes is None:
            if len(self._seen) >= _MOST_TOPICS:
                self._seen.clear()
                self._topics = TopicTree()
            indexes = self._seen[topic] = tuple(self._patterns.covering(topic))
            self._topics.add(topic, 0, topic)
        return indexes

    def _forget(self, pattern: str) -> None:
        """A pattern came or went: the topics that it covers are worked out anew."""
        for topic in list(self._topics.covered(pattern)):
            del self._seen[topic]
            self._topics.remove(topic, 0)
