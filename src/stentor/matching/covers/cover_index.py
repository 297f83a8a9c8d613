"""The cover index files filters by what they ask for, to find the few that may cover one, or that one may cover.

A filter has one own key and several probe keys. Its own key is a key that it asks for and a number that it bounds: that
of `symbol = 'X' AND price > 5` is ('X', price). Its probe keys are the own keys of filters that may cover it: ('X',
price), ('X', no number), (no key, price) and so on. So a filter that covers it has one of its probe keys as own key,
and the filters that it covers have its own key among their probe keys. Under each key filters are in the order of where
the number begins: a filter that covers another one begins no later.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from math import inf
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

from stentor.matching.covering import Part
from stentor.matching.covers.extent import ANY, FilterExtent
from stentor.matching.facet import Facet, Key, View

V = TypeVar("V")
Place = tuple[Facet | None, Key | None, str]  # a key and the name of a number; None and "" if there is none
Entry = tuple[float, int, float, V]  # from where, a number of its own, up to where, the value

_ANYWHERE: Place = (None, None, "")
_MOST_SKIPPED = 256  # entries at a place that end too late
_MOST_CROSSED = 8  # numbers and keys that are combined into places
_low = itemgetter(0)


class _Home(NamedTuple):
    """Where a part of a filter lives."""

    places: list[Place]
    searched: list[Place]  # whose haunt that is, may be covered
    low: float
    high: float


class CoverIndex(Generic[V]):
    """Filters of one pattern, each with a value and a number of its own; one of them may be None, every event."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.every: V | None = None  # covers all others
        self._some: dict[int, V] = {}
        self._homes: dict[Place, list[Entry[V]]] = {}
        self._haunts: dict[Place, list[Entry[V]]] = {}
        self._filed: dict[int, tuple[dict[Place, Entry[V]], dict[Place, Entry[V]]]] = {}
        self._facets: dict[str, Counter[Facet]] = {}  # that are part of homes, by name

    def __len__(self) -> int:
        return len(self._some) + (self.every is not None)

    def add(self, number: int, extent: FilterExtent | None, value: V) -> None:
        if extent is None:
            self.every = value
            return
        homes: dict[Place, Entry[V]] = {}
        for home in map(self._own_keys, extent.parts):
            for place in home.places:
                low, _, high, _ = homes.get(place, (inf, number, -inf, value))
                homes[place] = min(low, home.low), number, max(high, home.high), value
        haunts = self._probe_keys(number, extent, value)
        for place, entry in homes.items():
            insort(self._homes.setdefault(place, []), entry)
            if place[0] is not None:
                self._facets.setdefault(place[0].name, Counter())[place[0]] += 1
        for place, entry in haunts.items():
            insort(self._haunts.setdefault(place, []), entry)
        self._some[number] = value
        self._filed[number] = homes, haunts

    def remove(self, number: int) -> None:
        if number not in self._some:
            self.every = None
            return
        del self._some[number]
        homes, haunts = self._filed.pop(number)
        for place, entry in homes.items():
            _take(self._homes, place, entry)
            if place[0] is not None:
                self._leave(place[0])
        for place, entry in haunts.items():
            _take(self._haunts, place, entry)

    def possible_covers(self, extent: FilterExtent) -> Iterator[V]:
        """Those that may cover it beside the one that covers all; the likely ones first."""
        crossed = [*extent.numbers[:_MOST_CROSSED], ""]
        for facet, key in self._keys(extent.parts[0]):
            for name in crossed:
                yield from self._beginning_before((facet, key, name), extent)
        for name in (*extent.intervals, ""):
            yield from self._beginning_before((None, None, name), extent)

    def _beginning_before(self, place: Place, extent: FilterExtent) -> Iterator[V]:
        """Those that live there, and have all of the interval; the latest to begin are the first."""
        entries = self._homes.get(place)
        if entries is None:
            return
        low, high = extent.intervals.get(place[2], ANY)
        last = bisect_right(entries, low, key=_low)
        for entry in reversed(entries[max(0, last - _MOST_SKIPPED) : last]):
            if entry[2] >= high:
                yield entry[3]

    def narrower(self, extent: FilterExtent | None) -> Iterator[V]:
        """Those that it may cover, some perhaps twice; None covers all."""
        if extent is None:
            if self.every is not None:
                yield self.every
            yield from self._some.values()
            return
        for home in map(self._own_keys, extent.parts):
            for place in home.searched:
                if place == _ANYWHERE:
                    yield from self._some.values()
                    continue
                entries = self._haunts.get(place, [])
                skipped = 0
                for entry in islice(entries, bisect_left(entries, home.low, key=_low), None):
                    if entry[0] >= home.high or skipped > _MOST_SKIPPED:
                        break
                    if entry[2] <= home.high:
                        yield entry[3]
                    else:
                        skipped += 1

    def _own_keys(self, part: Part) -> _Home:
        """The key that the fewest ask for, and the first number."""
        name, low, high = "", *ANY
        best: Facet | None = None
        least = inf
        for constraint in part.values():
            if not name and constraint.span is not None:
                name, low, high = constraint.name, constraint.span.low, constraint.span.high
            for facet, keys in constraint.keys.items():
                crowd = self._crowd(facet, keys)
                if crowd < least:
                    best, least = facet, crowd
        somewhere = next(iter(part), "")
        if best is None:
            place: Place = (None, None, name or somewhere)
            return _Home([place], [place], low, high)
        keys = part[best.name].keys[best]
        places: list[Place] = [(best, key, name) for key in _ordered(keys)]
        if best.view is View.PREFIX:  # a text with that beginning is filed by all of it
            return _Home(places, [(None, None, name or best.name)], low, high)
        return _Home(places, places, low, high)

    def _crowd(self, facet: Facet, keys: frozenset[Key]) -> float:
        """How many ask for one of the keys; a beginning is worth less than a value, and presence is no key at all."""
        if facet.view is View.PRESENT:
            return inf
        if facet.view is View.PREFIX:
            return 1e9 - facet.length
        return sum([len(self._haunts.get((facet, key, ""), ())) + 1 for key in keys])

    def _probe_keys(self, number: int, extent: FilterExtent, value: V) -> dict[Place, Entry[V]]:
        """Where a filter is to be found by one that covers it; all of its parts are covered, so the first will do."""
        keys: list[tuple[Facet, Key]] = []
        for constraint in extent.parts[0].values():
            keys += [
                (facet, _first(wanted)) for facet, wanted in constraint.keys.items() if facet.view is not View.PRESENT
            ]
        found: dict[Place, Entry[V]] = {}
        for name, (low, high) in extent.intervals.items():
            found[None, None, name] = (low, number, high, value)
        for name in extent.numbers[:_MOST_CROSSED]:
            entry = found[None, None, name]
            found.update({(facet, key, name): entry for facet, key in keys[:_MOST_CROSSED]})
        anyhow = (-inf, number, inf, value)
        found.update({(facet, key, ""): anyhow for facet, key in keys})
        return found

    def _keys(self, part: Part) -> Iterator[tuple[Facet, Key]]:
        """A key of each facet that homes have, where one can be told."""
        for name, constraint in part.items():
            for facet in self._facets.get(name, ()):
                keys = constraint.keys_at(facet)
                if keys:
                    yield facet, _first(keys)

    def _leave(self, facet: Facet) -> None:
        left = self._facets[facet.name]
        left[facet] -= 1
        if not left[facet]:
            del left[facet]
        if not left:
            del self._facets[facet.name]


def _take(shelved: dict[Place, list[Entry[V]]], place: Place, entry: Entry[V]) -> None:
    entries = shelved[place]
    del entries[bisect_left(entries, entry)]
    if not entries:
        del shelved[place]


def _first(keys: frozenset[Key]) -> Key:
    """One of them, always the same."""
    return next(iter(keys)) if len(keys) == 1 else min(keys, key=repr)


def _ordered(keys: frozenset[Key]) -> list[Key]:
    return list(keys) if len(keys) == 1 else sorted(keys, key=repr)
