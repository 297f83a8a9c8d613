"""Subscriber admission: a subscriber is registered if it is new, and steered from where it is."""

import msgspec

from stentor.model.control import Recovery, StreamRanges
from stentor.model.errors import Refusal, Refused
from stentor.protocols.delivery.replication.membership import MembershipView
from stentor.protocols.delivery.replication.sync_replication import SyncReplication
from stentor.protocols.delivery.repository.ledger_reads import NewSubscriber
from stentor.protocols.delivery.repository.registry import Frontier, SubscriptionRecord
from stentor.protocols.delivery.repository.serving.name_holders import NameHolders
from stentor.protocols.delivery.repository.serving.start_positions import StartPositions
from stentor.protocols.delivery.repository.serving.steering_answers import SteeringAnswers
from stentor.protocols.delivery.repository.serving.subscriber_cursor import SubscriberCursor
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.serving.subscriptions import TopicSubscriptions
from stentor.protocols.delivery.repository.topic_state import TopicState


class SubscriberAdmission:
    """That of one topic at one repository."""

    def __init__(
        self,
        state: TopicState,
        feeds: SubscriberFeeds,
        membership: MembershipView,
        holders: NameHolders,
        subscriptions: TopicSubscriptions,
        start_positions: StartPositions,
        syncs: SyncReplication,
        answers: SteeringAnswers,
    ) -> None:
        self._state, self._feeds = state, feeds
        self._membership = membership
        self._holders, self._subscriptions = holders, subscriptions
        self._start_positions, self._syncs = start_positions, syncs
        self._answers = answers
        self._log, self._registry = state.log, state.registry

    def admit(self, inbox: str, event: Recovery) -> None:
        """Steer a subscriber. Raise Refused if a newer life of it is known, or if it asks for what cannot be."""
        if self._registry.has_unsubscribed(event.sender, event.incarnation):
            # It asked before that, or has not heard: it says so again.
            self._answers.respond(inbox, event, where=event.where)
            return
        self._holders.check(event)
        cursor = self._feeds.cursors.get(event.sender)
        if cursor is not None and (cursor.incarnation, cursor.attempt) == (event.incarnation, event.attempt):
            self._answer_again(cursor, event)
            return
        self._check_filter(event)
        where = self._registry.filter_of(event)
        self._state.register(self._holders.claim(event))
        known = self._registry.subscriptions.get(event.sender)
        if known is None:
            new = NewSubscriber(inbox, event, where)
            frontier = self._start_positions.locate(event.since, new)
            if frontier is not None:
                self.register(new, frontier)
            return
        changed = msgspec.structs.replace(known, principal=event.principal, home=event.node)
        self._subscriptions.update(event.sender, changed.change(where, self._log.streams.tops()))
        self._steer(inbox, event)

    def _check_filter(self, event: Recovery) -> None:
        """Refuse a subscriber that names no filter while the one that it had may be registered elsewhere: it would be
        given what it does not want, and others would take everything for what it wants.
        """
        if self._registry.lacks_filter_of(event) and self._membership.may_lack_facts:
            raise Refused(
                Refusal.BUSY,
                f"{event.sender} names no filter, and {self._state.settings.name} waits for repositories that may know "
                'the one that it had; where="*" asks for everything, and does not wait',
            )

    def _answer_again(self, cursor: SubscriberCursor, event: Recovery) -> None:
        """Answer a subscriber that has not heard our answer, or does not wait for it."""
        cursor.has_asked |= event.asks
        known = self._registry.subscriptions.get(event.sender)
        if known is not None and known.home != event.node:
            moved = msgspec.structs.replace(known, home=event.node)
            self._state.register(self._registry.subscribe(event.sender, moved))
        if cursor.is_active:
            self._answers.welcome(cursor, event)
            if cursor.has_asked:
                self._feeds.ask(cursor)
        else:
            self._answers.hold_on(cursor.inbox, event)

    def register(self, new: NewSubscriber, frontier: Frontier) -> None:
        """Register and steer a subscriber, of which it is known by now where it begins."""
        event = new.event
        if event.incarnation < self._holders.newest("subscriber", event.sender):
            return  # it has left, or is fenced, and hears that when it asks again
        known = SubscriptionRecord(new.where, frontier, event.principal, event.node, event.incarnation)
        self._subscriptions.register(event.sender, known)
        self._steer(new.inbox, event)

    def _steer(self, inbox: str, event: Recovery) -> None:
        progress = self._state.table.destinations[event.sender]
        if self._state.settings.unit:
            for stream in self._log.streams.values():
                for first, last in stream.skipped:
                    progress.mark(stream.id, first, last)  # it was not for it, or had to be got elsewhere
        elif progress.advance(StreamRanges(*each, ()) for each in self._log.streams.floors()):
            self._state.table.note_progress(event.sender)  # it came too late for these
        progress.sync = max(progress.sync, self._log.beginning(progress.done))
        cursor = SubscriberCursor(progress, inbox, event.incarnation, event.attempt, self._state.step.now)
        cursor.was_elsewhere = event.told
        cursor.has_asked = event.asks
        former = self._feeds.cursors.get(event.sender)
        if former is not None:
            cursor.succeed(former, alone=self._registry.members == (self._state.settings.name,))
            if former.incarnation < event.incarnation:
                self._holders.turn_away("subscriber", event.sender, former.inbox, former.attempt)
        first = self._registry.subscriptions[event.sender].incarnation
        if event.incarnation == first == progress.handed.life and progress.handed.given == ():
            # Whoever steered it before has asked all others, and it had no earlier life. That it is the first one that
            # is registered does not say so: who registered it may not have heard of an earlier registration.
            cursor.doubt = {}
        self._feeds.steer(cursor)
        progress.steerer = self._state.settings.name
        self._answers.announce(event)
        self._syncs.consult(cursor, event)
