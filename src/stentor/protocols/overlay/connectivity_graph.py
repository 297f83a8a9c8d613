"""The connectivity graph: what a broker knows of the network, abbreviated, and the best hop to each unit that it sees.

Its nodes are the members of the scopes around the broker: the brokers of its cluster, the other clusters of its
super-cluster, and so on. What is inside another unit is not seen. An edge stands if both its ends speak of it, and
leads from a unit to one of the same or a higher level: so traffic between members of a unit never leaves it. Of several
links between two units each is known, by its number, and the cheapest counts.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator

from stentor.model.context import Context
from stentor.model.messages import Presence
from stentor.protocols.overlay.exits import ExitTable
from stentor.protocols.overlay.path_lengths import PathLengths
from stentor.protocols.overlay.shortest_paths import Cost, Edge, RoutingCache

Links = dict[int, int]  # from a unit to another one: what each costs, by its number


class ConnectivityGraph:
    """The presences of all members of all scopes around a broker, and the routes that follow from them. Invariants,
    asserted by `validate`:

    `_advertised` is what the presences say, `_advertised_by` the same the other way round; an edge is drawn if and only
    if it stands, and `_edges_from` has just those that are drawn
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.cache = RoutingCache(context.name, context.depth)
        self.members: tuple[dict[str, Presence], ...] = tuple({} for _ in range(context.depth))  # by level
        self._advertised: dict[str, dict[str, Links]] = {}  # of whom a unit speaks, and by which links
        self._edges_from: defaultdict[str, set[str]] = defaultdict(set)  # to where edges were drawn from a unit
        self._advertised_by: defaultdict[str, set[str]] = defaultdict(set)  # who speaks of a unit
        self._paths: dict[int, PathLengths] = {}  # by level, as long as nothing changes
        self._exits: ExitTable | None = None  # as long as nothing changes

    def validate(self) -> None:
        for level, members in enumerate(self.members):
            for unit, presence in members.items():
                assert (unit, level) == (presence.unit, self.context.level(unit)), f"{unit} is not of level {level}"
                assert self._advertised[unit] == _links_of(presence), f"{unit} says something else"
        spoken = {(near, far) for near, ends in self._advertised.items() for far in ends}
        assert spoken == {(near, far) for far, ends in self._advertised_by.items() for near in ends}, "mentions differ"
        drawn = {(near, far): Edge(level, cost) for near, far, level, cost in self.cache.edges()}
        assert drawn == {pair: edge for pair in spoken if (edge := self._edge(*pair))}, "an edge that does not stand"
        assert drawn.keys() == {(near, far) for near, ends in self._edges_from.items() for far in ends}, "leads differ"
        self.cache.validate()

    def find(self, unit: str) -> Presence | None:
        level = self.context.level(unit)
        return None if level is None else self.members[level].get(unit)

    def take(self, presence: Presence) -> None:
        """Take in what is said of a unit, and draw the edges that follow from it."""
        unit = presence.unit
        level = self.context.level(unit)
        assert level is not None, f"{unit} is none of our business"
        self._forget_derived()
        former = self._advertised.get(unit, {})
        spoken = _links_of(presence)
        self.members[level][unit] = presence
        self._advertised[unit] = spoken
        for other in former.keys() - spoken.keys():
            self._advertised_by[other].discard(unit)
        for other in spoken:
            self._advertised_by[other].add(unit)
        for far in sorted(former.keys() | spoken.keys()):
            self._draw(unit, far)
        for near in sorted(self._advertised_by[unit]):
            self._draw(near, unit)

    def drop(self, unit: str) -> None:
        """Forget what is said of a unit, as if nobody had ever spoken of it."""
        level = self.context.level(unit)
        if level is None or self.members[level].pop(unit, None) is None:
            return
        self._forget_derived()
        former = self._advertised.pop(unit, {})
        for far in sorted(former):
            self._advertised_by[far].discard(unit)
            self._draw(unit, far)
        for near in sorted(self._advertised_by[unit]):
            self._draw(near, unit)

    def edited(self, edit: Callable[[Presence], Presence]) -> "ConnectivityGraph":
        """Return the graph that there would be if members said something else of themselves."""
        graph = ConnectivityGraph(self.context)
        for members in self.members:
            for presence in members.values():
                graph.take(edit(presence))
        return graph

    def rebuild(self) -> bool:
        """Draw all edges and find all paths anew from what is said; return whether anything was not as it should be."""
        fresh = self.edited(lambda presence: presence)
        was_right = self.cache.same_as(fresh.cache)
        self.cache = fresh.cache
        self._advertised = fresh._advertised
        self._edges_from = fresh._edges_from
        self._advertised_by = fresh._advertised_by
        self._forget_derived()
        return not was_right

    def _forget_derived(self) -> None:
        """Forget what is worked out from what is said when somebody asks for it."""
        self._paths.clear()
        self._exits = None

    def _draw(self, near: str, far: str) -> None:
        """Draw the edge between two units, if it stands; the units around us are drawn from what is inside them."""
        edge = self._edge(near, far)
        if edge is not None:
            self._edges_from[near].add(far)
            self.cache.set_edge(near, far, *edge)
        elif far in self._edges_from[near]:
            self._edges_from[near].remove(far)
            self.cache.remove_edge(near, far)

    def _edge(self, near: str, far: str) -> Edge | None:
        """Return the edge between two units, if it stands: it costs what the cheapest link does of which both speak."""
        units, level = self.context.units, self.context.level(far)
        if level is None or near in units[1:] or far in units:
            return None
        links, answered = self._advertised.get(near, {}).get(far, {}), self._answered(far, near, level)
        cost = min((cost for link, cost in links.items() if link in answered), default=None)
        return None if cost is None else Edge(level, cost)

    def _answered(self, unit: str, speaker: str, level: int) -> Links:
        """Return the links of which a unit speaks, too; it sees of the other end what is on its own level."""
        seen = speaker if self.context.level(speaker) == level else self.context.units[level]
        return self._advertised.get(unit, {}).get(seen, {})

    def reaches(self, unit: str) -> bool:
        return unit in self.context.units or self.cache.distance(unit) is not None

    def distance(self, unit: str) -> Cost | None:
        return self.cache.distance(unit)

    @property
    def exits(self) -> ExitTable:
        """By which units events may leave ours."""
        if self._exits is None:
            self._exits = ExitTable(self.context, self.cache)
        return self._exits

    def paths(self, level: int) -> PathLengths:
        """Return the paths between those members of a level that can be reached, by links that both ends speak of."""
        if level not in self._paths:
            reached = {each.unit: each for each in self.present(level) if self.reaches(each.unit)}
            spoken = {unit: {gateway.unit for gateway in each.gateways} for unit, each in reached.items()}
            self._paths[level] = PathLengths(
                {unit: {far for far in near if unit in spoken.get(far, ())} for unit, near in spoken.items()}
            )
        return self._paths[level]

    def present(self, level: int) -> Iterator[Presence]:
        """Yield the members of a level, in the order of their names."""
        for unit in sorted(self.members[level]):
            presence = self.members[level][unit]
            if not presence.left:
                yield presence

    def lost(self) -> list[str]:
        """Return the members that are known and cannot be reached: dead, or on the other side of a partition."""
        return [
            presence.unit
            for level in range(self.context.depth)
            for presence in self.present(level)
            if not self.reaches(presence.unit)
        ]


def _links_of(presence: Presence) -> dict[str, Links]:
    """Return the links of which a unit speaks, by the unit to which they lead."""
    found: dict[str, Links] = {}
    for gateway in () if presence.left else presence.gateways:
        found.setdefault(gateway.unit, {})[gateway.link] = gateway.cost
    return found
