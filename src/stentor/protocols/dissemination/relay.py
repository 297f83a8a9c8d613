"""Event routing: parcels come in and leave for the next brokers. Only who lets an event into a unit matches it.

A parcel's masks say for which members of which scopes it is. A broker on the way divides them by next hop. Where an
event enters a unit, the unit's bit is taken out, and the masks of the members inside that want it are put in. So an
event is matched at most once per level on its way to anyone, and mere relays never look into it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stentor.model.batch import Batch
from stentor.model.context import Context
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import SchemaId, TopicId
from stentor.model.routing_state import RoutingState
from stentor.policies.forwarding import Chosen
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.mask_plans import HopShares, MaskPlans, NextHop
from stentor.protocols.dissemination.member_interests import InterestIndex
from stentor.protocols.dissemination.routes import FlowTable, Route, Sink
from stentor.wire.block_view import BlockView, block_views
from stentor.wire.frame import EVENTS, SHORTEST_EVENTS, measure
from stentor.wire.head import count_of, flow_of, frames_of
from stentor.wire.parcel import (
    HEADER,
    HEADER_SIZE,
    LEVELS_AT,
    MOST_HOPS,
    SOFT_PARCEL,
    MaskArrays,
    Masks,
    Parcel,
    addressed,
    contents_of,
    head,
    parse,
    wrap,
)
from stentor.wire.run import split

D = TypeVar("D", bound=Sink)
Rows = NDArray[np.bool_]
_MOST_MIXED = 4096  # events in a parcel with a mask for each: masks take room, too
_NOBODY: Mapping[Any, Any] = {}  # misses a parcel by name, if it is dropped


class ParcelHistory(NamedTuple):
    """Where events have been, and what they are about."""

    hops: int
    contents: int  # 0 if that is not known yet
    matchings: bytes  # how many brokers matched them for the members of each level


_BEGINNING = ParcelHistory(0, 0, bytes(8))


class Relay(Generic[D]):
    """Routes the parcels of one broker. Which way they go follows from routing states, which others compute."""

    def __init__(self, context: Context, forwarder: Forwarder[D]) -> None:
        self._context = context
        self._forwarder = forwarder
        interests = forwarder.table.interests
        # Parcels do not name the states that they were divided by yet, so all are routed by those of now.
        self._plans: MaskPlans[D] = MaskPlans(
            [RoutingState(scope=scope, interests=interests) for scope in context.scopes], {}
        )
        self.relayed = 0  # events that were handed on
        self.entered = 0  # events that came for members of our units
        self.matched = 0  # batches that were matched for other brokers
        self.stranded = 0  # members that could not be reached, once for each event
        self.rerouted = 0  # events that waited on a link that was lost, and were sent on by others
        self.circling = 0  # events that had been at too many brokers
        self.most_matchings = 0

    @property
    def states(self) -> tuple[RoutingState[InterestIndex], ...]:
        """The routing states of the scopes around this broker, the innermost first."""
        return self._plans.states

    def adopt(self, states: Sequence[RoutingState[InterestIndex]], neighbours: Mapping[str, NextHop[D]]) -> None:
        """Route by these states from now on. If they are as before, what was worked out for them stays."""
        if not self._plans.follows_from(states, neighbours):
            self._plans = MaskPlans(states, neighbours)

    def forget_plans(self) -> None:
        """Work out again by which neighbours parcels go on: what is remembered may have been damaged."""
        self._plans = self._plans.renewed()

    # ---- events of our own clients

    def publish(self, data: bytes, runs: list[tuple[Route[D], int, int, int]]) -> None:
        """Send what other brokers want of some runs on its way."""
        if not self._plans.hops:
            return
        for route, start, end, count in runs:
            if route.demands or not route.is_selective:
                self._route_run(route, data, start, end, count, {}, None, self._context.depth, _BEGINNING)

    # ---- parcels

    def receive(self, hop: NextHop[D], flows: FlowTable[D], data: bytes, at: int, largest: int) -> int:
        """Take in a parcel that begins here; return how many events came for us or ours."""
        length, _, _, hops, events, _, contents, matchings = HEADER.unpack_from(data, at)
        first = at + HEADER_SIZE + 8 * data[at + LEVELS_AT].bit_count()
        plan = self._plans.by_label.get(addressed(data, at, first) + hop.key)
        if plan is not None and not plan.enters and hops < MOST_HOPS and first + SHORTEST_EVENTS <= at + length:
            self._send(plan.shares, data, first, at + length, events, ParcelHistory(hops + 1, contents, matchings))
            return 0
        parcel = parse(data, at)
        if parcel.levels[0] < hop.level or parcel.levels[-1] >= self._context.depth:
            raise FrameError(Refusal.PROTOCOL, "a parcel for members of a scope that we do not share")
        if parcel.hops >= MOST_HOPS:
            self.circling += parcel.events
            return 0
        journey = ParcelHistory(parcel.hops + 1, parcel.contents, parcel.matchings)
        if parcel.masks is None:
            return self._receive_mixed(hop, flows, data, parcel, journey, largest)
        if plan is None:
            plan = self._plans.plan(addressed(data, at, first) + hop.key, hop.level, parcel.masks)
        if not plan.enters:
            self._send(plan.shares, data, parcel.start, parcel.end, parcel.events, journey)
            return 0
        inner = data[parcel.start : parcel.end]
        runs = self._runs(flows, inner, parcel.events, largest)
        if hop.level == 0 and plan.onward:
            self._send(plan.shares, inner, 0, len(inner), parcel.events, journey)
        elif hop.level:
            for route, start, end, count in runs:
                upper: dict[int, Chosen] = dict(plan.onward)
                self._route_run(route, inner, start, end, count, upper, None, hop.level, journey)
        return self._deliver_locally(inner, runs, parcel.matchings[hop.level])

    def _receive_mixed(
        self, hop: NextHop[D], flows: FlowTable[D], data: bytes, parcel: Parcel, journey: ParcelHistory, largest: int
    ) -> int:
        """Take in a parcel whose events are for different members."""
        assert parcel.arrays is not None
        inner = data[parcel.start : parcel.end]
        runs = self._runs(flows, inner, parcel.events, largest)
        own = np.uint64(self._plans.states[hop.level].own)
        entering = (parcel.arrays.get(hop.level, np.zeros(parcel.events, np.uint64)) & own) != 0
        first = 0
        arrived = 0
        for route, start, end, count in runs:
            upper: dict[int, Chosen] = {}
            for level, masks in parcel.arrays.items():
                part = masks[first : first + count]
                upper[level] = part & ~own if level == hop.level else part
            some = entering[first : first + count]
            self._route_run(route, inner, start, end, count, upper, some, hop.level, journey)
            if some.any():
                arrived += self._deliver_some_locally(
                    flows, inner[start:end], some, parcel.matchings[hop.level], largest
                )
            first += count
        return arrived

    def _runs(
        self, flows: FlowTable[D], inner: bytes, count: int, largest: int
    ) -> list[tuple[Route[D], int, int, int]]:
        """Return the event frames of a parcel as runs, by route."""
        runs, position = split(inner, 0, flows.routes)
        while position < len(inner):
            kind, length = measure(inner, position, largest)
            if kind != EVENTS or position + length > len(inner) or not count_of(inner, position):
                raise FrameError(Refusal.CORRUPT, "a parcel that holds something else than whole frames of events")
            self._forwarder.open_flow(flows, flow_of(inner, position), None)
            more, position = split(inner, position, flows.routes)
            runs += more
        if sum(run[3] for run in runs) != count:
            raise FrameError(Refusal.CORRUPT, "a parcel that holds another number of events than it says")
        return runs

    def _deliver_locally(self, inner: bytes, runs: list[tuple[Route[D], int, int, int]], matchings: int) -> int:
        """Hand events to our own clients, as far as these want them; return how many came."""
        self.most_matchings = max(self.most_matchings, matchings + 1)
        count = self._forwarder.forward(inner, runs)
        self.entered += count
        return count

    def _deliver_some_locally(self, flows: FlowTable[D], inner: bytes, some: Rows, matchings: int, largest: int) -> int:
        if not some.all():
            frames: list[bytes | memoryview] = []
            first = 0
            for view in block_views(inner, 0, len(inner), self._forwarder.schemas):
                frames += [frame for frame, _ in view.pick(some[first : first + view.count])]
                first += view.count
            inner = b"".join(frames)
        return self._deliver_locally(inner, self._runs(flows, inner, int(some.sum()), largest), matchings)

    def reroute(self, waiting: Iterable[tuple[bytes, int]]) -> None:
        """Send parcels on that waited on a link that is lost, as parcels that have just come: they were never sent."""
        for data, count in waiting:
            parcel = parse(data, 0)
            journey = ParcelHistory(parcel.hops, parcel.contents, parcel.matchings)
            inner = data[parcel.start : parcel.end]
            try:
                if parcel.masks is not None:
                    self._send(self._plans.split_by_hop(parcel.masks), inner, 0, len(inner), parcel.events, journey)
                else:
                    self._send_mixed(self._parts_of(inner, parcel), journey)
            except FrameError:  # whoever told us what its events are about is gone, too
                self.stranded += count
            else:
                self.rerouted += count

    def _parts_of(self, inner: bytes, parcel: Parcel) -> list[tuple[BlockView, MaskArrays]]:
        """Return the events of a parcel with a mask for each, by block."""
        assert parcel.arrays is not None, "only such parcels have parts"
        parts: list[tuple[BlockView, MaskArrays]] = []
        first = 0
        for view in block_views(inner, 0, len(inner), self._forwarder.schemas):
            last = first + view.count
            parts.append((view, {level: masks[first:last] for level, masks in parcel.arrays.items()}))
            first = last
        return parts

    # ---- deciding

    def _route_run(
        self,
        route: Route[D],
        data: bytes,
        start: int,
        end: int,
        count: int,
        upper: dict[int, Chosen],
        entering: Rows | None,
        below: int,
        journey: ParcelHistory,
    ) -> None:
        """Send a run on: to whom `upper` says, and to the members of the levels `below` that want it, as far as its
        events are `entering` the unit that holds these; None is all.
        """
        if end - start < len(data):
            journey = journey._replace(contents=0)  # a part of a parcel may be about less than the whole
        looks = any(interests.filtered[level] is not None for interests in route.demands for level in range(below))
        if (not looks or count == 1) and entering is None and all(isinstance(mask, int) for mask in upper.values()):
            lone = next(block_views(data, start, end, self._forwarder.schemas)) if looks else None
            masks = {level: mask for level, mask in upper.items() if isinstance(mask, int)}
            for level in range(below):
                mask = self.choose(route, level, lone)
                assert isinstance(mask, int), "a lone event, or all without filters, go one way"
                if mask:
                    masks[level] = mask
            if masks:
                self._send(self._plans.split_by_hop(masks), data, start, end, count, self._counted(journey, below))
            return
        first = 0
        parts: list[tuple[BlockView, MaskArrays]] = []
        for view in block_views(data, start, end, self._forwarder.schemas):
            chosen: MaskArrays = {
                level: _spread(mask if isinstance(mask, int) else mask[first : first + view.count], view.count)
                for level, mask in upper.items()
            }
            some = None if entering is None else entering[first : first + view.count]
            if some is None or some.any():
                for level in range(below):
                    mask = _spread(self.choose(route, level, view), view.count)
                    chosen[level] = mask if some is None else np.where(some, mask, np.uint64(0))
            parts.append((view, chosen))
            first += view.count
        self._send_mixed(parts, self._counted(journey, below))

    def _counted(self, journey: ParcelHistory, below: int) -> ParcelHistory:
        if not below:
            return journey
        self.matched += 1
        before = journey.matchings[below] if below < self._context.depth else 0
        return journey._replace(matchings=bytes([before + 1]) * below + journey.matchings[below:])

    def choose(self, route: Route[D], level: int, batch: Batch | None) -> Chosen:
        """Return which members of a level shall have the events; without filters no batch is looked at."""
        members = self._plans.states[level].members
        return route.forwarding[level].destinations(lambda: wanted(route, level, batch), members)

    def split_by_hop(self, masks: Masks) -> HopShares[D]:
        """Return the share of each next hop of a parcel with these masks."""
        return self._plans.split_by_hop(masks)

    # ---- sending

    def _send(
        self,
        shares: HopShares[D],
        data: bytes,
        start: int,
        end: int,
        count: int,
        journey: ParcelHistory,
    ) -> None:
        """Hand a run to the next hops, as it is."""
        if shares.stranded:
            self.stranded += count * shares.stranded
        if not shares.hops:
            return
        whole = end - start <= SOFT_PARCEL
        for first, last, some in [(start, end, count)] if whole else _pieces(data, start, end):
            if not whole or not journey.contents:
                journey = journey._replace(contents=contents_of(data, first, last)[0])
            self._send_piece(shares, data, first, last, some, journey)

    def _send_piece(
        self,
        shares: HopShares[D],
        data: bytes,
        start: int,
        end: int,
        count: int,
        journey: ParcelHistory,
    ) -> None:
        hops, contents, matchings = journey
        for hop, masks, labelled in shares.hops:
            if hop.channel is not None:
                some = [
                    (view, {level: _spread(mask, view.count) for level, mask in masks.items()})
                    for view in block_views(data, start, end, self._forwarder.schemas)
                ]
                self._send_mixed(some, journey, only=hop)
                continue
            destination = hop.destination
            if contents not in destination.defined:
                self._introduce(destination, contents, data, start, end)
            parcel = head(labelled, end - start, count, hops, contents, matchings) + data[start:end]
            destination.fresh.append((parcel, count, _NOBODY, _NOBODY))
            self._forwarder.unflushed[destination] = None
            self.relayed += count

    def _send_mixed(
        self, parts: list[tuple[BlockView, MaskArrays]], journey: ParcelHistory, only: NextHop[D] | None = None
    ) -> None:
        """Hand each next hop the events that are for members behind it, in order."""
        if only is None:
            self._count_stranded(parts)
        for hop, reach in self._plans.hops:
            if only is not None and hop is not only:
                continue
            for view, masks in parts:
                chosen = {level: masks[level] & np.uint64(mask) for level, mask in reach.items() if level in masks}
                kept = reduce(or_, (mask != 0 for mask in chosen.values()), np.zeros(view.count, np.bool_))
                if hop.channel is not None and kept.any():
                    kept &= hop.channel.admits(view)
                rows = kept.nonzero()[0]
                for start in range(0, len(rows), _MOST_MIXED):
                    some = rows[start : start + _MOST_MIXED]
                    self._ship(hop, {level: mask[some] for level, mask in chosen.items()}, view.pick(some), journey)

    def _count_stranded(self, parts: list[tuple[BlockView, MaskArrays]]) -> None:
        """Count the members that no next hop leads to, once for each event that they should have got."""
        for _, masks in parts:
            for level, mask in masks.items():
                lost = mask & ~np.uint64(self._plans.reached[level])
                if lost.any():
                    self.stranded += int(np.bitwise_count(lost).sum())

    def _ship(
        self, hop: NextHop[D], masks: MaskArrays, picked: list[tuple[bytes | memoryview, int]], journey: ParcelHistory
    ) -> None:
        frames = [frame for frame, _ in picked]
        count = sum(events for _, events in picked)
        inner = frames[0] if len(frames) == 1 else b"".join(frames)
        inner = inner if isinstance(inner, bytes) else bytes(inner)
        contents = contents_of(inner, 0, len(inner))[0]  # it may be about less than before
        if contents not in hop.destination.defined:
            self._introduce(hop.destination, contents, inner, 0, len(inner))
        parcel = wrap(masks, [inner], count, journey.hops, contents, journey.matchings)
        hop.destination.fresh.append((parcel, count, _NOBODY, _NOBODY))
        self._forwarder.unflushed[hop.destination] = None
        self.relayed += count

    def _introduce(self, destination: D, contents: int, data: bytes, start: int, end: int) -> None:
        """Define the topics and schemas of a run to a neighbour that has not heard of them."""
        for topic, schema in contents_of(data, start, end)[1]:
            if TopicId(topic) not in self._forwarder.table.topics or SchemaId(schema) not in self._forwarder.schemas:
                raise FrameError(Refusal.TOPIC, "a parcel with a topic or schema that was not defined before")
            self._forwarder.define(destination, TopicId(topic), SchemaId(schema))
        destination.defined.add(TopicId(contents))


def wanted(route: Route[D], level: int, batch: Batch | None) -> Chosen:
    """Return which members of a level want the events."""
    found: Chosen = reduce(or_, [interests.whole[level] for interests in route.demands], 0)
    if batch is not None:
        for interests in route.demands:
            index = interests.filtered[level]
            if index is not None and isinstance(found, int) and batch.count == 1:
                found |= index.match_one(batch.rows()[0])
            elif index is not None:
                found = index.match(batch) | (np.uint64(found) if isinstance(found, int) else found)
    return found


def _spread(mask: Chosen, count: int) -> NDArray[np.uint64]:
    return np.full(count, mask, np.uint64) if isinstance(mask, int) else mask


def _pieces(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the parts of a run, cut between frames, and how many events are in each."""
    first, count = start, 0
    for position, length, events in frames_of(data, start, end):
        if position > first and position + length - first > SOFT_PARCEL:
            yield first, position, count
            first, count = position, 0
        count += events
    yield first, end, count
