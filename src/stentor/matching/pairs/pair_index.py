"""The pair index: which of any number of subscriptions want an event, one by one.

Ranges of the subscriptions in a bucket lie in arrays, so that all of them are compared with all events of the bucket at
once; that beats every structure that would have to be kept in order, and a change costs next to nothing.
"""

from array import array
from collections.abc import Container

import numpy as np
from numpy.typing import NDArray

from stentor.matching.conjunct import Range, box_of
from stentor.matching.facet import Attributes, Number, Numbers, View, numbers_of, point_of
from stentor.matching.facet_groups import FacetGroups, KeyCache, different_keys
from stentor.matching.masks.box_columns import BoxColumns, drop
from stentor.matching.normal_form import normal_form
from stentor.matching.renewal import Renewal
from stentor.model.batch import Batch
from stentor.model.filter import Filter
from stentor.model.filter.cost import NOTHING, Cost

_FEW_FILTERS = 4  # up to which they are better evaluated one after the other
_FEW_EVENTS = 4  # up to which plain values beat arrays
_FEW_PAIRS = 96  # comparisons up to which a loop beats numpy
_MOST_PAIRS = 1 << 20  # comparisons made at once
_FREE = 20_000  # nanoseconds of evaluation in one bucket that are nothing to speak of
_MANY = 4096  # subscriptions in one bucket from which on each of them costs every event something
_PER_RANGE = 2  # nanoseconds of that for a subscription whose range is compared
_PER_MEMBER = 10  # nanoseconds of that for a subscription that wants every event

Events = NDArray[np.intp]
Subscriptions = NDArray[np.int64]
_Change = tuple[Filter, int, bool]  # of a subscription, which comes or goes


class _PairBucket:
    """Subscriptions for events with certain keys."""

    __slots__ = ("counted", "evaluated", "residue", "tables", "whole")

    def __init__(self) -> None:
        self.evaluated = 0  # nanoseconds that the residue takes for the worst event
        self.counted: set[Filter] | None = None  # the part of the residue that counts as a load
        self.whole = array("q")  # who wants them all
        self.tables: dict[tuple[Number, ...], BoxColumns] = {}
        self.residue: dict[Filter, array[int]] = {}  # what must be evaluated, and for whom

    @property
    def empty(self) -> bool:
        return not (self.whole or self.tables or self.residue)

    def add(self, ranges: tuple[Range, ...], member: int) -> int:
        """Return what that costs each event, in nanoseconds, beyond what is nothing to speak of."""
        if not ranges:
            self.whole.append(member)
            return _PER_MEMBER if len(self.whole) > _MANY else 0
        numbers = tuple([(span.name, span.view) for span in ranges])
        columns = self.tables.get(numbers)
        if columns is None:
            columns = self.tables[numbers] = BoxColumns(len(numbers))
        columns.add(box_of(ranges), member)
        return _PER_RANGE if len(columns.members) > _MANY else 0

    def remove(self, ranges: tuple[Range, ...], member: int) -> int:
        """Return what that saves each event."""
        if not ranges:
            drop(self.whole, self.whole.index(member))
            return _PER_MEMBER if len(self.whole) >= _MANY else 0
        numbers = tuple([(span.name, span.view) for span in ranges])
        members = self.tables[numbers].members
        self.tables[numbers].remove(box_of(ranges), member)
        if not members:
            del self.tables[numbers]
        return _PER_RANGE if len(members) >= _MANY else 0

    def add_residue(self, where: Filter, member: int) -> Cost:
        """Return the load that the filter is; nothing as long as there are few, or if it is evaluated already."""
        members = self.residue.get(where)
        if members is not None:
            members.append(member)
            return NOTHING
        self.residue[where] = array("q", (member,))
        self.evaluated += where.cost.worst
        if self.evaluated <= _FREE:
            return NOTHING
        self.counted = self.counted or set()
        self.counted.add(where)
        where.prepare()
        return where.cost

    def remove_residue(self, where: Filter, member: int) -> Cost:
        """Return the load that goes with it."""
        members = self.residue[where]
        drop(members, members.index(member))
        if members:
            return NOTHING
        del self.residue[where]
        self.evaluated -= where.cost.worst
        if self.counted is None or where not in self.counted:
            return NOTHING
        self.counted.remove(where)
        return where.cost

    def at(self, attributes: Attributes) -> list[int]:
        found = self.whole.tolist()
        for numbers, columns in self.tables.items():
            point = point_of(attributes, numbers)
            if point is not None:
                found += columns.at(point)
        for where, members in self.residue.items():
            if where.matches(attributes):
                found += members
        return found


