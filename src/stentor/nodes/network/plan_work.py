"""What a plan makes one broker do: note the topology as it is, open and close links, and count what is under way."""

from typing import Protocol

from stentor.model.colours.colour import Colour
from stentor.model.colours.plan import TopologyChange, TopologyPlan
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.relay import Relay
from stentor.protocols.overlay.connectivity_graph import ConnectivityGraph
from stentor.protocols.overlay.plan_check import plan_refusal
from stentor.protocols.overlay.planned_topology import PlannedTopology

_PAUSE_ROUNDS = 8  # before a link that did not come is asked for again


class PlannedLinks(Protocol):
    """The links of a broker, as plans change them."""

    def has_link(self, change: TopologyChange) -> bool:
        """Return whether a link is there."""
        ...

    def open_link(self, change: TopologyChange) -> None:
        """Open a link that is to come, if it begins here."""
        ...

    def close_link(self, change: TopologyChange) -> None:
        """Close a link for good."""
        ...

    def finish(self, change: TopologyChange) -> None:
        """Make a link what it shall be, and write that down."""
        ...

    def requests(self, level: int) -> tuple[TopologyChange, ...]:
        """Return what this broker would have changed of its links of a level."""
        ...


class ScopePlanWork:
    """What the plans of one scope make a broker do."""

    def __init__(
        self, level: int, graph: ConnectivityGraph, relay: Relay[Outbox], links: PlannedLinks, *, is_by_tree: bool
    ) -> None:
        """`is_by_tree` is whether events go by the scope's tree, whatever links cost."""
        self._level = level
        self._is_by_tree = is_by_tree
        self._graph = graph
        self._relay = relay
        self._links = links
        self.topology: PlannedTopology | None = None  # of the plan that is under way
        self.finished: list[PlannedTopology] = []  # of plans whose closed links may still be spoken of
        self.generation = 0  # counts changes of what colours mean
        self._pauses: dict[str, int] = {}  # rounds until a link that did not come is asked for again, by its far end

    def refusal(self, plan: TopologyPlan) -> str:
        if self._is_by_tree and any(change.is_ordered_cost for change in plan.changes):
            scope = self._graph.context.scopes[self._level] or "the network"
            return f"in {scope} events go by the tree, whatever links cost: leave costs as they are"
        return plan_refusal(self._graph, self._level, plan)

    def announce(self, plan: TopologyPlan) -> None:
        self.topology = PlannedTopology(self._graph, plan, self.finished)
        self.generation += 1

    def prepare(self) -> None:
        for change in self._own_changes():
            if change.comes:
                self._links.open_link(change)

    def complaint(self) -> str:
        if self.topology is None:
            return ""
        for change in self._own_changes():
            if change.comes and not self._links.has_link(change):
                return f"has no link yet between {change.near} and {change.far}"
        return self.topology.complaint()

    def under_way(self, colour: Colour) -> tuple[int, int]:
        return self._relay.under_way(self._level, colour)

    def switch(self) -> None:
        self.generation += 1

    def finish(self) -> None:
        for change in self._own_changes():
            self._links.finish(change)
        if self.topology is not None:
            self.finished.append(self.topology)
        self._forget()

    def withdraw(self) -> None:
        for change in self._own_changes():
            if change.comes:
                if not self._links.has_link(change):
                    self._pauses[change.far] = _PAUSE_ROUNDS
                self._links.close_link(change)
        self._forget()

    def rotate(self) -> None:
        self._pauses = {far: rounds - 1 for far, rounds in self._pauses.items() if rounds > 1}
        kept = [topology for topology in self.finished if topology.grow_old()]
        if len(kept) < len(self.finished):
            self.finished = kept
            self.generation += 1

    def keep_to(self, plan: TopologyPlan | None) -> None:
        known = None if self.topology is None else self.topology.plan.number
        if plan is None and known is not None:
            self._forget()
        elif plan is not None and known != plan.number:
            self.announce(plan)

    def requests(self) -> tuple[TopologyChange, ...]:
        return tuple(change for change in self._links.requests(self._level) if change.far not in self._pauses)

    def _forget(self) -> None:
        self.topology = None
        self.generation += 1

    def _own_changes(self) -> list[TopologyChange]:
        """Return the changes of our own links."""
        name = self._graph.context.name
        changes = () if self.topology is None else self.topology.plan.changes
        return [change for change in changes if name in (change.near, change.far)]
