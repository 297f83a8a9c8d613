"""Sums of traces: rows about numbers of a stream that go on where others ended, as one row.

A sum holds exactly the numbers that its rows held, and for whom they are, so an audit finds the same gaps, doubles and
swaps in sums. What it does not keep is when each of them happened: it has the first and the last time, and of delays
how many events took how long, roughly.
"""

from collections import Counter
from typing import Final

import msgspec

from stentor.machine import SECOND
from stentor.model.reports.trace import (
    Trace,
    TraceKind,
    audience_body,
    audience_of,
    delays_text,
    is_partial,
    numbers_body,
    numbers_of,
)
from stentor.model.stored.span import Span, Spans

_BORN: Final = 10 * SECOND  # windows in which published events count: whoever asks for minutes gets whole sums
_MOST_PIECES: Final = 1024  # stretches that the body of one row lists
_FOLLOWING: Final = {TraceKind.PUBLISHED, TraceKind.STORED, TraceKind.VOIDED, TraceKind.SKIPPED}
_LISTED: Final = {TraceKind.RELEASED, TraceKind.ACKNOWLEDGED, TraceKind.SYNCED}  # whose bodies list numbers
_TIMED: Final = {TraceKind.STORED, TraceKind.RELEASED}
SUMMED: Final = {*_FOLLOWING, *_LISTED, TraceKind.STABLE}

Key = tuple[TraceKind, str, int, int, str]


def key_of(row: Trace) -> Key:
    """Rows with one key may be summed up, if nothing else lies between them."""
    return row.kind, row.about, row.source_id, row.life, row.subscriber


class TraceSum:
    """One row that grows. `spans` are the numbers that it holds, `wanted` for whom they are if that differs."""

    __slots__ = (
        "_delays",
        "_row",
        "_spans",
        "_wanted",
        "at",
        "count",
        "end",
        "first",
        "is_growing",
        "last",
        "size",
        "until",
    )

    def __init__(self, row: Trace, offset: int) -> None:
        self._row = row
        self.is_growing = True  # until it is told, or another one has taken its place
        self.at = self.until = row.at
        self.first = row.first
        self.last = row.last
        self.end = row.end
        self.count = row.count
        self.size = row.size
        self._spans = Spans(_numbers(row)) if row.kind in _LISTED else None
        self._wanted: dict[str, Spans] | None = None
        self._delays: Counter[int] = Counter()
        self._time(row, offset)

    def takes(self, row: Trace) -> bool:
        """Whether a row goes on where this sum ends."""
        own = self._row
        if (row.keeper, row.peer, row.source) != (own.keeper, own.peer, own.source) or self._pieces > _MOST_PIECES:
            return False
        if row.kind in _FOLLOWING:
            is_same_window = row.kind is not TraceKind.PUBLISHED or row.born // _BORN == own.born // _BORN
            return row.first == self.last + 1 and (not row.start or row.start > self.end) and is_same_window
        if row.kind is TraceKind.STABLE:
            return row.start == self.end + 1
        if row.kind is TraceKind.RELEASED:
            return row.first > self.last and row.start > self.end
        assert self._spans is not None
        return not any(self._spans.within(*span) for span in _numbers(row))

    def extend(self, at: int, span: Span, sequences: Span, size: int, born: int, offset: int) -> bool:
        """Take in numbers of events that differ from its rows in nothing but that they go on where these end, without a
        row of their own: most do, and a row for each would be the dearest part of tracing. Return whether they do.
        """
        (first, last), (start, end) = span, sequences
        if not self.is_growing or self._wanted is not None or first != self.last + 1 or (start and start <= self.end):
            return False
        if self._row.kind is TraceKind.STORED:
            if born:
                self._delays[delay_of(at + offset - born)] += last - first + 1
        elif born // _BORN != self._row.born // _BORN:
            return False
        self.last = last
        self.end = end
        self.until = at
        self.count += last - first + 1
        self.size += size
        return True

    def extend_stable(self, at: int, start: int, end: int) -> bool:
        """Take in sequence numbers that are stable, if they go on where it ends; return whether they do."""
        if not self.is_growing or start != self.end + 1:
            return False
        self.end = end
        self.until = at
        self.count += end - start + 1
        return True

    def add(self, row: Trace, offset: int) -> None:
        own = self._row.body
        if row.kind is TraceKind.STORED and (self._wanted is not None or row.body != own or is_partial(own)):
            self._want(row)
        if self._spans is not None:
            self._spans.update(_numbers(row))
        self.first, self.last = min(self.first, row.first), max(self.last, row.last)
        self.end, self.until = max(self.end, row.end), row.at
        self.count += row.count
        self.size += row.size
        self._time(row, offset)

    def row(self) -> Trace:
        """Return it as it is told."""
        body = self._row.body
        if self._spans is not None:
            body = numbers_body(self.first, self._spans.pairs())
        elif self._wanted is not None:
            body = audience_body({name: self._offsets(spans) for name, spans in self._wanted.items()})
        return msgspec.structs.replace(
            self._row,
            first=self.first,
            last=self.last,
            count=self.count,
            end=self.end,
            size=self.size,
            until=self.until,
            delays=delays_text(self._delays),
            body=body,
        )

    @property
    def _pieces(self) -> int:
        if self._wanted is not None:
            return sum(spans.pieces for spans in self._wanted.values())
        return self._spans.pieces if self._spans is not None else 0

    def _want(self, row: Trace) -> None:
        """Note for whom a row is; until they differ, all are for those whom the first row names."""
        if self._wanted is None:
            self._wanted = {}
            for name, offsets in audience_of(self._row.body).items():
                base = self._row.first
                partial = [(base + low, base + high) for low, high in offsets]
                self._wanted[name] = Spans(partial or [(base, self.last)])
        for name, offsets in audience_of(row.body).items():
            spans = self._wanted.setdefault(name, Spans())
            spans.update([(row.first + low, row.first + high) for low, high in offsets] or [(row.first, row.last)])

    def _offsets(self, spans: Spans) -> list[Span]:
        if spans.covers(self.first, self.last):
            return []
        return [(low - self.first, high - self.first) for low, high in spans]

    def _time(self, row: Trace, offset: int) -> None:
        if row.kind in _TIMED and row.born and not row.peer:
            self._delays[delay_of(row.at + offset - row.born)] += row.count


def delay_of(nanoseconds: int) -> int:
    """A number for how long something took: exact below 16 µs, then eight to each doubling, so wrong by 6 % at most."""
    took = max(nanoseconds // 1000, 0)
    shift = max(took.bit_length() - 4, 0)
    return (shift << 3) + (took >> shift)


def _numbers(row: Trace) -> list[Span]:
    if not row.body:
        return [(row.first, row.last)]
    return [(row.first + low, row.first + high) for low, high in numbers_of(row.body)]
