"""Conjuncts: what must hold together for an event to match; a filter is one, or several of which one suffices."""

import math
from typing import NamedTuple

from stentor.matching.facet import Facet, Key, View

MOST_KEYS = 256  # combinations of keys under which one conjunct is filed


class Range(NamedTuple):
    """Numbers from `low` up to, not including, `high`."""

    name: str
    view: View  # WHOLE or DECIMAL
    low: float
    high: float


Box = tuple[float, ...]  # low and high of each number


def box_of(ranges: tuple[Range, ...]) -> Box:
    return tuple([bound for span in ranges for bound in span[2:]])


class Conjunct(NamedTuple):
    """Every facet has one of its keys, and every number lies in its range.

    If it is exact, that is all the filter asks for. Otherwise every event that matches is among these, and others may
    be: whoever needs to know evaluates the filter.
    """

    facets: tuple[Facet, ...]
    keys: tuple[tuple[Key, ...], ...]  # one or more for each facet
    ranges: tuple[Range, ...]
    exact: bool

    @property
    def names(self) -> set[str]:
        """Attributes that an event must have."""
        return {facet.name for facet in self.facets} | {span.name for span in self.ranges}


EVERYTHING = Conjunct((), (), (), True)


class Terms:
    """A conjunct in the making: constraints are added, and narrow it."""

    __slots__ = ("exact", "keys", "possible", "ranges")

    def __init__(self, conjunct: Conjunct = EVERYTHING) -> None:
        self.keys: dict[Facet, tuple[Key, ...]] = dict(zip(conjunct.facets, conjunct.keys, strict=True))
        self.ranges = {name: (view, low, high) for name, view, low, high in conjunct.ranges}
        self.exact = conjunct.exact
        self.possible = True

    def take(self, other: Conjunct) -> None:
        """What the other asks for, too."""
        for facet, keys in zip(other.facets, other.keys, strict=True):
            self.among(facet, keys)
        for span in other.ranges:
            self.within(*span)
        self.exact &= other.exact

    def among(self, facet: Facet, keys: tuple[Key, ...]) -> None:
        known = self.keys.get(facet)
        if known is not None:
            keys = tuple([key for key in keys if key in known])
            self.possible &= bool(keys)
        self.keys[facet] = keys

    def within(self, name: str, view: View, low: float, high: float) -> None:
        known = self.ranges.get(name)
        if known is not None:
            # a text that is an integer is the same number in both views, and WHOLE asks for one
            view = known[0] if known[0] is View.WHOLE else view
            low, high = max(low, known[1]), min(high, known[2])
            self.possible &= low < high
        self.ranges[name] = view, low, high

    def conjunct(self) -> Conjunct | None:
        """The finished conjunct; None if nothing can satisfy it."""
        keys = self.keys
        for facet in list(keys):
            if facet.name in self.ranges:
                self._narrow(facet)
        if not self.possible:
            return None
        facets = sorted(keys) if len(keys) > 1 else list(keys)
        if len(facets) > 1:
            seen = {facet.name for facet in facets if facet.view is not View.PRESENT}
            facets = [facet for facet in facets if facet.view is not View.PRESENT or facet.name not in seen]
        if any(len(keys[facet]) > 1 for facet in facets):
            self._bound(facets)
        return Conjunct(
            tuple(facets),
            tuple([_ordered(keys[facet]) for facet in facets]),
            tuple([Range(name, *span) for name, span in sorted(self.ranges.items())]),
            self.exact,
        )

    def _narrow(self, facet: Facet) -> None:
        """A facet of an attribute that has a range, too: one of the two may say it all."""
        view, low, high = self.ranges[facet.name]
        if facet.view is View.PRESENT:
            del self.keys[facet]
        elif facet.view is view:
            self.keys[facet] = left = tuple([key for key in self.keys[facet] if low <= key < high])  # type: ignore[operator]
            self.possible &= bool(left)
            del self.ranges[facet.name]

    def _bound(self, facets: list[Facet]) -> None:
        """A product of long lists is looked at by one of them less, until it is small enough to be filed."""
        while math.prod(len(self.keys[facet]) for facet in facets) > MOST_KEYS:
            longest = max(facets, key=lambda facet: len(self.keys[facet]))
            facets.remove(longest)
            self.exact = False
            if longest.name not in self.ranges and not any(facet.name == longest.name for facet in facets):
                present = Facet(longest.name, View.PRESENT)
                self.keys[present] = (True,)
                facets.append(present)
                facets.sort()


def _ordered(keys: tuple[Key, ...]) -> tuple[Key, ...]:
    return keys if len(keys) == 1 else tuple(sorted(dict.fromkeys(keys), key=_order))


def _order(key: Key) -> tuple[str, Key]:
    """Keys of different types have no order of their own."""
    return ("number" if type(key) in (int, float) else type(key).__name__), key
