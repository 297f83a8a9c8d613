"""Extent: what a filter matches, worked out once, to be compared with many others."""

from math import inf

from stentor.matching.covering import covers, implies, parts_of
from stentor.matching.covers.constraint import Interval, constraints
from stentor.matching.facet import View
from stentor.matching.normal_form import normal_form
from stentor.model.filter import Filter

ANY: Interval = (-inf, inf)
_ODD = 8  # comparisons of plain filters that take as long as one of others


class FilterExtent:
    """What a filter asks of each attribute, in each of its parts."""

    __slots__ = ("intervals", "numbers", "parts", "where", "whole")

    def __init__(self, where: Filter) -> None:
        normal = normal_form(where)
        self.where = where
        self.parts = parts_of(normal)  # none if nothing matches
        self.whole = constraints(normal[0]) if len(normal) == 1 and normal[0].exact else None  # if that says it all
        self.intervals = dict.fromkeys(self.parts[0], ANY) if self.parts else {}  # of the first part's attributes
        self.numbers = []  # those of them that must be numbers
        for name in self.intervals:
            interval = self.parts[0][name].interval_at(View.DECIMAL)
            if interval is not None:
                self.intervals[name] = interval
                self.numbers.append(name)

    @property
    def effort(self) -> int:
        """What it costs to find out whether it covers another one."""
        return _ODD if self.whole is None else 1

    def covers(self, other: "FilterExtent") -> bool:
        """True only if it has all that the other one has."""
        whole = self.whole
        if whole is None:
            return covers(self.where, other.where)
        return all(implies(part, whole) for part in other.parts)
