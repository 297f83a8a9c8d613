"""The machine of one reliable topic at one repository: section 3 of the paper, and section 4 for bundles of several.

It stores every event once, in order and without gaps, and sees to it that everyone who must have it gets it. The
package's first page lists its parts.
"""

from collections.abc import Callable, Iterable
from typing import Any

from stentor.machine import (
    SECOND,
    CommitFailed,
    Committed,
    Discard,
    Effect,
    Input,
    Measured,
    Open,
    Opened,
    Recalled,
    Scanned,
    StartTimer,
    Timer,
    TimerFired,
)
from stentor.model.communication import repository_name
from stentor.model.control import ControlEvent, PublisherOrder, Retransmission
from stentor.model.ids import publisher_id
from stentor.model.mail import mail_filter
from stentor.model.reports.status import TopicHealth
from stentor.protocols.delivery.authentication import is_forged
from stentor.protocols.delivery.repository.deferred import TellAccess, TellRegistrations
from stentor.protocols.delivery.repository.ledger_reads import LoadTail
from stentor.protocols.delivery.repository.registry import SubscriptionRecord
from stentor.protocols.delivery.repository.service import ServiceChange
from stentor.protocols.delivery.repository.serving.mailboxes import MOST_NAMES
from stentor.protocols.delivery.repository.serving.steered_publisher import SteeredPublisher
from stentor.protocols.delivery.repository.storing.commit_queue import PROGRESS
from stentor.protocols.delivery.repository.storing.recent_records import Budget
from stentor.protocols.delivery.repository.tick_interval import IDLE
from stentor.protocols.delivery.repository.topic_parts import TopicParts
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.trace_buffer import TraceBuffer
from stentor.protocols.delivery.transport import (
    AccessShared,
    EventsReceived,
    Founded,
    LetterReceived,
    LinkUp,
    Listening,
    Vouched,
)
from stentor.wire.block import Block

_LOAD = 4 << 20  # bytes read at once
_OPEN_AGAIN = 5 * SECOND  # after a ledger could not be opened: files may be closed, a disk mounted by then
_FOUNDED_WITHIN = 60 * SECOND  # a topic of which nothing was ever registered: whoever invited us was not believed
# What counts before all is read: nobody may be answered by one who knows nothing.
_BEFORE = (Opened, Scanned, LinkUp, Measured, TimerFired)


class TopicTick(Timer, frozen=True, gc=False, tag="topic tick"):
    """A topic's repository looks after what waits: the sooner, the busier it is."""

    topic: str


