"""Departures: a life of a subscriber ends in good order, or its subscription ends and nothing is kept for it.

The grant of a subscriber is taken back at one repository. Another one, which has not heard of that, may register the
subscriber in the same moment: once all have heard of both, its subscription ends.
"""

from collections.abc import Callable
from typing import Any

from stentor.model.communication import end_name, inbox_of
from stentor.model.control import ControlEvent, SubscriberEnd, Sync
from stentor.protocols.delivery.replication.membership import MembershipView
from stentor.protocols.delivery.repository.serving.name_holders import NameHolders
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.serving.subscriptions import TopicSubscriptions
from stentor.protocols.delivery.repository.storing.commit_queue import CommitQueue
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.protocols.delivery.transport import SendLetter


class Departures:
    """Those of one topic at one repository."""

    def __init__(
        self,
        state: TopicState,
        feeds: SubscriberFeeds,
        holders: NameHolders,
        commits: CommitQueue,
        membership: MembershipView,
        subscriptions: TopicSubscriptions,
    ) -> None:
        self._state, self._feeds = state, feeds
        self._holders, self._commits = holders, commits
        self._membership, self._subscriptions = membership, subscriptions
        self.handlers: dict[type[ControlEvent], Callable[[int, Any], None]] = {SubscriberEnd: self._on_end}

    def _on_end(self, sender: int, event: SubscriberEnd) -> None:
        progress = self._state.table.destinations.get(event.sender)
        inbox = inbox_of(end_name("subscriber", event.sender, self._state.topic))
        if progress is None:
            if event.unsubscribes:
                self._confirm(inbox, event)  # the answer was lost
            return
        if not self._holders.is_subscriber(event.sender, sender):
            return
        if event.unsubscribes:
            self._unsubscribe(inbox, event)
            return
        cursor = self._feeds.cursors.get(event.sender)
        if cursor is not None and (cursor.incarnation, cursor.attempt) == (event.incarnation, event.attempt):
            self._feeds.end(cursor, {(publisher, life): number for publisher, life, number in event.given})
        elif cursor is None and (progress.handed.life, progress.handed.ended) == (event.incarnation, True):
            self._feeds.part(event.sender, inbox, event.attempt)  # the answer was lost

    def _unsubscribe(self, inbox: str, event: SubscriberEnd) -> None:
        """End a subscription, unless a newer life holds the name; its grant stays."""
        registry = self._state.registry
        if not registry.has_unsubscribed(event.sender, event.incarnation):  # else the answer was lost
            if event.incarnation < self._holders.newest("subscriber", event.sender):
                self._holders.turn_away("subscriber", event.sender, inbox, event.attempt)
                return
            self._feeds.drop(event.sender)  # it is told nothing more
            self._state.register(registry.leave(event.sender, event.incarnation, by_itself=True))
        self._confirm(inbox, event)

    def _confirm(self, inbox: str, event: SubscriberEnd) -> None:
        """Answer when the bundle knows."""
        sync = Sync(self._state.topic, self._state.settings.name, attempt=event.attempt, upto=0, ended=True)
        self._commits.after_sharing(SendLetter(inbox, (sync,)))

    def tick(self) -> None:
        """End the subscriptions of those that have no right to them any more, if every member is here and has
        registered the same: else a newer grant, or a newer life, may be there.
        """
        registry, names = self._state.registry, self._subscriptions.without_right()
        is_ours = self._state.settings.name == min(registry.storing_all(), default="")
        if names and is_ours and self._membership.knows_all:
            for name in names:
                self._state.register(registry.unsubscribe(name))
