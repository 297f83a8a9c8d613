"""What subscribers say while they are served: what they have, and what they lack."""

from collections.abc import Callable
from typing import Any

from stentor.model.control import ControlEvent, SubscriberAck, SubscriberNak
from stentor.protocols.delivery.bundle import Bundle
from stentor.protocols.delivery.destination import DisseminationTable
from stentor.protocols.delivery.dispatch import Dispatch
from stentor.protocols.delivery.holders import Holders
from stentor.protocols.delivery.streams import Streams


class SubscriberLetters:
    """Those about one topic at one repository."""

    def __init__(
        self,
        repository: str,
        streams: Streams,
        table: DisseminationTable,
        dispatch: Dispatch,
        bundle: Bundle,
        holders: Holders,
    ) -> None:
        self._repository, self._streams, self._table = repository, streams, table
        self._dispatch, self._bundle, self._holders = dispatch, bundle, holders
        self.handlers: dict[type[ControlEvent], Callable[[int, int, Any], None]] = {
            SubscriberAck: self._on_ack,
            SubscriberNak: self._on_nak,
        }

    def _on_ack(self, now: int, sender: int, event: SubscriberAck) -> None:
        destination = self._table.destinations.get(event.sender)
        if destination is None or not self._holders.is_subscriber(event.sender, sender):
            return
        if event.repository == self._repository:
            reader = self._dispatch.readers.get(event.sender)
            if reader is not None and reader.incarnation == event.incarnation:
                self._dispatch.acknowledge(now, reader, event.spans)
            return
        peer = self._bundle.peers.get(event.repository)
        is_fenced = event.incarnation < self._holders.newest("subscriber", event.sender)
        if peer is not None and not is_fenced:
            for first, last in event.spans:
                for stream, start, end in peer.translate(first, last):
                    if not self._streams.is_over(stream):
                        destination.mark(stream, start, end)
            self._dispatch.dirty[event.sender] = None

    def _on_nak(self, now: int, sender: int, event: SubscriberNak) -> None:
        reader = self._dispatch.readers.get(event.sender)
        if not self._holders.is_subscriber(event.sender, sender):
            return
        if reader is None or reader.attempt != event.attempt:
            self._holders.remind(event)
            return
        reader.answered = now
        reader.tuned = reader.tuned or event.tuned
        if event.asks:
            self._dispatch.ask(reader)
        if event.missing:
            self._dispatch.resend(reader, event.missing)
        if event.after is not None:
            self._dispatch.inform(reader, event.after)
