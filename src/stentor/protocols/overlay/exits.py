"""Exits: by which units of a level events leave ours, where several ways cost the same outside it.

Costs are compared level by level, the highest first, so what a path costs inside our unit only breaks a tie between
exits that are equally good outside. If that were done for each event, a change inside a unit would move paths outside
it, where nobody waits until what went by the former one has arrived. So whoever lets an event into a unit chooses the
exit once, keeps the choice as long as the outer topology leaves the same exits open, and names it in parcels.

A choice that has become much the farther one inside is changed by a plan of the scope of the unit beyond: its polls
count what goes by the former exit, and whoever chooses again holds what goes by the next one until that has come.

The *exit of level k* is the member of the scope of level k that is last on the way before it leaves our unit of level
k + 1: our own unit of that level, or one beside it.
"""

from collections.abc import Collection, Mapping
from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple

from stentor.model.context import Context
from stentor.protocols.overlay.shortest_paths import Cost, Edge, RoutingCache

Exits = frozenset[str]
_Key = tuple[int, str, Exits]  # the level of an exit, the unit beyond, and the exits that are open
_CLEARLY = 4  # of what it costs to get to an exit, a fourth less: costs that are measured differ by less all the time
_OUTSET = ""  # no unit has this name: all our brokers at once, as a vertex from which paths begin


class Way(NamedTuple):
    """How events for a unit leave a broker."""

    target: str  # the unit to which the next hop leads: the lowest exit on the way that is not our own
    exits: Mapping[int, str]  # by level the exits that had to be chosen among several


class ExitTable:
    """The exits of all levels that a connectivity graph leaves open. A graph that changes has another one."""

    def __init__(self, context: Context, cache: RoutingCache) -> None:
        self._context = context
        self._cache = cache
        self._open: dict[int, dict[str, Exits]] = {}  # by level, and by the unit beyond
        self._outer: dict[int, RoutingCache] = {}  # by level

    @cached_property
    def _edges(self) -> dict[str, list[tuple[str, Edge]]]:
        """The edges from each unit that is reached."""
        found: dict[str, list[tuple[str, Edge]]] = {}
        for near, far, level, cost in self._cache.edges():
            if self._cache.distance(near) is not None:
                found.setdefault(near, []).append((far, Edge(level, cost)))
        return found

    def open_to(self, level: int, unit: str) -> Exits:
        """Return the exits of a level from which events for a unit of a higher one go on by a best path.

        Only costs of higher levels matter: no change of this level, or of lower ones, opens an exit or closes one.
        """
        if level not in self._open:
            self._open[level] = self._find(level)
        return self._open[level].get(unit, frozenset())

    def _find(self, level: int) -> dict[str, Exits]:
        """Return the exits to each unit: those of all neighbours by which its best paths come, from outside inwards.

        One Dijkstra from all units of the level at once, by edges of higher levels.
        """
        own, zero = self._context.units[level], (0,) * self._cache.depth
        nearest: dict[str, Cost] = {}
        found: dict[str, Exits] = {}
        queue: list[tuple[Cost, str]] = []

        def relax(near: str, distance: Cost, exits: Exits) -> None:
            for far, edge in self._edges.get(near, ()):
                if edge.level > level:
                    offer = _longer(distance, edge)
                    if far not in nearest or offer < nearest[far]:
                        nearest[far], found[far] = offer, exits
                        heappush(queue, (offer, far))
                    elif offer == nearest[far]:
                        found[far] |= exits

        for near in self._edges:
            place = self.level_of(near)
            if place <= level:
                relax(near, zero, frozenset((near if place == level else own,)))
        settled: set[str] = set()
        while queue:
            distance, unit = heappop(queue)
            if unit not in settled:
                settled.add(unit)
                relax(unit, distance, found[unit])
        return found

    def resolve(
        self,
        unit: str,
        told: Mapping[int, str],
        choices: "ExitChoices",
        *,
        keep: bool = True,
        again: Collection[int] = (),
    ) -> Way:
        """Return the way of events for a unit whose parcel names exits; where it names none that is open, they leave
        from our own unit if they can, and else by the exit that was chosen before, or for units of some levels by the
        one that is chosen `again` in a plan.
        """
        target, named = unit, dict[int, str]()
        for level in reversed(range(self.level_of(unit))):
            exits, own = self.open_to(level, target), self._context.units[level]
            if not exits:
                continue  # nothing leads there
            leaving = told.get(level, "")
            if leaving not in exits:
                is_again = self.level_of(target) in again
                key = level, target, exits
                leaving = own if own in exits else choices.choose(self, key, keep=keep, is_again=is_again)
            if len(exits) > 1:
                named[level] = leaving
            if leaving != own:
                target = leaving
        return Way(target, named)

    def nearest(self, unit: str, exits: Exits) -> str:
        """Return which of these exits is on the best path to a unit now."""
        passed = [each for each in self._cache.path(unit) if each in exits]
        return passed[-1] if passed else min(exits)

    def is_clearly_nearer(self, one: str, other: str) -> bool:
        """Return whether it costs at least a quarter less to get to one exit than to another one."""
        near, far = self._cache.distance(one), self._cache.distance(other)
        if near is None or far is None:
            return False
        highest = next((pair for pair in zip(near, far, strict=True) if pair[0] != pair[1]), (1, 1))
        return _CLEARLY * highest[0] <= (_CLEARLY - 1) * highest[1]

    def targets(self, unit: str, level: int) -> set[str]:
        """Return the units to which events for a unit may go first inside the scope of a level and beyond, by whatever
        exits their parcels name.
        """
        found = {unit}
        for each in reversed(range(level, self.level_of(unit))):
            own = self._context.units[each]
            found = {
                target if leaving == own else leaving
                for target in found
                for leaving in self.open_to(each, target) or (own,)
            }
        return found

    def outer_paths(self, level: int) -> RoutingCache:
        """Return the best paths from all our brokers of the unit of a level at once, by links of this level and above:
        all paths that events may take there, whatever it costs to get to the first link.
        """
        if not level:
            return self._cache
        if level not in self._outer:
            paths = self._outer[level] = RoutingCache(_OUTSET, self._cache.depth)
            for near, ends in self._edges.items():
                if self.level_of(near) < level:
                    paths.set_edge(_OUTSET, near, 0, 1)
                for far, edge in ends:
                    if edge.level >= level:
                        paths.set_edge(near, far, *edge)
        return self._outer[level]

    def level_of(self, unit: str) -> int:
        level = self._context.level(unit)
        assert level is not None, f"{unit} is none of our business"
        return level


