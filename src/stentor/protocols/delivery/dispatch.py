"""Dispatch: tells the subscribers that a repository steers what is stored for them, and sends again what they miss."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from stentor.machine import SECOND, Effect, Recall, Recalled, Scan, Scanned
from stentor.model.communication import chorus_of
from stentor.model.control import Persistent, Rectify, Retransmission, Stretch, Sync
from stentor.model.position import Position
from stentor.model.record import Kind, Line, Record, StreamId
from stentor.model.span import Span, Spans
from stentor.protocols.delivery.cursor import Ask, Reader
from stentor.protocols.delivery.destination import stretch_of, stretches
from stentor.protocols.delivery.post import Post
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.store import Store
from stentor.wire import head
from stentor.wire.block import Block

_LONGEST_PAUSE = 30 * SECOND
_MOST_STRETCHES = 1024  # in one event
_SCAN = 1 << 20  # bytes read at once
_ALL = b""  # an audience that wants all of a record
LETTER = 256 << 10  # bytes of events that are sent again in one letter


class Dispatch:
    """All readers of a topic at one repository."""

    def __init__(self, topic: str, store: Store, settings: RepositorySettings, name_of: Callable[[int], str]) -> None:
        """`name_of` returns the name of a publisher, "" if it is not known."""
        self._topic, self._repository, self._is_mail = topic, settings.name, topic == settings.mail
        self._store, self._name_of = store, name_of
        self._window = settings.window
        self._rectify_after = settings.rectify_after
        self._suspicion = settings.suspicion
        self.readers: dict[str, Reader] = {}
        self.dirty: dict[str, None] = {}  # whose progress must be written down
        self.effects: list[Effect] = []
        self.scans: dict[int, Callable[[int, Scanned], None]] = {}
        self.recalls: dict[int, Callable[[int, Recalled], None]] = {}
        self.held = False  # events do not come by themselves to those who are in other units than their publishers
        self.tokens = 0  # of what was asked of the ledger
        self.stalled = False  # readers may have stopped in front of something that can be read by now

    def scan(self, then: Callable[[int, Scanned], None], first: int, budget: int = _SCAN, time: int = 0) -> int:
        """Read from the ledger, and go on with what is found."""
        self.tokens += 1
        self.scans[self.tokens] = then
        self.effects.append(Scan(self._topic, self.tokens, first, budget, time))
        return self.tokens

    def recall(self, then: Callable[[int, Recalled], None], wanted: Position, budget: int = 0, time: int = 0) -> None:
        """Read from the lake, and go on with what is found."""
        self.tokens += 1
        self.recalls[self.tokens] = then
        self.effects.append(Recall(self._topic, self.tokens, wanted, budget, time))

    def post(self, reader: Reader, event: Persistent | Rectify | Sync) -> None:
        self.effects.append(Post(reader.inbox, (event,)))

    # ---- telling

    def serve_all(self) -> None:
        """There is something new: those who want the same, and are equally far, are told together."""
        groups: dict[tuple[str, int], list[Reader]] = {}
        for reader in self.readers.values():
            groups.setdefault((reader.destination.where, reader.sent), []).append(reader)
        for group in groups.values():
            together = [reader for reader in group if reader.tuned and self._follows(reader)]
            if len(together) > 1:
                self._tell_together(together)
            for reader in group:
                if reader.sent < self._store.horizon:
                    self.serve(reader)

    def _follows(self, reader: Reader) -> bool:
        """Whether it is told what is new, and nothing else."""
        busy = reader.scanning or reader.rectifying or reader.lost
        asks = reader.active and reader.ask is Ask.KNOWN
        return asks and not busy and reader.doubt is not None and reader.pending < self._window

    def _tell_together(self, readers: list[Reader]) -> None:
        """As far as they want the same; what is left they are told one by one."""
        store, destination = self._store, readers[0].destination
        sent = readers[0].sent
        room = self._window - max(reader.pending for reader in readers)
        found: list[Stretch] = []
        lines: list[Line] = []
        told: list[tuple[int, int]] = []
        while sent < store.horizon and room > 0 and len(found) < _MOST_STRETCHES:
            record = store.at(sent + 1)
            if record is None or record.line.kind is Kind.RESERVED:
                break
            line = record.line
            audience = record.audience.get(destination.slot)
            if not all(reader.destination.follows(record, audience) for reader in readers):
                break
            lines.append(line)
            sent = line.end
            if audience == _ALL:
                found.append(stretch_of(line))
                room -= line.length
                told.append((line.end, line.length))
            elif len(rows := destination.rows(record, None)):
                found += stretches(line, rows)
                room -= len(rows)
                told.append((line.sequence + int(rows[-1]), len(rows)))
        if any(reader.doubtful(stretch) for reader in readers for stretch in found):
            return
        previous = min(reader.told for reader in readers)
        for reader in readers:
            reader.follow(sent, lines, told)
            if found:
                reader.told = sent
            elif reader.skip():
                self.dirty[reader.destination.name] = None
        if found:
            left = store.horizon - sent
            persistent = Persistent(
                self._topic, self._repository, -destination.chorus, previous, sent, tuple(found), left=left
            )
            to = chorus_of(self._topic, self._repository, destination.chorus)
            self.effects.append(Post(to, (persistent,)))
            for reader in readers if self.held else ():
                self._accompany(reader, found)

    def serve(self, reader: Reader, asked: bool = False) -> None:
        """Tell one what is there for it, as far as its window allows; if it inquired, also that it is nothing."""
        if reader.scanning or not reader.active:
            return
        store = self._store
        found: list[Stretch] = []
        end = store.horizon if reader.ask is Ask.KNOWN else 0
        while reader.sent < end and reader.pending < self._window and len(found) < _MOST_STRETCHES:
            record = store.at(reader.sent + 1)
            if record is None:
                if not found:
                    reader.scanning = self.scan(lambda now, got: self._found(now, reader, got), reader.sent + 1)
                break
            if record.line.kind is Kind.RESERVED:
                break  # damaged, and not repaired yet
            self._add(reader, record, found)
        if not reader.scanning:
            self._tell(reader, found, asked)

    def _found(self, now: int, reader: Reader, scanned: Scanned) -> None:  # noqa: ARG002
        if self.readers.get(reader.destination.name) is not reader or reader.scanning != scanned.token:
            return  # it is told from another place on by now
        reader.scanning = 0
        found: list[Stretch] = []
        store = self._store
        for record in scanned.records:
            line = record.line
            if line.kind is Kind.RESERVED or line.end > store.horizon or reader.pending >= self._window:
                break
            if any(lost.sequence <= line.sequence and lost.end > reader.sent for lost in scanned.damaged):
                break
            self._add(reader, record, found)
        if not scanned.records and not scanned.damaged and not scanned.reason:
            reader.sent = max(reader.sent, min(store.start - 1, store.horizon))  # all of it is forgotten
        self._tell(reader, found, False)
        if scanned.reason:
            self.stalled = True
        elif found or not scanned.records:
            self.serve(reader)

    def _add(self, reader: Reader, record: Record, found: list[Stretch]) -> None:
        line = record.line
        destination = reader.destination
        if destination.follows(record, _ALL):
            found.append(stretch_of(line))
            reader.follow(line.end, (line,), ((line.end, line.length),))
            return
        early = line.kind is Kind.EVENTS and line.sequence <= destination.epoch
        rows = destination.rows(record, self._store.block(record) if early else None)
        reader.lines.append(line)
        reader.sent = line.end
        if len(rows):
            found += stretches(line, rows)
            reader.pending += len(rows)
            reader.inflight.append((line.sequence + int(rows[-1]), len(rows)))

    def _tell(self, reader: Reader, found: list[Stretch], asked: bool) -> None:
        parts: list[tuple[list[Stretch], int]] = list(reader.divide(found))
        if (asked or reader.lost) and not parts:
            parts = [([], 0)]
        lost, reader.lost = tuple(reader.lost), []
        losers = tuple(self._name_of(each.publisher) for each in lost)
        for at, (part, redelivered) in enumerate(parts, 1):
            upto = reader.sent if at == len(parts) else part[-1].sequence + part[-1].count - 1
            left = max(self._store.horizon - upto, 0)  # a sync may be ahead of what a life of ours has shown yet
            known = reader.ask is Ask.KNOWN
            told = (upto, tuple(part), redelivered, left, known, *((lost, losers) if at == 1 else ()))
            event: Persistent | Rectify
            if reader.rectifying:
                event = Rectify(self._topic, self._repository, reader.attempt, reader.safe, *told)
            else:
                event = Persistent(self._topic, self._repository, reader.attempt, reader.told, *told)
            self.post(reader, event)
            reader.told = upto
            if self.held and not reader.rectifying:
                self._accompany(reader, part)
            reader.rectifying = False
        if not parts and reader.skip():
            self.dirty[reader.destination.name] = None

    # ---- acknowledgements

    def acknowledge(self, now: int, reader: Reader, spans: Iterable[Span]) -> None:
        reader.answered, reader.pause = now, 0
        if reader.acknowledge(spans):
            self.dirty[reader.destination.name] = None
        else:
            self.tell_sync(reader)
        self.serve(reader)

    def tell_sync(self, reader: Reader) -> None:
        """The subscriber may forget what it kept for this."""
        self.post(reader, Sync(self._topic, self._repository, reader.attempt, reader.safe))

    def ask(self, reader: Reader) -> None:
        """The application of a subscriber asks for events: that is written down before it is told of any."""
        if reader.ask is Ask.NONE:
            reader.ask = Ask.NOTED
            reader.destination.learn(reader.testify())
            self.dirty[reader.destination.name] = None

    def judge(self, reader: Reader, doubt: Mapping[StreamId, int] | None) -> None:
        """Say what earlier lives of a subscriber may have been handed; nothing is handed out of what is over."""
        over = self._store.streams.is_over
        reader.doubt = None if doubt is None else {key: last for key, last in doubt.items() if not over(key)}
        if reader.ask is not Ask.NONE and reader.destination.learn(reader.testify()):
            self.dirty[reader.destination.name] = None

    def ask_known(self, reader: Reader) -> None:
        """Enough repositories know that it has asked."""
        if reader.ask is Ask.NOTED:
            reader.ask = Ask.KNOWN
            self.serve(reader, asked=True)  # although it may be nothing: now it may hear what is told to all

    def end(self, reader: Reader, given: Mapping[StreamId, int]) -> None:
        """The life of a subscriber ends in good order: what it was handed is written down."""
        reader.active = False
        if reader.ask is Ask.NONE and not given:
            self.part(reader.destination.name, reader.inbox, reader.attempt)
        else:
            reader.destination.learn(reader.testify(ended=True, given=given))
            self.dirty[reader.destination.name] = None

    def part(self, name: str, inbox: str, attempt: int) -> None:
        """All that is to be known of a life that ended is written down."""
        self.readers.pop(name, None)
        self.effects.append(Post(inbox, (Sync(self._topic, self._repository, attempt, 0, ended=True),)))

    def inform(self, reader: Reader, after: int) -> None:
        """It asks what there is after what it knows."""
        if after < reader.told:
            self.rectify(reader)
        else:
            self.serve(reader, asked=True)

    def report_losses(self, reader: Reader) -> None:
        """It is to be told what is lost that it has not acknowledged; each time that it is told where it is, since it
        may not have heard.
        """
        reader.lose(self._store.losses)

    def rectify(self, reader: Reader) -> None:
        """It has missed what it was told: tell it from its sync on."""
        if not reader.scanning:
            reader.rewind()
            self.report_losses(reader)
            reader.rectifying = True
            self.serve(reader, asked=True)

    def tick(self, now: int) -> bool:
        """Tell those again who do not acknowledge; whether anybody is waited for."""
        waiting = False
        stalled, self.stalled = self.stalled, False
        for reader in list(self.readers.values()) if stalled else ():
            self.serve(reader)
        for reader in self.readers.values():
            if reader.doubt is None and now - reader.began > self._suspicion:
                # whatever others gave it before, they have told us by now that it exists
                self.judge(reader, {key: stream.ordered.last for key, stream in self._store.streams.items()})
            if not reader.pending:
                reader.answered = now
                continue
            waiting = True
            pause = reader.pause or self._rectify_after
            if now - reader.answered > pause and not reader.scanning:
                reader.answered, reader.pause = now, min(2 * pause, _LONGEST_PAUSE)
                self.rectify(reader)
        return waiting

    # ---- sending again

    def _accompany(self, reader: Reader, found: Iterable[Stretch]) -> None:
        """What it is told of and does not come to it by itself is sent at once."""
        spans: list[Span] = []
        for stretch in found:
            record = self._store.at(stretch.sequence)
            if record is None or head.topic_of(record.frame) != reader.live:
                spans.append((stretch.sequence, stretch.sequence + stretch.count - 1))
        self.resend(reader, spans)

    def resend(self, reader: Reader, spans: Iterable[Span]) -> None:
        """A subscriber asks for events that it was told of."""
        idle = not reader.wanted
        for first, last in spans:
            reader.wanted.add(max(first, 1), min(last, reader.told))
        if idle and reader.wanted:
            self._send_wanted(reader)

    def _send_wanted(self, reader: Reader) -> None:
        """From memory as long as it is there, then from the ledger."""
        blocks: list[Block] = []
        while reader.wanted:
            first = reader.wanted.first
            record = self._store.at(first)
            if record is None:
                self.scan(lambda now, got: self._found_wanted(now, reader, got), first, LETTER)
                break
            self._pick(reader, record, blocks)
            if sum(len(block.frame) for block in blocks) > LETTER:
                self._send(reader, blocks)
                blocks = []
        self._send(reader, blocks)

    def _found_wanted(self, now: int, reader: Reader, scanned: Scanned) -> None:  # noqa: ARG002
        if self.readers.get(reader.destination.name) is not reader:
            return
        blocks: list[Block] = []
        for record in scanned.records:
            self._pick(reader, record, blocks)
        self._send(reader, blocks)
        if blocks:
            self._send_wanted(reader)
        else:
            reader.wanted = Spans()  # forgotten or damaged: it asks again for what it needs

    def _pick(self, reader: Reader, record: Record, blocks: list[Block]) -> None:
        """The events of a record that are wanted; of mail, only what is for the one who wants it."""
        line, wanted, where = record.line, reader.wanted, reader.destination.filter
        spans = wanted.within(line.sequence, line.end)
        wanted.remove(line.sequence, line.end)
        if not spans or line.kind is not Kind.EVENTS:
            return
        block = self._store.block(record)
        if spans != [(line.sequence, line.end)]:
            rows = np.concatenate([np.arange(first, last + 1) for first, last in spans]) - line.sequence
            block = Block(block.excerpt(rows), block.schema)
        if self._is_mail and where is not None:
            rows = np.flatnonzero(where.select(block.column, block.count))
            if not len(rows):
                return
            block = Block(block.excerpt(rows), block.schema)
        blocks.append(block)

    def _send(self, reader: Reader, blocks: list[Block]) -> None:
        if blocks:
            self.effects.append(Post(reader.inbox, (Retransmission(self._topic, self._repository),), blocks))
