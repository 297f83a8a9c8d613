"""The event log: how events get their sequence numbers, without gaps and in the order of each publisher.

Subscribers see everything up to the horizon: what is durable on as many repositories as asked for, with nothing
reserved before it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from stentor.model.attribute import EMPTY_SCHEMA, Schema
from stentor.model.ids import NO_SCHEMA
from stentor.model.ranges import LAST_SEQUENCE
from stentor.model.stored.record import Fact, LedgerContents, Record, RecordHeader, RecordKind, StreamId
from stentor.model.stored.record_columns import RecordColumns, chapters_of
from stentor.model.stored.span import Span, Spans
from stentor.protocols.delivery.repository.registry import LIFE
from stentor.protocols.delivery.repository.serving.record_audience import Part, cut
from stentor.protocols.delivery.repository.storing.floor_facts import floor_key, recall_floors
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.storing.recent_records import Budget, RecentRecords
from stentor.protocols.delivery.repository.storing.streams import Streams
from stentor.protocols.delivery.repository.storing.unwritten_entries import UnwrittenEntries
from stentor.wire import head
from stentor.wire.block import Block

SCHEMA = "schema/"
HORIZON = "local/horizon"
_FIRST = "local/first"
_schemas = msgspec.msgpack.Decoder(Schema)
_MOST_SUSPECTS = 16
_DAMAGED = 1  # in place of a checksum


class EventLog:
    """Streams, records and what is to be written. Invariants, asserted by `validate`:

    first <= horizon + 1 <= next; nothing of a stream has a sequence number from `next` on
    """

    def __init__(
        self,
        streams: Streams,
        budget: Budget,
        audience: Callable[[Block], Mapping[int, bytes]],
        *,
        selective: bool = False,
        is_introduced: Callable[[StreamId], bool] = lambda _: True,
        is_told_of: Callable[[StreamId], bool] = lambda _: True,
    ) -> None:
        """What nobody wants is not kept if it is `selective`. Facts tell of a life, or of a later one alone."""
        self._selective = selective
        # The topic of our unit, on which all is kept, if this is a system storage; 0 if it is none.
        self._home = 0
        self.streams = streams
        self.is_introduced, self._is_told_of = is_introduced, is_told_of
        self.schemas: dict[int, Schema] = {NO_SCHEMA: EMPTY_SCHEMA}
        self.next = 1
        self.horizon = 0
        self.wall = 0  # what the clock on our wall shows in this step, in nanoseconds since 1970
        self.unwritten = UnwrittenEntries()
        # Events that were refused because others had their numbers, were dropped, came again, or were stored.
        self.conflicts = self.strangers = 0
        self.repeated = self.stored = 0
        self.unknown = Spans()  # sequence numbers of records that are damaged so much that nobody knows whose they were
        self.losses: dict[PublisherStream, None] = {}  # of which an operator has written off something
        self.clashes: list[RecordHeader] = []  # numbers under which two bodies came
        self.suspects: list[tuple[int, Block]] = []  # … or may have come: the record is to be read
        self._choosing = False  # of what is taken in now, only what somebody here wants is kept
        self._stored_at = 0  # … and when a repository first stored it
        self._budget = budget
        self._recent = RecentRecords(1, budget)
        self._audience = audience
        self._noted = 0  # the last registration that is durable

    def validate(self) -> None:
        self.streams.validate()
        self._recent.validate()
        assert self.first <= self.horizon + 1 <= self.next, f"{self.first}, {self.horizon} and {self.next} in a row"
        assert all(stream.last_sequence < self.next for stream in self.streams.values()), "a number that is given twice"
        self.unwritten.validate()

    def set_clock(self, wall: int) -> None:
        self.wall = wall

    def set_home(self, topic: int) -> None:
        """Store all that is sent on this topic of our unit; 0 if we are no system storage."""
        self._home = topic

    # ---- from the ledger

    def load(self, holdings: LedgerContents) -> None:
        found = (_schemas.decode(value) for key, value in holdings.facts.items() if key.startswith(SCHEMA))
        self.schemas |= {schema.id: schema for schema in found}
        begin = int(holdings.facts.get(_FIRST, b"0"))  # what is before it may still be on the disk
        self.streams.forget_before(0)
        for chapter in (each.since(begin) for each in chapters_of(holdings.lines)):
            if len(chapter.sequence):
                self.streams.forget_before(self.first or int(chapter.sequence[0]))
                self._load_chapter(chapter)
        recall_floors(self.streams, holdings.facts)
        self.next = holdings.next
        self.streams.forget_before(self.first or self.next)
        self.horizon = max(int(holdings.facts.get(HORIZON, b"0")), self.first - 1)
        self._noted = self.next
        self._recent = RecentRecords(self.horizon + 1, self._budget)

    def _load_chapter(self, chapter: RecordColumns) -> None:
        for line in chapter.others():  # before the events, which fill what was set aside or void
            if line.publisher:
                self.streams[line.stream].file(line)
                if line.is_written_off:
                    self.losses[self.streams[line.stream]] = None
                if line.kind is RecordKind.SKIPPED:
                    self.streams[line.stream].durable.add(line.first, line.last)
            elif line.is_damaged:
                self.unknown.add(line.sequence, line.end)
        for key, events in chapter.streams():
            self.streams[key].recall(events)

    def see(self, records: Iterable[Record], damaged: Iterable[RecordHeader]) -> int:
        """Take in records that no subscriber was shown before the ledger was closed; return where to go on."""
        end = self.next
        found = [*((record, False) for record in records), *((Record(line), True) for line in damaged)]
        for record, is_lost in sorted(found, key=lambda each: each[0].line.sequence):
            if self._recent.end < record.line.sequence - 1:  # lost without a trace
                lost = RecordHeader(
                    self._recent.end + 1, record.line.sequence - 1 - self._recent.end, 0, 0, 0, RecordKind.RESERVED
                )
                self.unknown.add(lost.sequence, lost.end)
                self._recent.put(Record(lost))
            end = record.line.end + 1
            if record.line.end > self.horizon and self._recent.at(record.line.sequence) is None:
                self._recent.put(record)
            if is_lost:
                self.lose(record.line)
        return end

    # ---- from publishers and other repositories

    def refuse(self, block: Block) -> None:
        """Count the events of a block that is not stored."""
        self.strangers += block.count

    def fetch(self, now: int, block: Block, whole: bool = False, stored: int | None = None) -> None:
        """Take in events from another repository; all of them are to be kept if it stores the same, for publishers too.
        They are as old as it says, unless its clock is ahead of ours.
        """
        if self.streams.is_over((block.publisher, block.incarnation)):
            return
        stream = self.streams[block.publisher, block.incarnation]
        self.streams.unsettle(stream)
        stream.changed_at = now
        stream.announced.add(block.catenation, block.last())
        if self.is_introduced(stream.id):  # else it is asked for again, when it is known what came before this life
            self._take(stream, block, fetched=not whole, stored=stored)

    def receive(self, now: int, block: Block, known: bool, ordered: bool = False) -> None:
        """Take in events; `known` tells that their publisher may publish, `ordered` that they bring their numbers."""
        key, first, last = (block.publisher, block.incarnation), block.catenation, block.last()
        known = known and self.is_past_known(key)
        if not known and key not in self.streams:
            if not self.streams.strangers.hold(now, block, ordered):
                self.refuse(block)
            return
        stream = self.streams.find(key)
        if stream is None:
            self.refuse(block)
            return
        stream.changed_at = stream.publisher_heard_at = now
        if ordered:
            stream.announced.add(first, last)
        if known and stream.announced.covers(first, last):
            self._take(stream, block)
        elif not stream.hold_back(block):
            self.refuse(block)

    def order(
        self, now: int, key: StreamId, first: int, last: int, known: bool, acknowledged: tuple[Span, ...] = ()
    ) -> PublisherStream | None:
        """Note what a publisher says it has sent, and what it knows to be stored. Return its stream, if it is known."""
        known = known and self.is_past_known(key)
        if not known and key not in self.streams:
            self.streams.strangers.order(now, key, first, last, acknowledged)
            return None
        stream = self.streams.find(key)
        if stream is None:
            return None
        stream.publisher_heard_at = now
        if not stream.announced.covers(first, last):
            stream.changed_at = now
            stream.announced.add(first, last)
        if known:
            self.admit(stream, known)
        stream.acknowledged.update(acknowledged)
        stream.announced.update(acknowledged)
        return stream

    def is_past_known(self, key: StreamId) -> bool:
        """Return whether it is known what a life may follow that its publisher sends something of: it has records here,
        or the fact tells of it. One that tells of a newer life alone may be of somebody who never heard of this one.
        """
        there = self.streams.get(key)
        return self._is_told_of(key) or (there is not None and there.highest_numbered > 0)

    def introduce(self, is_due: Callable[[StreamId], bool]) -> None:
        """Store what waited until it is known that its publisher may publish, and what came before this life."""
        for key in [key for key in self.streams.strangers.streams if is_due(key)]:
            if self.streams.find(key) is None:
                self.streams.strangers.take(key)
        for stream in [each for each in self.streams.unsettled if each.waiting and is_due(each.id)]:
            self.admit(stream, known=True)

    def admit(self, stream: PublisherStream, known: bool = False) -> None:
        """Store what waited for its order event; `known` tells that it is known what this life may follow."""
        for block in stream.take_ordered() if known or self.is_past_known(stream.id) else ():
            self._take(stream, block)

    def set_aside(self, stream: PublisherStream, last: int) -> None:
        """Give all numbers of a stream up to this one their places before all that is stored from now on."""
        self.streams.unsettle(stream)
        stream.announced.add(1, last)
        if last > stream.highest_numbered and self.next + last - stream.highest_numbered <= LAST_SEQUENCE:
            self._reserve(stream, stream.highest_numbered + 1, last)

    def _take(self, stream: PublisherStream, block: Block, fetched: bool = False, stored: int | None = None) -> None:
        self._stored_at = self.wall if stored is None else min(stored, self.wall)
        self._choosing = self._selective and block.topic != self._home and (fetched or not self._home)
        first, last = block.catenation, block.last()
        # so much is set aside only for who makes up numbers
        if self.next + last - stream.highest_numbered > LAST_SEQUENCE:
            self.refuse(block)
            return
        if last - first + 1 != block.count:
            for row, offset in enumerate(block.offsets()):
                number = first + offset
                if stream.absent([(number, number)], late=True):
                    self._place(stream, self._part(block, row, row), number, number)
            return
        gaps = stream.absent([(first, last)], late=True)
        if not gaps:
            self.repeated += block.count
            self._compare(stream, block, first)
        for start, end in gaps:
            self._place(stream, self._part(block, start - first, end - first), start, end)

    def _compare(self, stream: PublisherStream, block: Block, first: int) -> None:
        """Other events must not come under numbers that are stored; the same ones may, cut and spelled otherwise."""
        known, came = stream.digest_at(first), digest_of(block)
        located = stream.locate(first)
        if known is None or known == came or located is None or stream.length_at(first) != block.count:
            return
        record = self._recent.at(located[1])
        if record is not None:
            self.confront(record, block)
        elif len(self.suspects) < _MOST_SUSPECTS:
            self.suspects.append((located[1], block))

    def confront(self, record: Record, block: Block) -> None:
        """Complain if a block is not what a record holds under the same numbers."""
        line = record.line
        if line.kind is not RecordKind.EVENTS or (line.first, line.length) != (block.catenation, block.count):
            return
        stored = self.block(record)
        if stored.bodies() != block.bodies() or stored.rows() != block.rows():
            self.conflicts += 1
            self.clashes.append(line._replace(digest=digest_of(block)))

    def note_clash(self, line: RecordHeader) -> None:
        """Note numbers under which two bodies came, here and at another repository."""
        self.clashes.append(line)

    def _part(self, block: Block, start: int, end: int) -> Block:
        if end - start + 1 == block.count:
            return block
        return Block(block.excerpt(np.arange(start, end + 1)), block.schema)

    def _place(self, stream: PublisherStream, block: Block, first: int, last: int) -> None:
        """Give new numbers of a stream their sequence numbers: those set aside for them, or the next ones."""
        if first > stream.highest_numbered + 1:
            self._reserve(stream, stream.highest_numbered + 1, first - 1)
        for start, end, sequence in stream.places(first, last):
            part = self._part(block, start - first, end - first)
            rest = stream.remains(start, end)
            self._write(stream, part, start, sequence)
            for left, right, number in rest:
                self._set_aside(RecordHeader(number, right - left + 1, *stream.id, left, RecordKind.RESERVED))

    def _reserve(self, stream: PublisherStream, first: int, last: int) -> None:
        for start, end in stream.absent([(first, last)]):
            line = RecordHeader(self.next, end - start + 1, *stream.id, start, RecordKind.RESERVED)
            self.next += line.length
            stream.file(line)
            self._set_aside(line)

    def _set_aside(self, line: RecordHeader) -> None:
        """Set the rest of a reservation aside anew; what was damaged of it stays so."""
        is_damaged = self.streams[line.stream].damaged.covers(line.first, line.last)
        self._put(Record(line._replace(digest=_DAMAGED if is_damaged else 0)))

    def _write(self, stream: PublisherStream, block: Block, first: int, sequence: int | None) -> None:
        if block.schema.id not in self.schemas:
            self.schemas[block.schema.id] = block.schema
            key = f"{SCHEMA}{block.schema.id:016x}"
            self.unwritten.write(Fact(key, msgspec.msgpack.encode(block.schema)))
        if sequence is None:
            sequence = self.next
            self.next += block.count
        audience = self._audience(block)
        self.stored += block.count
        parts = cut(audience, block.count) if self._choosing else [Part(0, block.count - 1, audience)]
        for start, end, wanting in parts:
            place = sequence + start, end - start + 1, *stream.id, first + start
            if wanting or not self._choosing:
                part = self._part(block, start, end)
                line = RecordHeader(*place, RecordKind.EVENTS, digest_of(part))
                record = Record(line, bytes(part.frame), wanting, part.time, self._stored_at)
            else:
                record = Record(RecordHeader(*place, RecordKind.SKIPPED))
            stream.file(record.line)
            self._put(record)

    def _put(self, record: Record) -> None:
        self._recent.put(record)
        self.unwritten.put(record)

    def void(
        self, stream: PublisherStream, spans: Iterable[Span], kind: RecordKind = RecordKind.VOID, lost: bool = False
    ) -> list[Span]:
        """Let subscribers pass these, and tell them if they are `lost`. Return what was missing indeed."""
        voided = stream.absent(spans)
        if lost:
            self.losses[stream] = None
            stream.written_off.update(part for span in spans for part in stream.voids.within(*span))
        for first, last in voided:
            for start, end, sequence in stream.places(first, last):
                if sequence is not None:
                    rest = stream.remains(start, end)
                    line = RecordHeader(sequence, end - start + 1, *stream.id, start, kind, _DAMAGED if lost else 0)
                    stream.file(line)
                    self._put(Record(line))
                    for left, right, number in rest:
                        self._set_aside(RecordHeader(number, right - left + 1, *stream.id, left, RecordKind.RESERVED))
                else:
                    stream.announced.remove(start, end)
        return voided

    def give_up_skipped(self, stream: PublisherStream, spans: Iterable[Span]) -> bool:
        """Give up what others give up and is only skipped here: there will be no copies of it."""
        parts = [part for span in spans for part in stream.skipped.within(*span) if part[0] > stream.floor]
        news = [rest for part in parts for rest in stream.voids.missing(*part)]
        stream.voids.update(news)
        if news:
            self.unwritten.mark_floor(stream)
        return bool(news)

    def lose(self, line: RecordHeader) -> bool:
        """Note that a record cannot be read any more. Events are set aside until somebody sends them again, and True is
        returned; what has no contents is written anew.
        """
        if self.unwritten.holds(line.sequence):
            return False
        stream = self.streams[line.stream] if line.publisher else None
        lost = line._replace(kind=RecordKind.RESERVED, digest=line.digest or _DAMAGED)
        is_new = stream is None and not self.unknown.covers(line.sequence, line.end)
        if stream is None:
            self.unknown.add(line.sequence, line.end)
        else:
            passed = stream.skipped if line.last > stream.floor else Spans(((1, stream.floor),))  # nobody needs these
            for kind, there in ((RecordKind.VOID, stream.voids), (RecordKind.SKIPPED, passed)):
                if there.covers(line.first, line.last):
                    lost = line._replace(kind=kind, digest=_DAMAGED * stream.written_off.covers(line.first, line.last))
            is_new = lost.kind is RecordKind.RESERVED and stream.stored.covers(line.first, line.last)
            if is_new:
                stream.lose(lost)
                self.streams.unsettle(stream)
        self._recent.drop(line.sequence)
        self.unwritten.put(Record(lost, stored=self.wall))
        if line.sequence >= self._recent.start:
            self._recent.put(Record(lost))
        return is_new

    def write_off(self) -> None:
        """Let subscribers pass what nobody knows any more, and the numbers that may have been there."""
        for first, last in self.unknown:
            self._put(Record(RecordHeader(first, last - first + 1, 0, 0, 0, RecordKind.NOTE)))
        self.unknown = Spans()
        for stream in self.streams.values():
            if holes := stream.holes:
                stream.voids.update(holes)
                stream.written_off.update(holes)
                self.losses[stream] = None
                self.unwritten.mark_floor(stream)

    # ---- to the ledger

    def register(self, facts: Sequence[Fact]) -> None:
        """Write registrations; all but those of lives take a sequence number, which readers skip."""
        if not all(fact.key.startswith(LIFE) for fact in facts):
            self._put(Record(RecordHeader(self.next, 1, 0, 0, 0, RecordKind.NOTE)))
            self.next += 1
        self.unwritten.write(*facts)

    def committed(self, token: int) -> tuple[list[RecordHeader], list[PublisherStream]]:
        """Return what is durable now: events by their lines, and streams of which it is what is forgotten or void."""
        lines, floors = self.unwritten.committed(token)
        for stream, floor in floors:
            stream.durable_floor = max(stream.durable_floor, floor)
        marked = [stream for stream, _ in floors if self.streams.get(stream.id) is stream]
        for stream in marked:
            self.streams.unsettle(stream)
        self._noted = max([self._noted, *(line.sequence for line in lines if line.kind is RecordKind.NOTE)])
        events = [line for line in lines if line.kind in (RecordKind.EVENTS, RecordKind.SKIPPED)]
        for line in events:
            self.streams[line.stream].durable.add(line.first, line.last)
        return events, marked

    # ---- for subscribers

    def advance(self, copies: int, others: Iterable[str]) -> bool:
        """Move the horizon over all that is stored on so many repositories; return whether it moved."""
        before = self.horizon
        stable: dict[StreamId, int] = {}
        while (record := self._recent.at(self.horizon + 1)) is not None:
            line = record.line
            if line.kind is RecordKind.RESERVED:
                break
            if line.kind is RecordKind.NOTE:
                if line.sequence > self._noted:
                    break
            else:
                key = line.stream
                if key not in stable:
                    stable[key] = self.streams[key].settled(copies, others)
                if line.last > stable[key] and not self.streams.is_dropped(line):
                    break
            self.horizon = line.end
        self._recent.trim(self.horizon)
        return self.horizon > before

    def at(self, sequence: int) -> Record | None:
        """Return the record that holds a sequence number, if it is in memory."""
        return self._recent.at(sequence)

    def release(self) -> None:
        """Leave the memory for recent records to other topics: another machine goes on, or none."""
        self._recent.release()

    @property
    def first(self) -> int:
        """Everything before this sequence number is forgotten."""
        return self.streams.first

    @property
    def start(self) -> int:
        """From here on everything is in memory."""
        return self._recent.start

    def block(self, record: Record) -> Block:
        return Block(record.frame, self.schemas[head.schema_of(record.frame)])

    def beginning(self, done: Mapping[StreamId, Spans]) -> int:
        """The last sequence number before the first record of which somebody who is done with these lacks something."""
        first = self.streams.earliest(done)
        return (self.next if first is None else first) - 1

    def forget(self, records: Iterable[RecordHeader]) -> None:
        """Forget these. Up to where must be written down, or a stream would seem to begin with a gap."""
        floors: dict[StreamId, None] = {}
        for line in records:
            self.streams.forget_before(line.end + 1)
            if line.publisher:
                floors[line.stream] = None
                if line.kind is not RecordKind.VOID:  # what is void may be stored further on
                    self.streams[line.stream].forget(line.last)
        for stream in [self.streams[key] for key in floors]:
            self.unwritten.mark_floor(stream)
        self._recent.forget(self.first - 1)

    def abandon(self, key: StreamId) -> bool:
        """Know nothing of a stream any more, if all of it is forgotten; return whether it is."""
        stream = self.streams.get(key)
        if stream is None or not self.streams.is_collected(stream):
            return False
        del self.streams[key]
        self.losses.pop(stream, None)
        self.unwritten.write(Fact(floor_key(key), None), Fact(_FIRST, b"%d" % self.first))
        return True

    def take_conflicts(self) -> tuple[list[tuple[int, Block]], list[RecordHeader]]:
        """Remove and return blocks to be compared with what is stored, and numbers under which two bodies came."""
        found = self.suspects, self.clashes
        self.suspects, self.clashes = [], []
        return found


def digest_of(block: Block) -> int:
    return head.checksum_of(block.frame)
