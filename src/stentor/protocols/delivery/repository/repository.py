"""The machine of one reliable topic at one repository: section 3 of the paper, and section 4 for bundles of several.

It stores every event once, in order and without gaps, and sees to it that everyone who must have it gets it. The
package's first page lists its parts.
"""

from collections.abc import Callable
from typing import Any

import msgspec

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
    Report,
    Scanned,
    StartTimer,
    Timer,
    TimerFired,
)
from stentor.model.communication import repository_name
from stentor.model.control import ControlEvent, PublisherOrder, Retransmission
from stentor.model.ids import publisher_id
from stentor.model.status import TopicHealth
from stentor.protocols.delivery.authentication import is_forged
from stentor.protocols.delivery.replication.gossip import Gossip
from stentor.protocols.delivery.replication.own_membership import OwnMembership
from stentor.protocols.delivery.replication.sync_replication import SyncReplication
from stentor.protocols.delivery.repository import status as survey
from stentor.protocols.delivery.repository.access_notices import AccessNotices
from stentor.protocols.delivery.repository.owner_requests import OwnerRequests
from stentor.protocols.delivery.repository.registry import LIFE, Registry
from stentor.protocols.delivery.repository.serving.admission import Admission
from stentor.protocols.delivery.repository.serving.departures import Departures
from stentor.protocols.delivery.repository.serving.dissemination_table import DisseminationTable
from stentor.protocols.delivery.repository.serving.mailboxes import MOST_NAMES, Mailboxes
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.serving.subscriber_letters import SubscriberLetters
from stentor.protocols.delivery.repository.serving.unknown_lives import UnknownLives
from stentor.protocols.delivery.repository.storing.commit_queue import PROGRESS, CommitQueue
from stentor.protocols.delivery.repository.storing.conflicts import Conflicts
from stentor.protocols.delivery.repository.storing.damage import Damage
from stentor.protocols.delivery.repository.storing.egress_hold import EgressHold
from stentor.protocols.delivery.repository.storing.event_log import EventLog
from stentor.protocols.delivery.repository.storing.gap_closing import GapClosing
from stentor.protocols.delivery.repository.storing.life_closing import LifeClosing
from stentor.protocols.delivery.repository.storing.publisher_lives import PublisherLives
from stentor.protocols.delivery.repository.storing.recent_records import Budget
from stentor.protocols.delivery.repository.storing.retention import Retention
from stentor.protocols.delivery.repository.storing.streams import Streams
from stentor.protocols.delivery.repository.tick_interval import IDLE, TickInterval
from stentor.protocols.delivery.repository.tracer import RepositoryTracer
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.stored.read_server import StoredReadServer
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


