"""Box columns: boxes of members in arrays, all compared at once. No order is kept, so a change costs little."""

from array import array
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stentor.matching.conjunct import Box
from stentor.matching.facet import Numbers

_FEW = 48  # boxes up to which a loop beats numpy

BITS = np.uint64(1) << np.arange(64, dtype=np.uint64)

Places = NDArray[np.intp]


N = TypeVar("N", int, float)


def drop(column: "array[N]", place: int) -> None:
    """Take an element out; the last one takes its place."""
    last = column.pop()
    if place < len(column):
        column[place] = last


class BoxColumns:
    """Boxes over the same numbers, each with a member; a member may have several."""

    __slots__ = ("_sides", "members")

    def __init__(self, dimensions: int) -> None:
        self.members = array("q")
        self._sides = [array("d") for _ in range(2 * dimensions)]  # lows and highs of each number in turn

    def add(self, box: Box, member: int) -> None:
        self.members.append(member)
        for side, bound in zip(self._sides, box, strict=True):
            side.append(bound)

    def remove(self, box: Box, member: int) -> None:
        """Forget one such box."""
        places = (np.frombuffer(self._sides[0]) == box[0]).nonzero()[0]
        if len(places) > 1:  # half-open boxes begin alike
            same = np.frombuffer(self.members, np.int64)[places] == member
            for side, bound in zip(self._sides[1:], box[1:], strict=True):
                same &= np.frombuffer(side)[places] == bound
            places = places[same]
        place = int(places[0])
        drop(self.members, place)
        for side in self._sides:
            drop(side, place)

    def has(self, member: int) -> bool:
        return bool((np.frombuffer(self.members, np.int64) == member).any()) if self.members else False

    def at(self, values: Sequence[float]) -> list[int]:
        """The members of the boxes around a point."""
        if len(self.members) > _FEW:
            return np.frombuffer(self.members, np.int64)[self._inside(values)].tolist()  # type: ignore[no-any-return]
        value, lows, highs = values[0], self._sides[0], self._sides[1]
        if len(values) == 1:
            pairs = zip(self.members, lows, highs, strict=True)
            return [member for member, low, high in pairs if low <= value < high]
        places = [place for place, low in enumerate(lows) if low <= value < highs[place]]
        for axis, value in enumerate(values[1:], 1):
            lows, highs = self._sides[2 * axis], self._sides[2 * axis + 1]
            places = [place for place in places if lows[place] <= value < highs[place]]
        return [self.members[place] for place in places]

    def mask_at(self, values: Sequence[float]) -> int:
        """The same, as the bits of a number."""
        found = 0
        if len(self.members) > _FEW:
            hits = np.frombuffer(self.members, np.int64)[self._inside(values)]
            return int(np.bitwise_or.reduce(BITS[hits]))
        for member in self.at(values):
            found |= 1 << member
        return found

    def _inside(self, values: Sequence[float]) -> NDArray[np.bool_]:
        inside: NDArray[np.bool_] | None = None
        for axis, value in enumerate(values):
            within = np.frombuffer(self._sides[2 * axis]) <= value
            within &= np.frombuffer(self._sides[2 * axis + 1]) > value
            inside = within if inside is None else inside & within
        assert inside is not None, "boxes have at least one number"
        return inside

    def among(self, values: Sequence[Numbers]) -> tuple[Places, Places]:
        """Which of several points are in which boxes, by their places."""
        points, places = self._inside([numbers[:, None] for numbers in values]).nonzero()  # type: ignore[misc]
        return points, places
