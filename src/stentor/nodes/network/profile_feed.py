"""Profile feed: the subscriptions of our clients become our profile, which other brokers are told.

A broker without neighbours tells nobody. When it gets its first one, there may be a hundred thousand subscriptions to
be summed up: that is done in portions, between the steps for everybody else.
"""

from collections import deque

from stentor.model.filter import Filter
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.broker_subscription import BrokerSubscription
from stentor.protocols.dissemination.profiles import Profiles
from stentor.protocols.dissemination.routes import RouteTable

_PORTION = 20  # subscriptions in a step: each may be compared with thousands of others
_FEW = 256  # subscriptions that are summed up anew with each round: some milliseconds


class ProfileFeed:
    """What of the subscriptions of one broker's clients is in its profile."""

    def __init__(self, profiles: Profiles, table: RouteTable[Outbox], *, is_active: bool) -> None:
        """`is_active` is whether this broker will have neighbours."""
        self._profiles = profiles
        self._table = table
        self._is_active = is_active
        self._told: dict[int, tuple[str, Filter | None]] = {}  # Invariant: just these are in our profile.
        self._untold: deque[BrokerSubscription[Outbox]] = deque()

    @property
    def is_waiting(self) -> bool:
        """Whether there are subscriptions that are not in our profile yet."""
        return bool(self._untold)

    def activate(self) -> None:
        """There is somebody to be told."""
        if not self._is_active:
            self._is_active = True
            self._untold.extend(self._table.subscriptions.values())

    def on_subscription_change(self, subscription: BrokerSubscription[Outbox], comes: bool) -> None:
        if not comes:
            told = self._told.pop(subscription.number, None)
            if told is not None:
                self._profiles.unsubscribe(*told)
        elif self._untold:
            self._untold.append(subscription)
        elif self._is_active:
            self._tell(subscription)

    def renew(self) -> bool:
        """Sum up anew what our clients want, whatever became of the sum; return whether it was wrong. If there are many
        subscriptions, that is done only if others are summed up than there are.
        """
        subscriptions = self._table.subscriptions
        if self._untold or (len(subscriptions) > _FEW and self._told.keys() == subscriptions.keys()):
            return False
        self._told = {number: (each.pattern, each.filter) for number, each in subscriptions.items()}
        return self._profiles.sum_up_clients(self._told.values())

    def run(self) -> None:
        """Put a portion of what waits into our profile."""
        for _ in range(min(_PORTION, len(self._untold))):
            self._tell(self._untold.popleft())

    def _tell(self, subscription: BrokerSubscription[Outbox]) -> None:
        if subscription.number in self._table.subscriptions and subscription.number not in self._told:
            self._told[subscription.number] = subscription.pattern, subscription.filter
            self._profiles.subscribe(subscription.pattern, subscription.filter)
