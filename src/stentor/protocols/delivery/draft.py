"""Drafts: events of one topic that wait to leave, as columns, so that what one turn of the loop brings is one batch."""

import math
from collections.abc import Mapping, Sequence

from stentor.model.attribute import Kind, Schema, Value, check_name, check_value, kind_of, schema_of
from stentor.model.errors import AttributeValueError
from stentor.wire import block
from stentor.wire.block import LARGEST_COUNT, Origin
from stentor.wire.frame import SOFT_FRAME

_OVERHEAD = 64  # what an event costs in memory beyond its body, roughly


class Draft:
    """One batch in the making. Attributes may differ from event to event; a change of an attribute's type may not."""

    __slots__ = ("_aligned", "_columns", "_kinds", "_last_shape", "bodies", "size", "time", "topic")

    def __init__(self, topic: str, time: int) -> None:
        self.topic = topic
        self.time = time
        self.bodies: list[bytes] = []
        self.size = 0
        self._kinds: dict[str, Kind] = {}
        self._columns: list[list[Value | None]] = []
        self._last_shape: Schema | None = None
        self._aligned = False  # whether an event of the last shape has a value for every column, in order

    def add(self, shape: Schema, attributes: Mapping[str, Value], body: bytes) -> bool:
        """Take one more event; False if it does not fit, and must open another draft."""
        if self.bodies and (self.size + len(body) > SOFT_FRAME or len(self.bodies) == LARGEST_COUNT):
            return False
        if shape is not self._last_shape:
            for name, kind in zip(shape.names, shape.kinds, strict=True):
                if self._kinds.get(name, kind) is not kind:
                    return False
            for name, kind in zip(shape.names, shape.kinds, strict=True):
                if name not in self._kinds:
                    self._kinds[name] = kind
                    self._columns.append([None] * len(self.bodies))
            self._last_shape = shape
            self._aligned = tuple(self._kinds) == shape.names
        if self._aligned:
            for column, value in zip(self._columns, attributes.values(), strict=True):
                column.append(value)
        else:
            for name, column in zip(self._kinds, self._columns, strict=True):
                column.append(attributes.get(name))
        self.bodies.append(body)
        self.size += len(body) + _OVERHEAD
        return True

    def fill(self, schema: Schema, columns: Sequence[Sequence[Value | None]], bodies: Sequence[bytes]) -> None:
        """Take many events into an empty draft."""
        self._kinds = dict(zip(schema.names, schema.kinds, strict=True))
        self._columns = [list(column) for column in columns]
        self.bodies = list(bodies)
        self.size = sum(map(len, bodies)) + _OVERHEAD * len(bodies)

    @property
    def schema(self) -> Schema:
        return Schema(tuple(self._kinds), tuple(self._kinds.values()))

    def encode(self, origin: Origin) -> bytes:
        return block.encode(origin, self.schema, self._columns, self.bodies)


class Shapes:
    """Checks events and remembers the shapes of their attributes, so that the same shape is worked out once."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, ...], tuple[type, ...]], Schema] = {}

    def check(self, attributes: Mapping[str, Value]) -> Schema:
        key = (tuple(attributes), tuple(map(type, attributes.values())))
        shape = self._known.get(key)
        if shape is None:
            shape = schema_of(attributes)
            if len(self._known) >= 4096:
                self._known.clear()
            self._known[key] = shape
            return shape
        for name, kind, value in zip(shape.names, shape.kinds, attributes.values(), strict=True):
            if kind is not Kind.BOOLEAN:
                check_value(name, kind, value)
        return shape


def check_columns(
    count: int, columns: Mapping[str, Sequence[Value | None]]
) -> tuple[Schema, list[Sequence[Value | None]]]:
    """The schema of many events, checked, and their columns; None is missing, a column of nothing else is left out."""
    kinds: dict[str, Kind] = {}
    kept: list[Sequence[Value | None]] = []
    for name, column in columns.items():
        check_name(name)
        if len(column) != count:
            raise AttributeValueError(f"attribute {name!r} has {len(column)} values for {count} bodies")
        types = set(map(type, column)) - {type(None)}
        if len(types) > 1:
            found = ", ".join(sorted(each.__name__ for each in types))
            raise AttributeValueError(f"attribute {name!r} mixes {found}: one type per attribute and call")
        if types:
            there = [value for value in column if value is not None]
            kind = kinds[name] = kind_of(name, there[0])
            for value in _extremes(kind, there):
                check_value(name, kind, value)
            kept.append(column)
    return Schema(tuple(kinds), tuple(kinds.values())), kept


def _extremes(kind: Kind, values: list[Value]) -> list[Value]:
    """The values that are wrong if any is."""
    if kind is Kind.INTEGER:
        return [min(values), max(values)]
    if kind is Kind.DECIMAL:
        return [] if math.isfinite(sum(values)) else values  # type: ignore[arg-type]
    return values if kind is Kind.STRING else []
