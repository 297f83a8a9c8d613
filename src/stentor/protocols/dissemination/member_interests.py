"""Member interests: what the members of the scopes around a broker want, found by pattern.

The index changes in place, because it may hold a hundred thousand filters. It belongs to the routing states whose
numbers its masks are made of, which refer to it: another index can be built beside it.
"""

from collections import Counter
from collections.abc import Iterator

from stentor.matching.masks.mask_index import MaskIndex
from stentor.matching.topic_tree import PatternMap
from stentor.model.filter import Filter


class MemberInterests:
    """What members want of the topics of one pattern, by level: who wants every event, as a mask, and an index of
    those who want some.
    """

    __slots__ = ("_everything", "filtered", "number", "whole")

    def __init__(self, number: int, depth: int) -> None:
        self.number = number
        self.whole = [0] * depth
        self.filtered: list[MaskIndex | None] = [None] * depth
        self._everything: tuple[Counter[int], ...] = tuple(Counter() for _ in range(depth))

    def add(self, level: int, member: int, where: Filter | None) -> None:
        if where is None:
            self._everything[level][member] += 1
            self.whole[level] |= 1 << member
            return
        index = self.filtered[level]
        if index is None:
            index = self.filtered[level] = MaskIndex()
        index.add(where, member)

    def remove(self, level: int, member: int, where: Filter | None) -> None:
        if where is None:
            self._everything[level][member] -= 1
            if not self._everything[level][member]:
                del self._everything[level][member]
                self.whole[level] &= ~(1 << member)
            return
        index = self.filtered[level]
        assert index is not None, "what is removed was added"
        index.remove(where, member)
        if not index:
            self.filtered[level] = None

    def counts(self) -> Iterator[tuple[int, int, bool, int]]:
        """Yield level, member, whether it is with filters, and how many wants of the member are here."""
        for level, (everything, index) in enumerate(zip(self._everything, self.filtered, strict=True)):
            for member, count in everything.items():
                is_masked = bool(self.whole[level] >> member & 1)
                yield level, member, False, count if is_masked else -1
            for member, count in () if index is None else index.predicates.items():
                if count:
                    yield level, member, True, count

    def __bool__(self) -> bool:
        return any(self.whole) or any(index is not None for index in self.filtered)


class InterestIndex:
    """The interests of members by pattern."""

    def __init__(self) -> None:
        self._by_pattern: dict[str, MemberInterests] = {}
        self._covering: PatternMap[MemberInterests] = PatternMap()  # Invariant: it holds just those of `_by_pattern`.
        self._last = 0

    def add(self, depth: int, level: int, member: int, pattern: str, where: Filter | None) -> bool:
        """A member of a level wants something; return whether nobody has wanted anything of this pattern before."""
        interests = self._by_pattern.get(pattern)
        is_first = interests is None
        if interests is None:
            self._last += 1
            interests = self._by_pattern[pattern] = MemberInterests(self._last, depth)
            self._covering.add(pattern, interests.number, interests)
        interests.add(level, member, where)
        return is_first

    def remove(self, level: int, member: int, pattern: str, where: Filter | None) -> bool:
        """A member wants something no longer; return whether nobody wants anything of this pattern now."""
        interests = self._by_pattern[pattern]
        interests.remove(level, member, where)
        if interests:
            return False
        del self._by_pattern[pattern]
        self._covering.remove(pattern, interests.number)
        return True

    def clear(self) -> list[str]:
        """Forget what all members want; return the patterns that they wanted anything of."""
        patterns = list(self._by_pattern)
        self._by_pattern = {}
        self._covering = PatternMap()
        return patterns

    def counts(self) -> Iterator[tuple[tuple[str, int, int, bool], int]]:
        """Yield pattern, level, member and whether it is with filters, and how many wants that are."""
        for pattern, interests in self._by_pattern.items():
            for level, member, is_filtered, count in interests.counts():
                yield (pattern, level, member, is_filtered), count

    def covering(self, topic: str) -> list[MemberInterests]:
        """Return all interests in a topic, in the order in which they came."""
        return sorted(self._covering.covering(topic), key=lambda interests: interests.number)

    def members(self, level: int) -> int:
        """Return the members of a level that want every event of some pattern, as a mask."""
        mask = 0
        for interests in self._by_pattern.values():
            mask |= interests.whole[level]
        return mask
