"""Reads single values of a file; each complains about what it cannot take, and whoever asked says where that was."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec

from stentor.config.address import Address
from stentor.config.problem import describe
from stentor.config.quantity import duration, show_duration, show_size, size
from stentor.model.errors import InvalidInput
from stentor.model.limits import DiskSize, Seconds, Size
from stentor.model.scope import ScopePath
from stentor.model.topic import check_pattern
from stentor.model.wording.suggestion import nearest, suggestion

T = TypeVar("T")
Reader = Callable[[object], str]


def text(value: object, expected: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"expected {expected} in quotes, found {describe(value)}")
    return value


def name(value: object) -> ScopePath:
    return ScopePath.parse(text(value, "a scope path"))


def address(value: object) -> Address:
    return Address.parse(text(value, "host:port"))


def address_or_off(value: object) -> Address | None:
    return None if value == "" else address(value)


def path(value: object, base: Path) -> Path:
    """One that is relative to `base`, if it is not absolute."""
    found = text(value, "a path")
    try:
        expanded = Path(found).expanduser()
    except RuntimeError as error:
        raise InvalidInput(f"expected a path, found {describe(found)}: {error}") from error
    if not found or "\0" in found:
        raise InvalidInput(f"expected a path, found {describe(found)}")
    return base / expanded


def boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"expected true or false, found {describe(value)}")
    return value


def choice(value: object, choices: Sequence[T]) -> T:
    for each in choices:
        if value == each:
            return each
    words = [str(each) for each in choices]
    hint = suggestion(value, words) if isinstance(value, str) and nearest(value, words) else ""
    raise InvalidInput(f"expected {' or '.join(words)}, found {describe(value)}{hint}")


def several(expected: str, exactly: int | None = None) -> Callable[[object], list[object]]:
    """Reads an array that must have elements, or so many of them."""

    def read(value: object) -> list[object]:
        if not isinstance(value, list) or not value:
            raise InvalidInput(f"expected {expected}, found {describe(value)}")
        if exactly is not None and len(value) != exactly:
            raise InvalidInput(f"expected {expected}, found an array of {len(value)}")
        return value

    return read


def topic_pattern(value: object) -> str:
    return check_pattern(text(value, "a topic"))


def bounded(kind: Any) -> Callable[[object], Any]:
    """Reads a value of an annotated type, within the bounds that the type states."""
    if kind is bool:
        return boolean
    plain, bounds = get_args(kind)[:2]
    read: Callable[[object], int | float]
    show: Callable[[Any], str]
    if kind in (Size, DiskSize):
        read, show, word = size, show_size, "a size"
    elif kind == Seconds:
        read, show, word = duration, show_duration, "a duration"
    elif plain is float:
        read, show, word = _number, "{:.15g}".format, "a number"
    else:
        read, show, word = _integer, str, "an integer"

    def within(value: object) -> int | float:
        found = read(value)
        try:
            msgspec.convert(found, kind)
        except msgspec.ValidationError as error:
            lowest = f"more than {show(bounds.gt)}" if bounds.gt is not None else f"at least {show(bounds.ge)}"
            raise InvalidInput(
                f"expected {word} of {lowest} and at most {show(bounds.le)}, found {describe(value)}"
            ) from error
        return found

    return within


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidInput(f"expected an integer, found {describe(value)}")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidInput(f"expected a number, found {describe(value)}")
    return duration(value)  # which knows what to do with numbers that no float can hold
