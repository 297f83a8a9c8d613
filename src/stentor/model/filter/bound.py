"""Bounds: a comparison with a constant, restated so that numpy compares a whole column exactly.

numpy would compare 64-bit integers with a float by making them floats, and 2^53 + 1 would be equal to 2^53.
"""

import math

from stentor.model.attribute import LARGEST_INTEGER, SMALLEST_INTEGER, Kind
from stentor.model.filter.casting import Number
from stentor.model.filter.syntax import Relation

_BELOW = frozenset({Relation.LESS, Relation.LESS_OR_EQUAL})
_MIRRORED = {
    Relation.LESS: Relation.GREATER,
    Relation.LESS_OR_EQUAL: Relation.GREATER_OR_EQUAL,
    Relation.GREATER: Relation.LESS,
    Relation.GREATER_OR_EQUAL: Relation.LESS_OR_EQUAL,
}


def mirrored(relation: Relation) -> Relation:
    """The relation of the right side to the left one."""
    return _MIRRORED.get(relation, relation)


def bound(relation: Relation, target: Number, kind: Kind) -> tuple[Relation, Number] | bool:
    """The same comparison with a constant of the column's own type; a Boolean if it is the same for all values."""
    return _bound_integers(relation, target) if kind is Kind.INTEGER else _bound_decimals(relation, target)


def _bound_integers(relation: Relation, target: Number) -> tuple[Relation, int] | bool:
    whole = math.floor(target)
    if whole > LARGEST_INTEGER:
        return relation in _BELOW or relation is Relation.UNEQUAL
    if whole < SMALLEST_INTEGER:
        return relation not in _BELOW and relation is not Relation.EQUAL
    if whole == target:
        return relation, whole
    if relation in (Relation.EQUAL, Relation.UNEQUAL):
        return relation is Relation.UNEQUAL
    return (Relation.LESS_OR_EQUAL if relation in _BELOW else Relation.GREATER), whole


def _bound_decimals(relation: Relation, target: Number) -> tuple[Relation, float] | bool:
    nearest = float(target)
    if nearest == target:
        return relation, nearest
    if relation in (Relation.EQUAL, Relation.UNEQUAL):
        return relation is Relation.UNEQUAL
    # No float lies between the target and the nearest one, so that one is wholly in or wholly out.
    if nearest > target:
        return (Relation.LESS if relation in _BELOW else Relation.GREATER_OR_EQUAL), nearest
    return (Relation.LESS_OR_EQUAL if relation in _BELOW else Relation.GREATER), nearest
