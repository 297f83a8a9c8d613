"""The streams of a topic at one repository: which of them there are, and which need attention.

A tick looks at the streams that are unsettled, and at no other: a topic whose publishers have had a million lives costs
as much as one whose publishers have had one.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

from stentor.model.stored.record import RecordHeader, StreamId
from stentor.model.stored.span import Spans
from stentor.model.stored.stream_ranges import StreamRanges
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.storing.unknown_publishers import UnknownPublishers

MOST_LIVES = 4096  # of one publisher, with events that are stored: it must not make a stream with every letter
_NO_LIVES: dict[int, PublisherStream] = {}


class Streams(dict[StreamId, PublisherStream]):
    """Streams come into being when they are first spoken of by those who may: publishers that may publish, members of
    the bundle and the ledger. Those of others are with the strangers until then. Invariants, asserted by `validate`:

    a stream that is not in `unsettled` is settled; `_lives` holds the same streams, by publisher; `unsettled` and
    `collected` hold no others; no stream is a stranger's as well; no two reservations share a sequence number
    """

    def __init__(self, is_closed: Callable[[StreamId], bool] = lambda _: False) -> None:
        """`is_closed` tells whether nothing more of a life will be stored."""
        self.is_closed = is_closed
        self.strangers = UnknownPublishers()
        # Streams of which something is awaited, or which have changed since `drop_settled` looked at them.
        self.unsettled: dict[PublisherStream, None] = {}
        # nothing of these was left when `drop_settled` last looked at them
        self.collected: dict[PublisherStream, None] = {}
        # Of these somebody has more than before: their publishers may be owed an acknowledgement.
        self._touched: dict[PublisherStream, None] = {}
        self.first = 1  # sequence number; everything before it is forgotten
        self._lives: dict[int, dict[int, PublisherStream]] = {}  # by publisher and incarnation

    def __missing__(self, key: StreamId) -> PublisherStream:
        stream = self[key] = self.strangers.take(key) or PublisherStream(key)
        self._lives.setdefault(key[0], {})[key[1]] = stream
        self.unsettled[stream] = None
        return stream

    def __delitem__(self, key: StreamId) -> None:
        stream = self[key]
        super().__delitem__(key)
        self.unsettled.pop(stream, None)
        self.collected.pop(stream, None)
        lives = self._lives[key[0]]
        del lives[key[1]]
        if not lives:
            del self._lives[key[0]]

    def find(self, key: StreamId) -> PublisherStream | None:
        """Return the stream of a life of a publisher that may publish, as one that changes; None if the life is closed
        or the publisher has too many.
        """
        if self.is_closed(key):
            return None
        if key not in self and len(self.lives(key[0])) >= MOST_LIVES:
            return None
        stream = self[key]
        self.unsettle(stream)
        return stream

    def unsettle(self, stream: PublisherStream) -> None:
        """Look at a stream until nothing of it is awaited."""
        self.unsettled[stream] = None

    def touch(self, stream: PublisherStream) -> None:
        """Note that somebody has more of a stream than before, or must be told again what there is."""
        self._touched[stream] = None

    def take_touched(self) -> dict[PublisherStream, None]:
        """Remove and return the streams of which somebody has more than before."""
        touched, self._touched = self._touched, {}
        return touched

    def lives(self, publisher: int) -> dict[int, PublisherStream]:
        """Return the streams of a publisher, by incarnation."""
        return self._lives.get(publisher, _NO_LIVES)

    def newest(self, key: StreamId, told: tuple[int, int]) -> tuple[int, int]:
        """Return this life of a publisher, else the newest, that begins with something stored, and up to where it has
        no gap: what comes after one was never acknowledged. The newest of those that are closed is `told`.
        """
        lives = self.lives(key[0])
        for life in (key[1], *sorted(lives, reverse=True)):
            known = lives[life].known if life in lives else 0
            if known:
                return (life, known) if life == key[1] else max(told, (life, known))
        return told

    def is_over(self, key: StreamId) -> bool:
        """Return whether nothing is left of a life, and nothing more of it will be stored."""
        if not self.is_closed(key):
            return False
        stream = self.get(key)
        return stream is None or self.is_collected(stream)

    def is_collected(self, stream: PublisherStream) -> bool:
        """Return whether nothing of a stream is left, neither what was stored in order nor what came later."""
        waits = stream.reserved or stream.waiting
        return stream.floor >= stream.end and stream.last_sequence < self.first and not waits

    def is_dropped(self, line: RecordHeader) -> bool:
        """Return whether a record is forgotten and its life is closed: every repository had forgotten it by then, and
        those that have dropped the life do not say so any more.
        """
        return line.last <= self[line.stream].floor and self.is_closed(line.stream)

    def is_forgotten(self, line: RecordHeader) -> bool:
        """Return whether all that this line tells of is forgotten here, or of a life that is over."""
        stream = self.get(line.stream)
        return self.is_over(line.stream) or (stream is not None and line.last <= stream.floor)

    def current(self, held: Iterable[StreamRanges]) -> list[StreamRanges]:
        """Return those of these that are not about lives that are over."""
        return [each for each in held if not self.is_over((each.publisher, each.incarnation))]

    @property
    def event_count(self) -> int:
        """How many events have a durable record here that is not forgotten."""
        return sum(last - first + 1 for stream in self.values() for first, last in stream.kept)

    def earliest(self, done: Mapping[StreamId, Spans]) -> int | None:
        """Return the sequence number of the first record of which somebody who is done with these lacks something."""
        nothing = Spans()
        found = [stream.earliest(done.get(key, nothing)) for key, stream in self.items()]
        return min((sequence for sequence in found if sequence is not None), default=None)

    def behind(self, done: Mapping[StreamId, Spans]) -> int:
        """Return how many of the events that are stored are not among these."""
        nothing = Spans()
        return sum(
            end - start + 1
            for key, stream in self.items()
            for first, last in stream.stored.within(stream.floor + 1, stream.stored.last)
            for start, end in done.get(key, nothing).missing(first, last)
        )

    def forget_before(self, first: int) -> None:
        """Note that everything before this sequence number is forgotten."""
        self.first = first

    def tops(self) -> tuple[tuple[int, int, int], ...]:
        """All there is now, as a frontier."""
        over = self.is_over
        return tuple(
            (*key, stream.highest_numbered)
            for key, stream in sorted(self.items())
            if stream.highest_numbered and not over(key)
        )

    def floors(self, others: bool = False) -> tuple[tuple[int, int, int], ...]:
        """All that is forgotten, here or also by others, as a frontier."""
        floors = {
            key: max(stream.floor, *stream.peer_floors.values(), 0) if others else stream.floor
            for key, stream in self.items()
            if not self.is_over(key)
        }
        return tuple((*key, floor) for key, floor in sorted(floors.items()) if floor)

    def drop_settled(self) -> None:
        """Leave those alone of which nothing is awaited."""
        for stream in [each for each in self.unsettled if each.is_settled]:
            del self.unsettled[stream]
            stream.lost = 0
            if self.is_collected(stream):
                self.collected[stream] = None
            else:
                self.collected.pop(stream, None)

    def validate(self) -> None:
        for key, stream in self.items():
            assert stream in self.unsettled or stream.is_settled, f"nobody looks at {key}"
            assert self._lives[key[0]][key[1]] is stream, f"{key} is not among the lives of its publisher"
            stream.validate()
        assert sum(map(len, self._lives.values())) == len(self), "a life without a stream"
        assert all(self.get(each.id) is each for each in (*self.unsettled, *self.collected)), "an abandoned stream"
        assert not self.keys() & self.strangers.streams.keys(), "a stranger that is known"
        self.strangers.validate()
        reserved = sorted((at, last - first) for stream in self.values() for first, last, at in stream.reserved)
        for (before, more), (at, _) in pairwise(reserved):
            assert before + more < at, f"sequence number {at} is reserved twice"
