"""What a plan makes one broker do: note the topology as it is, write its part down, open and close links, and count
what is under way.
"""

from typing import Protocol

from stentor.model.colours.colour import Colour
from stentor.model.colours.plan import NO_PLAN, Side, TopologyChange, TopologyPlan
from stentor.model.messages import Presence
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.relay import Relay
from stentor.protocols.overlay.connectivity_graph import ConnectivityGraph
from stentor.protocols.overlay.exits import ExitChoices
from stentor.protocols.overlay.plan_check import plan_refusal
from stentor.protocols.overlay.planned_topology import PlannedTopology

_PAUSE_ROUNDS = 8  # before a link that did not come is asked for again


class PlannedLinks(Protocol):
    """The links of a broker, as plans change them."""

    def has_link(self, change: TopologyChange) -> bool:
        """Return whether a link is there."""
        ...

    def open_link(self, change: TopologyChange) -> None:
        """Open a link that is to come, if it begins here; let events use one that was lost and is there again."""
        ...

    def close_link(self, change: TopologyChange) -> None:
        """Close a link for good; hide one again that an undone plan had brought back."""
        ...

    def finish(self, change: TopologyChange) -> None:
        """Make a link what it shall be, and write that down."""
        ...

    def requests(self, level: int) -> tuple[TopologyChange, ...]:
        """Return what this broker would have changed of its links of a level."""
        ...

    def write_down(self, scope: str, plan: TopologyPlan) -> None:
        """Have a plan written down; `on_written` follows."""
        ...

    def strike_out(self, scope: str, number: int) -> None:
        """Have it written down that a plan is over."""
        ...

    def remember_roots(self, scope: str, roots: tuple[str, ...]) -> None:
        """Have the root group of a scope written down."""
        ...


class ScopePlanWork:
    """What the plans of one scope make a broker do."""

    def __init__(
        self,
        level: int,
        graph: ConnectivityGraph,
        choices: ExitChoices,
        relay: Relay[Outbox],
        links: PlannedLinks,
        *,
        is_by_tree: bool,
    ) -> None:
        """`is_by_tree` is whether events go by the scope's tree, whatever links cost."""
        self._level = level
        self._scope = graph.context.scopes[level]
        self._is_by_tree = is_by_tree
        self._graph = graph
        self._choices = choices
        self._relay = relay
        self._links = links
        self.topology: PlannedTopology | None = None  # of the plan that is under way
        self.finished: list[PlannedTopology] = []  # of plans whose closed links may still be spoken of
        self.generation = 0  # counts changes of what colours mean
        self._pauses: dict[str, int] = {}  # rounds until a link that did not come is asked for again, by its far end
        self.root_group: tuple[str, ...] | None = None  # that plans have given the scope
        # Numbers of plans. Invariant: what is written down was being written down.
        self._writing = NO_PLAN
        self._written = NO_PLAN
        self._write_failure = ""  # why the last attempt failed

    def refusal(self, plan: TopologyPlan) -> str:
        if self._is_by_tree and any(change.is_ordered_cost for change in plan.changes):
            title = self._scope or "the network"
            return f"in {title} events go by the tree, whatever links cost: leave costs as they are"
        return plan_refusal(self._finished_graph, self._level, plan)

    @property
    def _finished_graph(self) -> ConnectivityGraph:
        """What is known of the network, as finished plans have left it."""
        return self._graph.edited(self._as_finished) if self.finished else self._graph

    def _as_finished(self, presence: Presence) -> Presence:
        """Return what is said of a member, without links that finished plans have removed and some still speak of."""
        for topology in self.finished:
            presence = topology.edit(presence, Side.AFTER)
        return presence

    def announce(self, plan: TopologyPlan) -> None:
        self.topology = PlannedTopology(self._graph, plan, self.finished)
        self._choices.begin(self._graph.context, self._level)
        self.generation += 1

    def prepare(self) -> None:
        if self.topology is not None:
            self._write_down(self.topology.plan)
        for change in self._own_changes():
            if change.comes:
                self._links.open_link(change)

    def complaint(self) -> str:
        if self.topology is None:
            return ""
        plan = self.topology.plan
        if plan.concerns(self._graph.context.name) and self._written != plan.number:
            failure = self._write_failure
            return f"cannot write the plan down: {failure}" if failure else "has not written the plan down yet"
        for change in self._own_changes():
            if change.comes and not self._links.has_link(change):
                return f"has no link yet between {change.near} and {change.far}"
        return self.topology.complaint()

    def under_way(self, colour: Colour) -> tuple[int, int]:
        return self._relay.under_way(self._level, colour)

    def switch(self) -> None:
        self.generation += 1

    def finish(self) -> None:
        topology = self.topology
        self._forget()
        if topology is not None:
            if self._graph.context.name in topology.plan.choosers:
                self._choices.adopt(self._graph.context, self._level)
            self.finished.append(topology)  # before links are closed: with these, ways are worked out anew
            self._make_so(topology.plan)

    def _make_so(self, plan: TopologyPlan) -> None:
        """Make our links, and the root group, what a plan says, and write that down."""
        for change in self._own(plan):
            self._links.finish(change)
        if plan.roots is not None:
            self.root_group = plan.roots
            self._links.remember_roots(self._scope, plan.roots)
        self._strike_out(plan)

    def withdraw(self) -> None:
        if self.topology is not None:
            self._undo(self.topology.plan)
        self._forget()

    def _undo(self, plan: TopologyPlan) -> None:
        for change in self._own(plan):
            if change.comes:
                if not self._links.has_link(change):
                    self._pauses[change.far] = _PAUSE_ROUNDS
                self._links.close_link(change)
        self._strike_out(plan)

    def conclude(self, plan: TopologyPlan, *, is_finished: bool) -> None:
        if not is_finished:
            self._undo(plan)
            return
        for change in self._own(plan):
            if change.comes:
                self._links.open_link(change)
        self._make_so(plan)

    # ---- what the next start must know

    def _write_down(self, plan: TopologyPlan) -> None:
        """Have a plan written down before it is switched: if this broker is started again in the midst of it, it can
        find out what has become of the plan, and do its part.
        """
        if plan.concerns(self._graph.context.name) and plan.number not in (self._writing, self._written):
            self._writing = plan.number
            self._links.write_down(self._scope, plan)

    def on_written(self, number: int, failure: str = "") -> None:
        """A plan is written down; with a reason, it could not be."""
        if number == self._writing:
            self._write_failure = failure
            self._written = NO_PLAN if failure else number
            self._writing = NO_PLAN

    def _strike_out(self, plan: TopologyPlan) -> None:
        if plan.concerns(self._graph.context.name):
            self._links.strike_out(self._scope, plan.number)
        if plan.number in (self._writing, self._written):
            self._writing = self._written = NO_PLAN
            self._write_failure = ""

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

    def has_nearer_exits(self) -> bool:
        return self._choices.has_nearer(self._finished_graph.exits, self._level)

    def _forget(self) -> None:
        self.topology = None
        self.generation += 1

    def _own_changes(self) -> list[TopologyChange]:
        """Return what the plan that is under way changes of our own links."""
        return [] if self.topology is None else self._own(self.topology.plan)

    def _own(self, plan: TopologyPlan) -> list[TopologyChange]:
        """Return what a plan changes of our own links."""
        name = self._graph.context.name
        return [change for change in plan.changes if name in (change.near, change.far)]
