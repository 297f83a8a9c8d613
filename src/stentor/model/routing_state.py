"""Routing state: what a broker knows of one scope around it, as far as the way of events depends on it.

A state is computed from the connectivity graph and never changes; when the graph changes, another one takes its place.
So a parcel that was divided by one state can be passed on by the same one, whatever has happened since. What members
want is no part of the value: it changes all the time, and is too large to be copied. A state refers to the index whose
masks are made of its numbers.
"""

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

from stentor.model.ids import fingerprint

I = TypeVar("I")  # noqa: E741 - the index of what members want

_VERSION_BITS = 16  # as many as a parcel has room for


class RoutingState(msgspec.Struct, Generic[I], frozen=True, kw_only=True):
    """One scope as one broker sees it. Invariants, asserted by `validate`:

    `own` and `members` are disjoint; `members` is what all `next_hops` reach together, and no two of them reach the
    same member; each of these bits is the number of a member, and `costs` has just the members that have such a bit
    """

    scope: str  # "" is the network
    interests: I
    own: int = 0  # the bit of the member that we are in; 0 if another has its number
    numbers: Mapping[str, int] = {}  # of all members, our own too
    costs: Mapping[str, tuple[int, ...]] = {}  # of the way to each member that can be reached, by level, highest first
    next_hops: Mapping[str, int] = {}  # neighbours, and the members to which events go by them, as a mask
    members: int = 0  # all of these members, as a mask

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
        assert self.own in (0, *bits.values()), f"{self.scope!r}: our own number is nobody's"
