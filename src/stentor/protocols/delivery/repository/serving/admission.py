"""Admission: who may use a reliable topic, and which clients this repository steers.

A client asks to be steered with a Recovery, again and again until it is answered: after a crash, on another broker, or
because the repository that steered it is silent. It needs no state of its own for that.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from stentor.model.communication import Role, end_name, inbox_of, within_of
from stentor.model.control import (
    ControlEvent,
    Denial,
    GossipFacts,
    GossipOffer,
    GossipSteering,
    Migrate,
    Probe,
    ProbeAnswer,
    Recovery,
    RecoveryResponse,
    StreamRanges,
)
from stentor.model.errors import Refusal, Refused
from stentor.model.ids import publisher_id, topic_id
from stentor.model.position import Position
from stentor.model.record import Fact
from stentor.protocols.delivery.replication.gossip import Gossip
from stentor.protocols.delivery.replication.sync_replication import SyncReplication
from stentor.protocols.delivery.repository.registry import LIFE, Frontier, Registry, SubscriptionRecord, is_within
from stentor.protocols.delivery.repository.serving.dissemination_table import DisseminationTable, SubscriberProgress
from stentor.protocols.delivery.repository.serving.name_holders import NameHolders
from stentor.protocols.delivery.repository.serving.start_positions import StartPositions
from stentor.protocols.delivery.repository.serving.steered_publisher import SteeredPublisher
from stentor.protocols.delivery.repository.serving.subscriber_cursor import SubscriberCursor
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.storing.commit_queue import PROGRESS, Action, CommitQueue
from stentor.protocols.delivery.repository.storing.egress_hold import EgressHold
from stentor.protocols.delivery.repository.storing.event_log import EventLog
from stentor.protocols.delivery.repository.storing.publisher_lives import PublisherLives
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.steering import life_of
from stentor.protocols.delivery.transport import SendLetter

_LEVELS = 64  # the level of those who serve everyone; finer ones have lower ones
_FOREIGN = 128  # that of a storage for another unit, which has what somebody did not get there


class Admission:
    """The clients of one topic at one repository."""

    def __init__(
        self,
        topic: str,
        settings: RepositorySettings,
        store: EventLog,
        registry: Registry,
        table: DisseminationTable,
        feeds: SubscriberFeeds,
        gossip: Gossip,
        commits: CommitQueue,
        syncs: SyncReplication,
        egress: EgressHold,
        lives: PublisherLives,
    ) -> None:
        self._topic, self._settings = topic, settings
        self._log, self._registry, self._table = store, registry, table
        self._feeds, self._gossip, self._commits, self._egress = feeds, gossip, commits, egress
        self.start_positions = StartPositions(topic, settings, store, feeds, gossip.bundle)
        self._syncs, self._lives = syncs, lives
        self.holders = NameHolders(topic, settings.name, registry, table, feeds.cursors, self.say)
        self.publishers = self.holders.publishers
        self.without_right: dict[str, None] = {}  # subscribers that were registered when they had left, or had no grant
        gossip.cares, gossip.stuck = self._cares, lambda: bool(commits.failure)
        self.handlers: dict[type[ControlEvent], Callable[[int, int, Any], None]] = {
            Probe: self._probe,
            Recovery: self._recovery,
        }

    def say(self, to: str, event: ControlEvent) -> None:
        self._feeds.effects.append(SendLetter(to, (event,)))

    def remember(self, facts: list[Fact]) -> None:
        """Registrations take sequence numbers of their own; others hear of them at once."""
        if facts:
            if not all(fact.key.startswith(LIFE) for fact in facts):
                self._log.note()
            self._log.entries += facts
            shared = tuple(self._registry.shared(fact.key) for fact in facts)
            self._gossip.say(GossipFacts(self._topic, self._settings.name, shared))

    def when_safe(self, action: Action) -> None:
        """When what is registered is durable, here and on as many others as events must be on."""
        self._commits.after_commit(lambda _: self._gossip.sharing.append(action))

    # ---- clients that look for a repository

    def _probe(self, now: int, sender: int, event: Probe) -> None:  # noqa: ARG002
        if not self._registry.created or self._gossip.leaving:
            return
        registry, settings = self._registry, self._settings
        members = registry.storing_all() if event.role == "publisher" else registry.serving(event.node)
        if event.role == "publisher":
            if self._egress.is_held:
                members = self._egress.storages(event.node) or members  # those who serve everyone say what is wrong
            serves = settings.name in members
        else:
            serves = self._can_serve(event.sender) and not self._is_kept_elsewhere(now, event.sender)
        if not serves:
            return
        level = _LEVELS - len(settings.unit.split("/")) * bool(settings.unit)
        if not is_within(event.node, settings.unit):
            level = _FOREIGN
        ready = self._gossip.ready and not self.is_outdone(now)
        answer = ProbeAnswer(self._topic, settings.name, event.attempt, ready, members, level)
        self.say(inbox_of(end_name(event.role, event.sender, self._topic)), answer)

    def _is_kept_elsewhere(self, now: int, name: str) -> bool:
        """Whether another one still has what we have forgotten and a subscriber has not got."""
        progress = self._table.destinations.get(name)
        if progress is None or self._settings.unit:
            return False
        others = [peer.name for peer in self._gossip.living(now) if not peer.unit]
        return any(
            progress.misses(stream, stream.floor) and any(stream.is_kept_by(other) for other in others)
            for stream in self._log.streams.values()
        )

    def _can_serve(self, name: str) -> bool:
        """Whether we have what a subscriber has not got. A storage for a unit serves whom it knows to be there."""
        progress = self._table.destinations.get(name)
        if progress is None:
            return not self._settings.unit
        streams = self._log.streams
        if any(stream.unit_floor and progress.misses(stream, stream.unit_floor) for stream in streams.values()):
            return False
        if not progress.served or any(
            key in streams and progress.misses(streams[key], last) for key, last in progress.needs.items()
        ):
            return False
        return not progress.until or self._log.beginning(progress.done) < progress.until

    def _recovery(self, now: int, sender: int, event: Recovery) -> None:
        end = end_name(event.role, event.sender, self._topic)
        inbox = inbox_of(end)
        if publisher_id(event.principal, end) != sender:
            return  # whoever it names did not send it, and would believe our refusal
        try:
            if self._registry.is_ended(event.ended):
                raise Refused(Refusal.BUSY, f"{self._settings.name} has an earlier {self._topic}, which was deleted")
            if not self._gossip.ready:
                raise Refused(Refusal.BUSY, f"{self._settings.name} is catching up")
            if self.is_outdone(now):
                raise Refused(Refusal.BUSY, f"{self._settings.name} can store nothing")
            self._registry.check(event.role, self._topic, event.sender, event.principal)
            if event.role == "publisher":
                self._egress.check(event.node, self._gossip.bundle.peers.values())
                self._lives.unknown.check(now, event, sender)
                self._steer_publisher(inbox, event, sender)
            elif not self._can_serve(event.sender) or self._is_kept_elsewhere(now, event.sender):
                raise Refused(Refusal.BUSY, f"{self._settings.name} does not have what {event.sender} misses")
            else:
                self._steer_subscriber(now, inbox, event)
        except Refused as refused:
            is_fenced = event.role == "publisher" and refused.code is Refusal.FENCED
            newest = (
                max(self.holders.newest("publisher", event.sender), self._lives.newest_of(sender)) if is_fenced else 0
            )
            denial = Denial(self._topic, self._settings.name, event.attempt, refused.code, refused.reason, newest)
            self.say(inbox, denial)

    def _respond(self, inbox: str, event: Recovery, **details: Any) -> None:
        terms, members = self._registry.terms, self._registry.members
        self.say(
            inbox,
            RecoveryResponse(
                self._topic, self._settings.name, event.attempt, terms.copies, members,
                within=self._egress.unit_of(event.node), version=self._registry.version, **details,
            ),
        )  # fmt: skip

    def _announce(self, event: Recovery) -> None:
        steering = GossipSteering(
            self._topic, self._settings.name, event.role, event.sender, event.incarnation, event.attempt
        )
        self._gossip.say(steering)

    def _steer_publisher(self, inbox: str, event: Recovery, sender: int) -> None:
        self.holders.check(event)
        former = self.publishers.get(sender)
        if former is not None and former.attempt == event.attempt and not former.is_answered:
            self._hold_on(inbox, event)
            return
        stream = self._lives.stream(event, sender)
        self.remember(self.holders.claim(event))
        self.remember(self._lives.begin(event, sender))
        steered = SteeredPublisher(sender, event.sender, inbox, event.incarnation, event.attempt)
        if former is not None and life_of(former.attempt) < life_of(event.attempt):
            self.holders.turn_away("publisher", event.sender, inbox, former.attempt)
        self.publishers[sender] = steered

        def respond(_: int) -> None:
            """Answer with what is known by now."""
            if self.publishers.get(sender) is steered:
                steered.is_answered = True
                incarnation, last = self._lives.newest(sender, event.incarnation)
                self._respond(inbox, event, incarnation=incarnation, last=last)

        self.when_safe(respond)
        self._announce(event)
        if event.last:
            stream.announced.add(1, event.last)
        self._log.admit(stream)
        self._gossip.touched[stream] = None

    def _hold_on(self, inbox: str, event: Recovery) -> None:
        """A client asks again while others are asked about it: it is to wait for us."""
        name, members = self._settings.name, self._registry.members
        self.say(inbox, ProbeAnswer(self._topic, name, event.attempt, ready=True, members=members))

    def _steer_subscriber(self, now: int, inbox: str, event: Recovery) -> None:
        if self._registry.has_unsubscribed(event.sender, event.incarnation):
            self._respond(inbox, event, where=event.where)  # it asked before that, or has not heard: it says so again
            return
        self.holders.check(event)
        cursor = self._feeds.cursors.get(event.sender)
        known = self._registry.subscriptions.get(event.sender)
        if cursor is not None and (cursor.incarnation, cursor.attempt) == (event.incarnation, event.attempt):
            cursor.wishes |= event.asks
            if known is not None and known.home != event.node:
                self.remember(self._registry.subscribe(event.sender, msgspec.structs.replace(known, home=event.node)))
            if cursor.active:
                self._welcome(cursor, event)
                if cursor.wishes:
                    self._feeds.ask(cursor)
            else:
                self._hold_on(inbox, event)
            return
        where = self._registry.filter_of(event)
        self.remember(self.holders.claim(event))
        if known is None:

            def enlist(then: int, frontier: Frontier) -> None:
                self._register_subscriber(then, inbox, event, where, frontier)

            self.start_positions.locate(now, event.since, enlist)
            return
        now_so = msgspec.structs.replace(known, principal=event.principal, home=event.node)
        now_so = now_so.change(where, self._log.streams.tops())
        if now_so != known:
            self.remember(self._registry.subscribe(event.sender, now_so))
            if now_so.where != known.where:
                self._rebind(event.sender, now_so)
        self._steer(now, inbox, event)

    def _register_subscriber(self, now: int, inbox: str, event: Recovery, where: str, frontier: Frontier) -> None:
        known = SubscriptionRecord(where, frontier, event.principal, event.node, event.incarnation)
        self.register_subscriber(event.sender, known)
        self._steer(now, inbox, event)

    def register_subscriber(self, name: str, subscription: SubscriptionRecord) -> None:
        """Events are kept for a new subscriber from now on."""
        if name not in self._registry.subscriptions:
            given = self._log.streams.current(StreamRanges(*each, ()) for each in subscription.frontier)
            starts = {(each.publisher, each.incarnation): each.floor for each in given}
            for publisher, incarnation, floor in self._log.streams.floors(
                others=True
            ):  # nobody can be sure to get these
                key = publisher, incarnation
                starts[key] = max(starts.get(key, 0), floor)
            frontier = tuple((*key, floor) for key, floor in sorted(starts.items()))
            known = msgspec.structs.replace(subscription, frontier=frontier)
            if self._settings.lake:
                voids = Position({key: stream.voids for key, stream in self._log.streams.items()})
                past = Position.before(frontier).minus(Position.before(subscription.frontier)).minus(voids)
                known = msgspec.structs.replace(known, past=past.held)
            self.remember(self._registry.subscribe(name, known))
            self.register(name, self._registry.subscriptions[name])

    def pass_by(self, name: str, done: Position) -> None:
        """A subscriber has got some of what it wants of the past."""
        known = self._registry.subscriptions.get(name)
        if known is not None and known.past:
            past = Position.of(known.past).minus(done).held
            if past != known.past:
                self.remember(self._registry.subscribe(name, msgspec.structs.replace(known, past=past)))

    def _rebind(self, name: str, subscription: SubscriptionRecord) -> None:
        self._table.change(self._table.destinations[name], subscription, self._log.next - 1)
        self._feeds.progress_changed[name] = None

    def register(self, name: str, subscription: SubscriptionRecord) -> SubscriberProgress:
        """A subscriber is new here."""
        served = is_within(subscription.home, self._settings.unit)
        progress = self._table.add(name, subscription, self._log.next - 1, served)
        progress.advance(self._log.streams.current(StreamRanges(*each, ()) for each in subscription.frontier))
        if served:
            self._settle_in(progress)
        self._feeds.progress_changed[name] = None
        return progress

    def recall(self, name: str, subscription: SubscriptionRecord, note: bytes) -> None:
        """A subscriber that was known here before."""
        self._move(self._table.recall(name, subscription, note), subscription.home)

    def _settle_in(self, progress: SubscriberProgress) -> None:
        """From now on events are matched for it; what was skipped before, it must get from elsewhere."""
        progress.epoch = self._log.next - 1
        if self._settings.unit:
            lasts = {key: max(stream.skipped.last, stream.floor) for key, stream in self._log.streams.items()}
            progress.needs = {key: last for key, last in lasts.items() if last}

    def _move(self, progress: SubscriberProgress, home: str) -> None:
        """It is at this broker. One that left our unit is served until it has all that there was: who serves it next
        may count on that.
        """
        if is_within(home, self._settings.unit):
            progress.until = 0
            if not progress.served:
                self._table.serve(progress, True)
                self._settle_in(progress)
                self._feeds.progress_changed[progress.name] = None
        elif progress.served:
            if not progress.until:
                progress.until = max(self._log.next - 1, 1)
                self._feeds.progress_changed[progress.name] = None
            self._see_off(progress)

    def _see_off(self, progress: SubscriberProgress) -> None:
        """Serve one that left our unit no longer, if it has all that there was."""
        if self._log.beginning(progress.done) >= progress.until:
            self._table.serve(progress, False)
            progress.until = 0
            self._feeds.progress_changed[progress.name] = None
            self._send_away(progress.name)

    def is_outdone(self, now: int) -> bool:
        """Whether clients are better off elsewhere: we can write nothing, and another one can."""
        others = self._gossip.living(now)
        return self._commits.is_stuck(now) and any(each.ready and not each.stuck and not each.unit for each in others)

    def dismiss(self) -> None:
        """All clients go elsewhere."""
        cursors = self._feeds.cursors
        for inbox in [*(each.inbox for each in self.publishers.values()), *(each.inbox for each in cursors.values())]:
            self.say(inbox, Migrate(self._topic, self._settings.name))
        self.publishers.clear()
        cursors.clear()

    def _send_away(self, name: str) -> None:
        cursor = self._feeds.cursors.pop(name, None)
        if cursor is not None:
            self.say(cursor.inbox, Migrate(self._topic, self._settings.name))

    def _cares(self) -> tuple[str, ...]:
        """The subscribers in our unit for whom we have, and keep, all that they have not got."""
        if not self._settings.unit:
            return ()
        return tuple(
            name for name, each in self._table.destinations.items() if not each.until and self._can_serve(name)
        )

    def send_away(self) -> None:
        """What some readers miss is forgotten elsewhere, and we never had it."""
        for name in [name for name in self._feeds.cursors if not self._can_serve(name)]:
            self._send_away(name)

    def _steer(self, now: int, inbox: str, event: Recovery) -> None:
        progress = self._table.destinations[event.sender]
        if self._settings.unit:
            for stream in self._log.streams.values():
                for first, last in stream.skipped:
                    progress.mark(stream.id, first, last)  # it was not for it, or had to be got elsewhere
        elif progress.advance(StreamRanges(*each, ()) for each in self._log.streams.floors()):
            self._feeds.progress_changed[event.sender] = None  # it came too late for these
        progress.sync = max(progress.sync, self._log.beginning(progress.done))
        cursor = SubscriberCursor(progress, inbox, event.incarnation, event.attempt, now)
        cursor.was_elsewhere = event.told
        cursor.wishes = event.asks
        former = self._feeds.cursors.get(event.sender)
        if former is not None:
            cursor.succeed(former, alone=self._registry.members == (self._settings.name,))
            if former.incarnation < event.incarnation:
                self.holders.turn_away("subscriber", event.sender, former.inbox, former.attempt)
        if event.incarnation == self._registry.subscriptions[event.sender].incarnation:
            cursor.doubt = {}  # it had no earlier life
        self._feeds.steer(cursor)
        progress.steerer = self._settings.name
        self._announce(event)

        def begin() -> None:
            if self.holders.newest("subscriber", event.sender) > event.incarnation:  # others knew of a newer one
                del self._feeds.cursors[event.sender]
                self.holders.turn_away("subscriber", event.sender, inbox, event.attempt)
                return
            if cursor.wishes:
                self._feeds.ask(cursor)
            self._welcome(cursor, event)

        self._syncs.consult(cursor, begin)

    def _welcome(self, cursor: SubscriberCursor, event: Recovery) -> None:
        """It must know that we steer it before it is told anything."""
        cursor.live = topic_id(within_of(self._egress.unit_of(event.node), self._topic))

        def respond(_: int) -> None:
            progress = cursor.progress
            known = self._registry.subscriptions.get(progress.name)
            if known is None or self._feeds.cursors.get(progress.name) is not cursor:
                return
            self._respond(
                cursor.inbox, event, sync=cursor.safe, epoch=progress.epoch, done=progress.reached(),
                chorus=progress.notice_group, past=known.past, where=known.where,
            )  # fmt: skip
            cursor.rewind()
            self._feeds.report_losses(cursor)
            cursor.active, cursor.in_notice_group = True, False
            self._feeds.feed(cursor)

        self.when_safe(respond)

    # ---- what was registered, here or elsewhere

    def apply_registry(self) -> None:
        """Act upon the registry as it is now."""
        registry, renewed = self._registry, sorted(self._registry.take_renewed_subscribers())
        lives = self.holders.obey()  # before anybody is sent elsewhere: who is fenced has nowhere to go
        self.without_right.update((name, None) for name in (*renewed, *lives) if self.holders.has_no_right(name))
        for name in renewed:
            progress, known = self._table.destinations.get(name), registry.subscriptions.get(name)
            if progress is not None and (known is None or known.registration != progress.registration):
                if registry.admits("subscriber", name):  # it unsubscribed, be it for a while
                    self._send_away(name)
                self._table.remove(name)
                self._syncs.forget(name)
                self._log.entries.append(Fact(PROGRESS + name, None))
        gone = [name for name in renewed if name in self._feeds.cursors]
        for name in [name for name in gone if not registry.admits("subscriber", name)]:
            self._dismiss("subscriber", name, self._feeds.cursors.pop(name).inbox)
        for number, publisher in list(self.publishers.items()):
            if not registry.admits("publisher", publisher.name):
                del self.publishers[number]
                self._dismiss("publisher", publisher.name, publisher.inbox)
        for name in [name for name in renewed if name in registry.subscriptions]:
            subscription = registry.subscriptions[name]
            if name not in self._table.destinations:
                self.register(name, subscription)
            else:
                progress = self._table.destinations[name]
                if progress.where != subscription.where:
                    self._rebind(name, subscription)
                self._move(progress, subscription.home)
        self.remember(self._lives.apply())
        self._log.introduce(self._lives.may_store)

    def _dismiss(self, role: Role, name: str, inbox: str) -> None:
        reason = f"{name} is not registered as a {role} of {self._topic} any more"
        if self._registry.deleted:
            reason = f"{self._topic} was deleted by its owner"
        self.say(inbox, Denial(self._topic, self._settings.name, 0, Refusal.NOT_AUTHORISED, reason))

    # ---- units

    def offer(self) -> None:
        """A storage for a unit tells others whom of theirs it can serve; others send those there."""
        names = self._gossip.offered
        for name in names:
            cursor = self._feeds.cursors.get(name)
            if cursor is not None:
                self.say(cursor.inbox, Migrate(self._topic, self._settings.name))
        self._gossip.offered = []

    def tick(self, now: int) -> None:
        """Send clients to one that is better off; offer to serve those in our unit whom a coarser storage serves."""
        if self.is_outdone(now):
            self.dismiss()
        if not self._settings.unit or not self._gossip.ready:
            return
        units = self._registry.units
        names = tuple(
            name
            for name, each in self._table.destinations.items()
            if each.served
            and each.steerer in units
            and not is_within(units[each.steerer], self._settings.unit)
            and not each.until
            and self._can_serve(name)
        )
        if names:
            self._gossip.say(GossipOffer(self._topic, self._settings.name, names))
        for progress in self._table.destinations.values():
            if progress.until:
                self._see_off(progress)
