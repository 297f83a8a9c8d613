"""Trace buffer: the traces that a node has not told yet. Machines add to it, whoever composes them tells it."""

from collections.abc import Iterable, Sequence

from stentor.machine import SECOND
from stentor.model.reports.trace import Trace, TraceKind, numbers_body
from stentor.model.stored.record import StreamId
from stentor.model.stored.span import Span, Spans
from stentor.protocols.delivery.endpoint_api import ReleasedBatch
from stentor.protocols.delivery.trace_sum import SUMMED, Key, TraceSum, key_of

_MOST = 65_536  # traces that wait for a link
_LONGEST = 10 * SECOND  # that sums wait: whoever asks what happened does not want to wait much longer
_SHARE = 200  # times as large as they are: what tells of so much is worth telling, and all nodes take a tenth at most
_ROW = 180  # bytes that a row takes, roughly
_BATCH = 300  # bytes that a batch takes beside its rows, roughly


class TraceBuffer:
    """Traces in the order in which things happened; nothing while they are off.

    Sums are in the order of their firsts. Invariant: of one key only the last one grows, and that is in `_sums`.
    """

    __slots__ = ("_published", "_published_of", "_sums", "dropped", "offset", "on", "rows", "sums", "told")

    def __init__(self, on: bool = True, sums: bool = False) -> None:
        self.on, self.sums = on, sums
        self.offset = 0  # how far clocks on walls are ahead of ours
        self.rows: list[Trace | TraceSum] = []
        self._sums: dict[Key, TraceSum] = {}  # those that may grow
        # The sum that holds what was published last, and of which topic and stream: most of what follows goes on there.
        self._published: TraceSum | None = None
        self._published_of: tuple[str, StreamId] | None = None
        self.told = 0
        self.dropped = 0

    def switch(self, on: bool, sums: bool = False) -> None:
        """Trace from now on, or not; every row, or their sums."""
        self.on, self.sums = on, sums
        self._end_sums()
        if not on:
            self.rows, self.dropped = [], 0

    def is_due(self, now: int) -> bool:
        """Return whether it is time to tell what there is: sums are worth more, the longer they grow."""
        if not self.sums or not self.rows or now - self.rows[0].at >= _LONGEST:
            return True
        return sum(row.size for row in self.rows) >= _SHARE * (_BATCH + _ROW * len(self.rows))

    def add(self, row: Trace) -> TraceSum | None:
        """Add a trace; what goes on where the last one ended is one with it. Return the sum that holds it, if any."""
        if not self.on:
            return None
        rows = self.rows
        if self.sums and row.kind in SUMMED:
            return self._sum_up(row)
        if rows and isinstance(rows[-1], Trace) and (joined := rows[-1].joined(row)) is not None:
            rows[-1] = joined
        elif len(rows) < _MOST:
            rows.append(row)
        else:
            self.dropped += 1
        return None

    def _sum_up(self, row: Trace) -> TraceSum | None:
        key = key_of(row)
        known = self._sums.get(key)
        if known is not None and known.takes(row):
            known.add(row, self.offset)
            return known
        if len(self.rows) >= _MOST:
            self.dropped += 1
            return None
        if known is not None:
            known.is_growing = False
        made = self._sums[key] = TraceSum(row, self.offset)
        self.rows.append(made)
        return made

    def _end_sums(self) -> None:
        for each in self._sums.values():
            each.is_growing = False
        self._sums = {}

    def publish(self, now: int, about: str, source: str, stream: StreamId, span: Span, size: int, born: int) -> None:
        """A publisher has sent these."""
        known = self._published if self._published_of == (about, stream) else None
        if known is not None and known.extend(now, span, (0, 0), size, born, self.offset):
            return
        first, last = span
        row = Trace(
            kind=TraceKind.PUBLISHED,
            at=now,
            about=about,
            source=source,
            source_id=stream[0],
            life=stream[1],
            first=first,
            last=last,
            count=last - first + 1,
            size=size,
            born=born,
        )
        self._published = self.add(row)
        self._published_of = about, stream

    def release(self, now: int, about: str, subscriber: str, portions: Iterable[ReleasedBatch]) -> None:
        """An application is given these."""
        if not self.on:
            return
        for portion in portions:
            block, base = portion.block, int(portion.block.catenation)
            spans: Sequence[Span] = ((base, int(block.last())),)
            if spans[0][1] - base + 1 != block.count:
                spans = list(Spans((base + offset, base + offset) for offset in block.offsets()))
            first = spans[0][0]
            self.add(
                Trace(
                    kind=TraceKind.RELEASED,
                    at=now,
                    about=about,
                    source_id=block.publisher,
                    life=block.incarnation,
                    first=first,
                    last=spans[-1][1],
                    count=block.count,
                    keeper=portion.repository,
                    start=portion.first,
                    end=portion.last,
                    subscriber=subscriber,
                    size=len(block.frame),
                    born=block.time,
                    body=numbers_body(first, spans),
                )
            )

    def acknowledge(self, now: int, about: str, subscriber: str, stream: StreamId, spans: Sequence[Span]) -> None:
        """An application is done with these."""
        if self.on:
            first, last = spans[0][0], spans[-1][1]
            self.add(
                Trace(
                    kind=TraceKind.ACKNOWLEDGED,
                    at=now,
                    about=about,
                    source_id=stream[0],
                    life=stream[1],
                    first=first,
                    last=last,
                    count=sum(high - low + 1 for low, high in spans),
                    subscriber=subscriber,
                    body=numbers_body(first, spans),
                )
            )

    def conclude(self, now: int) -> None:
        """The node ends in good order: say so, and how many traces it has told."""
        self.add(Trace(kind=TraceKind.ENDED, at=now, count=self.told + len(self.rows)))

    def take(self, now: int) -> list[Trace]:
        """Take away and return all there is, and that some is missing if it is so."""
        rows = [row.row() if isinstance(row, TraceSum) else row for row in self.rows]
        self.rows = []
        self._end_sums()
        if self.dropped:
            rows.append(Trace(kind=TraceKind.DROPPED, at=now, count=self.dropped))
            self.dropped = 0
        self.told += len(rows)
        return rows
