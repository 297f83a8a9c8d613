"""Best-effort subscriptions of a client: what they were sent, until the application reads it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Self

from stentor.client.connection.link_log import LinkLog
from stentor.client.connection.settling import Settled
from stentor.client.event import Batch, Event
from stentor.machine import Input
from stentor.model.errors import Closed, Refused
from stentor.model.ids import SubscriptionId
from stentor.nodes.client import Client
from stentor.nodes.client_api import (
    ConfirmSubscription,
    Deliver,
    DenySubscription,
    MoreRequested,
    SubscribeRequested,
    UnsubscribeRequested,
)


class EventStreams:
    """All that are in force, by number; `tell` raises if their client is not connected, `settle` returns which brokers
    know all of them when all do, or after so many seconds.
    """

    def __init__(
        self,
        client: Client,
        tell: Callable[[Input], None],
        settle: Callable[[float], Awaitable[Settled]],
        log: LinkLog,
    ) -> None:
        self.all: dict[SubscriptionId, Events] = {}
        self.tell, self.settle = tell, settle
        self._client = client
        self._log = log

    def deliver(self, effect: Deliver) -> None:
        events = self.all.get(effect.subscription)
        if events is not None:
            if effect.missed:
                self._log.missed(events.pattern, effect.missed)
            events._deliver(self._batches(effect))

    def _batches(self, effect: Deliver) -> list[Batch]:
        batches = []
        missed = effect.missed
        for block in effect.blocks:
            batches.append(Batch(self._client.topics[block.topic], block, missed))
            missed = 0
        return batches

    def count_late(self, number: SubscriptionId) -> int:
        """Return how many events of a subscription were dropped since later ones had come; 0 if it has ended."""
        subscription = self._client.subscriber.subscriptions.get(number)
        return 0 if subscription is None else subscription.late

    def confirm(self, effect: ConfirmSubscription | DenySubscription) -> None:
        events = self.all.get(effect.subscription)
        if events is not None:
            events._confirm(Refused(effect.code, effect.reason) if isinstance(effect, DenySubscription) else None)

    def end(self, error: Exception) -> None:
        for events in list(self.all.values()):
            events._end(error)


class Events:
    """A subscription: use it with `async with`, then `async for`. Made by `Fabric.subscribe`."""

    def __init__(self, subscriptions: EventStreams, number: SubscriptionId, pattern: str, where: str) -> None:
        self.pattern = pattern
        self.where = where
        self.missed = 0  # events dropped because this application was too slow
        self._subscriptions = subscriptions
        self._id = number
        self._batches: deque[Batch] = deque()
        self._current: deque[Event] = deque()
        self._arrived = asyncio.Event()
        self._confirmed: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._hungry = False

    async def __aenter__(self) -> Self:
        """Return when the client's broker has the subscription: of what is published there nothing is missed from now
        on. Other brokers hear of it moments later: see `settled`.
        """
        confirmed = asyncio.get_running_loop().create_future()
        self._subscriptions.tell(SubscribeRequested(self._id, self.pattern, self.where))
        self._subscriptions.all[self._id] = self
        self._confirmed = confirmed
        try:
            await confirmed
        except BaseException:
            confirmed.cancel()
            await self.close()
            raise
        return self

    @property
    def late(self) -> int:
        """Events that came behind later ones of the same publisher, or once more, and were not handed out. Filters have
        not looked at them. Links that fail may bring events by another way; plans never do.
        """
        return self._subscriptions.count_late(self._id)

    async def settled(self, timeout: float = 10.0) -> Settled:
        """Return when every broker that can be reached knows this subscription: of what is published anywhere nothing
        is missed from now on, unless a link breaks or this application is too slow.

        After `timeout` seconds (60 at most) it returns as well, and its result names the brokers that were `silent`:
        what is published there may be missed for now. A broker that comes later hears of the subscription when it
        comes. If the client changes its broker, what this said is over: call it again.
        """
        if self._confirmed is None:
            raise Closed("not subscribed: use `async with fabric.subscribe(…) as events`")
        if self._error is not None:
            raise self._error
        return await self._subscriptions.settle(timeout)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Unsubscribe; what had not been read is dropped."""
        if self._subscriptions.all.pop(self._id, None) is not None and self._error is None:
            self._subscriptions.tell(UnsubscribeRequested(self._id))
        self._end(Closed("this subscription was closed"))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        current = self._current
        if not current:
            current.extend(await self.next_batch())
        return current.popleft()

    async def batches(self) -> AsyncIterator[Batch]:
        """Whole batches, for those who need the rate."""
        while True:
            try:
                yield await self.next_batch()
            except StopAsyncIteration:
                return

    async def next_batch(self) -> Batch:
        """The next batch; StopAsyncIteration when the subscription was closed."""
        while not self._batches:
            if self._error is not None:
                if isinstance(self._error, Closed):
                    raise StopAsyncIteration
                raise self._error
            if self._confirmed is None:
                raise Closed("not subscribed: use `async with fabric.subscribe(…) as events`")
            if not self._hungry:
                self._hungry = True
                self._subscriptions.tell(MoreRequested(self._id))
                continue
            self._arrived.clear()
            await self._arrived.wait()
        batch = self._batches.popleft()
        self.missed += batch.missed_before
        return batch

    def _deliver(self, batches: list[Batch]) -> None:
        self._hungry = False
        self._batches.extend(batches)
        self._arrived.set()

    def _confirm(self, error: Exception | None) -> None:
        if self._confirmed is not None and not self._confirmed.done():
            if error is None:
                self._confirmed.set_result(None)
            else:
                self._confirmed.set_exception(error)
        elif error is not None:
            self._end(error)

    def _end(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        if self._confirmed is not None and not self._confirmed.done():
            self._confirmed.set_exception(error)
        self._arrived.set()
