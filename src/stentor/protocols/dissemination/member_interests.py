"""Member interests: what the members of the scopes around a broker want, found by pattern.

The index changes in place, because it may hold a hundred thousand filters. It belongs to the routing states whose
numbers its masks are made of, which refer to it: another index can be built beside it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from stentor.matching.masks.mask_index import MaskIndex
from stentor.matching.renewal import Renewal
from stentor.matching.topic_tree import PatternMap
from stentor.model.filter import Filter

Change = tuple[bool, int, int, str, str]  # comes or goes, level, member, pattern, filter or ""


class MemberInterests:
    """What members want of the topics of one pattern, by level: who wants every event, as a mask, and an index of
    those who want some.
    """

    __slots__ = ("_everything", "filtered", "number", "pattern", "whole")

    def __init__(self, number: int, pattern: str, depth: int) -> None:
        self.number = number
        self.pattern = pattern
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

    def become(self, other: "MemberInterests") -> None:
        """Hold what other interests in the same pattern hold; routes refer to these."""
        self.whole = other.whole
        self.filtered = other.filtered
        self._everything = other._everything

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
        self._renewal: Renewal[dict[str, MemberInterests], Change] | None = None

    def add(self, depth: int, level: int, member: int, pattern: str, where: Filter | None) -> bool:
        """A member of a level wants something; return whether nobody has wanted anything of this pattern before."""
        self._note((True, level, member, pattern, str(where or "")))
        interests = self._by_pattern.get(pattern)
        is_first = interests is None
        if interests is None:
            self._last += 1
            interests = self._by_pattern[pattern] = MemberInterests(self._last, pattern, depth)
            self._covering.add(pattern, interests.number, interests)
        interests.add(level, member, where)
        return is_first

    def remove(self, level: int, member: int, pattern: str, where: Filter | None) -> bool:
        """A member wants something no longer; return whether nobody wants anything of this pattern now."""
        self._note((False, level, member, pattern, str(where or "")))
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
        self._renewal = None
        return patterns

    # ---- made anew

    def renew(self, depth: int, wants: Callable[[], Iterable[Change]], most: int) -> None:
        """Index so many of the members' `wants` anew, beside the index in use, which they replace when all are."""
        if self._renewal is None:
            self._renewal = Renewal({}, wants(), partial(self._index_anew, depth))
        try:
            self._renewal.run(most)
        except (AssertionError, LookupError):  # what goes was not there: the next attempt begins with what is so
            self._renewal = None
            return
        if self._renewal.is_done:
            self._replace(self._renewal.index)
            self._renewal = None

    def _note(self, change: Change) -> None:
        if self._renewal is not None and not self._renewal.note(change):
            self._renewal = None

    def _index_anew(self, depth: int, made: dict[str, MemberInterests], change: Change) -> None:
        comes, level, member, pattern, text = change
        where = Filter(text) if text else None
        interests = made.get(pattern)
        if interests is None:
            interests = made[pattern] = MemberInterests(0, pattern, depth)
        if comes:
            interests.add(level, member, where)
        else:
            interests.remove(level, member, where)
        if not interests:
            del made[pattern]
        known = self._by_pattern.get(pattern)
        if known is not None and not self._covering.holds(pattern, known.number, known):
            self._covering.add(pattern, known.number, known)

    def _replace(self, made: dict[str, MemberInterests]) -> None:
        for pattern, interests in made.items():
            known = self._by_pattern.get(pattern)
            if known is not None:
                known.become(interests)
                continue
            self._last += 1
            interests.number = self._last
            self._by_pattern[pattern] = interests
            self._covering.add(pattern, interests.number, interests)
        for pattern in self._by_pattern.keys() - made.keys():
            del self._by_pattern[pattern]

    def counts(self) -> Iterator[tuple[tuple[str, int, int, bool], int]]:
        """Yield pattern, level, member and whether it is with filters, and how many wants that are."""
        for pattern, interests in self._by_pattern.items():
            for level, member, is_filtered, count in interests.counts():
                yield (pattern, level, member, is_filtered), count

    def covering(self, topic: str) -> list[MemberInterests]:
        """Return all interests in a topic, in the order in which they came."""
        known = self._by_pattern
        found = [each for each in self._covering.covering(topic) if known.get(each.pattern) is each]
        return sorted(found, key=lambda interests: interests.number)

    def members(self, level: int) -> int:
        """Return the members of a level that want every event of some pattern, as a mask."""
        mask = 0
        for interests in self._by_pattern.values():
            mask |= interests.whole[level]
        return mask
