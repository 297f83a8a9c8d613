"""How often a repository looks at a topic: often while something is awaited, seldom while nothing happens."""

from collections.abc import Iterable

from stentor.machine import MILLISECOND, SECOND, Input, Measured, Scanned, TimerFired
from stentor.protocols.delivery.repository.access_notices import AccessNotices
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.storing.commit_queue import CommitQueue
from stentor.protocols.delivery.repository.topic_state import TopicState

# Between looks at what is overdue.
_BUSY = 50 * MILLISECOND
IDLE = 250 * MILLISECOND
_RESTING = 5 * SECOND
_OWN_LOOKS = (TimerFired, Measured, Scanned)


class TickInterval:
    """One topic at one repository, which rests while nothing is awaited and nobody must be shown that it lives."""

    def __init__(self, state: TopicState, feeds: SubscriberFeeds, commits: CommitQueue, notices: AccessNotices) -> None:
        self._state, self._feeds = state, feeds
        self._commits, self._notices = commits, notices
        self._rests = False
        self._active_at = 0  # when something last happened that was no look of our own at what is stored

    def pause(self, busy: bool) -> int:
        """Return how long it is until the topic is looked at again."""
        self._rests = not busy and self._can_rest
        return _BUSY if busy else _RESTING if self._rests else IDLE

    @property
    def _can_rest(self) -> bool:
        state = self._state
        waits = state.streams.unsettled or state.reads.scans or state.table.progressed or state.registry.news.is_changed
        known = state.service.is_serving and all(cursor.doubt is not None for cursor in self._feeds.waiting)
        return known and not (waits or state.bundle.peers) and self._commits.is_idle and self._notices.is_settled

    def has_lasted(self, now: int, duration: int) -> bool:
        """Return whether it rests, and nothing has happened for so long but for the time that has passed."""
        return self._rests and now - self._active_at >= duration

    def is_over(self, happened: Iterable[Input]) -> bool:
        """Return whether this ends a rest; for nobody who waits time has passed meanwhile."""
        for each in happened:
            if not isinstance(each, _OWN_LOOKS):
                break
        else:
            return False
        self._active_at = self._state.step.now
        if not self._rests:
            return False
        self._rests = False
        self._feeds.tick()
        return True
