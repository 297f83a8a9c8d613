"""An end of a reliable topic: its publisher or subscriber, over a link of its own."""

from stentor.machine import (
    CertificateEnded,
    Effect,
    Input,
    LinkLost,
    LinkOpened,
    Received,
    Started,
    StopRequested,
    TimerFired,
)
from stentor.model.communication import WITHIN, inbox_of
from stentor.nodes.client import Settings
from stentor.nodes.client_api import Connect, Disconnect, Moved
from stentor.nodes.letter_transport import LetterTransport
from stentor.protocols.delivery.publisher.publisher import ReliablePublisher
from stentor.protocols.delivery.subscriber.subscriber import ReliableSubscriber
from stentor.protocols.delivery.transport import LinkDown

_ABOUT_THE_LINK = (LinkOpened, LinkLost, CertificateEnded, Received, Started, StopRequested, Moved)


class ReliableEndpoint:
    """Composes the machine of an end with a client that carries what it says."""

    def __init__(
        self, link: Settings, topic: str, machine: ReliablePublisher | ReliableSubscriber, where: str | None = None
    ) -> None:
        """With a filter, be it "" for all, it hears the topic's events as they are published."""
        self.machine = machine
        self._name, self._topic, self._where = link.name, topic, where
        self._post = LetterTransport(link, topic)
        machine.traces = self._post.traces
        self._effects: list[Effect] = []

    def step(self, now: int, happened: Input) -> list[Effect]:
        """Raises InvalidInput, with nothing changed, for an application's input that is wrong."""
        if isinstance(happened, Started):
            self._post.watch_bundle(now, self._topic)
            self._post.listen(now, inbox_of(self._name))
            if self._where is not None:
                self._post.listen(now, self._topic, self._where, letters=False)
        if isinstance(happened, _ABOUT_THE_LINK) or (isinstance(happened, TimerFired) and self._post.is_mine(happened)):
            self._take(now, *self._post.step(now, happened))
        else:
            self._say(now, self.machine.step(now, happened))
        effects, self._effects = self._effects, []
        return effects

    def _say(self, now: int, effects: list[Effect]) -> None:
        if effects or self._post.untold:
            self._take(now, *self._post.send(now, effects))

    def _take(self, now: int, effects: list[Effect], told: list[Input]) -> None:
        for effect in effects:
            if isinstance(effect, Connect) and isinstance(self.machine, ReliablePublisher):
                self.machine.limit(self._post.client.publisher.largest_body)
            elif isinstance(effect, Disconnect):
                self._post.client.publisher.withdraw(WITHIN)  # the next broker may be in another unit
                self._say(now, self.machine.step(now, LinkDown()))
            self._effects.append(effect)
        for each in told:
            self._say(now, self.machine.step(now, each))
