"""The audience of a record: which of its events each subscriber wants, as bitmaps by the subscribers' slots."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Wanted = NDArray[np.bool_]


class Part(NamedTuple):
    """Rows of a block, of which somebody wants each, or nobody wants any: then it has no audience."""

    start: int
    end: int
    audience: Mapping[int, bytes]


def pack(wanted: Wanted) -> bytes:
    """One subscriber's part of an audience, that wants at least one event; b"" is all of them."""
    return b"" if wanted.all() else np.packbits(wanted, bitorder="little").tobytes()


def unpack(bits: bytes, count: int) -> Wanted:
    if not bits:
        return np.ones(count, np.bool_)
    return np.unpackbits(np.frombuffer(bits, np.uint8), count=count, bitorder="little").view(np.bool_)


def cut(audience: Mapping[int, bytes], count: int) -> list[Part]:
    """Cut a block wherever events that somebody wants begin or end."""
    if not audience or b"" in audience.values():
        return [Part(0, count - 1, audience)]
    masks = {slot: unpack(bits, count) for slot, bits in audience.items()}
    wanted = np.logical_or.reduce(list(masks.values()))
    starts = np.flatnonzero(np.diff(wanted, prepend=not wanted[0])).tolist()
    ends = [start - 1 for start in starts[1:]] + [count - 1]
    parts = []
    for start, end in zip(starts, ends, strict=True):
        within = {slot: mask[start : end + 1] for slot, mask in masks.items()}
        parts.append(Part(start, end, {slot: pack(mask) for slot, mask in within.items() if mask.any()}))
    return parts
