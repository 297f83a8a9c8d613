"""The network oracle: what brokers should know of a network, from who is alive and how they are linked.

It works that out by other means than brokers do. A scope's brokers that are joined by links inside the scope are a
component of it. A unit is whole if those of its brokers that meet in a component of the scope around it also meet
inside the unit: only then can it be abbreviated to one node. Where units are not whole little can be promised, and only
that is checked.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import msgspec

from stentor.model.attribute import Value
from stentor.model.batch import Rows
from stentor.model.filter import Filter
from stentor.model.ids import link_number
from stentor.model.messages import Gateway, Presence
from stentor.model.routing_state import ExitNumbers
from stentor.nodes.network.network import BrokerNetwork
from stentor.protocols.dissemination.profiles import MemberProfile
from stentor.protocols.overlay.connectivity_graph import ConnectivityGraph
from stentor.simulation.clients.workload import covers
from stentor.simulation.outcome import Anomaly

Attributes = Mapping[str, Value]
Wants = Callable[[str, Attributes], bool]
Part = frozenset[str]  # brokers of a unit that are joined inside it
Cost = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A broker that is alive, as it really is, and what is to be checked: its network."""

    numbers: tuple[int, ...]  # outermost first
    address: str
    links: Mapping[str, int]  # to other brokers, and what they cost from here
    wants: tuple[Wants, ...]  # of its clients
    network: BrokerNetwork


