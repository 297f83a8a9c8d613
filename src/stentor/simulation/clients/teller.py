"""A simulated repository that tells access facts, as a broker sees it: a client that greets, tells, and hears receipts.

It has no ledger: the scenario says what it tells. It connects again when its link is lost, to the next broker.
"""

from collections import deque

from stentor.machine import (
    MILLISECOND,
    SECOND,
    Close,
    Dial,
    Effect,
    Input,
    LinkLost,
    LinkOpened,
    Received,
    Send,
    Started,
    StartTimer,
    StopTimer,
    Timer,
    TimerFired,
)
from stentor.model.communication import repository_name
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import Incarnation, LinkId
from stentor.model.limits import Limits
from stentor.model.messages import AnyMessage, Farewell, Heartbeat, Hello, Rejection, Welcome
from stentor.model.trust.access import SharedFact
from stentor.model.trust.access_messages import AccessFacts, AccessReceipt
from stentor.protocols.connection.connection import Connection
from stentor.wire.frame import CONTROL, decode, measure

_PAUSE = 50 * MILLISECOND


class TellerRedial(Timer, frozen=True, gc=False, tag="teller redial"):
    """A pause after a link that was lost is over."""


class TellerBeat(Timer, frozen=True, gc=False, tag="teller beat"):
    """It is time for a heartbeat."""


class FactsDue(Input, frozen=True, tag="told frame"):
    """The repository has facts to tell, if it is connected."""

    topic: str
    facts: tuple[SharedFact, ...]
    token: int = 0


class Connected(Effect, frozen=True, tag="connected"):
    """A broker has welcomed the simulated repository."""


class Confirmed(Effect, frozen=True, tag="confirmed"):
    """A broker confirmed facts."""

    token: int


class Teller:
    """One life of a repository."""

    def __init__(self, name: str, incarnation: int, addresses: tuple[str, ...], limits: Limits) -> None:
        self._name = name
        self._incarnation = Incarnation(incarnation)
        self._limits = limits
        self._addresses = deque(addresses)
        self._links = 0
        self._connection: Connection | None = None
        self._effects: list[Effect] = []

    def step(self, now: int, happened: Input) -> list[Effect]:
        match happened:
            case Started() | TimerFired(timer=TellerRedial()):
                self._links += 1
                self._effects.append(Dial(LinkId(self._links), self._addresses[0]))
            case LinkOpened():
                self._greet(now, happened.link)
            case LinkLost() if happened.link == self._links:
                self._end(now)
            case Received() if self._connection is not None and happened.link == self._connection.link:
                self._receive(now, self._connection, happened.data)
            case FactsDue() if self._connection is not None and self._connection.greeted:
                self._connection.outbox.post(
                    AccessFacts(topic=happened.topic, facts=happened.facts, token=happened.token)
                )
            case TimerFired(timer=TellerBeat()) if self._connection is not None:
                self._beat(now, self._connection)
        if self._connection is not None and (ready := self._connection.outbox.release()):
            self._effects.append(Send(self._connection.link, ready))
        effects, self._effects = self._effects, []
        return effects

    def _greet(self, now: int, link: LinkId) -> None:
        limits = self._limits
        connection = self._connection = Connection(link, now, limits.window, limits.queue, limits.heartbeat)
        name = repository_name(self._name)
        hello = Hello(
            name=name,
            incarnation=self._incarnation,
            window=limits.window,
            heartbeat=limits.heartbeat,
            attempt=self._links,
        )
        connection.outbox.post(hello)
        self._effects.append(StartTimer(TellerBeat(), now + SECOND))

    def _receive(self, now: int, connection: Connection, data: bytes) -> None:
        try:
            chunk = connection.feed(now, data)
            position = 0
            while chunk is not None and position < len(chunk) and self._connection is connection:
                kind, length = measure(chunk, position, connection.largest_frame)
                if not length or position + length > len(chunk):
                    connection.buffer.hold(chunk, position)
                    return
                if kind != CONTROL:
                    raise FrameError(Refusal.PROTOCOL, "events for somebody who wants none")
                self._hear(now, connection, decode(chunk[position : position + length]), len(chunk) - position)
                position += length
        except FrameError:
            self._end(now)

    def _hear(self, now: int, connection: Connection, message: AnyMessage, rest: int) -> None:
        match message:
            case Heartbeat():
                connection.check_heartbeat(message, rest, events=0)
            case Welcome():
                connection.narrow(message.ahead or connection.window)
                connection.greet(self._limits.largest_body, self._limits.heartbeat)
                connection.outbox.grant(message.window)
                self._effects.append(Connected())
            case AccessReceipt():
                self._effects.append(Confirmed(message.token))
            case Rejection() | Farewell():
                self._end(now)
            case _:
                raise FrameError(Refusal.PROTOCOL, f"the message {message.tag!r} has no place here")

    def _beat(self, now: int, connection: Connection) -> None:
        if connection.silent(now):
            self._end(now)
        else:
            connection.beat(now)
            self._effects.append(StartTimer(TellerBeat(), now + SECOND // 2))

    def _end(self, now: int) -> None:
        if self._connection is not None:
            self._effects += [Close(self._connection.link, "lost"), StopTimer(TellerBeat())]
        self._connection = None
        self._addresses.rotate(-1)
        self._effects.append(StartTimer(TellerRedial(), now + _PAUSE, _PAUSE))
