"""Route computation: the connectivity graph becomes routing states for each scope and colour, which the relay goes by.

States are computed from scratch when the graph has changed, at the end of a step. Members of a scope share 64 numbers,
which its root gives out. While a plan is under way in a scope there are two graphs, the one before it and the one after
it; with plans in several scopes, as many as parcels ask for. Where several exits of a unit are equally good outside it,
the one that a parcel names is taken, and else the one that was chosen before.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from stentor.machine import Step
from stentor.model.colours.plan import Side
from stentor.model.messages import Presence
from stentor.model.routing_state import ExitNumbers, RoutingState, RoutingTables, Sides
from stentor.nodes.network.colouring import Colouring
from stentor.nodes.network.neighbour_link import NeighbourLink
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.member_interests import InterestIndex
from stentor.protocols.dissemination.profiles import Profiles
from stentor.protocols.dissemination.relay import Relay
from stentor.protocols.neighbours import Neighbour
from stentor.protocols.overlay.connectivity_graph import ConnectivityGraph
from stentor.protocols.overlay.exits import ExitChoices, Way
from stentor.protocols.overlay.gateways import Gateways
from stentor.protocols.overlay.planned_topology import PlannedTopology
from stentor.wire.parcel import Masks


class RouteComputation:
    """Keeps the relay and the profiles of one broker up to date with its graph."""

    def __init__(
        self,
        gateways: Gateways,
        profiles: Profiles,
        relay: Relay[Outbox],
        interests: InterestIndex,
        peers: Mapping[str, NeighbourLink],
        colouring: Colouring,
        choices: ExitChoices,
        step: Step,
    ) -> None:
        self._gateways = gateways
        self._graph = gateways.graph
        self._context = gateways.context
        self._profiles = profiles
        self._relay = relay
        self._interests = interests
        self._peers = peers
        self._colouring = colouring
        self._step = step
        self._computed_from: tuple[int, ...] = ()  # generations of the graph and of the colours
        self._graphs: dict[Sides, ConnectivityGraph] = {}
        self._numbers: list[dict[str, int]] = []  # of all members, by level
        self._clashes: set[str] = set()  # members whose number another has, as people were told
        self._choices = choices
        self._lost: dict[str, int] = {}  # members of our units that we cannot reach and still sum up, and since when

    def update(self) -> None:
        """Compute the states again, if the graph or the meaning of a colour has changed."""
        generations = (self._gateways.generation, *self._colouring.generations)
        if self._computed_from == generations:
            return
        is_moved = self._computed_from[:1] != generations[:1]
        self._computed_from = generations
        self._graphs = {}
        self._numbers = [self._numbers_of(level) for level in range(self._context.depth)]
        for level in range(self._context.depth):
            self._profiles.renumber(level, self._others(level))
        tables = RoutingTables(
            self._colouring.current, self._colouring.sides, self._states, tuple(self._held(self._colouring.current))
        )
        self._relay.adopt(tables, {name: peer.hop for name, peer in self._peers.items()})
        if not tables.has_plans:  # until then parcels may come that go by exits which are no longer open
            self._choices.forget_all_but(self._graph_of((None,) * self._context.depth).exits)
        if is_moved:
            self._sum_up()
            self._forget_those_who_left()

    # ---- one graph for each side of a plan

    def _plans_on(self, sides: Sides) -> list[tuple[PlannedTopology, Side]]:
        """Return the plans that change anything, on these sides of them; finished ones have one side only."""
        under_way = zip(self._colouring.planned, sides, strict=True)
        return [
            *((topology, Side.AFTER) for topology in self._colouring.finished),
            *((topology, side) for topology, side in under_way if topology is not None and side is not None),
        ]

    def _graph_of(self, sides: Sides) -> ConnectivityGraph:
        """Return the graph on these sides of the plans of all levels."""
        graph = self._graphs.get(sides)
        if graph is None:
            plans = self._plans_on(sides)
            graph = self._graph if not plans else self._graph.edited(lambda presence: _edited(presence, plans))
            self._graphs[sides] = graph
        return graph

    def _neighbours_on(self, sides: Sides) -> list[Neighbour]:
        """Return the neighbours by whom events may go on these sides, the best first."""
        plans = self._plans_on(sides)

        def rank(neighbour: Neighbour) -> tuple[int, str]:
            planned = [topology.own_cost(neighbour.name, side) for topology, side in plans]
            cost = next((each for each in planned if each is not None), neighbour.cost)
            return cost, neighbour.name  # of two that cost the same it is this one as well when the plan is over

        used = (each for each in self._gateways.neighbours.values() if each.is_used)
        return sorted((each for each in used if not any(plan.hides(each.name, side) for plan, side in plans)), key=rank)

    def _held(self, current: tuple[int, ...]) -> Iterator[Masks]:
        """Yield whom events wait for that get their colours here below a level: first below 0, which is none."""
        held: Masks = {}
        yield {}
        sides = self._colouring.sides
        now = tuple(sides[level][colour] for level, colour in enumerate(current))
        for level, topology in enumerate(self._colouring.planned):
            if topology is not None and self._colouring.holds(level):
                former = (*now[:level], Side.BEFORE, *now[level + 1 :])
                moved = [self._moved(topology, level, self._graph_of(side)) for side in (former, now)]
                for place, bit in chain(*moved, self._leaving_elsewhere(level, former, now)):
                    held[place] = held.get(place, 0) | bit
            yield dict(held)

    def _leaving_elsewhere(self, level: int, former: Sides, now: Sides) -> Iterator[tuple[int, int]]:
        """Yield members for whom events leave by other exits after a plan of a level than before, as level and bit."""
        if level not in self._again(now):
            return
        for place in range(level, self._context.depth):
            for unit, number in self._others(place).items():
                if self._way(unit, former) != self._way(unit, now):
                    yield place, 1 << number

    def _way(self, unit: str, sides: Sides, told: Mapping[int, str] | None = None, *, keep: bool = False) -> Way:
        """Return by which exits events for a unit leave on these sides of plans, if their parcel names some."""
        return self._graph_of(sides).exits.resolve(unit, told or {}, self._choices, keep=keep, again=self._again(sides))

    def _again(self, sides: Sides) -> list[int]:
        """Return the levels for whose units this broker chooses exits again on these sides of plans."""
        return [
            level
            for level, topology in enumerate(self._colouring.planned)
            if topology is not None and sides[level] is Side.AFTER and self._context.name in topology.plan.choosers
        ]

    def _moved(self, topology: PlannedTopology, level: int, graph: ConnectivityGraph) -> Iterator[tuple[int, int]]:
        """Yield members whose way a plan of a level changes on the side of it that a graph is of, as level and bit:
        whatever exits parcels name, one of the units to which they go first may be reached over a link that changes.
        """
        exits = graph.exits
        moved = topology.moved(exits.outer_paths(level))
        for place in range(level, self._context.depth):
            for unit, number in self._others(place).items():
                if not moved.isdisjoint(exits.targets(unit, level)):
                    yield place, 1 << number

    # ---- states

    def _states(self, sides: Sides, told: ExitNumbers) -> tuple[RoutingState[InterestIndex], ...]:
        """Return the states of all levels on these sides of their plans, for parcels that name these exits."""
        by_unit = {each.unit: each.name for each in reversed(self._neighbours_on(sides))}  # the best is remembered
        units = self._units_of(told)
        return tuple(self._compute(level, sides, by_unit, units) for level in range(self._context.depth))

    def _compute(
        self, level: int, sides: Sides, by_unit: Mapping[str, str], told: Mapping[int, str]
    ) -> RoutingState[InterestIndex]:
        """Return the state of the scope that holds the units of a level, for parcels that name these exits; `by_unit`
        are the best neighbours by what we see of them.
        """
        graph = self._graph_of(sides)
        own = self._context.units[level]
        numbers = self._numbers[level]
        next_hops: dict[str, int] = {}
        costs: dict[str, tuple[int, ...]] = {}
        named: dict[ExitNumbers, int] = {}
        for unit, number in self._others(level).items():
            target, exits = self._way(unit, sides, told, keep=True)
            neighbour, distance = by_unit.get(graph.cache.hop(target) or ""), graph.distance(unit)
            if neighbour is not None and distance is not None:
                next_hops[neighbour] = next_hops.get(neighbour, 0) | 1 << number
                costs[unit] = distance
                if any(words := self._exit_numbers(exits)):
                    named[words] = named.get(words, 0) | 1 << number
        return RoutingState(
            scope=self._context.scopes[level],
            interests=self._interests,
            own=1 << numbers[own] if own in numbers else 0,
            numbers=numbers,
            costs=costs,
            next_hops=next_hops,
            members=sum(next_hops.values()),
            exits={unit: tuple(graph.exits.open_to(each, unit) for each in range(level)) for unit in costs},
            named=named,
        )

    def _exit_numbers(self, exits: Mapping[int, str]) -> ExitNumbers:
        """Return exits as parcels name them; one that has no number is not named."""
        return tuple(self._numbers[level].get(exits.get(level, ""), -1) + 1 for level in range(self._context.depth))

    def _units_of(self, told: ExitNumbers) -> dict[int, str]:
        """Return the exits that a parcel names, by level; numbers that nobody has name none."""
        return {
            level: unit
            for level, (word, numbers) in enumerate(zip(told, self._numbers, strict=False))
            for unit, number in numbers.items()
            if number + 1 == word
        }

    def _others(self, level: int) -> dict[str, int]:
        """Return the numbers of all members of a level but our own."""
        own = self._context.units[level]
        return {unit: number for unit, number in self._numbers[level].items() if unit != own}

    def _numbers_of(self, level: int) -> dict[str, int]:
        """Return the members of a level with their numbers, and report those who have the number of another: whoever
        has it by the manifest, or else the first by name, keeps it until the root of the scope gives out another one.
        """
        rows = self._gateways.owners.rows[level]
        given = {row.number: unit for unit, row in rows.items()}
        taken: dict[int, str] = {}
        present = sorted(self._graph.present(level), key=lambda each: given.get(each.number) != each.unit)
        for presence in present:
            unit, number = presence.unit, presence.number
            holder = taken.setdefault(number, unit)
            if holder == unit:
                self._clashes.discard(unit)
            elif unit not in self._clashes:
                self._clashes.add(unit)
                self._step.report("warning", "member number taken", unit=unit, number=number, holder=holder)
        return {unit: number for number, unit in taken.items()}

    def drop_lost(self) -> None:
        """Leave those out of the sums of our units whom we could not reach for too long."""
        if self._lost:
            self._sum_up()

    def _sum_up(self) -> None:
        """Tell the profiles for which units we speak, and who is in them. Whom we cannot reach others may reach, or we
        in a moment: its wants stay in the sum for a while, or other units would not send what it wants.
        """
        graph, context = self._graph, self._context
        lost: dict[str, int] = {}
        for level in range(1, context.depth):
            presence = graph.members[level].get(context.units[level])
            speaks = presence is not None and presence.speaker == context.name and self._gateways.speaks(level)
            inside = {each.unit for each in graph.present(level - 1) if graph.reaches(each.unit)}
            away = (self._profiles.summed_up(level) or set()) - inside if speaks else set()
            lost |= {unit: since for unit, since in self._lost_since(away) if not self._has_left(level - 1, unit)}
            self._profiles.sum_up(level, inside | (away & lost.keys()) if speaks else None)
        self._lost = lost

    def _lost_since(self, away: Iterable[str]) -> Iterator[tuple[str, int]]:
        """Yield those whom we have lost not long ago, and when that was."""
        now = self._step.now
        for unit in away:
            since = min(self._lost.get(unit, now), now)
            if now - since < self._gateways.patience:
                yield unit, since

    def _has_left(self, level: int, unit: str) -> bool:
        presence = self._graph.members[level].get(unit)
        return presence is not None and presence.left

    def _forget_those_who_left(self) -> None:
        for level, own in enumerate(self._context.units):
            for unit, presence in self._graph.members[level].items():
                if presence.left and unit != own:
                    self._profiles.forget(level, unit)

    # ---- for those who ask

    def way_towards(self, unit: str, told: ExitNumbers = ()) -> tuple[str, ExitNumbers]:
        """Return the neighbour to whom events for a unit go that get their colours here, or whose parcel names these
        exits, and the exits that it names then; the neighbour is "" if the unit cannot be reached, or is none of our
        business.
        """
        if self._context.level(unit) is None:
            return "", ()
        colours = zip(self._colouring.sides, self._colouring.current, strict=True)
        sides = tuple(by_colour[colour] for by_colour, colour in colours)
        target, exits = self._way(unit, sides, self._units_of(told))
        first = self._graph_of(sides).cache.hop(target)
        name = next((each.name for each in self._neighbours_on(sides) if each.unit == first), "")
        level = self._gateways.neighbours[name].level if name else 0
        return name, (0,) * level + self._exit_numbers(exits)[level:]

    def exits_towards(self, unit: str) -> tuple[str, ...]:
        """Return the exits that parcels of our clients for a unit name, the highest level first."""
        exits = self._graph.exits.resolve(unit, {}, self._choices, keep=False).exits
        return tuple(exits[level] for level in sorted(exits, reverse=True) if exits[level] not in self._context.units)

    def units_behind(self, masks: Masks) -> list[str]:
        """Return the members that masks name, the lower levels first."""
        states = self._relay.states
        return [
            unit
            for level, mask in sorted(masks.items())
            for unit, number in states[level].numbers.items()
            if mask >> number & 1
        ]

    def validate(self) -> None:
        for level, state in enumerate(self._relay.states):
            state.validate()
            numbers = sum(1 << number for number in state.numbers.values())
            assert not self._interests.members(level) & ~numbers, f"{state.scope!r}: nobody has a number that is wanted"


def _edited(presence: Presence, plans: Sequence[tuple[PlannedTopology, Side]]) -> Presence:
    for topology, side in plans:
        presence = topology.edit(presence, side)
    return presence