class NetworkOracle:
    """The true network, and whether the brokers' pictures of it are right."""

    def __init__(self, spots: Mapping[str, BrokerView]) -> None:
        self.brokers = spots
        self._parts: dict[str, dict[str, Part]] = {}  # by scope and broker
        for scope in {prefix for name in spots for prefix in _around(name)}:
            self._parts[scope] = self._components(scope)

    def _components(self, scope: str) -> dict[str, Part]:
        inside = {name for name in self.brokers if _within(name, scope)}
        found: dict[str, Part] = {}
        for name in inside:
            if name in found:
                continue
            reached, fresh = {name}, [name]
            while fresh:
                for peer in self.brokers[fresh.pop()].links:
                    if peer in inside and peer not in reached:
                        reached.add(peer)
                        fresh.append(peer)
            found.update(dict.fromkeys(reached, frozenset(reached)))
        return found

    def component(self, name: str, scope: str) -> Part:
        """The brokers of a scope that one of them is joined with inside it."""
        return self._parts[scope][name]

    def parts(self, name: str, scope: str) -> dict[str, Part]:
        """The members of a scope that a broker can be joined with, and what of them."""
        depth = scope.count("/") + 2 if scope else 1
        found: defaultdict[str, set[str]] = defaultdict(set)
        for each in self.component(name, scope):
            found[_prefix(each, depth)].add(each)
        return {unit: frozenset(part) for unit, part in sorted(found.items())}

    def is_whole(self, name: str, scope: str) -> bool:
        """Whether all units in a broker's component of a scope are, and those in them."""
        return all(
            len(part) == 1 if unit in self.brokers else self._joined(unit, part)
            for unit, part in self.parts(name, scope).items()
        )

    def _joined(self, unit: str, part: Part) -> bool:
        one = min(part)
        return self.component(one, unit) == part and self.is_whole(one, unit)

    def presence(self, unit: str, part: Part) -> Presence:
        """What the speaker of a unit should say of it; its version is anybody's guess."""
        speaker = self._speaker(unit, part)
        gateways = [
            Gateway(_seen(name, peer), link_number(name, peer), cost)
            for name in part
            for peer, cost in self.brokers[name].links.items()
            if not _within(peer, unit)
        ]
        level = speaker.count("/") - unit.count("/")
        depth = unit.count("/") + 2
        return Presence(
            unit=unit,
            version=0,
            speaker=speaker,
            number=self._number(unit, speaker, level),
            address=self.brokers[speaker].address,
            gateways=tuple(sorted(gateways)),
            members=len({_prefix(name, depth) for name in part}),
        )

    def _number(self, unit: str, speaker: str, level: int) -> int:
        """The number that a unit has by its speaker's own word: what the file says is a wish."""
        known = self.brokers[speaker].network.gateways.graph.find(unit)
        return self.brokers[speaker].numbers[::-1][level] if known is None else known.number

    def _speaker(self, unit: str, part: Iterable[str]) -> str:
        """The first broker of the first member, level by level."""
        while unit not in self.brokers:
            depth = unit.count("/") + 2
            unit = min(_prefix(name, depth) for name in part if _within(name, unit))
        return unit

    def wanted(self, part: Part, topic: str, attributes: Attributes) -> bool:
        return any(wants(topic, attributes) for name in part for wants in self.brokers[name].wants)

    # ---- are the brokers right?

    def check(self, events: list[tuple[str, dict[str, Value]]]) -> Iterator[Anomaly]:
        """All that is wrong with anybody's picture of the network, once it has settled; `events` are examples."""
        for name, broker in self.brokers.items():
            for peer in broker.links:
                if peer not in self.brokers or name not in self.brokers[peer].links:
                    yield Anomaly("one-sided", f"{name} has a link to {peer}, which has none to it")
        for name, broker in self.brokers.items():
            network = broker.network
            for level, scope in enumerate(network.context.scopes):
                if self.is_whole(name, scope):
                    parts = self.parts(name, scope)
                    yield from self._check_numbers(scope, parts)
                    yield from self._check_presences(name, network, level, parts)
                    yield from self._check_profiles(name, network, level, parts, events)
            yield from check_cache(name, network.gateways.graph)
            yield from check_exits(name, network.gateways.graph)
            yield from _check_rests(name, network)
        yield from self._check_ways()

    def _check_numbers(self, scope: str, parts: dict[str, Part]) -> Iterator[Anomaly]:
        numbers = {unit: self.presence(unit, part).number for unit, part in parts.items()}
        if len(set(numbers.values())) < len(numbers):
            yield Anomaly("numbers", f"two members of {scope!r} have one number: {numbers}")

    def _check_presences(
        self, name: str, network: BrokerNetwork, level: int, parts: dict[str, Part]
    ) -> Iterator[Anomaly]:
        graph = network.gateways.graph
        known = {each.unit: each for each in graph.present(level) if graph.reaches(each.unit)}
        if known.keys() != parts.keys():
            missing, spare = sorted(parts.keys() - known.keys()), sorted(known.keys() - parts.keys())
            yield Anomaly("members", f"{name} does not reach {missing} and believes to reach {spare}")
        for unit, part in parts.items():
            if unit in known:
                true, told = self.presence(unit, part), known[unit]
                if true != msgspec.structs.replace(told, version=0, members=true.members) or told.members < 1:
                    yield Anomaly("presence", f"{name} was told {told} and true is {true}")

    def _check_profiles(
        self,
        name: str,
        network: BrokerNetwork,
        level: int,
        parts: dict[str, Part],
        events: list[tuple[str, dict[str, Value]]],
    ) -> Iterator[Anomaly]:
        context, relay = network.context, network.relay
        own = context.units[level]
        numbers = {unit: self.presence(unit, part).number for unit, part in parts.items()}
        for topic, attributes in events:
            wanted = {unit: self.wanted(part, topic, attributes) for unit, part in parts.items()}
            for unit in parts if network.peers else ():  # who is alone tells nobody
                told = network.profiles.members[level].get(unit)
                if _matches(told, topic, attributes) != wanted[unit]:
                    not_ = "" if wanted[unit] else "not "
                    yield Anomaly("profile", f"at {name}, {unit} does {not_}want {topic} {attributes}: {_wants(told)}")
            mask = sum(1 << numbers[unit] for unit, wants in wanted.items() if wants and unit != own)
            found = relay.choose(network.route(topic), level, Rows([attributes]))
            if (found if isinstance(found, int) else int(found[0])) != mask:
                yield Anomaly("index", f"at {name}, {topic} {attributes} is for {found} of level {level}, not {mask}")
        for unit, part in parts.items() if network.peers else ():
            profile = network.profiles.members[level].get(unit)
            counted = 0 if profile is None else profile.predicates
            true = sum(len(self.brokers[each].wants) for each in part)
            if counted != true:
                yield Anomaly("count", f"at {name}, {counted} subscriptions stand behind {unit}, and {true} are true")

    def _check_ways(self) -> Iterator[Anomaly]:
        """From hop to hop every member comes nearer, until it is reached, by the exits that parcels name."""
        for name, broker in self.brokers.items():
            for scope in broker.network.context.scopes:
                if not self.is_whole(name, scope):
                    continue
                for unit in self.parts(name, scope):
                    way, exits = [name], ExitNumbers()
                    while way[-1] and way.count(way[-1]) == 1 and not _within(way[-1], unit):
                        following, exits = self.brokers[way[-1]].network.routes.way_towards(unit, exits)
                        way.append(following)
                    if not way[-1] or not _within(way[-1], unit):
                        yield Anomaly("way", f"from {name} to {unit}: {' '.join(way)}")


def check_cache(name: str, graph: ConnectivityGraph) -> Iterator[Anomaly]:
    """Whether the routing cache holds shortest paths, and first hops on them, in the graph that the broker has."""
    distances, hops = _shortest(graph)
    units = {presence.unit for level in range(graph.context.depth) for presence in graph.present(level)}
    for unit in sorted(units - set(graph.context.units)):
        found = graph.distance(unit), graph.cache.hop(unit)
        if found != (distances.get(unit), hops.get(unit)):
            true = distances.get(unit), hops.get(unit)
            yield Anomaly("cache", f"{name} reaches {unit} by {found}, and the best is {true}")


