"""Publishes the traces of a client. Those that may have gone down with a broker are sent again over the next link.

A trace keeps its number when it is sent again, so whoever keeps traces has it once.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from stentor.machine import SECOND
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, topic_id
from stentor.model.reports.trace import SCHEMA, TRACE, Trace, to_columns
from stentor.protocols.delivery.besteffort.publish_queue import PublishQueue
from stentor.wire import block as wire
from stentor.wire.block import Block, Origin

_IN_DOUBT = 5 * SECOND  # a broker that dies takes with it what it got so long ago at most; after that it was passed on
_FRAME_ROWS = 512


class TracePublisher:
    """Numbers traces from 1, and remembers those of the last seconds."""

    def __init__(self, name: str, incarnation: Incarnation) -> None:
        self._name, self._incarnation = name, incarnation
        self._next = 1
        self._recent: deque[tuple[int, Block]] = deque()

    def send(self, now: int, offset: int, publisher: PublisherId, rows: Sequence[Trace], drafts: PublishQueue) -> None:
        """Put rows among what waits to leave; `offset` is how far clocks on walls are ahead of ours."""
        while self._recent and self._recent[0][0] < now - _IN_DOUBT:
            self._recent.popleft()
        for block in self._encode(now + offset, offset, publisher, rows):
            self._recent.append((now, block))
            drafts.forward(TRACE, block)

    def _encode(self, time: int, offset: int, publisher: PublisherId, rows: Sequence[Trace]) -> Iterable[Block]:
        columns, bodies = to_columns(rows, self._name, offset)
        for start in range(0, len(bodies), _FRAME_ROWS):
            part = slice(start, start + _FRAME_ROWS)
            origin = Origin(topic_id(TRACE), publisher, self._incarnation, CatenationNumber(self._next), time)
            self._next += len(bodies[part])
            yield Block(wire.encode(origin, SCHEMA, [column[part] for column in columns], bodies[part]), SCHEMA)

    def send_again(self, drafts: PublishQueue) -> None:
        """There is another link: what was sent last may have been lost with the former one."""
        for _, block in self._recent:
            drafts.forward(TRACE, block)
