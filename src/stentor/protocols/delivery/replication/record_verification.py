"""Record verification: before a repository leaves, those that stay read all that they have, because what is damaged can
still be repaired.
"""

from collections.abc import Iterable

from stentor.machine import Scanned
from stentor.protocols.delivery.repository.ledger_reads import VerifyRecords
from stentor.protocols.delivery.repository.topic_state import TopicState


class RecordVerification:
    """One repository's look at its own ledger. What is damaged is reported, and asked for like all that is missing."""

    def __init__(self, state: TopicState) -> None:
        self._log, self._reads = state.log, state.reads
        self.done: frozenset[str] = frozenset()  # since these leave, everything here was read
        self._reading = 0  # token of the scan that is awaited

    def look(self, leaving: Iterable[str]) -> bool:
        """Begin to read because these leave; return whether there is something to tell them."""
        leaving = frozenset(leaving)
        self.done &= leaving
        if leaving <= self.done or self._reading in self._reads.scans:
            return False
        self._read(leaving, self._log.first)
        return leaving <= self.done

    def _read(self, leaving: frozenset[str], first: int) -> None:
        if first >= self._log.next:
            self.done |= leaving
        else:
            self._reading = self._reads.scan(VerifyRecords(leaving), first)

    def on_scanned(self, leaving: frozenset[str], scanned: Scanned) -> None:
        """Read on behind what was read; what was damaged is known by now."""
        ends = [record.line.end for record in scanned.records] + [line.end for line in scanned.damaged]
        if not scanned.reason:
            self._read(leaving, max(ends, default=self._log.next - 1) + 1)
