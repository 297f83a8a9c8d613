"""Hulls: the narrowest filter around several conjuncts that joins conditions on single attributes by AND.

It cannot be an OR of what it encloses: an event without an attribute that only one of them looks at would be an error.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from stentor.matching.conjunct import MOST_KEYS, Range
from stentor.matching.demand import Demand, Keys
from stentor.matching.facet import Facet, View
from stentor.matching.normal import LONGEST_PREFIX
from stentor.matching.spelling import spell_keys, spell_range
from stentor.model.errors import FilterError
from stentor.model.filter import Filter
from stentor.model.filter.canonical import canonical
from stentor.model.filter.syntax import Expression, Logic, Logical

Part = dict[str, Demand]


class Shared(NamedTuple):
    """A condition that all of the enclosed have, kept as it is written."""

    node: Expression
    parts: list[Part]  # its conjuncts, of which one is satisfied


class _Side(NamedTuple):
    """One side of a hull: what an attribute must be like, and how that is written."""

    demand: Demand
    nodes: tuple[Expression, ...]
    keys: int

    @property
    def size(self) -> tuple[int, int]:
        return self.keys, sum(len(canonical(node)) for node in self.nodes)


def enclose(parts: Sequence[Part], shared: Sequence[Shared]) -> Filter | None:
    """A filter that matches all that satisfies one of the parts; None if that would be every event."""
    names = sorted(set.intersection(*[set(part) for part in parts]))
    sides = {name: _sides([part[name] for part in parts]) for name in names}
    while True:
        chosen = [side for name in names for side in _chosen(sides[name], name, shared)]
        nodes = [node for side in chosen for node in side.nodes] + [each.node for each in shared]
        made = _filter(nodes) if nodes and prod([side.keys for side in chosen]) <= MOST_KEYS else None
        if made is not None or not chosen:
            return made
        largest = max(chosen, key=lambda side: side.size)
        sides[largest.demand.name].remove(largest)


def _filter(nodes: list[Expression]) -> Filter | None:
    """The filter, unless it is too long."""
    root = nodes[0] if len(nodes) == 1 else Logical(Logic.AND, tuple(nodes))
    try:
        return Filter.parse_cesql(canonical(root))
    except FilterError:
        return None


def _chosen(sides: list[_Side], name: str, shared: Sequence[Shared]) -> Iterator[_Side]:
    """Those that say what no other one has said."""
    said: list[Demand] = []
    for side in sides:
        demand = side.demand
        if any(one.implies(demand) for one in said):
            continue
        if any(all(name in part and part[name].implies(demand) for part in each.parts) for each in shared):
            continue
        said.append(demand)
        yield side


def _sides(enclosed: list[Demand]) -> list[_Side]:
    """What all of them have in common, seen in every way that one of them is seen in, the most telling first."""
    name = enclosed[0].name
    facets = sorted({facet for demand in enclosed for facet in demand.keys})
    found = [side for facet in facets if facet.view is not View.PRESENT for side in _keyed(facet, enclosed)]
    listed = [side for side in found if side.demand.values is not None]
    others = [side for side in found if side.demand.values is None]
    sides = sorted(listed, key=lambda side: len(side.demand.values or ()))[:1] + others
    for view in (View.WHOLE, View.DECIMAL):
        sides += _ranged(name, view, enclosed)
    sides += _beginning(name, enclosed)
    sides += _keyed(Facet(name, View.PRESENT), enclosed)
    return sides


def _keyed(facet: Facet, enclosed: list[Demand]) -> Iterator[_Side]:
    """The keys that one or the other has."""
    keys: Keys = frozenset()
    for demand in enclosed:
        some = demand.keys_at(facet)
        if some is None:
            return
        keys |= some
    node = spell_keys(facet, keys)
    if node is not None:
        yield _Side(Demand(facet.name, {facet: keys}), (node,), len(keys))


def _ranged(name: str, view: View, enclosed: list[Demand]) -> Iterator[_Side]:
    """From the lowest to the highest number that one of them has."""
    intervals = [interval for demand in enclosed if (interval := demand.interval_at(view)) is not None]
    if len(intervals) < len(enclosed):
        return
    span = Range(name, view, min(low for low, _ in intervals), max(high for _, high in intervals))
    nodes = spell_range(span)
    if nodes:
        yield _Side(Demand(name, {}, span), nodes, 1)


def _beginning(name: str, enclosed: list[Demand]) -> Iterator[_Side]:
    """How all their texts begin."""
    texts: list[str] = []
    for demand in enclosed:
        known = _texts(demand)
        if known is None:
            return
        texts += known
    first, last = min(texts), max(texts)  # what these two have in common, all between them have
    most = min(len(first), LONGEST_PREFIX)
    length = next((place for place in range(most) if first[place] != last[place]), most)
    if length:
        yield from _keyed(Facet(name, View.PREFIX, length), enclosed)


def _texts(demand: Demand) -> list[str] | None:
    """Texts, or beginnings of texts, one of which it has."""
    for facet in (Facet(demand.name, View.TEXT), *demand.keys):
        keys = demand.keys_at(facet) if facet.view in (View.TEXT, View.PREFIX) else None
        if keys is not None:
            return [str(key) for key in keys]
    return None
