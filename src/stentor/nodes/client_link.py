"""The link of a client: it comes back by itself, and moves to another broker without leaving a gap.

A client has one link at a time, and a second one while it moves: see `arrival`. Whoever derives from ClientLink says
what the link is good for.
"""

import enum
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable

from stentor.machine import (
    MILLISECOND,
    SECOND,
    CertificateEnded,
    Close,
    Dial,
    LinkOpened,
    Received,
    Send,
    StartTimer,
    Step,
    StopRequested,
    StopTimer,
    Timer,
    TimerFired,
)
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import LinkId
from stentor.model.messages import (
    Challenge,
    Farewell,
    Message,
    Redirect,
    Rejection,
    SettlementRequest,
    Subscription,
    Welcome,
)
from stentor.nodes.arrival import ARRIVE_WITHIN_NS, DRAINED_WITHIN, PART_WITHIN_NS, Arrival, Failed, Stage
from stentor.nodes.client_api import CompleteFlush, Connect, Disconnect, Moved, Refuse
from stentor.nodes.client_settings import Settings
from stentor.nodes.confirmations import DEPARTURE
from stentor.nodes.greeting import Greeting
from stentor.protocols.connection.connection import Connection
from stentor.protocols.connection.outbox import Outbox

FATAL = frozenset({Refusal.FENCED, Refusal.UNAUTHENTICATED, Refusal.NOT_AUTHORISED})  # others may be a damaged stream
MOVING = "moving to another broker"  # why a link ends that its client leaves for another one
_FIRST_PAUSE_NS = 50 * MILLISECOND  # a broker that is restarted is there again in moments
_LONGEST_PAUSE_NS = 5 * SECOND
_GREETING_WITHIN_NS = 5 * SECOND


class ClientTimer(Timer, frozen=True, gc=False):
    """A timer of a client's link; whoever runs a client beside another machine tells them apart by this."""


class ClientTick(ClientTimer, frozen=True, gc=False, tag="tick"):
    """It is time for a heartbeat, and to ask whether the broker is alive."""


class RedialBroker(ClientTimer, frozen=True, gc=False, tag="redial"):
    """The pause after a link that was lost is over."""


class WelcomeTimeout(ClientTimer, frozen=True, gc=False, tag="greeting"):
    """A broker that was dialled has not said welcome."""


class ArrivalStep(ClientTimer, frozen=True, gc=False, tag="arrival"):
    """A move to another broker goes on, is tried again, or has taken too long."""


class ClientLinkState(enum.Enum):
    """How far a client has got with the link that serves it."""

    WAITING = "waiting"  # it has no link: it has not begun, pauses before it dials again, or is about to switch
    DIALLING = "dialling"  # a link is being opened
    GREETING = "greeting"  # the client has said hello
    SERVED = "served"  # the broker has said welcome
    STOPPED = "stopped"  # the application has closed the client, or a broker has refused it for good


TRANSITIONS = {
    (ClientLinkState.WAITING, ClientLinkState.DIALLING),
    (ClientLinkState.DIALLING, ClientLinkState.GREETING),
    (ClientLinkState.GREETING, ClientLinkState.SERVED),
    (ClientLinkState.DIALLING, ClientLinkState.WAITING),
    (ClientLinkState.GREETING, ClientLinkState.WAITING),
    (ClientLinkState.SERVED, ClientLinkState.WAITING),
    (ClientLinkState.SERVED, ClientLinkState.SERVED),  # the client moves to another broker
    (ClientLinkState.WAITING, ClientLinkState.SERVED),  # its old broker was lost meanwhile
    (ClientLinkState.WAITING, ClientLinkState.STOPPED),
    (ClientLinkState.DIALLING, ClientLinkState.STOPPED),
    (ClientLinkState.GREETING, ClientLinkState.STOPPED),
    (ClientLinkState.SERVED, ClientLinkState.STOPPED),
    (ClientLinkState.STOPPED, ClientLinkState.STOPPED),  # whoever was refused is closed, too
}


