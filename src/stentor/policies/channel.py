"""Channels: what may pass from one unit to another. Their gatekeepers enforce it on the links between them."""

from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from stentor.model.batch import Batch
from stentor.model.filter import Filter


class ChannelFilter(Protocol):
    """Decides per event."""

    def admits(self, batch: Batch) -> NDArray[np.bool_]: ...


class ContentFilter:
    """Lets events pass that a filter matches."""

    def __init__(self, where: str) -> None:
        self._filter = Filter(where)

    def admits(self, batch: Batch) -> NDArray[np.bool_]:
        return self._filter.select(batch.column, batch.count)


class ChannelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """From which unit to which, and what every event must be like."""

    source: str
    target: str
    where: tuple[str, ...]


class Channel:
    """Links from one unit to another, and a list of filters that all have a say."""

    def __init__(self, filters: Sequence[ChannelFilter]) -> None:
        self._filters = tuple(filters)

    def admits(self, batch: Batch) -> NDArray[np.bool_]:
        admitted = np.ones(batch.count, np.bool_)
        for each in self._filters:
            admitted &= each.admits(batch)
        return admitted


def channel_between(source: str, target: str, settings: Sequence[ChannelSettings]) -> Channel | None:
    """The channel for a link between brokers of these two units; None lets everything pass."""
    filters = [
        ContentFilter(where)
        for each in settings
        if (each.source, each.target) == (source, target)
        for where in each.where
    ]
    return Channel(filters) if filters else None
