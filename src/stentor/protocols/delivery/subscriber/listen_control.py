"""Listen control: what a subscriber listens to beside its inbox.

The events of its topic come to it as they are published. If it cannot keep up they are of no use: the repository has to
send them again, and what it sends has to share the link with them. So a subscriber that is far behind does not listen
until it has caught up. And what its repository tells all who want the same, it hears on a topic of theirs.
"""

from stentor.machine import Effect
from stentor.model.communication import notice_group_of, within_of
from stentor.model.ids import TopicId, topic_id
from stentor.protocols.delivery.transport import Subscribe, Unsubscribe

_NEAR = 4  # a part of the buffer as small as that is enough for what a subscriber is still behind


class ListenControl:
    """What it wants done gathers in `effects`."""

    def __init__(self, topic: str, where: str | None, buffer: int) -> None:
        """Without a filter nothing is heard until the repository says which one is registered."""
        self._topic, self.where, self._near = topic, where or "", buffer // _NEAR
        self._name = topic if where is not None else ""  # on which events come by themselves; "" until we know
        self.effects: list[Effect] = []
        self.live = True  # events are heard as they are published
        self.left = 0  # events that are stored for us, or for others, beyond those that we were told of
        self._notice_group = ""
        self.in_notice_group = False  # … is heard

    def fall_behind(self) -> None:
        """There was no room for an event."""
        if self.live:
            self.live = False
            if self._name:
                self.effects.append(Unsubscribe(self._name))

    def catch_up(self, held: int, pending: int, mean: int) -> None:
        """So many bytes are held and so many events pending, each of this size on average."""
        if not self.live and held + (pending + self.left) * mean <= self._near:
            self.live = True
            if self._name:
                self.effects.append(Subscribe(self._name, letters=False, where=self.where))

    @property
    def number(self) -> TopicId:
        """The topic on which events come by themselves."""
        return topic_id(self._name)

    def enter_unit(self, unit: str) -> None:
        """We are in this unit, whose publishers are heard there only; "" if everyone is heard everywhere."""
        self._choose(within_of(unit, self._topic) if unit else self._topic)

    def leave(self) -> None:
        """The next link may be to another unit, which must not hear what is said in this one."""
        if self._name != self._topic:
            self._choose("")

    def _choose(self, name: str) -> None:
        if name == self._name:
            return
        if self.live and self._name:
            self.effects.append(Unsubscribe(self._name))
        if self.live and name:
            self.effects.append(Subscribe(name, letters=False, where=self.where))
        self._name = name

    def join(self, repository: str, number: int) -> None:
        """This is the chorus of those who want the same, at the repository that steers us; 0 is none."""
        name = notice_group_of(self._topic, repository, number) if number else ""
        if name == self._notice_group:
            return
        if self._notice_group:
            self.effects.append(Unsubscribe(self._notice_group))
        self._notice_group, self.in_notice_group = name, False
        if name:
            self.effects.append(Subscribe(name))

    def heard(self, name: str) -> bool:
        """A topic is heard from now on; whether it is that of the chorus."""
        mine = name == self._notice_group
        self.in_notice_group = self.in_notice_group or mine
        return mine
