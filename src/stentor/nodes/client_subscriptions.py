"""What a client and its broker say to each other about the client's subscriptions."""

from collections.abc import Callable

from stentor.machine import Step
from stentor.model.attribute import check_schema
from stentor.model.errors import FrameError, InvalidInput, Refusal
from stentor.model.filter import Filter
from stentor.model.ids import SubscriptionId
from stentor.model.messages import (
    Message,
    Missed,
    Receipt,
    SchemaDefinition,
    SubscriptionInventory,
    Topic,
    Unsubscription,
)
from stentor.model.topic import check_pattern
from stentor.nodes.client_api import (
    ConfirmSubscription,
    DenySubscription,
    MoreRequested,
    SubscribeRequested,
    UnsubscribeRequested,
)
from stentor.protocols.delivery.besteffort.subscriber import BestEffortSubscriber, ClientSubscription


class ClientSubscriptions:
    """Tells a broker what the application subscribes to, and the application what becomes of it."""

    def __init__(self, step: Step, subscriber: BestEffortSubscriber, post: Callable[[Message], None]) -> None:
        """`post` reaches whoever serves the client; nobody, while it has no link."""
        self._step = step
        self._subscriber = subscriber
        self._post = post
        self._in_force: dict[SubscriptionId, int] = {}  # digests that a broker has begun to tell

    def relink(self, *, has_served: bool) -> None:
        """A new link: the application has not been told of anything on it, even if its broker has served us already."""
        self._subscriber.relink(has_served=has_served)
        self._in_force = {}

    # ---- what the application says

    def subscribe(self, requested: SubscribeRequested) -> None:
        check_pattern(requested.pattern)
        where = Filter(requested.where) if requested.where else None
        subscription = ClientSubscription(requested.subscription, requested.pattern, where, requested.eager)
        self._subscriber.add(subscription)
        self._post(subscription.request)

    def unsubscribe(self, requested: UnsubscribeRequested) -> None:
        self._subscriber.remove(requested.subscription)
        self._post(Unsubscription(requested.subscription))

    def demand(self, requested: MoreRequested) -> None:
        subscription = self._subscriber.subscriptions.get(requested.subscription)
        if subscription is not None:
            subscription.wants_more = True
            if subscription.waiting:
                self._subscriber.served[subscription.id] = subscription

    # ---- what the broker says

    def on_receipt(self, receipt: Receipt) -> None:
        subscription = self._subscriber.subscriptions.get(receipt.id)
        if subscription is None:
            return
        if receipt.code is None:
            subscription.confirmed = True
            self._step.emit(ConfirmSubscription(receipt.id))
        else:
            self._subscriber.remove(receipt.id)
            self._step.emit(DenySubscription(receipt.id, receipt.code, receipt.reason))

    def on_inventory(self, inventory: SubscriptionInventory) -> None:
        """Tell the broker how the subscriptions in force differ from ours. Changes that it had not read yet are told
        twice, which does no harm.
        """
        self._in_force.update(inventory.digests)
        if inventory.more:
            return
        in_force, self._in_force = self._in_force, {}
        for number in sorted(in_force.keys() - self._subscriber.subscriptions.keys()):
            self._post(Unsubscription(number))
        for subscription in self._subscriber.subscriptions.values():
            if in_force.get(subscription.id) != subscription.request.digest:
                self._post(subscription.request)

    def on_missed(self, missed: Missed) -> None:
        for number, events in missed.events.items():
            subscription = self._subscriber.subscriptions.get(number)
            if subscription is not None:
                subscription.missed += events
        self._step.report("warning", "events missed", events=sum(missed.events.values()))

    def define_topic(self, topic: Topic) -> None:
        self._subscriber.define_topic(topic.id, topic.name)

    def define_schema(self, definition: SchemaDefinition) -> None:
        try:
            schema = check_schema(definition.schema)
        except InvalidInput as error:
            raise FrameError(Refusal.SCHEMA, str(error)) from None
        self._subscriber.schemas[schema.id] = schema
