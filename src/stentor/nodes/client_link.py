"""The link of a client: it comes back by itself, and moves to another broker without leaving a gap.

A client has one link at a time, and a second one while it moves: see `arrival`. Whoever derives from ClientLink says
what the link is good for.
"""

from collections import deque
from collections.abc import Iterable

from stentor.machine import (
    MILLISECOND,
    SECOND,
    CertificateEnded,
    Close,
    Dial,
    Effect,
    LinkOpened,
    Received,
    Send,
    StartTimer,
    StopRequested,
    StopTimer,
    Timer,
    TimerFired,
)
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import LinkId
from stentor.model.messages import Challenge, Farewell, Message, Redirect, Rejection, Subscription, Welcome
from stentor.nodes.arrival import ARRIVE_WITHIN_NS, LINGER_NS, PART_WITHIN_NS, Arrival, Failed, Stage
from stentor.nodes.client_api import Connect, Disconnect, Halt, Moved
from stentor.nodes.client_settings import Settings
from stentor.nodes.greeting import Greeting
from stentor.protocols.connection.connection import Connection
from stentor.protocols.connection.outbox import Outbox

FATAL = frozenset({Refusal.FENCED, Refusal.UNAUTHENTICATED, Refusal.NOT_AUTHORISED})  # others may be a damaged stream
MOVING = "moving to another broker"  # why a link ends that its client leaves for another one
_FIRST_PAUSE, _LONGEST_PAUSE = 50 * MILLISECOND, 5 * SECOND
_GREETING_WITHIN = 5 * SECOND


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


