"""How often a repository looks at a topic: often while something is awaited, seldom while nothing happens."""

from collections.abc import Iterable

from stentor.machine import MILLISECOND, SECOND, Input, Measured, Scanned, TimerFired
from stentor.protocols.delivery.replication.gossip import Gossip
from stentor.protocols.delivery.repository.access_notices import AccessNotices
from stentor.protocols.delivery.repository.registry import Registry
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.storing.commit_queue import CommitQueue
from stentor.protocols.delivery.repository.storing.event_log import EventLog

_BUSY, IDLE, _RESTING = 50 * MILLISECOND, 250 * MILLISECOND, 5 * SECOND  # between looks at what is overdue


class TickInterval:
    """One topic at one repository, which rests while nothing is awaited and nobody must be shown that it lives."""

    def __init__(
        self, store: EventLog, registry: Registry, feeds: SubscriberFeeds, gossip: Gossip, commits: CommitQueue,
        notices: AccessNotices,
    ) -> None:  # fmt: skip
        self._log, self._registry, self._feeds = store, registry, feeds
        self._gossip, self._commits, self._notices = gossip, commits, notices
        self._rests = False
        self._active_at = 0  # when something last happened that was no look of our own at what is stored

    def pause(self, busy: bool) -> int:
        """Return how long it is until the topic is looked at again."""
        self._rests = not busy and self._can_rest
        return _BUSY if busy else _RESTING if self._rests else IDLE

    @property
    def _can_rest(self) -> bool:
        log, feeds = self._log, self._feeds
        waits = log.streams.unsettled or feeds.scans or feeds.progress_changed or self._registry.changed
        known = self._gossip.ready and all(cursor.doubt is not None for cursor in feeds.waiting)
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
        self._feeds.tick(now)
        return True
