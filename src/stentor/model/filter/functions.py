"""The built-in functions of CESQL, and DECIMAL and IS_DECIMAL, which are Stentor's."""

from collections.abc import Callable
from typing import NamedTuple

from stentor.model.attribute import LARGEST_INTEGER, SMALLEST_INTEGER, Kind, Value
from stentor.model.filter.casting import CASTS, to_boolean, to_decimal, to_integer, to_number, to_string, unchanged
from stentor.model.filter.failure import Failure, FilterErrorKind, Outcome

# Unicode's White_Space; str.strip() would take the control characters U+001C to U+001F too.
WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)

Cast = Callable[[Outcome], Outcome]


class Function(NamedTuple):
    """One form of a function: its arguments are cast, then `body` is called with them."""

    casts: tuple[Cast, ...]  # of the arguments that it always has
    rest: Cast | None  # of any further ones, if it takes them
    returns: Kind
    body: Callable[..., Outcome]


def find(name: str, arity: int) -> Function | None:
    """The form of a function that takes so many arguments."""
    for function in FUNCTIONS.get(name, ()):
        if arity == len(function.casts) or (function.rest is not None and arity > len(function.casts)):
            return function
    return None


def arities(name: str) -> str:
    """How many arguments a function takes, for people."""
    counts = [f"{len(form.casts)}{' or more' if form.rest else ''}" for form in FUNCTIONS[name]]
    plural = "" if counts == ["1"] else "s"
    return f"{' or '.join(counts)} argument{plural}"


def zero(function: Function, failure: Failure) -> Failure:
    """The failure of an argument, with the value that the function then has."""
    if function.returns is Kind.STRING:
        return failure.as_string()
    return failure.as_boolean() if function.returns is Kind.BOOLEAN else failure.as_number()


def _concat_with(delimiter: str, *texts: str) -> str:
    return delimiter.join(texts)


def _left(text: str, length: int) -> Outcome:
    return text[:length] if length >= 0 else Failure(FilterErrorKind.FUNCTION_EVALUATION, text)


def _right(text: str, length: int) -> Outcome:
    if length < 0:
        return Failure(FilterErrorKind.FUNCTION_EVALUATION, text)
    return text[-length:] if length else ""


def _substring(text: str, position: int, length: int = LARGEST_INTEGER) -> Outcome:
    """Counted from 1, or from the end if negative; nothing is at 0."""
    if length < 0 or abs(position) > len(text):
        return Failure(FilterErrorKind.FUNCTION_EVALUATION, "")
    if position == 0:
        return ""
    start = position - 1 if position > 0 else len(text) + position
    return text[start : start + length]


def _absolute(number: float) -> Outcome:
    if number == SMALLEST_INTEGER and isinstance(number, int):
        return Failure(FilterErrorKind.MATH, LARGEST_INTEGER)
    return abs(number)


def _castable(cast: Cast) -> Callable[[Value], bool]:
    return lambda value: not isinstance(cast(value), Failure)


_STRING, _INTEGER = CASTS[Kind.STRING], CASTS[Kind.INTEGER]

FUNCTIONS: dict[str, tuple[Function, ...]] = {
    "LENGTH": (Function((_STRING,), None, Kind.INTEGER, len),),
    "CONCAT": (Function((), _STRING, Kind.STRING, lambda *texts: "".join(texts)),),
    "CONCAT_WS": (Function((_STRING,), _STRING, Kind.STRING, _concat_with),),
    "LOWER": (Function((_STRING,), None, Kind.STRING, str.lower),),
    "UPPER": (Function((_STRING,), None, Kind.STRING, str.upper),),
    "TRIM": (Function((_STRING,), None, Kind.STRING, lambda text: text.strip(WHITE_SPACE)),),
    "LEFT": (Function((_STRING, _INTEGER), None, Kind.STRING, _left),),
    "RIGHT": (Function((_STRING, _INTEGER), None, Kind.STRING, _right),),
    "SUBSTRING": (
        Function((_STRING, _INTEGER), None, Kind.STRING, _substring),
        Function((_STRING, _INTEGER, _INTEGER), None, Kind.STRING, _substring),
    ),
    "ABS": (Function((to_number,), None, Kind.INTEGER, _absolute),),
    "INT": (Function((unchanged,), None, Kind.INTEGER, to_integer),),
    "BOOL": (Function((unchanged,), None, Kind.BOOLEAN, to_boolean),),
    "STRING": (Function((unchanged,), None, Kind.STRING, to_string),),
    "DECIMAL": (Function((unchanged,), None, Kind.DECIMAL, to_decimal),),
    "IS_INT": (Function((unchanged,), None, Kind.BOOLEAN, _castable(to_integer)),),
    "IS_BOOL": (Function((unchanged,), None, Kind.BOOLEAN, _castable(to_boolean)),),
    "IS_DECIMAL": (Function((unchanged,), None, Kind.BOOLEAN, _castable(to_decimal)),),
}
