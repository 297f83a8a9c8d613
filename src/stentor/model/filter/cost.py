"""What it costs to evaluate a filter, at most: so that nobody can make a broker evaluate for long.

These are bounds, not predictions: each part of a filter is taken to be evaluated, and each text to be as bad for it as
can be. They were measured on one machine; on others they are off by a factor, which a budget survives.
"""

from typing import NamedTuple

from stentor.model.attribute import LONGEST_STRING
from stentor.model.filter.pattern import cost_per_character, wildcards
from stentor.model.filter.syntax import Attribute, Call, Expression, InList, Like, Literal, children

DEAREST_FILTER = 5_000_000  # nanoseconds for one event with the longest texts
_NODE = 150  # nanoseconds for each part of a filter
_ELEMENT = 20  # nanoseconds for each constant of an IN
_WILDCARD = 200  # nanoseconds for each wildcard of a LIKE
_CALL_PER_CHARACTER = 5  # nanoseconds for each character of a function, which may read or make a text
_TEXT_PER_CHARACTER = 1  # nanoseconds for each character of a LIKE: a number may have to become a text


class Cost(NamedTuple):
    """Nanoseconds for an event, and for each character of its attributes."""

    per_event: int
    per_character: int

    def plus(self, other: "Cost") -> "Cost":
        return Cost(self.per_event + other.per_event, self.per_character + other.per_character)

    def minus(self, other: "Cost") -> "Cost":
        return Cost(self.per_event - other.per_event, self.per_character - other.per_character)

    @property
    def worst(self) -> int:
        """Return what an event costs whose texts are as long as can be."""
        return self.per_event + LONGEST_STRING * self.per_character


NOTHING = Cost(0, 0)


def cost_of(root: Expression) -> Cost:
    """Return what evaluating an expression costs."""
    return _cost_and_length(root)[0]


def _cost_and_length(node: Expression) -> tuple[Cost, int]:
    """Return what a part costs, and how many times the longest text its own text can be: CONCAT joins several."""
    parts = [_cost_and_length(child) for child in children(node)]
    length = sum(size for _, size in parts)
    per_event, per_character = _NODE, 0
    if isinstance(node, Like):
        per_event += _WILDCARD * wildcards(node.pattern)
        per_character = length * (_TEXT_PER_CHARACTER + cost_per_character(node.pattern))
    elif isinstance(node, Call):
        per_character = length * _CALL_PER_CHARACTER
    elif isinstance(node, InList):
        per_event += _ELEMENT * len(node.elements)
    cost = Cost(per_event, per_character)
    for each, _ in parts:
        cost = cost.plus(each)
    return cost, length if isinstance(node, Call) else int(isinstance(node, Attribute | Literal))
