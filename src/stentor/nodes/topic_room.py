"""Whether a repository is willing to manage one more topic.

Whoever runs it says which topics it accepts, how many of them, and up to how many bytes on its disk it takes new ones;
those that it has go on. Every topic has a ledger, and every open ledger takes files of its process. A repository that
took as many topics as anybody wants would run out of them, and could not be started again: so it refuses what is too
much, and serves as many of the topics that it has as it can open.
"""

from collections.abc import Mapping

import msgspec

from stentor.model.access import TOPIC, SharedFact, TopicTerms
from stentor.model.count import counted
from stentor.model.errors import Refusal, Refused
from stentor.model.report import Unwillingness
from stentor.model.topic import matches
from stentor.model.trace import kept_of
from stentor.nodes.managed_topic import ManagedTopic
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.tail import TailBudget

NO_FILES = "too many ledgers: raise `ulimit -n` and start this repository again, or move topics to another one"
_FOR_TRACES = 1  # a ledger that a repository has for itself
_terms = msgspec.msgpack.Decoder(TopicTerms)


class TopicRoom:
    """What one repository takes beside the topics that it has. `operator` is the principal that runs it, once that is
    known.
    """

    def __init__(self, settings: RepositorySettings, managed: Mapping[str, ManagedTopic]) -> None:
        self._settings, self._managed = settings, managed
        self._kept = kept_of(settings.name)  # traces, which are no topic of users
        self.operator = ""
        self.is_retiring = False  # it leaves all topics, and ends
        self.recent = TailBudget(settings.tail)  # of memory for recent records, which all topics share

    def has_ledger(self) -> bool:
        """Return whether one more ledger can be open."""
        return len(self._managed) < self._settings.ledgers

    def unwillingness(self, topic: str, owner: str) -> Unwillingness | None:
        """Return why a topic of this owner would be refused; None if it would not, or is managed here already."""
        try:
            if topic and topic not in self._managed:
                self.check(topic, owner)
        except Refused as refused:
            return Unwillingness(code=refused.code, reason=refused.reason)
        return None

    def check(self, topic: str, owner: str) -> None:
        """Raise Refused if this repository does not want to manage this topic of this owner."""
        settings, known = self._settings, [each for name, each in self._managed.items() if name != self._kept]
        if self.is_retiring:
            raise Refused(Refusal.CLOSING, f"{settings.name} is about to leave")
        if settings.accepts and not any(matches(pattern, topic) for pattern in settings.accepts):
            raise Refused(
                Refusal.TOPIC,
                f"{settings.name} accepts {', '.join(settings.accepts)} only, and {topic} is none of these",
            )
        stored = sum(each.machine.size for each in self._managed.values())
        if 0 < settings.most_bytes <= stored:
            raise Refused(
                Refusal.TOO_MANY,
                f"{settings.name} has {stored:,} bytes on its disk and takes new topics up to {settings.most_bytes:,}: "
                "raise its most_bytes, or delete topics",
            )
        if len(known) + _FOR_TRACES >= settings.ledgers:
            raise Refused(
                Refusal.TOO_MANY, f"{settings.name} manages {counted(len(known), 'topic')} and has {NO_FILES}"
            )
        if len(known) >= settings.topics:
            raise Refused(
                Refusal.TOO_MANY,
                f"{settings.name} manages {counted(len(known), 'topic')} already: delete some with "
                "`stentor topic delete TOPIC`, or raise its most_topics, or reliable_topics in [limits]",
            )
        if owner != self.operator and [each.owner for each in known].count(owner) >= settings.topics_per_owner:
            raise Refused(
                Refusal.TOO_MANY,
                f"{settings.name} takes {counted(settings.topics_per_owner, 'topic')} of one owner, and {owner} has "
                "as many: delete some with `stentor topic delete TOPIC`, or ask who runs it to raise "
                "reliable_topics_per_owner",
            )


def version_in(facts: tuple[SharedFact, ...]) -> int:
    """Return how new a topic is that these facts are about; 0 if they do not tell."""
    return max((version for key, version, _, _ in facts if key == TOPIC), default=0)


def owner_in(facts: tuple[SharedFact, ...]) -> str:
    """Return who owns the topic that these facts are about; "" if they do not tell."""
    for key, _, _, value in facts:
        if key == TOPIC and value:
            try:
                return _terms.decode(value).owner
            except msgspec.MsgspecError:
                return ""
    return ""
