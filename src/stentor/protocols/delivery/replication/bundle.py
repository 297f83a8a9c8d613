"""The other repositories of a bundle, as one of them sees them: who lives, who has what, and what to ask them for."""

import enum
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

from stentor.model.control import GossipAck, GossipState, SequenceRun, StreamRanges
from stentor.model.stored.record import RecordHeader, RecordKind, Row, StreamId
from stentor.model.stored.span import Span, Spans
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.storing.streams import Streams

_MOST_ROWS = 65_536  # of the repository table, for each repository, in memory
_FEW_ROWS = 1024  # that are not worth a look at which of them still count
_MOST_WANTED = 64  # streams that one request names


class PeerState(enum.Enum):
    MEMBER = "member"
    LEAVING = "leaving"  # a member, or one again, that said it leaves: it does not count
    DEPARTED = "departed"  # no member any more, but it has something that we may need


class PeerChange(enum.Enum):
    SAID_STAYING = "said that it stays"
    SAID_LEAVING = "said that it leaves"
    REMOVED = "removed"  # the registry lists it no longer
    ADDED = "added"  # the registry lists it


TRANSITIONS = {
    (PeerState.MEMBER, PeerChange.SAID_STAYING): PeerState.MEMBER,
    (PeerState.MEMBER, PeerChange.SAID_LEAVING): PeerState.LEAVING,
    (PeerState.MEMBER, PeerChange.REMOVED): PeerState.DEPARTED,
    (PeerState.MEMBER, PeerChange.ADDED): PeerState.MEMBER,
    (PeerState.LEAVING, PeerChange.SAID_STAYING): PeerState.MEMBER,
    (PeerState.LEAVING, PeerChange.SAID_LEAVING): PeerState.LEAVING,
    (PeerState.LEAVING, PeerChange.REMOVED): PeerState.DEPARTED,
    (PeerState.LEAVING, PeerChange.ADDED): PeerState.LEAVING,  # until it says that it stays
    (PeerState.DEPARTED, PeerChange.SAID_STAYING): PeerState.DEPARTED,  # it has not heard that it was removed
    (PeerState.DEPARTED, PeerChange.SAID_LEAVING): PeerState.DEPARTED,
    (PeerState.DEPARTED, PeerChange.REMOVED): PeerState.DEPARTED,
    (PeerState.DEPARTED, PeerChange.ADDED): PeerState.LEAVING,
}


