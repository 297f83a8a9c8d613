"""Block view: blocks of one run and schema, looked at as one batch: so a filter costs per run, not per frame."""

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Self

import numpy as np
from numpy.typing import NDArray

from stentor.model.attribute import WIDTHS, Kind, Schema, Value
from stentor.model.batch import DTYPES, make_column
from stentor.model.column import Column
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import SchemaId
from stentor.wire.block import Block
from stentor.wire.frame import SOFT_FRAME
from stentor.wire.head import LENGTH_SCHEMA_AND_COUNT
from stentor.wire.row_selection import RowSelection
from stentor.wire.run_layout import RunLayout
from stentor.wire.uniform_run import UniformRun, find_uniform_run

_MOST_EVENTS = 1 << 17  # in a view: frames of empty events claim many for few bytes


class BlockView:
    """One or more blocks of one schema, in order."""

    __slots__ = ("_blocks", "_columns", "_layout", "_rows", "_uniform_run", "count", "schema")

    def __init__(self, blocks: list[Block]) -> None:
        self._blocks: list[Block] | None = blocks
        self._uniform_run: UniformRun | None = None
        self._layout: RunLayout | None = None
        self._bind(blocks[0].schema, sum([block.count for block in blocks]))

    @classmethod
    def over(cls, run: UniformRun | RunLayout, schema: Schema) -> Self:
        """Return a view whose blocks are made when somebody asks for them."""
        block_view = cls.__new__(cls)
        block_view._blocks = None
        block_view._uniform_run, block_view._layout = (run, None) if isinstance(run, UniformRun) else (None, run)
        block_view._bind(schema, run.count)
        return block_view

    def _bind(self, schema: Schema, count: int) -> None:
        self.schema, self.count = schema, count
        self._columns: dict[str, Column | None] = {}
        self._rows: list[dict[str, Value]] | None = None

    @property
    def blocks(self) -> list[Block]:
        if self._blocks is None:
            run = self._uniform_run or self._layout
            assert run is not None
            view = memoryview(run.data)
            self._blocks = [Block(view[start:end], self.schema) for start, end in run.bounds()]
        return self._blocks

    @property
    def layout(self) -> RunLayout:
        if self._layout is None:
            if self._uniform_run is not None:
                data: bytes | memoryview = self._uniform_run.data
                starts = [start for start, _ in self._uniform_run.bounds()]
            else:
                frames = [block.frame for block in self.blocks]
                data = frames[0] if len(frames) == 1 else b"".join(frames)
                starts = [0, *accumulate(map(len, frames[:-1]))]
            self._layout = RunLayout(data, np.array(starts))
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
        if self._uniform_run is not None and (frames := self._uniform_run.pick(rows, self.column)) is not None:
            return frames
        if self._is_lone() and len(self.blocks[0].frame) <= SOFT_FRAME:
            return [(self.blocks[0].excerpt(rows), len(rows))]
        return RowSelection(self.layout, self.schema, rows).frames(self.column)

    def _is_lone(self) -> bool:
        return self._blocks is not None and len(self._blocks) == 1

    def _join(self, name: str) -> Column | None:
        if self._is_lone():
            return self.blocks[0].column(name)
        if name not in self.schema.names:
            return None
        if self._uniform_run is not None:
            position = self.schema.names.index(name)
            kind = self.schema.kinds[position]
            return Column(kind, self._uniform_run.column(position, DTYPES[kind]), None)
        return self._join_plain(name) if self.layout.is_plain(self.schema) else self._join_any(name)

    def _join_plain(self, name: str) -> Column:
        """Nothing missing and no strings: the bytes of the columns, one after the other, are the column."""
        schema, layout, data = self.schema, self.layout, self.layout.data
        position = schema.names.index(name)
        kind = schema.kinds[position]
        before, width = sum([WIDTHS[each] for each in schema.kinds[:position]]), WIDTHS[kind]
        starts = layout.columns + before * layout.counts + (position + 1)
        places = zip(starts.tolist(), (starts + width * layout.counts).tolist(), strict=True)
        return Column(kind, np.frombuffer(b"".join([data[start:end] for start, end in places]), DTYPES[kind]), None)

    def _join_any(self, name: str) -> Column:
        blocks = self.blocks
        if self.count == len(blocks):  # lone events: plain values first, one array at the end
            kind = self.schema.kinds[self.schema.names.index(name)]
            return make_column(kind, [row.get(name) for row in self.rows()])
        columns = [column for block in blocks if (column := block.column(name)) is not None]
        valid = None
        if any(column.valid is not None for column in columns):
            valid = np.concatenate(
                [np.ones(len(column.values), np.bool_) if column.valid is None else column.valid for column in columns]
            )
        if columns[0].kind is not Kind.STRING:
            return Column(columns[0].kind, np.concatenate([column.values for column in columns]), valid)
        bases = accumulate([len(column.dictionary) for column in columns], initial=0)
        codes = [column.values.astype(np.uint32) + base for column, base in zip(columns, bases, strict=False)]
        texts = tuple(text for column in columns for text in column.dictionary)
        return Column(Kind.STRING, np.concatenate(codes), valid, texts)


def block_views(data: bytes, start: int, end: int, schemas: Mapping[SchemaId, Schema]) -> Iterator[BlockView]:
    """The frames of a run, bound together as long as their schema stays the same."""
    if start == end:
        return
    length, number, _ = LENGTH_SCHEMA_AND_COUNT.unpack_from(data, start)
    schema = _known(schemas, number)
    if length == end - start:
        yield BlockView([Block(memoryview(data)[start:end], schema)])
    elif (stretch := find_uniform_run(data, start, end, schema)) is not None:
        yield BlockView.over(stretch, schema)
    else:
        yield from _bind(data, start, end, schemas)


def _known(schemas: Mapping[SchemaId, Schema], number: int) -> Schema:
    schema = schemas.get(SchemaId(number))
    if schema is None:
        raise FrameError(Refusal.SCHEMA, "events of a schema that was not defined before")
    return schema


def _bind(data: bytes, start: int, end: int, schemas: Mapping[SchemaId, Schema]) -> Iterator[BlockView]:
    unpack = LENGTH_SCHEMA_AND_COUNT.unpack_from
    starts: list[int] = []
    bound = count = 0
    while start < end:
        length, number, events = unpack(data, start)
        if starts and (number != bound or count > _MOST_EVENTS):
            yield BlockView.over(RunLayout(data, np.array(starts)), _known(schemas, bound))
            starts, count = [], 0
        bound = number
        starts.append(start)
        count += events
        start += length
    yield BlockView.over(RunLayout(data, np.array(starts)), _known(schemas, bound))
