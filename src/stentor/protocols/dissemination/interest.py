"""Interests: what one destination wants of the topics that a pattern covers."""

from typing import Generic, Protocol, TypeVar

from stentor.model.filter import Filter
from stentor.model.ids import SubscriptionId

D = TypeVar("D")


class Counts(Protocol):
    """Whoever counts for the interests that have a filter."""

    events: int  # looked at so far

    def accepted(self, place: int) -> int: ...


class Interest(Generic[D]):
    """One subscription at the broker that serves it."""

    __slots__ = ("counts", "destination", "filter", "id", "number", "pattern", "place", "since", "taken")

    def __init__(
        self, number: int, subscription: SubscriptionId, destination: D, pattern: str, where: Filter | None
    ) -> None:
        self.number = number  # unique at this broker; `id` only on its link
        self.id = subscription
        self.destination = destination
        self.pattern = pattern
        self.filter = where
        self.taken = 0  # events, if it takes them all
        self.counts: Counts | None = None
        self.place = 0  # on the roster
        self.since = 0  # events that its audience had looked at before it came

    @property
    def accepted(self) -> int:
        return self.taken if self.counts is None else self.counts.accepted(self.place)

    @property
    def rejected(self) -> int:
        return 0 if self.counts is None else self.counts.events - self.since - self.accepted
