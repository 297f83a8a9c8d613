"""Mask plans: by which neighbours parcels go on that are for the members of some masks.

Plans follow from routing states, one for each scope around a broker, and from the neighbours of now. They are worked
out when masks are first seen, and forgotten with the states that they follow from. Members for whom other exits are
named need other parcels; all others ride in whatever parcel goes to the same neighbour, so that no link carries an
event twice without need. A neighbour counts the parcels that go to it and come from it by their colours: so a scope
finds out when a colour has drained.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import xor
from typing import Generic, NamedTuple, TypeVar

from stentor.model.routing_state import ExitNumbers, RoutingState
from stentor.policies.channel import Channel
from stentor.protocols.dissemination.member_interests import InterestIndex
from stentor.protocols.dissemination.routes import Sink
from stentor.wire.parcel import NO_STATES, Masks, Stamp, colours_alone, label, read_ways, ways_at, ways_of

D = TypeVar("D", bound=Sink)
MOST_PLANS = 16_384  # masks are made of what events are about: without a bound a publisher could fill our memory


class NextHop(Generic[D]):
    """A neighbour, as event routing sees it."""

    __slots__ = ("_sent", "arrived", "channel", "destination", "key", "level", "name")

    def __init__(self, name: str, level: int, destination: D, channel: Channel | None) -> None:
        self.name = name
        self.level = level  # at which it differs from us
        self.key = bytes((level,))
        self.destination = destination
        self.channel = channel
        self.arrived: defaultdict[bytes, int] = defaultdict(int)  # parcels that came over this link, by their colours
        self._sent: dict[bytes, list[int]] = {}  # and those that were handed to it, but for what it dropped

    def tally(self, ways: bytes) -> list[int]:
        """Return where parcels of these colours are counted, as they are handed to the link: a list of one number."""
        return self._sent.setdefault(colours_alone(ways), [0])

    def take_back(self, parcel: bytes) -> None:
        """The link drops a parcel before it was sent."""
        self.tally(ways_at(parcel, 0))[0] -= 1

    def under_way(self, level: int, colour: int) -> tuple[int, int]:
        """Return how many parcels of a colour of a level were sent over this link, and how many came."""
        sent = sum(tally[0] for ways, tally in self._sent.items() if read_ways(ways).colours[level] == colour)
        return sent, sum(count for ways, count in self.arrived.items() if read_ways(ways).colours[level] == colour)


class HopShare(NamedTuple, Generic[D]):
    """What a next hop gets, and for whom."""

    hop: NextHop[D]
    masks: Masks
    label: bytes  # as it stands in parcels
    stamp: Stamp  # as it stands in the label
    tally: list[int]  # where they are counted


class HopShares(NamedTuple, Generic[D]):
    """How the members of some masks are divided among next hops."""

    hops: tuple[HopShare[D], ...]
    stranded: int  # members that no next hop leads to


class MaskPlan(NamedTuple, Generic[D]):
    """What becomes of parcels with the same address that come over links of the same level."""

    enters: bool  # our unit, at the level of the link
    is_direct: bool  # it goes on as it is: it neither enters our unit nor waits here, and is not foreign
    is_foreign: bool  # whoever sent it knew other members, or other numbers of them, than we do
    onward: Masks
    shares: HopShares[D]
    plans: "MaskPlans[D]"  # of its colours and exits, and our own below the level of the link
    coloured: bytes  # its colours, by which it is counted


class MaskPlans(Generic[D]):
    """The plans of one set of routing states, by level, for parcels of the colours and exits that these states have."""

    __slots__ = ("_named", "_shares", "_stamps", "_versions", "colours", "hops", "reached", "states", "told")

    def __init__(
        self,
        states: Sequence[RoutingState[InterestIndex]],
        neighbours: Mapping[str, NextHop[D]],
        colours: tuple[int, ...],
        told: ExitNumbers = (),
    ) -> None:
        self.states = tuple(states)
        self.colours = colours
        self.told = told  # the exits that the parcels name as they come
        versions = [state.version for state in self.states]
        self._versions = [reduce(xor, versions[level:], 0) for level in range(len(versions) + 1)]
        reach: dict[str, Masks] = {}
        for level, state in enumerate(self.states):
            for name, mask in state.next_hops.items():
                if name in neighbours:  # one that is lost in this step is no way any more
                    reach.setdefault(name, {})[level] = mask
        self.hops = [(neighbours[name], masks) for name, masks in sorted(reach.items())]  # who reaches whom
        self.reached = {level: state.members for level, state in enumerate(self.states)}  # by any of them
        self._named = {hop.name: found for hop, masks in self.hops if (found := self._named_beyond(hop, masks))}
        self._stamps = {hop.name: self._stamp(hop, ()) for hop, _ in self.hops}  # of parcels that name no exits
        self._shares: dict[tuple[tuple[int, int], ...], HopShares[D]] = {}

    def _named_beyond(self, hop: NextHop[D], reach: Masks) -> list[tuple[ExitNumbers, Masks]]:
        """Return the exits that parcels to a next hop name, and the members for whom; the longest lists first."""
        found: dict[ExitNumbers, Masks] = {}
        for level, state in enumerate(self.states):
            for exits, mask in state.named.items():
                passed = (0,) * hop.level + exits[hop.level :]  # those below the level of its link are passed with it
                if any(passed) and (part := mask & reach.get(level, 0)):
                    masks = found.setdefault(passed, {})
                    masks[level] = masks.get(level, 0) | part
        return sorted(found.items(), key=lambda each: (each[0].count(0), each[0]))

    def split_by_hop(self, masks: Masks) -> HopShares[D]:
        """Return the share of each next hop; what has no next hop is stranded."""
        key = tuple(sorted(masks.items()))
        shares = self._shares.get(key)
        if shares is None:
            if len(self._shares) >= MOST_PLANS:
                self._shares.clear()
            found = [
                HopShare(hop, part, label(part, stamp), stamp, hop.tally(stamp.ways))
                for hop, reach in self.hops
                for stamp, part in self.parcels_to(hop, _common(masks, reach))
            ]
            stranded = sum((mask & ~self.reached.get(level, 0)).bit_count() for level, mask in masks.items())
            shares = self._shares[key] = HopShares(tuple(found), stranded)
        return shares

    def parcels_to(self, hop: NextHop[D], share: Masks) -> list[tuple[Stamp, Masks]]:
        """Return in which parcels a next hop gets events for members that it reaches: one for each set of exits that
        agree, and all members that leave us no choice in the first of them.
        """
        if not share:
            return []
        if not self.names_exits(hop):
            return [(self._stamps[hop.name], share)]
        merged: list[tuple[ExitNumbers, Masks]] = []
        rest = share
        for exits, masks in self._named[hop.name]:
            part = _common(share, masks)
            if part:
                rest = {level: mask & ~part.get(level, 0) for level, mask in rest.items()}
                place = next((at for at, (each, _) in enumerate(merged) if _agree(each, exits)), len(merged))
                known, others = merged[place] if place < len(merged) else (exits, {})
                merged[place : place + 1] = [(tuple(map(max, known, exits)), _united(others, part))]
        exits, masks = merged[0] if merged else ((), {})
        merged[:1] = [(exits, _united(masks, rest))]
        return [(self._stamp(hop, exits), masks) for exits, masks in merged]

    def names_exits(self, hop: NextHop[D]) -> bool:
        """Return whether any parcel to a next hop names exits."""
        return hop.name in self._named

    def _stamp(self, hop: NextHop[D], exits: ExitNumbers) -> Stamp:
        """Return the colours, the exits, and the digest of states, as parcels to a next hop have them."""
        return Stamp(ways_of(self.colours, hop.level, exits), self._versions[hop.level])

    def is_foreign(self, level: int, states: int) -> bool:
        """Return whether a parcel that came over a link of a level means other states than ours."""
        return states not in (NO_STATES, self._versions[level])


def _common(some: Masks, others: Masks) -> Masks:
    """Return the members that are in both."""
    return {level: part for level, mask in some.items() if (part := mask & others.get(level, 0))}


def _united(some: Masks, others: Masks) -> Masks:
    """Return the members that are in either, by level in order."""
    found = {level: some.get(level, 0) | others.get(level, 0) for level in sorted(some.keys() | others.keys())}
    return {level: mask for level, mask in found.items() if mask}


def _agree(some: ExitNumbers, others: ExitNumbers) -> bool:
    """Return whether one parcel can name both: at no level other exits."""
    return all(one == other or not (one and other) for one, other in zip(some, others, strict=True))
