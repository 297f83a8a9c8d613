"""Run layout: where everything is in the blocks of a run, as arrays, so that a look costs per run, not per block."""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from stentor.model.attribute import Schema
from stentor.model.column import Column
from stentor.model.errors import FrameError, Refusal
from stentor.wire.head import FLAGS, HEAD, HEADER_SIZE, SPARSE, TIMES

Buffer = bytes | memoryview
Places = NDArray[np.int64]
Columns = Callable[[str], Column | None]

_SEALED: Final = 55  # bytes of a header that its checksum covers
_AHEAD: Final = np.array([2 * bool(flags & SPARSE) + 8 * bool(flags & TIMES) for flags in range(FLAGS + 1)])


@lru_cache(maxsize=1024)
def octets(size: int) -> "np.dtype[np.void]":
    """The type of an array's entries that are so many bytes."""
    return np.dtype(f"V{size}")


def gather(data: Buffer, size: int, places: Places) -> NDArray[np.void]:
    """So many bytes from each of these places."""
    anywhere = np.ndarray((len(data) - size + 1,), octets(size), data, 0, (1,))
    return anywhere[places]


def repeats(values: NDArray[np.generic]) -> bool:
    """Whether all are the same: to compare bytes takes a fraction of the time that arrays take."""
    data = values.tobytes()
    return data == data[: values.itemsize] * len(values)


class RunLayout:
    """The layout of some blocks, in order, whatever they are like."""

    __slots__ = ("_intact", "all_flags", "any_flags", "bodies", "columns", "counts", "data", "ends", "heads", "starts")

    def __init__(self, data: Buffer, starts: Places) -> None:
        """The sizes of the blocks are checked here, once, before all else."""
        self.data, self.starts = data, starts
        self.heads = heads = gather(data, HEADER_SIZE, starts).view(HEAD)
        self._intact: set[int] = set()  # where blocks begin that were verified
        flags: NDArray[np.uint8] = heads["flags"]
        self.any_flags, self.all_flags = int(np.bitwise_or.reduce(flags)), int(np.bitwise_and.reduce(flags))
        self.counts: Places = heads["count"].astype(np.int64)
        self.columns: Places = starts + HEADER_SIZE
        if self.any_flags & (SPARSE | TIMES):
            self.columns += self.counts * _AHEAD[flags & FLAGS]
        self.bodies: Places = self.columns + heads["columns"]
        self.ends: Places = starts + heads["length"]
        if not (self.counts.all() and (self.bodies <= self.ends).all()):
            raise FrameError(Refusal.CORRUPT, "an events frame whose parts do not fit into it")

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def count(self) -> int:
        """How many events."""
        return int(self.counts.sum())

    def bounds(self) -> list[tuple[int, int]]:
        """Where each block begins and ends."""
        return list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    def is_plain(self, schema: Schema) -> bool:
        """Whether all columns are of fixed width and no value is missing."""
        width = schema.width
        return width > 0 and bool((self.heads["columns"] == len(schema.names) + width * self.counts).all())

    def locate(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], Places]:
        """The block of each row, and the row within that."""
        ends = self.counts.cumsum()
        blocks = ends.searchsorted(rows, "right")
        return blocks, rows - (ends - self.counts)[blocks]

    def part(self, blocks: NDArray[np.intp]) -> "RunLayout":
        """Just these blocks."""
        part = RunLayout(self.data, self.starts[blocks])
        part._intact = self._intact
        return part

    def frame(self, block: int) -> bytes:
        return bytes(self.data[self.starts[block] : self.ends[block]])

    def verify(self, first: int, last: int) -> None:
        """Refuse blocks, from `first` to before `last`, whose bytes changed since their publisher sealed them."""
        starts, ends = self.starts[first:last].tolist(), self.ends[first:last].tolist()
        if self._intact.issuperset(starts):
            return
        heads = gather(self.data, HEADER_SIZE, self.starts[first:last]).view(np.uint8).reshape(-1, HEADER_SIZE)
        sealed = np.empty((len(heads), _SEALED), np.uint8)
        sealed[:, :3], sealed[:, 3:] = heads[:, 4:7], heads[:, 8:60]
        seeds, view, digest = sealed.tobytes(), memoryview(self.data), xxh3_64_intdigest
        found = [
            digest(view[start + HEADER_SIZE : end], digest(seeds[at : at + _SEALED])) & 0xFFFFFFFF
            for start, end, at in zip(starts, ends, range(0, len(seeds), _SEALED), strict=True)
        ]
        if found != self.heads["checksum"][first:last].tolist():
            raise FrameError(Refusal.CORRUPT, "an events frame was damaged on the way")
        self._intact.update(starts)
