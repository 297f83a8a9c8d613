"""Who is told which repositories manage a topic, and whenever that changes: clients believe nobody else."""

from collections.abc import Callable

from stentor.model.errors import FrameError, Refusal, TopicError
from stentor.model.ids import LinkId
from stentor.model.messages import BundleReport, Message
from stentor.model.topic import check_topic
from stentor.protocols.dissemination.charters import Charters

MOST_WATCHED = 1000  # topics per link: a client has an end, a reader or a registrar for each
_MOST_MEMBERS = 250  # in a report, so that it fits into a frame; bundles have two to ten


class BundleWatch:
    """The topics that each link asked for, the oldest first; more than the most are not watched any longer."""

    def __init__(self, charters: Charters, post: Callable[[LinkId, Message], None]) -> None:
        self._charters, self._post = charters, post
        self._topics: dict[LinkId, dict[str, None]] = {}
        # Invariant: a link is among the watchers of a topic if and only if the topic is among those of the link.
        self._watchers: dict[str, dict[LinkId, None]] = {}
        self._told: dict[str, BundleReport] = {}  # what all watchers of a topic know

    def watch(self, link: LinkId, topic: str) -> BundleReport:
        """Return the members of now; the link is told later ones by itself."""
        try:
            check_topic(topic)
        except TopicError as error:
            raise FrameError(Refusal.PROTOCOL, str(error)) from None
        topics = self._topics.setdefault(link, {})
        topics.pop(topic, None)
        topics[topic] = None
        self._watchers.setdefault(topic, {})[link] = None
        if len(topics) > MOST_WATCHED:
            self._unwatch(link, next(iter(topics)))
        report = self._told[topic] = self._report(topic)
        return report

    def changed(self, topic: str) -> None:
        """The charter of a topic is another one; its members may be the same."""
        watchers = self._watchers.get(topic)
        if watchers is None or (report := self._report(topic)) == self._told[topic]:
            return
        self._told[topic] = report
        for link in watchers:
            self._post(link, report)

    def forget(self, link: LinkId) -> None:
        for topic in list(self._topics.get(link, ())):
            self._unwatch(link, topic)
        self._topics.pop(link, None)

    def _unwatch(self, link: LinkId, topic: str) -> None:
        del self._topics[link][topic]
        watchers = self._watchers[topic]
        del watchers[link]
        if not watchers:
            del self._watchers[topic], self._told[topic]

    def _report(self, topic: str) -> BundleReport:
        charter = self._charters.find(topic)
        if charter is None:
            return BundleReport(topic, {})
        members = dict(sorted(charter.members.items())[:_MOST_MEMBERS]) if charter.is_live else {}
        return BundleReport(topic, members, charter.tombstone)
