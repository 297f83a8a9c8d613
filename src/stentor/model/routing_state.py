"""Routing state: what a broker knows of one scope around it, as far as the way of events depends on it.

A state is computed from the connectivity graph and never changes; when the graph changes, another one takes its place.
So a parcel that was divided by one state can be passed on by the same one, whatever has happened since. What members
want is no part of the value: it changes all the time, and is too large to be copied. A state refers to the index whose
masks are made of its numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Generic, TypeVar

import msgspec

from stentor.model.colours.colour import COLOURS
from stentor.model.colours.plan import Side
from stentor.model.ids import fingerprint

ExitNumbers = tuple[int, ...]  # by level 0, or 1 + the number of the member of its scope by which events leave a unit
I = TypeVar("I")  # noqa: E741 - the index of what members want

_VERSION_BITS = 16  # as many as a parcel has room for
MOST_WAYS = 256  # combinations of colours and exits that states are kept for: peers could name any number of them


class RoutingState(msgspec.Struct, Generic[I], frozen=True, kw_only=True):
    """One scope as one broker sees it. Invariants, asserted by `validate`:

    `own` and `members` are disjoint; `members` is what all `next_hops` reach together, and no two of them reach the
    same member; each of these bits is the number of a member, and `costs` has just the members that have such a bit;
    `named` has only members, each once
    """

    scope: str  # "" is the network
    interests: I
    own: int = 0  # the bit of the member that we are in; 0 if another has its number
    numbers: Mapping[str, int] = {}  # of all members, our own too
    costs: Mapping[str, tuple[int, ...]] = {}  # of the way to each member that can be reached, by level, highest first
    next_hops: Mapping[str, int] = {}  # neighbours, and the members to which events go by them, as a mask
    members: int = 0  # all of these members, as a mask
    exits: Mapping[str, tuple[frozenset[str], ...]] = {}  # by which units of each lower level events may leave for whom
    named: Mapping[ExitNumbers, int] = {}  # the exits that parcels name, and the members for whom, as a mask

    @property
    def version(self) -> int:
        """Return a digest of the members and their numbers. Brokers with equal versions read masks in the same way."""
        return fingerprint("routing state", f"{self.scope} {sorted(self.numbers.items())}") & ((1 << _VERSION_BITS) - 1)

    def validate(self) -> None:
        assert not self.own & self.members, f"{self.scope!r}: a way leads to our own member"
        reached = 0
        for neighbour, mask in self.next_hops.items():
            assert not mask & reached, f"{self.scope!r}: two ways to one member, one of them by {neighbour}"
            reached |= mask
        assert reached == self.members, f"{self.scope!r}: other members are reached than by all neighbours together"
        bits = {unit: 1 << number for unit, number in self.numbers.items()}
        assert sum(bits[unit] for unit in self.costs) == self.members, f"{self.scope!r}: ways that cost nothing"
        named = list(self.named.values())
        assert sum(named) == reduce(or_, named, 0) & self.members, f"{self.scope!r}: exits to strangers, or two to one"
        assert self.own in (0, *bits.values()), f"{self.scope!r}: our own number is nobody's"


Sides = tuple[Side | None, ...]  # by level; None where no plan is under way


class RoutingTables(Generic[I]):
    """The routing states of all scopes around a broker, for parcels of every colour.

    Colours differ only while a plan is under way in a scope. States are computed when a parcel needs them first, and
    colours that mean the same have the same ones. Parcels that name exits have their own.
    """

    def __init__(
        self,
        current: tuple[int, ...],
        sides: tuple[Sides, ...],
        compute: Callable[[Sides, ExitNumbers], tuple[RoutingState[I], ...]],
        held: tuple[Mapping[int, int], ...],
    ) -> None:
        self.current = current  # the colour of each level that events get here, the lowest level first
        self.sides = sides  # of each level and colour
        self.held = held  # whom events have to wait for that got their colours below a level here: by that level
        self._compute = compute
        self._states: dict[tuple[Sides, ExitNumbers], tuple[RoutingState[I], ...]] = {}

    @staticmethod
    def uniform(states: Sequence[RoutingState[I]]) -> "RoutingTables[I]":
        """Return the tables of a broker to which all colours are the same."""
        depth = len(states)
        return RoutingTables((0,) * depth, ((None,) * COLOURS,) * depth, lambda *_: tuple(states), ({},) * (depth + 1))

    def states(self, colours: tuple[int, ...], told: ExitNumbers = ()) -> tuple[RoutingState[I], ...]:
        """Return the states by which parcels of these colours are routed that name these exits."""
        key = tuple(self.sides[level][colour] for level, colour in enumerate(colours)), told
        if key not in self._states:
            if len(self._states) >= MOST_WAYS:
                self._states.clear()
            self._states[key] = self._compute(*key)
        return self._states[key]

    @property
    def has_plans(self) -> bool:
        """Whether colours differ in any scope."""
        return any(side is not None for sides in self.sides for side in sides)
