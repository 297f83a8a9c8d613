"""The mask index: which of up to 64 members want an event. What it costs hardly depends on how many filters there are.

Members are a broker's links or the parts of a unit. It never lists filters: it keeps, per bucket, what the answer is,
as masks, and changes that in place when a filter comes or goes.
"""

from bisect import bisect_right
from collections import Counter
from copy import deepcopy
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from stentor.matching.conjunct import EVERYTHING, Conjunct, box_of
from stentor.matching.facet import Attributes, Number, look_at_number, point_of
from stentor.matching.facet_groups import FacetGroups
from stentor.matching.masks.box_grid import BoxGrid
from stentor.matching.masks.box_list import Boxes
from stentor.matching.masks.mask_snapshot import Snapshot
from stentor.matching.masks.mask_steps import MaskSteps
from stentor.matching.normal_form import Normal, normal_form
from stentor.model.batch import Batch
from stentor.model.filter import Filter

MEMBERS = 64
_FEW_EVENTS = 48  # in a batch, up to which plain values beat arrays
# Nanoseconds of evaluation in a bucket, from which on its members get all of its events: who lets an event into a unit
# must not take long, and whoever serves the subscribers looks at it anyway.
DEAREST_BUCKET = 20_000_000
_PATIENCE = 2  # filters for each event that the snapshot had to ask a changed bucket for, until it is made anew


class MaskBucket:
    """The answer for events with certain keys."""

    __slots__ = ("boxes", "evaluated", "mask", "residue", "steps", "wants")

    def __init__(self) -> None:
        self.mask = 0  # members that want them all
        self.wants: Counter[int] = Counter()  # with how many conjuncts each
        self.steps: dict[Number, MaskSteps] = {}
        self.boxes: dict[tuple[Number, ...], Boxes | BoxGrid] = {}
        self.residue: dict[int, Counter[Filter]] = {}  # by member, what must be evaluated
        self.evaluated = 0  # nanoseconds that this evaluation takes for the worst event

    @property
    def empty(self) -> bool:
        return not (self.mask or self.steps or self.boxes or self.residue)

    @property
    def plain(self) -> bool:
        """Whether arrays can answer for it."""
        return not self.residue

    def at(self, attributes: Attributes, known: int) -> int:
        """The members that want this event, `known` among them."""
        known |= self.mask
        for (name, view), steps in self.steps.items():
            value = attributes.get(name)
            kind = type(value)
            if kind is not float and kind is not int:
                value = None if value is None else look_at_number(view, value)
                if value is None:
                    continue
            elif value != value:
                continue
            known |= steps.masks[bisect_right(steps.bounds, value)]  # type: ignore[type-var]
        for numbers, boxes in self.boxes.items():
            point = point_of(attributes, numbers)
            if point is not None:
                known |= boxes.at(point, known)
        for member, filters in self.residue.items():
            if known >> member & 1:
                continue
            if self.evaluated > DEAREST_BUCKET or any(where.matches(attributes) for where in filters):
                known |= 1 << member
        return known

    def add(self, conjunct: Conjunct, member: int) -> bool:
        ranges = conjunct.ranges
        if not ranges:
            self.wants[member] += 1
            self.mask |= 1 << member
            return self.wants[member] == 1
        if len(ranges) == 1:
            name, view, low, high = ranges[0]
            steps = self.steps.get((name, view))
            if steps is None:
                steps = self.steps[name, view] = MaskSteps()
            return steps.add(low, high, member)
        numbers = tuple([(span.name, span.view) for span in ranges])
        boxes = self.boxes.get(numbers)
        if boxes is None:
            boxes = self.boxes[numbers] = Boxes(len(numbers))
        changed = boxes.add(box_of(ranges), member)
        if isinstance(boxes, Boxes) and boxes.crowded(member):
            self.boxes[numbers] = BoxGrid(boxes)
        return changed

    def remove(self, conjunct: Conjunct, member: int) -> bool:
        ranges = conjunct.ranges
        if not ranges:
            self.wants[member] -= 1
            if self.wants[member]:
                return False
            del self.wants[member]
            self.mask &= ~(1 << member)
            return True
        if len(ranges) == 1:
            name, view, low, high = ranges[0]
            steps = self.steps[name, view]
            changed = steps.remove(low, high, member)
            if not steps:
                del self.steps[name, view]
            return changed
        numbers = tuple([(span.name, span.view) for span in ranges])
        boxes = self.boxes[numbers]
        changed = boxes.remove(box_of(ranges), member)
        if not boxes:
            del self.boxes[numbers]
        return changed

    def add_residue(self, where: Filter, member: int) -> bool:
        filters = self.residue.setdefault(member, Counter())
        filters[where] += 1
        if filters[where] > 1:
            return False
        self.evaluated += where.cost.worst
        return True

    def remove_residue(self, where: Filter, member: int) -> bool:
        filters = self.residue[member]
        filters[where] -= 1
        if filters[where]:
            return False
        del filters[where]
        self.evaluated -= where.cost.worst
        if not filters:
            del self.residue[member]
        return True


