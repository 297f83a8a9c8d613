"""Box list: filters with several ranges. Each number alone says which members come into question, then boxes are tried.

Of a member's boxes only those count that no other box of the member holds inside; subscriptions of the kind "at least
this much, at least that much" leave few of them. Where they leave many, a grid takes over.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

from stentor.matching.conjunct import Box
from stentor.matching.masks.mask_steps import MaskSteps

MOST_OUTER = 12  # outermost boxes of one member, from which a grid is better


def holds(outer: Box, inner: Box) -> bool:
    """Whether a box is inside another, or the same."""
    for place in range(0, len(outer), 2):
        if outer[place] > inner[place] or outer[place + 1] < inner[place + 1]:
            return False
    return True


class Boxes:
    """Boxes of members over two or more numbers."""

    __slots__ = ("boxes", "outer", "steps")

    def __init__(self, dimensions: int) -> None:
        self.steps = [MaskSteps() for _ in range(dimensions)]
        self.boxes: dict[int, Counter[Box]] = {}  # how often each
        self.outer: dict[int, list[Box]] = {}

    def __bool__(self) -> bool:
        return bool(self.boxes)

    def crowded(self, member: int) -> bool:
        return len(self.outer[member]) > MOST_OUTER

    def add(self, box: Box, member: int) -> bool:
        boxes = self.boxes.setdefault(member, Counter())
        boxes[box] += 1
        return boxes[box] == 1 and self._raise(box, member)

    def remove(self, box: Box, member: int) -> bool:
        boxes, outer = self.boxes[member], self.outer[member]
        boxes[box] -= 1
        if boxes[box]:
            return False
        del boxes[box]
        if box not in outer:
            return False
        self._lower(box, member)
        for other in boxes:
            if holds(box, other):
                self._raise(other, member)
        if not boxes:
            del self.boxes[member], self.outer[member]
        return True

    def _raise(self, box: Box, member: int) -> bool:
        """Make a box one of the outermost, unless it is inside of one."""
        outer = self.outer.setdefault(member, [])
        if any(holds(other, box) for other in outer):
            return False
        for other in [other for other in outer if holds(box, other)]:
            self._lower(other, member)
        outer.append(box)
        for place, steps in enumerate(self.steps):
            steps.add(box[2 * place], box[2 * place + 1], member)
        return True

    def _lower(self, box: Box, member: int) -> None:
        self.outer[member].remove(box)
        for place, steps in enumerate(self.steps):
            steps.remove(box[2 * place], box[2 * place + 1], member)

    def at(self, values: list[float], known: int) -> int:
        """The members that have a box around this point; those that are known already are not looked at."""
        candidates = ~known
        for value, steps in zip(values, self.steps, strict=True):
            candidates &= steps.masks[bisect_right(steps.bounds, value)]
            if not candidates:
                return 0
        found = 0
        outer = self.outer
        while candidates:
            bit = candidates & -candidates
            candidates ^= bit
            if contains(outer[bit.bit_length() - 1], values):
                found |= bit
        return found


def contains(boxes: list[Box], values: Sequence[float]) -> bool:
    """Whether the point is in any of the boxes."""
    if len(values) == 2:
        x, y = values
        return any(left <= x < right and low <= y < high for left, right, low, high in boxes)
    return any(all(box[2 * place] <= value < box[2 * place + 1] for place, value in enumerate(values)) for box in boxes)
