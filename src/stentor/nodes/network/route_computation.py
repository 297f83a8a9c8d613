"""Route computation: the connectivity graph becomes one routing state for each scope, which the relay goes by.

States are computed from scratch when the graph has changed, at the end of a step. Members of a scope share 64 numbers;
of two members with the same number the first by name has it.
"""

from collections.abc import Mapping

from stentor.machine import Step
from stentor.model.routing_state import RoutingState
from stentor.nodes.network.neighbour_link import NeighbourLink
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.member_interests import InterestIndex
from stentor.protocols.dissemination.profiles import Profiles
from stentor.protocols.dissemination.relay import Relay
from stentor.protocols.neighbours import Neighbour
from stentor.protocols.overlay.gateways import Gateways
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
        step: Step,
    ) -> None:
        self._gateways = gateways
        self._graph = gateways.graph
        self._context = gateways.context
        self._profiles = profiles
        self._relay = relay
        self._interests = interests
        self._peers = peers
        self._step = step
        self._generation = -1  # of the graph that the states were computed from
        self._clashes: set[str] = set()  # members whose number another has, as people were told

    def update(self) -> None:
        """Compute the states again, if the graph has changed."""
        if self._generation == self._gateways.generation:
            return
        self._generation = self._gateways.generation
        by_unit = {each.unit: each.name for each in reversed(self._by_cost())}  # the best is the last to be remembered
        states = [self._compute(level, by_unit) for level in range(self._context.depth)]
        self._relay.adopt(states, {name: peer.hop for name, peer in self._peers.items()})
        self._sum_up()
        self._forget_those_who_left()

    def _compute(self, level: int, by_unit: Mapping[str, str]) -> RoutingState[InterestIndex]:
        """Return the state of the scope that holds the units of a level; `by_unit` are the best neighbours by what we
        see of them.
        """
        own, graph = self._context.units[level], self._graph
        numbers = self._numbers(level)
        others = {unit: number for unit, number in numbers.items() if unit != own}
        self._profiles.renumber(level, others)
        next_hops: dict[str, int] = {}
        costs: dict[str, tuple[int, ...]] = {}
        for unit, number in others.items():
            neighbour, distance = by_unit.get(graph.cache.hop(unit) or ""), graph.distance(unit)
            if neighbour is not None and distance is not None:
                next_hops[neighbour] = next_hops.get(neighbour, 0) | 1 << number
                costs[unit] = distance
        return RoutingState(
            scope=self._context.scopes[level],
            interests=self._interests,
            own=1 << numbers[own] if own in numbers else 0,
            numbers=numbers,
            costs=costs,
            next_hops=next_hops,
            members=sum(next_hops.values()),
        )

    def _numbers(self, level: int) -> dict[str, int]:
        """Return the members of a level with their numbers, and report those who have the number of another."""
        taken: dict[int, str] = {}
        for presence in self._graph.present(level):
            unit, number = presence.unit, presence.number
            holder = taken.setdefault(number, unit)
            if holder != unit and unit not in self._clashes:
                self._clashes.add(unit)
                self._step.report("error", "member number taken", unit=unit, number=number, holder=holder)
        return {unit: number for number, unit in taken.items()}

    def _sum_up(self) -> None:
        """Tell the profiles for which units we speak, and who is in them."""
        graph, context = self._graph, self._context
        for level in range(1, context.depth):
            presence = graph.members[level].get(context.units[level])
            speaks = presence is not None and presence.speaker == context.name and self._gateways.speaks(level)
            inside = {each.unit for each in graph.present(level - 1) if graph.reaches(each.unit)}
            self._profiles.sum_up(level, inside if speaks else None)

    def _forget_those_who_left(self) -> None:
        for level, own in enumerate(self._context.units):
            for unit, presence in self._graph.members[level].items():
                if presence.left and unit != own:
                    self._profiles.forget(level, unit)

    # ---- for those who ask

    def neighbour_towards(self, unit: str) -> str:
        """Return the neighbour to whom events for a unit go; "" if it cannot be reached."""
        first = self._graph.cache.hop(unit)
        return next((each.name for each in self._by_cost() if each.unit == first), "")

    def units_behind(self, masks: Masks) -> list[str]:
        """Return the members that masks name, the lower levels first."""
        states = self._relay.states
        return [
            unit
            for level, mask in sorted(masks.items())
            for unit, number in states[level].numbers.items()
            if mask >> number & 1
        ]

    def _by_cost(self) -> list[Neighbour]:
        """Return the neighbours that are not suspected, the best first."""
        standing = [each for each in self._gateways.neighbours.values() if not each.suspected]
        return sorted(standing, key=lambda each: (each.cost, each.name))

    def validate(self) -> None:
        for level, state in enumerate(self._relay.states):
            state.validate()
            numbers = sum(1 << number for number in state.numbers.values())
            assert not self._interests.members(level) & ~numbers, f"{state.scope!r}: nobody has a number that is wanted"
