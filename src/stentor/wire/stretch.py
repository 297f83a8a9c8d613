"""Stretches: blocks in a row that are laid out alike, so that everything in them is found by multiplication.

A publisher that fills its batches sends little else. Whatever is different goes the general way, by its layout.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from stentor.model.attribute import WIDTHS, Schema
from stentor.model.errors import FrameError, Refusal
from stentor.wire.block import HEADER, HEADER_SIZE, LARGEST_COUNT, UNIFORM, compose
from stentor.wire.frame import SOFT_FRAME
from stentor.wire.layout import HEAD, Buffer, octets, repeats

_OWN = 10  # bytes of an event's offset and time


class Stretch:
    """Blocks of one publisher, with as many events each, no strings, nothing missing and bodies of one size."""

    __slots__ = ("_columns", "_each", "_heads", "_intact", "_length", "_size", "_start", "_weight", "count", "data")

    def __init__(self, data: bytes, start: int, end: int, schema: Schema, each: int, size: int, length: int) -> None:
        """`length` of a block, with events of that `size` each."""
        self.data, self._start, self._length, self._each, self._size = data, start, length, each, size
        self._heads = np.ndarray(((end - start) // length,), HEAD, data, start, (length,))
        self.count = len(self._heads) * each
        self._columns: list[tuple[int, int]] = []  # where in a block, and how wide
        at = HEADER_SIZE
        for kind in schema.kinds:
            self._columns.append((at + 1, WIDTHS[kind]))
            at += 1 + WIDTHS[kind] * each
        self._weight = _OWN + schema.width + size  # bytes of an event in a frame
        self._intact: set[int] = set()  # blocks that were verified

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
        at, width = self._columns[position]
        return self._view(at, width * self._each).copy().view(dtype)

    def pick(self, rows: NDArray[np.intp]) -> list[tuple[Buffer, int]] | None:
        """Frames of just these events; None if they do not fit into one for each row of contiguous numbers."""
        if len(rows) * self._weight > SOFT_FRAME:
            return None
        numbers = self._heads["catenation"]
        blocks, within = np.divmod(rows, self._each)
        breaks = (numbers[1:] - numbers[:-1] != self._each).nonzero()[0]
        bounds = [0, len(rows)]
        if len(breaks):
            bounds[1:1] = rows.searchsorted((breaks + 1) * self._each).tolist()
        frames: list[tuple[Buffer, int]] = []
        for begin, end in pairwise(bounds):
            if begin < end:
                if numbers[blocks[begin]] > numbers[blocks[end - 1]]:  # past the largest number there is
                    return None
                frames.append((self._frame(rows[begin:end], blocks[begin:end], within[begin:end]), end - begin))
        return frames

    def _frame(self, rows: NDArray[np.intp], blocks: NDArray[np.intp], within: NDArray[np.intp]) -> bytes:
        """One frame of events with contiguous numbers."""
        first, count = int(blocks[0]), len(rows)
        at = self._start + first * self._length
        if count == self._each and blocks[-1] == first:
            return self.data[at : at + self._length]
        self._verify(np.bincount(blocks).nonzero()[0].tolist())
        offsets = rows - first * self._each
        columns = [b"\1" + self._grid(place, width)[blocks, within].tobytes() for place, width in self._columns]
        size = self._size
        bodies = self._grid(self._length - size * self._each, size)[blocks, within].tobytes() if size else b""
        return compose(
            self.data, at, count,
            b"" if offsets[-1] == count - 1 else offsets.astype("<u2").tobytes(),
            self._heads["time"][blocks].tobytes(), columns, size.to_bytes(4, "little"), bodies,
        )  # fmt: skip

    def _verify(self, blocks: list[int]) -> None:
        """Refuse blocks whose bytes changed since their publisher sealed them."""
        unknown = [block for block in blocks if block not in self._intact] if self._intact else blocks
        start, length, digest, view = self._start, self._length, xxh3_64_intdigest, memoryview(self.data)
        same = self.data[start + 4 : start + 7] + self.data[start + 8 : start + 40]
        other, told = self._heads["own"].tobytes(), self._heads["checksum"].tolist()
        for block in unknown:
            at = start + block * length
            seed = digest(same + other[20 * block : 20 * block + 20])
            if digest(view[at + HEADER_SIZE : at + length], seed) & 0xFFFFFFFF != told[block]:
                raise FrameError(Refusal.CORRUPT, "an events frame was damaged on the way")
        self._intact.update(unknown)

    def _view(self, at: int, size: int) -> NDArray[np.void]:
        """So many bytes of each block, `at` from its beginning."""
        return np.ndarray((len(self._heads),), octets(size), self.data, self._start + at, (self._length,))

    def _grid(self, at: int, size: int) -> NDArray[np.void]:
        """So many bytes of each event; those of a block stand side by side, the first `at` from its beginning."""
        shape, strides = (len(self._heads), self._each), (self._length, size)
        return np.ndarray(shape, octets(size), self.data, self._start + at, strides)


def find_stretch(data: bytes, start: int, end: int, schema: Schema) -> Stretch | None:
    """The frames of a run as a stretch, if they are one; headers may differ in number, time and checksum alone."""
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
    stretch = Stretch(data, start, end, schema, count, size, length)
    return stretch if stretch.is_one() else None
