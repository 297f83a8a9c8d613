"""What a client and its broker say to each other about the client's subscriptions."""

from collections.abc import Callable

from stentor.machine import Effect, Report
from stentor.model.attribute import check_schema
from stentor.model.errors import FrameError, InvalidInput, Refusal
from stentor.model.filter import Filter
from stentor.model.messages import Message, Missed, Receipt, SchemaDefinition, Subscription, Topic, Unsubscription
from stentor.model.topic import check_pattern
from stentor.nodes.client_api import (
    ConfirmSubscription,
    DenySubscription,
    MoreRequested,
    SubscribeRequested,
    UnsubscribeRequested,
)
from stentor.protocols.delivery.besteffort.subscriber import BestEffortSubscriber, ClientSubscription


def request_of(wish: ClientSubscription) -> Subscription:
    return Subscription(wish.id, wish.pattern, str(wish.filter or ""))


class ClientSubscriptions:
    """Tells a broker what the application subscribes to, and the application what becomes of it."""

    def __init__(
        self, subscriber: BestEffortSubscriber, post: Callable[[Message], None], act: Callable[[Effect], None]
    ) -> None:
        """`post` reaches whoever serves the client; nobody, while it has no link."""
        self._subscriber, self._post, self._act = subscriber, post, act

    # ---- what the application says

    def subscribe(self, now: int, wished: SubscribeRequested) -> None:  # noqa: ARG002
        check_pattern(wished.pattern)
        where = Filter(wished.where) if wished.where else None
        subscription = ClientSubscription(wished.subscription, wished.pattern, where, wished.eager)
        self._subscriber.add(subscription)
        self._post(request_of(subscription))

    def unsubscribe(self, now: int, unwished: UnsubscribeRequested) -> None:  # noqa: ARG002
        self._subscriber.remove(unwished.subscription)
        self._post(Unsubscription(unwished.subscription))

    def demand(self, now: int, demanded: MoreRequested) -> None:  # noqa: ARG002
        subscription = self._subscriber.subscriptions.get(demanded.subscription)
        if subscription is not None:
            subscription.wants_more = True
            if subscription.waiting:
                self._subscriber.served[subscription.id] = subscription

    # ---- what the broker says

    def on_receipt(self, now: int, receipt: Receipt) -> None:  # noqa: ARG002
        subscription = self._subscriber.subscriptions.get(receipt.id)
        if subscription is None:
            return
        if receipt.code is None:
            subscription.confirmed = True
            self._act(ConfirmSubscription(receipt.id))
        else:
            self._subscriber.remove(receipt.id)
            self._act(DenySubscription(receipt.id, receipt.code, receipt.reason))

    def on_missed(self, now: int, missed: Missed) -> None:  # noqa: ARG002
        for subscription, events in missed.events.items():
            wish = self._subscriber.subscriptions.get(subscription)
            if wish is not None:
                wish.missed += events
        self._act(Report("warning", "events missed", {"events": sum(missed.events.values())}))

    def define_topic(self, now: int, topic: Topic) -> None:  # noqa: ARG002
        self._subscriber.define_topic(topic.id, topic.name)

    def define_schema(self, now: int, definition: SchemaDefinition) -> None:  # noqa: ARG002
        try:
            schema = check_schema(definition.schema)
        except InvalidInput as error:
            raise FrameError(Refusal.SCHEMA, str(error)) from None
        self._subscriber.schemas[schema.id] = schema
