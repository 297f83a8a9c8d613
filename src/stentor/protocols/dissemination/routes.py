"""Routes: where the events of a topic go. Worked out when a topic is first seen, kept until an interest changes it."""

from collections.abc import Callable, Iterable
from itertools import islice
from sys import maxsize
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from stentor.matching.topic_tree import TopicTree
from stentor.model.filter import Filter
from stentor.model.ids import SchemaId, SubscriptionId, TopicId, topic_id
from stentor.model.messages import Message
from stentor.policies.forwarding import Forwarding
from stentor.policies.scope_policies import ScopePolicies
from stentor.protocols.dissemination.broker_subscription import BrokerSubscription, ReadAccess
from stentor.protocols.dissemination.filed_subscriptions import FiledSubscriptions
from stentor.protocols.dissemination.filtered_subscriptions import FilteredSubscriptions
from stentor.protocols.dissemination.member_interests import InterestIndex, MemberInterests
from stentor.wire.head import topic_of_flow


class Sink(Protocol):
    """Whatever collects slices for a peer; the list itself stays the same for ever."""

    fresh: list[Any]  # (whole event frames, how many events, who takes all of them, who chose how many)
    defined: set[TopicId | SchemaId]  # numbers that the peer knows the meaning of

    def define(self, number: TopicId | SchemaId, definition: Message) -> bool: ...


D = TypeVar("D", bound=Sink)
_NUMBER = 8  # bytes of a link's number
_MANY_TOPICS = 4096  # that are looked at one by one when an interest comes or goes: that takes a millisecond
_REINDEXED = 250  # filters that are indexed anew at once, twice a heartbeat: some ten milliseconds
_RENEWED = 1000  # topics, and flows, whose routes are forgotten at once: those that are in use come back in 20 ms


class Route(Generic[D]):
    """All destinations of a topic. Topics with the same interests share one, so that their frames make one run."""

    __slots__ = (
        "_whole",
        "demands",
        "events",
        "everything",
        "filtered",
        "forwarding",
        "is_selective",
        "sinks",
        "takers",
    )

    def __init__(
        self,
        interests: Iterable[BrokerSubscription[D]],
        filtered: Iterable[FilteredSubscriptions[D]],
        demands: Iterable[MemberInterests] = (),
        forwarding: tuple[Forwarding, ...] = (),
    ) -> None:
        self._whole = tuple(interests)
        self.filtered = tuple(filtered)  # those who take some
        self.demands = tuple(demands)  # of other brokers
        self.forwarding = forwarding  # who decides in each scope around the broker which members shall have the events
        self.is_selective = all(policy.selective for policy in forwarding)  # nobody else gets what nobody wants
        self.takers = _numbers(self._whole)  # who takes every event, and who misses what if that is dropped
        self.everything = dict.fromkeys(self.takers)
        self.sinks = tuple(destination.fresh.append for destination in self.takers)  # the hot path calls just these
        self.events = 0

    @property
    def parts(self) -> tuple[list[BrokerSubscription[D]], list[FilteredSubscriptions[D]], list[MemberInterests]]:
        """All who want events that go this way: of all events, of some, and other brokers."""
        return list(self._whole), list(self.filtered), list(self.demands)

    @property
    def is_wanted(self) -> bool:
        """Whether anybody takes events that go this way, here or elsewhere."""
        return bool(self.takers or self.filtered or self.demands)

    def price(self, events: int, size: int) -> int:
        """Return how many nanoseconds it takes at most to match so many events of so many bytes."""
        loads = [filtered.load for filtered in self.filtered]
        return sum(load.per_event * events + load.per_character * size for load in loads)

    def book_counts(self) -> None:
        """Book the events that went this way to the interests that took them all."""
        if self.events:
            for subscription in self._whole:
                subscription.taken += self.events
            self.events = 0


class FlowTable(Generic[D]):
    """The routes of the flows that come in over one link."""

    __slots__ = ("denied", "number", "routes", "schemas", "topics")

    def __init__(self, number: int) -> None:
        self.number = number
        self.routes: dict[bytes, Route[D]] = {}
        self.topics: set[TopicId] = set()  # what the peer has told us the meaning of
        self.schemas: set[SchemaId] = set()
        self.denied: set[TopicId] = set()  # what the peer may not publish on, and was told so

    @property
    def is_empty(self) -> bool:
        return not (self.routes or self.topics or self.schemas)


class TopicEntry(msgspec.Struct, Generic[D], eq=False, gc=False):
    """A topic that peers have defined, its route if it is known, and the flows that remember the route.

    There may be a million, and Python's collector would look at each of them again and again, which others would wait
    for. So none of their parts is anything that it has to look at: nothing refers back to a topic's state, and the
    keys of `remembered` are bytes.
    """

    name: str
    definers: int = 0
    route: Route[D] | None = None
    epoch: int = 0  # of the table, when the route was worked out: it holds only as long as that is the table's
    remembered: dict[bytes, None] = {}  # the numbers of links, each with a flow


