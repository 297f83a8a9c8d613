"""Routes: where the events of a topic go. Worked out when a topic is first seen, kept until an interest changes it."""

from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

from stentor.matching.topics import PatternTree, TopicTree
from stentor.model.ids import SchemaId, SubscriptionId, TopicId
from stentor.policies.channel import Channel
from stentor.protocols.dissemination.interest import ContentFilter, Interest


class Destination(Protocol):
    """Whatever collects slices for a peer; the list itself stays the same for ever."""

    fresh: list[Any]  # (whole event frames, how many events, who takes all of them, who takes how many)


D = TypeVar("D", bound=Destination)


class Route(Generic[D]):
    """All destinations of a topic. Topics with the same interests share one, so that their frames make one run."""

    __slots__ = (
        "_whole",
        "channels",
        "choosers",
        "events",
        "everything",
        "recipients",
        "sinks",
        "takers",
        "watched",
    )

    def __init__(self, interests: Iterable[Interest[D]]) -> None:
        by_destination: dict[D, list[Interest[D]]] = {}
        for interest in interests:
            by_destination.setdefault(interest.destination, []).append(interest)
        whole: list[Interest[D]] = []
        channels: list[tuple[D, Channel]] = []
        watched: list[tuple[D, Channel, tuple[Interest[D], ...]]] = []
        everything: dict[D, None] = {}
        for destination, wishes in by_destination.items():
            filtered = tuple(wish for wish in wishes if wish.filter is not None)
            unfiltered = [wish for wish in wishes if wish.filter is None]
            whole += unfiltered
            content = Channel([ContentFilter(filtered)]) if filtered else None
            if unfiltered:
                everything[destination] = None
                if content is not None:
                    watched.append((destination, content, filtered))
            elif content is not None:
                channels.append((destination, content))
        self._whole = tuple(whole)
        self.everything = everything  # destinations that take every event, as an ordered set
        self.sinks = tuple(destination.fresh.append for destination in everything)  # the hot path calls just these
        self.channels = tuple(channels)  # destinations that take some
        self.watched = tuple(watched)  # filters whose client gets everything anyway: they only count
        self.recipients = _numbers(wish for wishes in by_destination.values() for wish in wishes)
        self.takers = _numbers(whole)  # who misses what, if events for everyone are dropped
        self.choosers = _numbers(wish for wishes in by_destination.values() for wish in wishes if wish.filter)
        self.events = 0

    def settle(self) -> None:
        """Book the events that went this way to the interests that took them all."""
        if self.events:
            for interest in self._whole:
                interest.accepted += self.events
            self.events = 0


class FlowTable(Generic[D]):
    """The routes of the flows that come in over one link."""

    __slots__ = ("number", "routes", "schemas", "topics")

    def __init__(self, number: int) -> None:
        self.number = number
        self.routes: dict[bytes, Route[D]] = {}
        self.topics: set[TopicId] = set()  # what the peer has told us the meaning of
        self.schemas: set[SchemaId] = set()


class TopicState(Generic[D]):
    """A topic that peers have defined, its route if it is known, and the flows that remember the route."""

    __slots__ = ("definers", "name", "remembered", "route")

    def __init__(self, name: str) -> None:
        self.name = name
        self.definers = 0
        self.route: Route[D] | None = None
        self.remembered: dict[tuple[int, bytes], FlowTable[D]] = {}


class RouteTable(Generic[D]):
    """Interests go in, routes come out; a change forgets exactly the routes that it touches."""

    def __init__(self) -> None:
        self.topics: dict[TopicId, TopicState[D]] = {}
        self._tree: TopicTree[TopicState[D]] = TopicTree()
        self._exact: dict[str, dict[int, Interest[D]]] = {}
        self._patterns: PatternTree[Interest[D]] = PatternTree()
        self._shared: dict[tuple[int, ...], Route[D]] = {}
        self.interests: dict[int, Interest[D]] = {}

    def define(self, table: FlowTable[D], topic: TopicId, name: str) -> None:
        """A peer told us what a number means; we know it as long as any such peer is there."""
        if topic in table.topics:
            return
        table.topics.add(topic)
        state = self.topics.get(topic)
        if state is None:
            state = self.topics[topic] = TopicState(name)
            self._tree.add(name, topic, state)
        state.definers += 1

    def drop(self, table: FlowTable[D]) -> None:
        """A peer is gone, and with it its flows and the topics that only it defined."""
        self.forget_flows(table)
        for topic in table.topics:
            state = self.topics[topic]
            state.definers -= 1
            if not state.definers:
                if state.route is not None:
                    state.route.settle()
                self._tree.remove(state.name, topic)
                del self.topics[topic]

    def add(self, interest: Interest[D]) -> None:
        self.interests[interest.number] = interest
        if _wild(interest.pattern):
            self._patterns.add(interest.pattern, interest.number, interest)
        else:
            self._exact.setdefault(interest.pattern, {})[interest.number] = interest
        self._forget(interest.pattern)

    def remove(self, interest: Interest[D]) -> None:
        del self.interests[interest.number]
        if _wild(interest.pattern):
            self._patterns.remove(interest.pattern, interest.number)
        else:
            siblings = self._exact[interest.pattern]
            del siblings[interest.number]
            if not siblings:
                del self._exact[interest.pattern]
        self._forget(interest.pattern)

    def route(self, state: TopicState[D]) -> Route[D]:
        if state.route is None:
            found = [*self._exact.get(state.name, {}).values(), *self._patterns.covering(state.name)]
            found.sort(key=_number)
            key = tuple(interest.number for interest in found)
            route = self._shared.get(key)
            if route is None:
                route = self._shared[key] = Route(found)
            state.route = route
        return state.route

    def remember(self, table: FlowTable[D], flow: bytes) -> Route[D]:
        """File the route of a flow's topic, until the topic's route changes."""
        state = self.topics[topic_of(flow)]
        route = table.routes[flow] = self.route(state)
        state.remembered[table.number, flow] = table
        return route

    def forget_flows(self, table: FlowTable[D]) -> None:
        """A link with too many flows starts anew: they come back as they are used."""
        for flow in table.routes:
            self.topics[topic_of(flow)].remembered.pop((table.number, flow), None)
        table.routes.clear()

    def settle(self) -> None:
        """Bring every interest's counts up to date."""
        for state in self.topics.values():
            if state.route is not None:
                state.route.settle()

    def _forget(self, pattern: str) -> None:
        self._shared.clear()  # only for sharing: a route still in use stays as it is
        for state in self._tree.covered(pattern):
            if state.route is None:
                continue
            state.route.settle()
            state.route = None
            for (_, flow), table in state.remembered.items():
                table.routes.pop(flow, None)
            state.remembered.clear()


def topic_of(flow: bytes) -> TopicId:
    return TopicId(int.from_bytes(flow[4:12], "little"))


def _numbers(interests: Iterable[Interest[D]]) -> dict[D, tuple[SubscriptionId, ...]]:
    numbers: dict[D, tuple[SubscriptionId, ...]] = {}
    for interest in interests:
        numbers[interest.destination] = (*numbers.get(interest.destination, ()), interest.id)
    return numbers


def _wild(pattern: str) -> bool:
    return "+" in pattern or "#" in pattern


def _number(interest: Interest[D]) -> int:
    return interest.number
