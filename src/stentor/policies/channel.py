"""Channels: a way to a destination, with a list of filters that decide per event what takes it, and may tag it."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stentor.wire.block import Block

Keep = NDArray[np.bool_]


class ChannelFilter(Protocol):
    """Decides for a whole block at once. It may narrow `keep`, never widen it, and may set entries of `tags`."""

    def decide(self, block: Block, keep: Keep, tags: dict[str, float]) -> Keep: ...


class Channel:
    """Events pass the filters in turn; a channel without filters takes everything."""

    __slots__ = ("filters",)

    def __init__(self, filters: Sequence[ChannelFilter]) -> None:
        self.filters = tuple(filters)

    def decide(self, block: Block) -> tuple[Keep, dict[str, float]]:
        keep: Keep = np.ones(block.count, np.bool_)
        tags: dict[str, float] = {}
        for each in self.filters:
            keep = each.decide(block, keep, tags)
            if not keep.any():
                break
        return keep, tags
