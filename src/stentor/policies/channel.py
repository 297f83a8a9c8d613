"""Channels: a way to a destination, with a list of filters that decide per event what takes it, and may tag it."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stentor.wire.sheaf import Sheaf

Keep = NDArray[np.bool_]


class ChannelFilter(Protocol):
    """Decides for a whole sheaf at once which events pass, and may set entries of `tags` for those that do."""

    def decide(self, sheaf: Sheaf, tags: dict[str, float]) -> Keep: ...


class Channel:
    """An event takes the channel if every filter lets it pass; a channel without filters takes everything."""

    __slots__ = ("filters",)

    def __init__(self, filters: Sequence[ChannelFilter]) -> None:
        self.filters = tuple(filters)

    def decide(self, sheaf: Sheaf) -> tuple[Keep, dict[str, float]]:
        keep: Keep | None = None
        tags: dict[str, float] = {}
        for each in self.filters:
            passed = each.decide(sheaf, tags)
            keep = passed if keep is None else keep & passed
        return np.ones(sheaf.count, np.bool_) if keep is None else keep, tags
