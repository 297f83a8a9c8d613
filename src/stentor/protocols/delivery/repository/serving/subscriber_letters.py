"""What subscribers say while they are served: what they have, and what they lack."""

from collections.abc import Callable
from typing import Any

from stentor.model.control import ControlEvent, SubscriberAck, SubscriberNak
from stentor.protocols.delivery.repository.serving.name_holders import NameHolders
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.topic_state import TopicState


class SubscriberLetters:
    """Those about one topic at one repository."""

    def __init__(self, state: TopicState, feeds: SubscriberFeeds, holders: NameHolders) -> None:
        self._state, self._table = state, state.table
        self._feeds, self._holders = feeds, holders
        self.handlers: dict[type[ControlEvent], Callable[[int, Any], None]] = {
            SubscriberAck: self._on_ack,
            SubscriberNak: self._on_nak,
        }

    def _on_ack(self, sender: int, event: SubscriberAck) -> None:
        progress = self._table.destinations.get(event.sender)
        if progress is None or not self._holders.is_subscriber(event.sender, sender):
            return
        if event.repository == self._state.settings.name:
            cursor = self._feeds.cursors.get(event.sender)
            if cursor is not None and cursor.incarnation == event.incarnation:
                self._feeds.acknowledge(cursor, event.spans)
            return
        peer = self._state.bundle.peers.get(event.repository)
        is_fenced = event.incarnation < self._holders.newest("subscriber", event.sender)
        if peer is not None and not is_fenced:
            for first, last in event.spans:
                for stream, start, end in peer.translate(first, last):
                    if not self._state.streams.is_over(stream):
                        progress.mark(stream, start, end)
            self._table.note_progress(event.sender)

    def _on_nak(self, sender: int, event: SubscriberNak) -> None:
        cursor = self._feeds.cursors.get(event.sender)
        if not self._holders.is_subscriber(event.sender, sender):
            return
        if cursor is None or cursor.attempt != event.attempt:
            self._holders.remind(event)
            return
        cursor.answered = self._state.step.now
        cursor.in_notice_group = cursor.in_notice_group or event.tuned
        if event.asks:
            self._feeds.ask(cursor)
        if event.missing:
            self._feeds.resend(cursor, event.missing)
        if event.after is not None:
            self._feeds.inform(cursor, event.after)
