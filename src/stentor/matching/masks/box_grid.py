"""The grid: many wide boxes. Cells that a member covers wholly need no look at its boxes; edges lie in few cells."""

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stentor.matching.conjunct import Box
from stentor.matching.facet import Numbers
from stentor.matching.masks.box_columns import BoxColumns
from stentor.matching.masks.box_list import Boxes

Masks = NDArray[np.uint64]

_SIDE = 24  # cells along each of the first two numbers


class BoxGrid:
    """Boxes of members, filed under the cells of their first two numbers."""

    __slots__ = ("_across", "_edges", "_full", "_up", "boxes", "masks")

    def __init__(self, boxes: Boxes) -> None:
        """Takes over the boxes that are there; their bounds say where the cells should lie."""
        self.boxes = boxes.boxes
        everything = [box for some in self.boxes.values() for box in some]
        self._across = _borders([bound for box in everything for bound in box[:2]])
        self._up = _borders([bound for box in everything for bound in box[2:4]])
        size = (len(self._across) + 1) * (len(self._up) + 1)
        self.masks = array("Q", bytes(8 * size))  # members that cover the cell
        self._full: Counter[tuple[int, int]] = Counter()  # how often a member covers a cell
        self._edges: dict[int, _Cell] = {}
        for member, some in self.boxes.items():
            for box in some:
                self._enter(box, member)

    def __bool__(self) -> bool:
        return bool(self.boxes)

    def add(self, box: Box, member: int) -> bool:
        boxes = self.boxes.setdefault(member, Counter())
        boxes[box] += 1
        return boxes[box] == 1 and self._enter(box, member)

    def remove(self, box: Box, member: int) -> bool:
        boxes = self.boxes[member]
        boxes[box] -= 1
        if boxes[box]:
            return False
        del boxes[box]
        bit = 1 << member
        if not boxes:
            del self.boxes[member]
        whole, edges = self._cells(box)
        for cell in whole:
            self._full[cell, member] -= 1
            if not self._full[cell, member]:
                del self._full[cell, member]
                self.masks[cell] &= ~bit
        for cell in edges:
            self._edges[cell].remove(box, member)
            if not self._edges[cell].known:
                del self._edges[cell]
        return True

    def _enter(self, box: Box, member: int) -> bool:
        bit = 1 << member
        whole, edges = self._cells(box)
        for cell in whole:
            self._full[cell, member] += 1
            self.masks[cell] |= bit
        changed = bool(whole)
        for cell in edges:
            changed |= not self.masks[cell] & bit
            there = self._edges.get(cell)
            if there is None:
                there = self._edges[cell] = _Cell(len(box) // 2)
            there.add(box, member)
        return changed

    def _cells(self, box: Box) -> tuple[list[int], list[int]]:
        """The cells that a box covers, and those that it has an edge in."""
        left, right = bisect_right(self._across, box[0]), bisect_right(self._across, box[1])
        low, high = bisect_right(self._up, box[2]), bisect_right(self._up, box[3])
        width = len(self._up) + 1
        whole: list[int] = []
        edges: list[int] = []
        for column in range(left, right + 1):
            base = column * width
            if column in (left, right) or len(box) > 4:  # more numbers than cells have: always to be tried
                edges += range(base + low, base + high + 1)
                continue
            edges.append(base + low)
            if high > low:
                edges.append(base + high)
            whole += range(base + low + 1, base + high)
        return whole, edges

    def at(self, values: list[float], known: int) -> int:
        """The members that have a box around this point."""
        cell = bisect_right(self._across, values[0]) * (len(self._up) + 1) + bisect_right(self._up, values[1])
        found = self.masks[cell]
        there = self._edges.get(cell)
        return found if there is None else found | there.at(values, ~(found | known))

    def among(self, values: list[Numbers], found: Masks) -> None:
        """Add to what was found for each of several points, none of them NaN."""
        across = np.searchsorted(np.frombuffer(self._across), values[0], "right")
        cells = across * (len(self._up) + 1) + np.searchsorted(np.frombuffer(self._up), values[1], "right")
        found |= np.frombuffer(self.masks, np.uint64)[cells]
        points = zip(*[numbers.tolist() for numbers in values], strict=True)
        edges = self._edges
        for row, (cell, point, known) in enumerate(zip(cells.tolist(), points, found.tolist(), strict=True)):
            there = edges.get(cell)
            if there is not None and there.known & ~known:
                found[row] |= np.uint64(there.at(point, ~known))


class _Cell:
    """Boxes with an edge in one cell."""

    __slots__ = ("_columns", "known")

    def __init__(self, dimensions: int) -> None:
        self.known = 0  # members that have one
        self._columns = BoxColumns(dimensions)

    def add(self, box: Box, member: int) -> None:
        self._columns.add(box, member)
        self.known |= 1 << member

    def remove(self, box: Box, member: int) -> None:
        self._columns.remove(box, member)
        if not self._columns.has(member):
            self.known &= ~(1 << member)

    def at(self, values: Sequence[float], candidates: int) -> int:
        """Which members have a box around the point; nobody is looked for if there are no candidates."""
        return self._columns.mask_at(values) if candidates & self.known else 0


def _borders(bounds: list[float]) -> "array[float]":
    """Borders with as many bounds between any two of them."""
    ordered = sorted({bound for bound in bounds if abs(bound) != float("inf")})
    step = max(1, len(ordered) // _SIDE)
    return array("d", ordered[step::step][: _SIDE - 1])
