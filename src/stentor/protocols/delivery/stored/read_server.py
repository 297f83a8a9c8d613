"""Read server: stored events are handed out to whoever reads them at rest, in any order and from several repositories
at once: the data pipeline. Such a client keeps its position itself; a repository remembers nothing of it but what it is
done with, if it wants to be waited for.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stentor.machine import Recalled, Scanned
from stentor.model.communication import inbox_of
from stentor.model.control import ControlEvent
from stentor.model.errors import FilterError, Refusal, Refused
from stentor.model.filter import Filter
from stentor.model.stored.position import Position
from stentor.model.stored.reading import Page, PageRequest, ReaderAck, Stock, StockRequest
from stentor.model.stored.record import Record, RecordKind, StreamId
from stentor.model.stored.span import Span, Spans
from stentor.protocols.delivery.replication.membership import MembershipView
from stentor.protocols.delivery.repository.deferred import AnswerStockRequest
from stentor.protocols.delivery.repository.ledger_reads import FillPage
from stentor.protocols.delivery.repository.registry import SubscriptionRecord
from stentor.protocols.delivery.repository.serving.start_positions import StartPositions
from stentor.protocols.delivery.repository.serving.subscriber_feeds import LETTER
from stentor.protocols.delivery.repository.serving.subscriptions import TopicSubscriptions
from stentor.protocols.delivery.repository.storing.commit_queue import CommitQueue
from stentor.protocols.delivery.repository.storing.publisher_stream import Numbers, PublisherStream
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.wire.block import Block

_ALL = 1 << 40  # events
_MOST_PARTS = 4096
_LARGEST_PAGE = 16 << 20  # bytes
_LETTERS = 8  # of a page, if they are not too large
_MOST_READS = 256  # under way: each may bring a page, and clients ask for a few pages ahead at most


class Pieces(NamedTuple):
    """Ranges of numbers in the order in which they were stored."""

    keys: list[StreamId]
    streams: Numbers  # places in `keys`
    firsts: Numbers
    lasts: Numbers
    sequences: Numbers

    @property
    def ends(self) -> Numbers:
        """How many events there are up to each."""
        return np.cumsum(self.lasts - self.firsts + 1)

    def between(self, begin: int, end: int, ends: Numbers | None = None) -> "Pieces":
        """The events from one place on to before another one; whoever asks often gives the `ends`."""
        ends = self.ends if ends is None else ends
        start, stop = int(ends.searchsorted(begin, "right")), int(ends.searchsorted(end, "left")) + 1
        firsts, lasts = self.firsts[start:stop].copy(), self.lasts[start:stop].copy()
        if len(lasts):
            firsts[0] += begin - (int(ends[start]) - int(lasts[0] - firsts[0] + 1))
            lasts[-1] -= max(int(ends[min(stop, len(ends)) - 1]) - end, 0)
        return Pieces(self.keys, self.streams[start:stop], firsts, lasts, self.sequences[start:stop])

    def split(self, parts: int) -> list["Pieces"]:
        """Parts of about the same size, cut between records unless these are large."""
        ends = self.ends
        if not len(ends):
            return []
        total = int(ends[-1])
        cuts = {total * number // parts for number in range(1, parts)}
        share = total // parts
        cuts = {cut if (end := int(ends[ends.searchsorted(cut)])) - cut > share else end for cut in cuts}
        edges = [0, *sorted(cuts - {0, total}), total]
        return [self.between(begin, end, ends) for begin, end in pairwise(edges) if begin < end]

    def position(self) -> Position:
        streams: dict[StreamId, Spans] = {}
        for place in np.unique(self.streams).tolist():
            mine = self.streams == place
            order = np.argsort(self.firsts[mine])
            firsts, lasts = self.firsts[mine][order], self.lasts[mine][order]
            breaks = np.flatnonzero(firsts[1:] != lasts[:-1] + 1)
            starts, ends = firsts[np.r_[0, breaks + 1]], lasts[np.r_[breaks, len(lasts) - 1]]
            streams[self.keys[place]] = Spans(zip(starts.tolist(), ends.tolist(), strict=True))
        return Position(streams)


class StoredReadServer:
    """Answers those who read one topic at one repository."""

    def __init__(
        self,
        state: TopicState,
        membership: MembershipView,
        commits: CommitQueue,
        subscriptions: TopicSubscriptions,
        start_positions: StartPositions,
    ) -> None:
        self._state, self._membership = state, membership
        self._commits, self._subscriptions = commits, subscriptions
        self._start_positions = start_positions
        self._topic, self._settings = state.topic, state.settings
        self._log, self._registry = state.log, state.registry
        self.handlers: dict[type[ControlEvent], Callable[[int, Any], None]] = {
            StockRequest: self._on_stock_request,
            PageRequest: self._on_page_request,
            ReaderAck: self._on_ack,
        }

    def _check(self, event: StockRequest | PageRequest | ReaderAck) -> None:
        if self._settings.unit:
            raise Refused(Refusal.UNKNOWN, f"{self._settings.name} stores what {self._settings.unit} wants, not all")
        self._registry.check_reader(self._topic, event.name, event.principal)
        if not self._state.service.is_serving:
            raise Refused(Refusal.BUSY, f"{self._settings.name} is catching up")

    def _check_room(self) -> None:
        if len(self._state.reads.scans) + len(self._state.reads.recalls) >= _MOST_READS:
            raise Refused(Refusal.BUSY, f"{self._settings.name} reads for others: try again")

    # ---- what there is

    def _on_stock_request(self, _: int, event: StockRequest) -> None:
        name, inbox = self._settings.name, inbox_of(event.sender)
        try:
            self._check(event)
            self._check_room()
            _filter(event.where)
            if event.enrol and not event.name:
                raise Refused(Refusal.PROTOCOL, "events are kept for a name: this reader has none")
            done: Position | None = Position.of(event.done)
            if event.since:
                frontier = self._start_positions.locate(event.since, event)
                done = None if frontier is None else Position.before(frontier)
            if done is not None:
                self.begin(event, done)
        except Refused as refused:
            self._state.send(inbox, Stock(self._topic, name, event.token, refused.code, refused.reason))

    def begin(self, event: StockRequest, done: Position) -> None:
        """Answer with what there is beside what a client is done with; register it first, if it wants that."""
        if event.enrol and event.name not in self._registry.subscriptions:
            frontier = tuple((each.publisher, each.incarnation, each.floor) for each in done.held if each.floor)
            where = str(Filter(event.where)) if event.where else ""
            # It is in no unit: wherever it is, it asks those that store everything, and these must keep what it lacks.
            known = SubscriptionRecord(where, frontier, event.principal)
            self._subscriptions.register(event.name, known)
            self._commits.after_sharing(AnswerStockRequest(event, done))
        else:
            self.answer(event, done)

    def answer(self, event: StockRequest, done: Position) -> None:
        """Tell a client what there is, in parts."""
        forgotten = self._forgotten().minus(done)
        target = (Position.of(event.upto) if event.upto else self._admitted().plus(self._forgotten())).minus(done)
        over = self._log.streams.is_over
        forgotten = forgotten.plus(Position({key: target.streams[key] for key in target.streams if over(key)}))
        if not self._settings.lake:
            target = target.minus(forgotten)
        pieces = self._pieces(target, self._limit(event))
        parts = pieces.between(0, self._limit(event)).split(min(max(event.parts, 1), _MOST_PARTS))
        stock = Stock(
            self._topic,
            self._settings.name,
            event.token,
            members=self._registry.storing_all(),
            done=tuple(self._log.streams.current(done.held)),
            parts=tuple(part.position().held for part in parts),
            gone=(Position() if self._settings.lake else forgotten).plus(self._written_off().minus(done)).held,
            number=self._log.horizon,
        )
        self._state.send(inbox_of(event.sender), stock)

    def _forgotten(self) -> Position:
        """What there was and is not here any more."""
        voids = Position({key: stream.voids for key, stream in self._log.streams.items()})
        return Position.before(self._log.streams.floors()).minus(voids)

    def _written_off(self) -> Position:
        """What was damaged, and given up."""
        return Position({stream.id: stream.written_off for stream in self._log.losses})

    def _limit(self, event: StockRequest) -> int:
        most = event.most if event.most > 0 else _ALL
        if event.size > 0:
            mean = max(self._state.size // max(self._log.next - self._log.first, 1), 1)
            most = min(most, max(event.size // mean, 1))
        return most

    def _admitted(self) -> Position:
        """What is stored as it must be, and on every repository that lives, so that any of them can go on there."""
        living = [peer.name for peer in self._membership.living if not peer.unit]
        copies, mates = self._membership.copies, self._state.bundle.same_unit_peers
        streams: dict[StreamId, Spans] = {}
        for key, stream in self._log.streams.items():
            upto = min(stream.settled(copies, mates), stream.settled(len(living) + 1, living))
            streams[key] = Spans(stream.stored_within(stream.floor + 1, upto))
        return Position(streams)

    def _pieces(self, target: Position, most: int = _ALL) -> Pieces:
        keys = sorted(target.streams.keys() & self._log.streams.keys())  # a client may have made up others
        columns: list[tuple[Numbers, Numbers, Numbers, Numbers]] = []
        for place, key in enumerate(keys):
            stream = self._log.streams[key]
            firsts, lasts, sequences = stream.pieces(_there(stream, target.streams[key]), most)
            columns.append((np.full(len(firsts), place), firsts, lasts, sequences))
            past = np.array(target.streams[key].within(1, stream.floor), np.int64).reshape(-1, 2)
            columns.append((np.full(len(past), place), past[:, 0], past[:, 1], np.zeros(len(past), np.int64)))
        if not columns:
            nothing = np.empty(0, np.int64)
            return Pieces(keys, nothing, nothing, nothing, nothing)
        streams, firsts, lasts, sequences = (np.concatenate(column) for column in zip(*columns, strict=True))
        order = np.argsort(sequences)
        return Pieces(keys, streams[order], firsts[order], lasts[order], sequences[order])

    # ---- pages

    def _on_page_request(self, _: int, event: PageRequest) -> None:
        try:
            self._check(event)
            self._check_room()
            _filter(event.where)
        except Refused as refused:
            page = Page(self._topic, self._settings.name, event.token, refused.code, refused.reason)
            self._state.send(inbox_of(event.sender), page)
            return
        wanted = Position.of(event.wanted)
        pieces = self._pieces(wanted)
        budget = min(max(event.budget, 1), _LARGEST_PAGE)
        lost = wanted.minus(wanted.minus(self._written_off()))
        if lost.streams or not len(pieces.sequences):
            self._send(event, [], lost, lost)
        elif pieces.sequences[0]:
            self._state.reads.scan(FillPage(event, wanted), int(pieces.sequences[0]), budget)
        elif self._settings.lake:
            floors = {key: self._log.streams[key].floor for key in pieces.keys}
            past = Position({key: Spans(wanted.streams[key].within(1, floor)) for key, floor in floors.items()})
            self._state.reads.recall(event, past, budget)
        else:
            self._send(event, [], Position())

    def on_recalled(self, event: PageRequest, recalled: Recalled) -> None:
        """Send a page of what is forgotten here, and came from the lake."""
        if recalled.reason:
            page = Page(self._topic, self._settings.name, event.token, Refusal.BUSY, recalled.reason)
            self._state.send(inbox_of(event.sender), page)
            return
        where = _filter(event.where)
        blocks = [Block(frame, schema) for frame, schema in recalled.frames]
        if where is not None:
            chosen = [(block, np.flatnonzero(where.select(block.column, block.count))) for block in blocks]
            blocks = [Block(block.excerpt(rows), block.schema) for block, rows in chosen if len(rows)]
        lost = recalled.sought.minus(recalled.found)
        self._send(event, [(block, -_ALL) for block in blocks], recalled.sought, lost)

    def on_scanned(self, page: FillPage, scanned: Scanned) -> None:
        """Send a page of what was read."""
        event, wanted = page.request, page.wanted
        where = _filter(event.where)
        found: list[tuple[Block, int]] = []
        covered: dict[StreamId, list[Span]] = {key: [] for key in wanted.streams}
        nothing = Spans()
        for record in scanned.records:
            line, stream = record.line, record.line.stream
            parts = wanted.streams.get(stream, nothing).within(line.first, line.last)
            if parts and line.kind is not RecordKind.RESERVED:  # one that is damaged is fetched from another repository
                covered[stream] += parts
                block = self._pick(record, parts, where)
                if block is not None:
                    found.append((block, line.sequence - line.first))
        self._send(event, found, Position({stream: Spans(spans) for stream, spans in covered.items()}))

    def _pick(self, record: Record, parts: list[Span], where: Filter | None) -> Block | None:
        """The events of a record that are wanted."""
        line = record.line
        if line.kind is not RecordKind.EVENTS:
            return None
        block = self._log.block(record)
        if where is None and parts == [(line.first, line.last)]:
            return block
        rows: NDArray[np.intp] = np.concatenate([np.arange(first, last + 1) for first, last in parts]) - line.first
        if where is not None:
            rows = rows[where.select(block.column, block.count)[rows]]
        return Block(block.excerpt(rows), block.schema) if len(rows) else None

    def _send(
        self, event: PageRequest, found: Iterable[tuple[Block, int]], covered: Position, lost: Position | None = None
    ) -> None:
        letters: list[list[tuple[Block, int]]] = [[]]
        size = room = min(max(event.budget // _LETTERS, 1), LETTER)
        for block, base in found:
            if room <= 0:
                letters.append([])
                room = size
            letters[-1].append((block, base))
            room -= len(block.frame)
        page = Page(
            self._topic,
            self._settings.name,
            event.token,
            count=len(letters),
            covered=covered.held,
            lost=(lost or Position()).held,
        )
        known = self._registry.publishers
        for index, letter in enumerate(letters):
            publishers = sorted({int(block.publisher) for block, _ in letter} & known.keys())
            part = msgspec.structs.replace(
                page,
                index=index,
                bases=tuple(base for _, base in letter),
                publishers=tuple((number, known[number].name) for number in publishers),
            )
            self._state.send(inbox_of(event.sender), part, blocks=[block for block, _ in letter])

    # ---- what was read

    def _on_ack(self, _: int, event: ReaderAck) -> None:
        progress = self._state.table.destinations.get(event.name)
        try:
            self._check(event)
        except Refused:
            return  # it hears of that when it asks for more
        if progress is not None and progress.advance(self._log.streams.current(event.done)):
            self._state.table.note_progress(event.name)
        self._subscriptions.pass_by(event.name, Position.of(event.done))


@lru_cache(maxsize=64)
def _compile(where: str) -> Filter:
    return Filter(where)


def _filter(where: str) -> Filter | None:
    try:
        return _compile(where) if where else None
    except FilterError as error:
        raise Refused(Refusal.FILTER, str(error)) from None


def _there(stream: PublisherStream, spans: Spans) -> list[Span]:
    """Of these numbers, those that can be read here."""
    kept = spans.within(stream.floor + 1, spans.last)
    return [part for span in kept for part in stream.stored_within(*span)]
