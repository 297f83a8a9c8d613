"""Whether a repository is willing to manage one more topic.

Whoever runs it says which topics it accepts, how many of them, and up to how many bytes on its disk it takes new ones;
those that it has go on. Every topic has a ledger, and every open ledger takes files of its process. A repository that
took as many topics as anybody wants would run out of them, and could not be started again: so it refuses what is too
much, and serves as many of the topics that it has as it can open.
"""

from collections.abc import Mapping

import msgspec

from stentor.model.control import Registration
from stentor.model.errors import Refusal, Refused
from stentor.model.mail import MAIL
from stentor.model.reports.report import Unwillingness
from stentor.model.reports.trace import kept_of
from stentor.model.topic import matches
from stentor.model.trust.access import ANONYMOUS, TOPIC, SharedFact, TopicTerms
from stentor.model.trust.place import UNPROVED, is_operator_name
from stentor.model.wording.count import counted
from stentor.nodes.topics.managed_topic import ManagedTopic
from stentor.nodes.topics.sleeping_topics import SleepingTopic
from stentor.policies.access import AccessRule, deny_creating
from stentor.protocols.delivery.repository.storing.recent_records import Budget
from stentor.protocols.delivery.settings import RepositorySettings

NO_FILES = "too many ledgers: raise `ulimit -n` and start this repository again, or move topics to another one"
_EARLY = 86_400_000  # milliseconds that a clock may be ahead; much more, and no later topic of this name were newer
_FOR_TRACES = 1  # a ledger that a repository has for itself
_terms = msgspec.msgpack.Decoder(TopicTerms)


class TopicRoom:
    """What one repository takes beside the topics that it has. `operator` is the principal that runs it, once that is
    known.
    """

    def __init__(
        self,
        settings: RepositorySettings,
        managed: Mapping[str, ManagedTopic],
        sleeping: Mapping[str, SleepingTopic],
        rules: tuple[AccessRule, ...] = (),
    ) -> None:
        self._settings = settings
        self._managed = managed
        self._sleeping = sleeping
        self._rules = rules  # the `[[access]]` lines: what they give to some is not created by others
        self._kept = kept_of(settings.name)  # traces, which are no topic of users
        self.operator = ""
        self.is_retiring = False  # it leaves all topics, and ends
        self.recent = Budget(settings.tail)  # of memory for recent records, which all topics share

    def has_ledger(self) -> bool:
        """Return whether one more ledger can be open."""
        return len(self._managed) < self._settings.ledgers

    def check_operator(self, name: str, principal: str) -> None:
        """Raise Refused unless this is whoever runs this repository, or an operator."""
        if is_operator_name(name):
            return
        if principal == ANONYMOUS:
            raise Refused(Refusal.NOT_AUTHORISED, UNPROVED)
        if principal != self.operator:
            who = f"only {self.operator}, who runs {self._settings.name}, or an operator can make it leave"
            raise Refused(Refusal.NOT_AUTHORISED, who)

    def check_creation(self, event: Registration, now: int) -> None:
        """Raise Refused if a topic is not to be created here that way; `now` is in milliseconds since 1970."""
        if self._settings.name not in event.repositories:
            raise Refused(Refusal.UNKNOWN, f"{self._settings.name} is none of its repositories")
        if max(event.born, event.after) > now + _EARLY:
            raise Refused(Refusal.PROTOCOL, "this topic would be created tomorrow or later: is your clock right?")
        if not is_operator_name(event.sender):
            self._check_creator(event.topic, event.principal)
        if event.topic.startswith("$") and event.topic != MAIL:
            raise Refused(Refusal.TOPIC, f"{event.topic!r}: topics that begin with '$' are ours")
        self.check(event.topic, event.principal)

    def _check_creator(self, topic: str, principal: str) -> None:
        """Raise Refused if a topic is to be created by operators only, or by others than this one."""
        if topic == MAIL:
            way = UNPROVED if principal == ANONYMOUS else f"{MAIL} is created by nodes and operators only"
            raise Refused(Refusal.NOT_AUTHORISED, way)
        denied = deny_creating(self._rules, principal, topic)
        if denied is not None and principal != self.operator:
            raise Refused(denied.code, denied.reason)

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
        settings, awake = self._settings, [each for name, each in self._managed.items() if name != self._kept]
        owners = [*(each.owner for each in awake), *(each.owner for each in self._sleeping.values())]
        if self.is_retiring:
            raise Refused(Refusal.CLOSING, f"{settings.name} is about to leave")
        if settings.accepts and not any(matches(pattern, topic) for pattern in settings.accepts):
            raise Refused(
                Refusal.TOPIC,
                f"{settings.name} accepts {', '.join(settings.accepts)} only, and {topic} is none of these",
            )
        stored = sum(each.machine.state.size for each in self._managed.values())
        stored += sum(each.size for each in self._sleeping.values())
        if 0 < settings.most_bytes <= stored:
            raise Refused(
                Refusal.TOO_MANY,
                f"{settings.name} has {stored:,} bytes on its disk and takes new topics up to {settings.most_bytes:,}: "
                "raise its most_bytes, or delete topics",
            )
        topics = counted(len(owners), "topic")
        if len(awake) + _FOR_TRACES >= settings.ledgers:
            raise Refused(Refusal.TOO_MANY, f"{settings.name} manages {topics} and has {NO_FILES}")
        if len(owners) >= settings.topics:
            raise Refused(
                Refusal.TOO_MANY,
                f"{settings.name} manages {topics} already: delete some with "
                "`stentor topic delete TOPIC`, or raise its most_topics, or reliable_topics in [limits]",
            )
        if owner != self.operator and owners.count(owner) >= settings.topics_per_owner:
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
