"""Ordered queue: things in the order of their first numbers, taken away at the front."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

_SHORT = 64  # taken things that are kept at the front: fewer are not worth moving the rest


class OrderedQueue(Generic[T]):
    """Nearly everything is added at the end; some things come late.

    Invariants: `_firsts` grows, and is as long as `_things`; `_head` is at most that long.
    """

    __slots__ = ("_firsts", "_head", "_things")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._things: list[T] = []
        self._head = 0  # things before it are taken away already: a list is slow at its front

    def __len__(self) -> int:
        return len(self._things) - self._head

    def __iter__(self) -> Iterator[T]:
        for at in range(self._head, len(self._things)):
            yield self._things[at]

    @property
    def front(self) -> T:
        return self._things[self._head]

    @property
    def back(self) -> T:
        return self._things[-1]

    def add(self, first: int, thing: T) -> None:
        if not self._firsts or first >= self._firsts[-1]:
            self._firsts.append(first)
            self._things.append(thing)
        else:
            at = bisect_right(self._firsts, first, self._head)
            self._firsts.insert(at, first)
            self._things.insert(at, thing)

    def take(self) -> T:
        """Take the front away, and return it."""
        thing = self._things[self._head]
        self._head += 1
        if self._head >= _SHORT and self._head * 2 >= len(self._things):
            del self._firsts[: self._head], self._things[: self._head]
            self._head = 0
        return thing

    def take_back(self) -> T:
        self._firsts.pop()
        return self._things.pop()

    def since(self, number: int) -> Iterator[T]:
        """Return all things from the last one on that begins at or before a number."""
        start = max(bisect_right(self._firsts, number, self._head) - 1, self._head)
        for at in range(start, len(self._things)):
            yield self._things[at]