class _FiledPairs:
    """Subscriptions, filed by what their filters ask for."""

    __slots__ = ("divided", "evaluated", "groups", "load")

    def __init__(self) -> None:
        self.groups: FacetGroups[_PairBucket] = FacetGroups(_PairBucket)
        self.divided = 0  # subscriptions of several conjuncts, which an event may find twice
        self.load = NOTHING
        self.evaluated = 0

    def add(self, where: Filter, number: int) -> None:
        conjuncts = normal_form(where)
        self.divided += len(conjuncts) > 1
        for conjunct in conjuncts:
            facets, keys, exact = self.groups.enter(conjunct)
            for key in keys:
                bucket = self.groups.open(facets, key)
                if exact:
                    price = bucket.add(conjunct.ranges, number)
                    cost = Cost(price, 0) if price else NOTHING
                else:
                    cost = bucket.add_residue(where, number)
                    self.evaluated += cost.worst
                if cost is not NOTHING:
                    self.load = self.load.plus(cost)

    def remove(self, where: Filter, number: int) -> None:
        conjuncts = normal_form(where)
        self.divided -= len(conjuncts) > 1
        for conjunct in conjuncts:
            facets, keys, exact = self.groups.leave(conjunct)
            for key in keys:
                bucket = self.groups.open(facets, key)
                if exact:
                    price = bucket.remove(conjunct.ranges, number)
                    cost = Cost(price, 0) if price else NOTHING
                else:
                    cost = bucket.remove_residue(where, number)
                    self.evaluated -= cost.worst
                if cost is not NOTHING:
                    self.load = self.load.minus(cost)
                if bucket.empty:
                    self.groups.close(facets, key)

    def change(self, change: _Change) -> None:
        where, number, comes = change
        if comes:
            self.add(where, number)
        else:
            self.remove(where, number)


class PairIndex:
    """Subscriptions by number, each with a filter. Where they are filed follows from their filters alone."""

    def __init__(self) -> None:
        self._filters: dict[int, Filter] = {}
        self._filed = _FiledPairs()
        self._renewal: Renewal[_FiledPairs, _Change] | None = None

    def __len__(self) -> int:
        return len(self._filters)

    @property
    def load(self) -> Cost:
        """What matching an event costs at most, beyond what is nothing to speak of."""
        return self._filed.load

    @property
    def evaluated(self) -> int:
        """Nanoseconds of that load for evaluating filters, if texts are as long as can be."""
        return self._filed.evaluated

    def __contains__(self, number: int) -> bool:
        return number in self._filters

    def holds(self, where: Filter, number: int) -> bool:
        return self._filters.get(number) is where

    def add(self, where: Filter, number: int) -> None:
        if number in self._filters:
            raise ValueError(f"subscription {number} is there already")
        self._filters[number] = where
        self._filed.add(where, number)
        self._note((where, number, True))

    def remove(self, number: int) -> None:
        where = self._filters.pop(number)
        try:
            self._filed.remove(where, number)
        except (LookupError, ValueError):  # it is not where it was filed: all is filed anew, without it
            self._renewal = None
            self.renew(len(self._filters))
        else:
            self._note((where, number, False))

    def _note(self, change: _Change) -> None:
        if self._renewal is not None and not self._renewal.note(change):
            self._renewal = None

    def keep(self, numbers: Container[int]) -> None:
        """Forget all subscriptions but these, and file them anew."""
        self._filters = {number: where for number, where in self._filters.items() if number in numbers}
        self._renewal = None
        self.renew(len(self._filters))

    def renew(self, most: int) -> int:
        """File so many subscriptions anew, beside where they are; return how many there were. When all are, what is new
        is used.
        """
        if self._renewal is None:
            every = [(where, number, True) for number, where in self._filters.items()]
            self._renewal = Renewal(_FiledPairs(), every, _FiledPairs.change)
        done = self._renewal.run(most)
        if self._renewal.is_done:
            self._filed, self._renewal = self._renewal.index, None
        return done

    @property
    def is_renewed(self) -> bool:
        """Whether it is not in the midst of being filed anew."""
        return self._renewal is None

    def match_one(self, attributes: Attributes) -> list[int]:
        """The numbers of the subscriptions that want an event, each once."""
        if len(self._filters) <= _FEW_FILTERS:
            return [number for number, where in self._filters.items() if where.matches(attributes)]
        found: list[int] = []
        for group in self._filed.groups:
            bucket = group.find(attributes)
            if bucket is not None:
                found += bucket.at(attributes)
        return list(dict.fromkeys(found)) if self._filed.divided else found

    def match_pairs(self, batch: Batch) -> tuple[Events, Subscriptions]:
        """Which event goes with which subscription, in no particular order."""
        hits = _Hits(batch)
        if batch.count <= _FEW_EVENTS:
            for row, attributes in enumerate(batch.rows()):
                hits.add(row, self.match_one(attributes))
            return hits.pairs()
        if len(self._filters) <= _FEW_FILTERS:
            for number, where in self._filters.items():
                hits.cross(where.select(batch.column, batch.count).nonzero()[0], array("q", (number,)))
            return hits.pairs()
        cache: KeyCache = {}
        for group in self._filed.groups:
            seen = different_keys(group.facets, batch, cache)
            if seen is None:
                continue
            keys, codes = seen
            buckets = [None if key is None else group.buckets.get(key) for key in keys]
            if len(buckets) == 1:
                if buckets[0] is not None:
                    hits.look(buckets[0], np.arange(batch.count))
                continue
            order = codes.argsort(kind="stable")
            ends = np.bincount(codes, minlength=len(buckets)).cumsum().tolist()
            begin = 0
            for bucket, end in zip(buckets, ends, strict=True):
                if bucket is not None and begin < end:
                    hits.look(bucket, order[begin:end])
                begin = end
        events, numbers = hits.pairs()
        if self._filed.divided and len(events):
            known, places = np.unique(numbers, return_inverse=True)  # numbers may be too large to reckon with
            events, places = np.divmod(np.unique(events * len(known) + places), len(known))
            numbers = known[places]
        return events, numbers


