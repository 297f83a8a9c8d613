"""Mask steps: a function from numbers to masks that changes only at bounds. One bisection finds who has a range there.

A mask has a bit for each member. The ranges themselves are kept per member, since after one is removed the others that
lie over it must show again.
"""

from array import array
from bisect import bisect_left, bisect_right
from math import inf

import numpy as np

_FEW = 16  # elements up to which a loop beats numpy


class _Ranges:
    """The ranges of one member, ordered by where they begin."""

    __slots__ = ("highs", "lows")

    def __init__(self) -> None:
        self.lows, self.highs = array("d"), array("d")

    def add(self, low: float, high: float) -> None:
        place = bisect_left(self.lows, low)
        self.lows.insert(place, low)
        self.highs.insert(place, high)

    def remove(self, low: float, high: float) -> None:
        place = bisect_left(self.lows, low)
        while self.highs[place] != high:
            place += 1
            assert self.lows[place] == low, "a range that was never added"
        del self.lows[place], self.highs[place]

    def over(self, low: float, high: float) -> list[tuple[float, float]]:
        """What these ranges cover of a range, as ranges that neither touch nor overlap."""
        end = bisect_left(self.lows, high)
        if end <= _FEW:
            pairs = [pair for pair in zip(self.lows[:end], self.highs[:end], strict=True) if pair[1] > low]
        else:
            highs = np.frombuffer(self.highs)[:end]
            places = (highs > low).nonzero()[0]
            lows = np.frombuffer(self.lows)[places]
            pairs = list(zip(lows.tolist(), highs[places].tolist(), strict=True))
        covered: list[tuple[float, float]] = []
        start = reach = -inf
        for begin, finish in pairs:
            if begin > reach or reach == -inf:
                if reach > start:
                    covered.append((start, reach))
                start, reach = max(begin, low), finish
            elif finish > reach:
                reach = finish
            if reach >= high:
                covered.append((start, high))
                return covered
        if reach > start:
            covered.append((start, reach))
        return covered


class MaskSteps:
    """Segment k reaches from bound k - 1 up to, not including, bound k; the outermost have no end."""

    __slots__ = ("_count", "_ranges", "bounds", "masks")

    def __init__(self) -> None:
        self.bounds = array("d")
        self.masks = array("Q", [0])
        self._ranges: dict[int, _Ranges] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, low: float, high: float, member: int) -> bool:
        """Whether that changed the function."""
        ranges = self._ranges.get(member)
        if ranges is None:
            ranges = self._ranges[member] = _Ranges()
        ranges.add(low, high)
        self._count += 1
        return self._set(low, high, 1 << member)

    def remove(self, low: float, high: float, member: int) -> bool:
        ranges = self._ranges[member]
        ranges.remove(low, high)
        self._count -= 1
        if not ranges.lows:
            del self._ranges[member]
        covered = ranges.over(low, high)
        if covered == [(low, high)]:
            return False
        first, last = self._cut(low), self._cut(high)
        self._clear(first, last, 1 << member)
        for begin, end in covered:
            self._set(begin, end, 1 << member)
        if len(self.bounds) > 4 * self._count:
            self._compact()
        return True

    def _set(self, low: float, high: float, bit: int) -> bool:
        if self._covered(low, high, bit):
            return False
        first, last = self._cut(low), self._cut(high)
        masks = self.masks
        if last - first <= _FEW:
            for place in range(first, last):
                masks[place] |= bit
        else:
            np.frombuffer(masks, np.uint64)[first:last] |= np.uint64(bit)
        return True

    def _covered(self, low: float, high: float, bit: int) -> bool:
        """Whether every segment that the range touches has the bit already."""
        first, last = bisect_right(self.bounds, low), bisect_left(self.bounds, high) + 1
        masks = self.masks
        if last - first <= _FEW:
            return all(masks[place] & bit for place in range(first, last))
        return bool(int(np.bitwise_and.reduce(np.frombuffer(masks, np.uint64)[first:last])) & bit)

    def _clear(self, first: int, last: int, bit: int) -> None:
        masks = self.masks
        if last - first <= _FEW:
            for place in range(first, last):
                masks[place] &= ~bit
        else:
            np.frombuffer(masks, np.uint64)[first:last] &= ~np.uint64(bit)

    def _cut(self, bound: float) -> int:
        """The segment that begins at this bound, made if there is none."""
        if bound == -inf:
            return 0
        if bound == inf:
            return len(self.masks)
        place = bisect_left(self.bounds, bound)
        if place == len(self.bounds) or self.bounds[place] != bound:
            self.bounds.insert(place, bound)
            self.masks.insert(place + 1, self.masks[place])
        return place + 1

    def _compact(self) -> None:
        """Forget bounds at which nothing changes any more."""
        masks = np.frombuffer(self.masks, np.uint64)
        changes = (masks[1:] != masks[:-1]).nonzero()[0]
        bounds = np.frombuffer(self.bounds)[changes] if len(self.bounds) else np.empty(0)
        kept = np.concatenate((masks[:1], masks[1:][changes]))
        self.bounds, self.masks = array("d", bounds.tobytes()), array("Q", kept.tobytes())
