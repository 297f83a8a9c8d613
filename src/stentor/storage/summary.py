"""Summaries: what the records of a ledger are, thousands in one row, so that opening it need not read them all.

A summary tells nothing that the records do not: one that is damaged, or that does not fit, is made anew from them.
"""

import zlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from stentor.model.stored.record_columns import RecordColumns

_COLUMNS = ("<u8", "<u8", "<u8", "<u8", "<u8", "u1", "<u8", "<i8")


class LedgerSummary(NamedTuple):
    """Headers of records that follow each other in the ledger, and the times of their events."""

    chapter: RecordColumns
    time: NDArray[np.int64]

    @property
    def first(self) -> int:
        return int(self.chapter.sequence[0])

    @property
    def last(self) -> int:
        return int(self.chapter.sequence[-1])

    def encode(self) -> bytes:
        columns: tuple[NDArray[Any], ...] = (*self.chapter, self.time)
        packed = (column.astype(kind).tobytes() for column, kind in zip(columns, _COLUMNS, strict=True))
        return zlib.compress(b"".join(packed), 1)

    def since(self, sequence: int) -> "LedgerSummary":
        """Without those that begin before this number."""
        start = int(np.searchsorted(self.chapter.sequence, np.uint64(sequence)))
        return LedgerSummary(RecordColumns(*(column[start:] for column in self.chapter)), self.time[start:])


def decode(first: int, last: int, content: bytes, seal: int) -> LedgerSummary | None:
    """The summary that these bytes are; None if they are damaged."""
    if seal != seal_of(first, last, content):
        return None
    data = zlib.decompress(content)
    count = len(data) // sum(np.dtype(kind).itemsize for kind in _COLUMNS)
    found, at = [], 0
    for kind in _COLUMNS:
        found.append(np.frombuffer(data, kind, count, at))
        at += found[-1].nbytes
    return LedgerSummary(RecordColumns(*found[:-1]), found[-1])


def seal_of(first: int, last: int, content: bytes) -> int:
    """Signed, since databases have no numbers of 64 bits without a sign."""
    number = xxh3_64_intdigest(content, seed=xxh3_64_intdigest(b"%d %d" % (first, last)))
    return number - (1 << 64) if number >> 63 else number
