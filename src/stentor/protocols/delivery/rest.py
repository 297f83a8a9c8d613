"""How often a repository looks at a topic: often while something is awaited, seldom while nothing happens."""

from collections.abc import Iterable

from stentor.machine import MILLISECOND, SECOND, Input, Measured, Scanned, TimerFired
from stentor.protocols.delivery.access_notices import AccessNotices
from stentor.protocols.delivery.commits import Commits
from stentor.protocols.delivery.dispatch import Dispatch
from stentor.protocols.delivery.gossip import Gossip
from stentor.protocols.delivery.registry import Registry
from stentor.protocols.delivery.store import Store

_BUSY, IDLE, _RESTING = 50 * MILLISECOND, 250 * MILLISECOND, 5 * SECOND  # between looks at what is overdue


class Rest:
    """One topic at one repository, which rests while nothing is awaited and nobody must be shown that it lives."""

    def __init__(
        self, store: Store, registry: Registry, dispatch: Dispatch, gossip: Gossip, commits: Commits,
        notices: AccessNotices,
    ) -> None:  # fmt: skip
        self._store, self._registry, self._dispatch = store, registry, dispatch
        self._gossip, self._commits, self._notices = gossip, commits, notices
        self._rests = False
        self._active_at = 0  # when something last happened that was no look of our own at what is stored

    def pause(self, busy: bool) -> int:
        """Return how long it is until the topic is looked at again."""
        self._rests = not busy and self._can_rest
        return _BUSY if busy else _RESTING if self._rests else IDLE

    @property
    def _can_rest(self) -> bool:
        store, dispatch = self._store, self._dispatch
        waits = store.streams.unsettled or dispatch.scans or dispatch.dirty or self._registry.changed
        known = self._gossip.ready and all(reader.doubt is not None for reader in dispatch.readers.values())
        return known and not (waits or self._gossip.bundle.peers) and self._commits.idle and self._notices.is_settled

    def has_lasted(self, now: int, duration: int) -> bool:
        """Return whether it rests, and nothing has happened for so long but for the time that has passed."""
        return self._rests and now - self._active_at >= duration

    def is_over(self, now: int, happened: Iterable[Input]) -> bool:
        """Return whether this ends a rest; for nobody who waits time has passed meanwhile."""
        if all(isinstance(each, TimerFired | Measured | Scanned) for each in happened):
            return False
        self._active_at = now
        if not self._rests:
            return False
        self._rests = False
        self._dispatch.tick(now)
        return True