class RouteTable(Generic[D]):
    """Interests go in, routes come out; a change forgets exactly the routes that it touches. Invariants, asserted by
    `validate`:

    a route of this epoch leads to all that cover its topic now, and to nobody else; a flow that is remembered has the
    route of its topic, or is denied, and its topic knows it
    """

    def __init__(
        self,
        policies: ScopePolicies | None = None,
        on_change: Callable[[BrokerSubscription[D], bool], None] | None = None,
    ) -> None:
        """`on_change` is told of every subscription that comes or goes."""
        self._policies = policies or ScopePolicies(())
        self._on_change = on_change or (lambda _subscription, _comes: None)
        self.interests = InterestIndex()  # of members of the scopes around the broker
        self.topics: dict[TopicId, TopicEntry[D]] = {}
        self._tree: TopicTree[TopicEntry[D]] = TopicTree()
        self.filed: FiledSubscriptions[D] = FiledSubscriptions()
        self.subscriptions = self.filed.by_number
        self.slots = self.filed.slots
        self._shared: dict[tuple[tuple[object, ...], ...], Route[D]] = {}
        self._epoch = 0
        self._tables: dict[int, FlowTable[D]] = {}  # those with flows that are remembered, by number
        self.denied: Route[D] = Route((), ())  # of all flows that may not be: their events are counted, and go nowhere
        self._renewed = 0  # the place of the topic whose route is forgotten next

    def define(self, table: FlowTable[D], topic: TopicId, name: str) -> None:
        """A peer told us what a number means; we know it as long as any such peer is there."""
        if topic in table.topics:
            return
        table.topics.add(topic)
        state = self.topics.get(topic)
        if state is None:
            state = self.topics[topic] = TopicEntry(name)
            self._tree.add(name, topic, state)
        state.definers += 1

    def drop(self, table: FlowTable[D], most: int = maxsize) -> int:
        """Forget about so many flows of a peer that is gone, and topics that only it defined; return how many."""
        done = self.forget_flows(table, most)
        while table.topics and done < most:
            topic = table.topics.pop()
            done += 1
            state = self.topics.get(topic)
            if state is None:  # its entry was damaged
                continue
            state.definers -= 1
            if not state.definers:
                if state.route is not None:
                    state.route.book_counts()
                if self._tree.holds(state.name, topic, state):
                    self._tree.remove(state.name, topic)
                del self.topics[topic]
        return done

    def add(self, subscription: BrokerSubscription[D]) -> None:
        changes_routes = self.filed.add(subscription)
        self._on_change(subscription, True)
        if changes_routes:
            self._forget(subscription.pattern)

    def remove(self, subscription: BrokerSubscription[D]) -> None:
        changes_routes = self.filed.remove(subscription)
        self._on_change(subscription, False)
        if changes_routes:
            self._forget(subscription.pattern)

    def change_access(self, subscription: BrokerSubscription[D], access: ReadAccess | None) -> None:
        """From now on an interest means other topics of its pattern."""
        if access is not subscription.access:
            self.filed.change_access(subscription, access)
            self._forget(subscription.pattern)

    def has_exact(self, topic: str) -> bool:
        """Return whether anybody here asked for a topic by its name."""
        return self.filed.has_exact(topic)

    def index(self, wanted: bool, depth: int, level: int, member: int, pattern: str, where: Filter | None) -> None:
        """A member of a scope around us wants something, or not any more; only the first and last change routes."""
        if wanted:
            is_changed = self.interests.add(depth, level, member, pattern, where)
        else:
            is_changed = self.interests.remove(level, member, pattern, where)
        if is_changed:
            self._forget(pattern)

    def clear_index(self) -> None:
        """Forget what members of the scopes around us want."""
        for pattern in self.interests.clear():
            self._forget(pattern)

    def route(self, state: TopicEntry[D]) -> Route[D]:
        if state.route is not None and state.epoch != self._epoch:
            state.route.book_counts()
            state.route, state.remembered = None, {}
        if state.route is None:
            parts, forwarding = self._covering(state.name), self._policies.forwarding_of(state.name)
            key = (forwarding, *(tuple([each.number for each in part]) for part in parts))
            route = self._shared.get(key)
            if route is None:
                route = self._shared[key] = Route(*parts, forwarding)
            state.route, state.epoch = route, self._epoch
        return state.route

    def _covering(
        self, name: str
    ) -> tuple[list[BrokerSubscription[D]], list[FilteredSubscriptions[D]], list[MemberInterests]]:
        """Return all who want events of a topic, in the order of their numbers."""
        return (*self.filed.covering(name), self.interests.covering(name))

    def validate(self) -> None:
        for topic, state in self.topics.items():
            assert topic == topic_id(state.name), f"{state.name} is filed under another number"
            if state.route is not None and state.epoch == self._epoch:
                assert state.route.parts == self._covering(state.name), f"the route of {state.name} is not as it was"
        for number, table in self._tables.items():
            assert number == table.number, "a table of flows under another number"
            for flow, route in table.routes.items():
                topic = topic_of_flow(flow)
                assert topic in self.topics, "a route of a topic that nobody knows"
                state = self.topics[topic]
                assert route is self.denied or route is state.route, f"a flow of {state.name} has a route of its own"
                assert _key(table, flow) in state.remembered, f"{state.name} does not know of a flow"
        self.filed.validate()

    def remember(self, table: FlowTable[D], flow: bytes) -> Route[D]:
        """File the route of a flow's topic, until the topic's route changes."""
        state = self.topics[topic_of_flow(flow)]
        route = table.routes[flow] = self.route(state)
        state.remembered[_key(table, flow)] = None
        self._tables[table.number] = table
        return route

    def deny(self, table: FlowTable[D], flow: bytes) -> None:
        """Let the events of a flow go nowhere, until access to its topic changes."""
        table.routes[flow] = self.denied
        self.topics[topic_of_flow(flow)].remembered[_key(table, flow)] = None
        self._tables[table.number] = table

    def forget_routes(self, pattern: str) -> set[TopicId]:
        """Forget the routes of some topics, because others may read or write them now; return their numbers."""
        self._forget(pattern)
        return {topic_id(state.name) for state in self._tree.covered(pattern)}

    def forget_flows(self, table: FlowTable[D], most: int = maxsize) -> int:
        """Forget the oldest flows of a link, and return how many: they come back as they are used."""
        oldest = list(islice(table.routes, most))
        for flow in oldest:
            del table.routes[flow]
            state = self.topics.get(topic_of_flow(flow))
            if state is not None:  # else its entry was damaged
                state.remembered.pop(_key(table, flow), None)
        if not table.routes:
            self._tables.pop(table.number, None)
        return len(oldest)

    def book_counts(self) -> None:
        """Bring every interest's counts up to date."""
        for state in self.topics.values():
            if state.route is not None:
                state.route.book_counts()

    def _forget(self, pattern: str) -> None:
        """Forget the routes of the topics that a pattern covers; if there are many, those of all topics."""
        self._shared.clear()  # only for sharing: a route still in use stays as it is
        for visited, state in enumerate(self._tree.covered(pattern)):
            if visited == _MANY_TOPICS:
                self._forget_all()
                return
            self._forget_topic(state)

    def _forget_topic(self, state: TopicEntry[D]) -> None:
        if state.route is not None:
            state.route.book_counts()
            state.route = None
        for key in state.remembered:
            table = self._tables.get(int.from_bytes(key[:_NUMBER], "little", signed=True))
            if table is not None:
                table.routes.pop(key[_NUMBER:], None)
        state.remembered = {}

    # ---- what damage may have done

    def repair(self, subscription: BrokerSubscription[D]) -> None:
        """File a subscription again that is not where it belongs."""
        if self.filed.repair(subscription):
            self._forget(subscription.pattern)

    def drop_strays(self) -> None:
        """Forget what is filed and of nobody."""
        for pattern in self.filed.drop_strays():
            self._forget(pattern)

    def renew(self, tables: Iterable[FlowTable[D]]) -> None:
        """Forget some routes of topics and of the flows in these tables, whatever became of them, and index some
        filters anew: in their turns all of them are worked out once more.
        """
        self.filed.renew(_REINDEXED)
        self._shared.clear()
        for table in tables:
            if table.routes and self._tables.get(table.number) is not table:
                self._tables[table.number] = table
        left = _RENEWED
        for number, table in list(self._tables.items()):
            if left > 0:
                left -= self.forget_flows(table, left)
                if number in self._tables:  # the others have their turns before the rest of it
                    self._tables[number] = self._tables.pop(number)
        first = self._renewed if 0 <= self._renewed < len(self.topics) else 0
        for topic, state in list(islice(self.topics.items(), first, first + _RENEWED)):
            self._forget_topic(state)
            if topic != topic_id(state.name):
                del self.topics[topic]  # nobody knows what it was: a link on which it is used ends
            elif not self._tree.holds(state.name, topic, state):
                self._tree.add(state.name, topic, state)
        self._renewed = first + _RENEWED

    def _forget_all(self) -> None:
        """Forget all routes without looking at each topic: flows come back as they are used, and find their routes
        again. What these counted is booked when somebody looks.
        """
        self._epoch += 1
        for table in self._tables.values():
            table.routes.clear()
        self._tables.clear()


def _key(table: FlowTable[D], flow: bytes) -> bytes:
    return table.number.to_bytes(_NUMBER, "little", signed=True) + flow  # links that we dialled have negative ones


def _numbers(interests: Iterable[BrokerSubscription[D]]) -> dict[D, tuple[SubscriptionId, ...]]:
    numbers: dict[D, tuple[SubscriptionId, ...]] = {}
    for subscription in interests:
        numbers[subscription.destination] = (*numbers.get(subscription.destination, ()), subscription.id)
    return numbers
