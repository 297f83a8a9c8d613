"""Casts between the types of CESQL, and the comparisons and sums that need them.

CESQL knows Boolean, Integer and String. Stentor adds Decimal, a 64-bit float, and its Integers have 64 bits, not 32. An
operator takes its Decimal form when one of its operands is a Decimal, and is exactly CESQL's otherwise. Integers and
Decimals are compared as the numbers they are, never by a cast, so 2^53 + 1 is not 2^53. A Decimal becomes an Integer
only if that loses nothing; anything else is a cast error, as is a text that is not a number. What does not fit into 64
bits, or is not finite, is a math error with the value 0; of the smallest Integer, ABS is the largest and a math error.
"""

import math
import operator
import re
from collections.abc import Callable

from stentor.model.attribute import LARGEST_INTEGER, SMALLEST_INTEGER, Kind
from stentor.model.filter.failure import NOT_A_BOOLEAN, NOT_A_NUMBER, NOT_COMPUTABLE, Failure, Outcome
from stentor.model.filter.syntax import Operator, Relation

Number = int | float

_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def to_string(value: Outcome) -> str | Failure:
    """Every value has a text; a Decimal's is the shortest that reads back as the same number."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Failure):
        return value.as_string()
    return repr(value)


def to_boolean(value: Outcome) -> bool | Failure:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        word = value.lower()
        return word == "true" if word in ("true", "false") else NOT_A_BOOLEAN
    if isinstance(value, Failure):
        return value.as_boolean()
    return value != 0


def to_integer(value: Outcome) -> int | Failure:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        # The pattern bounds the digits: Python refuses to read more than 4,300 of them.
        digits = _INTEGER.fullmatch(value)
        number = int(digits[1] + digits[2]) if digits else None
    elif isinstance(value, float):
        number = int(value) if value.is_integer() else None
    else:
        return value.as_number() if isinstance(value, Failure) else NOT_A_NUMBER
    return number if number is not None and SMALLEST_INTEGER <= number <= LARGEST_INTEGER else NOT_A_NUMBER


def to_decimal(value: Outcome) -> float | Failure:
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        return float(value)
    if isinstance(value, str):
        number = float(value) if _DECIMAL.fullmatch(value) else math.inf
        return number if math.isfinite(number) else NOT_A_NUMBER
    return value.as_number() if isinstance(value, Failure) else NOT_A_NUMBER


def to_number(value: Outcome) -> Number | Failure:
    """An Integer, unless it is a Decimal already."""
    return value if isinstance(value, float) else to_integer(value)


def unchanged(value: Outcome) -> Outcome:
    return value


CASTS: dict[Kind | None, Callable[[Outcome], Outcome]] = {
    Kind.STRING: to_string,
    Kind.BOOLEAN: to_boolean,
    Kind.INTEGER: to_integer,
    Kind.DECIMAL: to_decimal,
    None: unchanged,
}


def equal(value: Outcome, target: Outcome) -> bool | Failure:
    """Whether the value, cast to the type of the target, is equal to it."""
    if isinstance(value, Failure):
        return value.as_boolean()
    if isinstance(target, Failure):
        return target.as_boolean()
    cast: Outcome
    if isinstance(target, str):
        cast = to_string(value)
    elif isinstance(target, bool):
        cast = to_boolean(value)
    elif isinstance(value, bool | str):
        cast = to_integer(value) if isinstance(target, int) else to_decimal(value)
    else:
        cast = value
    return cast.as_boolean() if isinstance(cast, Failure) else cast == target


def numbers(left: Outcome, right: Outcome) -> tuple[Number, Number] | Failure:
    """Both as numbers: Decimals if one of them is a Decimal, though an Integer is left exact; otherwise Integers."""
    if isinstance(left, Failure):
        return left
    if isinstance(right, Failure):  # operands are evaluated before any is cast
        return right
    first: Number | Failure
    second: Number | Failure
    if isinstance(left, float) or isinstance(right, float):
        first, second = _exact(left), _exact(right)
    else:
        first, second = to_integer(left), to_integer(right)
    if isinstance(first, Failure):
        return first
    return second if isinstance(second, Failure) else (first, second)


def _exact(value: Outcome) -> Number | Failure:
    return value if type(value) is int else to_decimal(value)


_ORDERS: dict[Relation, Callable[[Number, Number], bool]] = {
    Relation.LESS: operator.lt,
    Relation.LESS_OR_EQUAL: operator.le,
    Relation.GREATER: operator.gt,
    Relation.GREATER_OR_EQUAL: operator.ge,
}


def compare(relation: Relation, left: Outcome, right: Outcome) -> bool | Failure:
    """`=` and `!=` cast the left side to the type of the right one; the others compare numbers."""
    if relation is Relation.EQUAL:
        return equal(left, right)
    if relation is Relation.UNEQUAL:
        same = equal(left, right)
        return same if isinstance(same, Failure) else not same
    pair = numbers(left, right)
    return pair.as_boolean() if isinstance(pair, Failure) else _ORDERS[relation](*pair)


def compute(operation: Operator, left: Outcome, right: Outcome) -> Number | Failure:
    """A sum, product and so on; out of range, like a division by zero, is a math error with the value 0."""
    pair = numbers(left, right)
    if isinstance(pair, Failure):
        return pair.as_number()
    first, second = pair
    if isinstance(first, int) and isinstance(second, int):
        return _compute_integer(operation, first, second)
    try:
        number = _DECIMAL_OPERATIONS[operation](float(first), float(second))
    except (ZeroDivisionError, ValueError, OverflowError):
        return NOT_COMPUTABLE
    return number if math.isfinite(number) else NOT_COMPUTABLE


def _compute_integer(operation: Operator, first: int, second: int) -> int | Failure:
    if operation is Operator.PLUS:
        number = first + second
    elif operation is Operator.MINUS:
        number = first - second
    elif operation is Operator.TIMES:
        number = first * second
    elif second == 0:
        return NOT_COMPUTABLE
    else:
        # Python rounds a quotient down, CESQL towards zero; the remainder has the sign of the dividend.
        quotient = abs(first) // abs(second)
        if (first < 0) is not (second < 0):
            quotient = -quotient
        number = quotient if operation is Operator.DIVIDE else first - quotient * second
    return number if SMALLEST_INTEGER <= number <= LARGEST_INTEGER else NOT_COMPUTABLE


_DECIMAL_OPERATIONS: dict[Operator, Callable[[float, float], float]] = {
    Operator.PLUS: operator.add,
    Operator.MINUS: operator.sub,
    Operator.TIMES: operator.mul,
    Operator.DIVIDE: operator.truediv,
    Operator.REMAINDER: math.fmod,
}


def negate(value: Outcome) -> Number | Failure:
    number = to_number(value)
    if isinstance(number, Failure):
        return number.as_number()
    return NOT_COMPUTABLE if number == SMALLEST_INTEGER and isinstance(number, int) else -number
