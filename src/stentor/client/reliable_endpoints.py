"""The named publishers and subscriptions of one client, which end with it."""

from typing import Literal
from weakref import WeakSet

from stentor.client.connection.first_connection import Access
from stentor.client.lake_backfill import Readers
from stentor.client.pace import Pace
from stentor.client.reliable_publisher import Publisher, Resume, resumption_of
from stentor.client.reliable_subscription import From, Subscription
from stentor.model.mail import MAIL, own_mail


class ReliableEndpoints:
    """The named publishers and subscriptions of a client: each has a link of its own, and ends with the client."""

    def __init__(self, access: Access, window: int, readers: Readers) -> None:
        self._access = access
        self._window = window
        self._readers = readers
        self._all: WeakSet[Publisher | Subscription] = WeakSet()

    def publisher(self, topic: str, name: str, stored_on: int, buffer: int, resume: Resume | None) -> Publisher:
        publisher = Publisher(self._access, topic, name, stored_on, buffer, resumption_of(resume))
        self._all.add(publisher)
        return publisher

    def subscription(
        self, topic: str, name: str, where: str | None, from_: From, ack: Literal["auto", "manual"], pace: Pace
    ) -> Subscription:
        where = own_mail(name, where) if topic == MAIL else where
        subscription = Subscription(self._access, topic, name, where, from_, ack, self._window, self._readers, pace)
        self._all.add(subscription)
        return subscription

    def move(self, url: str) -> None:
        self._access = self._access._replace(url=url)
        for end in list(self._all):
            if end.is_open:
                end.move(url)

    async def close(self) -> None:
        for end in list(self._all):
            await end.close()
