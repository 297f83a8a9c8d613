"""Mask snapshot: the mask index in arrays, for whole batches, and to be sent to where the events are."""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stentor.matching.facet import Attributes, Number, Numbers, View, numbers_of
from stentor.matching.facet_groups import BucketKey, FacetGroup, Facets, KeyCache, different_keys
from stentor.matching.masks.box_columns import BITS
from stentor.matching.masks.box_grid import BoxGrid
from stentor.matching.masks.box_list import Boxes
from stentor.matching.masks.mask_steps import MaskSteps
from stentor.model.batch import Batch, Rows

_NOWHERE, _ASKED = -1, -2  # no bucket; from there downwards, buckets that are asked themselves
_MOST_PAIRS = 1 << 20  # boxes tried at once

Masks = NDArray[np.uint64]
Groups = NDArray[np.intp]


class Bucket(Protocol):
    """What a snapshot reads of a bucket."""

    mask: int
    steps: dict[Number, MaskSteps]
    boxes: dict[tuple[Number, ...], Boxes | BoxGrid]

    @property
    def plain(self) -> bool: ...

    def at(self, attributes: Attributes, known: int) -> int: ...


class _StepTable:
    """The steps of many buckets one after the other: a bisection finds bucket and segment at once."""

    def __init__(self, groups: int, steps: Sequence[tuple[int, MaskSteps]]) -> None:
        self._present = np.zeros(groups, np.bool_)
        self._present[[group for group, _ in steps]] = True
        bounds = np.concatenate([part for _, each in steps for part in ((-inf,), np.frombuffer(each.bounds))])
        self._masks = np.concatenate([np.frombuffer(each.masks, np.uint64) for _, each in steps])
        owners = np.repeat([group for group, _ in steps], [len(each.masks) for _, each in steps])
        self._values = np.unique(bounds)
        self._keys = owners * len(self._values) + np.searchsorted(self._values, bounds)

    def at(self, groups: Groups, values: Numbers) -> Masks:
        """For each event the mask of its group; none where there is no number."""
        found = np.zeros(len(groups), np.uint64)
        rows = ((groups >= 0) & (values == values)).nonzero()[0]
        rows = rows[self._present[groups[rows]]]
        ranks = np.searchsorted(self._values, values[rows], "right") - 1
        places = np.searchsorted(self._keys, groups[rows] * len(self._values) + ranks, "right") - 1
        found[rows] = self._masks[places]
        return found


class _BoxTable:
    """The boxes of many buckets: numbers one by one say who comes into question, then all their boxes are tried."""

    def __init__(self, groups: int, numbers: tuple[Number, ...], boxes: Sequence[tuple[int, Boxes]]) -> None:
        self._steps = [
            _StepTable(groups, [(group, each.steps[place]) for group, each in boxes]) for place in range(len(numbers))
        ]
        entries = [
            (group * 64 + member, box)
            for group, each in boxes
            for member, outer in sorted(each.outer.items())
            for box in outer
        ]
        owners = np.array([owner for owner, _ in entries], np.intp)
        self._sides = np.array([box for _, box in entries], np.float64).T.copy()
        self._starts = np.searchsorted(owners, np.arange(groups * 64 + 1))

    def add_to(self, found: Masks, groups: Groups, values: list[Numbers]) -> None:
        candidates = ~found
        for steps, numbers in zip(self._steps, values, strict=True):
            candidates &= steps.at(groups, numbers)
        rows = candidates.nonzero()[0]
        if not len(rows):
            return
        bits = np.unpackbits(candidates[rows].view(np.uint8), bitorder="little").nonzero()[0]
        events, members = rows[bits >> 6], bits & 63
        owners = groups[events] * 64 + members
        counts = self._starts[owners + 1] - self._starts[owners]
        ends = counts.cumsum()
        begin = 0
        while begin < len(owners):
            done = ends[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, done + _MOST_PAIRS, "right")))
            part = slice(begin, end)
            self._try(found, events[part], members[part], self._starts[owners[part]], counts[part], values)
            begin = end

    def _try(
        self, found: Masks, events: Groups, members: Groups, starts: Groups, counts: Groups, values: list[Numbers]
    ) -> None:
        pairs = np.repeat(np.arange(len(events)), counts)
        boxes = np.arange(len(pairs)) - np.repeat(counts.cumsum() - counts - starts, counts)
        tried = events[pairs]
        inside = np.ones(len(pairs), np.bool_)
        for place, numbers in enumerate(values):
            number = numbers[tried]
            inside &= (self._sides[2 * place][boxes] <= number) & (number < self._sides[2 * place + 1][boxes])
        hits = pairs[inside]
        np.bitwise_or.at(found, events[hits], BITS[members[hits]])


class _GridTable:
    """The grids of some buckets; a grid is arrays already."""

    def __init__(self, grids: Sequence[tuple[int, BoxGrid]]) -> None:
        self._grids = grids

    def add_to(self, found: Masks, groups: Groups, values: list[Numbers]) -> None:
        numbers = ~np.isnan(values).any(0)
        for group, grid in self._grids:
            rows = (numbers & (groups == group)).nonzero()[0]
            if len(rows):
                some = found[rows]
                grid.among([each[rows] for each in values], some)
                found[rows] = some


