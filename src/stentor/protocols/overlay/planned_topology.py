"""A planned topology: the connectivity graph as it was before a plan, and as it will be after it.

What members say of their links changes while a plan is under way: new links come up, and others are closed in the end.
Neither may move the way of an event before its time. Links have numbers, so a broker knows which of them a plan means:
before the plan it leaves out those that come, and after it those that go; one that costs something else has the cost
that was told when the plan was heard of, or the plan's. A link that fails is missing from both at once.
"""

from collections.abc import Iterator, Sequence

import msgspec

from stentor.model.colours.plan import Side, TopologyChange, TopologyPlan
from stentor.model.ids import link_number
from stentor.model.messages import Gateway, Presence
from stentor.model.scope import ScopePath
from stentor.protocols.overlay.connectivity_graph import ConnectivityGraph
from stentor.protocols.overlay.shortest_paths import RoutingCache

_KEPT_ROUNDS = 3  # what has become of the links of a finished plan is known everywhere by then


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
        self._own_costs = {  # that our own links have after the plan, by the neighbour at the other end
            change.far if change.near == own else change.near: change.after
            for change in plan.changes
            if not (change.comes or change.goes)
            and own in (change.near, *(() if change.is_measured else (change.far,)))
        }
        # By the unit that says it, and the number of the link; the unit of which it speaks.
        self._changes: dict[str, dict[int, TopologyChange]] = {}
        self._others: dict[tuple[str, int], str] = {}
        for change in plan.changes:
            for unit, other in self._seen(change):
                number = link_number(change.near, change.far)
                self._changes.setdefault(unit, {})[number] = change
                self._others[unit, number] = other
        self._costs = dict(self._find_costs(finished))  # before the plan, by unit and number
        for each in finished:
            each._yield_to(self)

    def _yield_to(self, newer: "PlannedTopology") -> None:
        """Say nothing more of links that another plan changes once more."""
        for unit, changes in newer._changes.items():
            for number in changes:
                self._changes.get(unit, {}).pop(number, None)
        for neighbour in newer._own_links:
            self._own_links.pop(neighbour, None)
            self._own_costs.pop(neighbour, None)

    def _seen(self, change: TopologyChange) -> Iterator[tuple[str, str]]:
        """Yield who, of the units that we see, speaks of a link, and of whom; what is measured is of one direction."""
        directions = ((change.near, change.far), (change.far, change.near))
        for near, far in directions[:1] if change.is_measured else directions:
            here, there = ScopePath.parse(near).parts, ScopePath.parse(far).parts
            level = ScopePath(here).level_of_difference(ScopePath(there))
            other = "/".join(there[: len(there) - level])
            for each in range(level + 1):
                unit = "/".join(here[: len(here) - each])
                if self._graph.context.level(unit) is not None:
                    yield unit, other

    def _find_costs(self, finished: Sequence["PlannedTopology"]) -> Iterator[tuple[tuple[str, int], int]]:
        """Yield what links cost of which the plan changes that."""
        for unit, changes in self._changes.items():
            known = self._graph.find(unit)
            for each in finished:
                known = None if known is None else each.edit(known, Side.AFTER)
            for gateway in () if known is None else known.gateways:
                if gateway.link in changes:
                    yield (unit, gateway.link), gateway.cost

    # ---- what brokers say, edited

    def edit(self, presence: Presence, side: Side) -> Presence:
        """Return what is said of a member, with the links that it has on one side of the plan."""
        changes = self._changes.get(presence.unit)
        if not changes:
            return presence
        gateways = []
        for gateway in presence.gateways:
            change = changes.get(gateway.link)
            if change is None:
                gateways.append(gateway)
            elif not (change.comes if side is Side.BEFORE else change.goes):
                before = self._costs.get((presence.unit, gateway.link), gateway.cost)
                is_told = side is Side.AFTER and change.comes  # a link has the cost with which it comes up
                cost = gateway.cost if is_told else before if side is Side.BEFORE else change.after
                gateways.append(Gateway(gateway.unit, gateway.link, cost))
        return msgspec.structs.replace(presence, gateways=tuple(gateways))

    def hides(self, neighbour: str, side: Side) -> bool:
        """Return whether our own link to a neighbour is not used on one side of the plan."""
        change = self._own_links.get(neighbour)
        return change is not None and (change.comes if side is Side.BEFORE else change.goes)

    def own_cost(self, neighbour: str, side: Side) -> int | None:
        """Return what the plan makes our own link to a neighbour cost on one side of it; None if it leaves that."""
        return self._own_costs.get(neighbour) if side is Side.AFTER else None

    def complaint(self) -> str:
        """Return which link that is to come nobody has spoken of yet; "" if all are there."""
        for unit, changes in sorted(self._changes.items()):
            known = self._graph.find(unit)
            told = set() if known is None or known.left else {gateway.link for gateway in known.gateways}
            for number, change in changes.items():
                if change.comes and number not in told:
                    return f"knows of no new link from {unit} to {self._others[unit, number]} yet"
        return ""

    def grow_old(self) -> bool:
        """A wave has come since the plan was finished; return whether closed links may still be spoken of."""
        self._rounds += 1
        return 0 < self._rounds < _KEPT_ROUNDS

    # ---- whose way changes

    def moved(self, paths: RoutingCache) -> set[str]:
        """Return the units to which one of some best paths leads over a link that the plan changes, or through a unit
        in which a broker chooses its exits again: we do not see which way events take from there.

        Any best path counts: of two that cost the same, a broker on the way may have chosen the other one.
        """
        pairs = {(unit, self._others[unit, number]) for unit, changes in self._changes.items() for number in changes}
        crossed = set(self._choosers_seen())
        pairs |= {(near, far) for near, far, *_ in paths.edges() if far in crossed}
        return paths.units_over(sorted(pairs))

    def _choosers_seen(self) -> Iterator[str]:
        """Yield what we see of the units of others that choose their exits again."""
        context = self._graph.context
        for chooser in self.plan.choosers:
            if chooser != context.name:
                yield context.view(ScopePath.parse(chooser))[1]
