"""Arrival: how a client gets to another broker before it leaves the one that serves it.

The client dials the other broker, says hello and subscribes there while the old broker still serves it. When all
brokers know of that, or had their time, its subscriptions are in force at both, so no event falls between them. Then
the old broker is asked to say when what was under way to it has come, and to answer the client behind all of that. What
the new broker sends meanwhile is held back, because a publisher's events come in order: once the old link is read to
its end, the held events follow, and those that came by both links are dropped by their numbers.
"""

import enum
from collections.abc import Iterable

from stentor.machine import SECOND, LinkOpened, Send, Step
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import LinkId, SubscriptionId
from stentor.model.messages import (
    AnyMessage,
    Challenge,
    Farewell,
    Heartbeat,
    Message,
    Receipt,
    Rejection,
    SettlementReport,
    SettlementRequest,
    Subscription,
    Welcome,
)
from stentor.nodes.client_settings import Settings
from stentor.nodes.confirmations import DEPARTURE
from stentor.nodes.greeting import Greeting
from stentor.protocols.connection.connection import Connection
from stentor.wire.frame import CONTROL, PARCEL, decode, measure

ARRIVE_WITHIN_NS = 5 * SECOND  # as long as any broker has for its welcome; the old one serves meanwhile
_KNOWN_WITHIN = 2.0  # seconds; a broker that is silent for longer must not keep a client where it is
# Seconds for events that were on their way to the old broker when others heard of the new one; a plan holds them for as
# long as its old topology drains (`drain_within`), and the client is served meanwhile.
DRAINED_WITHIN = 10.0
PART_WITHIN_NS = 2 * SECOND  # a broker that stands still must not keep a client that wants to leave


class Stage(enum.Enum):
    """How far a client has got."""

    DIALLING = "dialling"  # the link is being opened
    GREETING = "greeting"  # the client has said hello
    SUBSCRIBING = "subscribing"  # the new broker takes in what the client subscribes to, and tells the others
    LINGERING = "lingering"  # all of them know of it; the old broker waits for what is under way to it
    PARTING = "parting"  # nothing more is published at the old broker, which confirms what was, or is gone


TRANSITIONS = {
    (Stage.DIALLING, Stage.GREETING),
    (Stage.GREETING, Stage.SUBSCRIBING),
    (Stage.SUBSCRIBING, Stage.LINGERING),
    (Stage.LINGERING, Stage.PARTING),
    (Stage.SUBSCRIBING, Stage.PARTING),  # the old broker was lost meanwhile
}


class Failed(Exception):
    """The new broker does not take the client."""


class Arrival:
    """The second link of a client that is about to move."""

    def __init__(self, step: Step, link: LinkId, address: str, *, is_redirected: bool) -> None:
        self._step = step
        self.link = link
        self.address = address
        self.is_redirected = is_redirected  # the old broker asked for it: if it fails, the client stays
        self.stage = Stage.DIALLING
        # Invariants: `connection` and `greeting` are there from GREETING on, `welcome` from SUBSCRIBING on.
        self.connection: Connection | None = None
        self.greeting: Greeting | None = None
        self.welcome: Welcome | None = None
        self._held: list[bytes] = []  # frames to be read after the old link; the credit of this one bounds them
        self._events = 0  # bytes of events among them
        self._unconfirmed: set[SubscriptionId] = set()  # subscriptions that are not in force there yet
        self._is_known = False  # whether other brokers know of those that were there at the welcome

    def advance(self, to: Stage) -> None:
        assert (self.stage, to) in TRANSITIONS, f"{self.stage} is not followed by {to}"
        self.stage = to

    def open(self, opened: LinkOpened, settings: Settings) -> None:
        """The link stands: say hello."""
        self.advance(Stage.GREETING)
        window, buffer, heartbeat = settings.window, settings.buffer, settings.heartbeat
        self.connection = Connection(opened.link, self._step.now, window, buffer, heartbeat)
        self.greeting = Greeting(opened, settings.hello(int(self.link), is_placed=True))
        self.connection.outbox.post(self.greeting.first_word())

    def receive(self, data: bytes, requests: Iterable[Subscription]) -> None:
        """Read what the new broker says; raise Failed or FrameError if it does not take the client.

        `requests` are the client's subscriptions, to be made when it is welcome.
        """
        connection = self.connection
        assert connection is not None, "nothing is received on a link before it is opened"
        chunk = connection.feed(self._step.now, data) or b""
        position = 0
        while position < len(chunk):
            kind, length = measure(chunk, position, connection.largest_frame)
            if not length or position + length > len(chunk):
                connection.buffer.hold(chunk, position)
                break
            frame = chunk[position : position + length]
            if kind == PARCEL or (kind != CONTROL and not connection.greeted):
                raise FrameError(Refusal.PROTOCOL, "a parcel, or events before a welcome")
            if kind != CONTROL:
                self._events += length
                self._held.append(frame)
            elif not self._hear(connection, decode(frame), len(chunk) - position, requests):
                self._held.append(frame)
            position += length
        if self.stage is Stage.SUBSCRIBING and self._is_known and not self._unconfirmed:
            self.advance(Stage.LINGERING)

    def _hear(self, connection: Connection, message: AnyMessage, rest: int, requests: Iterable[Subscription]) -> bool:
        """Return whether this is all that a message is good for; others are read when the client has arrived."""
        if isinstance(message, Heartbeat):
            connection.check_heartbeat(message, rest, self._events)
        elif isinstance(message, Rejection | Farewell):
            raise Failed(message.reason)
        elif connection.greeted:
            if isinstance(message, Challenge | Welcome):
                raise FrameError(Refusal.PROTOCOL, f"the message {message.tag!r} after a welcome")
            if isinstance(message, SettlementReport) and message.token == DEPARTURE:
                self._is_known = True
            elif isinstance(message, Receipt):
                if message.code is not None and self.is_redirected:
                    raise Failed(message.reason)
                self._unconfirmed.discard(message.id)
            return False
        elif self.greeting is not None and isinstance(message, Challenge):
            connection.outbox.post(self.greeting.answer(message))
        elif self.greeting is not None and isinstance(message, Welcome):
            self.greeting.take_in(message, connection)
            self.welcome = message
            self.advance(Stage.SUBSCRIBING)
            for request in requests:
                self.post(request)
            self.post(SettlementRequest(DEPARTURE, _KNOWN_WITHIN))
        else:
            raise FrameError(Refusal.PROTOCOL, f"the message {message.tag!r} before a welcome")
        return True

    def post(self, message: Message) -> None:
        """Tell the new broker, too; before its welcome there is no need, because it is told everything then."""
        if self.welcome is not None and self.connection is not None:
            if isinstance(message, Subscription):
                self._unconfirmed.add(message.id)
            self.connection.outbox.post(message)

    def beat(self, subscribed: int) -> None:
        """Tell the new broker now and then the digest of what it was told of our subscriptions."""
        if self.connection is not None and self.connection.greeted:
            self.connection.beat(self._step.now, subscribed)

    def release(self) -> None:
        """Send what waits for the new broker."""
        ready = [] if self.connection is None else self.connection.outbox.release()
        if ready:
            self._step.emit(Send(self.link, ready))

    def take_held(self) -> bytes:
        """Return what the new broker sent meanwhile, to be read now."""
        held, self._held = self._held, []
        return b"".join(held)
