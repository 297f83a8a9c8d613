"""Facts that remember their last changes: whoever knew all of them a while ago is told these, and not asked what it
knows.
"""

from stentor.model.trust.access import SharedFact
from stentor.model.trust.facts import Facts, Stamped

_MOST = 1024  # changes: who has missed more compares everything, which then costs no more than telling them


class RecentFacts(Facts):
    """The facts of a topic, and which of them were registered one after the other."""

    def __init__(self) -> None:
        super().__init__()
        # What the digest of all facts was before a change, and the key of the fact that it concerned; the newest last.
        # Facts only get newer, so no digest is there twice.
        self._changes: dict[int, str] = {}

    def put(self, key: str, fact: Stamped) -> None:
        self._changes[self.digest] = key
        if len(self._changes) > _MOST:
            del self._changes[next(iter(self._changes))]
        super().put(key, fact)

    def since(self, digest: int) -> tuple[SharedFact, ...] | None:
        """Return what whoever knows all of this digest does not know; None if it may also know what we do not."""
        if digest not in self._changes:
            return None
        keys: set[str] = set()
        for before, key in reversed(self._changes.items()):
            keys.add(key)
            if before == digest:
                break
        return tuple(self.shared(key) for key in sorted(keys))
