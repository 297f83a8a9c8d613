"""Sending parcels: what was divided among next hops becomes parcels in their outboxes.

A neighbour that has not heard of a topic or a schema is told what it means first.
"""

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import SchemaId, TopicId
from stentor.policies.forwarding import Chosen
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.mask_plans import HopShares, MaskPlans, NextHop
from stentor.protocols.dissemination.routes import Sink
from stentor.wire.block_view import BlockView, block_views
from stentor.wire.head import frames_of
from stentor.wire.parcel import SOFT_PARCEL, MaskArrays, Masks, Stamp, contents_of, head, wrap

D = TypeVar("D", bound=Sink)
_MOST_MIXED = 4096  # events in a parcel with a mask for each: masks take room, too
_NOBODY: Mapping[Any, Any] = {}  # misses a parcel by name, if it is dropped


class ParcelHistory(NamedTuple):
    """Where events have been, and what they are about."""

    hops: int
    contents: int  # 0 if that is not known yet
    matchings: bytes  # how many brokers matched them for the members of each level


class ParcelSender(Generic[D]):
    """Sends the parcels of one broker."""

    def __init__(self, forwarder: Forwarder[D]) -> None:
        self._forwarder = forwarder
        self.relayed = 0  # events that were handed on
        self.stranded = 0  # members that could not be reached, once for each event

    def send(
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
        for hop, masks, labelled, stamp, tally in shares.hops:
            if hop.channel is not None:
                some = [
                    (view, {level: spread(mask, view.count) for level, mask in masks.items()})
                    for view in block_views(data, start, end, self._forwarder.schemas)
                ]
                self._send_through(hop, masks, stamp, some, journey)
                continue
            tally[0] += 1
            destination = hop.destination
            if contents not in destination.defined:
                self._introduce(destination, contents, data, start, end)
            parcel = head(labelled, end - start, count, hops, contents, matchings) + data[start:end]
            destination.fresh.append((parcel, count, _NOBODY, _NOBODY))
            self._forwarder.unflushed[destination] = None
            self.relayed += count

    def send_mixed(
        self, parts: list[tuple[BlockView, MaskArrays]], journey: ParcelHistory, plans: MaskPlans[D]
    ) -> None:
        """Hand each next hop the events that are for members behind it, in order."""
        self._count_stranded(parts, plans)
        for hop, reach in plans.hops:
            for view, masks in parts:
                share = _wanted(masks, reach) if plans.names_exits(hop) else reach
                for stamp, some in plans.parcels_to(hop, share):  # by block, so that no event overtakes another
                    self._send_through(hop, some, stamp, [(view, masks)], journey)

    def _send_through(
        self,
        hop: NextHop[D],
        reach: Masks,
        stamp: Stamp,
        parts: list[tuple[BlockView, MaskArrays]],
        journey: ParcelHistory,
    ) -> None:
        """Hand one next hop what it reaches of some events."""
        for view, masks in parts:
            chosen = {level: masks[level] & np.uint64(mask) for level, mask in reach.items() if level in masks}
            kept = reduce(or_, (mask != 0 for mask in chosen.values()), np.zeros(view.count, np.bool_))
            if hop.channel is not None and kept.any():
                kept &= hop.channel.admits(view)
            rows = kept.nonzero()[0]
            for start in range(0, len(rows), _MOST_MIXED):
                some = rows[start : start + _MOST_MIXED]
                self._ship(hop, {level: mask[some] for level, mask in chosen.items()}, stamp, view.pick(some), journey)

    def _count_stranded(self, parts: list[tuple[BlockView, MaskArrays]], plans: MaskPlans[D]) -> None:
        """Count the members that no next hop leads to, once for each event that they should have got."""
        for _, masks in parts:
            for level, mask in masks.items():
                lost = mask & ~np.uint64(plans.reached[level])
                if lost.any():
                    self.stranded += int(np.bitwise_count(lost).sum())

    def _ship(
        self,
        hop: NextHop[D],
        masks: MaskArrays,
        stamp: Stamp,
        picked: list[tuple[bytes | memoryview, int]],
        journey: ParcelHistory,
    ) -> None:
        frames = [frame for frame, _ in picked]
        count = sum(events for _, events in picked)
        inner = frames[0] if len(frames) == 1 else b"".join(frames)
        inner = inner if isinstance(inner, bytes) else bytes(inner)
        contents = contents_of(inner, 0, len(inner))[0]  # it may be about less than before
        if contents not in hop.destination.defined:
            self._introduce(hop.destination, contents, inner, 0, len(inner))
        parcel = wrap(masks, [inner], count, journey.hops, contents, journey.matchings, stamp)
        hop.tally(stamp.ways)[0] += 1
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


def spread(mask: Chosen, count: int) -> NDArray[np.uint64]:
    return np.full(count, mask, np.uint64) if isinstance(mask, int) else mask


def _wanted(masks: MaskArrays, reach: Masks) -> Masks:
    """Return the members that any of some events is for, of those that a next hop reaches."""
    found = {level: reach[level] & int(np.bitwise_or.reduce(mask)) for level, mask in masks.items() if level in reach}
    return {level: mask for level, mask in found.items() if mask}


def _pieces(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the parts of a run, cut between frames, and how many events are in each."""
    first, count = start, 0
    for position, length, events in frames_of(data, start, end):
        if position > first and position + length - first > SOFT_PARCEL:
            yield first, position, count
            first, count = position, 0
        count += events
    yield first, end, count
