"""How many topics a repository manages, in all and of one owner.

Every topic has a ledger, and every open ledger takes files of its process. A repository that took as many topics as
anybody wants would run out of them, and could not be started again: so it refuses what is too much, and serves as many
of the topics that it has as it can open.
"""

from collections.abc import Iterable

import msgspec

from stentor.model.access import TOPIC, SharedFact, TopicTerms
from stentor.model.errors import Refusal, Refused
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.tail import TailBudget

NO_FILES = "too many ledgers: raise `ulimit -n` and start this repository again, or move topics to another one"
_FOR_TRACES = 1  # a ledger that a repository has for itself
_terms = msgspec.msgpack.Decoder(TopicTerms)


class TopicRoom:
    """What one repository takes. `operator` is the principal that runs it, once that is known."""

    def __init__(self, settings: RepositorySettings) -> None:
        self._settings = settings
        self.operator = ""
        self.recent = TailBudget(settings.tail)  # of memory for recent records, which all topics share

    def has_ledger_for(self, managed: int) -> bool:
        """Return whether one more ledger can be open."""
        return managed < self._settings.ledgers

    def check(self, owners: Iterable[str], owner: str) -> None:
        """Raise Refused if there is no room for one more topic of this owner beside those of these `owners`."""
        known, settings = list(owners), self._settings
        if len(known) + _FOR_TRACES >= settings.ledgers:
            raise Refused(Refusal.TOO_MANY, f"{settings.name} manages {len(known):,} topics and has {NO_FILES}")
        if len(known) >= settings.topics:
            raise Refused(
                Refusal.TOO_MANY,
                f"{settings.name} manages {len(known):,} topics already: use another repository, delete some with "
                "`stentor topic delete TOPIC`, or raise reliable_topics in [limits]",
            )
        if owner != self.operator and known.count(owner) >= settings.topics_per_owner:
            raise Refused(
                Refusal.TOO_MANY,
                f"{settings.name} takes {settings.topics_per_owner:,} topics of one owner, and {owner} has as many: "
                "delete some with `stentor topic delete TOPIC`, or ask who runs it to raise reliable_topics_per_owner",
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