class PeerRepository:
    """Another repository of the bundle."""

    __slots__ = (
        "_crowded_at",
        "_sequences",
        "answered",
        "asked",
        "cares",
        "facts",
        "heard",
        "inspected",
        "is_asked_by_digest",
        "is_ready",
        "lines",
        "name",
        "number",
        "oldest",
        "passed",
        "recalls",
        "since",
        "state",
        "stuck",
        "told",
        "unit",
        "version",
        "wanted",
        "whole",
    )

    def __init__(self, name: str, unit: str = "") -> None:
        self.name = name
        self.unit = unit  # that it serves
        self.heard = 0  # when; 0 is never
        self.since = 0  # since when it is heard without a long silence
        self.state = PeerState.MEMBER
        self.is_ready = False  # it steers clients, as it last said
        self.stuck = False  # it can write nothing
        self.version = -1  # of the topic that it has; -1 until it has said so
        self.recalls = False  # what it has forgotten can be read from a lake
        self.inspected = False  # it has read all that it has, since we leave
        self.answered = -(1 << 62)  # when it was last told all that we have
        self.number = 0  # of the last state that we heard of it; it counts those that it tells to the bundle
        self.told = False  # it has told us all that it has, and we have heard all that it told since then
        self.whole = 0  # when it last told us all that it has
        self.facts = 0  # the digest of its registry
        self.is_asked_by_digest = False  # it has registered what we have not, and was asked what came after our digest
        self.passed = 0  # the last of its numbers under which it passed on something to us
        self.asked = 0  # when it was asked for events; 0 if nothing is under way
        self.wanted: dict[StreamId, Spans] = {}  # the events that it was last asked for
        # Up to where it has all that a subscriber has not got: one that is registered now, not one of this name before.
        self.cares: dict[str, dict[StreamId, int]] = {}
        # Its part of the repository table, in the order of its own sequence numbers.
        self.lines: list[RecordHeader] = []
        self._sequences: list[int] = []  # Invariant: those of `lines`
        self.oldest = 0  # From this sequence number on `lines` lack nothing that we heard and that is not forgotten.
        self._crowded_at = _FEW_ROWS  # so many lines, and some of them may be of what is forgotten since

    def validate(self) -> None:
        assert self._sequences == [line.sequence for line in self.lines], "rows and their numbers differ"
        assert self._sequences == sorted(self._sequences), "rows out of order"
        assert self.since <= self.heard, "heard for longer than it was heard"
        assert not (self.is_departed and self.cares), "no member, and cares for somebody"

    def change(self, change: PeerChange) -> None:
        self.state = TRANSITIONS[self.state, change]

    @property
    def is_leaving(self) -> bool:
        """Whether it does not count any more, although it may be heard."""
        return self.state is not PeerState.MEMBER

    @property
    def is_departed(self) -> bool:
        return self.state is PeerState.DEPARTED

    def hear(self, now: int, patience: int) -> None:
        """Note that it speaks."""
        if now - self.heard > patience or not self.heard:
            self.since = now
        self.heard = now

    @property
    def retold(self) -> bool:
        """Whether it has told all that it has since it came back from a long silence."""
        return self.told and self.whole >= self.since

    def follow(self, state: GossipState) -> bool:
        """Note which of its states this is; return whether what it tells of streams is new. If it is not the next one,
        some did not come, or it has begun anew: it has not told us all that it has.
        """
        if not state.whole and state.number:
            if state.number not in (self.number, self.number + 1):
                self.told = False
            if state.number <= self.number:
                return False
        self.number = state.number
        return True

    def enter(self, line: RecordHeader) -> bool:
        """Enter a row of the repository table; return False if it is known."""
        at = len(self._sequences)
        if at and self._sequences[-1] >= line.sequence:
            at = bisect_left(self._sequences, line.sequence)
            if at < len(self.lines) and self.lines[at] == line:
                return False
        self._sequences.insert(at, line.sequence)
        self.lines.insert(at, line)
        self.oldest = min(self.oldest or line.sequence, line.sequence)
        if len(self.lines) > 2 * _MOST_ROWS:
            del self.lines[:_MOST_ROWS], self._sequences[:_MOST_ROWS]
            self.oldest = self._sequences[0]
        return True

    def tidy(self, streams: Streams) -> None:
        """Drop rows of what is forgotten here, once these may be half of all: none of them is looked at often."""
        if len(self.lines) >= self._crowded_at:
            self.lines = [line for line in self.lines if not streams.is_forgotten(line)]
            self._sequences = [line.sequence for line in self.lines]
            self._crowded_at = max(2 * len(self.lines), _FEW_ROWS)

    def translate(self, first: int, last: int) -> Iterable[tuple[StreamId, int, int]]:
        """Return what its sequence numbers stand for: streams, first and last catenation numbers."""
        at = max(bisect_right(self._sequences, first) - 1, 0)
        for line in self.lines[at : bisect_right(self._sequences, last)]:
            start, end = max(first, line.sequence), min(last, line.end)
            if start <= end:
                yield line.stream, line.first + start - line.sequence, line.first + end - line.sequence