class _Table:
    """One cluster."""

    def __init__(self, facets: Facets, buckets: Iterable[tuple[BucketKey, Bucket]] = ()) -> None:
        self.facets = facets
        self.groups: dict[BucketKey, int] = {}
        self._asked: list[Bucket] = []  # what arrays cannot answer for
        steps: dict[Number, list[tuple[int, MaskSteps]]] = {}
        boxes: dict[tuple[Number, ...], list[tuple[int, Boxes]]] = {}
        grids: dict[tuple[Number, ...], list[tuple[int, BoxGrid]]] = {}
        masks: list[int] = []
        for key, bucket in buckets:
            if not bucket.plain:
                self.ask(key, bucket)
                continue
            group = self.groups[key] = len(masks)
            masks.append(bucket.mask)
            for number, each in bucket.steps.items():
                steps.setdefault(number, []).append((group, each))
            for numbers, some in bucket.boxes.items():
                if isinstance(some, BoxGrid):
                    grids.setdefault(numbers, []).append((group, some))
                else:
                    boxes.setdefault(numbers, []).append((group, some))
        size = len(masks)
        self._masks = np.array([*masks, 0], np.uint64)  # the last one is that of no bucket
        self._constant = len(self._asked)  # how many of them have not changed
        self._steps = [(number, _StepTable(size, some)) for number, some in steps.items()]
        self._boxes: list[tuple[tuple[Number, ...], _BoxTable | _GridTable]] = [
            *[(numbers, _BoxTable(size, numbers, some)) for numbers, some in boxes.items()],
            *[(numbers, _GridTable(some)) for numbers, some in grids.items()],
        ]

    def ask(self, key: BucketKey, bucket: Bucket) -> None:
        """From now on, events with this key are for the bucket itself."""
        group = self.groups.get(key, _NOWHERE)
        if group <= _ASKED:
            self._asked[_ASKED - group] = bucket
        else:
            self.groups[key] = _ASKED - len(self._asked)
            self._asked.append(bucket)

    def look(self, batch: Batch, found: Masks, cache: KeyCache, numbers: "_Numbers") -> int:
        """Add what this cluster finds; how many events it had to ask changed buckets for."""
        seen = different_keys(self.facets, batch, cache)
        if seen is None:
            return 0
        keys, codes = seen
        get = self.groups.get
        places = [_NOWHERE if key is None else get(key, _NOWHERE) for key in keys]
        if not places or max(places) == min(places) == _NOWHERE:
            return 0
        groups: Groups = np.array(places, np.intp)[codes]
        found |= self._masks[np.maximum(groups, _NOWHERE)]
        for (name, view), steps in self._steps:
            values = numbers(name, view)
            if values is not None:
                found |= steps.at(groups, values)
        for each, boxes in self._boxes:
            sides = [side for name, view in each if (side := numbers(name, view)) is not None]
            if len(sides) == len(each):
                boxes.add_to(found, groups, sides)
        return self._ask(batch, found, groups) if min(places) <= _ASKED else 0

    def _ask(self, batch: Batch, found: Masks, groups: Groups) -> int:
        """What arrays cannot answer, event by event."""
        rows = (groups <= _ASKED).nonzero()[0]
        attributes, asked = batch.rows(), self._asked
        changed = 0
        for row, group, known in zip(rows.tolist(), groups[rows].tolist(), found[rows].tolist(), strict=True):
            found[row] = asked[_ASKED - group].at(attributes[row], known)
            changed += _ASKED - group >= self._constant
        return changed


_Numbers = Callable[[str, View], Numbers | None]


class Snapshot:
    """Answers as the index did when the snapshot was made, except where it is told of changes."""

    def __init__(self, groups: Iterable[FacetGroup[Any]]) -> None:
        self.slow = 0  # events for which changed buckets were asked
        self._tables = {group.facets: _Table(group.facets, group.buckets.items()) for group in groups}

    def mark(self, facets: Facets, key: BucketKey, bucket: Bucket) -> None:
        """A bucket has changed, or is new."""
        table = self._tables.get(facets)
        if table is None:
            table = self._tables[facets] = _Table(facets)
        table.ask(key, bucket)

    def match(self, batch: Batch) -> Masks:
        """The members that want each event."""
        found = np.zeros(batch.count, np.uint64)
        cache: KeyCache = {}
        seen: dict[Number, Numbers | None] = {}

        def numbers(name: str, view: View) -> Numbers | None:
            if (name, view) not in seen:
                seen[name, view] = numbers_of(batch, name, view)
            return seen[name, view]

        for table in self._tables.values():
            self.slow += table.look(batch, found, cache, numbers)
        return found

    def match_one(self, attributes: Attributes) -> int:
        return int(self.match(Rows([dict(attributes)]))[0])
