"""Hulls: the narrowest filter around several conjuncts that joins conditions on single attributes by AND.

It cannot be an OR of what it encloses: an event without an attribute that only one of them looks at would be an error.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from stentor.matching.conjunct import MOST_KEYS, Range
from stentor.matching.covers.constraint import AttributeConstraint, Keys
from stentor.matching.facet import Facet, View
from stentor.matching.filter_text import spell_keys, spell_range
from stentor.matching.normal_form import LONGEST_PREFIX
from stentor.model.errors import FilterError
from stentor.model.filter import Filter
from stentor.model.filter.canonical import canonical
from stentor.model.filter.syntax import Expression, Logic, Logical

Part = dict[str, AttributeConstraint]


class Shared(NamedTuple):
    """A condition that all enclosed conjuncts have, kept as it is written."""

    node: Expression
    parts: list[Part]  # its conjuncts, of which one is satisfied


class _Side(NamedTuple):
    """One side of a hull: what an attribute must be like, and how that is written."""

    demand: AttributeConstraint
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
    said: list[AttributeConstraint] = []
    for side in sides:
        constraint = side.demand
        if any(one.implies(constraint) for one in said):
            continue
        if any(all(name in part and part[name].implies(constraint) for part in each.parts) for each in shared):
            continue
        said.append(constraint)
        yield side


def _sides(enclosed: list[AttributeConstraint]) -> list[_Side]:
    """What all of them have in common, seen in every way that one of them is seen in, the most telling first."""
    name = enclosed[0].name
    facets = sorted({facet for constraint in enclosed for facet in constraint.keys})
    found = [side for facet in facets if facet.view is not View.PRESENT for side in _keyed(facet, enclosed)]
    listed = [side for side in found if side.demand.values is not None]
    others = [side for side in found if side.demand.values is None]
    sides = sorted(listed, key=lambda side: len(side.demand.values or ()))[:1] + others
    for view in (View.WHOLE, View.DECIMAL):
        sides += _ranged(name, view, enclosed)
    sides += _beginning(name, enclosed)
    sides += _keyed(Facet(name, View.PRESENT), enclosed)
    return sides


def _keyed(facet: Facet, enclosed: list[AttributeConstraint]) -> Iterator[_Side]:
    """The keys that one or the other has."""
    keys: Keys = frozenset()
    for constraint in enclosed:
        some = constraint.keys_at(facet)
        if some is None:
            return
        keys |= some
    node = spell_keys(facet, keys)
    if node is not None:
        yield _Side(AttributeConstraint(facet.name, {facet: keys}), (node,), len(keys))


def _ranged(name: str, view: View, enclosed: list[AttributeConstraint]) -> Iterator[_Side]:
    """From the lowest to the highest number that one of them has."""
    intervals = [interval for constraint in enclosed if (interval := constraint.interval_at(view)) is not None]
    if len(intervals) < len(enclosed):
        return
    span = Range(name, view, min(low for low, _ in intervals), max(high for _, high in intervals))
    nodes = spell_range(span)
    if nodes:
        yield _Side(AttributeConstraint(name, {}, span), nodes, 1)


def _beginning(name: str, enclosed: list[AttributeConstraint]) -> Iterator[_Side]:
    """How all their texts begin."""
    texts: list[str] = []
    for constraint in enclosed:
        known = _texts(constraint)
        if known is None:
            return
        texts += known
    first, last = min(texts), max(texts)  # what these two have in common, all between them have
    most = min(len(first), LONGEST_PREFIX)
    length = next((place for place in range(most) if first[place] != last[place]), most)
    if length:
        yield from _keyed(Facet(name, View.PREFIX, length), enclosed)


def _texts(constraint: AttributeConstraint) -> list[str] | None:
    """Texts, or beginnings of texts, one of which it has."""
    for facet in (Facet(constraint.name, View.TEXT), *constraint.keys):
        keys = constraint.keys_at(facet) if facet.view in (View.TEXT, View.PREFIX) else None
        if keys is not None:
            return [str(key) for key in keys]
    return None
