"""Departures: a life of a subscriber ends in good order, or its subscription ends and nothing is kept for it.

A subscriber leaves, or its grant is taken back, at one repository. Another one, which has not heard of that, may
register the subscriber in the same moment: once all have heard of both, its subscription ends.
"""

from collections.abc import Callable
from typing import Any

from stentor.model.communication import end_name, inbox_of
from stentor.model.control import ControlEvent, SubscriberEnd, Sync
from stentor.protocols.delivery.repository.registry import Registry
from stentor.protocols.delivery.repository.serving.admission import Admission
from stentor.protocols.delivery.repository.serving.dissemination_table import DisseminationTable
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds


class Departures:
    """Those of one topic at one repository."""

    def __init__(
        self,
        topic: str,
        repository: str,
        registry: Registry,
        table: DisseminationTable,
        feeds: SubscriberFeeds,
        admission: Admission,
    ) -> None:
        self._topic, self._repository, self._registry, self._table = topic, repository, registry, table
        self._feeds, self._admission = feeds, admission
        self.handlers: dict[type[ControlEvent], Callable[[int, int, Any], None]] = {SubscriberEnd: self._on_end}

    def _on_end(self, now: int, sender: int, event: SubscriberEnd) -> None:  # noqa: ARG002
        progress = self._table.destinations.get(event.sender)
        inbox = inbox_of(end_name("subscriber", event.sender, self._topic))
        if progress is None:
            if event.unsubscribes:
                self._confirm(inbox, event)  # the answer was lost
            return
        if not self._admission.holders.is_subscriber(event.sender, sender):
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
        """End a subscription, unless a newer life holds the name; its grant stays. A life that has ended it before is
        heard again: another repository may have registered it once more in the same moment.
        """
        holders, has_left = self._admission.holders, self._registry.has_unsubscribed(event.sender, event.incarnation)
        if event.incarnation < holders.newest("subscriber", event.sender) and not has_left:
            holders.turn_away("subscriber", event.sender, inbox, event.attempt)
            return
        self._feeds.cursors.pop(event.sender, None)  # it is told nothing more
        self._admission.remember(self._registry.unsubscribe(event.sender, event.incarnation))
        self._confirm(inbox, event)

    def _confirm(self, inbox: str, event: SubscriberEnd) -> None:
        """Answer when the bundle knows."""
        sync = Sync(self._topic, self._repository, event.attempt, 0, ended=True)
        self._admission.when_safe(lambda _: self._admission.say(inbox, sync))

    def tick(self, *, is_agreed: bool) -> None:
        """End the subscriptions of those that have no right to them any more, if every member is here and has
        registered the same: else a newer grant, or a newer life, may be there.
        """
        registry, admission = self._registry, self._admission
        names = [name for name in admission.without_right if admission.holders.has_no_right(name)]
        admission.without_right = dict.fromkeys(names)
        if names and is_agreed and self._repository == min(registry.storing_all(), default=""):
            for name in names:
                admission.remember(registry.unsubscribe(name))
