"""Event routing: parcels come in and leave for the next brokers. Only who lets an event into a unit matches it.

A parcel's masks say for which members of which scopes it is. A broker on the way divides them by next hop. Where an
event enters a unit, the unit's bit is taken out, and the masks of the members inside that want it are put in. So an
event is matched at most once per level on its way to anyone, and mere relays never look into it.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from stentor.model.batch import Batch
from stentor.model.context import Context
from stentor.model.errors import FrameError, Refusal
from stentor.model.routing_state import MOST_WAYS, ExitNumbers, RoutingState, RoutingTables
from stentor.policies.forwarding import Chosen
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.held_parcels import HeldParcels, HeldRun
from stentor.protocols.dissemination.mask_plans import MOST_PLANS, HopShares, MaskPlan, MaskPlans, NextHop
from stentor.protocols.dissemination.member_interests import InterestIndex
from stentor.protocols.dissemination.parcel_sender import ParcelHistory, ParcelSender, spread
from stentor.protocols.dissemination.routes import FlowTable, Route, Sink
from stentor.wire.block_view import BlockView, block_views
from stentor.wire.frame import EVENTS, SHORTEST_EVENTS, measure
from stentor.wire.head import count_of, flow_of
from stentor.wire.parcel import (
    HEADER,
    HEADER_SIZE,
    LEVELS_AT,
    MOST_HOPS,
    MaskArrays,
    Masks,
    Parcel,
    addressed,
    contents_of,
    parse,
    read_ways,
)
from stentor.wire.run import split

D = TypeVar("D", bound=Sink)
Rows = NDArray[np.bool_]


_BEGINNING = ParcelHistory(0, 0, bytes(8))
_OWN = 0  # the number of no link


class Relay(Generic[D]):
    """Routes the parcels of one broker. Which way they go follows from routing states, which others compute."""

    def __init__(self, context: Context, forwarder: Forwarder[D]) -> None:
        self._context = context
        self._forwarder = forwarder
        states = tuple(RoutingState(scope=scope, interests=forwarder.table.interests) for scope in context.scopes)
        self._tables: RoutingTables[InterestIndex] = RoutingTables.uniform(states)
        self._neighbours: Mapping[str, NextHop[D]] = {}
        self._by_label: dict[bytes, MaskPlan[D]] = {}  # by the address of a parcel, and the level of its link
        self._by_ways: dict[tuple[tuple[int, ...], ExitNumbers], MaskPlans[D]] = {}  # by colours and exits
        self._plans: MaskPlans[D]  # of the colours that events of our clients get
        self.forget_plans()
        self.held: HeldParcels[ParcelHistory] = HeldParcels()
        self.held.by_level = self._tables.held
        self._kept: FlowTable[D] = FlowTable(_OWN)  # what held events are about: their publishers may leave
        self._sender: ParcelSender[D] = ParcelSender(forwarder)
        self.entered = 0  # events that came for members of our units
        self.matched = 0  # batches that were matched for other brokers
        self.rerouted = 0  # events that waited on a link that was lost, and were sent on by others
        self.circling = 0  # events that had been at too many brokers
        self.foreign = 0  # events in parcels whose sender knew other members, or other numbers of them, than we do
        self.most_matchings = 0

    @property
    def relayed(self) -> int:
        """How many events were handed on."""
        return self._sender.relayed

    @property
    def stranded(self) -> int:
        """How many members could not be reached, once for each event."""
        return self._sender.stranded

    @property
    def states(self) -> tuple[RoutingState[InterestIndex], ...]:
        """The routing states by which events of our clients are sent, the innermost scope first."""
        return self._plans.states

    def adopt(self, tables: RoutingTables[InterestIndex], neighbours: Mapping[str, NextHop[D]]) -> None:
        """Route by these tables from now on. If they are as before, what was worked out for them stays."""
        former = self._tables
        is_same = (
            not former.has_plans
            and not tables.has_plans
            and former.current == tables.current
            and self._plans.states == tables.states(tables.current)
            and all(neighbours.get(hop.name) is hop for hop, _ in self._plans.hops)
        )
        self._tables = tables
        self._neighbours = neighbours
        if not is_same:
            self.forget_plans()
        self.held.by_level = tables.held
        self._release()

    def forget_plans(self) -> None:
        """Work out again by which neighbours parcels go on: what is remembered may have been damaged."""
        self._by_label = {}
        self._by_ways = {}
        self._plans = self._plans_of(self._tables.current)

    def _plans_of(self, colours: tuple[int, ...], told: ExitNumbers = ()) -> MaskPlans[D]:
        """Return the plans for parcels of these colours that name these exits; none are ()."""
        plans = self._by_ways.get((colours, told))
        if plans is None:
            if len(self._by_ways) >= MOST_WAYS:
                self._by_ways.clear()
            plans = MaskPlans(self._tables.states(colours, told), self._neighbours, colours, told)
            self._by_ways[colours, told] = plans
        return plans

    def _plans_for(self, level: int, ways: bytes) -> MaskPlans[D]:
        """Return the plans for a parcel that came over a link of a level: below that, it gets our colours and exits."""
        colours, exits, _ = read_ways(ways)
        depth = self._context.depth
        told = (0,) * level + exits[level:depth] if any(exits[level:depth]) else ()
        return self._plans_of(self._tables.current[:level] + colours[level:depth], told)

    def under_way(self, level: int, colour: int) -> tuple[int, int]:
        """Return how many parcels of a colour were sent over links inside the scope of a level, and how many came.

        What waits here to be sent on, for the sake of a scope inside, is under way, too.
        """
        counts = [hop.under_way(level, colour) for hop in self._neighbours.values() if hop.level <= level]
        waiting = self.held.count(level, colour)
        return sum(sent for sent, _ in counts) + waiting, sum(arrived for _, arrived in counts)

    # ---- events of our own clients

    def publish(self, data: bytes, runs: list[tuple[Route[D], int, int, int]]) -> None:
        """Send what other brokers want of some runs on its way."""
        plans = self._plans
        if not plans.hops:
            return
        for route, start, end, count in runs:
            if route.demands or not route.is_selective:
                self._route_run(route, data, start, end, count, {}, None, self._context.depth, _BEGINNING, plans)

    # ---- parcels

    def receive(self, hop: NextHop[D], flows: FlowTable[D], data: bytes, at: int, largest: int) -> int:
        """Take in a parcel that begins here; return how many events came for us or ours."""
        length, _, _, hops, events, _, contents, matchings = HEADER.unpack_from(data, at)
        first = at + HEADER_SIZE + 8 * data[at + LEVELS_AT].bit_count()
        plan = self._by_label.get(addressed(data, at, first) + hop.key)
        if plan is not None and plan.is_direct and hops < MOST_HOPS and first + SHORTEST_EVENTS <= at + length:
            hop.arrived[plan.coloured] += 1
            journey = ParcelHistory(hops + 1, contents, matchings)
            self._sender.send(plan.shares, data, first, at + length, events, journey)
            return 0
        parcel = parse(data, at)
        if parcel.levels[0] < hop.level or parcel.levels[-1] >= self._context.depth:
            raise FrameError(Refusal.PROTOCOL, "a parcel for members of a scope that we do not share")
        hop.arrived[read_ways(parcel.ways).coloured] += 1
        if parcel.hops >= MOST_HOPS:
            self.circling += parcel.events
            return 0
        journey = ParcelHistory(parcel.hops + 1, parcel.contents, parcel.matchings)
        if parcel.masks is None:
            return self._receive_mixed(hop, flows, data, parcel, journey, largest)
        if plan is None:
            plan = self._plan(hop, addressed(data, at, first) + hop.key, parcel, parcel.masks)
        if plan.is_foreign:
            self.foreign += parcel.events
        inner = data[parcel.start : parcel.end]
        if not plan.enters:
            self._dispatch(plan.onward, plan.plans, hop.level, inner, 0, len(inner), parcel.events, journey)
            return 0
        runs = self._runs(flows, inner, parcel.events, largest)
        if hop.level == 0 and plan.onward:
            self._sender.send(plan.shares, inner, 0, len(inner), parcel.events, journey)
        elif hop.level:
            for route, start, end, count in runs:
                upper: dict[int, Chosen] = dict(plan.onward)
                self._route_run(route, inner, start, end, count, upper, None, hop.level, journey, plan.plans)
        return self._deliver_locally(inner, runs, parcel.matchings[hop.level])

    def _plan(self, hop: NextHop[D], key: bytes, parcel: Parcel, masks: Masks) -> MaskPlan[D]:
        """Return what becomes of parcels with this address, and remember it."""
        level, plans = hop.level, self._plans_for(hop.level, parcel.ways)
        own, held = plans.states[level].own, self.held.by_level[level]
        enters = bool(masks.get(level, 0) & own)
        onward = {each: rest for each, mask in masks.items() if (rest := mask & ~own if each == level else mask)}
        waits = any(mask & held.get(each, 0) for each, mask in onward.items())
        if len(self._by_label) >= MOST_PLANS:
            self._by_label.clear()
        is_foreign = plans.is_foreign(level, parcel.states)
        is_direct = not (enters or waits or is_foreign)
        coloured = read_ways(parcel.ways).coloured
        plan = MaskPlan(enters, is_direct, is_foreign, onward, plans.split_by_hop(onward), plans, coloured)
        self._by_label[key] = plan
        return plan

    def _receive_mixed(
        self, hop: NextHop[D], flows: FlowTable[D], data: bytes, parcel: Parcel, journey: ParcelHistory, largest: int
    ) -> int:
        """Take in a parcel whose events are for different members."""
        assert parcel.arrays is not None
        inner = data[parcel.start : parcel.end]
        runs = self._runs(flows, inner, parcel.events, largest)
        plans = self._plans_for(hop.level, parcel.ways)
        if plans.is_foreign(hop.level, parcel.states):
            self.foreign += parcel.events
        own = np.uint64(plans.states[hop.level].own)
        entering = (parcel.arrays.get(hop.level, np.zeros(parcel.events, np.uint64)) & own) != 0
        first = 0
        arrived = 0
        for route, start, end, count in runs:
            upper: dict[int, Chosen] = {}
            for level, masks in parcel.arrays.items():
                part = masks[first : first + count]
                upper[level] = part & ~own if level == hop.level else part
            some = entering[first : first + count]
            self._route_run(route, inner, start, end, count, upper, some, hop.level, journey, plans)
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

    def reroute(self, waiting: Iterable[tuple[int, bytes, int]]) -> None:
        """Send parcels on that waited on links of some levels which are lost, as if they had just come."""
        for level, data, count in waiting:
            parcel = parse(data, 0)
            journey = ParcelHistory(parcel.hops, parcel.contents, parcel.matchings)
            plans = self._plans_for(level, parcel.ways)
            inner = data[parcel.start : parcel.end]
            try:
                if parcel.masks is not None:
                    self._dispatch(parcel.masks, plans, level, inner, 0, len(inner), parcel.events, journey)
                else:
                    assert parcel.arrays is not None, "a parcel has one kind of masks or the other"
                    self._dispatch_mixed(self._parts_of(inner, parcel.arrays), plans, level, journey)
            except FrameError:  # whoever told us what its events are about is gone, too
                self._sender.stranded += count
            else:
                self.rerouted += count

    def _parts_of(self, inner: bytes, arrays: MaskArrays) -> list[tuple[BlockView, MaskArrays]]:
        """Return events with a mask for each, by block."""
        parts: list[tuple[BlockView, MaskArrays]] = []
        first = 0
        for view in block_views(inner, 0, len(inner), self._forwarder.schemas):
            last = first + view.count
            parts.append((view, {level: masks[first:last] for level, masks in arrays.items()}))
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
        plans: MaskPlans[D],
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
                mask = _chosen(route, level, lone, plans)
                assert isinstance(mask, int), "a lone event, or all without filters, go one way"
                if mask:
                    masks[level] = mask
            if masks:
                self._dispatch(masks, plans, below, data, start, end, count, self._counted(journey, below))
            return
        first = 0
        parts: list[tuple[BlockView, MaskArrays]] = []
        for view in block_views(data, start, end, self._forwarder.schemas):
            chosen: MaskArrays = {
                level: spread(mask if isinstance(mask, int) else mask[first : first + view.count], view.count)
                for level, mask in upper.items()
            }
            some = None if entering is None else entering[first : first + view.count]
            if some is None or some.any():
                for level in range(below):
                    mask = spread(_chosen(route, level, view, plans), view.count)
                    chosen[level] = mask if some is None else np.where(some, mask, np.uint64(0))
            parts.append((view, chosen))
            first += view.count
        self._dispatch_mixed(parts, plans, below, self._counted(journey, below))

    def _counted(self, journey: ParcelHistory, below: int) -> ParcelHistory:
        if not below:
            return journey
        self.matched += 1
        before = journey.matchings[below] if below < self._context.depth else 0
        return journey._replace(matchings=bytes([before + 1]) * below + journey.matchings[below:])

    def choose(self, route: Route[D], level: int, batch: Batch | None) -> Chosen:
        """Return which members of a level shall have the events; without filters no batch is looked at."""
        return _chosen(route, level, batch, self._plans)

    def split_by_hop(self, masks: Masks, told: ExitNumbers = ()) -> HopShares[D]:
        """Return the share of each next hop of a parcel with these masks that names these exits."""
        return self._plans_of(self._tables.current, told).split_by_hop(masks)

    # ---- holding back

    def _dispatch(
        self,
        masks: Masks,
        plans: MaskPlans[D],
        level: int,
        data: bytes,
        start: int,
        end: int,
        count: int,
        journey: ParcelHistory,
    ) -> None:
        """Send a run on that got its colours below a level here, but for members for whom it has to wait."""
        held = self.held.by_level[level]
        if held:
            waiting = {each: part for each, mask in masks.items() if (part := mask & held.get(each, 0))}
            if waiting:
                self._hold(HeldRun(level, plans.colours, plans.told, waiting, {}, data[start:end], count, journey))
                masks = {each: part for each, mask in masks.items() if (part := mask & ~held.get(each, 0))}
        self._sender.send(plans.split_by_hop(masks), data, start, end, count, journey)

    def _dispatch_mixed(
        self, parts: list[tuple[BlockView, MaskArrays]], plans: MaskPlans[D], level: int, journey: ParcelHistory
    ) -> None:
        """Send events on that got their colours below a level here, but for members for whom they have to wait."""
        held = self.held.by_level[level]
        if held:
            parts = [self._hold_some(view, masks, held, plans, level, journey) for view, masks in parts]
        self._sender.send_mixed(parts, journey, plans)

    def _hold_some(
        self,
        view: BlockView,
        masks: MaskArrays,
        held: Mapping[int, int],
        plans: MaskPlans[D],
        level: int,
        journey: ParcelHistory,
    ) -> tuple[BlockView, MaskArrays]:
        """Let events of a block wait for the members that are held; return what can leave."""
        waiting = {each: mask & np.uint64(held.get(each, 0)) for each, mask in masks.items()}
        rows = reduce(or_, (mask != 0 for mask in waiting.values()), np.zeros(view.count, np.bool_)).nonzero()[0]
        if not len(rows):
            return view, masks
        inner = b"".join(frame for frame, _ in view.pick(rows))
        some = {each: mask[rows] for each, mask in waiting.items()}
        self._hold(HeldRun(level, plans.colours, plans.told, None, some, inner, len(rows), journey))
        return view, {each: mask & ~np.uint64(held.get(each, 0)) for each, mask in masks.items()}

    def _hold(self, run: HeldRun[ParcelHistory]) -> None:
        self._forwarder.keep_definitions(self._kept, contents_of(run.inner, 0, len(run.inner))[1])
        self.held.append(run)

    def let_go(self) -> None:
        """Send all that waits: this broker is about to stop, and what is late is better than what is lost."""
        self.held.by_level = ({},) * (self._context.depth + 1)
        self._release()

    def _release(self) -> None:
        """Send what has waited, in order, as far as it need not wait any longer."""
        held = self.held.held  # what has to wait on is not counted again
        for run in self.held.take():
            plans = self._plans_of(self._tables.current[: run.level] + run.colours[run.level :], run.told)
            journey = run.history._replace(contents=0)
            if run.masks is not None:
                self._dispatch(run.masks, plans, run.level, run.inner, 0, len(run.inner), run.events, journey)
            else:
                self._dispatch_mixed(self._parts_of(run.inner, run.arrays), plans, run.level, journey)
        self.held.held = held
        if not self.held.waiting:
            self._forwarder.drop(self._kept)
            self._kept = FlowTable(_OWN)


def _chosen(route: Route[D], level: int, batch: Batch | None, plans: MaskPlans[D]) -> Chosen:
    """Return which members of a level shall have the events, of those that parcels of the plans' colours can reach."""
    members = plans.states[level].members
    return route.forwarding[level].destinations(lambda: wanted(route, level, batch), members)


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
