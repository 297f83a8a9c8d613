"""Receipts: at which positions an application has which events, and which of them it is done with."""

from collections.abc import Iterator
from typing import NamedTuple

from stentor.model.span import Spans
from stentor.protocols.delivery.bodies import Source
from stentor.protocols.delivery.chain import Numbers
from stentor.protocols.delivery.lane import Lane


class _Given:
    __slots__ = ("before", "first", "last", "late", "numbers", "source")

    def __init__(self, first: int, source: Source, numbers: Numbers, before: int, late: bool) -> None:
        self.first, self.last = first, first + len(numbers) - 1
        self.source, self.numbers = source, numbers
        self.before = before  # the last number of the source that was released before
        self.late = late


class Done(NamedTuple):
    """Numbers of a source that an application is done with; from `first` on none of what is between is ours."""

    source: Source
    first: int
    last: int
    events: int
    late: bool


class Receipts:
    """Positions count released events, from 1."""

    def __init__(self) -> None:
        self.position = 0  # of the last one
        self._given: Lane[_Given] = Lane()
        self._done = Spans()

    def give(self, source: Source, numbers: Numbers, before: int, late: bool = False) -> int:
        """The position of the first of these events."""
        first = self.position + 1
        self._given.add(first, _Given(first, source, numbers, before, late))
        self.position += len(numbers)
        return first

    def acknowledge(self, first: int, last: int) -> Iterator[Done]:
        """What of these positions is news."""
        for start, end in self._done.missing(max(first, 1), min(last, self.position)):
            for given in self._given.since(start):
                if given.first > end:
                    break
                low, high = max(start - given.first, 0), min(end, given.last) - given.first
                before = int(given.numbers[low - 1]) if low else given.before
                yield Done(given.source, before + 1, int(given.numbers[high]), high - low + 1, given.late)
            self._done.add(start, end)
        done = self._done.upto()
        while len(self._given) and self._given.front.last <= done:
            self._given.take()
