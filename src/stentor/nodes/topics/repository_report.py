"""What a repository tells operators of itself: of all topics that it manages, be they awake or asleep."""

from collections.abc import Mapping

from stentor.model.reports.status import TopicHealth
from stentor.model.reports.trace import kept_of
from stentor.nodes.topics.managed_topic import ManagedTopic
from stentor.nodes.topics.sleeping_topics import SleepingTopics
from stentor.nodes.topics.unserved_topics import UnservedTopics
from stentor.protocols.delivery.settings import RepositorySettings


class RepositoryReporter:
    """Looks at the topics of one repository; those that are `unserved` have a ledger that it has not opened yet."""

    def __init__(
        self,
        settings: RepositorySettings,
        managed: Mapping[str, ManagedTopic],
        sleeping: SleepingTopics,
        unserved: UnservedTopics,
    ) -> None:
        self._settings = settings
        self._managed = managed
        self._sleeping = sleeping
        self._unserved = unserved
        self._kept = kept_of(settings.name)  # traces are no topic of users

    def health(self) -> dict[str, TopicHealth]:
        """Return whether each topic is served, without what takes long to count."""
        served = {topic: managed.machine.health for topic, managed in self._managed.items() if topic != self._kept}
        return dict(sorted((self._unserved.health() | served | self._sleeping.health()).items()))

    def status(self, now: int, principal: str, only: str = "") -> dict[str, object]:
        """Return what an operator wants to see, of all topics or of one."""
        awake = [only] if only else list(self._managed)
        asleep = [only] if only else list(self._sleeping)
        topics = {topic: self._managed[topic].machine.status(now) for topic in awake if topic in self._managed}
        topics |= {topic: self._sleeping.report(topic) for topic in asleep if topic in self._sleeping}
        traces = topics.pop(self._kept, None)
        return {
            "repository": self._settings.name,
            "principal": principal,
            "unit": self._settings.unit,
            "accepts": self._settings.accepts,
            "most_topics": self._settings.topics,
            "most_bytes": self._settings.most_bytes,
            "topics": dict(sorted(topics.items())),
            "traces": traces,
        }
