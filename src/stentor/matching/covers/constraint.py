"""Attribute constraints: what a conjunct asks of one attribute, to tell whether one constraint implies another.

Few values have a certain text, and few are equal to a constant of IN. Where a filter asks for such keys, its constraint
is the list of those values, and each can be tried. Elsewhere implications follow from the facets alone: a text that is
an integer is the same number as a Decimal, and whoever knows the beginning of a text knows a shorter one.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import inf, nextafter, prod

from stentor.matching.conjunct import Conjunct, Range
from stentor.matching.facet import Facet, Key, View, look_at_number
from stentor.model.attribute import LARGEST_INTEGER, SMALLEST_INTEGER, Value
from stentor.model.filter.casting import to_integer
from stentor.model.filter.failure import Failure

LARGEST_BOUND = 2.0**52  # of a range in normal form; rounding moves no integer over a bound
_LISTED = (View.TEXT, View.OWN)
_NUMBERS = (View.WHOLE, View.DECIMAL)

Keys = frozenset[Key]
Interval = tuple[float, float]


class AttributeConstraint:
    """What a conjunct asks of the value of an attribute, which must be there."""

    __slots__ = ("keys", "name", "span", "values")

    def __init__(self, name: str, keys: dict[Facet, Keys], span: Range | None = None) -> None:
        self.name = name
        self.keys = keys
        self.span = span
        self.values: tuple[Value, ...] | None = None  # all that it can be, if they can be listed
        for facet, wanted in keys.items():
            if facet.view in _LISTED:
                known = [value for key in wanted for value in _values(facet.view, key)]
                self.values = tuple([value for value in known if self.admits(value)])
                break

    @property
    def possible(self) -> bool:
        """False if there is no such value; True if there is, or no telling."""
        return all(map(self.keys_at, self.keys)) if self.values is None else bool(self.values)

    def admits(self, value: Value) -> bool:
        if not all(facet.look(value) in keys for facet, keys in self.keys.items()):
            return False
        if self.span is None:
            return True
        number = look_at_number(self.span.view, value)
        return number is not None and self.span.low <= number < self.span.high

    def implies(self, other: "AttributeConstraint") -> bool:
        """True if all that satisfies this demand satisfies the other one; False if it does not, or no telling."""
        if self.values is not None:
            return all(other.admits(value) for value in self.values)
        for facet, keys in other.keys.items():
            known = self.keys_at(facet)
            if known is None or not known <= keys:
                return False
        if other.span is None:
            return True
        interval = self.interval_at(other.span.view)
        return interval is not None and other.span.low <= interval[0] and interval[1] <= other.span.high

    def keys_at(self, facet: Facet) -> Keys | None:
        """The keys of a facet, for all that satisfies the demand; None if they have no end, or no telling."""
        if facet.view is View.PRESENT:
            return frozenset({True})
        if self.values is not None:
            seen = [facet.look(value) for value in self.values]
            return frozenset(seen) if all(key is not None and key == key for key in seen) else None  # type: ignore[arg-type]
        known = [self.keys[facet]] if facet in self.keys else []
        for other, keys in self.keys.items():
            if facet.view is View.PREFIX and other.view is View.PREFIX and other.length > facet.length:
                known.append(frozenset([str(key)[: facet.length] for key in keys]))
            elif facet.view is View.DECIMAL and other.view is View.WHOLE:
                # a text is rounded, an Integer is not
                known.append(keys | {float(key) for key in keys})  # type: ignore[arg-type]
        if not known:
            return None
        keys = frozenset.intersection(*known)
        if self.span is None or facet.view not in _NUMBERS:
            return keys
        low, high = self.span.low, self.span.high
        return frozenset([key for key in keys if low <= key < high])  # type: ignore[operator]

    def interval_at(self, view: View) -> Interval | None:
        """From where up to, not including, where the numbers lie; None if they need not be numbers in this view."""
        keys = self.keys_at(Facet(self.name, view))
        if keys is not None:
            return _around(keys)
        if self.span is None or self.span.view > view:
            return None
        return self.span.low, self.span.high

    @property
    def variety(self) -> int:
        """How many values or combinations of keys it has."""
        return prod(map(len, self.keys.values())) if self.values is None else len(self.values)

    def parts(self) -> list["AttributeConstraint"]:
        """The demand as several narrower ones, of which one is satisfied: a value or a key each."""
        if self.values is not None:
            return [self._only(value) for value in self.values]
        for facet, keys in self.keys.items():
            if len(keys) > 1:
                return [
                    AttributeConstraint(self.name, {**self.keys, facet: frozenset({key})}, self.span) for key in keys
                ]
        return [self]

    def _only(self, value: Value) -> "AttributeConstraint":
        made = AttributeConstraint(self.name, {})
        made.values = (value,)
        return made


def _around(numbers: Iterable[Key]) -> Interval:
    """The narrowest interval with these numbers inside, of bounds that a range can have."""
    low, high = min(numbers), max(numbers)
    assert not isinstance(low, str | tuple)
    assert not isinstance(high, str | tuple)
    return (
        -inf if low < -LARGEST_BOUND else min(float(low), LARGEST_BOUND) + 0.0,
        inf if high > LARGEST_BOUND else nextafter(max(float(high), -LARGEST_BOUND), inf) + 0.0,
    )


def _values(view: View, key: Key) -> Iterator[Value]:
    """All values that look so."""
    if isinstance(key, tuple):
        yield key[0]
    elif not isinstance(key, str):
        yield from _equal_numbers(key)
    else:
        yield key
        if view is View.TEXT:
            yield from _spelled(key)


def _equal_numbers(number: float) -> Iterator[Value]:
    if number == int(number) and SMALLEST_INTEGER <= number <= LARGEST_INTEGER:
        yield int(number)
    if float(number) == number:
        yield float(number)
        if not number:
            yield from (0.0, -0.0)


def _spelled(text: str) -> Iterator[Value]:
    """What is no text, but has this one."""
    if text in ("true", "false"):
        yield text == "true"
    integer = to_integer(text)
    if not isinstance(integer, Failure) and repr(integer) == text:
        yield integer
    try:
        decimal = float(text)
    except ValueError:
        return
    if repr(decimal) == text:
        yield decimal


@lru_cache(maxsize=4096)
def constraints(conjunct: Conjunct) -> dict[str, AttributeConstraint]:
    """What a conjunct asks of each attribute; not to be changed."""
    spans = {span.name: span for span in conjunct.ranges}
    keys: dict[str, dict[Facet, Keys]] = {name: {} for name in sorted(conjunct.names)}
    for facet, wanted in zip(conjunct.facets, conjunct.keys, strict=True):
        keys[facet.name][facet] = frozenset(wanted)
    return {name: AttributeConstraint(name, some, spans.get(name)) for name, some in keys.items()}
