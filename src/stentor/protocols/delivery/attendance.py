"""Attendance: what a subscriber listens to beside its inbox.

The events of its topic come to it as they are published. If it cannot keep up they are of no use: the repository has to
send them again, and what it sends has to share the link with them. So a subscriber that is far behind does not listen
until it has caught up. And what its repository tells all who want the same, it hears on a topic of theirs.
"""

from stentor.machine import Effect
from stentor.model.control import chorus_of
from stentor.protocols.delivery.post import Ignore, Listen

_NEAR = 4  # a part of the buffer as small as that is enough for what a subscriber is still behind


class Attendance:
    """What it wants done gathers in `effects`."""

    def __init__(self, topic: str, where: str, buffer: int) -> None:
        self._topic, self._where, self._near = topic, where, buffer // _NEAR
        self.effects: list[Effect] = []
        self.live = True  # events are heard as they are published
        self.left = 0  # events that are stored for us, or for others, beyond those that we were told of
        self._chorus = ""
        self.tuned = False  # … is heard

    def fall_behind(self) -> None:
        """There was no room for an event."""
        if self.live:
            self.live = False
            self.effects.append(Ignore(self._topic))

    def catch_up(self, held: int, pending: int, mean: int) -> None:
        """So many bytes are held and so many events pending, each of this size on average."""
        if not self.live and held + (pending + self.left) * mean <= self._near:
            self.live = True
            self.effects.append(Listen(self._topic, letters=False, where=self._where))

    def join(self, repository: str, number: int) -> None:
        """This is the chorus of those who want the same, at the repository that steers us; 0 is none."""
        name = chorus_of(self._topic, repository, number) if number else ""
        if name == self._chorus:
            return
        if self._chorus:
            self.effects.append(Ignore(self._chorus))
        self._chorus, self.tuned = name, False
        if name:
            self.effects.append(Listen(name))

    def heard(self, name: str) -> bool:
        """A topic is heard from now on; whether it is that of the chorus."""
        mine = name == self._chorus
        self.tuned = self.tuned or mine
        return mine
