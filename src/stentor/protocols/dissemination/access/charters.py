"""The charters of all reliable topics that a broker has heard of, and what to compare of them with other brokers."""

from collections.abc import Callable, Iterator, Sequence

from stentor.model.ids import fingerprint
from stentor.model.trust.access import SharedFact
from stentor.model.trust.access_messages import AccessInventory
from stentor.model.trust.charter import Charter, check_facts

_MOST_TOMBSTONES = 10_000  # topics that are gone, as all their repositories know
# … which a repository does not know yet, since it is away. One that never comes back must not fill our memory; one that
# was away while more topics were deleted keeps the oldest of them.
_MOST_AWAITING = 100_000
_LISTED = 500  # topics in an inventory …
_LISTED_BYTES = 96 << 10  # … and bytes of their names: an inventory fits into every node's frames


class Charters:
    """Charters by topic. `on_change` is told which topic's has changed, and may look at it then."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        self._charters: dict[str, Charter] = {}
        self._digests: dict[str, int] = {}
        # Topics of which only a tombstone is left, as all their repositories know, and those of which some do not.
        # Invariant: they are in `_charters`, and none is in both.
        self._over: set[str] = set()
        self._awaiting: set[str] = set()
        self._on_change = on_change
        self.digest = 0  # Brokers that know the same have the same one; 0 is nothing.
        self.facts = 0  # how many there are, of all topics

    def __len__(self) -> int:
        """Return how many topics there are."""
        return sum(charter.is_live for charter in self._charters.values())

    def __iter__(self) -> Iterator[str]:
        """Yield all topics of which something is known, those that are gone too."""
        return iter(self._charters)

    def of(self, topic: str) -> Charter | None:
        """Return the charter of a topic; None if there is no such reliable topic."""
        charter = self._charters.get(topic)
        return charter if charter is not None and charter.is_live else None

    def find(self, topic: str) -> Charter | None:
        """Return what is known of a topic, be it only that it is gone."""
        return self._charters.get(topic)

    def learn(self, topic: str, facts: Sequence[SharedFact]) -> list[str]:
        """Take what is new among facts; return the keys of that. What cannot be is refused, and changes nothing."""
        check_facts(topic, facts)
        charter = self._charters.get(topic) or Charter()
        before = len(charter)
        news = charter.learn(facts)
        if not news:
            return []
        self._charters[topic] = charter
        self._book(topic, charter.digest, len(charter) - before)
        self._over.discard(topic)
        self._awaiting.discard(topic)
        if charter.is_over:
            (self._awaiting if charter.awaited else self._over).add(topic)
            self._forget_oldest(self._over, _MOST_TOMBSTONES)
            self._forget_oldest(self._awaiting, _MOST_AWAITING)
            news = news if topic in self._charters else []
        self._on_change(topic)
        return news

    def keys_of(self, topic: str) -> list[str]:
        charter = self._charters.get(topic)
        return [] if charter is None else charter.keys()

    def facts_of(self, topic: str, keys: Sequence[str] | None = None) -> list[SharedFact]:
        charter = self._charters.get(topic)
        return [] if charter is None else charter.facts(keys)

    def _book(self, topic: str, digest: int, added: int) -> None:
        number = fingerprint("charter", f"{topic}\0{digest:x}")
        self.digest ^= self._digests.get(topic, 0) ^ number
        self._digests[topic] = number
        self.facts += added

    def _forget_oldest(self, topics: set[str], most: int) -> None:
        """Keep the newest tombstones of these topics."""
        while len(topics) > most:
            oldest = min(topics, key=lambda topic: (self._charters[topic].tombstone, topic))
            topics.remove(oldest)
            self.facts -= len(self._charters.pop(oldest))
            self.digest ^= self._digests.pop(oldest)

    # ---- comparing

    def inventories(self) -> Iterator[AccessInventory]:
        """Yield everything that is known, as digests, in one message or several."""
        first, size = "", 0
        listed: dict[str, int] = {}
        for topic in sorted(self._charters):
            size += len(topic.encode())
            if listed and (len(listed) >= _LISTED or size > _LISTED_BYTES):
                yield AccessInventory(first, topic, listed)
                first, size, listed = topic, len(topic.encode()), {}
            listed[topic] = self._digests[topic]
        yield AccessInventory(first, "", listed)

    def differing(self, inventory: AccessInventory) -> list[str]:
        """Return the topics of which whoever made an inventory knows nothing, or something else than we do."""
        first, last, theirs = inventory.first, inventory.last, inventory.digests
        return sorted(
            topic
            for topic, number in self._digests.items()
            if first <= topic and (not last or topic < last) and theirs.get(topic) != number
        )
