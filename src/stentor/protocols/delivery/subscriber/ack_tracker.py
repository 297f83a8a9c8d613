"""Ack tracker: at which positions an application has which events, and which of them it is done with."""

from collections.abc import Iterator
from typing import NamedTuple

from stentor.model.stored.record import StreamId
from stentor.model.stored.span import Spans
from stentor.protocols.delivery.ordered_queue import OrderedQueue
from stentor.protocols.delivery.subscriber.persistent_chain import ChainRun


class AckedRun(NamedTuple):
    """A part of a run that an application is done with."""

    run: ChainRun
    attempt: int  # whose sequence numbers the run has
    start: int
    end: int
    position: int  # of the event at `start`


class _Given:
    __slots__ = ("attempt", "first", "last", "run")

    def __init__(self, first: int, run: ChainRun, attempt: int) -> None:
        self.first = first
        self.last = first + len(run) - 1
        self.run = run
        self.attempt = attempt


class AckTracker:
    """Positions count released events, from 1.

    Invariant: what is in `_given` covers every position that is not done.
    """

    def __init__(self) -> None:
        self.position = 0  # of the last one
        self._given: OrderedQueue[_Given] = OrderedQueue()
        self._done = Spans()

    def give(self, run: ChainRun, attempt: int) -> int:
        """Take events in that are released; return the position of the first."""
        first = self.position + 1
        self._given.add(first, _Given(first, run, attempt))
        self.position += len(run)
        return first

    def acknowledge(self, first: int, last: int) -> Iterator[AckedRun]:
        """Take in that the application is done with these positions; return what of that is news."""
        for low, high in self._done.missing(max(first, 1), min(last, self.position)):
            for given in self._given.since(low):
                if given.first > high:
                    break
                start = max(low, given.first)
                end = min(high, given.last) + 1
                yield AckedRun(given.run, given.attempt, start - given.first, end - given.first, start)
            self._done.add(low, high)
        done = self._done.upto()
        while len(self._given) and self._given.front.last <= done:
            self._given.take()

    def owed(self, position: int | None = None) -> dict[StreamId, dict[int, int]]:
        """Return the positions, up to one, of all that the application is not done with, by stream and number."""
        owed: dict[StreamId, dict[int, int]] = {}
        for given in self._given:
            last = given.last if position is None else min(given.last, position)
            for low, high in self._done.missing(given.first, last):
                numbers = given.run.numbers[low - given.first : high - given.first + 1]
                mine = owed.setdefault(given.run.stream, {})
                mine.update(zip(map(int, numbers), range(low, high + 1), strict=True))
        return owed