class Bundle:
    """All members but ourselves, and those that departed and may be needed. Who is departed cares for nobody;
    `validate` asserts that.
    """

    def __init__(self, own: str, unit: str = "") -> None:
        self._own, self._unit = own, unit
        self.peers: dict[str, PeerRepository] = {}

    def validate(self) -> None:
        assert self._own not in self.peers, "it is among the others"
        for name, peer in self.peers.items():
            assert peer.name == name
            peer.validate()

    def admit(self, units: Mapping[str, str]) -> list[str]:
        """Take these as the members, with the units that they serve; return who is none any more."""
        others = {name: unit for name, unit in units.items() if name != self._own}
        gone = [name for name, peer in self.peers.items() if name not in others and not peer.is_departed]
        for name in gone:
            self.dismiss(name)
        for name, unit in sorted(others.items()):
            peer = self.peers.setdefault(name, PeerRepository(name))
            peer.change(PeerChange.ADDED)
            if not peer.heard:
                peer.unit = unit  # as long as it has not said so itself
        return gone

    def load(self, rows: Iterable[Row]) -> None:
        """Enter rows of the repository table that the ledger held."""
        for row in rows:
            peer = self.peers.get(row.repository)
            if peer is not None:
                peer.enter(row.line)

    def dismiss(self, name: str) -> PeerRepository:
        """Count on a repository no longer; it is heard until others have all that it has."""
        peer = self.peers.setdefault(name, PeerRepository(name))
        peer.change(PeerChange.REMOVED)
        peer.told = False  # what it has is told anew, if it still speaks
        peer.cares = {}
        return peer

    def forget(self, peer: PeerRepository) -> None:
        """Hear one no more that has left and handed over all that it had."""
        del self.peers[peer.name]

    def end_registration(self, subscriber: str) -> None:
        """Count on nobody to keep events for a subscriber whose registration has ended: if the name subscribes again,
        it may want what they have skipped.
        """
        for peer in self.peers.values():
            peer.cares.pop(subscriber, None)

    @property
    def same_unit_peers(self) -> list[str]:
        """The members that serve the same unit: copies are counted among these."""
        return [peer.name for peer in self.peers.values() if peer.unit == self._unit and not peer.is_departed]

    def living(self, now: int, patience: int) -> list[PeerRepository]:
        """Return those heard lately; one that leaves does not count."""
        since = now - patience
        return [peer for peer in self.peers.values() if peer.heard > since and not peer.is_leaving]

    def take_rows(self, peer: PeerRepository, gossip: GossipAck, streams: Streams) -> list[Row]:
        """Return what another one has stored, as new rows of the repository table; lives that are over need none."""
        lines = (line_of(run, digest) for run, digest in zip(gossip.stretches, gossip.digests, strict=True))
        rows = [Row(peer.name, line) for line in lines if not streams.is_over(line.stream) and peer.enter(line)]
        peer.tidy(streams)
        return rows

    def take_state(
        self,
        peer: PeerRepository,
        state: GossipState,
        streams: Mapping[StreamId, PublisherStream],
        *,
        is_agreed: bool,
    ) -> None:
        """Note what another one has: the state tells all of it, for each stream that it names. Unless we are agreed
        upon what is registered, it may keep events for registrations that have ended.
        """
        peer.change(PeerChange.SAID_LEAVING if state.leaving else PeerChange.SAID_STAYING)
        peer.is_ready = state.ready
        peer.facts, peer.unit = state.facts, state.unit
        peer.stuck, peer.recalls = state.stuck, state.recalls
        peer.inspected = self._own in state.inspected
        damaged = {(held.publisher, held.incarnation): Spans(held.spans) for held in state.damaged}
        for held in state.held:
            stream = streams[held.publisher, held.incarnation]
            stream.damages.pop(peer.name, None)
            if stream.id in damaged:
                stream.damages[peer.name] = damaged[stream.id]
            stream.peer_stored[peer.name] = Spans(((1, held.floor), *held.spans))
            stream.forgotten[peer.name] = held.floor
            stream.peer_skipped[peer.name] = skips = Spans(held.skipped)
            if peer.unit:
                skips.add(1, held.floor)  # it served its unit; others may need it
            else:
                stream.peer_floors[peer.name] = held.floor
            stream.announced.update(held.spans)
            stream.announced.add(1, held.floor)
        if state.whole:
            peer.told, peer.whole = True, peer.heard
            named = {
                (held.publisher, held.incarnation): Spans(((1, held.floor), *held.spans)).upto() for held in state.held
            }
            if is_agreed and not peer.is_departed:
                peer.cares.update(dict.fromkeys(state.cares, named))
            for key, stream in streams.items():
                if key not in named:
                    stream.dismiss(peer.name)

    def wants(
        self, peer: PeerRepository, streams: Iterable[PublisherStream], settled: int, most: int, since: int
    ) -> tuple[StreamRanges, ...]:
        """Return what to ask another one for, so many events at most: what it has and we do not, but for what may be on
        its way, or was asked of somebody else since then.
        """
        wanted: dict[StreamId, list[Span]] = {}
        for stream in streams:
            if stream.stored.covers(1, stream.announced.last):
                continue
            gaps = stream.overdue(stream.offered_by(peer.name), settled)  # what it has forgotten is with another one
            for other in self.peers.values():
                if other is not peer and other.asked > since and stream.id in other.wanted:
                    gaps = [rest for gap in gaps for rest in other.wanted[stream.id].missing(*gap)]
            for first, last in gaps[:_MOST_WANTED]:
                wanted.setdefault(stream.id, []).append((first, min(last, first + most - 1)))
                most -= last - first + 1
                if most <= 0:
                    break
            if len(wanted) == _MOST_WANTED or most <= 0:
                break
        peer.wanted = {key: Spans(spans) for key, spans in wanted.items()}
        return tuple(StreamRanges(*key, 0, tuple(spans)) for key, spans in wanted.items())


def line_of(run: SequenceRun, digest: int) -> RecordHeader:
    return RecordHeader(run.sequence, run.count, run.publisher, run.incarnation, run.first, RecordKind.EVENTS, digest)
