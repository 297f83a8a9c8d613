"""Subscriptions: what clients ask a broker for, checked, counted and turned into interests."""

from collections import Counter, deque
from collections.abc import Callable, Collection
from functools import reduce
from operator import xor
from typing import Generic, TypeVar

from stentor.machine import SECOND
from stentor.model.errors import FilterError, Refusal, TopicError
from stentor.model.filter import Filter
from stentor.model.ids import SubscriptionId
from stentor.model.limits import Limits
from stentor.model.messages import Receipt, Subscription, Unsubscription
from stentor.model.topic import check_pattern
from stentor.policies.access import Denied
from stentor.protocols.dissemination.broker_subscription import BrokerSubscription, ReadAccess
from stentor.protocols.dissemination.routes import RouteTable, Sink

D = TypeVar("D", bound=Sink)
_LAST_NUMBER = 1 << 62  # nobody makes so many subscriptions: a number beyond it is damage
_AT_ONCE = 32  # interests that leave with their client
_SHARE = 0.5  # of the time for evaluating filters, that one client can have

Admit = Callable[[str, Filter | None], ReadAccess | Denied | None]  # what a pattern means to whoever asks; None is all


class SubscriptionList(dict[SubscriptionId, BrokerSubscription[D]]):
    """What one client asked for, by the numbers that it gave, and a digest of it.

    The digest follows what the client says, so that a heartbeat costs a comparison. It follows damage when the list is
    recounted.
    """

    __slots__ = ("digest",)

    def __init__(self) -> None:
        super().__init__()
        self.digest = 0

    def put(self, subscription: BrokerSubscription[D]) -> None:
        self[subscription.id] = subscription
        self.digest ^= subscription.digest

    def take(self, number: SubscriptionId) -> BrokerSubscription[D] | None:
        """Remove and return a subscription; None if there is none of this number."""
        subscription = self.pop(number, None)
        if subscription is not None:
            self.digest ^= subscription.digest
        return subscription

    @property
    def digests(self) -> dict[SubscriptionId, int]:
        return {number: subscription.digest for number, subscription in self.items()}

    def recount(self) -> None:
        self.digest = reduce(xor, self.digests.values(), 0)


