"""Sheaves: blocks of one run and schema, looked at as one batch: so a filter costs per run, not per frame."""

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Self

import numpy as np
from numpy.typing import NDArray

from stentor.model.attribute import WIDTHS, Kind, Schema, Value
from stentor.model.column import Column
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import SchemaId
from stentor.wire.block import Block
from stentor.wire.frame import LENGTH, SOFT_FRAME
from stentor.wire.harvest import Harvest
from stentor.wire.layout import Heads, Layout, gather, lay_out, repeats

_MOST_EVENTS = 1 << 17  # in a sheaf: frames of empty events claim many for few bytes
_EMPTY: dict[Kind, Value] = {Kind.BOOLEAN: False, Kind.INTEGER: 0, Kind.DECIMAL: 0.0, Kind.STRING: ""}
_DTYPE = {Kind.BOOLEAN: np.bool_, Kind.INTEGER: np.int64, Kind.DECIMAL: np.float64}


class Sheaf:
    """One or more blocks of one schema, in order."""

    __slots__ = ("_blocks", "_columns", "_layout", "_rows", "count", "schema")

    def __init__(self, blocks: list[Block]) -> None:
        self._blocks: list[Block] | None = blocks
        self._layout: Layout | None = None
        self._bind(blocks[0].schema, sum([block.count for block in blocks]))

    @classmethod
    def over(cls, layout: Layout, schema: Schema) -> Self:
        """A sheaf whose blocks are made when somebody asks for them."""
        sheaf = cls.__new__(cls)
        sheaf._blocks, sheaf._layout = None, layout
        sheaf._bind(schema, layout.total)
        return sheaf

    def _bind(self, schema: Schema, count: int) -> None:
        self.schema, self.count = schema, count
        self._columns: dict[str, Column | None] = {}
        self._rows: list[dict[str, Value]] | None = None

    @property
    def blocks(self) -> list[Block]:
        if self._blocks is None:
            assert self._layout is not None
            view = memoryview(self._layout.data)
            places = zip(self._layout.starts.tolist(), self._layout.ends.tolist(), strict=True)
            self._blocks = [Block(view[start:end], self.schema) for start, end in places]
        return self._blocks

    @property
    def layout(self) -> Layout:
        if self._layout is None:
            frames = [block.frame for block in self.blocks]
            starts = [0, *accumulate(map(len, frames[:-1]))]
            self._layout = Layout.of_frames(frames[0] if len(frames) == 1 else b"".join(frames), starts)
        return self._layout

    def column(self, name: str) -> Column | None:
        """One attribute of every event of all blocks; None if the schema has no such attribute."""
        if name not in self._columns:
            self._columns[name] = self._join(name)
        return self._columns[name]

    def rows(self) -> list[dict[str, Value]]:
        """The attributes of every event."""
        if self._rows is None:
            self._rows = [row for block in self.blocks for row in block.rows()]
        return self._rows

    def pick(self, keep: NDArray[np.bool_] | NDArray[np.intp]) -> list[tuple[bytes | memoryview, int]]:
        """Frames with just the events that are kept, and how many each holds; `keep` is a mask, or rows that grow.
        A block that is kept whole stays as it is; parts of neighbouring blocks of one publisher become one.
        """
        rows: NDArray[np.intp] = keep.nonzero()[0] if keep.dtype.kind == "b" else keep  # type: ignore[assignment]
        if not len(rows):
            return []
        if len(rows) == self.count:
            return [(bytes(block.frame), block.count) for block in self.blocks]
        if self._blocks is not None and len(self._blocks) == 1 and len(self._blocks[0].frame) <= SOFT_FRAME:
            return [(self._blocks[0].excerpt(rows), len(rows))]
        return Harvest(self.layout, self.schema, rows).frames(self.column)

    def _join(self, name: str) -> Column | None:
        if self._blocks is not None and len(self._blocks) == 1:
            return self._blocks[0].column(name)
        if name not in self.schema.names:
            return None
        return self._join_plain(name) if self.layout.is_plain(self.schema) else self._join_any(name)

    def _join_plain(self, name: str) -> Column:
        """Nothing missing and no strings: the bytes of the columns, one after the other, are the column."""
        schema, layout, data = self.schema, self.layout, self.layout.data
        position = schema.names.index(name)
        kind = schema.kinds[position]
        width, dtype = WIDTHS[kind], _DTYPE[kind]
        before = sum([WIDTHS[each] for each in schema.kinds[:position]])
        places = layout.columns + (position + 1 + before * layout.counts)
        if isinstance(layout.counts, int):
            return Column(kind, gather(data, width * layout.counts, places).view(dtype), None)
        pieces = zip(places.tolist(), (places + width * layout.counts).tolist(), strict=True)
        return Column(kind, np.frombuffer(b"".join([data[start:end] for start, end in pieces]), dtype), None)

    def _join_any(self, name: str) -> Column:
        blocks = self.blocks
        if self.count == len(blocks):
            return self._from_rows(name)
        columns = [column for block in blocks if (column := block.column(name)) is not None]
        valid = None
        if any(column.valid is not None for column in columns):
            valid = np.concatenate([
                np.ones(len(column.values), np.bool_) if column.valid is None else column.valid for column in columns
            ])  # fmt: skip
        if columns[0].kind is not Kind.STRING:
            return Column(columns[0].kind, np.concatenate([column.values for column in columns]), valid)
        bases = accumulate([len(column.dictionary) for column in columns], initial=0)
        codes = [column.values.astype(np.uint32) + base for column, base in zip(columns, bases, strict=False)]
        texts = tuple(text for column in columns for text in column.dictionary)
        return Column(Kind.STRING, np.concatenate(codes), valid, texts)

    def _from_rows(self, name: str) -> Column:
        """Lone events: plain values first, one array at the end."""
        schema = self.blocks[0].schema
        kind = schema.kinds[schema.names.index(name)]
        values = [row.get(name) for row in self.rows()]
        valid = None
        if None in values:
            valid = np.array([value is not None for value in values])
            values = [_EMPTY[kind] if value is None else value for value in values]
        if kind is not Kind.STRING:
            return Column(kind, np.array(values, _DTYPE[kind]), valid)
        codes: dict[str, int] = {}
        numbers = [codes.setdefault(value, len(codes)) for value in values]  # type: ignore[arg-type]
        return Column(Kind.STRING, np.array(numbers, np.uint32), valid, tuple(codes))