def check_exits(name: str, graph: ConnectivityGraph) -> Iterator[Anomaly]:
    """Whether those exits are open from which the rest of the way costs least, as far as higher levels matter."""
    context, edges = graph.context, list(_edges(graph))
    reached = _distances(edges, context.name, context.depth)
    for level in range(context.depth - 1):
        outer = [(near, far, step) for near, far, step in edges if any(step[: context.depth - 1 - level])]
        rests: defaultdict[str, dict[str, set[Cost]]] = defaultdict(lambda: defaultdict(set))  # by unit and exit
        for start in {near for near, _, _ in outer if near in reached and (context.level(near) or 0) <= level}:
            leaving = start if context.level(start) == level else context.units[level]
            for unit, cost in _distances(outer, start, context.depth).items():
                rests[unit][leaving].add(cost)
        for unit, costs in sorted(rests.items()):
            least = min(map(min, costs.values()))
            true = {leaving for leaving, offers in costs.items() if least in offers}
            if (context.level(unit) or 0) > level and graph.exits.open_to(level, unit) != true:
                found = sorted(graph.exits.open_to(level, unit))
                yield Anomaly("exits", f"{name} leaves for {unit} by {found} of level {level}, not {sorted(true)}")


def _distances(edges: list[tuple[str, str, Cost]], start: str, depth: int) -> dict[str, Cost]:
    """Bellman and Ford's way: as often as anything improves."""
    distances: dict[str, Cost] = {start: (0,) * depth}
    improved = True
    while improved:
        improved = False
        for near, far, step in edges:
            if near in distances:
                offer = tuple(map(sum, zip(distances[near], step, strict=True)))
                if far not in distances or offer < distances[far]:
                    distances[far], improved = offer, True
    return distances


def _shortest(graph: ConnectivityGraph) -> tuple[dict[str, Cost], dict[str, str]]:
    """Return what each unit that is reached costs, and the first hop on the way there."""
    depth, start = graph.context.depth, graph.context.name
    edges = list(_edges(graph))
    distances = _distances(edges, start, depth)
    parents: dict[str, str] = {}
    for far in distances:
        candidates = [
            (distances[near], near)
            for near, other, step in edges
            if other == far
            and near in distances
            and tuple(map(sum, zip(distances[near], step, strict=True))) == distances[far]
        ]
        if far != start:
            parents[far] = min(candidates)[1]
    hops = {}
    for far in parents:
        hop = far
        while parents[hop] != start:
            hop = parents[hop]
        hops[far] = hop
    return distances, hops


def _edges(graph: ConnectivityGraph) -> Iterator[tuple[str, str, Cost]]:
    """Edges of which both ends speak, from one unit that is not around us to another."""
    context = graph.context
    spoken = {each.unit: each for level in range(context.depth) for each in graph.present(level)}
    for near, presence in spoken.items():
        if near in context.units[1:]:
            continue
        for gateway in presence.gateways:
            far = spoken.get(gateway.unit)
            if far is None or far.unit in context.units:
                continue
            level = context.depth - 1 - far.unit.count("/")
            seen = near if near.count("/") == far.unit.count("/") else context.units[level]
            if any((back.unit, back.link) == (seen, gateway.link) for back in far.gateways):
                step = [0] * context.depth
                step[context.depth - 1 - level] = gateway.cost
                yield near, far.unit, tuple(step)


def _check_rests(name: str, network: BrokerNetwork) -> Iterator[Anomaly]:
    """Nothing is left of what was going on."""
    gateways, profiles, graph = network.gateways, network.profiles, network.gateways.graph
    if profiles.unfinished and network.peers:
        yield Anomaly("rest", f"{name} has profiles that were never told, or never heard to their end")
    if not network.settlement.is_idle:
        yield Anomaly("rest", f"{name} waits for others to know something, or has not said that it knows it")
    for level in range(1, network.context.depth):
        inside = {each.unit for each in graph.present(level - 1) if graph.reaches(each.unit)}
        presence = graph.find(network.context.units[level])
        speaks = presence is not None and presence.speaker == name and gateways.speaks(level)
        summed = profiles.summed_up(level)
        if summed != (inside if speaks else None):
            yield Anomaly("rest", f"{name} sums up {summed} at level {level}, and should {inside if speaks else None}")


def _matches(profile: MemberProfile | None, topic: str, attributes: Attributes) -> bool:
    wants = {} if profile is None else profile.wants
    return any(
        covers(pattern, topic) and (not where or _filter(where).matches(dict(attributes))) for pattern, where in wants
    )


@cache
def _filter(text: str) -> Filter:
    return Filter(text)


def _wants(profile: MemberProfile | None) -> str:
    return "nothing was told" if profile is None else f"{profile.stamp} {list(profile.wants)}"


def _around(name: str) -> Iterator[str]:
    """The scopes that hold a broker."""
    parts = name.split("/")
    return ("/".join(parts[:length]) for length in range(len(parts)))


def _within(name: str, unit: str) -> bool:
    return not unit or name == unit or name.startswith(unit + "/")


@cache
def _prefix(name: str, depth: int) -> str:
    return "/".join(name.split("/")[:depth])


@cache
def _seen(near: str, far: str) -> str:
    """What a broker sees of another one: the largest unit that it is not in itself."""
    ours, theirs = near.split("/"), far.split("/")
    length = next(place for place, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other)
    return "/".join(theirs[: length + 1])
