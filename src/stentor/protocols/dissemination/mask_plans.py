"""Mask plans: by which neighbours parcels go on that are for the members of some masks.

Plans follow from routing states, one for each scope around a broker, and from the neighbours of now. They are worked
out when masks are first seen, and forgotten with the states that they follow from.
"""

from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from stentor.model.routing_state import RoutingState
from stentor.policies.channel import Channel
from stentor.protocols.dissemination.member_interests import InterestIndex
from stentor.protocols.dissemination.routes import Sink
from stentor.wire.parcel import Masks, label

D = TypeVar("D", bound=Sink)
_MOST_PLANS = 16_384  # masks are made of what events are about: without a bound a publisher could fill our memory


class NextHop(Generic[D]):
    """A neighbour, as event routing sees it."""

    __slots__ = ("channel", "destination", "key", "level", "name")

    def __init__(self, name: str, level: int, destination: D, channel: Channel | None) -> None:
        self.name = name
        self.level = level  # at which it differs from us
        self.key = bytes((level,))
        self.destination = destination
        self.channel = channel


class HopShare(NamedTuple, Generic[D]):
    """What a next hop gets, and for whom."""

    hop: NextHop[D]
    masks: Masks
    label: bytes  # as it stands in parcels


class HopShares(NamedTuple, Generic[D]):
    """How the members of some masks are divided among next hops."""

    hops: tuple[HopShare[D], ...]
    stranded: int  # members that no next hop leads to


class MaskPlan(NamedTuple, Generic[D]):
    """What becomes of parcels with the same masks."""

    enters: bool  # our unit, at the level of the link
    onward: Masks
    shares: HopShares[D]


class MaskPlans(Generic[D]):
    """The plans of one set of routing states, by level."""

    __slots__ = ("_shares", "by_label", "hops", "reached", "states")

    def __init__(self, states: Sequence[RoutingState[InterestIndex]], neighbours: Mapping[str, NextHop[D]]) -> None:
        self.states = tuple(states)
        reach: dict[str, Masks] = {}
        for level, state in enumerate(self.states):
            for name, mask in state.next_hops.items():
                reach.setdefault(name, {})[level] = mask
        self.hops = [(neighbours[name], masks) for name, masks in sorted(reach.items())]  # who reaches whom
        self.reached = {level: state.members for level, state in enumerate(self.states)}  # by any of them
        self.by_label: dict[bytes, MaskPlan[D]] = {}  # by the masks as a parcel holds them, and the level of its link
        self._shares: dict[tuple[tuple[int, int], ...], HopShares[D]] = {}

    def renewed(self) -> "MaskPlans[D]":
        """Return plans of the same states and neighbours, of which none is worked out yet."""
        return MaskPlans(self.states, {hop.name: hop for hop, _ in self.hops})

    def follows_from(self, states: Sequence[RoutingState[InterestIndex]], neighbours: Mapping[str, NextHop[D]]) -> bool:
        """Return whether these states and neighbours lead to the same plans."""
        return self.states == tuple(states) and all(neighbours.get(hop.name) is hop for hop, _ in self.hops)

    def plan(self, key: bytes, level: int, masks: Masks) -> MaskPlan[D]:
        """Return what becomes of parcels with these masks, which come over links of a level, and remember it."""
        own = self.states[level].own
        enters = bool(masks.get(level, 0) & own)
        onward = {each: rest for each, mask in masks.items() if (rest := mask & ~own if each == level else mask)}
        if len(self.by_label) >= _MOST_PLANS:
            self.by_label.clear()
        plan = self.by_label[key] = MaskPlan(enters, onward, self.split_by_hop(onward))
        return plan

    def split_by_hop(self, masks: Masks) -> HopShares[D]:
        """Return the share of each next hop; what has no next hop is stranded."""
        key = tuple(sorted(masks.items()))
        shares = self._shares.get(key)
        if shares is None:
            if len(self._shares) >= _MOST_PLANS:
                self._shares.clear()
            found = []
            for hop, reach in self.hops:
                share = {level: part for level, mask in masks.items() if (part := mask & reach.get(level, 0))}
                if share:
                    found.append(HopShare(hop, share, label(share)))
            stranded = sum((mask & ~self.reached.get(level, 0)).bit_count() for level, mask in masks.items())
            shares = self._shares[key] = HopShares(tuple(found), stranded)
        return shares
