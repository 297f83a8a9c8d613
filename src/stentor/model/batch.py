"""Batches: events seen as columns; a run of frames from the wire is one, and so is a list of rows."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from stentor.model.attribute import Kind, Value, kind_of
from stentor.model.column import Column
from stentor.model.errors import AttributeValueError

Row = dict[str, Value]
_EMPTY: dict[Kind, Value] = {Kind.BOOLEAN: False, Kind.INTEGER: 0, Kind.DECIMAL: 0.0, Kind.STRING: ""}
DTYPES = {Kind.BOOLEAN: np.bool_, Kind.INTEGER: np.int64, Kind.DECIMAL: np.float64}


class Batch(Protocol):
    """What matching needs to know of several events."""

    count: int

    def column(self, name: str) -> Column | None:
        """One attribute of every event; None if no event has it."""

    def rows(self) -> Sequence[Row]:
        """The attributes of every event."""


class Rows:
    """Events given one by one; an attribute has the same type in all that have it."""

    __slots__ = ("_columns", "_rows", "count")

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._columns: dict[str, Column | None] = {}
        self.count = len(rows)

    def rows(self) -> Sequence[Row]:
        return self._rows

    def column(self, name: str) -> Column | None:
        if name not in self._columns:
            values = [row.get(name) for row in self._rows]
            kind = _kind(name, values)
            self._columns[name] = None if kind is None else make_column(kind, values)
        return self._columns[name]


def _kind(name: str, values: list[Value | None]) -> Kind | None:
    """The type that all values have; None if there are none."""
    kinds = {kind_of(name, value) for value in values if value is not None}
    if len(kinds) > 1:
        raise AttributeValueError(f"attribute {name!r} has several types in one batch")
    return kinds.pop() if kinds else None


def make_column(kind: Kind, values: list[Value | None]) -> Column:
    """A column of plain values of one type, None where an event lacks the attribute."""
    valid = None
    if None in values:
        valid = np.array([value is not None for value in values])
        values = [_EMPTY[kind] if value is None else value for value in values]
    if kind is not Kind.STRING:
        return Column(kind, np.array(values, DTYPES[kind]), valid)
    codes: dict[Value | None, int] = {}
    numbers = [codes.setdefault(value, len(codes)) for value in values]
    return Column(Kind.STRING, np.array(numbers, np.uint32), valid, tuple(codes))  # type: ignore[arg-type]
