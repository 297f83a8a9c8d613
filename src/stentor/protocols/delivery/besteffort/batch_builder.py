"""Batch builder: events of one topic that wait to leave, as columns.

What one turn of the event loop brings is one batch.
"""

import math
from collections.abc import Mapping, Sequence

from stentor.model.attribute import (
    EMPTY_SCHEMA,
    LARGEST_ATTRIBUTES,
    MOST_ATTRIBUTES,
    Kind,
    Schema,
    Value,
    check_name,
    check_value,
    kind_of,
    schema_of,
)
from stentor.model.errors import AttributeValueError
from stentor.wire import block
from stentor.wire.block import Block, Origin
from stentor.wire.frame import SOFT_FRAME
from stentor.wire.head import LARGEST_COUNT

_OVERHEAD = 64  # bytes of memory that an event costs beyond its values, roughly
_VALUE = 8  # bytes of a value in a frame, at most, beside its text
_MOST_SHAPES = 4096


class BatchBuilder:
    """One batch in the making. Attributes may differ from event to event; a change of an attribute's type may not."""

    __slots__ = ("_aligned", "_columns", "_content", "_kinds", "_last_shape", "bodies", "size", "time", "topic")

    def __init__(self, topic: str, time: int) -> None:
        self.topic = topic
        self.time = time
        self.bodies: list[bytes] = []
        self.size = 0  # bytes of memory, roughly
        self._content = 0  # bytes of bodies and texts
        self._kinds: dict[str, Kind] = {}
        self._columns: list[list[Value | None]] = []
        self._last_shape: Schema | None = None
        self._aligned = False  # whether an event of the last shape has a value for every column, in order

    def add(self, shape: Schema, attributes: Mapping[str, Value], body: bytes) -> bool:
        """Take one more event; return False if it does not fit and must open another batch."""
        count = len(self.bodies)
        content = len(body)
        if attributes and Kind.STRING in shape.kinds:
            content += text_size(tuple(attributes.values()))
        new = () if shape is self._last_shape else self._new(shape)
        if new is None:
            return False
        columns = len(self._kinds) + len(new)
        frame = self._content + content + (count + 1) * _VALUE * (columns + 1)
        if count and (frame > SOFT_FRAME or count == LARGEST_COUNT or columns > MOST_ATTRIBUTES):
            return False
        if shape is not self._last_shape:
            self._adopt(shape, new)
        if self._columns:
            values = attributes.values() if self._aligned else map(attributes.get, self._kinds)
            for column, value in zip(self._columns, values, strict=True):
                column.append(value)
        self.bodies.append(body)
        self._content += content
        self.size += content + _OVERHEAD + _VALUE * len(shape.names)
        return True

    def _new(self, shape: Schema) -> Sequence[tuple[str, Kind]] | None:
        """Return the attributes that have no column yet; None if one has a column of another type."""
        pairs = list(zip(shape.names, shape.kinds, strict=True))
        if any(self._kinds.get(name, kind) is not kind for name, kind in pairs):
            return None
        return [pair for pair in pairs if pair[0] not in self._kinds]

    def _adopt(self, shape: Schema, new: Sequence[tuple[str, Kind]]) -> None:
        for name, kind in new:
            self._kinds[name] = kind
            self._columns.append([None] * len(self.bodies))
        self._last_shape = shape
        self._aligned = tuple(self._kinds) == shape.names

    def fill(
        self, schema: Schema, columns: Sequence[Sequence[Value | None]], bodies: Sequence[bytes], texts: int = -1
    ) -> None:
        """Take many events into an empty batch; `texts` are the bytes of their texts, if they are known."""
        self._kinds = dict(zip(schema.names, schema.kinds, strict=True))
        self._columns = [list(column) for column in columns]
        self.bodies = list(bodies)
        self._content = sum(map(len, bodies)) + (texts if texts >= 0 else sum(map(text_size, columns)))
        self.size = self._content + len(bodies) * (_OVERHEAD + _VALUE * len(columns))

    @property
    def count(self) -> int:
        return len(self.bodies)

    @property
    def schema(self) -> Schema:
        return Schema(tuple(self._kinds), tuple(self._kinds.values()))

    def encode(self, origin: Origin) -> bytes:
        return block.encode(origin, self.schema, self._columns, self.bodies)


