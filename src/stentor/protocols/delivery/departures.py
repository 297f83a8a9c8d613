"""Departures: a life of a subscriber ends in good order, or its subscription ends and nothing is kept for it."""

from collections.abc import Callable
from typing import Any

from stentor.model.communication import end_name, inbox_of
from stentor.model.control import ControlEvent, SubscriberEnd, Sync
from stentor.protocols.delivery.destination import DisseminationTable
from stentor.protocols.delivery.dispatch import Dispatch
from stentor.protocols.delivery.enrolment import Enrolment
from stentor.protocols.delivery.registry import Registry


class Departures:
    """Those of one topic at one repository."""

    def __init__(
        self,
        topic: str,
        repository: str,
        registry: Registry,
        table: DisseminationTable,
        dispatch: Dispatch,
        enrolment: Enrolment,
    ) -> None:
        self._topic, self._repository, self._registry, self._table = topic, repository, registry, table
        self._dispatch, self._enrolment = dispatch, enrolment
        self.handlers: dict[type[ControlEvent], Callable[[int, int, Any], None]] = {SubscriberEnd: self._on_end}

    def _on_end(self, now: int, sender: int, event: SubscriberEnd) -> None:  # noqa: ARG002
        destination = self._table.destinations.get(event.sender)
        inbox = inbox_of(end_name("subscriber", event.sender, self._topic))
        if destination is None:
            if event.unsubscribes:
                self._confirm(inbox, event)  # the answer was lost
            return
        if not self._enrolment.holders.is_subscriber(event.sender, sender):
            return
        if event.unsubscribes:
            self._unsubscribe(inbox, event)
            return
        reader = self._dispatch.readers.get(event.sender)
        if reader is not None and (reader.incarnation, reader.attempt) == (event.incarnation, event.attempt):
            self._dispatch.end(reader, {(publisher, life): number for publisher, life, number in event.given})
        elif reader is None and (destination.handed.life, destination.handed.ended) == (event.incarnation, True):
            self._dispatch.part(event.sender, inbox, event.attempt)  # the answer was lost

    def _unsubscribe(self, inbox: str, event: SubscriberEnd) -> None:
        """End a subscription, unless a newer life holds the name; its grant stays."""
        holders = self._enrolment.holders
        if event.incarnation < holders.newest("subscriber", event.sender):
            holders.turn_away("subscriber", event.sender, inbox, event.attempt)
            return
        self._dispatch.readers.pop(event.sender, None)  # it is told nothing more
        self._enrolment.remember(self._registry.unsubscribe(event.sender, event.incarnation))
        self._confirm(inbox, event)

    def _confirm(self, inbox: str, event: SubscriberEnd) -> None:
        """Answer when the bundle knows."""
        sync = Sync(self._topic, self._repository, event.attempt, 0, ended=True)
        self._enrolment.when_safe(lambda _: self._enrolment.say(inbox, sync))
