"""Sizes and durations as people write them: 8388608 or "8 MiB", 0.5 or "500 ms"."""

import math
import re
from collections.abc import Mapping
from decimal import Decimal

from stentor.config.problem import describe
from stentor.model.errors import InvalidInput
from stentor.model.wording.suggestion import suggestion

SIZES: dict[str, int | Decimal] = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}
DURATIONS: dict[str, int | Decimal] = {"ms": Decimal("0.001"), "s": 1, "min": 60, "h": 3600, "d": 86_400}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµ]+)\s*", re.ASCII)


def pattern(units: Mapping[str, object]) -> str:
    """A regular expression of what `size` or `duration` takes as text, for editors."""
    return rf"^\s*[0-9]+(\.[0-9]+)?\s*({'|'.join(units)})\s*$"


def size(value: object) -> int:
    """A number of bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    expected = 'expected a size such as 65536 or "64 KiB"'
    if not isinstance(value, str):
        raise InvalidInput(f"{expected}, found {describe(value)}")
    count = _parse(value, SIZES, expected)
    if count != int(count):
        raise InvalidInput(f"{expected}, found {describe(value)}, which is not a whole number of bytes")
    return int(count)


def duration(value: object) -> float:
    """A number of seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf  # beyond any bound, as the caller will say
    expected = 'expected a duration such as 1.5 or "500 ms"'
    if not isinstance(value, str):
        raise InvalidInput(f"{expected}, found {describe(value)}")
    return float(_parse(value, DURATIONS, expected))


def show_size(count: int) -> str:
    """The shortest exact spelling."""
    for unit in ("GiB", "MiB", "KiB"):
        if count and count % SIZES[unit] == 0:
            return f"{count // int(SIZES[unit])} {unit}"
    return f"{count} B"


def show_duration(seconds: float) -> str:
    return f"{seconds:g} s" if seconds >= 1 or seconds == 0 else f"{seconds * 1000:g} ms"


def span(number: int) -> str:
    """Whole seconds for people: in the largest unit that takes them without a rest."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if number and number % size == 0:
            return f"{number // size} {unit}"
    return f"{number} s"


def _parse(text: str, units: Mapping[str, int | Decimal], expected: str) -> Decimal:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise InvalidInput(f"{expected}, found {describe(text)}")
    number, written = match.groups()
    spellings = {unit.lower(): unit for unit in units}
    unit = spellings.get(written.lower())
    if unit is None:
        raise InvalidInput(f"{expected}, found {describe(text)}: unknown unit{suggestion(written, units)}")
    return Decimal(number) * units[unit]
