"""Sheaves: blocks of one run and schema, looked at as one batch: so a filter costs per run, not per frame."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from stentor.model.attribute import Kind, Schema, Value
from stentor.model.column import Column
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import SchemaId
from stentor.wire.block import Block
from stentor.wire.frame import LENGTH

_EMPTY: dict[Kind, Value] = {Kind.BOOLEAN: False, Kind.INTEGER: 0, Kind.DECIMAL: 0.0, Kind.STRING: ""}
_DTYPE = {Kind.BOOLEAN: np.bool_, Kind.INTEGER: np.int64, Kind.DECIMAL: np.float64}


class Sheaf:
    """One or more blocks of one schema, in order."""

    __slots__ = ("_columns", "_rows", "blocks", "count")

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks
        self.count = sum([block.count for block in blocks])
        self._columns: dict[str, Column | None] = {}
        self._rows: list[dict[str, Value]] | None = None

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

    def pick(self, keep: NDArray[np.bool_]) -> Iterator[tuple[bytes | memoryview, int]]:
        """Frames with just the events that are kept, and how many each holds; untouched where a block is kept whole."""
        indices = keep.nonzero()[0].tolist()
        start = found = 0
        for block in self.blocks:
            end = start + block.count
            last = bisect_left(indices, end, found)
            if last > found:
                yield block.pick([index - start for index in indices[found:last]]), last - found
            start, found = end, last

    def _join(self, name: str) -> Column | None:
        blocks = self.blocks
        if len(blocks) == 1:
            return blocks[0].column(name)
        if name not in blocks[0].schema.names:
            return None
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
    blocks: list[Block] = []
    bound = -1
    while start < end:
        (length,) = LENGTH.unpack_from(data, start)
        number = SchemaId(int.from_bytes(data[start + 24 : start + 32], "little"))
        if number != bound and blocks:
            yield Sheaf(blocks)
            blocks = []
        bound = number
        schema = schemas.get(number)
        if schema is None:
            raise FrameError(Refusal.SCHEMA, "events of a schema that was not defined before")
        blocks.append(Block(data[start : start + length], schema))
        start += length
    if blocks:
        yield Sheaf(blocks)
