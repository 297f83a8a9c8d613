"""Unknown publishers: what publishers of whom a repository has not heard have sent, kept for a while and within bounds.

The registration of a publisher and its first events come from different brokers, so events may come first. A repository
keeps some of them until it hears of their publisher. Anybody can send such events, so there is a budget for each
publisher and one for all; what exceeds it is dropped, and comes again once the publisher is known: from its publisher,
or from a repository that has it.
"""

from collections import Counter

from stentor.model.stored.record import StreamId
from stentor.model.stored.span import Span
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.wire.block import Block

MOST_STREAMS = 256  # of all strangers: a registration is under way for moments, and hardly ever several at once
MOST_LIVES = 4  # of one stranger: it has one life, and perhaps resumes another one
_MOST_BYTES = 16 << 20  # of all strangers
_MOST_BYTES_OF_ONE = 4 << 20  # as much as a known publisher's stream may hold back
_MOST_PIECES = 64  # ranges of numbers in one order, or of a stream: in order, there is one


class UnknownPublishers:
    """The streams of publishers that are unknown here. Invariants, asserted by `validate`:

    len(streams) <= MOST_STREAMS, of one publisher MOST_LIVES; held_back is the sum of its streams', and is at most
    _MOST_BYTES; nothing of a stranger is stored
    """

    def __init__(self) -> None:
        self.streams: dict[StreamId, PublisherStream] = {}  # the longest known first
        self.held_back = 0  # bytes

    def take(self, key: StreamId) -> PublisherStream | None:
        """Remove a stream, because its publisher is known by now, and return it."""
        stream = self.streams.pop(key, None)
        if stream is not None:
            self.held_back -= stream.held_back
        return stream

    def hold(self, now: int, block: Block, ordered: bool) -> bool:
        """Keep a block; return False if it was dropped."""
        key, size = (int(block.publisher), int(block.incarnation)), len(block.frame)
        mine = [stream.held_back for stream in self.streams.values() if stream.id[0] == key[0]]
        if sum(mine) + size > _MOST_BYTES_OF_ONE:
            return False
        stream = self._stream(key)
        if stream is None:
            return False
        stream.changed_at = stream.publisher_heard_at = now
        if ordered and stream.announced.pieces < _MOST_PIECES:
            stream.announced.add(block.catenation, block.last())
        before = stream.held_back
        is_held = stream.hold_back(block)
        self.held_back += stream.held_back - before
        while self.held_back > _MOST_BYTES:
            self._drop_oldest()
        return is_held

    def order(self, now: int, key: StreamId, first: int, last: int, acknowledged: tuple[Span, ...]) -> None:
        """Remember which numbers a stranger says that it has sent."""
        stream = self._stream(key) if len(acknowledged) <= _MOST_PIECES else None
        if stream is not None and max(stream.announced.pieces, stream.acknowledged.pieces) < _MOST_PIECES:
            stream.changed_at = stream.publisher_heard_at = now
            stream.announced.add(first, last)
            stream.acknowledged.update(acknowledged)

    def _stream(self, key: StreamId) -> PublisherStream | None:
        """Return the stream of this life of a stranger; None if the stranger has had too many lives."""
        stream = self.streams.get(key)
        if stream is None:
            if sum(publisher == key[0] for publisher, _ in self.streams) >= MOST_LIVES:
                return None
            if len(self.streams) >= MOST_STREAMS:
                self._drop_oldest()
            stream = self.streams[key] = PublisherStream(key)
        return stream

    def _drop_oldest(self) -> None:
        self.take(next(iter(self.streams)))

    def validate(self) -> None:
        assert len(self.streams) <= MOST_STREAMS
        assert max(Counter(publisher for publisher, _ in self.streams).values(), default=0) <= MOST_LIVES
        assert not any(stream.highest_numbered or stream.stored for stream in self.streams.values()), (
            "a stranger's is stored"
        )
        assert self.held_back == sum(stream.held_back for stream in self.streams.values()) <= _MOST_BYTES
