"""The best-effort subscriber: checks what arrives, hands it out on demand, bounds what waits for the application.

Several subscriptions share the link's window. When they hold much of it, whoever holds most loses its oldest events
and is told. So one that is not read never takes the credit of the others. A lone one may hold all of it; the broker's
queue takes the rest.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stentor.machine import Buffer
from stentor.matching.pairs.pair_index import PairIndex
from stentor.matching.topic_tree import PatternMap
from stentor.model.attribute import EMPTY_SCHEMA, Schema
from stentor.model.errors import FrameError, Refusal
from stentor.model.filter import Filter
from stentor.model.ids import NO_SCHEMA, CatenationNumber, SchemaId, SubscriptionId, TopicId
from stentor.model.messages import Subscription
from stentor.model.topic import matches
from stentor.wire import head
from stentor.wire.block import Block
from stentor.wire.block_view import BlockView

_MOST_PUBLISHERS = 65_536  # publishers and topics whose last number is remembered
_MOST_FORMER = 1000  # patterns of ended subscriptions, after which every topic counts as shared


class CreditHold:
    """Received bytes that count against the link's credit until every subscription that holds them let go."""

    __slots__ = ("holders", "life", "size")

    def __init__(self, size: int, holders: int, life: int) -> None:
        self.size = size
        self.holders = holders  # subscriptions that have not let go
        self.life = life  # the number of the link on which they came


class Delivery(NamedTuple):
    """Verified events of one schema. For whoever waits for events they stay blocks, which others would have to keep for
    long: a block takes several times the memory of a frame with one small event.
    """

    blocks: Sequence[Block]
    packed: Buffer  # the frames of all blocks. Invariant: it is empty, or `blocks` are.
    schema: Schema
    events: int
    hold: CreditHold | None  # None if it holds none of the link's credit
    size: int  # what it counts for among all that is held

    def unpack(self) -> Iterable[Block]:
        return self.blocks or (Block(frame, self.schema) for frame in frames(self.packed))


class ClientSubscription:
    """A subscription of this client."""

    __slots__ = ("confirmed", "eager", "filter", "held", "id", "late", "missed", "pattern", "waiting", "wants_more")

    def __init__(self, number: SubscriptionId, pattern: str, where: Filter | None, eager: bool = False) -> None:
        self.id = number
        self.pattern = pattern
        self.filter = where
        self.confirmed = False
        self.eager = self.wants_more = eager  # the application waits for events, always or now
        self.waiting: deque[Delivery] = deque()
        self.held = 0
        self.missed = 0
        self.late = 0  # events that came behind later ones of their publisher, or once more: filters have not seen them

    @property
    def request(self) -> Subscription:
        """What a broker is told of it."""
        return Subscription(self.id, self.pattern, str(self.filter or ""))


class FilteredGroup:
    """Subscriptions of one pattern that have filters."""

    __slots__ = ("_index", "subscriptions")

    def __init__(self) -> None:
        self.subscriptions: dict[SubscriptionId, ClientSubscription] = {}
        self._index = PairIndex()

    def add(self, subscription: ClientSubscription) -> None:
        assert subscription.filter is not None
        self.subscriptions[subscription.id] = subscription
        self._index.add(subscription.filter, subscription.id)

    def remove(self, subscription: ClientSubscription) -> None:
        del self.subscriptions[subscription.id]
        self._index.remove(subscription.id)

    def choose(self, view: BlockView) -> Iterator[tuple[ClientSubscription, NDArray[np.intp]]]:
        """Return who wants which events of a view, in order."""
        events, numbers = self._index.match_pairs(view)
        if not len(events):
            return
        order = np.lexsort((events, numbers))
        events, numbers = events[order], numbers[order]
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        for number, rows in zip(numbers[starts].tolist(), np.split(events, starts[1:]), strict=True):
            yield self.subscriptions[number], rows


class LocalRoute:
    """Who in this client gets the events of a flow."""

    __slots__ = ("groups", "schema", "whole")

    def __init__(
        self, subscriptions: list[ClientSubscription], groups: list[FilteredGroup], schema: Schema, *, mixed: bool
    ) -> None:
        self.schema = schema
        # If several subscriptions share the topic, each must filter for itself; else the broker did that for it.
        self.whole = (
            subscriptions
            if mixed
            else [*subscriptions, *(subscription for group in groups for subscription in group.subscriptions.values())]
        )
        self.groups = groups if mixed else []

    def everyone(self) -> Iterator[ClientSubscription]:
        yield from self.whole
        for group in self.groups:
            yield from group.subscriptions.values()


