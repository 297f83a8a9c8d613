"""A client inside the broker's own process: it publishes and subscribes like any other, without a link.

What it publishes takes the way of every client's events. What it subscribed to waits in an inbox until its owner takes
it, as bytes wait in a socket: the inbox grants credit as it is emptied, so a slow owner loses the same events as a slow
client, and is told the same.
"""

from collections.abc import Sequence

from stentor.machine import Buffer
from stentor.model.attribute import Schema, Value
from stentor.model.ids import (
    Incarnation,
    LinkId,
    PublisherId,
    SchemaId,
    SubscriptionId,
    TopicId,
    publisher_id,
    topic_id,
)
from stentor.model.limits import Limits
from stentor.model.messages import Message, Receipt, SchemaDefinition, Subscription, Topic, Unsubscription
from stentor.protocols.connection.outbox import Outbox, Unflushed
from stentor.protocols.delivery.besteffort.publisher import BestEffortPublisher
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.relay import Relay
from stentor.protocols.dissemination.routes import FlowTable
from stentor.protocols.dissemination.subscriptions import SubscriptionList, Subscriptions
from stentor.wire.head import FLOW
from stentor.wire.run import split


class LocalInbox(Outbox):
    """Where a broker puts what a client in its own process shall get."""

    __slots__ = ("_arrived", "_window")

    def __init__(self, number: LinkId, limits: Limits, unflushed: Unflushed) -> None:
        super().__init__(number, limits.queue, unflushed)
        self._arrived: list[Buffer] = []
        self._window = limits.window
        self.grant(self._window)

    def release(self) -> list[Buffer]:
        """Keep what has come until it is taken; nothing of it leaves over a link."""
        self._arrived += super().release()
        return []

    def take(self) -> list[Buffer]:
        """Return what has come since the last time, in order: events, and messages that say what they are about."""
        self.grant(self.sent + self._window)
        self.release()
        arrived, self._arrived = self._arrived, []
        return arrived


class LocalClient:
    """A client of this broker that needs no link. `number` is one that no link and no other local client has."""

    credit = 1 << 40  # nobody is slower than the broker itself

    def __init__(
        self,
        name: str,
        number: LinkId,
        limits: Limits,
        forwarder: Forwarder[Outbox],
        relay: Relay[Outbox],
        subscriptions: Subscriptions[Outbox],
    ) -> None:
        self.publisher: PublisherId = publisher_id("", name)  # nobody else has no principal
        self._forwarder = forwarder
        self._relay = relay
        self._subscriptions = subscriptions
        self.flows: FlowTable[Outbox] = FlowTable(number)
        self._publisher = BestEffortPublisher(Incarnation(0), 0)
        self._inbox = LocalInbox(number, limits, forwarder.unflushed)
        self.subscriptions: SubscriptionList[Outbox] = SubscriptionList()

    def begin(self, incarnation: Incarnation) -> None:
        """Publish from now on as another life of this client than all before."""
        self._publisher = BestEffortPublisher(incarnation, 0)

    # ---- publishing

    def announce(self, topic: str) -> None:
        """Let the broker know a topic before there are events."""
        number = topic_id(topic)
        self.define(number, Topic(number, topic))

    def is_wanted(self, topic: str) -> bool:
        """Return whether anybody wants events of a topic, here or elsewhere; it was announced before."""
        table = self._forwarder.table
        return table.route(table.topics[topic_id(topic)]).is_wanted

    def publish(
        self, topic: str, schema: Schema, columns: Sequence[Sequence[Value]], bodies: Sequence[bytes], time: int
    ) -> None:
        """Publish a batch of events that are known to be sound."""
        self._publisher.offer_sound(topic, schema, columns, bodies, time)
        self._publisher.release(self, self.publisher)

    def define(self, number: TopicId | SchemaId, definition: Message) -> bool:
        """Let the broker know what a number means, once; True if it did not know."""
        if number in self.flows.topics or number in self.flows.schemas:
            return False
        if isinstance(definition, SchemaDefinition):
            self._forwarder.define_schema(self.flows, definition)
        elif isinstance(definition, Topic):
            self._forwarder.define_topic(self.flows, definition)
        return True

    def carry(self, frame: bytes, _events: int) -> None:
        """Let a frame go where a client's would go."""
        if frame[FLOW] not in self.flows.routes:
            self._forwarder.open_flow(self.flows, frame[FLOW], self.publisher)
        runs, _ = split(frame, 0, self.flows.routes)
        self._forwarder.forward(frame, runs)
        self._relay.publish(frame, runs)

    # ---- subscribing

    def subscribe(self, subscription: SubscriptionId, pattern: str, where: str = "") -> Receipt:
        """Ask for events; the receipt says why, if that cannot be."""
        request = Subscription(subscription, pattern, where)
        return self._subscriptions.subscribe(self.subscriptions, self._inbox, request)

    def unsubscribe(self, subscription: SubscriptionId) -> None:
        self._subscriptions.unsubscribe(self.subscriptions, Unsubscription(subscription))

    def take(self) -> list[Buffer]:
        """Return what has come, in order: frames of events, definitions before the first that needs them, and how many
        events were missed because they were not taken in time.
        """
        return self._inbox.take()
