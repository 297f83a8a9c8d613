"""Rows as events: which columns of a DataFrame are what, and whether the fabric will take their values.

All that can be wrong with a row is found here, by the task that has it: once a batch is written down it must be
possible to publish it.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from stentor.model.attribute import LARGEST_ATTRIBUTES, LONGEST_STRING, MOST_ATTRIBUTES, check_name
from stentor.model.errors import AttributeValueError, BodyTooLarge, InvalidInput
from stentor.model.topic import check_topic

IGNORED = frozenset({"publisher", "incarnation", "catenation", "repository", "sequence", "time"})
_PIECE = 4 << 20  # bytes that are published at once, roughly
_KINDS: dict[type[DataType], str] = {
    BooleanType: "bool",
    ByteType: "int64",
    ShortType: "int64",
    IntegerType: "int64",
    LongType: "int64",
    FloatType: "double",
    DoubleType: "double",
    StringType: "string",
}


class RowLayout(msgspec.Struct, frozen=True):
    """Which column of a row is what; -1 is none."""

    body: int
    topic: int
    attributes: int  # a map of them
    typed: tuple[tuple[str, int, str], ...]  # name, place and Arrow's type of those with a column of their own


def layout_of(schema: StructType, topic: str) -> RowLayout:
    """How the rows of a DataFrame become events, on this topic or the one that they name."""
    places: dict[str, int] = {}
    for place, field in enumerate(schema.fields):
        if places.setdefault(field.name.lower(), place) != place:
            raise InvalidInput(f'column "{field.name}": there are two of that name')
    kinds = [field.dataType for field in schema.fields]
    if "body" not in places:
        raise InvalidInput('column "body": there is none; it is what an event says, as binary or string')
    body = places.pop("body")
    if not isinstance(kinds[body], BinaryType | StringType):
        raise InvalidInput(f'column "body": it is {kinds[body].simpleString()}, not binary or string')
    to = places.pop("topic", -1)
    if not topic and to < 0:
        raise InvalidInput('option "topic": say on which topic to publish, or have a column "topic"')
    if not topic and not isinstance(kinds[to], StringType):
        raise InvalidInput(f'column "topic": it is {kinds[to].simpleString()}, not string')
    attributes = places.pop("attributes", -1)
    if attributes >= 0:
        kind = kinds[attributes]
        texts = isinstance(kind, MapType) and all(
            isinstance(each, StringType) for each in (kind.keyType, kind.valueType)
        )
        if not texts:
            raise InvalidInput(f'column "attributes": it is {kind.simpleString()}, not map<string,string>')
    typed = [place for name, place in places.items() if name not in IGNORED]
    if len(typed) > MOST_ATTRIBUTES:
        raise InvalidInput(f"there are {len(typed)} columns for attributes, an event has at most {MOST_ATTRIBUTES}")
    found = tuple(_typed(schema.fields[place].name, place, kinds[place]) for place in typed)
    return RowLayout(body, -1 if topic else to, attributes, found)


def _typed(name: str, place: int, kind: DataType) -> tuple[str, int, str]:
    try:
        check_name(name)
    except AttributeValueError as error:
        raise InvalidInput(f'column "{name}": {error}') from None
    if type(kind) not in _KINDS and not isinstance(kind, StringType):
        raise InvalidInput(
            f'column "{name}": {kind.simpleString()} cannot be an attribute: cast it to boolean, bigint, double or '
            "string, or leave it out"
        )
    return name, place, _KINDS.get(type(kind), "string")


def events_of(
    batch: pa.RecordBatch, layout: RowLayout, topic: str, largest: int
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows as they are staged: bodies, then attributes by name; for each topic."""
    if not batch.num_rows:
        return
    if layout.topic < 0:
        for piece in _pieces(batch, layout):
            yield from ((topic, each) for each in _events(piece, layout, largest))
        return
    topics = batch.column(layout.topic)
    if topics.null_count:
        raise InvalidInput('column "topic": it is null in some row')
    for each in pc.unique(topics).to_pylist():
        try:
            check_topic(each)
        except InvalidInput as error:
            raise InvalidInput(f'column "topic": {error}') from None
        for piece in _pieces(batch.filter(pc.equal(topics, each)), layout):
            yield from ((each, part) for part in _events(piece, layout, largest))


