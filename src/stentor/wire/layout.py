"""Layouts: where everything is in the blocks of a run, as arrays, so that a look costs per run, not per block."""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from stentor.model.attribute import Schema
from stentor.model.errors import FrameError, Refusal
from stentor.wire.block import FLAGS, HEADER, HEADER_SIZE, SPARSE, TIMES
from stentor.wire.frame import LENGTH

Buffer = bytes | memoryview
Places = NDArray[np.int64]
Heads = NDArray[np.void]

_HEAD: Final = np.dtype({
    "names": [
        "upfront", "length", "flags", "source", "schema", "count", "incarnation", "catenation", "time", "columns",
        "checksum",
    ],
    "formats": ["V40", "<u4", "u1", "V16", "<u8", "<u2", "V6", "<u8", "<i8", "<u4", "<u4"],
    "offsets": [0, 0, 6, 8, 24, 32, 34, 40, 48, 56, 60],
    "itemsize": HEADER_SIZE,
})  # fmt: skip
_SEALED: Final = 55  # bytes of a header that its checksum covers
_AHEAD: Final = np.array([2 * bool(flags & SPARSE) + 8 * bool(flags & TIMES) for flags in range(FLAGS + 1)])


def gather(data: Buffer, size: int, places: Places) -> NDArray[np.void]:
    """So many bytes from each of these places."""
    anywhere = np.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))
    return anywhere[places]


def repeats(values: NDArray[np.generic]) -> bool:
    """Whether all are the same: to compare bytes takes a fraction of the time that arrays take."""
    data = values.tobytes()
    return data == data[: values.itemsize] * len(values)


class Layout:
    """Some blocks, in order. `alike`: their headers differ in catenation number, time and checksum alone; then one
    number stands for the counts, and one for the lengths of the columns.
    """

    __slots__ = (
        "_intact", "alike", "all_flags", "any_flags", "bodies", "columns", "counts", "data", "ends", "heads", "lengths",
        "starts",
    )  # fmt: skip

    def __init__(self, data: Buffer, starts: Places, heads: Heads, alike: bool) -> None:
        """The sizes of the blocks are checked here, once, before all else."""
        self.data, self.starts, self.heads, self.alike = data, starts, heads, alike
        self._intact: set[int] = set()  # where blocks begin that were verified
        counts: int | Places
        lengths: int | Places
        if alike:
            length, _, _, flags, *_, numbers, _, _, lengths, _ = HEADER.unpack_from(data, starts[0])
            self.any_flags = self.all_flags = flags
            counts = numbers & 0xFFFF
            ahead = counts * int(_AHEAD[flags & FLAGS])
            self.ends: Places = starts + length
            fits = bool(counts) and HEADER_SIZE + ahead + lengths <= length
        else:
            flags, counts, lengths = heads["flags"], heads["count"].astype(np.int64), heads["columns"].astype(np.int64)
            self.any_flags, self.all_flags = int(np.bitwise_or.reduce(flags)), int(np.bitwise_and.reduce(flags))
            ahead = counts * _AHEAD[flags & FLAGS]
            self.ends = starts + heads["length"]
            fits = bool(counts.all() and (starts + ahead + lengths <= self.ends - HEADER_SIZE).all())
        if not fits:
            raise FrameError(Refusal.CORRUPT, "an events frame whose parts do not fit into it")
        self.columns: Places = starts + (HEADER_SIZE + ahead)
        self.bodies: Places = self.columns + lengths
        self.counts, self.lengths = counts, lengths

    @classmethod
    def of_frames(cls, data: Buffer, starts: list[int]) -> "Layout":
        """The layout of frames that begin at these places."""
        places = np.array(starts)
        return cls(data, places, gather(data, HEADER_SIZE, places).view(_HEAD), len(starts) == 1)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def total(self) -> int:
        """How many events."""
        return self.counts * len(self) if isinstance(self.counts, int) else int(self.counts.sum())

    def count(self, block: int) -> int:
        """How many events a block has."""
        return self.counts if isinstance(self.counts, int) else int(self.counts[block])

    def is_plain(self, schema: Schema) -> bool:
        """Whether all columns are of fixed width and no value is missing."""
        plain = self.lengths == len(schema.names) + schema.width * self.counts
        return schema.width > 0 and (plain if isinstance(plain, bool) else bool(plain.all()))

    def locate(self, rows: NDArray[np.intp]) -> tuple[Places, Places]:
        """The block of each row, and the row within that."""
        if isinstance(self.counts, int):
            return np.divmod(rows, self.counts)
        ends = self.counts.cumsum()
        blocks = ends.searchsorted(rows, "right")
        return blocks, rows - (ends - self.counts)[blocks]

    def part(self, blocks: NDArray[np.intp]) -> "Layout":
        """Just these blocks."""
        starts = self.starts[blocks]
        part = Layout(self.data, starts, gather(self.data, HEADER_SIZE, starts).view(_HEAD), self.alike)
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


def lay_out(data: bytes, start: int, end: int) -> tuple[Places, Heads, bool]:
    """Where the frames of a run begin, their headers, and whether those are alike."""
    (length,) = LENGTH.unpack_from(data, start)
    count, rest = divmod(end - start, length)
    if not rest:  # a publisher that fills its batches sends frames of one length
        heads = np.ndarray((count,), _HEAD, data, start, (length,))
        if repeats(heads["upfront"]):
            return np.arange(start, end, length), heads, repeats(heads["columns"])
    starts = []
    while start < end:
        starts.append(start)
        start += LENGTH.unpack_from(data, start)[0]
    places = np.array(starts)
    return places, gather(data, HEADER_SIZE, places).view(_HEAD), False
