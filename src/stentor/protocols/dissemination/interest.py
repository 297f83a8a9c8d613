"""Interests: what one destination wants, and the channel filter that its content filters make together."""

from typing import Generic, TypeVar

import numpy as np

from stentor.model.filter import Filter
from stentor.model.ids import SubscriptionId
from stentor.policies.channel import Keep
from stentor.wire.block import Block

D = TypeVar("D")


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

    def decide(self, block: Block, keep: Keep, tags: dict[str, float]) -> Keep:  # noqa: ARG002 - content never tags
        if block.count == 1:
            return keep & self._decide_one(block)
        wanted: Keep | None = None
        for interest in self._interests:
            assert interest.filter is not None, "an interest in all of a topic is no content filter"
            chosen = interest.filter.select(block.column, block.count)
            accepted = int(np.count_nonzero(chosen))
            interest.accepted += accepted
            interest.rejected += block.count - accepted
            wanted = chosen if wanted is None else wanted | chosen
        return keep if wanted is None else keep & wanted

    def _decide_one(self, block: Block) -> bool:
        """A lone event, without arrays."""
        row = block.rows()[0]
        wanted = False
        for interest in self._interests:
            assert interest.filter is not None, "an interest in all of a topic is no content filter"
            if interest.filter.matches(row):
                interest.accepted += 1
                wanted = True
            else:
                interest.rejected += 1
        return wanted