class TopicRepository(TopicParts):
    """One repository's part in one reliable topic."""

    def __init__(
        self, topic: str, settings: RepositorySettings, traces: TraceBuffer | None = None, budget: Budget | None = None
    ) -> None:
        super().__init__(TopicState(topic, settings, budget), traces or TraceBuffer(on=False))
        self.topic = topic
        self._settings, self._step = settings, self.state.step
        self.log, self.registry = self.state.log, self.state.registry
        self.table = self.state.table
        self.handling: Input | None = None  # the one of a step's inputs that is looked at, if it fails
        self._opened_at = 0
        self._wall_lead = 0  # how far the clock on the wall is ahead of ours
        self._id = 0  # under which we send
        self._is_announced = False  # brokers know all that its ledger tells of who may do what
        self.timer = TopicTick(topic)
        self._copies = 0  # that an event must have
        self._digest = 0  # of what is registered
        self._inputs = self._input_handlers()
        self._letters: dict[type[ControlEvent], Callable[[int, Any], None]] = {
            **self.letter_handlers,
            PublisherOrder: self._on_order,
        }

    def _input_handlers(self) -> dict[type[Input], Callable[[Any], None]]:
        return {
            Opened: self._on_opened,
            Committed: self._on_committed,
            CommitFailed: self.commits.failed,
            Scanned: self._on_scanned,
            Recalled: self._on_recalled,
            LetterReceived: self._on_letter,
            EventsReceived: self._on_events,
            LinkUp: self._on_link_up,
            TimerFired: self._on_tick,
            Measured: self._on_measured,
            Founded: self._on_founded,
            Vouched: self._on_vouched,
            Listening: lambda _: None,
            AccessShared: lambda shared: self.notices.confirm(shared.token),
        }

    def step(self, now: int, *happened: Input) -> list[Effect]:
        """What came at once is answered at once."""
        self._step.now = now
        self.log.set_clock(now + self._wall_lead)
        service = self.state.service
        if self.interval.is_over(happened):
            self._step.emit(StartTimer(self.timer, now + IDLE))
        for self.handling in happened:
            if service.is_gone:
                break  # whatever comes is for those who stay
            if service.is_open or isinstance(self.handling, _BEFORE):
                self._inputs[type(self.handling)](self.handling)
        self.handling = None
        if service.is_open and not service.is_gone:
            self._finish()
        return self._step.end()

    @property
    def is_open(self) -> bool:
        """Whether it knows what its ledger held."""
        return self.state.service.is_open

    @property
    def is_gone(self) -> bool:
        """Whether it has left the bundle, or the topic is no more."""
        return self.state.service.is_gone

    @property
    def last_token(self) -> int:
        """The last token under which something was asked of the ledger."""
        return max(self.state.reads.token, self.commits.token)

    def skip_tokens(self, upto: int) -> None:
        """Use no token up to this one: it belongs to a machine that failed."""
        self.state.reads.skip(upto)
        self.commits.skip(upto)

    def _on_scanned(self, scanned: Scanned) -> None:
        if self.is_open:
            self.damage.on_scanned(scanned)
        purpose = self.state.reads.take_scan(scanned.token)
        if isinstance(purpose, LoadTail):
            self._on_tail(scanned)
        elif purpose is not None:
            self.use_scanned(purpose, scanned)

    def _on_recalled(self, recalled: Recalled) -> None:
        self.use_recalled(self.state.reads.take_recall(recalled.token), recalled)

    # ---- the ledger

    def _on_opened(self, opened: Opened) -> None:
        self._opened_at = self._step.now
        self._wall_lead = opened.wall - self._step.now if opened.wall else 0
        if opened.reason:
            self._cannot_open(opened.reason)
            return
        facts = opened.holdings.facts
        self.registry.load(facts)
        if self._is_announced:
            self.registry.news.take_unshared()
        self.log.load(opened.holdings)
        self._digest = self.registry.digest
        self.gossip.reopen(facts)
        self.egress.obey()
        self.gossip.admit()
        self.state.bundle.load(opened.holdings.rows)
        for name in sorted(self.registry.subscriptions):
            note = facts.get(PROGRESS + name)
            if note is None:
                self.subscriptions.add(name)
            else:
                self.subscriptions.recall(name, note)
                self.tracer.progressed(name, self.table.destinations[name].reached())
        self.closing.recall()
        self.commits.reopen()
        self.tracer.reopen(self.log.horizon, self.log.next - 1)
        self._load_tail(self.log.horizon + 1)

    def _cannot_open(self, reason: str) -> None:
        """Try again later; other topics go on."""
        self.state.unopened = reason
        self.state.report("error", "a ledger cannot be opened", reason=reason)
        self._step.emit(StartTimer(self.timer, self._step.now + _OPEN_AGAIN))

    def _load_tail(self, first: int) -> None:
        """Read what subscribers have not been shown, before anything else."""
        if first < self.log.next:
            self.state.reads.scan(LoadTail(), first, _LOAD)
            return
        self.state.service.change(ServiceChange.LEDGER_READ)
        self.state.unopened = ""
        self.lives.recall()
        self.damage.find()
        self._step.emit(StartTimer(self.timer, 0))
        if self.gossip.principal:
            self._introduce()

    def _on_tail(self, scanned: Scanned) -> None:
        if scanned.reason:
            self._cannot_open(scanned.reason)
        else:
            self.tracer.recall(scanned.records)
            self._load_tail(self.log.see(scanned.records, scanned.damaged))

    def _on_founded(self, founded: Founded) -> None:
        if not self.registry.known:
            mine = {self._settings.name: self.gossip.principal}
            self.state.register(self.registry.create(founded.terms, mine, founded.born))
            self._obey()

    def _on_measured(self, measured: Measured) -> None:
        self.state.size = measured.size

    def _on_committed(self, committed: Committed) -> None:
        durable = self.commits.committed(committed.token)
        for line in durable.lines:
            self.log.streams.touch(self.log.streams[line.stream])
        for stream in durable.marked:
            self.gossip.note_change(stream)
        self.gossip.stored(durable.lines)
        self.egress.pass_on(durable.lines, self.holders.publishers)
        for deferred in self.commits.take_due():
            self.carry_out(deferred)
        self.syncs.committed(durable.syncs)

    # ---- events

    def _on_link_up(self, linked: LinkUp) -> None:
        self._id = publisher_id(linked.principal, repository_name(self._settings.name))
        self.gossip.linked(linked.principal)
        if self.is_open:
            self._introduce()

    def _introduce(self) -> None:
        """Tell the broker and the others what was registered, now that there is a link and that is known."""
        self.membership.introduce()
        if self._is_announced:
            self._is_announced = False
            return
        self.registry.news.take_unshared()
        self.commits.after_commit(TellAccess(self.registry.access(), is_all=True))

    def _on_events(self, arrived: EventsReceived) -> None:
        if not self.commits.is_full:
            for block in arrived.blocks:
                self._receive(block, ordered=False)

    def _receive(self, block: Block, ordered: bool) -> None:
        now = self._step.now
        if self.registry.terms.open:
            self.log.receive(now, block, known=True, ordered=True)
            return
        known = self.registry.is_authorised(block.publisher)
        if not self.state.mailboxes.has_room(block):
            self.state.report("error", "mail is not taken: it is for more names than can be kept", most=MOST_NAMES)
        elif known or block.publisher not in self.registry.publishers:
            self.log.receive(now, block, known, ordered)
        else:
            self.log.refuse(block)  # it was authorised once

    def _on_letter(self, heard: LetterReceived) -> None:
        if heard.sender == self._id:
            return  # the bundle includes ourselves
        for event in heard.events:
            if event.topic != self.topic or is_forged(heard, event):
                continue
            handler = self._letters.get(type(event))
            if handler is not None:
                handler(heard.sender, event)
            elif isinstance(event, Retransmission) and not self.gossip.knows(heard.sender):
                may_come = not self.commits.is_full and not self.registry.is_former(event.version)
                for block in heard.blocks:
                    if block.publisher == heard.sender and may_come:
                        self._receive(block, ordered=True)
            else:
                self.gossip.hear(heard.sender, event, heard.blocks)
        self._obey()

    def _on_order(self, sender: int, event: PublisherOrder) -> None:
        known = self.registry.is_authorised(sender)
        if not 0 < event.first <= event.last or (not known and sender in self.registry.publishers):
            return  # it was authorised once
        if self.registry.is_former(event.version):
            return  # it was sent to a topic of this name that was deleted: without it, its events are not stored
        acknowledged = ((1, event.acknowledged), *event.singles)
        key = sender, event.incarnation
        stream = self.log.order(self._step.now, key, event.first, event.last, known, acknowledged)
        if stream is not None:
            self.gap_closing.note_acknowledged(stream)
        publisher = self.holders.publishers.get(sender)
        if stream is not None and publisher is not None and stream.durable.covers(1, event.last):
            publisher.acknowledged = ()  # it asks again, so it has not heard
            self.log.streams.touch(stream)

    # ---- what was registered

    def _on_vouched(self, vouched: Vouched) -> None:
        if self.membership.is_over(vouched.ended):
            self._obey()

    def _obey(self) -> None:
        """Act upon what was registered in this step, here or elsewhere, and upon what others said of clients."""
        news = self.gossip.take_news()
        if news.learnt:
            self.log.register(news.learnt)
        if self.registry.news.take_changed():
            self._apply_registry()
        if news.is_passed_over:
            self.units.send_away_unserved()
        for steering in news.steered:
            self.holders.yield_to(steering)
        self.units.accept_offer(news.offered)

    def _apply_registry(self) -> None:
        """Act upon the registry as it is now."""
        self.egress.obey()
        self.closing.obey()
        names = sorted(self.registry.news.take_subscribers(self.registry.subscriptions))
        self.holders.obey()  # before anybody is sent elsewhere: who is fenced has nowhere to go
        self.subscriptions.remove_former(names)
        self.holders.dismiss_unauthorised(names)
        self.subscriptions.apply(names)
        self.subscriptions.note_without_right(names)
        self.state.register(self.lives.apply())
        self.log.introduce(self.lives.may_store)
        for name in self.gossip.admit():
            for stream in self.log.streams.values():
                stream.dismiss(name)
        self.membership.obey()
        self.membership.introduce()
        self.gossip.ask_all()  # of lives that were not known before, too

    # ---- the end of a step

    def _finish(self) -> None:
        if self.state.mailboxes.is_mail:
            for name in self.state.mailboxes.take_addressees():
                self.subscriptions.register(name, SubscriptionRecord(mail_filter(name)))
        if not self.gossip.ready:
            self.gossip.judge()  # clients wait for it: not only when time has passed
        copies = self.members.copies
        if self.registry.digest != self._digest:
            self._digest = self.registry.digest
            self.commits.after_commit(TellRegistrations(self._digest))
            if keys := self.registry.news.take_unshared():
                self.commits.after_commit(TellAccess(self.registry.access(keys)))
        touched = self.log.streams.take_touched()
        if copies != self._copies:
            self._copies = copies
            touched = dict.fromkeys(self.log.streams.values())
        self.syncs.confirm_replicated(copies)
        for deferred in self.commits.flush():
            self.carry_out(deferred)
        for answer in self.gossip.sharing.take_shared():
            self.carry_out(answer)
        self.tracer.registered()
        self.tracer.tell_progress()
        self.damage.tell_losses()
        shown = self.log.horizon
        if self.log.advance(copies, self.state.bundle.same_unit_peers):
            self.tracer.stable(shown + 1, self.log.horizon)
            self.feeds.feed_all(shown)  # those who wait for events come before those who wait for receipts
        for stream in touched:
            self.gap_closing.acknowledge(stream, copies)
        if self.log.suspects or self.log.clashes:
            self.conflicts.tell()

    # ---- time

    def _on_tick(self, fired: TimerFired) -> None:
        now = self._step.now
        self._wall_lead = fired.wall - now if fired.wall else self._wall_lead
        if not self.is_open and self.state.unopened:  # a tick of the machine before us is no reason to read twice
            self.state.unopened = ""
            if self.log.next > 1:
                self._load_tail(self.log.horizon + 1)
            else:
                self._step.emit(Open(self.topic))
        if not self.is_open or self.is_gone:
            return
        self.commits.retry()
        self.log.streams.drop_settled()
        self.members.note()
        self.lives.unknown.tick()
        busy = self.gossip.tick()
        busy = self.feeds.tick() or busy
        busy = self.syncs.tick() or busy
        busy = self.gap_closing.ask() or busy
        self.gap_closing.tick()
        self.damage.tick()
        self.admission.tick()
        self.departures.tick()
        self.retention.tick()
        self.closing.tick()
        self.notices.tick()
        if self.registry.news.is_changed:  # by what has just been closed, or by the ledger: perhaps nobody writes to us
            self._obey()
        if self._is_needless() or (self._may_leave and self.membership.leave()):
            self._step.emit(Discard(self.topic))
            self.state.service.change(ServiceChange.NOT_NEEDED)
        self._step.emit(StartTimer(self.timer, now + self.interval.pause(busy)))

    def _is_needless(self) -> bool:
        """Whether the topic was deleted, and that is told, or whoever invited us was not believed."""
        if self.registry.deleted:
            return self.commits.is_idle and self.notices.is_settled
        is_overdue = self._step.now - self._opened_at > _FOUNDED_WITHIN
        return self.log.next == 1 and not self.registry.known and is_overdue

    @property
    def _may_leave(self) -> bool:
        return self.gossip.leaving and not self.notices.is_answering and not self.damage.is_found

    def wake(self, size: int, publishers: Iterable[SteeredPublisher]) -> None:
        """Go on with a topic that slept: its broker knows all of it, and these publishers need not notice."""
        self.state.size = size
        self._is_announced = True
        for publisher in publishers:
            self.holders.steer(publisher)

    def conclude(self, now: int) -> None:
        """Trace what there is to trace, before the node stops."""
        self._step.now = now
        self.tracer.tell_progress(is_last=True)

    def validate(self) -> None:
        """Assert the invariants of what it holds; while it reads its ledger, that is not all there yet."""
        if not self.is_open:
            return
        self.log.validate()
        self.table.validate()
        self.state.bundle.validate()
        for cursor in self.feeds.cursors.values():
            cursor.validate()

    @property
    def health(self) -> TopicHealth:
        return self.reporter.health

    def status(self, now: int) -> dict[str, Any]:
        """Return what an operator wants to see."""
        return self.reporter.report(now)
