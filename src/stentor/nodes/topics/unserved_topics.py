"""Topics that have a ledger here and are not opened yet.

A repository that is started opens them some thousands at a time: most fall asleep before the next, so it never needs
the memory and the files for all at once. One that somebody asks for is opened at once, unless there is no file for it.
"""

from collections.abc import Iterable, Iterator

from stentor.machine import SECOND
from stentor.model.reports.status import TopicHealth
from stentor.nodes.topics.topic_room import NO_FILES, TopicRoom

_AT_ONCE = 2_000  # topics: a quarter of a MiB and 5 ms of a core each, so half a GiB and half of a core
_PAUSE = 20 * SECOND  # in which a topic where nothing happens is opened, told to brokers and asleep


class UnservedTopics(dict[str, None]):
    """Their names, in the order in which they are opened."""

    def __init__(self, topics: Iterable[str], room: TopicRoom) -> None:
        super().__init__(dict.fromkeys(topics))
        self._room = room
        self._begun_at = -_PAUSE  # when the last ones began to be opened
        self._opened = 0  # of these, so far

    def take(self, now: int) -> Iterator[str]:
        """Remove and return those that can be opened now; whoever asks manages each before it asks for the next."""
        if self and now - self._begun_at >= _PAUSE:
            self._begun_at, self._opened = now, 0
        while self and self._opened < _AT_ONCE and self._room.has_ledger():
            self._opened += 1
            topic = next(iter(self))
            del self[topic]
            yield topic

    def take_one(self, topic: str) -> bool:
        """Remove a topic if it is here and can be opened now; return whether it was."""
        can_be_opened = topic in self and self._room.has_ledger()
        if can_be_opened:
            del self[topic]
        return can_be_opened

    @property
    def trouble(self) -> str:
        """Why they are not opened, if that is no matter of time; "" if it is."""
        return NO_FILES if self and not self._room.has_ledger() else ""

    def health(self) -> dict[str, TopicHealth]:
        return dict.fromkeys(self, TopicHealth(ready=False, leaving=False, trouble=self.trouble))
