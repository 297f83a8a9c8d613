"""What a broker counts of the node itself and of links that are gone; live links are asked."""

from collections import Counter

from stentor.protocols.connection.outbox import Outbox


class BrokerCounters:
    """Totals since the broker started."""

    def __init__(self) -> None:
        self.events_in = 0
        self.events_out = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.chunks = 0
        self.dropped: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def close(self, outbox: Outbox) -> None:
        """Book a link that is gone."""
        self.events_out += outbox.events
        self.bytes_out += outbox.position
        self.dropped["slow subscriber"] += outbox.dropped
        self.dropped["subscriber gone"] += outbox.discard()
