"""A trail: the traces that a node has not told yet. Machines add to it, whoever composes them tells it."""

from collections.abc import Iterable, Sequence

from stentor.model.record import StreamId
from stentor.model.span import Span, Spans
from stentor.model.trace import Trace, TraceKind, numbers_body
from stentor.protocols.delivery.dialogue import Portion

_MOST = 65_536  # traces that wait for a link


class Trail:
    """Traces in the order in which things happened; nothing while they are off."""

    __slots__ = ("dropped", "on", "rows", "told")

    def __init__(self, on: bool = True) -> None:
        self.on = on
        self.rows: list[Trace] = []
        self.told = 0
        self.dropped = 0

    def switch(self, on: bool) -> None:
        self.on = on
        if not on:
            self.rows, self.dropped = [], 0

    def add(self, row: Trace) -> None:
        """One more; what goes on where the last one ended is one with it."""
        if not self.on:
            return
        rows = self.rows
        if rows and (joined := rows[-1].joined(row)) is not None:
            rows[-1] = joined
        elif len(rows) < _MOST:
            rows.append(row)
        else:
            self.dropped += 1

    def publish(self, now: int, about: str, source: str, stream: StreamId, span: Span, size: int, born: int) -> None:
        """A publisher has sent these."""
        first, last = span
        self.add(
            Trace(
                kind=TraceKind.PUBLISHED, at=now, about=about, source=source, source_id=stream[0], life=stream[1],
                first=first, last=last, count=last - first + 1, size=size, born=born,
            )
        )  # fmt: skip

    def release(self, now: int, about: str, subscriber: str, portions: Iterable[Portion]) -> None:
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
                    kind=TraceKind.RELEASED, at=now, about=about, source_id=block.publisher, life=block.incarnation,
                    first=first, last=spans[-1][1], count=block.count, keeper=portion.repository, start=portion.first,
                    end=portion.last, subscriber=subscriber, size=len(block.frame), born=block.time,
                    body=numbers_body(first, spans),
                )
            )  # fmt: skip

    def acknowledge(self, now: int, about: str, subscriber: str, stream: StreamId, spans: Sequence[Span]) -> None:
        """An application is done with these."""
        if self.on:
            first, last = spans[0][0], spans[-1][1]
            self.add(
                Trace(
                    kind=TraceKind.ACKNOWLEDGED, at=now, about=about, source_id=stream[0], life=stream[1], first=first,
                    last=last, count=sum(high - low + 1 for low, high in spans), subscriber=subscriber,
                    body=numbers_body(first, spans),
                )
            )  # fmt: skip

    def conclude(self, now: int) -> None:
        """The node ends in good order: say so, and how many traces it has told."""
        self.add(Trace(kind=TraceKind.ENDED, at=now, count=self.told + len(self.rows)))

    def take(self, now: int) -> list[Trace]:
        """All there is, and that some is missing if it is so."""
        rows, self.rows = self.rows, []
        if self.dropped:
            rows.append(Trace(kind=TraceKind.DROPPED, at=now, count=self.dropped))
            self.dropped = 0
        self.told += len(rows)
        return rows