class Subscriptions(Generic[D]):
    """The subscriptions of all clients of a broker."""

    def __init__(self, table: RouteTable[D], limits: Limits) -> None:
        self._table = table
        self._limits = limits
        self._numbers = 0
        self.leaving: deque[BrokerSubscription[D]] = deque()  # those whose client is gone
        self.refused: Counter[str] = Counter()

    def subscribe(
        self, subscriptions: SubscriptionList[D], destination: D, message: Subscription, admit: Admit | None = None
    ) -> Receipt:
        try:
            check_pattern(message.pattern)
            where = Filter(message.where) if message.where else None
        except FilterError as error:
            return self._refuse(message, Refusal.FILTER, str(error))
        except TopicError as error:
            return self._refuse(message, Refusal.TOPIC, str(error))
        limits = self._limits
        known = subscriptions.get(message.id)
        if known is not None:
            if (known.pattern, known.filter) == (message.pattern, where):
                return Receipt(message.id)  # said twice, meant once
            self.unsubscribe(subscriptions, Unsubscription(message.id))  # a client's last word counts
        of_all = len(self._table.subscriptions)
        if len(subscriptions) >= limits.subscriptions_per_client or of_all >= limits.subscriptions:
            return self._refuse(
                message, Refusal.TOO_MANY, "too many subscriptions: unsubscribe some, or use a wider pattern"
            )
        access = admit(message.pattern, where) if admit is not None else None
        if isinstance(access, Denied):
            return self._refuse(message, access.code, access.reason)
        subscription = BrokerSubscription(
            self._next_number(), message.id, destination, message.pattern, where, access=access, digest=message.digest
        )
        subscriptions.put(subscription)
        self._table.add(subscription)
        return self._check_evaluation(subscription, subscriptions, message) or Receipt(message.id)

    def _next_number(self) -> int:
        """Return a number that no subscription has."""
        taken = self._table.subscriptions
        self._numbers = self._numbers + 1 if 0 <= self._numbers < _LAST_NUMBER else 1
        while self._numbers in taken:  # they have come round, or are damaged
            self._numbers += 1
        return self._numbers

    def _check_evaluation(
        self, subscription: BrokerSubscription[D], subscriptions: SubscriptionList[D], message: Subscription
    ) -> Receipt | None:
        """Take a subscription back if its filter is one too many of those that are evaluated for every event."""
        table, most = self._table, int(self._limits.evaluation * SECOND)
        mine = table.filed.evaluated_for[subscription.destination]
        if not subscription.evaluated or (table.filed.evaluated <= most and mine <= most * _SHARE):
            return None
        subscriptions.take(message.id)
        table.remove(subscription)
        return self._refuse(
            message,
            Refusal.TOO_MANY,
            "too many filters have to be evaluated for the same events: tell them apart with =, IN, <, > or LIKE "
            "'beginning%', or raise evaluation in [limits]",
        )

    def unsubscribe(self, subscriptions: SubscriptionList[D], message: Unsubscription) -> Receipt:
        subscription = subscriptions.take(message.id)
        if subscription is not None:
            self._remove(subscription)
        return Receipt(message.id)

    def _remove(self, subscription: BrokerSubscription[D]) -> None:
        """End a subscription. If its client's list was damaged, it may have ended, or never been, in the table."""
        if self._table.subscriptions.get(subscription.number) is subscription:
            self._table.remove(subscription)

    def revoke(self, subscriptions: SubscriptionList[D], subscription: SubscriptionId, denied: Denied) -> Receipt:
        """Whoever asked for something may not have it any more."""
        self.unsubscribe(subscriptions, Unsubscription(subscription))
        self.refused[denied.code] += 1
        return Receipt(subscription, denied.code, denied.reason)

    def withdraw(self, subscriptions: SubscriptionList[D], destination: D) -> None:
        """A client is gone, and nothing is for it from now on; if it had many filters, they go little by little."""
        self._table.slots.abandon(destination)
        self.leaving += [subscription for subscription in subscriptions.values() if subscription.filter is not None]
        for subscription in subscriptions.values():
            if subscription.filter is None:
                self._remove(subscription)
        subscriptions.clear()
        subscriptions.recount()
        self.tidy(_AT_ONCE)

    def tidy(self, most: int) -> bool:
        """Remove so many of the subscriptions whose client is gone; return whether any are left."""
        for _ in range(min(most, len(self.leaving))):
            self._remove(self.leaving.popleft())
        return bool(self.leaving)

    # ---- what damage may have done

    def audit(self, subscriptions: SubscriptionList[D], destination: D) -> None:
        """Strike from a client's list what is not in force as its own, and count the digest of the rest. See to it that
        these are filed where they belong.
        """
        filed = self._table.subscriptions
        for number, subscription in list(subscriptions.items()):
            is_own = number == subscription.id and subscription.destination is destination
            if not is_own or filed.get(subscription.number) is not subscription:
                del subscriptions[number]
            else:
                self._table.repair(subscription)
        subscriptions.recount()

    def sweep(self, lists: Collection[SubscriptionList[D]]) -> None:
        """End what is in force and on nobody's list. That there is something tells the number of all."""
        filed = self._table.subscriptions
        if len(filed) == sum(map(len, lists)) + len(self.leaving):
            return
        listed = {subscription.number for subscriptions in lists for subscription in subscriptions.values()}
        listed |= {subscription.number for subscription in self.leaving}
        for subscription in list(filed.values()):
            if subscription.number not in listed:
                self._table.remove(subscription)

    def _refuse(self, message: Subscription, code: Refusal, reason: str) -> Receipt:
        self.refused[code] += 1
        return Receipt(message.id, code, reason)
