"""Drop policies: which of the events that wait for a slow peer go when its queue is full."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from stentor.model.ids import SubscriptionId


class WaitingRun(NamedTuple):
    """Event frames that wait for a peer's credit."""

    frames: bytes
    events: int
    losers: Mapping[SubscriptionId, int]  # which subscriptions of the peer miss how many events if the run is dropped


class DropPolicy(Protocol):
    """Whatever decides what a full queue loses."""

    def drop(self, waiting: deque[WaitingRun], excess: int) -> Iterator[WaitingRun]:
        """Take runs with at least so many bytes out of a queue, and yield each of them. The rest keeps its order."""
        ...


class DropOldest:
    """A slow subscriber loses what has waited longest: who is late wants to know what is so now."""

    def drop(self, waiting: deque[WaitingRun], excess: int) -> Iterator[WaitingRun]:
        while excess > 0 and waiting:  # a count that is damaged may say more than there is
            run = waiting.popleft()
            excess -= len(run.frames)
            yield run


DROP_OLDEST = DropOldest()