class TopicRepository:
    """One repository's part in one reliable topic."""

    def __init__(
        self, topic: str, settings: RepositorySettings, trail: TraceBuffer | None = None, budget: Budget | None = None
    ) -> None:
        self.topic = topic
        self._settings = settings
        streams = Streams()
        self.table = DisseminationTable(streams)
        self.mailboxes = Mailboxes(self.table, is_mail=topic == settings.mail)
        self.registry = Registry(settings.name, is_mail=self.mailboxes.is_mail)
        budget, audience = budget or Budget(settings.tail), self.mailboxes.audience
        self.log = log = EventLog(streams, budget, audience, bool(settings.unit))
        self.feeds = SubscriberFeeds(topic, log, settings, self.registry.publisher_name)
        self.gossip = Gossip(topic, settings, log, self.registry, self.table, self.feeds)
        self.tracer = RepositoryTracer(topic, settings.name, self.registry, self.table, trail or TraceBuffer(on=False))
        self.commits = CommitQueue(topic, log, self.table, self.feeds, self.tracer, settings.unsaved)
        self.syncs = SyncReplication(topic, settings, self.table, self.feeds, self.gossip, self.commits)
        self.egress = EgressHold(topic, settings, log, self.registry, self.feeds)
        self.lives = PublisherLives(log, self.registry, UnknownLives(settings, log, self.registry, self.gossip))
        self.admission = Admission(
            topic, settings, log, self.registry, self.table, self.feeds, self.gossip, self.commits,
            self.syncs, self.egress, self.lives,
        )  # fmt: skip
        self.departures = Departures(topic, settings.name, self.registry, self.table, self.feeds, self.admission)
        bundle, holders = self.gossip.bundle, self.admission.holders
        subscribers = SubscriberLetters(settings.name, streams, self.table, self.feeds, bundle, holders)
        self.membership = OwnMembership(
            topic, settings, log, self.registry, self.table, self.feeds, self.gossip, self.admission, self.syncs
        )
        self.notices = AccessNotices(topic, self.registry, self.feeds)
        self.damage = Damage(topic, settings, log, self.registry, self.feeds, self.gossip)
        self.retention = Retention(
            topic, log, self.registry, self.table, self.feeds, self.gossip, self.commits, self.egress,
            self.tracer, settings,
        )  # fmt: skip
        self.closing = LifeClosing(
            settings, log, self.registry, self.table, self.gossip, self.admission, self.syncs, self.tracer
        )
        self.gap_closing = GapClosing(
            topic, settings, log, self.registry, self.feeds, self.gossip, self.admission, self.egress, self.lives
        )
        self.owner_requests = OwnerRequests(
            topic, settings, self.registry, self.gossip, self.commits, self.admission, self.notices, self.damage,
            self.gap_closing, self.status,
        )  # fmt: skip
        self.read_server = StoredReadServer(
            topic, settings, log, self.registry, self.table, self.feeds, self.gossip, self.admission, lambda: self.size
        )
        self.conflicts = Conflicts(topic, log, self.feeds)
        self.gone = self.is_open = False  # it has left the bundle; it knows what its ledger held
        self.interval = TickInterval(log, self.registry, self.feeds, self.gossip, self.commits, self.notices)
        self.handling: Input | None = None  # the one of a step's inputs that is looked at, if it fails
        self.unopened = ""  # why its ledger could not be opened when that was last tried
        self._opened_at = self._wall_lead = 0  # the latter is how far the clock on the wall is ahead of ours
        self._id = self.size = 0  # under which we send; bytes on the disk
        self.is_announced = False  # brokers know all that its ledger tells of who may do what
        self.timer = TopicTick(topic)
        self._copies = self._facts = 0  # … of what is stored; a digest of what is registered
        self._inputs = self._input_handlers()
        self._words: dict[type[ControlEvent], Callable[[int, int, Any], None]] = {
            **self.admission.handlers,
            **self.departures.handlers,
            **subscribers.handlers,
            **self.owner_requests.handlers,
            **self.read_server.handlers,
            PublisherOrder: self._order,
        }

    def _input_handlers(self) -> dict[type[Input], Callable[[int, Any], None]]:
        return {
            Opened: self._opened,
            Committed: self._committed,
            CommitFailed: self.commits.failed,
            Scanned: self._scanned,
            Recalled: lambda now, recalled: self.feeds.recalls.pop(recalled.token)(now, recalled),
            LetterReceived: self._heard,
            EventsReceived: self._arrived,
            LinkUp: self._linked,
            TimerFired: self._tick,
            Measured: self._measured,
            Founded: self._founded,
            Vouched: lambda now, vouched: self._obey(now) if self.membership.is_over(vouched.ended) else None,
            Listening: lambda *_: None,
            AccessShared: lambda _, shared: self.notices.confirm(shared.token),
        }

    def step(self, now: int, *happened: Input) -> list[Effect]:
        """What came at once is answered at once."""
        self.log.wall = now + self._wall_lead
        if self.interval.is_over(now, happened):
            self.feeds.effects.append(StartTimer(self.timer, now + IDLE))
        for self.handling in happened:
            if self.is_open or isinstance(self.handling, _BEFORE):
                self._inputs[type(self.handling)](now, self.handling)
        self.handling = None
        if self.is_open and not self.gone:
            self._finish(now)
        effects, self.feeds.effects = self.feeds.effects, []
        return effects

    def _report(self, level: str, what: str, **details: str | int | float) -> None:
        self.feeds.effects.append(Report(level, what, {"topic": self.topic, **details}))

    # ---- the ledger

    def _opened(self, now: int, opened: Opened) -> None:
        self._opened_at, self._wall_lead = now, opened.wall - now if opened.wall else 0
        if opened.reason:
            self._cannot_open(now, opened.reason)
            return
        facts = opened.holdings.facts
        self.registry.load(facts)
        if self.is_announced:
            self.registry.unshared.clear()
        self.log.load(opened.holdings)
        self._facts = self.gossip.facts = self.registry.digest
        self.gossip.membership.recall(facts)
        self.egress.obey()
        self.gossip.admit(now, self.registry.units)
        for row in opened.holdings.rows:
            peer = self.gossip.bundle.peers.get(row.repository)
            if peer is not None:
                peer.enter(row.line)
        for name, subscription in sorted(self.registry.subscriptions.items()):
            note = facts.get(PROGRESS + name)
            if note is None:
                self.admission.register(name, subscription)
            else:
                self.admission.recall(name, subscription, note)
                self.tracer.progressed(name, self.table.destinations[name].reached())
        self.closing.recall()
        self.commits.noted = self.log.horizon
        self.tracer.reopen(self.log.horizon, self.log.next - 1)
        self._load_tail(self.log.horizon + 1)

    def _cannot_open(self, now: int, reason: str) -> None:
        """Try again later; other topics go on."""
        self.unopened = reason
        self._report("error", "a ledger cannot be opened", reason=reason)
        self.feeds.effects.append(StartTimer(self.timer, now + _OPEN_AGAIN))

    def _load_tail(self, first: int) -> None:
        """Read what readers have not been shown, before anything else."""
        if first < self.log.next:
            self.feeds.scan(self._seen, first, _LOAD)
        else:
            self.is_open, self.unopened = True, ""
            self.lives.recall()
            self.damage.find()
            self.feeds.effects.append(StartTimer(self.timer, 0))
            if self.gossip.principal:
                self._introduce()

    def _seen(self, now: int, scanned: Scanned) -> None:
        if scanned.reason:
            self._cannot_open(now, scanned.reason)
        else:
            self.tracer.recall(now, scanned.records)
            self._load_tail(self.log.see(scanned.records, scanned.damaged))

    def _scanned(self, now: int, scanned: Scanned) -> None:
        if self.is_open:
            self.damage.scanned(scanned)
        then = self.feeds.scans.pop(scanned.token, None)
        if then is not None:
            then(now, scanned)

    def _founded(self, now: int, founded: Founded) -> None:
        if not self.registry.known:
            mine = {self._settings.name: self.gossip.principal}
            self.admission.remember(self.registry.create(founded.terms, mine, founded.born))
            self._obey(now)

    def _measured(self, now: int, measured: Measured) -> None:  # noqa: ARG002
        self.size = measured.size

    def _committed(self, now: int, committed: Committed) -> None:
        news, syncs = self.commits.committed(now, committed.token)
        for line in news:
            self.gossip.touched[self.log.streams[line.stream]] = None
        self.gossip.changed |= self.log.marked
        self.log.marked = {}
        self.gossip.stored(news)
        self.egress.pass_on(news, self.admission.publishers)
        self.commits.finish(now)
        self.syncs.committed(now, syncs)

    # ---- events

    def _linked(self, now: int, linked: LinkUp) -> None:
        self._id = publisher_id(linked.principal, repository_name(self._settings.name))
        self.gossip.linked(now, linked.principal)
        if self.is_open:
            self._introduce()

    def _introduce(self) -> None:
        """There is a link, and it is known what was registered: the broker and the others learn of it."""
        self.membership.introduce()
        if self.is_announced:
            self.is_announced = False
            return
        self.registry.unshared.clear()
        facts = self.registry.access()
        self.commits.after_commit(lambda _: self.notices.tell_all(facts))

    def _arrived(self, now: int, arrived: EventsReceived) -> None:
        if not self.commits.full:
            for block in arrived.blocks:
                self._receive(now, block, ordered=False)

    def _receive(self, now: int, block: Block, ordered: bool) -> None:
        if self.registry.terms.open:
            self.log.receive(now, block, known=True, ordered=True)
            return
        known = self.registry.is_authorised(block.publisher)
        if not self.mailboxes.has_room(block):
            self._report("error", "mail is not taken: it is for more names than can be kept", most=MOST_NAMES)
        elif known or block.publisher not in self.registry.publishers:
            self.log.receive(now, block, known, ordered)
        else:
            self.log.strangers += block.count  # it was authorised once

    def _heard(self, now: int, heard: LetterReceived) -> None:
        if heard.sender == self._id:
            return  # the bundle includes ourselves
        for event in heard.events:
            if event.topic != self.topic or is_forged(heard, event):
                continue
            handler = self._words.get(type(event))
            if handler is not None:
                handler(now, heard.sender, event)
            elif isinstance(event, Retransmission) and not self.gossip.knows(heard.sender):
                may_come = not self.commits.full and not self.registry.is_former(event.version)
                for block in heard.blocks:
                    if block.publisher == heard.sender and may_come:
                        self._receive(now, block, ordered=True)
            else:
                self.gossip.hear(now, heard.sender, event, heard.blocks)
        self._obey(now)

    def _order(self, now: int, sender: int, event: PublisherOrder) -> None:
        known = self.registry.is_authorised(sender)
        if not 0 < event.first <= event.last or (not known and sender in self.registry.publishers):
            return  # it was authorised once
        if self.registry.is_former(event.version):
            return  # it was sent to a topic of this name that was deleted: without it, its events are not stored
        acknowledged = ((1, event.acknowledged), *event.singles)
        stream = self.log.order(now, (sender, event.incarnation), event.first, event.last, known, acknowledged)
        publisher = self.admission.publishers.get(sender)
        if stream is not None and publisher is not None and stream.durable.covers(1, event.last):
            publisher.acknowledged = ()  # it asks again, so it has not heard
            self.gossip.touched[stream] = None

    # ---- what was registered

    def _obey(self, now: int) -> None:
        """Act upon what was registered in this step, here or elsewhere."""
        learnt, self.gossip.learnt = self.gossip.learnt, []
        if learnt:
            if not all(fact.key.startswith(LIFE) for fact in learnt):
                self.log.note()
            self.log.entries += learnt
        if self.registry.changed:
            self.registry.changed = False
            self.egress.obey()
            self.closing.obey()
            self.admission.apply_registry()
            for name in self.gossip.admit(now, self.registry.units):
                for stream in self.log.streams.values():
                    stream.dismiss(name)
            self.membership.obey(now)
            self.membership.introduce()
            self.gossip.ask_all(now)  # of lives that were not known before, too
        if self.gossip.cared:
            self.gossip.cared = False
            self.admission.send_away()
        stolen, self.gossip.stolen = self.gossip.stolen, []
        for steering in stolen:
            self.admission.holders.yield_to(steering)
        if self.gossip.offered:
            self.admission.offer()

    # ---- the end of a step

    def _finish(self, now: int) -> None:
        self.mailboxes.register_addressees(self.admission)
        if not self.gossip.ready:
            self.gossip.judge(now)  # clients wait for it: not only when time has passed
        copies = self.gossip.copies(now)
        if self.registry.digest != self._facts:
            digest = self._facts = self.registry.digest
            self.commits.after_commit(lambda later: self.gossip.noted(later, digest))
            if self.registry.unshared:
                facts = self.registry.access(self.registry.unshared)
                self.commits.after_commit(lambda _: self.notices.tell(facts))
                self.registry.unshared.clear()
        touched, self.gossip.touched = self.gossip.touched, {}
        if copies != self._copies:
            self._copies = copies
            touched = dict.fromkeys(self.log.streams.values())
        self.syncs.confirm_replicated(now, copies)
        self.commits.flush(now)
        if self.gossip.sharing and self.gossip.are_facts_shared(now):
            actions, self.gossip.sharing = self.gossip.sharing, []
            for action in actions:
                action(now)
        self.tracer.registered(now)
        self.tracer.tell_progress(now)
        self.damage.tell_losses()
        shown = self.log.horizon
        if self.log.advance(copies, self.gossip.bundle.same_unit_peers):
            self.tracer.stable(now, shown + 1, self.log.horizon)
            self.feeds.feed_all(shown)  # those who wait for events come before those who wait for receipts
        for stream in touched:
            self.gap_closing.acknowledge(stream, copies)
        self.conflicts.tell()

    # ---- time

    def _tick(self, now: int, fired: TimerFired) -> None:
        self._wall_lead = fired.wall - now if fired.wall else self._wall_lead
        if not self.is_open and self.log.next > 1:
            self._load_tail(self.log.horizon + 1)
        elif not self.is_open and self.unopened:
            self.feeds.effects.append(Open(self.topic))
        if not self.is_open or self.gone:
            return
        self.commits.retry(now)
        self.log.streams.drop_settled()
        self.gossip.membership.note(now, self.gossip.ready or self.gossip.leaving, self.commits.after_commit)
        self.lives.unknown.tick(now)
        busy = self.gossip.tick(now)
        busy = self.feeds.tick(now) or busy
        busy = self.syncs.tick(now) or busy
        busy = self.gap_closing.ask(now) or busy
        self.gap_closing.tick(now)
        self.damage.tick(now)
        self.admission.tick(now)
        self.departures.tick(is_agreed=self.gossip.knows_all(now))
        self.retention.tick(now)
        self.closing.tick(now)
        self.notices.tick(now)
        if self.registry.changed:  # by what has just been closed, or by the ledger: perhaps nobody ever writes to us
            self._obey(now)
        is_needless = self.log.next == 1 and not self.registry.known and now - self._opened_at > _FOUNDED_WITHIN
        is_deleted = self.registry.deleted and self.commits.idle and self.notices.is_settled
        may_leave = self.gossip.leaving and not self.notices.is_answering and not self.damage.is_found
        if is_needless or is_deleted or (may_leave and self.membership.leave(now)):
            self.feeds.effects.append(Discard(self.topic))
            self.gone = True
        self.feeds.effects.append(StartTimer(self.timer, now + self.interval.pause(busy)))

    def validate(self) -> None:
        """Assert the invariants of what it holds; while it reads its ledger, that is not all there yet."""
        if not self.is_open:
            return
        self.log.validate()
        self.table.validate()
        self.gossip.bundle.validate()
        for cursor in self.feeds.cursors.values():
            cursor.validate()

    @property
    def health(self) -> TopicHealth:
        trouble = self.unopened or self.commits.failure or self.damage.trouble
        return TopicHealth(self.gossip.ready, self.gossip.leaving, trouble, self.damage.events)

    def status(self, now: int, client: str = "") -> dict[str, Any]:
        """What an operator wants to see: of all clients, or of the one of this name. A topic may have so many that a
        change of one of them must not cost a look at all.
        """
        log, registry, table, feeds = self.log, self.registry, self.table, self.feeds
        publishers = sorted(each.name for each in self.admission.publishers.values() if client in ("", each.name))
        readers = [name for name in ([client] if client else feeds.cursors) if name in feeds.cursors]
        return {
            "topic": self.topic,
            "repository": self._settings.name,
            "unit": self._settings.unit,
            **msgspec.structs.asdict(self.health),
            "bytes": self.size,
            "steers": sorted([*publishers, *readers]),
            "awaits": self.lives.described(),
            **survey.topic(log, registry, self.damage, client),
            "subscribers": survey.subscribers(log, registry, table, feeds, client),
            "peers": survey.peers(now, log, registry, self.gossip.bundle),
            "steered_publishers": publishers,
        }