class NumberedBatch:
    """A batch that is a frame already: sent as it is, whatever numbers its topic has come to."""

    __slots__ = ("_block", "count", "schema", "size", "time", "topic")

    def __init__(self, topic: str, block: Block) -> None:
        self.topic = topic
        self._block = block
        self.count = block.count
        self.schema = block.schema
        self.time = block.time
        self.size = len(block.frame) + _OVERHEAD

    def encode(self, origin: Origin) -> bytes:  # noqa: ARG002
        return bytes(self._block.frame)


class Shapes:
    """Checks events and remembers the shapes of their attributes, so that the same shape is worked out once."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, ...], tuple[type, ...]], Schema] = {}

    def check(self, attributes: Mapping[str, Value]) -> Schema:
        if not attributes:
            return EMPTY_SCHEMA
        key = (tuple(attributes), tuple(map(type, attributes.values())))
        shape = self._known.get(key)
        if shape is None:
            shape = schema_of(attributes)
            if len(self._known) >= _MOST_SHAPES:
                self._known.clear()
            self._known[key] = shape
        else:
            for name, kind, value in zip(shape.names, shape.kinds, attributes.values(), strict=True):
                if kind is not Kind.BOOLEAN:
                    check_value(name, kind, value)
        if Kind.STRING in shape.kinds:
            check_texts(text_size(tuple(attributes.values())))
        return shape


def text_size(values: Sequence[Value | None]) -> int:
    """Return how many bytes the texts among these values may take."""
    return sum([len(value) if value.isascii() else 4 * len(value) for value in values if isinstance(value, str)])


def check_texts(size: int) -> None:
    """Refuse an event whose texts make it too large for a frame."""
    if size > LARGEST_ATTRIBUTES:
        raise AttributeValueError(
            f"the attributes have {size} bytes of text, an event carries {LARGEST_ATTRIBUTES}: put the rest in the body"
        )


def check_columns(
    count: int, columns: Mapping[str, Sequence[Value | None]]
) -> tuple[Schema, list[Sequence[Value | None]]]:
    """Return the schema of many events, checked, and their columns, without those that hold nothing but None."""
    kinds: dict[str, Kind] = {}
    kept: list[Sequence[Value | None]] = []
    if len(columns) > MOST_ATTRIBUTES:
        raise AttributeValueError(f"an event has at most {MOST_ATTRIBUTES} attributes")
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
            for value in _suspects(kind, there):
                check_value(name, kind, value)
            kept.append(column)
    return Schema(tuple(kinds), tuple(kinds.values())), kept


def _suspects(kind: Kind, values: list[Value]) -> list[Value]:
    """Return the values that are wrong if any is."""
    if kind is Kind.INTEGER:
        return [min(values), max(values)]
    if kind is Kind.DECIMAL:
        return [] if math.isfinite(sum(values)) else values  # type: ignore[arg-type]
    return values if kind is Kind.STRING else []


def cuts(schema: Schema, columns: Sequence[Sequence[Value | None]], bodies: Sequence[bytes]) -> list[int]:
    """Return where frames that stay near the soft limit end, for many events at once; the last is where all end."""
    content = list(map(len, bodies))
    for kind, column in zip(schema.kinds, columns, strict=True):
        if kind is Kind.STRING:
            content = [size + text_size((text,)) for size, text in zip(content, column, strict=True)]
    if max(content) > SOFT_FRAME:
        for size, body in zip(content, bodies, strict=True):
            check_texts(size - len(body))
    ends = []
    frame = start = 0
    value = _VALUE * len(schema.names) + _VALUE
    for index, size in enumerate(content):
        frame += size + value
        if (frame > SOFT_FRAME or index - start == LARGEST_COUNT) and index > start:
            ends.append(index)
            frame, start = size + value, index
    return [*ends, len(bodies)]
