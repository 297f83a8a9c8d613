"""The client: a publisher and a subscriber on one link that comes back by itself, composed into one machine."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from stentor.machine import (
    MILLISECOND,
    SECOND,
    CertificateEnded,
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
    StopRequested,
    StopTimer,
    TimerFired,
)
from stentor.model.attribute import Schema
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import LinkId, SchemaId, TopicId, publisher_id
from stentor.model.messages import (
    AccessReceipt,
    AccessReport,
    AnyMessage,
    BundleReport,
    Challenge,
    Credit,
    Echo,
    ExplanationReport,
    Farewell,
    FlowRefusal,
    Heartbeat,
    Message,
    Missed,
    OrderReceipt,
    Receipt,
    Rejection,
    SchemaDefinition,
    SettlementReport,
    StatusReport,
    Topic,
    ViewReport,
    Welcome,
)
from stentor.nodes.application import (
    Answer,
    Asked,
    BundleWatched,
    Connect,
    Deliver,
    Demanded,
    Disconnect,
    FlowCheckRequested,
    FlushRequested,
    Halt,
    MakeRoom,
    Moved,
    Offered,
    OfferedMany,
    RefuseFlow,
    Settle,
    Tell,
    TurnEnded,
    Unwished,
    Wished,
)
from stentor.nodes.bundle_requests import BundleRequests
from stentor.nodes.client_settings import Settings as Settings
from stentor.nodes.client_subscriptions import ClientSubscriptions, request_of
from stentor.nodes.confirmations import Confirmations
from stentor.nodes.greeting import Greeting
from stentor.protocols.connection.connection import Connection
from stentor.protocols.delivery.publisher import Publisher
from stentor.protocols.delivery.subscriber import Subscriber
from stentor.wire.frame import EVENTS, FRAME_OVERHEAD, LARGEST_GREETING, PARCEL, decode, measure
from stentor.wire.run import FLOW, split

FATAL = frozenset({Refusal.FENCED, Refusal.UNAUTHENTICATED, Refusal.NOT_AUTHORISED})  # others may be a damaged stream
MOVING = "moving to another broker"  # why a link ends that its client leaves for another one
_TICK, _REDIAL, _GREETING = "tick", "redial", "greeting"
TIMERS = frozenset((_TICK, _REDIAL, _GREETING))
_FIRST_PAUSE, _LONGEST_PAUSE = 50 * MILLISECOND, 5 * SECOND
_GREETING_WITHIN = 5 * SECOND
_LONGEST_HEARTBEAT = 3600.0


class Client:
    """One client with one link at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.publisher = Publisher(settings.incarnation, settings.buffer)
        self.subscriber = Subscriber(settings.window)
        self._addresses = deque(settings.addresses)  # the first is tried next
        self._connection: Connection | None = None
        self._dialling: LinkId | None = None
        self._greeting: Greeting | None = None  # how this link began
        self.traces = False  # whether the broker wants to be told what is done with events
        self.is_operator = False  # whether the broker obeys our orders
        self._links = 0
        self._pause = _FIRST_PAUSE
        self._ticked = 0
        self._stopped = False
        self._full = False
        self._confirmations = Confirmations()
        self._questions: list[int] = []  # waiting for an answer
        self._bundles = BundleRequests()
        self._effects: list[Effect] = []
        self._subscriptions = ClientSubscriptions(self.subscriber, self._post, self._act)
        self._inputs: dict[type[Input], Callable[[int, Any], None]] = {
            Started: lambda now, _: self._dial(now),
            LinkOpened: self._opened,
            LinkLost: lambda now, lost: self._lost(now, lost.link, lost.reason),
            CertificateEnded: self._certificate_ended,
            Received: self._received,
            TimerFired: self._timer_fired,
            Offered: self._offered,
            OfferedMany: self._offered_many,
            TurnEnded: lambda *_: None,
            Wished: self._subscriptions.subscribe,
            Unwished: self._subscriptions.unsubscribe,
            Demanded: self._subscriptions.demand,
            FlushRequested: self._flush_requested,
            FlowCheckRequested: lambda _, asked: self._confirmations.request_check(asked.token),
            Asked: self._asked,
            BundleWatched: lambda _, watched: self._bundles.add(watched, self._connection),
            Moved: self._moved,
            StopRequested: self._stop_requested,
        }
        self._messages: dict[type[Message], Callable[[int, Any], None]] = {
            Challenge: self._challenged,
            Welcome: self._welcomed,
            Topic: self._subscriptions.define_topic,
            SchemaDefinition: self._subscriptions.define_schema,
            Receipt: self._subscriptions.on_receipt,
            Credit: lambda _, credit: self._linked.outbox.grant(credit.limit),
            Missed: self._subscriptions.on_missed,
            Echo: self._echo,
            FlowRefusal: self._flow_refused,
            BundleReport: lambda _, report: self._effects.append(self._bundles.tell(report)),
            **dict.fromkeys((StatusReport, ViewReport, ExplanationReport, OrderReceipt), self._told),
            **dict.fromkeys((SettlementReport, AccessReport, AccessReceipt), self._told),
        }

    def step(self, now: int, happened: Input) -> list[Effect]:
        """Raises InvalidInput, with nothing changed, for an application's input that is wrong."""
        self._inputs[type(happened)](now, happened)
        if type(happened) is Offered or type(happened) is OfferedMany:
            return []  # it leaves when the turn ends
        return self._flush()

    @property
    def room(self) -> bool:
        """Whether a publisher need not wait."""
        if self.publisher.full:
            self._full = True
        return not self._full

    @property
    def schemas(self) -> Mapping[SchemaId, Schema]:
        return self.subscriber.schemas

    @property
    def topics(self) -> Mapping[TopicId, str]:
        return self.subscriber.topics

    def _act(self, effect: Effect) -> None:
        self._effects.append(effect)

    def _post(self, message: Message) -> None:
        """Tell the broker, if there is one; whoever comes next is told all that still holds."""
        if self._connection is not None and self._connection.greeted:
            self._connection.outbox.post(message)

    @property
    def _linked(self) -> Connection:
        assert self._connection is not None
        return self._connection

    def _flush(self) -> list[Effect]:
        subscriber = self.subscriber
        effects: list[Effect] = [Deliver(wish.id, *subscriber.serve(wish)) for wish in subscriber.served.values()]
        subscriber.served.clear()
        connection = self._connection
        if connection is not None:
            if subscriber.taken:
                connection.take_events(subscriber.taken)
            if connection.greeted:
                self.publisher.release(connection, connection.publisher)
                if self._confirmations.are_requested and self.publisher.idle:
                    events_first = connection.outbox.release()
                    self._confirmations.mark(connection.outbox)
                    if events_first:
                        effects.append(Send(connection.link, events_first))
            ready = connection.outbox.release()
            if ready:
                effects.append(Send(connection.link, ready))
        subscriber.taken = 0
        if self._full and self.publisher.pending * 2 <= self._settings.buffer:
            self._full = False
            effects.append(MakeRoom())
        effects += self._effects
        self._effects = []
        return effects

    # ---- the link

    def _dial(self, now: int) -> None:  # noqa: ARG002
        self._links += 1
        self._dialling = LinkId(self._links)
        self._effects.append(Dial(self._dialling, self._addresses[0]))

    def _opened(self, now: int, happened: LinkOpened) -> None:
        if happened.link != self._dialling or self._stopped:
            self._effects.append(Close(happened.link, "no longer wanted"))
            return
        settings = self._settings
        self._dialling = None
        self._ticked = now
        self._confirmations.on_link_up()
        connection = self._connection = Connection(
            happened.link, now, settings.window, settings.buffer, settings.heartbeat
        )
        connection.largest_frame = LARGEST_GREETING
        self.subscriber.relink()
        self._greeting = Greeting(happened, settings.hello(self._links))
        connection.outbox.post(self._greeting.first_word())
        self._effects.append(StartTimer(_GREETING, now + _GREETING_WITHIN))

    def _lost(self, now: int, link: LinkId, reason: str) -> None:
        if self._stopped or (link != self._dialling and (self._connection is None or link != self._connection.link)):
            return
        connection = self._connection
        if connection is not None and not connection.received:
            hint = "does it trust our certificate?" if self._settings.secure else "does it want TLS?"
            reason = f"{reason} before it said a word: {hint}"
        outbox = connection.outbox if connection is not None else None
        unknown = self._confirmations.on_link_lost(outbox, reason, self._questions)
        self._questions.clear()
        self._connection = self._dialling = None
        self._addresses.rotate(-1)
        self._effects += [
            StopTimer(_TICK),
            StopTimer(_GREETING),
            Disconnect(reason),
            *(Settle(token, reason) for token in unknown),
            StartTimer(_REDIAL, now + self._pause, self._pause // 2),
        ]
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)

    def _certificate_ended(self, now: int, happened: CertificateEnded) -> None:
        """The broker's certificate is good no longer; a new one may be, there or at another broker."""
        if self._connection is not None and self._connection.link == happened.link:
            self._give_up(now, Refusal.CLOSING, happened.reason)

    def _give_up(self, now: int, code: Refusal, reason: str) -> None:
        """The link is of no use any more."""
        link = self._linked.link
        self._effects.append(Close(link, reason))
        self._lost(now, link, reason)
        if code in FATAL:
            self._stopped = True
            self._effects += [StopTimer(_REDIAL), Halt(code, reason)]

    def _moved(self, now: int, moved: Moved) -> None:
        """Leave the broker in good order, and go to another one."""
        self._addresses = deque(moved.addresses)
        connection = self._connection
        if self._stopped:
            return
        if connection is not None:
            ready = connection.outbox.release()
            connection.outbox.post(Farewell("moving"))
            self._effects.append(Send(connection.link, [*ready, *connection.outbox.release()]))
            self._addresses.rotate(1)  # it rotates back when the link is given up
            self._give_up(now, Refusal.CLOSING, MOVING)
        self._pause = _FIRST_PAUSE
        self._effects.append(StartTimer(_REDIAL, now))

    def _received(self, now: int, happened: Received) -> None:
        connection = self._connection
        if connection is None or happened.link != connection.link:
            return
        try:
            chunk = connection.feed(now, happened.data)
            if chunk is not None:
                self._take(now, connection, chunk)
        except FrameError as error:
            connection.outbox.post(Rejection(error.code, str(error)))
            self._effects.insert(0, Send(connection.link, connection.outbox.release()))
            self._give_up(now, error.code, str(error))

    def _take(self, now: int, connection: Connection, data: bytes) -> None:
        position, size = 0, len(data)
        while position < size and self._connection is connection:
            runs, position = split(data, position, self.subscriber.routes)
            if runs:
                self.subscriber.receive(data, runs)
            if position == size:
                return
            kind, length = measure(data, position, connection.largest_frame)
            if not length or position + length > size:
                connection.intake.hold(data, position)
                return
            if kind == PARCEL:
                raise FrameError(Refusal.PROTOCOL, "a parcel, which only brokers send each other")
            if kind == EVENTS:
                if not any(data[position + 32 : position + 34]):
                    raise FrameError(Refusal.CORRUPT, "an events frame without events")
                self.subscriber.meet(data[position + FLOW.start : position + FLOW.stop])
            else:
                self._hear(now, connection, decode(data[position : position + length]), size - position)
                position += length

    def _hear(self, now: int, connection: Connection, message: AnyMessage, rest: int) -> None:
        if type(message) is Heartbeat:
            connection.check_position(message.position, rest)
        elif type(message) is Rejection:
            self._give_up(now, message.code, message.reason)
        elif type(message) is Farewell:
            self._give_up(now, Refusal.CLOSING, message.reason)
        else:
            handler = self._messages.get(type(message))
            if handler is None or connection.greeted == isinstance(message, Welcome | Challenge):
                raise FrameError(Refusal.PROTOCOL, f"a {type(message).__name__} has no place here")
            handler(now, message)

    def _challenged(self, now: int, challenge: Challenge) -> None:  # noqa: ARG002
        assert self._greeting is not None, "a link is greeted when it opens"
        self._linked.outbox.post(self._greeting.answer(challenge))

    def _welcomed(self, now: int, welcome: Welcome) -> None:
        connection = self._linked
        assert self._greeting is not None, "a link is greeted when it opens"
        self._greeting.check(welcome)
        if not 0 < welcome.heartbeat <= _LONGEST_HEARTBEAT or welcome.largest_body <= 0 or welcome.ahead < 0:
            raise FrameError(Refusal.PROTOCOL, "a welcome with limits that cannot be")
        connection.narrow(welcome.ahead or connection.window)
        self.subscriber.narrow(connection.window)
        connection.greet(welcome.largest_body, welcome.heartbeat)
        connection.largest_frame = welcome.largest_body + FRAME_OVERHEAD
        connection.name, connection.principal = self._settings.name, welcome.principal
        connection.publisher = publisher_id(welcome.principal, self._settings.name)
        connection.outbox.grant(welcome.window)
        self.publisher.largest_body = welcome.largest_body
        self._pause = _FIRST_PAUSE
        self.traces, self.is_operator = welcome.traces, welcome.is_operator
        self._bundles.greet(connection)
        for wish in self.subscriber.wishes.values():
            connection.outbox.post(request_of(wish))
        self._effects += [
            StopTimer(_GREETING),
            StartTimer(_TICK, now + connection.heartbeat // 2),
            Connect(welcome.node, welcome.principal),
        ]

    def _timer_fired(self, now: int, happened: TimerFired) -> None:
        if happened.timer == _REDIAL:
            self._dial(now)
            return
        connection = self._connection
        if connection is None:
            return
        if happened.timer == _GREETING:
            self._give_up(now, Refusal.SILENT, "no welcome within 5 s: is that a Stentor broker?")
            return
        if now - self._ticked > 3 * connection.heartbeat:  # it was us who slept
            connection.heard = now
        self._ticked = now
        if connection.silent(now):
            self._give_up(now, Refusal.SILENT, "the broker was silent for three heartbeats")
            return
        connection.beat(now)
        self._effects.append(StartTimer(_TICK, now + connection.heartbeat // 2))

    def _stop_requested(self, now: int, happened: StopRequested) -> None:  # noqa: ARG002
        self._stopped = True
        self._effects += [StopTimer(_TICK), StopTimer(_REDIAL), StopTimer(_GREETING)]
        connection, self._connection, self._dialling = self._connection, None, None
        if connection is not None:
            if connection.greeted:
                self.publisher.release(connection, connection.publisher)
            ready = connection.outbox.release()
            connection.outbox.post(Farewell())
            self._effects += [
                Send(connection.link, [*ready, *connection.outbox.release()]),
                Close(connection.link, "the client left"),
            ]

    # ---- publishing

    def _offered(self, now: int, offered: Offered) -> None:  # noqa: ARG002
        self.publisher.offer(offered.topic, offered.attributes, offered.body, offered.time)

    def _offered_many(self, now: int, offered: OfferedMany) -> None:  # noqa: ARG002
        self.publisher.offer_many(offered.topic, offered.columns, offered.bodies, offered.time)

    def _flush_requested(self, now: int, asked: FlushRequested) -> None:  # noqa: ARG002
        doubt = self._confirmations.request_flush(asked.token)
        if doubt:
            self._effects.append(Settle(asked.token, doubt))

    def _flow_refused(self, now: int, refusal: FlowRefusal) -> None:  # noqa: ARG002
        self._effects.append(RefuseFlow(refusal.topic, refusal.code, refusal.reason))

    def _echo(self, now: int, echo: Echo) -> None:  # noqa: ARG002
        if self._confirmations.on_echo(echo.token):
            self._effects.append(Settle(echo.token))

    # ---- questions

    def _asked(self, now: int, asked: Asked) -> None:  # noqa: ARG002
        if self._connection is None or not self._connection.greeted:
            self._effects.append(Settle(asked.question.token, "not connected"))
        else:
            self._questions.append(asked.question.token)
            self._connection.outbox.post(asked.question)

    def _told(self, now: int, answer: Answer) -> None:  # noqa: ARG002
        if answer.token in self._questions:
            self._questions.remove(answer.token)
            self._effects.append(Tell(answer))