class ExitChoices:
    """The exits that a broker has chosen where several are open, each kept while the same ones are.

    A choice is used only if it is open, and any that is open is legal; so no damage of what is kept does harm.
    """

    def __init__(self) -> None:
        self._kept: dict[_Key, str] = {}
        self._next: dict[_Key, str] = {}  # those of the plans that are under way and have us choose again

    def choose(self, table: ExitTable, key: _Key, *, keep: bool, is_again: bool = False) -> str:
        """Return the exit by which events for a unit leave: as before, or the nearest one if they never did."""
        _, unit, exits = key
        chosen = self._next if is_again else self._kept
        known = chosen.get(key, "")
        if known in exits:
            return known
        nearest = table.nearest(unit, exits)
        if keep and len(exits) > 1:
            chosen[key] = nearest
        return nearest

    def has_nearer(self, table: ExitTable, level: int) -> bool:
        """Return whether a choice for units of a level is clearly farther inside than another that is open, too."""
        return any(
            table.level_of(unit) == level
            and table.open_to(place, unit) == exits
            and table.is_clearly_nearer(table.nearest(unit, exits), kept)
            for (place, unit, exits), kept in self._kept.items()
            if kept in exits
        )

    def begin(self, context: Context, level: int) -> None:
        """A plan of a scope is heard of: nothing is chosen in it yet for its members, the units of a level."""
        self._next = {key: each for key, each in self._next.items() if context.level(key[1]) != level}

    def adopt(self, context: Context, level: int) -> None:
        """Keep what was chosen in a plan of a scope, which is finished."""
        self._kept |= {key: each for key, each in self._next.items() if context.level(key[1]) == level}
        self.begin(context, level)

    def forget_all_but(self, table: ExitTable) -> None:
        """Forget choices among exits that are not those which a table leaves open. No plan is under way."""
        self._kept = {key: kept for key, kept in self._kept.items() if table.open_to(*key[:2]) == key[2]}
        self._next = {}


def _longer(distance: Cost, edge: Edge) -> Cost:
    index = len(distance) - 1 - edge.level
    return (*distance[:index], distance[index] + edge.cost, *distance[index + 1 :])
