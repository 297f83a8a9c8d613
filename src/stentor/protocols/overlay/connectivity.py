"""The connectivity graph: what a broker knows of the network, abbreviated, and the best hop to each unit that it sees.

Its nodes are the members of the scopes around the broker: the brokers of its cluster, the other clusters of its
super-cluster, and so on. What is inside another unit is not seen. An edge stands if both its ends speak of it, and
leads from a unit to one of the same or a higher level: so traffic between members of a unit never leaves it.
"""

from collections import defaultdict
from collections.abc import Iterator

from stentor.model.context import Context
from stentor.model.messages import Presence
from stentor.protocols.overlay.cache import Cost, RoutingCache


class Connectivity:
    """The presences of all members of all scopes around a broker, and the routes that follow from them."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.cache = RoutingCache(context.name, context.depth)
        self.members: tuple[dict[str, Presence], ...] = tuple({} for _ in range(context.depth))  # by level
        self._leads: dict[str, set[str]] = {}  # to where edges were drawn from a unit
        self._mentions: defaultdict[str, set[str]] = defaultdict(set)  # who speaks of a unit

    def find(self, unit: str) -> Presence | None:
        level = self.context.level(unit)
        return None if level is None else self.members[level].get(unit)

    def take(self, presence: Presence) -> None:
        """A unit is, or is not any more, what this says."""
        unit = presence.unit
        level = self.context.level(unit)
        assert level is not None, f"{unit} is none of our business"
        former = self.members[level].get(unit)
        if former is not None:
            for gateway in former.gateways:
                self._mentions[gateway.unit].discard(unit)
        self.members[level][unit] = presence
        for gateway in presence.gateways:
            self._mentions[gateway.unit].add(unit)
        self._draw(unit)
        for other in sorted(self._mentions[unit]):
            self._draw(other)

    def _draw(self, unit: str) -> None:
        """The edges that lead from a unit; those of the units around us are drawn from what is inside them."""
        context = self.context
        presence = self.find(unit)
        wanted: dict[str, tuple[int, int]] = {}
        if presence is not None and not presence.left and unit not in context.units[1:]:
            for gateway in presence.gateways:
                level = context.level(gateway.unit)
                if level is not None and gateway.unit not in context.units and self._answers(gateway.unit, unit, level):
                    wanted[gateway.unit] = level, gateway.cost
        for far in sorted(self._leads.get(unit, set()) - wanted.keys()):
            self.cache.remove_edge(unit, far)
        for far, (level, cost) in wanted.items():
            self.cache.set_edge(unit, far, level, cost)
        self._leads[unit] = set(wanted)

    def _answers(self, unit: str, speaker: str, level: int) -> bool:
        """Whether a unit speaks of a link, too; it sees of the other end what is on its own level."""
        seen = speaker if self.context.level(speaker) == level else self.context.units[level]
        other = self.members[level].get(unit)
        return other is not None and not other.left and any(gateway.unit == seen for gateway in other.gateways)

    def reaches(self, unit: str) -> bool:
        return unit in self.context.units or self.cache.distance(unit) is not None

    def distance(self, unit: str) -> Cost | None:
        return self.cache.distance(unit)

    def present(self, level: int) -> Iterator[Presence]:
        """The members of a level, in the order of their names."""
        for unit in sorted(self.members[level]):
            presence = self.members[level][unit]
            if not presence.left:
                yield presence

    def lost(self) -> list[str]:
        """Members that are known and cannot be reached: dead, or on the other side of a partition."""
        return [
            presence.unit
            for level in range(self.context.depth)
            for presence in self.present(level)
            if not self.reaches(presence.unit)
        ]

    def gatekeepers(self, level: int) -> list[str]:
        """The units around us, this broker included, that have a gateway of this level: where news of ours leaves."""
        return [
            presence.unit
            for lower in range(level)
            for presence in self.present(lower)
            if presence.unit not in self.context.units[1:]
            and any(self.context.level(gateway.unit) == level for gateway in presence.gateways)
        ]
