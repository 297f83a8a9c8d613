"""Which repositories manage the topics that a client cares about: its broker tells, on every link and every change."""

from stentor.machine import Effect
from stentor.model.trust.access_messages import BundleReport, BundleRequest
from stentor.nodes.client_api import BundleWatched, TellBundle
from stentor.protocols.connection.connection import Connection


class BundleRequests:
    """The topics of one client."""

    def __init__(self) -> None:
        self._topics: dict[str, None] = {}

    def add(self, watched: BundleWatched, connection: Connection | None) -> None:
        """Ask about one more topic, now if there is a link, and on every later one."""
        self._topics[watched.topic] = None
        if connection is not None and connection.greeted:
            connection.outbox.post(BundleRequest(watched.topic))

    def greet(self, connection: Connection) -> None:
        """Ask about all of them on a new link."""
        for topic in self._topics:
            connection.outbox.post(BundleRequest(topic))

    def tell(self, report: BundleReport) -> Effect:
        return TellBundle(report.topic, report.members, report.ended)
