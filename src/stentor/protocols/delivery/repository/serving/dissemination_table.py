"""The dissemination table: which of the stored events each registered subscriber must get and has not acknowledged.

How far a subscriber is, is told in numbers of streams, which are the same at every repository. So any repository of
the bundle can go on where another one stopped. A sync is the same in this repository's own numbers.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from hashlib import blake2b
from operator import xor

import msgspec
import numpy as np
from numpy.typing import NDArray

from stentor.matching.pairs.pair_index import PairIndex
from stentor.model.control import HandedOut, SequenceRun, StreamRanges
from stentor.model.filter import Filter
from stentor.model.ids import fingerprint
from stentor.model.stored.record import Record, RecordHeader, RecordKind, StreamId
from stentor.model.stored.span import Spans
from stentor.protocols.delivery.repository.registry import Frontier, SubscriptionRecord
from stentor.protocols.delivery.repository.serving.record_audience import pack, unpack
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.storing.streams import Streams
from stentor.wire.block import Block
from stentor.wire.block_view import BlockView


class ProgressRecord(msgspec.Struct, array_like=True, kw_only=True):
    """What is written down of a subscriber."""

    slot: int
    epoch: int
    sync: int
    done: tuple[StreamRanges, ...]
    served: bool = True
    until: int = 0
    needs: tuple[tuple[int, int, int], ...] = ()
    handed: HandedOut = HandedOut(given=None)  # one that was written without it may have been handed anything
    registration: int = 0


_progress = msgspec.msgpack.Decoder(ProgressRecord)


class SubscriberProgress:
    """A registered subscriber: its subscription, and how far it is."""

    __slots__ = (
        "_digest",
        "_news",
        "counted",
        "done",
        "epoch",
        "filter",
        "former",
        "handed",
        "name",
        "needs",
        "notice_group",
        "registration",
        "renewed",
        "served",
        "slot",
        "stale",
        "steerer",
        "sync",
        "until",
        "where",
    )

    def __init__(self, name: str, slot: int, epoch: int, where: str) -> None:
        self.name = name
        self.registration = 0  # of the name, if it is not its first
        self.slot = slot
        self.epoch = epoch  # records after this sequence number were matched with its filter when they were stored
        self.sync = 0  # everything up to this sequence number is done with
        self.served = True  # events are stored for it: it is in the unit that we serve, or was and has not got all
        self.until = 0  # if it left the unit: what it must have before it is not served any more
        self.needs: dict[StreamId, int] = {}  # what it must have got from elsewhere before we can serve it
        self.steerer = ""  # the repository that steers it, as far as we know
        self.handed = HandedOut()  # what its lives may have been handed
        # Numbers that it has acknowledged, or that are not for it. Invariants, asserted by `validate`: news ⊆ done, and
        # _digest is that of what it is done with now
        self.done: dict[StreamId, Spans] = {}
        self.renewed = False  # whether all of that is to be told as news
        self._news: dict[StreamId, Spans] = {}  # … since that was last written down
        self._digest: int | None = None  # of what it is done with
        self.counted = 0  # its digest when the table last looked
        self.stale: dict[SubscriberProgress, None] = {}  # the table's, in which it enters itself when that changes
        self.bind(where)

    def validate(self) -> None:
        for stream, spans in self._news.items():
            known = self.done.get(stream, Spans())
            assert all(known.covers(*span) for span in spans), f"news of {stream} that it is not done with"
        kept, self._digest = self._digest, None
        assert kept in (None, self.digest), "the digest of what it was done with before"
        self._digest = kept

    def bind(self, where: str, changes: Iterable[tuple[str, Frontier]] = ()) -> None:
        """Take what it wants, and what it wanted before up to some numbers."""
        self.where = where
        self.filter = Filter(where) if where else None
        self.former = [
            (
                Filter(before) if before else None,
                {(publisher, incarnation): last for publisher, incarnation, last in upto},
            )
            for before, upto in changes
        ]
        self.notice_group = fingerprint("chorus", where) >> 1 | 1  # a number for all who want the same

    def advance(self, done: Iterable[StreamRanges]) -> bool:
        """Note that it is done with these; return whether that is news."""
        news = False
        for held in done:
            stream = held.publisher, held.incarnation
            for first, last in ((1, held.floor), *held.spans):
                if not self._known(stream).covers(first, last):
                    self.mark(stream, first, last)
                    news = True
        return news

    def mark(self, stream: StreamId, first: int, last: int) -> None:
        """Note that these are acknowledged, or are not for it."""
        self._change()
        self._known(stream).add(first, last)
        self._news.setdefault(stream, Spans()).add(first, last)

    def learn(self, handed: HandedOut) -> bool:
        """Take in what its lives may have been handed; return whether that is news."""
        newest = self.handed.newest(handed)
        if newest == self.handed:
            return False
        self.handed = newest
        self._change()
        return True

    def abandon(self, stream: StreamId) -> None:
        """Forget what it has of a stream: there will be nothing more of it."""
        self.needs.pop(stream, None)
        if self.done.pop(stream, None) is not None:
            self._news.pop(stream, None)
            self._change()

    def abandon_all(self, is_over: Callable[[StreamId], bool]) -> None:
        """Forget what it has of the streams that are over."""
        for stream in [each for each in (*self.done, *self.needs) if is_over(each)]:
            self.abandon(stream)

    def _change(self) -> None:
        self._digest = None
        self.stale[self] = None

    def _known(self, stream: StreamId) -> Spans:
        return self.done.setdefault(stream, Spans())

    def take_news(self) -> tuple[StreamRanges, ...]:
        """Remove and return what it is done with since this was last asked."""
        news, self._news, self.renewed = self._news, {}, False
        return tuple(StreamRanges(*stream, 0, spans.pairs()) for stream, spans in sorted(news.items()))

    def renew(self) -> None:
        """Tell all that it is done with as news again."""
        self.renewed = True
        self._news = {stream: spans.copy() for stream, spans in self.done.items()}

    def upto(self, stream: StreamId) -> int:
        """Return the number up to which it is done with all of a stream."""
        done = self.done.get(stream)
        return done.upto() if done is not None else 0

    def misses(self, stream: PublisherStream, last: int) -> bool:
        """Return whether it is not done with all numbers of a stream up to this one, whoever has them."""
        gaps = self.done.get(stream.id, Spans()).missing(1, last)
        return any(stream.voids.missing(*gap) for gap in gaps)

    def has(self, line: RecordHeader) -> bool:
        """Return whether it is done with all of a record."""
        done = self.done.get(line.stream)
        return done is not None and done.covers(line.first, line.last)

    def lacks(self, stream: PublisherStream, last: int) -> bool:
        """Return whether it is not done with all that there is of a stream up to a number."""
        done = self.done.get(stream.id, Spans())
        return any(done.missing(*span) for span in stream.stored.within(stream.floor + 1, last))

    def rows(self, record: Record, block: Block | None) -> NDArray[np.intp]:
        """Return which events of a record it must still get. `block` is needed for records from before its epoch."""
        line = record.line
        if line.kind is not RecordKind.EVENTS or self.has(line):
            return _NONE
        if line.sequence > self.epoch:
            bits = record.audience.get(self.slot)
            if bits is None:
                return _NONE
            rows = np.flatnonzero(unpack(bits, line.length))
        else:
            rows = self._evaluate(block, line)
        done = self.done.get(line.stream)
        if done is not None:
            for first, last in done.within(line.first, line.last):
                rows = rows[(rows < first - line.first) | (rows > last - line.first)]
        return rows

    def _evaluate(self, block: Block | None, line: RecordHeader) -> NDArray[np.intp]:
        rows = _choose(self.filter, block, line.length)
        for before, upto in reversed(self.former):
            count = upto.get(line.stream, 0) - line.first + 1  # of these it wanted something else
            if count > 0:
                early = _choose(before, block, line.length)
                rows = np.concatenate((early[early < count], rows[rows >= count]))
        return rows

    def follows(self, record: Record, audience: bytes | None) -> bool:
        """Return whether it must get just these events of a record."""
        line = record.line
        done = self.done.get(line.stream)
        return (
            line.sequence > self.epoch
            and record.audience.get(self.slot) == audience
            and (done is None or done.last < line.first)
        )

    def note(self) -> bytes:
        """Return what is to be written down of it."""
        needs = tuple((*stream, number) for stream, number in sorted(self.needs.items()))
        progress = ProgressRecord(
            slot=self.slot,
            epoch=self.epoch,
            sync=self.sync,
            done=self.reached(),
            served=self.served,
            until=self.until,
            needs=needs,
            handed=self.handed,
            registration=self.registration,
        )
        return msgspec.msgpack.encode(progress)

    def reached(self) -> tuple[StreamRanges, ...]:
        """Return what it is done with, to be told to others."""
        return tuple(
            StreamRanges(*stream, spans.upto(), tuple(spans.within(spans.upto() + 1, spans.last)))
            for stream, spans in sorted(self.done.items())
        )

    @property
    def digest(self) -> int:
        """The same for whoever knows the same of it."""
        if self._digest is None:
            data = msgspec.msgpack.encode((self.name, self.reached(), self.handed))
            self._digest = int.from_bytes(blake2b(data, digest_size=7).digest(), "little")
        return self._digest

    @classmethod
    def recall(cls, name: str, known: SubscriptionRecord, note: bytes) -> "SubscriberProgress":
        progress = _progress.decode(note)
        subscriber = cls(name, progress.slot, progress.epoch, known.where)
        subscriber.bind(known.where, known.changes)
        subscriber.sync = progress.sync
        subscriber.served, subscriber.until = progress.served, progress.until
        subscriber.needs = {(publisher, incarnation): number for publisher, incarnation, number in progress.needs}
        subscriber.handed, subscriber.registration = progress.handed, progress.registration
        subscriber.advance(progress.done)
        subscriber.take_news()
        return subscriber


def _choose(where: Filter | None, block: Block | None, count: int) -> NDArray[np.intp]:
    if where is None or block is None:
        return np.arange(count)
    return np.flatnonzero(where.select(block.column, count))


_NONE: NDArray[np.intp] = np.empty(0, np.intp)


def run_of(line: RecordHeader) -> SequenceRun:
    return SequenceRun(line.sequence, line.length, line.publisher, line.incarnation, line.first)


def runs_of(line: RecordHeader, rows: NDArray[np.intp]) -> list[SequenceRun]:
    """Return rows of a record as few runs as possible."""
    if len(rows) == line.length:
        return [run_of(line)]
    if not len(rows):
        return []
    starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    lengths = np.diff(starts, append=len(rows)).tolist()
    return [
        SequenceRun(line.sequence + row, length, line.publisher, line.incarnation, line.first + row)
        for row, length in zip(rows[starts].tolist(), lengths, strict=True)
    ]


class DisseminationTable:
    """All destinations of a topic, and which events are for whom. Invariants, asserted by `validate`:

    `names` has every destination by its slot, and nobody else; who is served is in `_whole` or in the index, each once;
    `digest` is the exclusive or of those of all
    """

    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self.destinations: dict[str, SubscriberProgress] = {}
        self._slots = self._served = 0
        self.names: dict[int, str] = {}  # by slot
        self._changed: dict[str, None] = {}  # who came, went or wants something else, since somebody looked
        self._progressed: dict[str, None] = {}  # whose progress is to be written
        self._whole: dict[int, None] = {}  # slots that want everything
        self._index = PairIndex()
        self._digest = 0  # of what was counted of all
        self._stale: dict[SubscriberProgress, None] = {}  # whose digest has changed since

    def validate(self) -> None:
        everyone = self.destinations.values()
        for progress in everyone:
            progress.validate()
        assert self.names == {each.slot: each.name for each in everyone}, "slots and names differ"
        assert len(self.names) == len(self.destinations), "a slot that two have"
        assert max(self.names, default=0) <= self._slots, "a slot that will be given again"
        served = [each for each in everyone if each.served]
        assert self._whole.keys() == {each.slot for each in served if each.filter is None}, "who wants everything"
        assert (self._served, len(self._index)) == (len(served), len(served) - len(self._whole)), "who is served"
        assert self.digest == reduce(xor, (each.digest for each in everyone), 0), "the digest of other progress"

    def note_progress(self, name: str) -> None:
        """Have the progress of a subscriber written with the next commit."""
        self._progressed[name] = None

    @property
    def progressed(self) -> Iterable[str]:
        """The subscribers whose progress is to be written."""
        return self._progressed

    def take_progressed(self) -> list[SubscriberProgress]:
        """Remove and return the subscribers whose progress is to be written."""
        names, self._progressed = self._progressed, {}
        return [self.destinations[name] for name in names if name in self.destinations]

    def take_changed(self) -> dict[str, None]:
        """Remove and return who came, went or wants something else."""
        changed, self._changed = self._changed, {}
        return changed

    def change_all(self) -> None:
        """Have all that subscribers want told again."""
        self._changed.update(dict.fromkeys(self.destinations))

    def recall(self, name: str, known: SubscriptionRecord, note: bytes) -> SubscriberProgress:
        progress = SubscriberProgress.recall(name, known, note)
        self._changed[name] = None
        self._enter(progress)
        return progress

    def serve(self, progress: SubscriberProgress, served: bool) -> None:
        """Store events for a subscriber from now on, or no longer."""
        self._leave(progress)
        progress.served = served
        self._enter(progress)

    def add(self, name: str, known: SubscriptionRecord, epoch: int, served: bool) -> SubscriberProgress:
        """Enter a new subscriber."""
        progress = SubscriberProgress(name, self._slots + 1, epoch, known.where)
        progress.bind(known.where, known.changes)
        progress.served, progress.registration = served, known.registration
        self._changed[name] = None
        self._enter(progress)
        return progress

    def change(self, progress: SubscriberProgress, known: SubscriptionRecord, epoch: int) -> None:
        """Take another filter of a known subscriber: what is there by now must be looked at again."""
        self._leave(progress)
        progress.bind(known.where, known.changes)
        progress.epoch = epoch
        self._changed[progress.name] = None
        self._enter(progress)

    def remove(self, name: str) -> None:
        progress = self.destinations.pop(name, None)
        if progress is not None:
            self._changed[name] = None
            del self.names[progress.slot]
            self._leave(progress)
            self._stale.pop(progress, None)
            self._digest ^= progress.counted

    def _enter(self, progress: SubscriberProgress) -> None:
        self.destinations[progress.name] = progress
        self.names[progress.slot] = progress.name
        self._slots = max(self._slots, progress.slot)
        progress.stale = self._stale
        self._stale[progress] = None
        if not progress.served:
            return
        self._served += 1
        if progress.filter is None:
            self._whole[progress.slot] = None
        else:
            self._index.add(progress.filter, progress.slot)

    def _leave(self, progress: SubscriberProgress) -> None:
        if not progress.served:
            return
        self._served -= 1
        if progress.filter is None:
            del self._whole[progress.slot]
        else:
            self._index.remove(progress.slot)

    @property
    def digest(self) -> int:
        """The same for repositories that know the same of all subscribers. It costs by whose progress has changed."""
        for progress in self._stale:
            self._digest ^= progress.counted ^ progress.digest
            progress.counted = progress.digest
        self._stale.clear()
        return self._digest

    def audience(self, block: Block) -> Mapping[int, bytes]:
        """Return the subscribers that new events are for, by slot."""
        found: dict[int, bytes] = dict.fromkeys(self._whole, b"")
        if len(self._whole) == self._served:
            return found
        if block.count == 1:
            for slot in self._index.match_one(block.rows()[0]):
                found[int(slot)] = b""
            return found
        events, slots = self._index.match_pairs(BlockView([block]))
        for slot in np.unique(slots).tolist():
            wanted = np.zeros(block.count, np.bool_)
            wanted[events[slots == slot]] = True
            found[slot] = pack(wanted)
        return found