def _pieces(batch: pa.RecordBatch, layout: RowLayout) -> Iterator[pa.RecordBatch]:
    """Of a size that is bearable for whoever publishes it."""
    size = max(batch.column(layout.body).nbytes, 1)
    rows = max(batch.num_rows * _PIECE // size, 1)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _events(batch: pa.RecordBatch, layout: RowLayout, largest: int) -> Iterator[pa.RecordBatch]:
    bodies = batch.column(layout.body)
    if bodies.null_count:
        raise InvalidInput('column "body": it is null in some row; coalesce(body, …) says what it is then')
    bodies = bodies.cast(pa.binary())
    longest = pc.max(pc.binary_length(bodies)).as_py()
    if largest and longest > largest:
        raise BodyTooLarge(f'column "body": one has {longest} bytes, the broker takes {largest}')
    names = [name for name, _, _ in layout.typed]
    columns = [batch.column(place).cast(kind) for _, place, kind in layout.typed]
    if layout.attributes >= 0:
        more = _flattened(batch.column(layout.attributes), set(names))
        if len(names) + len(more) > MOST_ATTRIBUTES:
            if batch.num_rows == 1:
                raise InvalidInput(f'column "attributes": an event has at most {MOST_ATTRIBUTES} attributes')
            half = batch.num_rows // 2
            yield from _events(batch.slice(0, half), layout, largest)
            yield from _events(batch.slice(half), layout, largest)
            return
        names += more
        columns += more.values()
    for name, column in zip(names, columns, strict=True):
        _check(name, column)
    _check_texts(columns)
    yield pa.RecordBatch.from_arrays([bodies, *columns], names=["body", *names])


def _check(name: str, column: pa.Array) -> None:
    if pa.types.is_floating(column.type) and pc.all(pc.is_finite(column)).as_py() is False:
        raise InvalidInput(f'column "{name}": a number is infinite or NaN, which filters cannot compare; use null')
    if pa.types.is_string(column.type) and (pc.max(pc.utf8_length(column)).as_py() or 0) > LONGEST_STRING:
        raise InvalidInput(f'column "{name}": a string has at most {LONGEST_STRING} characters')


def _check_texts(columns: list[pa.Array]) -> None:
    """All texts of an event together fit into a frame."""
    sizes = [_text_sizes(column) for column in columns if pa.types.is_string(column.type)]
    if sizes and int(np.sum(sizes, axis=0).max()) > LARGEST_ATTRIBUTES:
        raise InvalidInput(f"the attributes of an event have at most {LARGEST_ATTRIBUTES} bytes of text")


def _text_sizes(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    length = pc.utf8_length(column)
    sizes = pc.if_else(pc.string_is_ascii(column), length, pc.multiply(length, 4))
    return np.asarray(pc.fill_null(sizes, 0).to_numpy(zero_copy_only=False), np.int64)


def _flattened(column: pa.MapArray, taken: set[str]) -> dict[str, pa.Array]:
    """A map as columns, in the order in which names first come."""
    offsets = column.offsets.to_numpy()
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    rows = np.repeat(np.arange(len(column)), np.diff(offsets))
    keys = column.keys.slice(first, count).cast(pa.string()).dictionary_encode()
    items = column.items.slice(first, count).cast(pa.string())
    there = column.is_valid().to_numpy(zero_copy_only=False)[rows]
    codes = keys.indices.to_numpy(zero_copy_only=False)
    found: dict[str, pa.Array] = {}
    for code, name in enumerate(keys.dictionary.to_pylist()):
        try:
            check_name(name)
        except AttributeValueError as error:
            raise InvalidInput(f'column "attributes": {error}') from None
        if name in taken:
            raise InvalidInput(f'column "attributes": {name!r} has a column of its own')
        mine = np.flatnonzero((codes == code) & there)
        places = np.full(len(column), -1, np.int64)
        places[rows[mine]] = mine
        found[name] = items.take(pa.array(places, mask=places < 0))
    return found