class BestEffortSubscriber:
    """All subscriptions of a client; `taken` collects bytes whose credit can go back to the broker."""

    def __init__(self, window: int) -> None:
        self.subscriptions: dict[SubscriptionId, ClientSubscription] = {}
        self.digest = 0  # Invariant: the exclusive or of the digests of all subscriptions.
        self.routes: dict[bytes, LocalRoute] = {}
        self.topics: dict[TopicId, str] = {}
        self.schemas: dict[SchemaId, Schema] = {NO_SCHEMA: EMPTY_SCHEMA}
        self.taken = 0
        self.repeated = 0  # events that had come before
        self.damaged = 0  # events that no longer are what their publisher sealed, or never could be read
        self.served: dict[SubscriptionId, ClientSubscription] = {}  # hungry ones that have something now
        self._most = 0  # bytes that several subscriptions may hold together
        self._held = 0
        self._holders: dict[SubscriptionId, ClientSubscription] = {}  # those for whom something waits
        self._whole: PatternMap[ClientSubscription] = PatternMap()  # subscriptions without a filter
        self._groups: PatternMap[FilteredGroup] = PatternMap()  # and with one
        self._by_pattern: dict[str, FilteredGroup] = {}
        self.narrow(window)
        self._shared: set[str] = set()  # topics that more than one subscription has shared on this link
        self._former: dict[str, None] = {}  # patterns of subscriptions that ended on this link
        self._life = 0  # counts links
        self._used: set[TopicId] = set()  # topics of the flows that have a route
        self._last: dict[tuple[int, int, int], CatenationNumber] = {}

    def narrow(self, window: int) -> None:
        """Bound what waits: the broker sends no more than this ahead."""
        self._most = window * 3 // 4

    def add(self, subscription: ClientSubscription) -> None:
        self.subscriptions[subscription.id] = subscription
        self.digest ^= subscription.request.digest
        if subscription.filter is None:
            self._whole.add(subscription.pattern, subscription.id, subscription)
        else:
            group = self._by_pattern.get(subscription.pattern)
            if group is None:
                group = self._by_pattern[subscription.pattern] = FilteredGroup()
                self._groups.add(subscription.pattern, 0, group)
            group.add(subscription)
        self._forget_routes()

    def _forget_routes(self) -> None:
        self.routes.clear()
        self._used.clear()

    def remove(self, number: SubscriptionId) -> None:
        subscription = self.subscriptions.pop(number, None)
        if subscription is not None:
            self.digest ^= subscription.request.digest
            self._file_out(subscription)
            # what was under way for it may still come, so its topics stay shared for the others
            self._former["#" if len(self._former) >= _MOST_FORMER else subscription.pattern] = None
            for delivery in subscription.waiting:
                self._let_go(delivery)
            self._held -= subscription.held
            self._holders.pop(number, None)
            self.served.pop(number, None)
            self._forget_routes()

    def _file_out(self, subscription: ClientSubscription) -> None:
        if subscription.filter is None:
            self._whole.remove(subscription.pattern, subscription.id)
            return
        group = self._by_pattern[subscription.pattern]
        group.remove(subscription)
        if not group.subscriptions:
            del self._by_pattern[subscription.pattern]
            self._groups.remove(subscription.pattern, 0)

    def relink(self, *, has_served: bool = False) -> None:
        """A new link. Nothing is under way on it, unless the broker there has served this client for a while: then that
        may be for subscriptions which ended meanwhile. What numbers mean stays true for ever.
        """
        self._forget_routes()
        self._shared.clear()
        if not has_served:
            self._former.clear()
        self._life += 1
        for subscription in self.subscriptions.values():
            subscription.confirmed = False

    def define_topic(self, topic: TopicId, name: str) -> None:
        """Keep twice as many definitions as a broker remembers to have told, so that none in use is forgotten."""
        self.topics.pop(topic, None)
        while len(self.topics) >= 2 * _MOST_PUBLISHERS:
            oldest = next(iter(self.topics))
            former = self.topics.pop(oldest)
            if oldest not in self._used:
                break
            self.topics[oldest] = former
        self.topics[topic] = name

    def open_flow(self, flow: bytes) -> None:
        """Work out who gets a flow that is new on this link."""
        topic = head.topic_of_flow(flow)
        schema = self.schemas.get(head.schema_of_flow(flow))
        name = self.topics.get(topic)
        if name is None or schema is None:
            raise FrameError(Refusal.PROTOCOL, "events of a topic or schema that was not defined before")
        subscriptions, groups = self._whole.covering(name), self._groups.covering(name)
        if len(subscriptions) + sum(len(group.subscriptions) for group in groups) > 1:
            self._shared.add(name)
        if len(self.routes) >= _MOST_PUBLISHERS:
            self._forget_routes()
        mixed = name in self._shared or any(matches(pattern, name) for pattern in self._former)
        self.routes[flow] = LocalRoute(subscriptions, groups, schema, mixed=mixed)
        self._used.add(topic)

    def receive(self, data: bytes, runs: list[tuple[LocalRoute, int, int, int]]) -> None:
        for route, start, end, events in runs:
            damaged, repeated = self.damaged, self.repeated
            blocks = self._admit(data, route.schema, start, end)
            if self.damaged > damaged or self.repeated > repeated:
                for subscription in route.everyone():
                    subscription.missed += self.damaged - damaged
                    subscription.late += self.repeated - repeated
            if blocks and route.groups:
                self._deliver_some(route, BlockView(blocks))
            if not blocks or not route.whole:
                self.taken += end - start
                continue
            hold = CreditHold(end - start, len(route.whole), self._life)
            admitted = events - (self.damaged - damaged) - (self.repeated - repeated)
            for subscription in route.whole:
                self._deliver(subscription, blocks, admitted, hold)

    def _admit(self, data: bytes, schema: Schema, start: int, end: int) -> list[Block]:
        """Return the blocks of a run that are intact and new: each publisher's events come in order and never twice."""
        admitted = []
        last = self._last
        while start < end:
            length = head.length_of(data, start)
            frame = data[start : start + length]
            start += length
            try:
                block = Block(frame, schema)
                block.verify()
                block.check()
            except FrameError:  # a publisher's fault or a flipped bit: no reason to leave the broker
                self.damaged += head.count_of(frame)
                continue
            key = (block.publisher, block.incarnation, block.topic)
            if block.catenation <= last.get(key, 0):
                self.repeated += block.count
                continue
            if len(last) >= _MOST_PUBLISHERS and key not in last:
                del last[next(iter(last))]
            last[key] = block.last()
            admitted.append(block)
        return admitted

    def _deliver_some(self, route: LocalRoute, view: BlockView) -> None:
        """Deliver to each subscription a copy of what it wants, which holds none of the link's credit for the rest."""
        for group in route.groups:
            for subscription, rows in group.choose(view):
                blocks = [Block(frame, route.schema) for frame, _ in view.pick(rows)]
                self._deliver(subscription, blocks, len(rows), None)

    def _deliver(
        self, subscription: ClientSubscription, blocks: list[Block], events: int, hold: CreditHold | None
    ) -> None:
        size = sum([len(block.frame) for block in blocks])
        packed: Buffer = b""
        schema = blocks[0].schema
        if not subscription.wants_more:
            packed = blocks[0].frame if len(blocks) == 1 else b"".join([block.frame for block in blocks])
            blocks = []
        subscription.waiting.append(Delivery(blocks, packed, schema, events, hold, size))
        subscription.held += size
        self._held += size
        self._holders[subscription.id] = subscription
        if len(self.subscriptions) > 1 and self._held > self._most:
            self._relieve()
        if subscription.wants_more:
            self.served[subscription.id] = subscription

    def _relieve(self) -> None:
        """Whoever holds most loses its oldest, so that the credit of the link lasts for the others."""
        while self._held > self._most:
            fullest = max(self._holders.values(), key=lambda each: each.held)
            oldest = fullest.waiting.popleft()
            self._let_go(oldest)
            fullest.held -= oldest.size
            self._held -= oldest.size
            if fullest.waiting:
                fullest.missed += oldest.events
            else:  # one alone is that large: it is kept, but not at the others' cost
                fullest.waiting.append(oldest._replace(hold=None, size=0))

    def serve(self, subscription: ClientSubscription) -> tuple[list[Block], int]:
        """Return everything that waits for a subscription, and how many events were missed before it."""
        blocks: list[Block] = []
        for delivery in subscription.waiting:
            blocks += delivery.unpack()
            self._let_go(delivery)
        subscription.waiting.clear()
        self._holders.pop(subscription.id, None)
        self._held -= subscription.held
        subscription.held = 0
        subscription.wants_more = subscription.eager
        missed, subscription.missed = subscription.missed, 0
        return blocks, missed

    def _let_go(self, delivery: Delivery) -> None:
        hold = delivery.hold
        if hold is None:
            return
        hold.holders -= 1
        if not hold.holders and hold.life == self._life:
            self.taken += hold.size


def frames(data: Buffer) -> list[Buffer]:
    """Return the single frames of a run."""
    cuts = []
    start = 0
    while start < len(data):
        length = head.length_of(data, start)
        assert length >= head.HEADER_SIZE, "only verified frames are delivered"
        cuts.append(data[start : start + length])
        start += length
    return cuts
