"""Listen control: what a subscriber listens to beside its inbox.

The events of its topic come to it as they are published. If the subscriber cannot keep up they are of no use: the
repository has to send them again, and what it sends has to share the link with them. So a subscriber that is far behind
does not listen until it has caught up. What its repository tells all who want the same, the subscriber hears on the
topic of their notice group.
"""

from stentor.machine import Step
from stentor.model.communication import notice_group_of, within_of
from stentor.model.ids import TopicId, topic_id
from stentor.protocols.delivery.transport import Subscribe, Unsubscribe

_NEAR = 4  # a part of the buffer as small as that is enough for what a subscriber is still behind


class ListenControl:
    """The topics of one subscriber. What it asks of the link leaves after what its subscriber says in the same step."""

    def __init__(self, step: Step, topic: str, where: str | None, buffer: int) -> None:
        """Without a filter nothing is heard until the repository says which one is registered."""
        self._step = step
        self._topic = topic
        self.where = where or ""
        self._near = buffer // _NEAR
        self._name = topic if where is not None else ""  # on which events come by themselves; "" until we know
        self.live = True  # events are heard as they are published
        self.left = 0  # events that are stored for us, or for others, beyond those that we were told of
        self._notice_group = ""
        self.in_notice_group = False  # the group is heard; Invariant: there is one

    def fall_behind(self) -> None:
        """There was no room for an event: stop listening."""
        if self.live:
            self.live = False
            self._stop(self._name)

    def catch_up(self, held: int, pending: int, mean: int) -> None:
        """Listen again, if that is not too much with so many bytes held and events pending, each of this mean size."""
        if not self.live and held + (pending + self.left) * mean <= self._near:
            self.live = True
            self._begin(self._name)

    @property
    def number(self) -> TopicId:
        """The topic on which events come by themselves."""
        return topic_id(self._name)

    def enter_unit(self, unit: str) -> None:
        """We are in this unit, whose publishers are heard there only; "" if everyone is heard everywhere."""
        self._choose(within_of(unit, self._topic) if unit else self._topic)

    def leave(self) -> None:
        """The link is gone. The next one may be to another unit, which must not hear what is said in this one."""
        self.in_notice_group = False
        if self._name != self._topic:
            self._choose("")

    def _choose(self, name: str) -> None:
        if name == self._name:
            return
        if self.live:
            self._stop(self._name)
            self._begin(name)
        self._name = name

    def _begin(self, name: str) -> None:
        if name:
            self._step.emit_last(Subscribe(name, letters=False, where=self.where))

    def _stop(self, name: str) -> None:
        if name:
            self._step.emit_last(Unsubscribe(name))

    def join(self, repository: str, number: int) -> None:
        """Listen to the notice group of those who want the same, at the repository that steers us; 0 is none."""
        name = notice_group_of(self._topic, repository, number) if number else ""
        if name == self._notice_group:
            return
        self._stop(self._notice_group)
        self._notice_group, self.in_notice_group = name, False
        if name:
            self._step.emit_last(Subscribe(name))

    def on_listening(self, name: str) -> bool:
        """A topic is heard from now on. Return whether it is that of the notice group."""
        is_group = name == self._notice_group
        self.in_notice_group = self.in_notice_group or is_group
        return is_group
