"""Spans: sets of whole numbers as ranges, so that what comes in order costs the same however much it is."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

Span = tuple[int, int]  # the first and the last number, both belong to it


class Spans:
    """A set of numbers; neighbours melt into one span."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in spans:
            self.add(first, last)

    def __iter__(self) -> Iterator[Span]:
        return iter(self.pairs())

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __len__(self) -> int:
        """How many numbers there are. A `tuple` or `list` of spans makes room for as many first: `pairs` does not."""
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and number <= self._lasts[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spans) and self._firsts == other._firsts and self._lasts == other._lasts

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Spans({self.pairs()})"

    def pairs(self) -> tuple[Span, ...]:
        """The spans, in order."""
        return tuple(zip(self._firsts, self._lasts, strict=True))

    @property
    def pieces(self) -> int:
        return len(self._firsts)

    @property
    def first(self) -> int:
        """The lowest number; 0 if there is none."""
        return self._firsts[0] if self._firsts else 0

    @property
    def last(self) -> int:
        """The highest number; 0 if there is none."""
        return self._lasts[-1] if self._lasts else 0

    def add(self, first: int, last: int) -> None:
        firsts, lasts = self._firsts, self._lasts
        if last < first:
            return
        if lasts and lasts[-1] + 1 == first:  # what comes in order
            lasts[-1] = last
            return
        left = bisect_left(lasts, first - 1)
        right = bisect_right(firsts, last + 1)
        if left < right:
            first, last = min(first, firsts[left]), max(last, lasts[right - 1])
        firsts[left:right] = [first]
        lasts[left:right] = [last]

    def remove(self, first: int, last: int) -> None:
        firsts, lasts = self._firsts, self._lasts
        left, right = bisect_left(lasts, first), bisect_right(firsts, last)
        if left >= right or last < first:
            return
        rest = [(firsts[left], first - 1), (last + 1, lasts[right - 1])]
        rest = [span for span in rest if span[0] <= span[1]]
        firsts[left:right] = [span[0] for span in rest]
        lasts[left:right] = [span[1] for span in rest]

    def update(self, spans: Iterable[Span]) -> None:
        for first, last in spans:
            self.add(first, last)

    def covers(self, first: int, last: int) -> bool:
        """Whether all of these are in it."""
        at = bisect_right(self._firsts, first) - 1
        return last < first or (at >= 0 and last <= self._lasts[at])

    def upto(self, start: int = 1) -> int:
        """The last number of those that follow `start` without a gap; `start - 1` if it is not in it."""
        at = bisect_right(self._firsts, start) - 1
        return max(self._lasts[at], start - 1) if at >= 0 else start - 1

    def same(self, number: int) -> tuple[bool, int | None]:
        """Whether a number is in it, and up to which one that stays so; None is for ever."""
        at = bisect_right(self._firsts, number)
        if at and number <= self._lasts[at - 1]:
            return True, self._lasts[at - 1]
        return False, self._firsts[at] - 1 if at < len(self._firsts) else None

    def missing(self, first: int, last: int) -> list[Span]:
        """What of this range is not in it."""
        gaps = []
        at = bisect_left(self._lasts, first)
        while first <= last:
            if at == len(self._firsts) or self._firsts[at] > last:
                gaps.append((first, last))
                break
            if self._firsts[at] > first:
                gaps.append((first, self._firsts[at] - 1))
            first = self._lasts[at] + 1
            at += 1
        return gaps

    def within(self, first: int, last: int) -> list[Span]:
        """What of this range is in it."""
        found = []
        at = bisect_left(self._lasts, first)
        while first <= last and at < len(self._firsts) and self._firsts[at] <= last:
            found.append((max(first, self._firsts[at]), min(last, self._lasts[at])))
            at += 1
        return found

    def copy(self) -> "Spans":
        twin = Spans()
        twin._firsts, twin._lasts = self._firsts.copy(), self._lasts.copy()
        return twin
