"""Subscriber feeds: a repository tells the subscribers that it steers what is stored for them, and sends again what
they miss.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from stentor.machine import SECOND, Scanned
from stentor.model.communication import notice_group_of
from stentor.model.control import Persistent, Rectify, Retransmission, SequenceRun, Sync
from stentor.model.stored.record import Record, RecordHeader, RecordKind, StreamId
from stentor.model.stored.span import Span, Spans
from stentor.protocols.delivery.repository.ledger_reads import FeedCursor, ResendWanted
from stentor.protocols.delivery.repository.serving.dissemination_table import run_of, runs_of
from stentor.protocols.delivery.repository.serving.subscriber_cursor import Ask, CursorChange, SubscriberCursor
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.wire import head
from stentor.wire.block import Block

_LONGEST_PAUSE = 30 * SECOND
_MOST_STRETCHES = 1024  # in one event
_ALL = b""  # an audience that wants all of a record
LETTER = 256 << 10  # bytes of events that are sent again in one letter


class SubscriberFeeds:
    """The cursors of all subscribers that one repository steers in one topic."""

    def __init__(self, state: TopicState) -> None:
        self._state, self._step = state, state.step
        self._log, self._registry = state.log, state.registry
        self._topic, self._settings = state.topic, state.settings
        self._window = state.settings.window
        self.cursors: dict[str, SubscriberCursor] = {}
        self._is_stalled = False  # cursors may have stopped in front of something that can be read by now
        # Whoever was shown all up to _quiet_after has nothing to be told up to _quiet_upto: between them are
        # registrations alone. Invariant: _quiet_after <= _quiet_upto <= the horizon
        self._quiet_after = self._quiet_upto = 0
        # Who has not acknowledged all that it was told of, or of whose earlier lives not all is known: nobody else is
        # looked at when time passes. One that another cursor replaced, or that is gone, stays until then.
        self.waiting: dict[SubscriberCursor, None] = {}
        self._ticked_at = 0

    @property
    def are_events_sent_along(self) -> bool:
        """Whether events do not come by themselves to all subscribers: those that are held at borders go to the unit of
        their publisher, and those of an open topic are published under another name.
        """
        return self._registry.terms.hold or self._registry.terms.open

    def steer(self, cursor: SubscriberCursor) -> None:
        """Serve a subscriber from now on, with this cursor."""
        self.cursors[cursor.progress.name] = cursor
        self.waiting[cursor] = None

    def drop(self, name: str) -> SubscriberCursor | None:
        """Tell a subscriber nothing more; return its cursor if it had one."""
        return self.cursors.pop(name, None)

    def drop_all(self) -> None:
        """Tell nobody anything more."""
        self.cursors.clear()

    def retry_stalled(self) -> None:
        """Have cursors that stopped in front of something try again with the next tick."""
        self._is_stalled = True

    def post(self, cursor: SubscriberCursor, event: Persistent | Rectify | Sync) -> None:
        self._state.send(cursor.inbox, event)

    # ---- telling

    def feed_all(self, shown: int) -> None:
        """Tell all what is new after this sequence number: those who want the same, and are equally far, together.
        Registrations are for nobody: as long as nothing else follows them, no cursor is looked at.
        """
        if self._quiet_upto < shown:
            self._quiet_after = shown
        self._quiet_upto = self._notes_after(shown)
        if self._quiet_upto == self._log.horizon:
            return
        groups: dict[tuple[str, int], list[SubscriberCursor]] = {}
        for cursor in self.cursors.values():
            self._pass_registrations(cursor)
            groups.setdefault((cursor.progress.where, cursor.scanned_upto), []).append(cursor)
        for group in groups.values():
            together = [cursor for cursor in group if cursor.in_notice_group and self._follows(cursor)]
            if len(together) > 1:
                self._tell_together(together)
            for cursor in group:
                if cursor.scanned_upto < self._log.horizon:
                    self.feed(cursor)

    def _notes_after(self, shown: int) -> int:
        """Return the last of the sequence numbers after this one that are registrations, without a gap."""
        while shown < self._log.horizon:
            record = self._log.at(shown + 1)
            if record is None or record.line.kind is not RecordKind.NOTE:
                break
            shown = record.line.end
        return shown

    def _pass_registrations(self, cursor: SubscriberCursor) -> None:
        if self._quiet_after <= cursor.scanned_upto < self._quiet_upto and not cursor.scanning:
            cursor.scanned_upto = self._quiet_upto
            if cursor.skip():
                self._state.table.note_progress(cursor.progress.name)

    def _follows(self, cursor: SubscriberCursor) -> bool:
        """Return whether a subscriber is told what is new, and nothing else."""
        busy = cursor.scanning or cursor.rectifying or cursor.lost
        asks = cursor.is_active and cursor.ask is Ask.KNOWN
        return asks and not busy and cursor.doubt is not None and cursor.pending < self._window

    def _tell_together(self, cursors: list[SubscriberCursor]) -> None:
        """Tell these with one letter as far as they want the same; what is left they are told one by one."""
        log, progress = self._log, cursors[0].progress
        sent = cursors[0].scanned_upto
        room = self._window - max(cursor.pending for cursor in cursors)
        found: list[SequenceRun] = []
        lines: list[RecordHeader] = []
        told: list[tuple[int, int]] = []
        while sent < log.horizon and room > 0 and len(found) < _MOST_STRETCHES:
            record = log.at(sent + 1)
            if record is None or record.line.kind is RecordKind.RESERVED:
                break
            line = record.line
            audience = record.audience.get(progress.slot)
            if not all(cursor.progress.follows(record, audience) for cursor in cursors):
                break
            lines.append(line)
            sent = line.end
            if audience == _ALL:
                found.append(run_of(line))
                room -= line.length
                told.append((line.end, line.length))
            elif len(rows := progress.rows(record, None)):
                found += runs_of(line, rows)
                room -= len(rows)
                told.append((line.sequence + int(rows[-1]), len(rows)))
        if any(cursor.doubtful(run) for cursor in cursors for run in found):
            return
        previous = min(cursor.announced_upto for cursor in cursors)
        for cursor in cursors:
            cursor.follow(sent, lines, told)
            if found:
                cursor.announced_upto = sent
                self._await(cursor)
            elif cursor.skip():
                self._state.table.note_progress(cursor.progress.name)
        if found:
            left = log.horizon - sent
            persistent = Persistent(
                self._topic, self._settings.name, -progress.notice_group, previous, sent, tuple(found), left=left
            )
            to = notice_group_of(self._topic, self._settings.name, progress.notice_group)
            self._state.send(to, persistent)
            for cursor in cursors if self.are_events_sent_along else ():
                self._accompany(cursor, found)

    def feed(self, cursor: SubscriberCursor, asked: bool = False) -> None:
        """Tell a subscriber what is there for it, as far as its window allows; if it asked, also that it is nothing."""
        if cursor.scanning or not cursor.is_active:
            return
        self._pass_registrations(cursor)
        log = self._log
        found: list[SequenceRun] = []
        end = log.horizon if cursor.ask is Ask.KNOWN else 0
        while cursor.scanned_upto < end and cursor.pending < self._window and len(found) < _MOST_STRETCHES:
            record = log.at(cursor.scanned_upto + 1)
            if record is None:
                if not found:
                    cursor.scanning = self._state.reads.scan(FeedCursor(cursor), cursor.scanned_upto + 1)
                break
            if record.line.kind is RecordKind.RESERVED:
                break  # damaged, and not repaired yet
            self._add(cursor, record, found)
        if not cursor.scanning:
            self._tell(cursor, found, asked)

    def on_scanned(self, cursor: SubscriberCursor, scanned: Scanned) -> None:
        """Tell a subscriber of records that were read for it."""
        if self.cursors.get(cursor.progress.name) is not cursor or cursor.scanning != scanned.token:
            return  # it is told from another place on by now
        cursor.scanning = 0
        found: list[SequenceRun] = []
        log = self._log
        for record in scanned.records:
            line = record.line
            if line.kind is RecordKind.RESERVED or line.end > log.horizon or cursor.pending >= self._window:
                break
            if any(lost.sequence <= line.sequence and lost.end > cursor.scanned_upto for lost in scanned.damaged):
                break
            self._add(cursor, record, found)
        if not scanned.records and not scanned.damaged and not scanned.reason:
            cursor.scanned_upto = max(cursor.scanned_upto, min(log.start - 1, log.horizon))  # all of it is forgotten
        self._tell(cursor, found, False)
        if scanned.reason:
            self._is_stalled = True
        elif found or not scanned.records:
            self.feed(cursor)

    def _add(self, cursor: SubscriberCursor, record: Record, found: list[SequenceRun]) -> None:
        line = record.line
        progress = cursor.progress
        if progress.follows(record, _ALL):
            found.append(run_of(line))
            cursor.follow(line.end, (line,), ((line.end, line.length),))
            return
        early = line.kind is RecordKind.EVENTS and line.sequence <= progress.epoch
        rows = progress.rows(record, self._log.block(record) if early else None)
        cursor.lines.append(line)
        cursor.scanned_upto = line.end
        if len(rows):
            found += runs_of(line, rows)
            cursor.pending += len(rows)
            cursor.inflight.append((line.sequence + int(rows[-1]), len(rows)))

    def _tell(self, cursor: SubscriberCursor, found: list[SequenceRun], asked: bool) -> None:
        parts: list[tuple[list[SequenceRun], int]] = list(cursor.divide(found))
        if (asked or cursor.lost) and not parts:
            parts = [([], 0)]
        lost, cursor.lost = tuple(cursor.lost), []
        losers = tuple(self._registry.publisher_name(each.publisher) for each in lost)
        for at, (part, redelivered) in enumerate(parts, 1):
            upto = cursor.scanned_upto if at == len(parts) else part[-1].sequence + part[-1].count - 1
            left = max(self._log.horizon - upto, 0)  # a sync may be ahead of what a life of ours has shown yet
            known = cursor.ask is Ask.KNOWN
            told = (upto, tuple(part), redelivered, left, known, *((lost, losers) if at == 1 else ()))
            event: Persistent | Rectify
            if cursor.rectifying:
                event = Rectify(self._topic, self._settings.name, cursor.attempt, cursor.safe, *told)
            else:
                event = Persistent(self._topic, self._settings.name, cursor.attempt, cursor.announced_upto, *told)
            self.post(cursor, event)
            cursor.announced_upto = upto
            if self.are_events_sent_along and not cursor.rectifying:
                self._accompany(cursor, part)
            cursor.rectifying = False
        if cursor.pending:
            self._await(cursor)
        if not parts and cursor.skip():
            self._state.table.note_progress(cursor.progress.name)

    def _await(self, cursor: SubscriberCursor) -> None:
        """Count the time from now on in which a subscriber does not acknowledge what it was told of."""
        if cursor not in self.waiting:
            self.waiting[cursor] = None
            cursor.answered = max(cursor.answered, self._ticked_at)

    # ---- acknowledgements

    def acknowledge(self, cursor: SubscriberCursor, spans: Iterable[Span]) -> None:
        cursor.answered, cursor.pause = self._step.now, 0
        if cursor.acknowledge(spans):
            self._state.table.note_progress(cursor.progress.name)
        else:
            self.tell_sync(cursor)
        self.feed(cursor)

    def tell_sync(self, cursor: SubscriberCursor) -> None:
        """Tell a subscriber its sync: it may forget what it kept for this."""
        self.post(cursor, Sync(self._topic, self._settings.name, cursor.attempt, cursor.safe))

    def ask(self, cursor: SubscriberCursor) -> None:
        """Write down that the application of a subscriber asks for events, before it is told of any."""
        if cursor.ask is Ask.NONE:
            cursor.ask = Ask.NOTED
            cursor.progress.learn(cursor.testify())
            self._state.table.note_progress(cursor.progress.name)

    def judge(self, cursor: SubscriberCursor, doubt: Mapping[StreamId, int] | None) -> None:
        """Say what earlier lives of a subscriber may have been handed; nothing is handed out of what is over."""
        over = self._log.streams.is_over
        cursor.doubt = None if doubt is None else {key: last for key, last in doubt.items() if not over(key)}
        if doubt is None:
            self.waiting[cursor] = None
        if cursor.ask is not Ask.NONE and cursor.progress.learn(cursor.testify()):
            self._state.table.note_progress(cursor.progress.name)

    def ask_known(self, cursor: SubscriberCursor) -> None:
        """Tell a subscriber what there is: enough repositories know that it has asked."""
        if cursor.ask is Ask.NOTED:
            cursor.ask = Ask.KNOWN
            self.feed(cursor, asked=True)  # although it may be nothing: now it may hear what is told to all

    def end(self, cursor: SubscriberCursor, given: Mapping[StreamId, int]) -> None:
        """Write down what a subscriber was handed, whose life ends in good order."""
        cursor.change(CursorChange.ENDED)
        if cursor.ask is Ask.NONE and not given:
            self.part(cursor.progress.name, cursor.inbox, cursor.attempt)
        else:
            cursor.progress.learn(cursor.testify(ended=True, given=given))
            self._state.table.note_progress(cursor.progress.name)

    def part(self, name: str, inbox: str, attempt: int) -> None:
        """Tell a subscriber that all is written down that is to be known of its life."""
        self.drop(name)
        self._state.send(inbox, Sync(self._topic, self._settings.name, attempt, 0, ended=True))

    def inform(self, cursor: SubscriberCursor, after: int) -> None:
        """Tell a subscriber what there is after what it knows, as it asks."""
        if after < cursor.announced_upto:
            self.rectify(cursor)
        else:
            self.feed(cursor, asked=True)

    def report_losses(self, cursor: SubscriberCursor) -> None:
        """Have a subscriber told what is lost that it has not acknowledged; each time that it is told where it is,
        since it may not have heard.
        """
        cursor.lose(self._log.losses)

    def rectify(self, cursor: SubscriberCursor) -> None:
        """Tell a subscriber again from its sync on: it has missed what it was told."""
        if not cursor.scanning:
            cursor.rewind()
            self.report_losses(cursor)
            cursor.rectifying = True
            self.feed(cursor, asked=True)

    def tick(self) -> bool:
        """Tell those again who do not acknowledge; return whether anybody is waited for."""
        now, waiting = self._step.now, False
        is_stalled, self._is_stalled = self._is_stalled, False
        for cursor in list(self.cursors.values()) if is_stalled else ():
            self.feed(cursor)
        self._ticked_at = now
        for cursor in list(self.waiting):
            if self.cursors.get(cursor.progress.name) is not cursor:
                del self.waiting[cursor]
                continue
            if cursor.doubt is None and now - cursor.began > self._settings.suspicion:
                # whatever others gave it before, they have told us by now that it exists
                self.judge(cursor, {key: stream.announced.last for key, stream in self._log.streams.items()})
            if not cursor.pending:
                cursor.answered = now
                if cursor.doubt is not None:
                    del self.waiting[cursor]
                continue
            waiting = True
            pause = cursor.pause or self._settings.rectify_after
            if now - cursor.answered > pause and not cursor.scanning:
                cursor.answered, cursor.pause = now, min(2 * pause, _LONGEST_PAUSE)
                self.rectify(cursor)
        return waiting

    # ---- sending again

    def _accompany(self, cursor: SubscriberCursor, found: Iterable[SequenceRun]) -> None:
        """Send at once what a subscriber is told of and does not come to it by itself."""
        spans: list[Span] = []
        for run in found:
            record = self._log.at(run.sequence)
            if record is None or head.topic_of(record.frame) != cursor.live:
                spans.append((run.sequence, run.sequence + run.count - 1))
        self.resend(cursor, spans)

    def resend(self, cursor: SubscriberCursor, spans: Iterable[Span]) -> None:
        """Send events again that a subscriber was told of and asks for."""
        idle = not cursor.wanted
        for first, last in spans:
            cursor.wanted.add(max(first, 1), min(last, cursor.announced_upto))
        if idle and cursor.wanted:
            self._send_wanted(cursor)

    def _send_wanted(self, cursor: SubscriberCursor) -> None:
        """Send what is wanted from memory as long as it is there, then from the ledger."""
        blocks: list[Block] = []
        while cursor.wanted:
            first = cursor.wanted.first
            record = self._log.at(first)
            if record is None:
                self._state.reads.scan(ResendWanted(cursor), first, LETTER)
                break
            self._pick(cursor, record, blocks)
            if sum(len(block.frame) for block in blocks) > LETTER:
                self._send(cursor, blocks)
                blocks = []
        self._send(cursor, blocks)

    def on_wanted_scanned(self, cursor: SubscriberCursor, scanned: Scanned) -> None:
        """Send a subscriber the records that it asked for."""
        if self.cursors.get(cursor.progress.name) is not cursor:
            return
        blocks: list[Block] = []
        for record in scanned.records:
            self._pick(cursor, record, blocks)
        self._send(cursor, blocks)
        if blocks:
            self._send_wanted(cursor)
        else:
            cursor.wanted = Spans()  # forgotten or damaged: it asks again for what it needs

    def _pick(self, cursor: SubscriberCursor, record: Record, blocks: list[Block]) -> None:
        """The events of a record that are wanted; of mail, only what is for the one who wants it."""
        line, wanted, where = record.line, cursor.wanted, cursor.progress.filter
        spans = wanted.within(line.sequence, line.end)
        wanted.remove(line.sequence, line.end)
        if not spans or line.kind is not RecordKind.EVENTS:
            return
        block = self._log.block(record)
        if spans != [(line.sequence, line.end)]:
            rows = np.concatenate([np.arange(first, last + 1) for first, last in spans]) - line.sequence
            block = Block(block.excerpt(rows), block.schema)
        if self._state.mailboxes.is_mail and where is not None:
            rows = np.flatnonzero(where.select(block.column, block.count))
            if not len(rows):
                return
            block = Block(block.excerpt(rows), block.schema)
        blocks.append(block)

    def _send(self, cursor: SubscriberCursor, blocks: list[Block]) -> None:
        if blocks:
            self._state.send(cursor.inbox, Retransmission(self._topic, self._settings.name), blocks=blocks)
