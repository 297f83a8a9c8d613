"""What subscribers say while they are served: what they have, and what they lack."""

from collections.abc import Callable
from typing import Any

from stentor.model.control import ControlEvent, SubscriberAck, SubscriberNak
from stentor.protocols.delivery.replication.bundle import Bundle
from stentor.protocols.delivery.repository.serving.dissemination_table import DisseminationTable
from stentor.protocols.delivery.repository.serving.name_holders import NameHolders
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.storing.streams import Streams


class SubscriberLetters:
    """Those about one topic at one repository."""

    def __init__(
        self,
        repository: str,
        streams: Streams,
        table: DisseminationTable,
        feeds: SubscriberFeeds,
        bundle: Bundle,
        holders: NameHolders,
    ) -> None:
        self._repository, self._streams, self._table = repository, streams, table
        self._feeds, self._bundle, self._holders = feeds, bundle, holders
        self.handlers: dict[type[ControlEvent], Callable[[int, int, Any], None]] = {
            SubscriberAck: self._on_ack,
            SubscriberNak: self._on_nak,
        }

    def _on_ack(self, now: int, sender: int, event: SubscriberAck) -> None:
        progress = self._table.destinations.get(event.sender)
        if progress is None or not self._holders.is_subscriber(event.sender, sender):
            return
        if event.repository == self._repository:
            cursor = self._feeds.cursors.get(event.sender)
            if cursor is not None and cursor.incarnation == event.incarnation:
                self._feeds.acknowledge(now, cursor, event.spans)
            return
        peer = self._bundle.peers.get(event.repository)
        is_fenced = event.incarnation < self._holders.newest("subscriber", event.sender)
        if peer is not None and not is_fenced:
            for first, last in event.spans:
                for stream, start, end in peer.translate(first, last):
                    if not self._streams.is_over(stream):
                        progress.mark(stream, start, end)
            self._feeds.progress_changed[event.sender] = None

    def _on_nak(self, now: int, sender: int, event: SubscriberNak) -> None:
        cursor = self._feeds.cursors.get(event.sender)
        if not self._holders.is_subscriber(event.sender, sender):
            return
        if cursor is None or cursor.attempt != event.attempt:
            self._holders.remind(event)
            return
        cursor.answered = now
        cursor.in_notice_group = cursor.in_notice_group or event.tuned
        if event.asks:
            self._feeds.ask(cursor)
        if event.missing:
            self._feeds.resend(cursor, event.missing)
        if event.after is not None:
            self._feeds.inform(cursor, event.after)
