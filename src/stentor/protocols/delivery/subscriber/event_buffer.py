"""Event buffer: events that wait at a subscriber until it is told that they are stored, or until it is their turn."""

from collections.abc import Iterable
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from stentor.model.control import StreamRanges
from stentor.model.stored.record import StreamId
from stentor.model.stored.span import Span, Spans
from stentor.protocols.delivery.ordered_queue import OrderedQueue
from stentor.protocols.delivery.retry_timer import NEVER
from stentor.protocols.delivery.subscriber.persistent_chain import ChainRun, Numbers, rank, to_array, to_spans
from stentor.wire.block import Block
from stentor.wire.head import HEADER_SIZE, SPARSE

_MOST_SOURCES = 512  # that are remembered although nothing of them is under way
_MOST_PIECES = 8192  # of a source's numbers: a filter leaves many gaps, and those that are old are not told apart
_LOOK_AT = 8  # of them when one is to be forgotten


def numbers_of(block: Block) -> Numbers:
    if block.flags & SPARSE:
        return np.frombuffer(block.frame, "<u2", block.count, HEADER_SIZE).astype(np.int64) + block.catenation
    return range(block.catenation, block.catenation + block.count)


class StreamBuffer:
    """One stream as a subscriber sees it."""

    __slots__ = (
        "acknowledged",
        "blocks",
        "explained",
        "former",
        "held",
        "late",
        "live",
        "pending",
        "released",
        "settled",
        "stream",
        "top",
        "unacked",
    )

    def __init__(self, stream: StreamId) -> None:
        self.stream = stream
        self.blocks: OrderedQueue[Block] = OrderedQueue()
        self.held = 0  # bytes
        self.live = 0  # the last number that came by itself on this link
        self.released = Spans()  # numbers that were released, or that a repository says we are done with
        self.top = 0  # the highest of them
        self.former = Spans()  # those of them that were released under other chains: these may be told again
        self.explained = 0  # the highest number that was told in this chain
        self.pending = 0  # events that were told and are not taken
        self.late = False  # whether some of these come after higher numbers: a repository may find lost ones again
        self.unacked = 0  # events that are released, and the application is not done with
        self.settled = 0  # sequence number of the last that it is done with
        self.acknowledged = 0  # the highest number that it is done with

    def serve(self, wanted: Numbers) -> tuple[Block, Numbers, int] | None:
        """Return a block with the first of these numbers, the rows of as many as it has of them, and how many."""
        number = int(wanted[0])
        for block in self.blocks:
            if block.catenation > number:
                break
            last = block.last()
            if last < number:
                continue
            count = rank(wanted, last)
            have = numbers_of(block)
            if isinstance(have, range) and isinstance(wanted, range):
                start = number - have.start
                return block, range(start, start + count), count
            part, there = to_array(wanted[:count]), to_array(have)
            rows = there.searchsorted(part)
            hits = there[rows] == part
            if not hits[0]:
                continue
            count = count if hits.all() else int(hits.argmin())
            return block, rows[:count], count
        return None

    def missing(self, wanted: Numbers) -> NDArray[np.intp]:
        """Return which of these numbers no block has, and were not released under an earlier chain."""
        there = np.zeros(len(wanted), np.bool_)
        last = int(wanted[-1])
        for start, end in self.former.within(int(wanted[0]), last):
            there[rank(wanted, start - 1) : rank(wanted, end)] = True
        for block in self.blocks.since(int(wanted[0])):
            if block.catenation > last:
                break
            have = numbers_of(block)
            if isinstance(have, range):
                there[rank(wanted, have.start - 1) : rank(wanted, have.stop - 1)] = True
            else:
                there |= np.isin(to_array(wanted), have)
        return np.flatnonzero(~there)

    def recall(self, done: Iterable[Span]) -> None:
        """An earlier life, or this one at another repository, is done with these."""
        for first, last in done:
            self.released.add(first, last)
            self.former.add(first, last)

    def release(self, numbers: Numbers) -> None:
        for first, last in to_spans(numbers):
            self.released.add(first, last)
        self.top = max(self.top, int(numbers[-1]))
        self.unacked += len(numbers)
        if self.released.pieces > _MOST_PIECES:  # what is old enough cannot come any more
            self.released.add(1, list(self.released)[_MOST_PIECES // 2][1])

    def shed(self) -> int:
        """Drop the blocks at the front that nobody needs any more; return the bytes that this frees."""
        freed = 0
        while len(self.blocks) and self._is_over(self.blocks.front):
            freed += len(self.blocks.take().frame)
        self.held -= freed
        return freed

    def _is_over(self, block: Block) -> bool:
        last = block.last()
        return self.released.covers(block.catenation, last) if self.late else last <= self.top

    def covers(self, block: Block) -> bool:
        """Return whether all of a block is here already, or was."""
        if self._is_over(block):
            return True
        last = block.last()
        for other in self.blocks.since(block.catenation):
            if other.catenation > block.catenation:
                break
            if other.last() >= last and (
                not other.flags & SPARSE or np.isin(to_array(numbers_of(block)), to_array(numbers_of(other))).all()
            ):
                return True
        return False

    @property
    def unannounced(self) -> bool:
        """Whether there is something of which the repository has not told yet."""
        return len(self.blocks) > 0 and self.blocks.back.last() > self.explained

    def idle(self, sync: int) -> bool:
        """Return whether nothing of it is under way, so that it may be forgotten."""
        return not (len(self.blocks) or self.pending or self.unacked) and self.settled <= sync


class EventBuffer:
    """All sources, bounded in bytes. What is furthest ahead is dropped first: it can be asked for again."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self.sources: dict[StreamId, StreamBuffer] = {}  # the one that was used last is last
        self._done: dict[StreamId, tuple[Span, ...]] = {}  # numbers of an earlier life, of streams that are no sources
        self.strange: dict[StreamId, int] = {}  # since when there is something that was not told of
        self.next: tuple[StreamId, int] = ((0, 0), 0)  # the event whose turn it is
        self.size = 0
        self.dropped = 0  # blocks for which there was no room
        self.repeated = 0  # blocks that had come before

    def source(self, stream: StreamId, sync: int) -> StreamBuffer:
        source = self.sources.get(stream)
        if source is None:
            if len(self.sources) >= _MOST_SOURCES:
                self._forget(sync)
            source = self.sources[stream] = StreamBuffer(stream)
            source.recall(self._done.pop(stream, ()))
        return source

    @property
    def pending(self) -> int:
        """Events that were told and are not taken."""
        return sum(source.pending for source in self.sources.values())

    def recall(self, done: Iterable[StreamRanges]) -> None:
        """What the repository that begins to steer us says that we are done with."""
        self._done = {}
        for held in done:
            stream, spans = (held.publisher, held.incarnation), ((1, held.floor), *held.spans)
            if stream in self.sources:
                self.sources[stream].recall(spans)
            else:
                self._done[stream] = spans

    def _forget(self, sync: int) -> None:
        for stream in list(islice(self.sources, _LOOK_AT)):
            source = self.sources.pop(stream)
            if not source.idle(sync):
                self.sources[stream] = source  # ask about others next time

    def add(self, now: int, block: Block, sync: int, *, live: bool) -> bool:
        """Keep a block; return False if an explained one had to go for it."""
        stream = (int(block.publisher), int(block.incarnation))
        source = self.sources.get(stream)
        explained = source is not None and block.catenation <= source.explained
        if source is not None:
            if live:
                source.live = max(source.live, block.last())
            if source.covers(block):
                self.repeated += 1
                return True
        if not explained and self.size + len(block.frame) > self._bound:
            self.dropped += 1
            return True
        if source is None:
            source = self.source(stream, sync)
            source.live = block.last() if live else 0
        source.blocks.add(block.catenation, block)
        source.held += len(block.frame)
        self.size += len(block.frame)
        if block.last() > source.explained:
            self.strange.setdefault(stream, now)
        return self.size <= self._bound or self._relieve()

    def _relieve(self) -> bool:
        """Make room; return False if it cost something that the repository has told of."""
        harmless = True
        while self.size > self._bound:
            holders = [each for each in self.sources.values() if len(each.blocks) and not self._is_next(each)]
            if not holders:
                break
            fullest = max(holders, key=lambda each: (each.blocks.back.catenation > each.explained, each.held))
            harmless = harmless and fullest.blocks.back.catenation > fullest.explained
            self._drop(fullest)
            self._look_at(fullest)
        return harmless

    def _is_next(self, source: StreamBuffer) -> bool:
        """Return whether all that is left of a source is needed now."""
        return source.stream == self.next[0] and source.blocks.back.catenation <= self.next[1]

    def _drop(self, source: StreamBuffer) -> None:
        size = len(source.blocks.take_back().frame)
        source.held -= size
        self.size -= size
        self.dropped += 1

    def release(self, source: StreamBuffer, numbers: Numbers) -> None:
        """These are released."""
        source.release(numbers)
        self.taken(source, len(numbers))
        self.sources[source.stream] = self.sources.pop(source.stream)

    def taken(self, source: StreamBuffer, count: int) -> None:
        """So many of those that were told are taken."""
        source.pending -= count
        if not source.pending:
            source.late = False
        self.size -= source.shed()
        self._look_at(source)

    def announce(self, source: StreamBuffer, run: ChainRun) -> None:
        """The repository has told of these."""
        source.late = source.late or run.first <= source.explained or run.first <= source.top
        source.pending += len(run)
        source.explained = max(source.explained, run.last)
        self._look_at(source)

    def _look_at(self, source: StreamBuffer) -> None:
        if source.stream in self.strange and not source.unannounced:
            del self.strange[source.stream]

    def start_over(self, sync: int) -> None:
        """Nobody steers us any more; what came after the sync will be told again, under other numbers."""
        for source in self.sources.values():
            source.settled = 0 if source.settled <= sync else NEVER
            source.former = source.released.copy()
            source.explained = source.pending = 0
            source.late = False

    def recheck(self, now: int) -> None:
        """A repository begins to tell."""
        self.strange = {stream: now for stream, source in self.sources.items() if source.unannounced}

    def relink(self) -> None:
        for source in self.sources.values():
            source.live = 0

    def discard(self, before: int) -> None:
        """Drop what has been strange since before this time: its publisher is not one of the topic's."""
        for stream, since in list(self.strange.items()):
            source = self.sources[stream]
            while since < before and source.unannounced:
                self._drop(source)
            self._look_at(source)
