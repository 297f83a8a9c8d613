"""Endpoints: machines of reliable delivery at a client, each over a link of its own.

A `LetterEndpoint` composes such a machine with the client that carries its letters. Publishers and subscribers are
`ReliableEndpoint`s; whoever reads what is stored, at rest, is a `StoredReadEndpoint`.
"""

from stentor.machine import (
    CertificateEnded,
    Effect,
    Input,
    LinkLost,
    LinkOpened,
    Machine,
    Received,
    Started,
    Step,
    StopRequested,
    TimerFired,
)
from stentor.model.communication import WITHIN, inbox_of
from stentor.nodes.client import Settings
from stentor.nodes.client_api import Connect, Disconnect, Moved, Refuse
from stentor.nodes.letter_transport import LetterTransport
from stentor.protocols.delivery.publisher.publisher import ReliablePublisher
from stentor.protocols.delivery.stored.read_client import (
    AvailabilityRequested,
    PagesRequested,
    ReadAcknowledged,
    StoredReadClient,
)
from stentor.protocols.delivery.subscriber.subscriber import ReliableSubscriber
from stentor.protocols.delivery.transport import Greeted, LinkDown, NameRefused

_ABOUT_THE_LINK = (LinkOpened, LinkLost, CertificateEnded, Received, Started, StopRequested, Moved)


class LetterEndpoint:
    """Composes a machine with a client that carries what it says."""

    def __init__(self, link: Settings, topic: str, machine: Machine) -> None:
        """`topic` is the one whose repositories are believed; "" if that is not known yet."""
        self.machine = machine
        self._name = link.name
        self._topic = topic
        self._step = Step()
        self._post = LetterTransport(link, self._step, topic)

    def step(self, now: int, happened: Input) -> list[Effect]:
        """Raises InvalidInput, with nothing changed, for an application's input that is wrong."""
        self._step.now = now
        if isinstance(happened, Started):
            self._start()
        if isinstance(happened, _ABOUT_THE_LINK) or (isinstance(happened, TimerFired) and self._post.is_mine(happened)):
            self._tell(self._post.handle(happened))
        else:
            self._hand(happened)
        return self._step.end()

    def _start(self) -> None:
        if self._topic:
            self._post.watch_bundle(self._topic)
        self._post.listen(inbox_of(self._name))

    def _on_connect(self) -> None:
        """There is a link, whose limits hold from now on."""

    def _hand(self, happened: Input) -> None:
        """Tell the machine something, and send what it says to that."""
        effects = self.machine.step(self._step.now, happened)
        if effects or self._post.has_waiting:
            self._tell(self._post.send(effects))

    def _tell(self, told: list[Input]) -> None:
        """Hand what the transport tells to the machine; of the link itself the application is told."""
        for each in told:
            match each:
                case Greeted():
                    self._on_connect()
                    self._step.emit(Connect(each.node, each.principal))
                case NameRefused():
                    self._step.emit(Refuse(each.code, each.reason))
                case LinkDown():
                    self._post.client.publisher.withdraw(WITHIN)  # the next broker may be in another unit
                    self._step.emit(Disconnect(each.reason))
                    self._hand(each)
                case _:
                    self._hand(each)


class ReliableEndpoint(LetterEndpoint):
    """The endpoint of a publisher or subscriber, which traces what it does."""

    def __init__(
        self, link: Settings, topic: str, machine: ReliablePublisher | ReliableSubscriber, where: str | None = None
    ) -> None:
        """With a filter, "" for all, it hears the topic's events as they are published."""
        super().__init__(link, topic, machine)
        self._where = where
        machine.traces = self._post.traces

    def _start(self) -> None:
        super()._start()
        if self._where is not None:
            self._post.listen(self._topic, self._where, letters=False)

    def _on_connect(self) -> None:
        if isinstance(self.machine, ReliablePublisher):
            self.machine.limit(self._post.client.publisher.largest_body)


class StoredReadEndpoint(LetterEndpoint):
    """The endpoint of one who reads what is stored, of any topics."""

    def __init__(self, link: Settings, machine: StoredReadClient) -> None:
        super().__init__(link, "", machine)
        self._watched: set[str] = set()  # topics whose repositories the broker tells us

    def _hand(self, happened: Input) -> None:
        match happened:
            case AvailabilityRequested():
                self._watch(happened.request.topic)
            case PagesRequested() | ReadAcknowledged():
                self._watch(happened.topic)
        super()._hand(happened)

    def _watch(self, topic: str) -> None:
        if topic not in self._watched:
            self._watched.add(topic)
            self._post.watch_bundle(topic)
