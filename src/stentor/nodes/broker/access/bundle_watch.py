"""Who is told which repositories manage a topic, and whenever that changes: clients believe nobody else."""

from stentor.model.errors import FrameError, Refusal, TopicError
from stentor.model.topic import check_topic
from stentor.model.trust.access_messages import BundleReport
from stentor.protocols.dissemination.access.charters import Charters
from stentor.protocols.neighbours import MessagePort

MOST_WATCHED = 1000  # topics per link: a client has an end, a reader or a registrar for each
_MOST_MEMBERS = 250  # in a report, so that it fits into a frame; bundles have two to ten


class BundleWatch:
    """The topics that each client asked for, the oldest first; more than the most are not watched any longer."""

    def __init__(self, charters: Charters) -> None:
        self._charters = charters
        self._topics: dict[MessagePort, dict[str, None]] = {}
        # Invariant: a client is among the watchers of a topic if and only if the topic is among those of the client.
        self._watchers: dict[str, dict[MessagePort, None]] = {}
        self._told: dict[str, BundleReport] = {}  # what all watchers of a topic know

    def watch(self, client: MessagePort, topic: str) -> BundleReport:
        """Return the members of now; the client is told of later ones without asking."""
        try:
            check_topic(topic)
        except TopicError as error:
            raise FrameError(Refusal.PROTOCOL, str(error)) from None
        topics = self._topics.setdefault(client, {})
        topics.pop(topic, None)
        topics[topic] = None
        self._watchers.setdefault(topic, {})[client] = None
        if len(topics) > MOST_WATCHED:
            self._unwatch(client, next(iter(topics)))
        report = self._told[topic] = self._report(topic)
        return report

    def changed(self, topic: str) -> None:
        """The charter of a topic is another one; its members may be the same."""
        watchers = self._watchers.get(topic)
        if watchers is None or (report := self._report(topic)) == self._told[topic]:
            return
        self._told[topic] = report
        for client in watchers:
            client.post(report)

    def forget(self, client: MessagePort) -> None:
        for topic in list(self._topics.get(client, ())):
            self._unwatch(client, topic)
        self._topics.pop(client, None)

    def _unwatch(self, client: MessagePort, topic: str) -> None:
        del self._topics[client][topic]
        watchers = self._watchers[topic]
        del watchers[client]
        if not watchers:
            del self._watchers[topic], self._told[topic]

    def _report(self, topic: str) -> BundleReport:
        charter = self._charters.find(topic)
        if charter is None:
            return BundleReport(topic, {})
        members = dict(sorted(charter.members.items())[:_MOST_MEMBERS]) if charter.is_live else {}
        return BundleReport(topic, members, charter.tombstone)
