"""Record verification: before a repository leaves, those who stay read all they have: what is damaged can still be
repaired."""

from collections.abc import Iterable

from stentor.machine import Scanned
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.storing.event_log import EventLog


class RecordVerification:
    """One repository's look at its own ledger. What is damaged is reported, and asked for like all that is missing."""

    def __init__(self, store: EventLog, feeds: SubscriberFeeds) -> None:
        self._log, self._feeds = store, feeds
        self.done: frozenset[str] = frozenset()  # since these leave, everything here was read
        self._reading = 0  # token of the scan that is awaited

    def look(self, leaving: Iterable[str]) -> bool:
        """These leave; whether there is something to tell them."""
        leaving = frozenset(leaving)
        self.done &= leaving
        if leaving <= self.done or self._reading in self._feeds.scans:
            return False
        self._read(leaving, self._log.first)
        return leaving <= self.done

    def _read(self, leaving: frozenset[str], first: int) -> None:
        if first >= self._log.next:
            self.done |= leaving
            return

        def read(now: int, scanned: Scanned) -> None:  # noqa: ARG001
            ends = [record.line.end for record in scanned.records] + [line.end for line in scanned.damaged]
            if not scanned.reason:
                self._read(leaving, max(ends, default=self._log.next - 1) + 1)

        self._reading = self._feeds.scan(read, first)
