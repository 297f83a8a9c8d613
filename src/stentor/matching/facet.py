"""Facets: what a filter looks at in an event, and how. The same attribute seen in two ways is two facets.

A constant decides how an attribute is compared with it: with a text as a text, with a number as a number. Hence a
filter's constants are keys under which an index can find it only together with the way of looking.
"""

import enum
import math
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stentor.model.attribute import Kind, Value
from stentor.model.batch import Batch
from stentor.model.filter.casting import to_boolean, to_decimal, to_integer, to_string
from stentor.model.filter.failure import Failure

Key = Value | tuple[bool]
Codes = NDArray[np.integer]
Numbers = NDArray[np.float64]
Attributes = Mapping[str, Value]

_LARGEST = sys.float_info.max  # stands for infinity, which a range without an end has inside


class View(enum.IntEnum):
    """The way in which a value is looked at."""

    TEXT = 1  # as the text that it has
    WHOLE = 2  # as a number; a text must be an integer
    DECIMAL = 3  # as a number; a text may have a fraction
    TRUTH = 4  # as a Boolean
    OWN = 5  # as what it is: IN casts its constants to the value's type
    PRESENT = 6  # only whether it is there
    PREFIX = 7  # the beginning of its text

    __hash__ = int.__hash__  # an enumeration's own is slow, and facets are looked up all the time


Number = tuple[str, View]  # an attribute, and how it is a number


class Facet(NamedTuple):
    name: str
    view: View
    length: int = 0  # of a prefix

    def look(self, value: Value) -> Key | None:
        """The key of a value; None if it cannot be looked at in this way."""
        if self.view is View.PREFIX:
            return str(to_string(value))[: self.length]
        return LOOKS[self.view](value)


def _text(value: Value) -> Key | None:
    return str(to_string(value))


def _whole(value: Value) -> Key | None:
    if isinstance(value, bool | str):
        number = to_integer(value)
        return None if isinstance(number, Failure) else number
    return value


def _decimal(value: Value) -> Key | None:
    if isinstance(value, bool | str):
        number = to_decimal(value)
        return None if isinstance(number, Failure) else number
    return value


def _truth(value: Value) -> Key | None:
    truth = to_boolean(value)
    return None if isinstance(truth, Failure) else truth


def own(value: Value) -> Key:
    """Python takes True for 1, a key must not."""
    return (value,) if isinstance(value, bool) else value


def _present(_value: Value) -> Key | None:
    return True


LOOKS: dict[View, Callable[[Value], Key | None]] = {
    View.TEXT: _text,
    View.WHOLE: _whole,
    View.DECIMAL: _decimal,
    View.TRUTH: _truth,
    View.OWN: own,
    View.PRESENT: _present,
}


def look_at_number(view: View, value: Value) -> float | None:
    """A value as a number that can lie in a range; None if it is none. NaN lies in no range."""
    kind = type(value)
    if kind is not int and kind is not float:
        value = LOOKS[view](value)  # type: ignore[assignment]
        if value is None:
            return None
    if value < math.inf:  # type: ignore[operator]
        return value  # type: ignore[return-value]
    return _LARGEST if value == math.inf else None


def point_of(attributes: Attributes, numbers: tuple[Number, ...]) -> list[float] | None:
    """Several attributes of an event as numbers; None if one of them is none."""
    point = []
    for name, view in numbers:
        value = attributes.get(name)
        number = None if value is None else look_at_number(view, value)
        if number is None:
            return None
        point.append(number)
    return point


def keys_of(batch: Batch, facet: Facet) -> tuple[list[Key | None], Codes] | None:
    """The different keys in a batch and which of them each event has; None if no event has any."""
    column = batch.column(facet.name)
    if column is None:
        return None
    keys: list[Key | None]
    codes: Codes
    if facet.view is View.PRESENT:
        keys, codes = [True], np.zeros(batch.count, np.intp)
    elif column.kind is Kind.STRING and len(column.dictionary) <= batch.count:
        keys, codes = [facet.look(text) for text in column.dictionary], column.values  # type: ignore[assignment]
    elif column.kind is Kind.BOOLEAN:
        keys, codes = [facet.look(False), facet.look(True)], column.values.astype(np.intp)
    else:
        numbers = column.values
        if column.kind is Kind.DECIMAL:
            numbers = numbers.astype(np.float64, copy=False).view(np.int64)  # 0.0 and -0.0 have different texts
        used, codes = np.unique(numbers, return_inverse=True)
        values = used.view(np.float64).tolist() if column.kind is Kind.DECIMAL else used.tolist()
        if column.kind is Kind.STRING:
            values = [column.dictionary[code] for code in values]
        keys = [facet.look(value) for value in values]
    if column.valid is not None:
        codes = np.where(column.valid, codes.astype(np.intp), len(keys))  # which may not fit into a code
        keys.append(None)
    return keys, codes


def numbers_of(batch: Batch, name: str, view: View) -> Numbers | None:
    """An attribute of every event as a number, NaN where it is none; None if no event has the attribute.

    Integers beyond 2^53 are rounded, which moves none of them over a bound: bounds are below that.
    """
    column = batch.column(name)
    if column is None:
        return None
    if column.kind is Kind.STRING:
        seen = [look_at_number(view, text) for text in column.dictionary]
        table = np.array([math.nan if number is None else number for number in seen], np.float64)
        numbers = table[column.values]
    else:
        numbers = column.values.astype(np.float64)
        if column.kind is Kind.DECIMAL:
            np.minimum(numbers, _LARGEST, out=numbers)
    return numbers if column.valid is None else np.where(column.valid, numbers, math.nan)
