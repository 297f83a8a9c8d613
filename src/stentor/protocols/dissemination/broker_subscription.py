"""Broker subscription: what one destination wants of the topics that a pattern covers."""

from typing import Generic, Protocol, TypeVar

import msgspec

from stentor.model.filter import Filter
from stentor.model.ids import SubscriptionId

D = TypeVar("D")


class Counts(Protocol):
    """Whoever counts for the interests that have a filter."""

    events: int  # looked at so far

    def accepted(self, place: int) -> int: ...


class ReadAccess(Protocol):
    """Whoever knows which topics of a pattern its subscriber may read; equal readers may be matched together."""

    def may_read(self, topic: str) -> bool: ...


class BrokerSubscription(msgspec.Struct, Generic[D], gc=False, eq=False):
    """One subscription at the broker that serves it; there may be a million, so the garbage collector is spared."""

    number: int  # unique at this broker; `id` only on its link
    id: SubscriptionId
    destination: D
    pattern: str
    filter: Filter | None
    taken: int = 0  # events, if it takes them all
    counts: Counts | None = None
    place: int = 0  # on the roster
    since: int = 0  # events that its audience had looked at before it came
    access: ReadAccess | None = None  # which topics it means; None is all that its pattern covers
    evaluated: int = 0  # nanoseconds for the worst event, by which it made evaluating filters dearer when it came
    digest: int = 0  # of what its client said

    @property
    def accepted(self) -> int:
        return self.taken if self.counts is None else self.counts.accepted(self.place)

    @property
    def rejected(self) -> int:
        return 0 if self.counts is None else self.counts.events - self.since - self.accepted
