"""Relations between filters, for a network of brokers: which filter covers, excludes or sums up others.

All of them are sound, and none is complete: an answer "yes" is true, an answer "no" means that nothing was found.
"""

from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

from stentor.matching.conjunct import EVERYTHING, Conjunct, Terms
from stentor.matching.covers.constraint import AttributeConstraint, constraints
from stentor.matching.covers.hull import Shared, enclose
from stentor.matching.normal_form import Normal, normal_form, normalise
from stentor.model.attribute import Kind
from stentor.model.filter import Filter, functions
from stentor.model.filter.canonical import canonical
from stentor.model.filter.evaluation import Evaluator, compile_expression
from stentor.model.filter.syntax import (
    Call,
    Comparison,
    Exists,
    Expression,
    InList,
    Like,
    Logic,
    Logical,
    Not,
    names,
)

_MOST_PARTS = 1024  # into which a conjunct is divided, to find each of them somewhere else

Part = dict[str, AttributeConstraint]  # what is asked of each attribute


def equal(a: Filter, b: Filter) -> bool:
    """True only if both match the same events."""
    return a == b or (covers(a, b) and covers(b, a))


def covers(a: Filter, b: Filter) -> bool:
    """True only if `a` matches every event that `b` matches."""
    if a == b:
        return True
    parts = parts_of(normal_form(b))
    asked = {operand.text for operand in _operands(b)}
    return all(
        (operand.text in asked and operand.is_truth) or all(_holds(operand, part) for part in parts)
        for operand in _operands(a)
    )


def may_overlap(a: Filter, b: Filter) -> bool:
    """False only if no event matches both."""
    operands = _operands(a) + _operands(b)
    return any(_is_possible(one, other, operands) for one in normal_form(a) for other in normal_form(b))


def merge(a: Filter, b: Filter) -> Filter | None:
    """A filter that matches whatever one of the two matches, and as little else as it can say; None is every event."""
    for one, other in ((a, b), (b, a)):
        if covers(one, other):
            return None if EVERYTHING in normal_form(one) else one
    asked = {operand.text for operand in _operands(b)}
    shared = [
        Shared(operand.node, parts_of(operand.normal))
        for operand in _operands(a)
        if operand.text in asked and _is_truth(operand.node) and not operand.is_plain
    ]
    return enclose(parts_of(normal_form(a)) + parts_of(normal_form(b)), shared)


class _Operand(NamedTuple):
    """One of the conditions that a filter joins by AND, or the whole filter if it joins none."""

    node: Expression
    text: str
    normal: Normal
    wholes: list[Part]  # what is enough to make it true
    is_truth: bool  # whether what is true beside AND makes it true
    names: frozenset[str]
    evaluate: Evaluator

    def outcomes(self, part: Part) -> set[bool] | None:
        """Whether it is true, for all that satisfies the part; None if that is too much to be tried out."""
        known = {name: values for name in self.names if name in part and (values := part[name].values) is not None}
        if len(known) < len(self.names) or prod(map(len, known.values())) > _MOST_PARTS:
            return None
        return {self.evaluate(dict(zip(known, each, strict=True))) is True for each in product(*known.values())}

    @property
    def is_plain(self) -> bool:
        """Whether its normal form says it all, without alternatives."""
        return len(self.normal) == 1 and self.normal[0].exact


@lru_cache(maxsize=4096)
def _operands(where: Filter) -> tuple[_Operand, ...]:
    root = where.syntax
    if isinstance(root, Logical) and root.logic is Logic.AND:
        # beside AND what is not a Boolean is cast, which an AND of just one operand keeps so
        return tuple(_operand(node, Logical(Logic.AND, (node,)), is_truth=True) for node in root.operands)
    return (_operand(root, root, is_truth=_is_truth(root)),)


def _operand(node: Expression, root: Expression, *, is_truth: bool) -> _Operand:
    normal = normalise(root)
    wholes = [constraints(conjunct) for conjunct in normal if conjunct.exact]
    return _Operand(node, canonical(node), normal, wholes, is_truth, names(node), compile_expression(root))


def _is_truth(node: Expression) -> bool:
    """Whether it is a Boolean, if it is not in error; anything else would be cast beside AND."""
    if isinstance(node, Call):
        function = functions.find(node.name, len(node.arguments))
        return function is not None and function.returns is Kind.BOOLEAN
    return isinstance(node, Comparison | Like | InList | Exists | Not | Logical)


def parts_of(normal: Normal) -> list[Part]:
    """The conjuncts that something may satisfy, each as what it asks of each attribute."""
    return [part for part in map(constraints, normal) if _can_be(part)]


def _can_be(part: Part) -> bool:
    return all(constraint.possible for constraint in part.values())


def _is_possible(one: Conjunct, other: Conjunct, operands: tuple[_Operand, ...]) -> bool:
    """Whether something may satisfy both conjuncts, and the conditions that they are of."""
    terms = Terms(one)
    terms.take(other)
    both = terms.conjunct()
    if both is None:
        return False
    part = constraints(both)
    return _can_be(part) and all(operand.outcomes(part) != {False} for operand in operands)


def _holds(operand: _Operand, part: Part) -> bool:
    """Whether it is true for all that satisfies the part."""
    return _is_inside(part, operand.wholes) or operand.outcomes(part) == {True}


def _is_inside(part: Part, wholes: list[Part]) -> bool:
    """Whether all that satisfies the part satisfies one of the others; if need be, key by key."""
    if any(implies(part, whole) for whole in wholes):
        return True
    if len(wholes) < 2 or prod([constraint.variety for constraint in part.values()]) > _MOST_PARTS:
        return False
    for name, constraint in part.items():
        narrower = constraint.parts()
        if len(narrower) > 1:
            return all(not each.possible or _is_inside({**part, name: each}, wholes) for each in narrower)
    return False


def implies(part: Part, whole: Part) -> bool:
    """Whether all that satisfies the one satisfies the other; False also if there is no telling."""
    for name, constraint in whole.items():
        known = part.get(name)
        if known is None or not known.implies(constraint):
            return False
    return True
