"""Scans: the common conditions on one attribute, over a whole column."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stentor.model.attribute import Kind, Value
from stentor.model.filter.bound import bound, mirrored
from stentor.model.filter.casting import Number
from stentor.model.filter.evaluation import memberships
from stentor.model.filter.failure import Failure
from stentor.model.filter.pattern import matcher
from stentor.model.filter.syntax import Attribute, Comparison, Expression, InList, Like, Literal, Relation

Mask = NDArray[np.bool_]
Scan = Callable[[NDArray[np.generic]], tuple[Mask, Mask | None]]  # where true, where in error
TextScan = Callable[[tuple[str, ...], NDArray[np.integer]], Mask]

_COMPARE: dict[Relation, Callable[..., Mask]] = {
    Relation.EQUAL: np.equal,
    Relation.UNEQUAL: np.not_equal,
    Relation.LESS: np.less,
    Relation.LESS_OR_EQUAL: np.less_equal,
    Relation.GREATER: np.greater,
    Relation.GREATER_OR_EQUAL: np.greater_equal,
}
_NUMBERS = (Kind.INTEGER, Kind.DECIMAL)
_FEW = 8  # constants, up to which comparing with each is quicker than sorting


def scan_numbers(node: Expression, kind: Kind) -> Scan | None:
    """How to look at a column of such numbers, if there is a quick way."""
    match node:
        case Comparison(relation, Attribute(), Literal(other, target)) if other in _NUMBERS:
            return _comparison(relation, target, kind)
        case Comparison(relation, Literal(other, target), Attribute()) if other in _NUMBERS:
            return _comparison(mirrored(relation), target, kind)
        case InList(Attribute(), elements):
            constants = tuple(element.value for element in elements if isinstance(element, Literal))
            return _membership(constants, kind) if len(constants) == len(elements) else None
    return None


def _comparison(relation: Relation, target: Value, kind: Kind) -> Scan:
    assert not isinstance(target, str)
    limit = bound(relation, target, kind)
    if isinstance(limit, bool):
        return lambda values: (np.full(len(values), limit), None)
    compare, constant = _COMPARE[limit[0]], _constant(limit[1], kind)
    return lambda values: (compare(values, constant), None)


def _constant(number: Number, kind: Kind) -> NDArray[np.generic]:
    return np.array(number, np.int64 if kind is Kind.INTEGER else np.float64)


def _membership(constants: tuple[Value, ...], kind: Kind) -> Scan:
    members, otherwise = memberships(constants, int if kind is Kind.INTEGER else float)
    exact = set()
    for member in members:
        assert not isinstance(member, str)
        limit = bound(Relation.EQUAL, member, kind)
        if not isinstance(limit, bool):  # else no value of the column can be equal to it
            exact.add(limit[1])
    wanted = [_constant(number, kind) for number in sorted(exact)]
    several = np.array(wanted) if len(wanted) > _FEW else None

    def scan(values: NDArray[np.generic]) -> tuple[Mask, Mask | None]:
        if several is not None:
            true = np.isin(values, several)
        else:
            true = np.zeros(len(values), np.bool_)
            for constant in wanted:
                true |= values == constant
        return true, ~true if isinstance(otherwise, Failure) else None

    return scan


def scan_texts(node: Expression) -> TextScan | None:
    """How to look at a column of strings, if there is a quick way; none of these can fail on a string."""
    match node:
        case Comparison(Relation.EQUAL | Relation.UNEQUAL as relation, Attribute(), Literal(Kind.STRING, target)):
            return _equality(_COMPARE[relation], target)
        case Like(Attribute(), pattern):
            matches = matcher(pattern)
            return lambda texts, codes: np.array([matches(text) for text in texts], np.bool_)[codes]
        case InList(Attribute(), elements):
            constants = tuple(element.value for element in elements if isinstance(element, Literal))
            if len(constants) == len(elements):
                members, _ = memberships(constants, str)
                return lambda texts, codes: np.array([text in members for text in texts], np.bool_)[codes]
    return None


def _equality(compare: Callable[..., Mask], target: Value) -> TextScan:
    def scan(texts: tuple[str, ...], codes: NDArray[np.integer]) -> Mask:
        if texts.count(target) > 1:  # a dictionary need not be unique
            return compare(np.array([text == target for text in texts], np.bool_)[codes], True)
        # Without such an entry it is a code that no event has.
        code = texts.index(target) if target in texts else len(texts)
        return compare(codes, code)

    return scan
