"""Publishes the traces of a client. Those that may have gone down with a broker are sent again over the next link, and
those that a repository misses when it asks for them.

A trace keeps its number when it is sent again, so whoever keeps traces has it once.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from stentor.machine import SECOND
from stentor.model.control import RepositoryNak
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, topic_id
from stentor.model.reports.trace import SCHEMA, TRACE, Trace, to_columns
from stentor.model.stored.span import Spans
from stentor.protocols.delivery.besteffort.publish_queue import PublishQueue
from stentor.wire import block as wire
from stentor.wire.block import Block, Origin

_IN_DOUBT = 5 * SECOND  # a broker that dies takes with it what it got so long ago at most; after that it was passed on
_REMEMBERED = 256 << 10  # bytes of older ones: a gap shows when the next ones come, of a quiet node after hours
_AGAIN = SECOND // 2  # between two answers to a repository: an earlier request of it may have been slow
_MOST_ASKING = 64  # repositories that are answered within that time: anybody may write letters
_FRAME_ROWS = 512


class TracePublisher:
    """Numbers traces from 1, and remembers those of the last seconds, or more while they are few."""

    def __init__(self, name: str, incarnation: Incarnation) -> None:
        self._name, self._incarnation = name, incarnation
        self._next = 1
        self._recent: deque[tuple[int, Block]] = deque()
        self._size = 0  # Invariant: the bytes of all frames in `_recent`
        self._answered: dict[str, int] = {}  # when each repository was last answered, the latest one last

    def send(self, now: int, offset: int, publisher: PublisherId, rows: Sequence[Trace], drafts: PublishQueue) -> None:
        """Put rows among what waits to leave; `offset` is how far clocks on walls are ahead of ours."""
        for block in self._encode(now + offset, offset, publisher, rows):
            self._recent.append((now, block))
            self._size += len(block.frame)
            drafts.forward(TRACE, block)
        while self._size > _REMEMBERED and self._recent[0][0] < now - _IN_DOUBT:
            _, block = self._recent.popleft()
            self._size -= len(block.frame)

    def _encode(self, time: int, offset: int, publisher: PublisherId, rows: Sequence[Trace]) -> Iterable[Block]:
        columns, bodies = to_columns(rows, self._name, offset)
        for start in range(0, len(bodies), _FRAME_ROWS):
            part = slice(start, start + _FRAME_ROWS)
            origin = Origin(topic_id(TRACE), publisher, self._incarnation, CatenationNumber(self._next), time)
            self._next += len(bodies[part])
            yield Block(wire.encode(origin, SCHEMA, [column[part] for column in columns], bodies[part]), SCHEMA)

    def send_again(self, drafts: PublishQueue) -> None:
        """There is another link: what was sent last may have been lost with the former one."""
        for at, block in self._recent:
            if at >= self._recent[-1][0] - _IN_DOUBT:
                drafts.forward(TRACE, block)

    def answer(self, now: int, nak: RepositoryNak) -> list[Block]:
        """Return what a repository misses and we remember. It has heard later ones, so as events they would be late."""
        while self._answered and next(iter(self._answered.values())) <= now - _AGAIN:
            del self._answered[next(iter(self._answered))]
        is_answered = nak.topic in self._answered or len(self._answered) == _MOST_ASKING
        if nak.incarnation != self._incarnation or is_answered:
            return []
        self._answered[nak.topic] = now
        missing = Spans(nak.missing)
        return [block for _, block in self._recent if missing.within(block.catenation, block.last())]

    @property
    def remembered(self) -> Spans:
        """The numbers of the traces that can be sent again."""
        return Spans((block.catenation, block.last()) for _, block in self._recent)
