"""Member interests: what the members of the scopes around a broker want of the topics of one pattern."""

from collections import Counter

from stentor.matching.masks.mask_index import MaskIndex
from stentor.model.filter import Filter


class MemberInterests:
    """By level: who wants every event, as a mask, and an index of those who want some."""

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

    def __bool__(self) -> bool:
        return any(self.whole) or any(index is not None for index in self.filtered)
