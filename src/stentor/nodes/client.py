"""The client: a publisher and a subscriber on one link that comes back by itself, composed into one machine."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stentor.machine import (
    CertificateEnded,
    Effect,
    Input,
    LinkLost,
    LinkOpened,
    Received,
    Send,
    Started,
    StopRequested,
    TimerFired,
)
from stentor.model.attribute import Schema
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import SchemaId, TopicId
from stentor.model.messages import (
    AccessReceipt,
    AccessReport,
    AdminReceipt,
    AnyMessage,
    BundleReport,
    Challenge,
    Credit,
    ExplanationReport,
    Farewell,
    FlowRefusal,
    Heartbeat,
    Message,
    Missed,
    Pong,
    Receipt,
    Redirect,
    Rejection,
    SchemaDefinition,
    SettlementReport,
    StatusReport,
    Subscription,
    Topic,
    ViewReport,
    Welcome,
)
from stentor.nodes.bundle_requests import BundleRequests
from stentor.nodes.client_api import (
    Answer,
    AnswerQuery,
    Asked,
    BundleWatched,
    CompleteFlush,
    Deliver,
    FlowCheckRequested,
    FlushRequested,
    MoreRequested,
    Moved,
    Offered,
    OfferedMany,
    RefuseFlow,
    ResumePublishing,
    SubscribeRequested,
    TurnEnded,
    UnsubscribeRequested,
)
from stentor.nodes.client_link import MOVING as MOVING
from stentor.nodes.client_link import ClientLink
from stentor.nodes.client_settings import Settings as Settings
from stentor.nodes.client_subscriptions import ClientSubscriptions, request_of
from stentor.nodes.confirmations import DEPARTURE, Confirmations
from stentor.protocols.connection.connection import Connection
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.delivery.besteffort.publisher import BestEffortPublisher
from stentor.protocols.delivery.besteffort.subscriber import BestEffortSubscriber
from stentor.wire import head
from stentor.wire.frame import EVENTS, PARCEL, decode, measure
from stentor.wire.run import split


class Client(ClientLink):
    """A publisher and a subscriber on a link."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.publisher = BestEffortPublisher(settings.incarnation, settings.buffer)
        self.subscriber = BestEffortSubscriber(settings.window)
        self.traces = self.sums = False  # whether the broker wants to be told what is done with events, summed up
        self.is_operator = False  # whether the broker obeys our orders
        self._full = False
        self._confirmations = Confirmations()
        self._questions: list[int] = []  # waiting for an answer
        self._bundles = BundleRequests()
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
            SubscribeRequested: self._subscriptions.subscribe,
            UnsubscribeRequested: self._subscriptions.unsubscribe,
            MoreRequested: self._subscriptions.demand,
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
            Pong: self._echo,
            FlowRefusal: self._flow_refused,
            Redirect: self._redirected,
            BundleReport: lambda _, report: self._effects.append(self._bundles.tell(report)),
            **dict.fromkeys((StatusReport, ViewReport, ExplanationReport, AdminReceipt), self._told),
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

    def _flush(self) -> list[Effect]:
        subscriber = self.subscriber
        effects: list[Effect] = [
            Deliver(subscription.id, *subscriber.serve(subscription)) for subscription in subscriber.served.values()
        ]
        subscriber.served.clear()
        connection = self._connection
        if connection is not None:
            if subscriber.taken:
                connection.take_events(subscriber.taken)
            if connection.greeted and not self._is_parting:
                self.publisher.release(connection, connection.publisher)
                if self._confirmations.are_requested and self.publisher.idle:
                    events_first = connection.outbox.release()
                    self._confirmations.mark(connection.outbox)
                    if events_first:
                        effects.append(Send(connection.link, events_first))
            ready = connection.outbox.release()
            if ready:
                effects.append(Send(connection.link, ready))
        if self._arrival is not None:
            effects += self._arrival.release()
        subscriber.taken = 0
        if self._full and self.publisher.pending * 2 <= self._settings.buffer:
            self._full = False
            effects.append(ResumePublishing())
        effects += self._effects
        self._effects = []
        return effects

    # ---- what brokers say

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
                connection.buffer.hold(data, position)
                return
            if kind == PARCEL:
                raise FrameError(Refusal.PROTOCOL, "a parcel, which only brokers send each other")
            if kind == EVENTS:
                if not head.count_of(data, position):
                    raise FrameError(Refusal.CORRUPT, "an events frame without events")
                self.subscriber.open_flow(head.flow_of(data, position))
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
                raise FrameError(Refusal.PROTOCOL, f"the message {message.tag!r} has no place here")
            handler(now, message)

    # ---- what becomes of the link

    def _requests(self) -> Iterator[Subscription]:
        return map(request_of, self.subscriber.subscriptions.values())

    def _on_link_up(self) -> None:
        self._confirmations.on_link_up()
        self.subscriber.relink()
        self.subscriber.taken = 0  # on the link before

    def _on_welcome(self, welcome: Welcome) -> None:
        connection = self._linked
        self.subscriber.narrow(connection.window)
        self.publisher.largest_body = welcome.largest_body
        self.traces, self.sums, self.is_operator = welcome.traces, welcome.sums, welcome.is_operator
        self._bundles.greet(connection)

    def _on_link_down(self, outbox: Outbox | None, reason: str) -> list[Effect]:
        unknown = self._confirmations.on_link_lost(outbox, reason, self._questions)
        self._questions.clear()
        return [CompleteFlush(token, reason) for token in unknown]

    def _mark_departure(self, outbox: Outbox) -> None:
        self._confirmations.mark_departure(outbox)

    def _send_rest(self, connection: Connection) -> None:
        if connection.greeted:
            self.publisher.release(connection, connection.publisher)

    # ---- publishing

    def _offered(self, now: int, offered: Offered) -> None:  # noqa: ARG002
        self.publisher.offer(offered.topic, offered.attributes, offered.body, offered.time)

    def _offered_many(self, now: int, offered: OfferedMany) -> None:  # noqa: ARG002
        self.publisher.offer_many(offered.topic, offered.columns, offered.bodies, offered.time)

    def _flush_requested(self, now: int, asked: FlushRequested) -> None:  # noqa: ARG002
        doubt = self._confirmations.request_flush(asked.token)
        if doubt:
            self._effects.append(CompleteFlush(asked.token, doubt))

    def _flow_refused(self, now: int, refusal: FlowRefusal) -> None:  # noqa: ARG002
        self._effects.append(RefuseFlow(refusal.topic, refusal.code, refusal.reason))

    def _echo(self, now: int, pong: Pong) -> None:
        if not self._confirmations.on_echo(pong.token):
            return
        if pong.token != DEPARTURE:
            self._effects.append(CompleteFlush(pong.token))
        elif self._arrival is not None:
            self._switch(now, self._arrival)

    # ---- questions

    def _asked(self, now: int, asked: Asked) -> None:  # noqa: ARG002
        if self._connection is None or not self._connection.greeted:
            self._effects.append(CompleteFlush(asked.question.token, "not connected"))
        else:
            self._questions.append(asked.question.token)
            self._connection.outbox.post(asked.question)

    def _told(self, now: int, answer: Answer) -> None:  # noqa: ARG002
        if answer.token in self._questions:
            self._questions.remove(answer.token)
            self._effects.append(AnswerQuery(answer))
