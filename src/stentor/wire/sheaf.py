"""Sheaves: blocks of one run and schema, looked at as one batch: so a filter costs per run, not per frame."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from stentor.model.attribute import WIDTHS, Kind, Schema, Value
from stentor.model.column import Column
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import SchemaId
from stentor.wire.block import LARGEST_COUNT, TIMES, UNIFORM, Block, assemble, pack_column
from stentor.wire.frame import LENGTH, SOFT_FRAME

_NUMBERS = 14  # bytes of an event's offset, time and body length
_MOST_EVENTS = 1 << 17  # in a sheaf: frames of empty events claim many for few bytes
_EMPTY: dict[Kind, Value] = {Kind.BOOLEAN: False, Kind.INTEGER: 0, Kind.DECIMAL: 0.0, Kind.STRING: ""}
_DTYPE = {Kind.BOOLEAN: np.bool_, Kind.INTEGER: np.int64, Kind.DECIMAL: np.float64}


class _Part:
    """What is kept of one block: rows `begin` to `end` of all that are kept; `start` is the block's first row."""

    __slots__ = ("begin", "block", "end", "start")

    def __init__(self, block: Block, start: int, begin: int, end: int) -> None:
        self.block, self.start, self.begin, self.end = block, start, begin, end

    def weigh(self, indices: list[int]) -> int:
        """At most so many bytes in a frame."""
        block = self.block
        if block.flags & UNIFORM:
            bodies = (len(block.frame) - block.columns_length) * (self.end - self.begin) // block.count
        else:
            bounds = block.bounds()
            rows = [index - self.start for index in indices[self.begin : self.end]]
            bodies = sum([bounds[row + 1] - bounds[row] for row in rows])
        return bodies + block.columns_length + _NUMBERS * (self.end - self.begin)

    def divide(self, indices: list[int]) -> "list[_Part]":
        """Parts that stay near the soft limit: what is picked of a block must not be larger than the block was."""
        kept, pieces = self.end - self.begin, 1 + self.weigh(indices) // SOFT_FRAME
        if pieces == 1 or kept in (1, self.block.count):
            return [self]
        step = max(1, kept // pieces)
        return [
            _Part(self.block, self.start, begin, min(begin + step, self.end))
            for begin in range(self.begin, self.end, step)
        ]

    def follows(self, other: "_Part", first: "_Part") -> bool:
        """Whether it can stand in one block with another part and what is before that."""
        mine, theirs = self.block, other.block
        return (
            mine.frame[8:24] == theirs.frame[8:24]  # topic and publisher
            and mine.incarnation == theirs.incarnation
            and theirs.last() < mine.catenation
            and mine.last() - first.block.catenation < LARGEST_COUNT
        )

    def copy(
        self,
        indices: list[int],
        base: int,
        offsets: list[int],
        times: list[int],
        bodies: list[bytes | memoryview],
    ) -> None:
        """Add its events; verified first, since a new checksum must not vouch for bytes that were damaged before."""
        block, start = self.block, self.start
        block.verify()
        rows = [index - start for index in indices[self.begin : self.end]]
        bodies += block.take_bodies(rows)
        base = block.catenation - base
        numbers = block.offsets()
        offsets += [base + numbers[row] for row in rows]
        if block.flags & TIMES:
            moments = block.times()
            times += [moments[row] for row in rows]
        else:
            times += [block.time] * len(rows)


class Sheaf:
    """One or more blocks of one schema, in order."""

    __slots__ = ("_columns", "_plain", "_rows", "blocks", "count")

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks
        self.count = sum([block.count for block in blocks])
        self._columns: dict[str, Column | None] = {}
        self._rows: list[dict[str, Value]] | None = None
        self._plain: list[int] | None = None  # where each block's columns begin, if they can be joined as bytes

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

    def pick(self, keep: NDArray[np.bool_]) -> list[tuple[bytes | memoryview, int]]:
        """Frames with just the events that are kept, and how many each holds. A block that is kept whole stays as it
        is; parts of neighbouring blocks of one publisher become one.
        """
        if keep.all():
            return [(bytes(block.frame), block.count) for block in self.blocks]
        rows = keep.nonzero()[0]
        indices = rows.tolist()
        picked: list[tuple[bytes | memoryview, int]] = []
        group: list[_Part] = []
        start = found = size = 0
        for block in self.blocks:
            end, last = start + block.count, bisect_left(indices, start + block.count, found)
            for part in _Part(block, start, found, last).divide(indices) if last > found else ():
                weight = part.weigh(indices)
                size += weight
                if group and (size > SOFT_FRAME or not part.follows(group[-1], group[0])):
                    picked.append(self._gather(group, rows, indices))
                    group, size = [], weight
                group.append(part)
            start, found = end, last
        if group:
            picked.append(self._gather(group, rows, indices))
        return picked

    def _gather(
        self, group: "list[_Part]", rows: NDArray[np.intp], indices: list[int]
    ) -> tuple[bytes | memoryview, int]:
        first, count = group[0], group[-1].end - group[0].begin
        if len(group) == 1 and count == first.block.count:
            return bytes(first.block.frame), count
        offsets: list[int] = []
        times: list[int] = []
        bodies: list[bytes | memoryview] = []
        for part in group:
            part.copy(indices, first.block.catenation, offsets, times, bodies)
        chosen = rows[first.begin : first.begin + count]
        columns = [
            pack_column(column.take(chosen))
            for name in first.block.schema.names
            if (column := self.column(name)) is not None
        ]
        if times.count(first.block.time) == count:
            times = []
        return assemble(first.block.origin, first.block.schema, columns, bodies, offsets, times), count

    def _join(self, name: str) -> Column | None:
        blocks = self.blocks
        if len(blocks) == 1:
            return blocks[0].column(name)
        if name not in blocks[0].schema.names:
            return None
        if self._plain is None:
            self._plain = [block.plain_columns() for block in blocks]
        if all(self._plain):
            return self._join_plain(name, self._plain)
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

    def _join_plain(self, name: str, places: list[int]) -> Column:
        """Nothing missing and no strings: the bytes of the columns, one after the other, are the column."""
        schema = self.blocks[0].schema
        position = schema.names.index(name)
        kind = schema.kinds[position]
        before, width = sum(WIDTHS[each] for each in schema.kinds[:position]), WIDTHS[kind]
        pieces = []
        for block, place in zip(self.blocks, places, strict=True):
            at = place + position + 1 + before * block.count
            pieces.append(block.frame[at : at + width * block.count])
        return Column(kind, np.frombuffer(b"".join(pieces), _DTYPE[kind]), None)

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
    bound, count = -1, 0
    view = memoryview(data)
    while start < end:
        (length,) = LENGTH.unpack_from(data, start)
        number = SchemaId(int.from_bytes(data[start + 24 : start + 32], "little"))
        if blocks and (number != bound or count > _MOST_EVENTS):
            yield Sheaf(blocks)
            blocks, count = [], 0
        bound = number
        schema = schemas.get(number)
        if schema is None:
            raise FrameError(Refusal.SCHEMA, "events of a schema that was not defined before")
        blocks.append(Block(view[start : start + length], schema))
        count += blocks[-1].count
        start += length
    if blocks:
        yield Sheaf(blocks)
