"""The routing cache: the best next hop to every unit, worked out anew only where a change of an edge matters.

Shortest paths from one vertex of a changing graph, in the spirit of Ramalingam and Reps: what hung on an edge that is
gone or dearer loses its label, what an edge improves gets a better one, and one Dijkstra over just those settles both.
"""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

Cost = tuple[int, ...]  # per level, highest first: however much of a lower level never outweighs a higher one


class Edge(NamedTuple):
    """One step from a unit to the next."""

    level: int
    cost: int


class PathLabel(NamedTuple):
    """How a unit is best reached. The smallest label wins, so the winner does not depend on the order of changes."""

    distance: Cost
    before: Cost  # the distance of the parent
    parent: str


class RoutingCache:
    """The abbreviated graph that a broker holds, and the tree of best paths from the vertex, the broker itself.
    Invariants, asserted by `validate`:

    `_predecessors` is `_edges` the other way round; unless an edge is dirty, every label is what the edge from its
    parent offers, no edge offers a better one, and a unit's hop is that of its parent, or itself beside the vertex
    """

    def __init__(self, vertex: str, depth: int) -> None:
        zero = (0,) * depth
        self.vertex = vertex
        self.depth = depth
        self.recomputed = 0  # how many units were looked at anew, in total
        self._edges: dict[str, dict[str, Edge]] = {}  # near -> far -> edge
        self._predecessors: dict[str, set[str]] = {}  # far -> every near
        self._labels = {vertex: PathLabel(zero, zero, vertex)}
        self._hops: dict[str, str] = {}
        self._dirty: set[tuple[str, str]] = set()  # edges changed since the last repair
        self._formerly: dict[str, str | None] = {}  # hops as they were when changes were last taken

    def validate(self) -> None:
        edges = {(near, far) for near, ends in self._edges.items() for far in ends}
        assert edges == {(near, far) for far, ends in self._predecessors.items() for near in ends}, "edges one way only"
        if self._dirty:
            return
        reached = {unit: label for unit, label in self._labels.items() if unit != self.vertex}
        for unit, label in reached.items():
            assert label == self._offer(label.parent, unit), f"{unit} is reached by an edge that is not there"
            assert self._hops[unit] == (unit if label.parent == self.vertex else self._hops[label.parent])
        assert self._hops.keys() == reached.keys(), "a hop to a unit that is not reached"
        for near, far in edges:
            assert far == self.vertex or self._better(near, far) is None, f"{far} is nearer by {near}"

    def set_edge(self, near: str, far: str, level: int, cost: int) -> None:
        """Add an edge, or replace the one from near to far."""
        assert 0 <= level < self.depth, "an edge is of one of the levels"
        assert cost >= 1, "every edge costs something, or there would be no nearest"
        self._edges.setdefault(near, {})[far] = Edge(level, cost)
        self._predecessors.setdefault(far, set()).add(near)
        self._mark(near, far)

    def remove_edge(self, near: str, far: str) -> None:
        """Remove the edge from near to far, if there is one."""
        if self._edge(near, far) is None:
            return
        del self._edges[near][far]
        if not self._edges[near]:
            del self._edges[near]
        self._predecessors[far].remove(near)
        if not self._predecessors[far]:
            del self._predecessors[far]
        self._mark(near, far)

    def hop(self, unit: str) -> str | None:
        """The first unit after the vertex on the best path; None if no path leads there, or none is needed."""
        self._repair()
        return self._hops.get(unit)

    def distance(self, unit: str) -> Cost | None:
        """Return what the best path costs; None if there is none."""
        self._repair()
        label = self._labels.get(unit)
        return None if label is None else label.distance

    def path(self, unit: str) -> list[str]:
        """The best path, from after the vertex to the unit; empty if there is none."""
        self._repair()
        path: list[str] = []
        while unit in self._labels and unit != self.vertex:
            path.append(unit)
            unit = self._labels[unit].parent
        return path[::-1]

    def units_over(self, pairs: Iterable[tuple[str, str]]) -> set[str]:
        """Return the units to which a best path leads over one of these edges; of two that cost the same, both count.

        From where an edge ends on, paths are looked for anew: the tree from the vertex has only one path to each unit.
        """
        self._repair()
        found: set[str] = set()
        beyond: dict[str, RoutingCache] = {}
        for near, far in pairs:
            offer = self._offer(near, far)
            if offer is None:
                continue
            if far not in beyond:
                beyond[far] = self._from(far)
            for unit, label in self._labels.items():
                rest = beyond[far].distance(unit)
                if rest is not None and label.distance == tuple(map(sum, zip(offer.distance, rest, strict=True))):
                    found.add(unit)
        return found

    def _from(self, vertex: str) -> "RoutingCache":
        """Return the best paths from another unit by the same edges."""
        cache = RoutingCache(vertex, self.depth)
        for near, far, level, cost in self.edges():
            cache.set_edge(near, far, level, cost)
        return cache

    def same_as(self, other: "RoutingCache") -> bool:
        """Return whether another cache has the same edges, and knows the same ways."""
        self._repair()
        other._repair()
        return (self._edges, self._labels, self._hops) == (other._edges, other._labels, other._hops)

    def take_changes(self) -> set[str]:
        """The units whose hop is not what it was when this was last asked."""
        self._repair()
        changed = {unit for unit, hop in self._formerly.items() if self._hops.get(unit) != hop}
        self._formerly.clear()
        return changed

    def edges(self) -> Iterator[tuple[str, str, int, int]]:
        """Every edge as (near, far, level, cost), sorted."""
        for near in sorted(self._edges):
            for far, (level, cost) in sorted(self._edges[near].items()):
                yield near, far, level, cost

    def _mark(self, near: str, far: str) -> None:
        if far != self.vertex:  # nothing is reached better by coming back
            self._dirty.add((near, far))

    def _repair(self) -> None:
        """Bring the labels up to date with the edges that changed; only how they are now matters, not how they were."""
        if not self._dirty:
            return
        lost = self._lose([far for near, far in self._dirty if self._broken(near, far)])
        offers = [(near, far) for near, far in self._dirty if self._edge(near, far) is not None]
        offers += [(near, far) for far in lost for near in self._predecessors.get(far, ())]
        self._dirty.clear()
        self.recomputed += len(lost | self._relax(offers))

    def _broken(self, near: str, far: str) -> bool:
        """Return whether the best path to far took this edge, and would no longer be as good."""
        label = self._labels.get(far)
        if label is None or label.parent != near:
            return False
        offer = self._offer(near, far)
        return offer is None or offer > label

    def _lose(self, roots: list[str]) -> set[str]:
        """Take the labels of these units and of all behind them."""
        lost = set(roots)
        while roots:
            unit = roots.pop()
            behind = [child for child in self._children(unit) if child not in lost]
            lost.update(behind)
            roots += behind
        for unit in lost:
            del self._labels[unit]
            self._formerly.setdefault(unit, self._hops.pop(unit))
        return lost

    def _relax(self, offers: Iterable[tuple[str, str]]) -> set[str]:
        """Dijkstra from these edges on, as far as they improve anything; returns the units that have a new way."""
        queue = [(label, far) for near, far in offers if (label := self._better(near, far)) is not None]
        heapify(queue)
        settled: set[str] = set()
        while queue:
            label, unit = heappop(queue)
            if unit in settled:
                continue  # by a label at least as good
            settled.add(unit)
            former, self._labels[unit] = self._labels.get(unit), label
            turned = self._turn(unit, label.parent)
            if former is None or label.distance < former.distance:
                for far in self._edges.get(unit, ()):
                    if (better := self._better(unit, far)) is not None:
                        heappush(queue, (better, far))
            elif turned:
                for child in self._children(unit):  # as near as before, but the way there begins differently
                    heappush(queue, (self._labels[child], child))
        return settled

    def _turn(self, unit: str, parent: str) -> bool:
        """Let a unit's hop follow from its parent's; return whether that is another one."""
        former = self._hops.get(unit)
        hop = self._hops[unit] = unit if parent == self.vertex else self._hops[parent]
        self._formerly.setdefault(unit, former)
        return hop != former

    def _better(self, near: str, far: str) -> PathLabel | None:
        """Return the label that far would have by this edge, if that is better than its own."""
        offer, label = self._offer(near, far), self._labels.get(far)
        return None if offer is None or (label is not None and offer >= label) else offer

    def _offer(self, near: str, far: str) -> PathLabel | None:
        """Return the label that far would have by this edge; None if there is none, or near cannot be reached."""
        edge, label = self._edge(near, far), self._labels.get(near)
        if edge is None or label is None:
            return None
        index = self.depth - 1 - edge.level
        distance = label.distance
        longer = (*distance[:index], distance[index] + edge.cost, *distance[index + 1 :])
        return PathLabel(longer, distance, near)

    def _children(self, unit: str) -> list[str]:
        """Return the units whose best path comes through this one last, by an edge that is still there."""
        labels = self._labels
        return [far for far in self._edges.get(unit, ()) if far in labels and labels[far].parent == unit]

    def _edge(self, near: str, far: str) -> Edge | None:
        return self._edges.get(near, {}).get(far)