class ClientLink(ABC):
    """Dials, greets, beats, gives up, dials again, and moves."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._step = Step()
        self._addresses = deque(settings.addresses)  # the first is tried next
        # Invariants: `_dialling` is there while DIALLING and else not; `_connection` and `_greeting` are there while
        # GREETING and SERVED, and `_connection` is not else.
        self._state = ClientLinkState.WAITING
        self._dialling: LinkId | None = None
        self._connection: Connection | None = None
        self._greeting: Greeting | None = None  # how this link began
        self._arrival: Arrival | None = None  # the link to a broker to which we are about to move
        self._is_visiting = False  # a broker sent us to the first address, which is none of our own
        self.address = ""  # that was dialled for the link that there is, or last was
        self._links = 0
        self._pause = _FIRST_PAUSE_NS
        self._ticked_at = 0

    def _advance(self, to: ClientLinkState) -> None:
        assert (self._state, to) in TRANSITIONS, f"{self._state} is not followed by {to}"
        self._state = to

    # ---- what the link is good for

    @abstractmethod
    def _take(self, connection: Connection, data: bytes) -> None:
        """Read frames, the first of which begins here."""

    @abstractmethod
    def _requests(self) -> Iterable[Subscription]:
        """Return what the client subscribes to."""

    @property
    @abstractmethod
    def _subscribed(self) -> int:
        """The digest of what the client subscribes to."""

    @abstractmethod
    def _on_link_up(self, *, has_served: bool) -> None:
        """There is a new link, on which nothing was said yet, or the other broker has served us for a while."""

    @abstractmethod
    def _on_welcome(self, welcome: Welcome) -> None:
        """The broker serves us."""

    @abstractmethod
    def _on_link_down(self, outbox: Outbox | None, reason: str) -> list[int]:
        """Return the tokens of questions that are not answered any more, because they were asked on this link."""

    @abstractmethod
    def _mark_departure(self, outbox: Outbox) -> None:
        """Have the broker confirm what was sent, and switch when it does."""

    @abstractmethod
    def _send_rest(self, connection: Connection) -> None:
        """Put on the link what has been waiting; it is about to end."""

    # ---- one link after the other

    def _post(self, message: Message) -> None:
        """Tell the broker, if there is one; whoever comes next is told all that still holds."""
        if self._connection is not None and self._connection.greeted:
            self._connection.outbox.post(message)
        if self._arrival is not None:
            self._arrival.post(message)

    @property
    def _linked(self) -> Connection:
        assert self._connection is not None
        return self._connection

    def _dial(self) -> None:
        self._advance(ClientLinkState.DIALLING)
        self._links += 1
        self._dialling = LinkId(self._links)
        self.address = self._addresses[0]
        self._step.emit(Dial(self._dialling, self.address))

    def _on_link_opened(self, opened: LinkOpened) -> None:
        settings = self._settings
        if self._arrival is not None and opened.link == self._arrival.link:
            self._arrival.open(opened, settings)
            return
        if opened.link != self._dialling:
            self._step.emit(Close(opened.link, "no longer wanted"))
            return
        self._advance(ClientLinkState.GREETING)
        self._dialling = None
        now = self._ticked_at = self._step.now
        connection = self._connection = Connection(
            opened.link, now, settings.window, settings.buffer, settings.heartbeat
        )
        self._on_link_up(has_served=False)
        self._greeting = Greeting(opened, settings.hello(self._links))
        connection.outbox.post(self._greeting.first_word())
        self._step.emit(StartTimer(WelcomeTimeout(), now + _GREETING_WITHIN_NS))

    def _on_link_lost(self, link: LinkId, reason: str) -> None:
        if self._arrival is not None and link == self._arrival.link:
            self._fail_arrival(reason)
            return
        if link != self._dialling and (self._connection is None or link != self._connection.link):
            return
        connection = self._connection
        if connection is not None and not connection.received:
            hint = "does it trust our certificate?" if self._settings.secure else "does it want TLS?"
            reason = f"{reason} before it said a word: {hint}"
        unanswered = self._on_link_down(None if connection is None else connection.outbox, reason)
        self._advance(ClientLinkState.WAITING)
        self._connection = self._dialling = None
        step = self._step
        step.emit(StopTimer(ClientTick()))
        step.emit(StopTimer(WelcomeTimeout()))
        step.emit(Disconnect(reason))
        self._fail_questions(unanswered, reason)
        if self._arrival is not None and self._arrival.welcome is not None:
            if not self._is_parting:
                self._arrival.advance(Stage.PARTING)
            step.emit(StartTimer(ArrivalStep(), step.now))
            return
        self._abandon(reason)
        if self._is_visiting:  # it is not ours to come back to
            self._addresses.popleft()
        else:
            self._addresses.rotate(-1)
        self._is_visiting = False
        self._try_later(RedialBroker())

    def _try_later(self, timer: ClientTimer) -> None:
        """Pause, each time longer, before a broker is dialled."""
        self._step.emit(StartTimer(timer, self._step.now + self._pause, self._pause // 2))
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_NS)

    def _fail_questions(self, tokens: Iterable[int], reason: str) -> None:
        for token in tokens:
            self._step.emit(CompleteFlush(token, reason))

    def _on_certificate_ended(self, ended: CertificateEnded) -> None:
        """The broker's certificate is good no longer; a new one may be, there or at another broker."""
        if self._connection is not None and self._connection.link == ended.link:
            self._give_up(Refusal.CLOSING, ended.reason)
        elif self._arrival is not None and self._arrival.link == ended.link:
            self._fail_arrival(ended.reason)

    def _give_up(self, code: Refusal, reason: str) -> None:
        """Close the link: it is of no use any more."""
        link = self._linked.link
        if code in FATAL:
            self._abandon(reason)
        self._step.emit(Close(link, reason))
        self._on_link_lost(link, reason)
        if code in FATAL:
            self._advance(ClientLinkState.STOPPED)
            self._step.emit(StopTimer(RedialBroker()))
            self._step.emit(Refuse(code, reason))

    def _on_received(self, received: Received) -> None:
        connection, arrival = self._connection, self._arrival
        if connection is not None and received.link == connection.link:
            try:
                chunk = connection.feed(self._step.now, received.data)
            except FrameError as error:
                self._break_off(connection, error)
            else:
                self._read(connection, chunk or b"")
        elif arrival is not None and received.link == arrival.link:
            self._on_received_there(arrival, received.data)

    def _read(self, connection: Connection, chunk: bytes) -> None:
        try:
            self._take(connection, chunk)
        except FrameError as error:
            self._break_off(connection, error)

    def _break_off(self, connection: Connection, error: FrameError) -> None:
        connection.outbox.post(Rejection(error.code, str(error)))
        self._step.emit(Send(connection.link, connection.outbox.release()))
        self._give_up(error.code, str(error))

    def _on_challenge(self, challenge: Challenge) -> None:
        assert self._greeting is not None, "a link is greeted when it opens"
        self._linked.outbox.post(self._greeting.answer(challenge))

    def _welcomed(self, welcome: Welcome) -> None:
        connection = self._linked
        assert self._greeting is not None, "a link is greeted when it opens"
        self._greeting.take_in(welcome, connection)
        for request in self._requests():
            connection.outbox.post(request)
        self._settle_in(welcome)

    def _settle_in(self, welcome: Welcome) -> None:
        """We are welcome, and have said what we subscribe to."""
        self._advance(ClientLinkState.SERVED)
        self._pause = _FIRST_PAUSE_NS
        self._on_welcome(welcome)
        self._step.emit(StopTimer(WelcomeTimeout()))
        self._step.emit(StartTimer(ClientTick(), self._step.now + self._linked.heartbeat // 2))
        self._step.emit(Connect(welcome.node, welcome.principal))

    def _on_timer(self, fired: TimerFired) -> None:
        match fired.timer:
            case RedialBroker() if self._state is ClientLinkState.WAITING:
                self._dial()
            case ArrivalStep():
                if self._arrival is not None:
                    self._proceed(self._arrival)
                elif self._state is not ClientLinkState.STOPPED and self._addresses[0] != self.address:
                    self._arrive(self._addresses[0], is_redirected=False)
            case WelcomeTimeout() if self._connection is not None:
                self._give_up(Refusal.SILENT, "no welcome within 5 s: is that a Stentor broker?")
            case ClientTick() if self._connection is not None:
                self._tick(self._connection)

    def _tick(self, connection: Connection) -> None:
        now = self._step.now
        if now - self._ticked_at > 3 * connection.heartbeat:  # it was us who slept
            connection.heard = now
        self._ticked_at = now
        if connection.silent(now):
            self._give_up(Refusal.SILENT, "the broker was silent for three heartbeats")
            return
        connection.beat(now, self._subscribed)
        if self._arrival is not None:
            self._arrival.beat(self._subscribed)
        self._step.emit(StartTimer(ClientTick(), now + connection.heartbeat // 2))

    def _on_stop_requested(self, _: StopRequested) -> None:
        self._advance(ClientLinkState.STOPPED)
        for timer in (ClientTick(), RedialBroker(), WelcomeTimeout()):
            self._step.emit(StopTimer(timer))
        self._abandon("the client left")
        connection = self._connection
        self._connection = self._dialling = None
        if connection is not None:
            self._send_rest(connection)
            self._say_farewell(connection)
            self._step.emit(Close(connection.link, "the client left"))

    def _say_farewell(self, connection: Connection, reason: str = "") -> None:
        ready = connection.outbox.release()
        connection.outbox.post(Farewell(reason))
        self._step.emit(Send(connection.link, [*ready, *connection.outbox.release()]))

    # ---- from one broker to another

    @property
    def _is_parting(self) -> bool:
        """Whether nothing more is to be published on this link."""
        return self._arrival is not None and self._arrival.stage is Stage.PARTING

    def _on_moved(self, moved: Moved) -> None:
        """Go to another broker: before this one is left, if it serves us."""
        if self._state is ClientLinkState.STOPPED:
            return
        self._addresses = deque(moved.addresses)
        self._is_visiting = False
        self._pause = _FIRST_PAUSE_NS
        if self._is_parting:
            return  # it goes on from where it is about to be
        if self._state is not ClientLinkState.SERVED:
            self._leave()
            return
        self._abandon(MOVING)
        if moved.addresses[0] != self.address:  # else it is there already
            self._arrive(moved.addresses[0], is_redirected=False)

    def _on_redirect(self, redirect: Redirect) -> None:
        if self._settings.can_move and self._arrival is None and redirect.address != self.address:
            self._arrive(redirect.address, is_redirected=True)

    def _arrive(self, address: str, *, is_redirected: bool) -> None:
        self._links += 1
        self._arrival = Arrival(self._step, LinkId(self._links), address, is_redirected=is_redirected)
        self._step.emit(Dial(self._arrival.link, address))
        self._step.emit(StartTimer(ArrivalStep(), self._step.now + ARRIVE_WITHIN_NS))

    def _on_received_there(self, arrival: Arrival, data: bytes) -> None:
        before = arrival.stage
        try:
            arrival.receive(data, self._requests())
        except (Failed, FrameError) as error:
            self._fail_arrival(str(error), is_refused=True)
            return
        if arrival.stage is Stage.LINGERING and before is not Stage.LINGERING:
            if self._connection is not None:
                self._connection.outbox.post(SettlementRequest(DEPARTURE, DRAINED_WITHIN, drained=True))
            self._step.emit(StartTimer(ArrivalStep(), self._step.now + int((DRAINED_WITHIN + 1) * SECOND)))

    def _on_drained(self) -> None:
        """What was under way to the broker that serves us has come, or had its time."""
        if self._arrival is not None and self._arrival.stage is Stage.LINGERING:
            self._proceed(self._arrival)

    def _proceed(self, arrival: Arrival) -> None:
        """The time of a stage is over."""
        if arrival.stage is Stage.LINGERING:
            arrival.advance(Stage.PARTING)
            self._mark_departure(self._linked.outbox)
            self._step.emit(Disconnect(MOVING))
            self._step.emit(StartTimer(ArrivalStep(), self._step.now + PART_WITHIN_NS))
        elif arrival.stage is Stage.PARTING:
            self._switch(arrival)
        else:
            self._fail_arrival("no welcome in time")

    def _switch(self, arrival: Arrival) -> None:
        """From now on the other broker serves us."""
        assert arrival.connection is not None, "who parts has another link"
        assert arrival.welcome is not None, "who parts is welcome elsewhere"
        old, self._connection = self._connection, arrival.connection
        self._greeting = arrival.greeting
        self._arrival = None
        self.address = arrival.address
        self._step.emit(StopTimer(ArrivalStep()))
        if old is not None:
            self._fail_questions(self._on_link_down(old.outbox, MOVING), MOVING)
            self._say_farewell(old, "moving")
            self._step.emit(Close(old.link, MOVING))
        if arrival.is_redirected:
            if self._is_visiting:
                self._addresses.popleft()
            self._addresses.appendleft(arrival.address)
            self._is_visiting = True
        self._ticked_at = self._step.now
        self._on_link_up(has_served=True)
        self._settle_in(arrival.welcome)
        self._read(arrival.connection, arrival.take_held())
        if self._state is ClientLinkState.SERVED and self._addresses[0] != self.address:  # it was told to go on
            self._arrive(self._addresses[0], is_redirected=False)

    def _abandon(self, reason: str) -> None:
        """Move nowhere."""
        arrival, self._arrival = self._arrival, None
        if arrival is not None:
            self._step.emit(StopTimer(ArrivalStep()))
            self._step.emit(Close(arrival.link, reason))

    def _fail_arrival(self, reason: str, *, is_refused: bool = False) -> None:
        """The other broker does not take us: stay, unless we have parted. An application that wants to leave is told
        why it is refused; if nobody answered, the broker that there is serves until somebody does.
        """
        arrival, has_parted = self._arrival, self._is_parting
        assert arrival is not None, "only an arrival can fail"
        self._abandon(reason)
        if self._connection is None:
            self._step.emit(StartTimer(RedialBroker(), self._step.now))
        elif has_parted:
            self._give_up(Refusal.CLOSING, reason)
        elif is_refused and not arrival.is_redirected:
            self._leave()
        elif not arrival.is_redirected:
            self._addresses.rotate(-1)
            self._try_later(ArrivalStep())

    def _leave(self) -> None:
        """Part from the broker although no other one takes us yet, and look for one."""
        self._abandon(MOVING)
        if self._connection is not None:
            self._say_farewell(self._connection, "moving")
            self._addresses.rotate(1)  # it rotates back when the link is given up
            self._give_up(Refusal.CLOSING, MOVING)
        if self._state is ClientLinkState.DIALLING:
            self._advance(ClientLinkState.WAITING)
            self._dialling = None
        self._step.emit(StartTimer(RedialBroker(), self._step.now))