class MaskIndex:
    """Filters of members. A member may have the same filter several times, and loses it as often."""

    def __init__(self) -> None:
        self._groups: FacetGroups[MaskBucket] = FacetGroups(MaskBucket)
        self._counts: dict[bytes, int] = {}  # how often a member has a filter
        self.predicates: Counter[int] = Counter()  # filters per member
        self._snapshot: Snapshot | None = None

    def __len__(self) -> int:
        return self.predicates.total()

    def add(self, where: Filter | None, member: int) -> bool:
        """Whether any event may now have another answer; None is every event."""
        if not 0 <= member < MEMBERS:
            raise ValueError(f"member {member}: a mask has {MEMBERS} members, counted from 0")
        key = _identity(where, member)
        count = self._counts[key] = self._counts.get(key, 0) + 1
        self.predicates[member] += 1
        if count > 1:
            return False
        return True in [self._enter(conjunct, where, member) for conjunct in _normal(where)]

    def remove(self, where: Filter | None, member: int) -> bool:
        """Whether any event may now have another answer; a KeyError if the member does not have the filter."""
        key = _identity(where, member)
        if key not in self._counts:
            raise KeyError(f"member {member} has no filter {where}")
        self._counts[key] -= 1
        self.predicates[member] -= 1
        if self._counts[key]:
            return False
        del self._counts[key]
        return True in [self._leave(conjunct, where, member) for conjunct in _normal(where)]

    def _enter(self, conjunct: Conjunct, where: Filter | None, member: int) -> bool:
        facets, keys, exact = self._groups.enter(conjunct)
        changed = False
        for key in keys:
            bucket = self._groups.open(facets, key)
            if exact:
                news = bucket.add(conjunct, member)
            else:
                assert where is not None, "what wants everything is exact"
                news = bucket.add_residue(where, member)
            if news and self._snapshot is not None:
                self._snapshot.mark(facets, key, bucket)
            changed |= news
        return changed

    def _leave(self, conjunct: Conjunct, where: Filter | None, member: int) -> bool:
        facets, keys, exact = self._groups.leave(conjunct)
        changed = False
        for key in keys:
            bucket = self._groups.open(facets, key)
            if exact:
                news = bucket.remove(conjunct, member)
            else:
                assert where is not None, "what wants everything is exact"
                news = bucket.remove_residue(where, member)
            if bucket.empty:
                self._groups.close(facets, key)
            if news and self._snapshot is not None:
                self._snapshot.mark(facets, key, bucket)
            changed |= news
        return changed

    def match_one(self, attributes: Attributes) -> int:
        """The members that want an event, as the bits of a number."""
        found = 0
        for group in self._groups:
            bucket = group.find(attributes)
            if bucket is not None:
                found = bucket.at(attributes, found)
        return found

    def match(self, batch: Batch) -> NDArray[np.uint64]:
        """The same for every event of a batch."""
        if batch.count <= _FEW_EVENTS:
            return np.array([self.match_one(row) for row in batch.rows()], np.uint64)
        if self._snapshot is None or self._snapshot.slow * _PATIENCE > len(self._counts):
            self._snapshot = Snapshot(self._groups)
        return self._snapshot.match(batch)

    def snapshot(self) -> Snapshot:
        """The index as it is now, in arrays; it can be pickled and sent to where the events are."""
        return deepcopy(Snapshot(self._groups))  # what is not in arrays is still ours


def _normal(where: Filter | None) -> Normal:
    return (EVERYTHING,) if where is None else normal_form(where)


def _identity(where: Filter | None, member: int) -> bytes:
    """Small, since there may be a million."""
    return blake2b(str(where or "").encode(), digest_size=15).digest() + bytes((member,))
