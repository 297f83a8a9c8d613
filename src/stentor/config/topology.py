"""The shape of a network: which units there are, who is in them, and who reaches whom."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Literal

from stentor.model.scope import LARGEST_UNIT, ScopePath

Connect = Literal["mesh", "ring", "chain"]
Pair = tuple[ScopePath, ScopePath]

ROOT = ScopePath(())  # the unit that holds all others: the network


class Tree:
    """The units that brokers form by their names; brokers, units and members keep the order of the file."""

    def __init__(self, brokers: Iterable[ScopePath]) -> None:
        self.brokers = {broker: place for place, broker in enumerate(brokers)}
        self.first: dict[ScopePath, ScopePath] = {ROOT: next(iter(self.brokers), ROOT)}  # the first broker in a scope
        self.members: dict[ScopePath, list[ScopePath]] = {ROOT: []}
        for broker in self.brokers:
            for depth in range(len(broker.parts)):
                unit, member = ScopePath(broker.parts[:depth]), ScopePath(broker.parts[: depth + 1])
                if member not in self.first:
                    self.first[member] = broker
                    self.members.setdefault(unit, []).append(member)

    def pairs(self, unit: ScopePath, shape: Connect) -> list[Pair]:
        """The brokers to link, so that the members of a unit form this shape; the earlier in the file comes first."""
        ends = [self.first[member] for member in self.members[unit]]
        if shape == "mesh":
            return list(combinations(ends, 2))
        closing = [(ends[0], ends[-1])] if shape == "ring" and len(ends) > 2 else []
        return [*pairwise(ends), *closing]

    def parts(self, links: Iterable[Pair]) -> dict[ScopePath, list[list[ScopePath]]]:
        """For each unit the parts of it whose members reach each other by links that do not leave it."""
        leader = {scope: scope for scope in self.first}

        def lead(scope: ScopePath) -> ScopePath:
            while leader[scope] != scope:
                leader[scope] = leader[leader[scope]]
                scope = leader[scope]
            return scope

        for one, other in links:
            # a link belongs to the smallest unit that holds both ends, and joins two members of that
            depth = len(one.parts) - one.level_of_difference(other)
            leader[lead(ScopePath(one.parts[:depth]))] = lead(ScopePath(other.parts[:depth]))
        found: dict[ScopePath, list[list[ScopePath]]] = {}
        for unit, members in self.members.items():
            parts: dict[ScopePath, list[ScopePath]] = {}
            for member in members:
                parts.setdefault(lead(member), []).append(member)
            found[unit] = list(parts.values())
        return found


def title(unit: ScopePath) -> str:
    """Return what a unit is called in a sentence."""
    return str(unit) or "the network"


def scopes_around(broker: ScopePath) -> list[ScopePath]:
    """Return the units that a broker is in, the network first."""
    return [ScopePath(broker.parts[:depth]) for depth in range(len(broker.parts))]


def number(members: Sequence[ScopePath], claims: Mapping[ScopePath, int]) -> dict[ScopePath, int]:
    """Each member's number in its unit: what it claims, or else its place, or the next that is free."""
    found = {member: claims[member] for member in members if member in claims}
    free = set(range(LARGEST_UNIT)).difference(found.values())
    for place, member in enumerate(members):
        if member not in found:
            found[member] = min(free, key=lambda candidate: (candidate - place) % LARGEST_UNIT)
            free.remove(found[member])
    return found
