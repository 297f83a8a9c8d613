"""Stream floors: up to where a stream is forgotten here, because others have forgotten it and nobody here needs it.

What a repository that stores everything has forgotten, everyone had, or nobody will come for. A repository that never
got it must not wait for it, nor take it for a gap that its publisher may still fill: it raises its own floor.
"""

from collections.abc import Iterable

from stentor.model.control import StreamRanges
from stentor.model.stored.record import RecordKind
from stentor.model.stored.span import Span, Spans
from stentor.protocols.delivery.replication.bundle import PeerRepository
from stentor.protocols.delivery.repository.serving.dissemination_table import SubscriberProgress
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.topic_state import TopicState


class StreamFloors:
    """Those of one topic at one repository."""

    def __init__(self, state: TopicState) -> None:
        self._unit, self._log = state.settings.unit, state.log
        self._table = state.table

    @property
    def _served(self) -> list[SubscriberProgress]:
        return [each for each in self._table.destinations.values() if each.served]

    def begin(self, stream: PublisherStream, held: StreamRanges) -> None:
        """A storage that serves a unit needs nothing of a stream but what clients in the unit have not got."""
        if not self._unit or stream.stored or stream.floor:
            return
        ends = [each.upto(stream.id) for each in self._served]
        stored = Spans(((1, held.floor), *held.spans)).upto()  # what comes after a gap may turn out to be sent to us
        floor = min([stored, *ends])
        if floor:
            self._log.void(stream, [(1, floor)], RecordKind.SKIPPED)  # what was set aside of it
            stream.forget(floor)
            self._log.unwritten.mark_floor(stream)

    def follow(self, stream: PublisherStream, held: StreamRanges, living: Iterable[PeerRepository]) -> bool:
        """Do not wait for what a repository has forgotten that stores everything. Return whether storages for units
        alone have some of it: whoever lacks that cannot be served here.

        The floor does not rise over a number that a subscriber whom we serve lacks and can still get: from us, or from
        one that lives. What lies beyond that number, and nobody has, is passed over, but not forgotten yet.
        """
        if held.floor <= stream.floor:
            return False
        kept = Spans(_kept(stream, held.floor, living))
        floor = self._limit(stream, held.floor, kept)
        gaps = stream.absent([(1, floor)], late=True)
        gaps += [rest for gap in stream.absent([(floor + 1, held.floor)], late=True) for rest in kept.missing(*gap)]
        self._log.void(stream, gaps, RecordKind.SKIPPED)
        for gap in gaps:
            stream.voids.remove(*gap)
            stream.voids.update(Spans(held.voids).within(*gap))  # nobody ever had these
            stream.skipped.add(*gap)
            stream.durable.add(*gap)
        is_cared_for = any(first <= held.cared for first, _ in gaps) and held.cared > stream.unit_floor
        if is_cared_for:
            stream.unit_floor = held.cared
        if is_cared_for or floor > stream.floor:
            stream.forget(floor)
            self._log.unwritten.mark_floor(stream)
        return is_cared_for

    def rise(self, streams: Iterable[PublisherStream]) -> None:
        """Follow floors that others told earlier, over what is here or was passed over, as subscribers get the rest."""
        for stream in streams:
            told = stream.told_floor
            if told > stream.floor:
                gaps = stream.absent([(stream.floor + 1, told)], late=True)
                floor = self._limit(stream, min([told, *(first - 1 for first, _ in gaps)]), Spans())
                if floor > stream.floor:
                    stream.forget(floor)
                    self._log.unwritten.mark_floor(stream)

    def is_orphaned(self, stream: PublisherStream, living: Iterable[PeerRepository]) -> bool:
        """Return whether something is awaited that others have forgotten, and that was with one that lives no more."""
        if stream.told_floor <= stream.floor:
            return False
        kept = Spans(_kept(stream, stream.told_floor, living))
        gaps = stream.absent([(stream.floor + 1, stream.told_floor)], late=True)
        return any(kept.missing(*gap) for gap in gaps)

    def _limit(self, stream: PublisherStream, floor: int, kept: Spans) -> int:
        """Return how far the floor may rise."""
        here = stream.stored.within(stream.floor + 1, floor)
        unwritten = [gap for span in here for gap in stream.durable.missing(*span)]  # readers must not pass these yet
        floor = min([floor, *(first - 1 for first, _ in unwritten)])
        there = kept.copy()
        there.update(here)
        for progress in self._served:
            done = progress.done.get(stream.id, Spans())
            lacking = [gap for span in there for gap in done.missing(*span)]
            floor = min([floor, *(first - 1 for first, _ in lacking)])
        cut = stream.locate(floor + 1)  # records are forgotten as wholes: others may have the same events cut otherwise
        return floor if cut is None else min(floor, cut[0] - 1)


def _kept(stream: PublisherStream, floor: int, living: Iterable[PeerRepository]) -> list[Span]:
    """Return what others that store everything, and live, have not forgotten up to a number."""
    found: list[Span] = []
    for peer in living:
        if peer.name in stream.peer_floors and peer.name in stream.peer_stored:
            spans = stream.peer_stored[peer.name].within(max(stream.floor, stream.peer_floors[peer.name]) + 1, floor)
            skips = stream.peer_skipped.get(peer.name, Spans())
            found += [rest for span in spans for rest in skips.missing(*span)]
    return found
