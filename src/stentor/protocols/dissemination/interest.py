"""Interests: what one destination wants, and the channel filter that its content filters make together."""

from typing import Generic, TypeVar

import numpy as np

from stentor.model.filter import Filter
from stentor.model.ids import SubscriptionId
from stentor.policies.channel import Keep
from stentor.wire.sheaf import Sheaf

D = TypeVar("D")
_FEW = 4  # events up to which plain values beat arrays


class Interest(Generic[D]):
    """One subscription at the broker that serves it."""

    __slots__ = ("accepted", "destination", "filter", "id", "number", "pattern", "rejected")

    def __init__(
        self, number: int, subscription: SubscriptionId, destination: D, pattern: str, where: Filter | None
    ) -> None:
        self.number = number  # unique at this broker; `id` only on its link
        self.id = subscription
        self.destination = destination
        self.pattern = pattern
        self.filter = where
        self.accepted = 0
        self.rejected = 0


class ContentFilter(Generic[D]):
    """Keeps an event if any of these interests wants it, and counts for each what it accepted and rejected."""

    __slots__ = ("_interests",)

    def __init__(self, interests: tuple[Interest[D], ...]) -> None:
        self._interests = interests

    def decide(self, sheaf: Sheaf, tags: dict[str, float]) -> Keep:  # noqa: ARG002 - content never tags
        count = sheaf.count
        wanted: Keep | None = None
        for interest in self._interests:
            assert interest.filter is not None, "an interest in all of a topic is no content filter"
            if count < _FEW:
                chosen = np.array([interest.filter.matches(row) for row in sheaf.rows()])
            else:
                chosen = interest.filter.select(sheaf.column, count)
            accepted = int(np.count_nonzero(chosen))
            interest.accepted += accepted
            interest.rejected += count - accepted
            wanted = chosen if wanted is None else wanted | chosen
        assert wanted is not None, "a content filter has at least one interest"
        return wanted
