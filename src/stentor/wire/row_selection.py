"""Row selection: the events of some blocks that a filter kept, put into new frames."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stentor.model.attribute import Kind, Schema
from stentor.model.column import Column
from stentor.model.errors import FrameError, Refusal
from stentor.wire.block import compose, pack_column
from stentor.wire.frame import SOFT_FRAME
from stentor.wire.head import HEADER_SIZE, LARGEST_COUNT, SPARSE, TIMES, UNIFORM, source_of
from stentor.wire.run_layout import Columns, Places, RunLayout, gather, repeats

_NUMBERS = 14  # bytes of an event's offset, time and body length


class _Group(NamedTuple):
    """What goes into one frame: rows `begin` to before `end`, which are of blocks `first` to before `last`."""

    first: int
    last: int
    begin: int
    end: int


class RowSelection:
    """The kept rows, each with its block and its place there; of the blocks, those of which something is kept."""

    __slots__ = (
        "_blocks",
        "_bodies",
        "_kept",
        "_layout",
        "_numbers",
        "_reach",
        "_rows",
        "_schema",
        "_size",
        "_sizes",
        "_texts",
        "_within",
    )

    def __init__(self, layout: RunLayout, schema: Schema, rows: NDArray[np.intp]) -> None:
        self._schema, self._rows = schema, rows
        blocks, self._within = layout.locate(rows)
        kept = np.bincount(blocks, minlength=len(layout))
        used = kept.nonzero()[0]
        if len(used) < len(layout):
            layout, kept = layout.part(used), kept[used]
            blocks = np.repeat(np.arange(len(used)), kept)
        self._layout = layout
        self._blocks = blocks
        self._kept = kept
        self._numbers = self._within  # catenation numbers above the first of the block
        self._reach = (layout.counts - 1).astype(np.uint64)  # the largest of them
        if layout.any_flags & SPARSE:
            self._read_numbers()
        self._texts: list[int] = [] if schema.width else layout.heads["columns"].tolist()  # at most so many bytes
        self._size = 0  # of every body, unless there are `_sizes`
        self._sizes: Places | None = None
        if not self._read_even_bodies():
            self._read_ragged_bodies()

    def _read_numbers(self) -> None:
        """Where an earlier filter left gaps."""
        layout = self._layout
        self._numbers, ends = self._within.copy(), self._kept.cumsum()
        for block in (layout.heads["flags"] & SPARSE).nonzero()[0]:
            numbers = np.frombuffer(layout.data, "<u2", layout.counts[block], layout.starts[block] + HEADER_SIZE)
            if np.count_nonzero(numbers[1:] <= numbers[:-1]):
                raise FrameError(Refusal.CORRUPT, "catenation numbers that do not grow")
            mine = slice(ends[block] - self._kept[block], ends[block])
            self._numbers[mine] = numbers[self._within[mine]]
            self._reach[block] = numbers[-1]

    def _read_even_bodies(self) -> bool:
        """Find the bodies if all are of one size."""
        layout = self._layout
        if not layout.all_flags & UNIFORM:
            return False
        begins = layout.bodies + 4
        _expect(begins <= layout.ends)
        sizes = gather(layout.data, 4, layout.bodies)
        if not repeats(sizes):
            return False
        self._size = size = int.from_bytes(sizes[:1].tobytes(), "little")
        _expect(begins + size * layout.counts == layout.ends)
        self._bodies = begins[self._blocks] + size * self._within
        return True

    def _read_ragged_bodies(self) -> None:
        layout, data, counts = self._layout, self._layout.data, self._layout.counts
        uniform = layout.heads["flags"] & UNIFORM != 0
        begins = layout.bodies + np.where(uniform, 4, 4 * counts)
        _expect(begins <= layout.ends)
        places = zip(layout.bodies.tolist(), counts.tolist(), uniform.tolist(), strict=True)
        tables = [bytes(data[at : at + 4]) * count if even else data[at : at + 4 * count] for at, count, even in places]
        sizes = np.frombuffer(b"".join(tables), "<u4")
        sums = np.zeros(len(sizes) + 1, np.int64)
        sizes.cumsum(out=sums[1:])
        ends = counts.cumsum()
        starts = ends - counts
        _expect(begins + sums[ends] - sums[starts] == layout.ends)
        rows = starts[self._blocks] + self._within
        self._bodies = (begins - sums[starts])[self._blocks] + sums[rows]
        self._sizes = sizes[rows].astype(np.int64)

    def frames(self, column: Columns) -> list[tuple[bytes | memoryview, int]]:
        """Frames near the soft limit, and how many events each holds. A block that is kept whole stays as it is."""
        return [(self._frame(group, column), group.end - group.begin) for group in self._groups()]

    # ---- which events stand in one frame

    def _groups(self) -> Iterable[_Group]:
        """Parts of neighbouring blocks of one publisher become one."""
        layout = self._layout
        heads, numbers = layout.heads, layout.heads["catenation"]
        weight = self._weigh(0, len(self._rows)) + sum(self._texts)
        if weight > SOFT_FRAME or not (repeats(heads["source"]) and repeats(heads["incarnation"])):
            return self._divide()
        gaps = numbers[1:] - numbers[:-1] - (self._reach[:-1] + 1)  # what goes backwards becomes very large
        edges = [0, *((gaps >= LARGEST_COUNT).nonzero()[0] + 1).tolist(), len(layout)]
        for first, last in pairwise(edges):
            if not 0 <= int(numbers[last - 1]) - int(numbers[first]) < LARGEST_COUNT - int(self._reach[last - 1]):
                return self._divide()
        rows = self._blocks.searchsorted(edges).tolist()
        return [_Group(*blocks, *bounds) for blocks, bounds in zip(pairwise(edges), pairwise(rows), strict=True)]

    def _divide(self) -> Iterator[_Group]:
        """The same, looking at block after block."""
        layout, data = self._layout, self._layout.data
        numbers, reach = layout.heads["catenation"].tolist(), self._reach.tolist()
        sources = [source_of(data, at) for at in layout.starts.tolist()]
        first = begin = size = 0
        previous = -1
        for block, start, weight in self._pieces():
            size += weight
            if start and not (
                size <= SOFT_FRAME
                and sources[previous] == sources[block]
                and numbers[previous] + reach[previous] < numbers[block]  # so pieces of one block never meet
                and numbers[block] + reach[block] - numbers[first] < LARGEST_COUNT
            ):
                yield _Group(first, previous + 1, begin, start)
                first, begin, size = block, start, weight
            previous = block
        yield _Group(first, previous + 1, begin, len(self._rows))

    def _pieces(self) -> Iterator[tuple[int, int, int]]:
        """Block, first row and weight of parts near the soft limit: what is kept of a block must not be larger than
        the block was.
        """
        begin = 0
        for block, kept in enumerate(self._kept.tolist()):
            end, texts = begin + kept, self._texts[block] if self._texts else 0
            weight = texts + self._weigh(begin, end)
            if weight < SOFT_FRAME or kept == self._layout.counts[block]:
                yield block, begin, weight
            else:
                step = max(1, kept // (1 + weight // SOFT_FRAME))
                for at in range(begin, end, step):
                    yield block, at, texts + self._weigh(at, min(at + step, end))
            begin = end

    def _weigh(self, begin: int, end: int) -> int:
        """At most so many bytes of rows."""
        bodies = self._size * (end - begin) if self._sizes is None else int(self._sizes[begin:end].sum())
        return bodies + (_NUMBERS + self._schema.width + len(self._schema.names)) * (end - begin)

    # ---- the bytes of a frame

    def _frame(self, group: _Group, column: Columns) -> bytes:
        first, last, begin, end = group
        layout, count = self._layout, end - begin
        if last - first == 1 and count == layout.counts[first]:
            return layout.frame(first)
        layout.verify(first, last)  # a new checksum must not vouch for bytes that were damaged before
        at, blocks, rows = int(layout.starts[first]), self._blocks[begin:end], self._rows[begin:end]
        numbers = layout.heads["catenation"]
        above = (numbers - numbers[first]).view(np.int64)[blocks] + self._numbers[begin:end]
        offsets = b"" if above[-1] == count - 1 else above.astype("<u2").tobytes()
        columns = [_pack(found, rows) for name in self._schema.names if (found := column(name)) is not None]
        times, packed = self._times(begin, end), self._pack_bodies(begin, end)
        return compose(layout.data, at, count, offsets, times, columns, *packed)

    def _times(self, begin: int, end: int) -> bytes:
        layout, blocks = self._layout, self._blocks[begin:end]
        times = layout.heads["time"][blocks]
        if layout.any_flags & TIMES:
            own = (layout.heads["flags"] & TIMES).astype(np.bool_)[blocks]
            places = (layout.columns - 8 * layout.counts)[blocks] + 8 * self._within[begin:end]
            times[own] = gather(layout.data, 8, places[own]).view("<i8")
        return times.tobytes()

    def _pack_bodies(self, begin: int, end: int) -> tuple[bytes, bytes]:
        """Sizes, or one if they are the same, and bodies."""
        data, places, size = self._layout.data, self._bodies[begin:end], self._size
        if self._sizes is not None:
            sizes = self._sizes[begin:end]
            size = int(sizes[0])
            if not repeats(sizes):
                bounds = zip(places.tolist(), (places + sizes).tolist(), strict=True)
                return sizes.astype("<u4").tobytes(), b"".join([data[start:stop] for start, stop in bounds])
        return size.to_bytes(4, "little"), gather(data, size, places).tobytes() if size else b""


def _pack(column: Column, rows: NDArray[np.intp]) -> bytes:
    if column.kind is Kind.STRING or column.valid is not None:
        return pack_column(column.take(rows))
    return b"\1" + column.values[rows].tobytes()


def _expect(filled: NDArray[np.bool_]) -> None:
    if np.count_nonzero(filled) < len(filled):
        raise FrameError(Refusal.CORRUPT, "bodies that do not fill their events frame")
