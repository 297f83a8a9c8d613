"""The best-effort subscriber: checks what arrives, hands it out on demand, bounds what waits for the application.

Several subscriptions share the link's window. When they hold much of it, whoever holds most loses its oldest events
and is told. So one that is not read never takes the credit of the others. A lone one may hold all of it; the broker's
queue takes the rest.
"""

from collections import deque
from struct import Struct
from typing import NamedTuple

from stentor.machine import Buffer
from stentor.model.attribute import EMPTY_SCHEMA, Schema
from stentor.model.errors import FrameError, Refusal
from stentor.model.filter import Filter
from stentor.model.ids import NO_SCHEMA, CatenationNumber, SchemaId, SubscriptionId, TopicId
from stentor.model.topic import matches
from stentor.wire.block import HEADER_SIZE, Block
from stentor.wire.frame import LENGTH
from stentor.wire.run import cut
from stentor.wire.sheaf import Sheaf

_COUNT = Struct("<H")
_MOST_PUBLISHERS = 65_536  # publishers and topics whose last number is remembered
_MOST_FORMER = 1000  # patterns of ended subscriptions, after which every topic counts as shared


class Charge:
    """Received bytes that count against the link's credit until every subscription that holds them let go."""

    __slots__ = ("holders", "life", "size")

    def __init__(self, size: int, holders: int, life: int) -> None:
        self.size, self.holders, self.life = size, holders, life


class Delivery(NamedTuple):
    """Whole, verified event frames."""

    data: Buffer
    events: int
    charge: Charge | None  # None if it holds none of the link's credit
    size: int  # what it counts for among all that is held


class Wish:
    """A subscription of this client."""

    __slots__ = ("confirmed", "filter", "held", "hungry", "id", "missed", "pattern", "waiting")

    def __init__(self, subscription: SubscriptionId, pattern: str, where: Filter | None) -> None:
        self.id = subscription
        self.pattern = pattern
        self.filter = where
        self.confirmed = False
        self.hungry = False  # the application waits for events
        self.waiting: deque[Delivery] = deque()
        self.held = 0
        self.missed = 0


class LocalRoute:
    """Who in this client gets the events of a flow."""

    __slots__ = ("mixed", "schema", "wishes")

    def __init__(self, wishes: tuple[Wish, ...], schema: Schema, *, mixed: bool) -> None:
        self.wishes = wishes
        self.schema = schema
        self.mixed = mixed  # several subscriptions share the topic, so each must filter for itself


