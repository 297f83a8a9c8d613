"""The client: a publisher and a subscriber on one link that comes back by itself, composed into one machine."""

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from stentor.model.attribute import Schema, Value
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import SchemaId, TopicId
from stentor.model.messages import (
    AdminReceipt,
    AnyMessage,
    Challenge,
    Credit,
    ExplanationReport,
    Farewell,
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
    SubscriptionInventory,
    Topic,
    ViewReport,
    Welcome,
)
from stentor.model.trust.access_messages import AccessReceipt, AccessReport, BundleReport, FlowRefusal
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
    RefuseFlow,
    ResumePublishing,
    SubscribeRequested,
    TurnEnded,
    UnsubscribeRequested,
)
from stentor.nodes.client_link import MOVING as MOVING
from stentor.nodes.client_link import ClientLink
from stentor.nodes.client_settings import Settings as Settings
from stentor.nodes.client_subscriptions import ClientSubscriptions
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
        self.traces = False  # the broker wants to be told what is done with events
        self.sums = False  # traces are told summed up
        self.is_operator = False  # the broker obeys our orders
        self._full = False  # a publisher waits for room
        self._events_read = 0  # bytes of events that came on this link, whether or not the application has them
        self._confirmations = Confirmations()
        self._questions: list[int] = []  # waiting for an answer
        self._bundles = BundleRequests()
        self._subscriptions = ClientSubscriptions(self._step, self.subscriber, self._post)
        self._inputs: dict[type[Input], Callable[[Any], None]] = {
            Started: lambda _: self._dial(),
            LinkOpened: self._on_link_opened,
            LinkLost: lambda lost: self._on_link_lost(lost.link, lost.reason),
            CertificateEnded: self._on_certificate_ended,
            Received: self._on_received,
            TimerFired: self._on_timer,
            TurnEnded: lambda _: None,
            SubscribeRequested: self._subscriptions.subscribe,
            UnsubscribeRequested: self._subscriptions.unsubscribe,
            MoreRequested: self._subscriptions.demand,
            FlushRequested: self._on_flush_requested,
            FlowCheckRequested: lambda requested: self._confirmations.request_check(requested.token),
            Asked: self._on_asked,
            BundleWatched: lambda watched: self._bundles.add(watched, self._connection),
            Moved: self._on_moved,
            StopRequested: self._on_stop_requested,
        }
        self._messages: dict[type[Message], Callable[[Any], None]] = {
            Challenge: self._on_challenge,
            Welcome: self._welcomed,
            Topic: self._subscriptions.define_topic,
            SchemaDefinition: self._subscriptions.define_schema,
            Receipt: self._subscriptions.on_receipt,
            SubscriptionInventory: self._subscriptions.on_inventory,
            Credit: lambda credit: self._linked.outbox.grant(credit.limit),
            Missed: self._subscriptions.on_missed,
            Pong: self._on_pong,
            FlowRefusal: self._on_flow_refusal,
            Redirect: self._on_redirect,
            BundleReport: lambda report: self._step.emit(self._bundles.tell(report)),
            **dict.fromkeys((StatusReport, ViewReport, ExplanationReport, AdminReceipt), self._on_answer),
            **dict.fromkeys((AccessReport, AccessReceipt), self._on_answer),
            SettlementReport: self._on_settlement,
        }

    def step(self, now: int, happened: Input) -> list[Effect]:
        """Raises InvalidInput, with nothing changed, for an application's input that is wrong."""
        self._step.now = now
        self._inputs[type(happened)](happened)
        return self._flush()

    def publish(self, topic: str, attributes: Mapping[str, Value], body: bytes, time: int) -> None:
        """Take an event in, which leaves when the turn ends; `time` is nanoseconds since 1970.

        Raises InvalidInput, with nothing changed, if the event cannot be published.
        """
        self.publisher.offer(topic, attributes, body, time)

    def publish_many(
        self, topic: str, columns: Mapping[str, Sequence[Value | None]], bodies: Sequence[bytes], time: int
    ) -> None:
        """Take many events on one topic in, or none; each attribute is a column as long as `bodies`."""
        self.publisher.offer_many(topic, columns, bodies, time)

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
        """Return what was decided in this step behind what it lets out: a link is closed after what is sent on it."""
        step, subscriber = self._step, self.subscriber
        decided = step.end()
        for subscription in subscriber.served.values():
            step.emit(Deliver(subscription.id, *subscriber.serve(subscription)))
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
                        step.emit(Send(connection.link, events_first))
            ready = connection.outbox.release()
            if ready:
                step.emit(Send(connection.link, ready))
        if self._arrival is not None:
            self._arrival.release()
        subscriber.taken = 0
        if self._full and self.publisher.pending * 2 <= self._settings.buffer:
            self._full = False
            step.emit(ResumePublishing())
        effects = step.end()
        effects += decided
        return effects

    # ---- what brokers say

    def _take(self, connection: Connection, data: bytes) -> None:
        position, size = 0, len(data)
        while position < size and self._connection is connection:
            runs, after = split(data, position, self.subscriber.routes)
            if runs:
                self.subscriber.receive(data, runs)
                self._events_read += after - position
            position = after
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
                self._hear(connection, decode(data[position : position + length]), size - position)
                position += length

    def _hear(self, connection: Connection, message: AnyMessage, rest: int) -> None:
        if type(message) is Heartbeat:
            connection.check_heartbeat(message, rest, self._events_read)
        elif type(message) is Rejection:
            self._give_up(message.code, message.reason)
        elif type(message) is Farewell:
            self._give_up(Refusal.CLOSING, message.reason)
        else:
            handler = self._messages.get(type(message))
            if handler is None or connection.greeted == isinstance(message, Welcome | Challenge):
                raise FrameError(Refusal.PROTOCOL, f"the message {message.tag!r} has no place here")
            handler(message)

    # ---- what becomes of the link

    def _requests(self) -> Iterator[Subscription]:
        return (subscription.request for subscription in self.subscriber.subscriptions.values())

    @property
    def _subscribed(self) -> int:
        return self.subscriber.digest

    def _on_link_up(self, *, has_served: bool) -> None:
        self._confirmations.on_link_up()
        self._subscriptions.relink(has_served=has_served)
        self.subscriber.taken = 0  # on the link before
        self._events_read = 0

    def _on_welcome(self, welcome: Welcome) -> None:
        connection = self._linked
        self.subscriber.narrow(connection.window)
        self.publisher.largest_body = welcome.largest_body
        self.traces, self.sums = welcome.traces, welcome.sums
        self.is_operator = welcome.is_operator
        self._bundles.greet(connection)

    def _on_link_down(self, outbox: Outbox | None, reason: str) -> list[int]:
        unanswered = self._confirmations.on_link_lost(outbox, reason, self._questions)
        self._questions.clear()
        return unanswered

    def _mark_departure(self, outbox: Outbox) -> None:
        self._confirmations.mark_departure(outbox)

    def _send_rest(self, connection: Connection) -> None:
        if connection.greeted:
            self.publisher.release(connection, connection.publisher)

    # ---- publishing

    def _on_flush_requested(self, requested: FlushRequested) -> None:
        doubt = self._confirmations.request_flush(requested.token)
        if doubt:
            self._step.emit(CompleteFlush(requested.token, doubt))

    def _on_flow_refusal(self, refusal: FlowRefusal) -> None:
        self._step.emit(RefuseFlow(refusal.topic, refusal.code, refusal.reason))

    def _on_pong(self, pong: Pong) -> None:
        if not self._confirmations.on_echo(pong.token):
            return
        if pong.token != DEPARTURE:
            self._step.emit(CompleteFlush(pong.token))
        elif self._arrival is not None:
            self._switch(self._arrival)

    # ---- questions

    def _on_asked(self, asked: Asked) -> None:
        if self._connection is None or not self._connection.greeted:
            self._step.emit(CompleteFlush(asked.question.token, "not connected"))
        else:
            self._questions.append(asked.question.token)
            self._connection.outbox.post(asked.question)

    def _on_settlement(self, report: SettlementReport) -> None:
        if report.token == DEPARTURE:
            self._on_drained()
        else:
            self._on_answer(report)

    def _on_answer(self, answer: Answer) -> None:
        if answer.token in self._questions:
            self._questions.remove(answer.token)
            self._step.emit(AnswerQuery(answer))