class ClientLink:
    """Dials, greets, beats, gives up, dials again, and moves."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._addresses = deque(settings.addresses)  # the first is tried next
        self._connection: Connection | None = None
        self._dialling: LinkId | None = None
        self._greeting: Greeting | None = None  # how this link began
        self._arrival: Arrival | None = None  # the link to a broker to which we are about to move
        self._is_visiting = False  # a broker sent us to the first address, which is none of our own
        self.address = ""  # that was dialled for the link that there is, or last was
        self._links = 0
        self._pause = _FIRST_PAUSE
        self._ticked = 0
        self._stopped = False
        self._effects: list[Effect] = []

    # ---- what the link is good for

    def _take(self, now: int, connection: Connection, data: bytes) -> None:
        """Read frames, the first of which begins here."""
        raise NotImplementedError

    def _requests(self) -> Iterable[Subscription]:
        """Return what the client subscribes to."""
        raise NotImplementedError

    def _on_link_up(self) -> None:
        """There is a new link, on which nothing was said yet."""
        raise NotImplementedError

    def _on_welcome(self, welcome: Welcome) -> None:
        """The broker serves us."""
        raise NotImplementedError

    def _on_link_down(self, outbox: Outbox | None, reason: str) -> list[Effect]:
        """Return what is to be told to those who wait for something that was sent on the link."""
        raise NotImplementedError

    def _mark_departure(self, outbox: Outbox) -> None:
        """Have the broker confirm what was sent, and switch when it does."""
        raise NotImplementedError

    def _send_rest(self, connection: Connection) -> None:
        """Put on the link what has been waiting; it is about to end."""
        raise NotImplementedError

    # ---- one link after the other

    def _act(self, effect: Effect) -> None:
        self._effects.append(effect)

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

    def _dial(self, now: int) -> None:  # noqa: ARG002
        self._links += 1
        self._dialling, self.address = LinkId(self._links), self._addresses[0]
        self._effects.append(Dial(self._dialling, self.address))

    def _opened(self, now: int, happened: LinkOpened) -> None:
        settings = self._settings
        if self._arrival is not None and happened.link == self._arrival.link:
            self._arrival.open(now, happened, settings)
            return
        if happened.link != self._dialling or self._stopped:
            self._effects.append(Close(happened.link, "no longer wanted"))
            return
        self._dialling = None
        self._ticked = now
        connection = self._connection = Connection(
            happened.link, now, settings.window, settings.buffer, settings.heartbeat
        )
        self._on_link_up()
        self._greeting = Greeting(happened, settings.hello(self._links))
        connection.outbox.post(self._greeting.first_word())
        self._effects.append(StartTimer(WelcomeTimeout(), now + _GREETING_WITHIN))

    def _lost(self, now: int, link: LinkId, reason: str) -> None:
        if self._arrival is not None and link == self._arrival.link:
            self._fail_arrival(now, reason)
            return
        if self._stopped or (link != self._dialling and (self._connection is None or link != self._connection.link)):
            return
        connection = self._connection
        if connection is not None and not connection.received:
            hint = "does it trust our certificate?" if self._settings.secure else "does it want TLS?"
            reason = f"{reason} before it said a word: {hint}"
        untold = self._on_link_down(None if connection is None else connection.outbox, reason)
        self._connection = self._dialling = None
        self._effects += [StopTimer(ClientTick()), StopTimer(WelcomeTimeout()), Disconnect(reason), *untold]
        if self._arrival is not None and self._arrival.welcome is not None:
            if not self._is_parting:
                self._arrival.advance(Stage.PARTING)
            self._effects.append(StartTimer(ArrivalStep(), now))
            return
        self._abandon(reason)
        if self._is_visiting:  # it is not ours to come back to
            self._addresses.popleft()
        else:
            self._addresses.rotate(-1)
        self._is_visiting = False
        self._effects.append(StartTimer(RedialBroker(), now + self._pause, self._pause // 2))
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)

    def _certificate_ended(self, now: int, happened: CertificateEnded) -> None:
        """The broker's certificate is good no longer; a new one may be, there or at another broker."""
        if self._connection is not None and self._connection.link == happened.link:
            self._give_up(now, Refusal.CLOSING, happened.reason)
        elif self._arrival is not None and self._arrival.link == happened.link:
            self._fail_arrival(now, happened.reason)

    def _give_up(self, now: int, code: Refusal, reason: str) -> None:
        """The link is of no use any more."""
        link = self._linked.link
        if code in FATAL:
            self._abandon(reason)
        self._effects.append(Close(link, reason))
        self._lost(now, link, reason)
        if code in FATAL:
            self._stopped = True
            self._effects += [StopTimer(RedialBroker()), Halt(code, reason)]

    def _received(self, now: int, happened: Received) -> None:
        connection, arrival = self._connection, self._arrival
        if connection is not None and happened.link == connection.link:
            try:
                chunk = connection.feed(now, happened.data)
            except FrameError as error:
                self._break_off(now, connection, error)
            else:
                self._read(now, connection, chunk or b"")
        elif arrival is not None and happened.link == arrival.link:
            self._received_there(now, arrival, happened.data)

    def _read(self, now: int, connection: Connection, chunk: bytes) -> None:
        try:
            self._take(now, connection, chunk)
        except FrameError as error:
            self._break_off(now, connection, error)

    def _break_off(self, now: int, connection: Connection, error: FrameError) -> None:
        connection.outbox.post(Rejection(error.code, str(error)))
        self._effects.insert(0, Send(connection.link, connection.outbox.release()))
        self._give_up(now, error.code, str(error))

    def _challenged(self, now: int, challenge: Challenge) -> None:  # noqa: ARG002
        assert self._greeting is not None, "a link is greeted when it opens"
        self._linked.outbox.post(self._greeting.answer(challenge))

    def _welcomed(self, now: int, welcome: Welcome) -> None:
        connection = self._linked
        assert self._greeting is not None, "a link is greeted when it opens"
        self._greeting.take_in(welcome, connection)
        for request in self._requests():
            connection.outbox.post(request)
        self._settle_in(now, welcome)

    def _settle_in(self, now: int, welcome: Welcome) -> None:
        """We are welcome, and have said what we subscribe to."""
        self._pause = _FIRST_PAUSE
        self._on_welcome(welcome)
        self._effects += [
            StopTimer(WelcomeTimeout()),
            StartTimer(ClientTick(), now + self._linked.heartbeat // 2),
            Connect(welcome.node, welcome.principal),
        ]

    def _timer_fired(self, now: int, happened: TimerFired) -> None:
        if isinstance(happened.timer, RedialBroker):
            self._dial(now)
            return
        if isinstance(happened.timer, ArrivalStep):
            if self._arrival is not None:
                self._proceed(now, self._arrival)
            elif not self._stopped and self._addresses[0] != self.address:
                self._arrive(now, self._addresses[0], is_redirected=False)
            return
        connection = self._connection
        if connection is None:
            return
        if isinstance(happened.timer, WelcomeTimeout):
            self._give_up(now, Refusal.SILENT, "no welcome within 5 s: is that a Stentor broker?")
            return
        if now - self._ticked > 3 * connection.heartbeat:  # it was us who slept
            connection.heard = now
        self._ticked = now
        if connection.silent(now):
            self._give_up(now, Refusal.SILENT, "the broker was silent for three heartbeats")
            return
        connection.beat(now)
        if self._arrival is not None:
            self._arrival.beat(now)
        self._effects.append(StartTimer(ClientTick(), now + connection.heartbeat // 2))

    def _stop_requested(self, now: int, happened: StopRequested) -> None:  # noqa: ARG002
        self._stopped = True
        self._effects += [StopTimer(ClientTick()), StopTimer(RedialBroker()), StopTimer(WelcomeTimeout())]
        self._abandon("the client left")
        connection, self._connection, self._dialling = self._connection, None, None
        if connection is not None:
            self._send_rest(connection)
            self._say_farewell(connection)
            self._effects.append(Close(connection.link, "the client left"))

    def _say_farewell(self, connection: Connection, reason: str = "") -> None:
        ready = connection.outbox.release()
        connection.outbox.post(Farewell(reason))
        self._effects.append(Send(connection.link, [*ready, *connection.outbox.release()]))

    # ---- from one broker to another

    @property
    def _is_parting(self) -> bool:
        """Whether nothing more is to be published on this link."""
        return self._arrival is not None and self._arrival.stage is Stage.PARTING

    def _moved(self, now: int, moved: Moved) -> None:
        """Go to another broker: before this one is left, if it serves us."""
        if self._stopped:
            return
        self._addresses, self._is_visiting = deque(moved.addresses), False
        self._pause = _FIRST_PAUSE
        if self._connection is None or not self._connection.greeted or self._is_parting:
            self._leave(now)
            return
        self._abandon(MOVING)
        if moved.addresses[0] != self.address:  # else it is there already
            self._arrive(now, moved.addresses[0], is_redirected=False)

    def _redirected(self, now: int, redirect: Redirect) -> None:
        if self._settings.can_move and self._arrival is None and redirect.address != self.address:
            self._arrive(now, redirect.address, is_redirected=True)

    def _arrive(self, now: int, address: str, *, is_redirected: bool) -> None:
        self._links += 1
        self._arrival = Arrival(LinkId(self._links), address, is_redirected=is_redirected)
        self._effects += [Dial(self._arrival.link, address), StartTimer(ArrivalStep(), now + ARRIVE_WITHIN_NS)]

    def _received_there(self, now: int, arrival: Arrival, data: bytes) -> None:
        before = arrival.stage
        try:
            arrival.receive(now, data, self._requests())
        except (Failed, FrameError) as error:
            self._fail_arrival(now, str(error), is_refused=True)
            return
        if arrival.stage is Stage.LINGERING and before is not Stage.LINGERING:
            self._effects.append(StartTimer(ArrivalStep(), now + LINGER_NS))

    def _proceed(self, now: int, arrival: Arrival) -> None:
        """The time of a stage is over."""
        if arrival.stage is Stage.LINGERING:
            arrival.advance(Stage.PARTING)
            self._mark_departure(self._linked.outbox)
            self._effects += [Disconnect(MOVING), StartTimer(ArrivalStep(), now + PART_WITHIN_NS)]
        elif arrival.stage is Stage.PARTING:
            self._switch(now, arrival)
        else:
            self._fail_arrival(now, "no welcome in time")

    def _switch(self, now: int, arrival: Arrival) -> None:
        """From now on the other broker serves us."""
        assert arrival.connection is not None, "who parts has another link"
        assert arrival.welcome is not None, "who parts is welcome elsewhere"
        old, self._connection, self._greeting = self._connection, arrival.connection, arrival.greeting
        self._arrival, self.address = None, arrival.address
        self._effects.append(StopTimer(ArrivalStep()))
        if old is not None:
            self._effects += self._on_link_down(old.outbox, MOVING)
            self._say_farewell(old, "moving")
            self._effects.append(Close(old.link, MOVING))
        if arrival.is_redirected:
            if self._is_visiting:
                self._addresses.popleft()
            self._addresses.appendleft(arrival.address)
            self._is_visiting = True
        self._ticked = now
        self._on_link_up()
        self._settle_in(now, arrival.welcome)
        self._read(now, arrival.connection, arrival.take_held())

    def _abandon(self, reason: str) -> None:
        """Move nowhere."""
        arrival, self._arrival = self._arrival, None
        if arrival is not None:
            self._effects += [StopTimer(ArrivalStep()), Close(arrival.link, reason)]

    def _fail_arrival(self, now: int, reason: str, *, is_refused: bool = False) -> None:
        """The other broker does not take us: stay, unless we have parted. An application that wants to leave is told
        why it is refused; if nobody answered, the broker that there is serves until somebody does.
        """
        arrival, has_parted = self._arrival, self._is_parting
        assert arrival is not None, "only an arrival can fail"
        self._abandon(reason)
        if self._connection is None:
            self._effects.append(StartTimer(RedialBroker(), now))
        elif has_parted:
            self._give_up(now, Refusal.CLOSING, reason)
        elif is_refused and not arrival.is_redirected:
            self._leave(now)
        elif not arrival.is_redirected:
            self._addresses.rotate(-1)
            self._effects.append(StartTimer(ArrivalStep(), now + self._pause, self._pause // 2))
            self._pause = min(self._pause * 2, _LONGEST_PAUSE)

    def _leave(self, now: int) -> None:
        """Part from the broker although no other one takes us yet, and look for one."""
        self._abandon(MOVING)
        if self._connection is not None:
            self._say_farewell(self._connection, "moving")
            self._addresses.rotate(1)  # it rotates back when the link is given up
            self._give_up(now, Refusal.CLOSING, MOVING)
        self._dialling = None
        self._effects.append(StartTimer(RedialBroker(), now))