def sheaves(data: bytes, start: int, end: int, schemas: Mapping[SchemaId, Schema]) -> Iterator[Sheaf]:
    """The frames of a run, bound together as long as their schema stays the same."""
    if start < end and end - start == LENGTH.unpack_from(data, start)[0]:
        number = int.from_bytes(data[start + 24 : start + 32], "little")
        yield Sheaf([Block(memoryview(data)[start:end], _known(schemas, number))])
    elif start < end:
        starts, heads, alike = lay_out(data, start, end)
        first = 0
        for last in _bounds(heads, alike):
            schema = _known(schemas, int(heads["schema"][first]))
            yield Sheaf.over(Layout(data, starts[first:last], heads[first:last], alike), schema)
            first = last


def _known(schemas: Mapping[SchemaId, Schema], number: int) -> Schema:
    schema = schemas.get(SchemaId(number))
    if schema is None:
        raise FrameError(Refusal.SCHEMA, "events of a schema that was not defined before")
    return schema


def _bounds(heads: Heads, alike: bool) -> Iterator[int]:
    """Where sheaves end: before another schema, and before they hold too much."""
    counts, schemas = heads["count"].tolist(), heads["schema"]
    if (alike or repeats(schemas)) and sum(counts) <= _MOST_EVENTS:
        yield len(counts)
        return
    numbers, size = schemas.tolist(), 0
    for block, count in enumerate(counts):
        if block and (size > _MOST_EVENTS or numbers[block] != numbers[block - 1]):
            yield block
            size = 0
        size += count
    yield len(counts)
