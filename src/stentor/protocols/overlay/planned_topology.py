"""A planned topology: the connectivity graph as it was before a plan, and as it will be after it.

What members say of their links changes while a plan is under way: new links come up, and others are closed in the end.
Neither may move the way of an event before its time. So a broker notes, when it hears of a plan, how many links each of
the units that it sees has to each other one, and what they cost. Before the plan there are no more links than then, and
after it no more than the plan leaves. A link that fails is missing from both at once.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from stentor.model.colours.plan import Side, TopologyChange, TopologyPlan
from stentor.model.messages import Gateway, Presence
from stentor.model.scope import ScopePath
from stentor.protocols.overlay.connectivity_graph import ConnectivityGraph
from stentor.protocols.overlay.shortest_paths import RoutingCache

_KEPT_ROUNDS = 3  # what has become of the links of a finished plan is known everywhere by then


class _Links(NamedTuple):
    """The links that a unit has to another one; cost 0 is whatever they cost now."""

    links: int
    cost: int


class _Change(NamedTuple):
    """What a plan does to the links from a unit to another one."""

    before: _Links
    after: _Links
    comes: int  # links that are to come

    @property
    def is_of_costs(self) -> bool:
        """Whether no link comes or goes: then one that failed before the plan was heard of may come back meanwhile."""
        return not self.comes and self.before.links == self.after.links

    def on(self, side: Side) -> _Links:
        return self.before if side is Side.BEFORE else self.after


class PlannedTopology:
    """What a plan changes in the graph of one broker."""

    def __init__(
        self, graph: ConnectivityGraph, plan: TopologyPlan, finished: Sequence["PlannedTopology"] = ()
    ) -> None:
        """`finished` are plans that went before, whose closed links some may still speak of."""
        self._graph = graph
        self._rounds = 0  # since the plan was finished
        self.plan = plan
        own = graph.context.name
        self._own_links = {  # by the neighbour at the other end
            change.far if change.near == own else change.near: change
            for change in plan.changes
            if own in (change.near, change.far)
        }
        self._changes: dict[str, dict[str, _Change]] = {}  # by the unit that says it, and the unit it speaks of
        for change in plan.changes:
            directions = ((change.near, change.far), (change.far, change.near))
            for near, far in directions[:1] if change.is_measured else directions:
                for unit, other in self._seen(near, far):
                    known = self._changes.setdefault(unit, {})
                    before = known.get(other) or self._unchanged(unit, other, finished)
                    if change.comes and (unit, other) == (near, far):  # we may hear of the plan after it is up
                        before = _Change(_Links(0, 0), _Links(0, 0), 0)
                    known[other] = _changed(before, change)
        for each in finished:
            each._yield_to(self)

    def _yield_to(self, newer: "PlannedTopology") -> None:
        """Say nothing more of links that another plan changes once more."""
        for unit, changes in newer._changes.items():
            for other in changes:
                self._changes.get(unit, {}).pop(other, None)
        for neighbour in newer._own_links:
            self._own_links.pop(neighbour, None)

    def _seen(self, near: str, far: str) -> Iterable[tuple[str, str]]:
        """Return who, of the units that we see, speaks of a link, and of whom; from the side of one of its ends."""
        here, there = ScopePath.parse(near).parts, ScopePath.parse(far).parts
        level = ScopePath(here).level_of_difference(ScopePath(there))
        other = "/".join(there[: len(there) - level])
        units = ("/".join(here[: len(here) - each]) for each in range(level + 1))
        return [(unit, other) for unit in units if self._graph.context.level(unit) is not None]

    def _unchanged(self, unit: str, other: str, finished: Sequence["PlannedTopology"]) -> _Change:
        known = self._graph.find(unit)
        for each in finished:
            known = None if known is None else each.edit(known, Side.AFTER)
        now = _links_between(known, other)
        return _Change(now, now, 0)

    # ---- what brokers say, edited

    def edit(self, presence: Presence, side: Side) -> Presence:
        """Return what is said of a member, with the links that it has on one side of the plan."""
        changes = self._changes.get(presence.unit)
        if not changes:
            return presence
        gateways = []
        for gateway in presence.gateways:
            if gateway.unit in changes:
                change = changes[gateway.unit]
                most, cost = change.on(side)
                links = gateway.links if change.is_of_costs else min(gateway.links, most)
                gateways += [Gateway(gateway.unit, links, cost or gateway.cost)] if links else []
            else:
                gateways.append(gateway)
        return msgspec.structs.replace(presence, gateways=tuple(gateways))

    def hides(self, neighbour: str, side: Side) -> bool:
        """Return whether our own link to a neighbour is not used on one side of the plan."""
        change = self._own_links.get(neighbour)
        return change is not None and (change.comes if side is Side.BEFORE else change.goes)

    def complaint(self) -> str:
        """Return which link that is to come nobody has spoken of yet; "" if all are there."""
        for unit, changes in sorted(self._changes.items()):
            for other, change in sorted(changes.items()):
                known = _links_between(self._graph.find(unit), other).links
                if change.comes and known < change.before.links + change.comes:
                    return f"knows of no new link from {unit} to {other} yet"
        return ""

    def grow_old(self) -> bool:
        """A wave has come since the plan was finished; return whether closed links may still be spoken of."""
        self._rounds += 1
        return 0 < self._rounds < _KEPT_ROUNDS

    # ---- whose way changes

    def moved(self, paths: RoutingCache) -> set[str]:
        """Return the units to which one of some best paths leads over a link that the plan changes.

        Any best path counts: of two that cost the same, a broker on the way may have chosen the other one.
        """
        pairs = [(near, far) for near, changes in sorted(self._changes.items()) for far in sorted(changes)]
        return paths.units_over(pairs)


def _links_between(presence: Presence | None, other: str) -> _Links:
    """Return the links that a unit says it has to another one."""
    gateways = () if presence is None or presence.left else presence.gateways
    return next((_Links(each.links, each.cost) for each in gateways if each.unit == other), _Links(0, 0))


def _changed(known: _Change, change: TopologyChange) -> _Change:
    """Return what a plan makes of links, with one change more."""
    before, after, comes = known
    if change.comes:
        return _Change(before, _Links(after.links + 1, 0), comes + 1)
    if change.goes:
        return _Change(before, _Links(max(0, after.links - 1), after.cost), comes)
    # Of several links only the least cost is known, and stays known if the one that changes gets cheaper.
    cost = change.after if after.links == 1 else min(after.cost, change.after)
    return _Change(before, _Links(after.links, cost), comes)