class _Hits:
    """Pairs that were found: plain ones one by one, others in arrays."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._numbers: dict[Number, tuple[Numbers, list[float]] | None] = {}
        self._rows: list[int] = []
        self._members: list[int] = []
        self._parts: list[tuple[Events, Subscriptions]] = []

    def add(self, row: int, members: list[int]) -> None:
        if members:
            self._rows += [row] * len(members)
            self._members += members

    def cross(self, rows: Events, members: "array[int]") -> None:
        """Each of these events goes with each of these subscriptions."""
        if len(rows) * len(members) <= _FEW_PAIRS:
            everyone = members.tolist()
            for row in rows.tolist():
                self.add(row, everyone)
            return
        if len(members) == 1:
            self._parts.append((rows, np.full(len(rows), members[0], np.int64)))
        else:
            self._parts.append((np.repeat(rows, len(members)), np.tile(np.array(members, np.int64), len(rows))))

    def look(self, bucket: _PairBucket, rows: Events) -> None:
        """What a bucket has for its events."""
        if bucket.whole:
            self.cross(rows, bucket.whole)
        for numbers, columns in bucket.tables.items():
            sides = [side for name, view in numbers if (side := self._side(name, view)) is not None]
            if len(sides) == len(numbers):
                self._compare(columns, sides, rows)
        for where, members in bucket.residue.items():
            self._evaluate(where, members, rows)

    def _compare(self, sheet: BoxColumns, sides: list[tuple[Numbers, list[float]]], rows: Events) -> None:
        size = len(sheet.members)
        if len(rows) * size <= _FEW_PAIRS:
            for row in rows.tolist():
                self.add(row, sheet.at([values[row] for _, values in sides]))
            return
        members = np.frombuffer(sheet.members, np.int64)
        step = max(1, _MOST_PAIRS // size)
        for begin in range(0, len(rows), step):
            some = rows[begin : begin + step]
            events, places = sheet.among([numbers[some] for numbers, _ in sides])
            self._parts.append((some[events], members[places]))

    def _evaluate(self, where: Filter, members: "array[int]", rows: Events) -> None:
        batch = self._batch
        if len(rows) == batch.count:
            self.cross(where.select(batch.column, batch.count).nonzero()[0], members)
            return
        attributes = batch.rows()
        wanted = [row for row in rows.tolist() if where.matches(attributes[row])]
        self.cross(np.array(wanted, np.intp), members)

    def _side(self, name: str, view: View) -> tuple[Numbers, list[float]] | None:
        """A number of every event, as an array and as a list: NaN compares false in both."""
        if (name, view) not in self._numbers:
            numbers = numbers_of(self._batch, name, view)
            self._numbers[name, view] = None if numbers is None else (numbers, numbers.tolist())
        return self._numbers[name, view]

    def pairs(self) -> tuple[Events, Subscriptions]:
        if self._rows:
            self._parts.append((np.array(self._rows, np.intp), np.array(self._members, np.int64)))
        if not self._parts:
            return np.empty(0, np.intp), np.empty(0, np.int64)
        if len(self._parts) == 1:
            return self._parts[0]
        return np.concatenate([rows for rows, _ in self._parts]), np.concatenate([ids for _, ids in self._parts])
