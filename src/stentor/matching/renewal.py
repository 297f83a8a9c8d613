"""Renewal: an index is made anew beside the one in use, a slice at a time, so that damage there does not last.

What is in use is filed once more, then what has changed meanwhile; when all of that is done, the new index takes the
place of the other one. Nothing waits for it, and nobody is served worse in between.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

I = TypeVar("I")  # noqa: E741 - an index
C = TypeVar("C")

_CHANGES_MAX = 10_000  # that wait beside as many as there were at first: a storm of them begins anew, with what it left


class Renewal(Generic[I, C]):
    """An index in the making. What is filed in it is told as changes, as what comes and goes later is."""

    def __init__(self, index: I, changes: Iterable[C], apply: Callable[[I, C], None]) -> None:
        self.index = index
        self._waiting = deque(changes)
        self._waiting_max = len(self._waiting) + _CHANGES_MAX
        self._apply = apply

    def note(self, change: C) -> bool:
        """Something changes in the index in use. Return whether it is worth going on: not if too much has changed."""
        self._waiting.append(change)
        return len(self._waiting) <= self._waiting_max

    def run(self, most: int) -> int:
        """Apply so many changes; return how many there were."""
        count = min(most, len(self._waiting))
        for _ in range(count):
            self._apply(self.index, self._waiting.popleft())
        return count

    @property
    def is_done(self) -> bool:
        return not self._waiting
