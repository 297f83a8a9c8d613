"""Filter text: keys and ranges as conditions of a filter again, which fail only for events without the attribute."""

from collections.abc import Iterable, Sequence
from math import ceil, floor, inf, isfinite, nextafter

from stentor.matching.conjunct import Range
from stentor.matching.covers.constraint import LARGEST_BOUND, Keys
from stentor.matching.facet import Facet, Key, View, own
from stentor.matching.normal_form import normalise
from stentor.model.attribute import LARGEST_INTEGER, SMALLEST_INTEGER, Kind, Value
from stentor.model.filter.casting import to_decimal, to_integer
from stentor.model.filter.evaluation import memberships
from stentor.model.filter.failure import Failure
from stentor.model.filter.syntax import (
    Attribute,
    Comparison,
    Exists,
    Expression,
    InList,
    Like,
    Literal,
    Logic,
    Logical,
    Relation,
)

_KINDS: dict[type, Kind] = {bool: Kind.BOOLEAN, int: Kind.INTEGER, float: Kind.DECIMAL, str: Kind.STRING}


def spell_keys(facet: Facet, keys: Keys) -> Expression | None:
    """That a facet has one of these keys, or a little more; None if that cannot be written."""
    name, view = facet.name, facet.view
    if view is View.PRESENT:
        return Exists(name)
    if view is View.OWN:
        is_written = all(isfinite(key) for key in keys if isinstance(key, float))
        return _membership(name, _constants(keys)) if is_written else None
    if view is View.TEXT:
        return _texts(facet, sorted(map(str, keys)))
    if view is View.PREFIX:
        return _either([_begins(name, text, facet.length) for text in sorted(map(str, keys))])
    constants: Sequence[Value] | None = (
        [truth for truth in (False, True) if truth in keys] if view is View.TRUTH else _numbers(view, keys)
    )
    return None if constants is None else _either([_equals(name, constant) for constant in constants])


def _either(nodes: list[Expression]) -> Expression:
    return nodes[0] if len(nodes) == 1 else Logical(Logic.OR, tuple(nodes))


def _literal(value: Value) -> Literal:
    return Literal(_KINDS[type(value)], value)


def _equals(name: str, value: Value) -> Expression:
    return Comparison(Relation.EQUAL, Attribute(name), _literal(value))


def _membership(name: str, constants: Iterable[Value]) -> InList:
    return InList(Attribute(name), tuple(_literal(constant) for constant in constants))


def _texts(facet: Facet, texts: list[str]) -> Expression:
    """IN is shorter, but takes a text that is a number for the number, too."""
    listed = _membership(facet.name, texts)
    if len(texts) > 1 and all(conjunct.facets == (facet,) for conjunct in normalise(listed)):
        return listed
    return _either([_equals(facet.name, text) for text in texts])


def _begins(name: str, text: str, length: int) -> Expression:
    if len(text) < length:  # it is all of the text
        return _equals(name, text)
    text = text.rstrip("\\")  # before the wildcard, a backslash would make it a character
    return Like(Attribute(name), "".join([f"\\{each}" if each in "%_" else each for each in text]) + "%")


def _numbers(view: View, keys: Keys) -> list[Value] | None:
    """Constants that make a comparison look at an attribute in this view; None if not all numbers are of that type."""
    found: list[Value] = []
    for key in sorted([key for key in keys if isinstance(key, int | float)]):
        if view is View.DECIMAL:
            found.append(float(key))
        elif SMALLEST_INTEGER <= key <= LARGEST_INTEGER:
            found.append(int(key))
        if not found or found[-1] != key:
            return None
    return found


def _constants(keys: Keys) -> list[Value]:
    """Constants of an IN that holds these keys, and as few others as can be."""
    texts = sorted([key for key in keys if isinstance(key, str)], key=_failing)
    numbers = _integral(sorted([key for key in keys if isinstance(key, int | float)]))
    truths = sorted([key[0] for key in keys if isinstance(key, tuple)])
    # numbers and Booleans can always be cast, and nothing counts after what cannot be
    lists: list[list[Value]] = [[*texts], _needed(keys, numbers, truths, texts), _needed(keys, truths, numbers, texts)]
    return min([each for each in lists if _held(each) >= keys], key=lambda each: (len(_held(each)), len(each)))


def _failing(text: str) -> tuple[bool, bool, str]:
    return isinstance(to_decimal(text), Failure), isinstance(to_integer(text), Failure), text


def _integral(numbers: list[float]) -> list[Value]:
    return [int(number) if number == int(number) and abs(number) <= LARGEST_BOUND else number for number in numbers]


def _needed(keys: Keys, *groups: Sequence[Value]) -> list[Value]:
    """Without those that the groups before have brought along."""
    needed: list[Value] = []
    for group in groups:
        missing = keys - _held(needed)
        needed += [constant for constant in group if own(constant) in missing]
    return needed


def _held(constants: Sequence[Value]) -> set[Key]:
    """The keys of an IN, whatever type of value has them."""
    truths, integers, decimals, texts = (memberships(tuple(constants), kind)[0] for kind in (bool, int, float, str))
    # '7.0' is no Integer, but 7 and 7.0 are one key; there are no Integers equal to 7.5
    numbers = integers & decimals | {number for number in decimals if number % 1}
    return {own(member) for member in truths | texts} | numbers


def spell_range(span: Range) -> tuple[Expression, ...]:
    """That a number lies in a range, or hardly outside of it; nothing if all numbers do."""
    attribute, whole = Attribute(span.name), span.view is View.WHOLE
    nodes: list[Expression] = []
    if span.low > -inf:
        number, is_after = _bound(span.low, whole=whole)
        relation = Relation.GREATER if is_after else Relation.GREATER_OR_EQUAL
        nodes.append(Comparison(relation, attribute, _literal(floor(number) if whole else number)))
    if span.high < inf:
        number, is_after = _bound(span.high, whole=whole)
        relation = Relation.LESS_OR_EQUAL if is_after else Relation.LESS
        nodes.append(Comparison(relation, attribute, _literal(ceil(number) if whole else number)))
    return tuple(nodes)


def _bound(bound: float, *, whole: bool) -> tuple[float, bool]:
    """The number to write for a bound, and whether the bound is just after it."""
    before = nextafter(bound, -inf)
    if abs(bound) > LARGEST_BOUND:
        return before, True
    if whole:
        return (before, True) if before.is_integer() and not bound.is_integer() else (bound, False)
    return (before, True) if len(repr(before)) < len(repr(bound)) else (bound, False)
