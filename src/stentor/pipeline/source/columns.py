"""Stored events as Arrow: the rows that Spark sees. Each page becomes rows at once, whatever frames it came in."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stentor.client.stored_reader import StoredPage
from stentor.model.attribute import Kind, Schema
from stentor.model.column import Column
from stentor.model.errors import InvalidInput
from stentor.storage.lake import types_of
from stentor.wire.block import Block
from stentor.wire.block_view import BlockView
from stentor.wire.head import HEADER_SIZE, SPARSE, TIMES, UNIFORM
from stentor.wire.run_layout import RunLayout, gather

Numbers = NDArray[np.int64]

_ATTRIBUTES = pa.map_(pa.string(), pa.string())
_TIME = pa.timestamp("us", tz="UTC")
BOOKKEEPING = (
    pa.field("topic", pa.string()),
    pa.field("publisher", pa.string()),
    pa.field("incarnation", pa.int64()),
    pa.field("catenation", pa.int64()),
    pa.field("repository", pa.string()),
    pa.field("sequence", pa.int64()),
    pa.field("time", _TIME),
    pa.field("body", pa.binary()),
)
ORIGIN = (pa.field("origin", pa.int64()), pa.field("types", pa.string()))  # the publisher's id, and attributes' types
TYPES = {
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
}
_NAMES = {pa.bool_(): "boolean", pa.int16(): "smallint", pa.int32(): "int", pa.int64(): "bigint"}
_NAMES |= {pa.float32(): "float", pa.float64(): "double", pa.string(): "string", pa.binary(): "binary"}
_NAMES |= {_TIME: "timestamp", _ATTRIBUTES: "map<string,string>"}


def parse_attributes(text: str) -> tuple[pa.Field, ...]:
    """Columns as in "carrier string, dep_delay double"; none is a map of all attributes."""
    fields = []
    taken = {field.name for field in (*BOOKKEEPING, *ORIGIN)}
    for part in text.split(","):
        name, _, kind = part.strip().partition(" ")
        if kind.strip().lower() not in TYPES:
            raise InvalidInput(f"{part.strip()!r} is no column: a name and one of {', '.join(TYPES)}")
        if name.lower() in taken:
            raise InvalidInput(f"a column {name!r} is there already")
        taken.add(name.lower())
        fields.append(pa.field(name, TYPES[kind.strip().lower()]))
    return tuple(fields)


def schema_of(attributes: Sequence[pa.Field], origin: bool = False) -> pa.Schema:
    """The columns of the rows, with these for attributes; and what else an archive needs to know."""
    more = ORIGIN if origin else ()
    return pa.schema([*BOOKKEEPING, *(attributes or [pa.field("attributes", _ATTRIBUTES)]), *more])


def ddl_of(schema: pa.Schema) -> str:
    return ", ".join(f"`{field.name}` {_NAMES[field.type]}" for field in schema)


def to_arrow(page: StoredPage, topic: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """A batch for each set of attributes that events of the page have."""
    groups: dict[Schema, list[int]] = {}
    for place, block in enumerate(page.blocks):
        groups.setdefault(block.schema, []).append(place)
    for places in groups.values():
        blocks, bases = [page.blocks[place] for place in places], [page.bases[place] for place in places]
        yield pa.RecordBatch.from_arrays(_arrays(blocks, bases, page, topic, schema), schema=schema)


def _arrays(blocks: list[Block], bases: list[int], page: StoredPage, topic: str, schema: pa.Schema) -> list[pa.Array]:
    view = BlockView(blocks)
    layout, count = view.layout, view.count
    owners = np.repeat(np.arange(len(blocks)), layout.counts)
    within = np.arange(count) - np.repeat(layout.counts.cumsum() - layout.counts, layout.counts)
    catenations = layout.heads["catenation"].astype(np.int64)[owners] + _offsets(layout, within)
    publishers = gather(layout.data, 8, layout.starts + 16).view("<u8")
    numbers, codes = np.unique(publishers, return_inverse=True)
    known = dict(page.publishers)
    names = pa.array([known.get(int(number), f"{int(number):016x}") for number in numbers])
    incarnations = np.array([block.incarnation for block in blocks], np.int64)
    arrays = [
        pa.repeat(pa.scalar(topic), count),
        names.take(pa.array(codes.ravel()[owners])),
        pa.array(incarnations[owners]),
        pa.array(catenations),
        pa.repeat(pa.scalar(page.repository), count),
        _sequences(catenations + np.array(bases, np.int64)[owners]),
        pa.array(_times(layout, owners) // 1000).cast(_TIME),
        _bodies(layout),
    ]
    for field in list(schema)[len(BOOKKEEPING) :]:
        if field.type == _ATTRIBUTES:
            arrays.append(_map(view))
        elif field == ORIGIN[0]:
            arrays.append(pa.array(publishers.view(np.int64)[owners]))
        elif field == ORIGIN[1]:
            arrays.append(pa.repeat(pa.scalar(types_of(view.schema)), count))
        else:
            arrays.append(_attribute(view, field))
    return arrays


def _sequences(numbers: Numbers) -> pa.Array:
    """Those that came from a lake have none."""
    return pa.array(numbers, mask=numbers <= 0)


def _offsets(layout: RunLayout, within: Numbers) -> Numbers:
    return _patched(layout, within, SPARSE, lambda block: (layout.starts[block] + HEADER_SIZE, "<u2"))


def _times(layout: RunLayout, owners: NDArray[np.intp]) -> Numbers:
    times = layout.heads["time"].astype(np.int64)[owners]
    return _patched(layout, times, TIMES, lambda block: (layout.columns[block] - 8 * layout.counts[block], "<i8"))


def _patched(layout: RunLayout, values: Numbers, flag: int, place: Callable[[int], tuple[int, str]]) -> Numbers:
    """The values of blocks that have some of their own are read."""
    if not layout.any_flags & flag:
        return values
    values = values.copy()
    ends = layout.counts.cumsum()
    for block in (layout.heads["flags"] & flag).nonzero()[0].tolist():
        at, kind = place(block)
        mine = slice(ends[block] - layout.counts[block], ends[block])
        values[mine] = np.frombuffer(layout.data, kind, layout.counts[block], int(at))
    return values


def _bodies(layout: RunLayout) -> pa.Array:
    """One buffer of all bodies, and where each ends."""
    uniform = (layout.heads["flags"] & UNIFORM).astype(np.bool_)
    begins = layout.bodies + np.where(uniform, 4, 4 * layout.counts)
    sizes = np.repeat(gather(layout.data, 4, layout.bodies).view("<u4").astype(np.int64), layout.counts)
    ends = layout.counts.cumsum()
    for block in np.flatnonzero(~uniform).tolist():
        mine = slice(ends[block] - layout.counts[block], ends[block])
        sizes[mine] = np.frombuffer(layout.data, "<u4", layout.counts[block], int(layout.bodies[block]))
    view = memoryview(layout.data)
    data = b"".join([view[start:end] for start, end in zip(begins.tolist(), layout.ends.tolist(), strict=True)])
    bounds = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=bounds[1:])
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(bounds), pa.py_buffer(data)])


def _array(column: Column) -> pa.Array:
    mask = None if column.valid is None else ~column.valid
    if column.kind is Kind.STRING:
        return pa.array(column.dictionary, pa.string()).take(pa.array(column.values.astype(np.int64), mask=mask))
    return pa.array(column.values, mask=mask)


def _attribute(view: BlockView, field: pa.Field) -> pa.Array:
    column = view.column(field.name)
    if column is None:
        return pa.nulls(view.count, field.type)
    try:
        return _array(column).cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        has = column.kind.name.lower()
        raise InvalidInput(
            f'option "attributes": {field.name} is {_NAMES[field.type]} there, and {has} in the events: {error}'
        ) from None


def _map(view: BlockView) -> pa.Array:
    """Names and values of each event, one after the other, and where each event's end."""
    names, count = view.schema.names, view.count
    columns = [column for name in names if (column := view.column(name)) is not None]
    if not columns:
        return pa.MapArray.from_arrays(
            np.zeros(count + 1, np.int32), pa.array([], pa.string()), pa.array([], pa.string())
        )
    texts = pa.concat_arrays([_array(column).cast(pa.string()) for column in columns])
    width = len(columns)
    order = np.arange(width * count).reshape(width, count).T.ravel()
    bounds = np.arange(count + 1, dtype=np.int32) * width
    keys = np.tile(np.arange(width), count)
    if texts.null_count:
        there = pc.is_valid(texts).to_numpy(zero_copy_only=False)[order]
        order, keys = order[there], keys[there]
        bounds[1:] = np.cumsum(there.reshape(count, width).sum(axis=1))
    return pa.MapArray.from_arrays(bounds, _labels(names).take(pa.array(keys)), texts.take(pa.array(order)))


@lru_cache(maxsize=256)
def _labels(names: tuple[str, ...]) -> pa.Array:
    return pa.array(names, pa.string())
