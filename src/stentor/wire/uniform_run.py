"""Uniform run: blocks in a row that are laid out alike, so that everything in them is found by multiplication.

A publisher that fills its batches sends little else. Whatever is different goes the general way, by its layout.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from stentor.model.attribute import WIDTHS, Schema
from stentor.model.errors import FrameError, Refusal
from stentor.wire.block import compose
from stentor.wire.frame import SOFT_FRAME
from stentor.wire.head import HEAD, HEADER, HEADER_SIZE, LARGEST_COUNT, UNIFORM, sealed_flow
from stentor.wire.run_layout import Buffer, Columns, octets, repeats

_OWN = 10  # bytes of an event's offset and time


class UniformRun:
    """Blocks of one publisher, with as many events each, no strings, nothing missing and bodies of one size."""

    __slots__ = ("_each", "_heads", "_intact", "_length", "_schema", "_seals", "_size", "_start", "count", "data")

    def __init__(self, data: bytes, start: int, end: int, schema: Schema, each: int, size: int, length: int) -> None:
        """`length` of a block, with events of that `size` each."""
        self.data = data
        self._start = start
        self._length = length
        self._each = each
        self._size = size
        self._heads = np.ndarray(((end - start) // length,), HEAD, data, start, (length,))
        self.count = len(self._heads) * each
        self._schema = schema
        self._intact: set[int] = set()  # blocks that were verified
        self._seals: tuple[bytes, list[int]] | None = None  # of all blocks: what their headers add, and checksums

    def is_one(self) -> bool:
        """Whether the blocks are indeed alike."""
        heads, sizes = self._heads, self._view(self._length - self._size * self._each - 4, 4)
        return repeats(heads["shared"]) and repeats(heads["columns"]) and repeats(sizes)

    def bounds(self) -> list[tuple[int, int]]:
        """Where each block begins and ends."""
        starts = range(self._start, self._start + len(self._heads) * self._length, self._length)
        return [(start, start + self._length) for start in starts]

    def column(self, position: int, dtype: type[np.generic]) -> NDArray[np.generic]:
        """The values of one attribute."""
        kinds, each = self._schema.kinds, self._each
        before = sum([WIDTHS[kind] for kind in kinds[:position]])
        return self._view(HEADER_SIZE + position + 1 + before * each, WIDTHS[kinds[position]] * each).copy().view(dtype)

    def pick(self, rows: NDArray[np.intp], columns: Columns) -> list[tuple[Buffer, int]] | None:
        """Frames of just these events, one for each sequence of numbers; None if that might get too large."""
        size, each, heads, schema = self._size, self._each, self._heads, self._schema
        if len(rows) * (_OWN + schema.width + size) > SOFT_FRAME:
            return None
        values = [found.values for name in schema.names if (found := columns(name)) is not None]
        places = np.divmod(rows, each)
        blocks = places[0]
        bodies = self._bodies()[places] if size else blocks[:0]
        frames: list[tuple[Buffer, int]] = []
        for begin, end in self._parts(rows):
            first, count = int(blocks[begin]), end - begin
            at = self._start + first * self._length
            if count == each and blocks[end - 1] == first:
                frames.append((self.data[at : at + self._length], count))
                continue
            self._verify(np.bincount(blocks[begin:end]).nonzero()[0].tolist())
            mine = rows[begin:end]
            offsets = mine - first * each
            frame = compose(
                self.data,
                at,
                count,
                b"" if offsets[-1] == count - 1 else offsets.astype("<u2").tobytes(),
                heads["time"][blocks[begin:end]].tobytes(),
                [b"\1" + column[mine].tobytes() for column in values],
                size.to_bytes(4, "little"),
                bodies[begin:end].tobytes(),
            )
            frames.append((frame, count))
        return frames

    def _parts(self, rows: NDArray[np.intp]) -> Iterator[tuple[int, int]]:
        """Where rows begin and end whose blocks have contiguous numbers."""
        numbers, bounds = self._heads["catenation"], [0, len(rows)]
        earlier, later = numbers[:-1], numbers[1:]
        breaks = ((later - earlier != self._each) | (later < earlier)).nonzero()[0]  # they begin again after 2^64 - 1
        if len(breaks):
            bounds[1:1] = rows.searchsorted((breaks + 1) * self._each).tolist()
        return ((begin, end) for begin, end in pairwise(bounds) if begin < end)

    def _verify(self, blocks: list[int]) -> None:
        """Refuse blocks whose bytes changed since their publisher sealed them."""
        if self._seals is None:
            self._seals = self._heads["own"].tobytes(), self._heads["checksum"].tolist()
        own, told = self._seals
        start, length, digest, view = self._start, self._length, xxh3_64_intdigest, memoryview(self.data)
        same = sealed_flow(self.data, start)
        unknown = [block for block in blocks if block not in self._intact] if self._intact else blocks
        for block in unknown:
            at = start + block * length
            seed = digest(same + own[20 * block : 20 * block + 20])
            if digest(view[at + HEADER_SIZE : at + length], seed) & 0xFFFFFFFF != told[block]:
                raise FrameError(Refusal.CORRUPT, "an events frame was damaged on the way")
        self._intact.update(unknown)

    def _view(self, at: int, size: int) -> NDArray[np.void]:
        """So many bytes of each block, `at` from its beginning."""
        return np.ndarray((len(self._heads),), octets(size), self.data, self._start + at, (self._length,))

    def _bodies(self) -> NDArray[np.void]:
        """All bodies, by block and row."""
        shape, size = (len(self._heads), self._each), self._size
        first = self._start + self._length - size * self._each
        return np.ndarray(shape, octets(size), self.data, first, (self._length, size))


def find_uniform_run(data: bytes, start: int, end: int, schema: Schema) -> UniformRun | None:
    """Return the frames of a run as a uniform run, if headers differ in nothing but number, time and checksum."""
    length, _, _, flags, _, _, _, _, numbers, _, _, columns, _ = HEADER.unpack_from(data, start)
    count, width, bodies = numbers & 0xFFFF, schema.width, HEADER_SIZE + columns
    size = int.from_bytes(data[start + bodies : start + bodies + 4], "little")
    if (
        flags != UNIFORM
        or not count
        or (end - start) % length
        or (end - start) // length * count > LARGEST_COUNT
        or (not width and schema.names)
        or columns != len(schema.names) + width * count
        or bodies + 4 + size * count != length
    ):
        return None
    stretch = UniformRun(data, start, end, schema, count, size, length)
    return stretch if stretch.is_one() else None