class Subscriber:
    """All subscriptions of a client; `taken` collects bytes whose credit can go back to the broker."""

    def __init__(self, window: int) -> None:
        self.wishes: dict[SubscriptionId, Wish] = {}
        self.routes: dict[bytes, LocalRoute] = {}
        self.topics: dict[TopicId, str] = {}
        self.schemas: dict[SchemaId, Schema] = {NO_SCHEMA: EMPTY_SCHEMA}
        self.taken = 0
        self.repeated = 0  # events that had come before
        self.damaged = 0  # events that no longer are what their publisher sealed, or never could be read
        self.served: dict[SubscriptionId, Wish] = {}  # hungry ones that have something now
        self._most = 0  # bytes that several subscriptions may hold together
        self._held = 0
        self.narrow(window)
        self._shared: set[str] = set()  # topics that more than one subscription has shared on this link
        self._former: dict[str, None] = {}  # patterns of subscriptions that ended on this link
        self._life = 0  # counts links
        self._used: set[TopicId] = set()  # topics of the flows that have a route
        self._last: dict[tuple[int, int, int], CatenationNumber] = {}

    def narrow(self, window: int) -> None:
        """The broker sends no more than this ahead."""
        self._most = window * 3 // 4

    def add(self, wish: Wish) -> None:
        self.wishes[wish.id] = wish
        self._forget_routes()

    def _forget_routes(self) -> None:
        self.routes.clear()
        self._used.clear()

    def remove(self, subscription: SubscriptionId) -> None:
        wish = self.wishes.pop(subscription, None)
        if wish is not None:
            # what was under way for it may still come, so its topics stay shared for the others
            self._former["#" if len(self._former) >= _MOST_FORMER else wish.pattern] = None
            for delivery in wish.waiting:
                self._let_go(delivery)
            self._held -= wish.held
            self.served.pop(subscription, None)
            self._forget_routes()

    def relink(self) -> None:
        """A new link: nothing is under way on it. What numbers mean stays true for ever."""
        self._forget_routes()
        self._shared.clear()
        self._former.clear()
        self._life += 1
        for wish in self.wishes.values():
            wish.confirmed = False

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

    def meet(self, flow: bytes) -> None:
        """Work out who gets a flow that is new on this link."""
        topic = TopicId(int.from_bytes(flow[4:12], "little"))
        schema = self.schemas.get(SchemaId(int.from_bytes(flow[20:28], "little")))
        name = self.topics.get(topic)
        if name is None or schema is None:
            raise FrameError(Refusal.PROTOCOL, "events of a topic or schema that was not defined before")
        wishes = tuple(wish for wish in self.wishes.values() if matches(wish.pattern, name))
        if len(wishes) > 1:
            self._shared.add(name)
        if len(self.routes) >= _MOST_PUBLISHERS:
            self._forget_routes()
        mixed = name in self._shared or any(matches(pattern, name) for pattern in self._former)
        self.routes[flow] = LocalRoute(wishes, schema, mixed=mixed)
        self._used.add(topic)

    def receive(self, data: bytes, runs: list[tuple[LocalRoute, int, int, int]]) -> None:
        for route, start, end, events in runs:
            damaged = self.damaged
            blocks = self._admit(data, route.schema, start, end)
            for wish in route.wishes:
                wish.missed += self.damaged - damaged
            if not blocks or not route.wishes:
                self.taken += end - start
                continue
            parted = [wish for wish in route.wishes if route.mixed and wish.filter is not None]
            for wish in parted:
                self._deliver_some(wish, blocks)
            whole = len(route.wishes) - len(parted)
            if not whole:
                self.taken += end - start
                continue
            charge = Charge(end - start, whole, self._life)
            admitted = sum(block.count for block in blocks)
            frames = [cut(data, start, end)] if admitted == events else [block.frame for block in blocks]
            for wish in route.wishes:
                if wish not in parted:
                    self._deliver(wish, frames, admitted, charge)

    def _admit(self, data: bytes, schema: Schema, start: int, end: int) -> list[Block]:
        """The blocks of a run that are intact and new: each publisher's events come in order and never twice."""
        admitted = []
        last = self._last
        while start < end:
            (length,) = LENGTH.unpack_from(data, start)
            frame = data[start : start + length]
            start += length
            try:
                block = Block(frame, schema)
                block.verify()
                block.check()
            except FrameError:  # a publisher's fault or a flipped bit: no reason to leave the broker
                self.damaged += _COUNT.unpack_from(frame, 32)[0]
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

    def _deliver_some(self, wish: Wish, blocks: list[Block]) -> None:
        """What this subscription wants of the blocks; it holds a copy, and none of the link's credit for the rest."""
        assert wish.filter is not None
        sheaf = Sheaf(blocks)
        picked = sheaf.pick(wish.filter.select(sheaf.column, sheaf.count))
        chosen = [frame for frame, _ in picked]
        events = sum(count for _, count in picked)
        if chosen:
            self._deliver(wish, chosen, events, None)

    def _deliver(self, wish: Wish, frames: list[Buffer], events: int, charge: Charge | None) -> None:
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        wish.waiting.append(Delivery(data, events, charge, len(data)))
        wish.held += len(data)
        self._held += len(data)
        if len(self.wishes) > 1 and self._held > self._most:
            self._relieve()
        if wish.hungry:
            self.served[wish.id] = wish

    def _relieve(self) -> None:
        """Whoever holds most loses its oldest, so that the credit of the link lasts for the others."""
        while self._held > self._most:
            fullest = max(self.wishes.values(), key=lambda wish: wish.held)
            oldest = fullest.waiting.popleft()
            self._let_go(oldest)
            fullest.held -= oldest.size
            self._held -= oldest.size
            if fullest.waiting:
                fullest.missed += oldest.events
            else:  # one alone is that large: it is kept, but not at the others' cost
                fullest.waiting.append(oldest._replace(charge=None, size=0))

    def serve(self, wish: Wish) -> tuple[list[Buffer], int]:
        """Everything that waits for a subscription, and how many events were missed before it."""
        data = [delivery.data for delivery in wish.waiting]
        for delivery in wish.waiting:
            self._let_go(delivery)
        wish.waiting.clear()
        self._held -= wish.held
        wish.held = 0
        wish.hungry = False
        missed, wish.missed = wish.missed, 0
        return data, missed

    def _let_go(self, delivery: Delivery) -> None:
        charge = delivery.charge
        if charge is None:
            return
        charge.holders -= 1
        if not charge.holders and charge.life == self._life:
            self.taken += charge.size


def frames(data: Buffer) -> list[Buffer]:
    """The single frames of a delivery."""
    cuts = []
    start = 0
    while start < len(data):
        (length,) = LENGTH.unpack_from(data, start)
        assert length >= HEADER_SIZE, "only verified frames are delivered"
        cuts.append(data[start : start + length])
        start += length
    return cuts
