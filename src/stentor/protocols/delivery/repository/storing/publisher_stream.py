"""A stream: the numbers of one life of a publisher, as one repository knows them."""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from stentor.model.stored.record import RecordHeader, RecordKind, StreamId
from stentor.model.stored.record_columns import RecordColumns
from stentor.model.stored.span import Span, Spans
from stentor.wire.block import Block

Numbers = NDArray[np.int64]
_NOTHING: Numbers = np.empty(0, np.int64)
_MOST_HELD_BACK = 4 << 20  # bytes of events that wait for their order event, or for their publisher to be known


class PublisherStream:
    """What is stored, what is missing, and who else has what."""

    __slots__ = (
        "_digests",
        "_firsts",
        "_sequences",
        "acknowledged",
        "announced",
        "asked_at",
        "changed_at",
        "damaged",
        "damages",
        "durable",
        "durable_floor",
        "floor",
        "forgotten",
        "held_back",
        "highest_numbered",
        "id",
        "last_sequence",
        "lost",
        "peer_floors",
        "peer_skipped",
        "peer_stored",
        "publisher_heard_at",
        "reserved",
        "skipped",
        "stored",
        "unit_floor",
        "voids",
        "waiting",
        "written_off",
    )

    def __init__(self, stream: StreamId) -> None:
        self.id = stream
        # Sets of this stream's numbers, and bounds of them. Invariants, asserted by `validate`:
        #   durable ⊆ stored ∪ skipped               what is durable has a record, or a reason to have none
        #   stored ∩ reserved = ∅                    a record replaces its reservation
        #   stored ∩ voids = ∅ above the floor       so does what comes after it was given up
        #   damaged ⊆ reserved                       until another repository, or the publisher, sends it again
        #   written_off ⊆ voids                      subscribers pass these, and are told
        #   1 … floor ⊆ stored, durable, announced   what is forgotten counts as stored
        #   stored, reserved ⊆ 1 … highest_numbered  each of these has a sequence number, or had one
        #   durable_floor <= floor <= highest_numbered
        self.stored = Spans()  # They have a record here, durable or about to be, or are forgotten.
        self.durable = Spans()  # Their record is durable, or they are skipped.
        self.announced = Spans()  # The publisher said that they exist, or a repository that has them.
        self.voids = Spans()  # Subscribers do not wait for them; one that comes after all is stored as the newest.
        self.skipped = Spans()  # Nobody here wants them.
        self.damaged = Spans()  # They were durable here and cannot be read.
        self.written_off = Spans()  # An operator has accepted that they are lost.
        self.highest_numbered = 0  # the highest number that has a sequence number, if only set aside
        self.last_sequence = 0  # under which something of it was stored or set aside
        self.floor = 0  # All up to it is forgotten.
        self.durable_floor = 0  # It is written down that all up to it is forgotten.
        self.unit_floor = 0  # Up to here some events survive only in storages for units.
        self.changed_at = 0  # when something last changed
        self.publisher_heard_at = 0  # when its publisher last spoke
        self.acknowledged = Spans()  # Its publisher does not have these any more.
        self.lost = 0  # when some of what was acknowledged was found to be nowhere; 0 if it is not so
        self.asked_at = 0  # when the publisher was last asked for what is missing
        self.reserved: list[tuple[int, int, int]] = []  # first, last, and the sequence number of the first
        # Of other repositories, by name: what they have, what those that serve everyone have forgotten, what each has
        # forgotten durably, what they do not have because nobody whom they serve wants it, what they cannot read.
        self.peer_stored: dict[str, Spans] = {}
        self.peer_floors: dict[str, int] = {}
        self.forgotten: dict[str, int] = {}
        self.peer_skipped: dict[str, Spans] = {}
        self.damages: dict[str, Spans] = {}
        self.waiting: dict[int, Block] = {}  # the temporary buffer, by first number
        self.held_back = 0  # bytes in it. Invariant: the sum of its frames, at most _MOST_HELD_BACK
        # The records that are held and not forgotten: first number, sequence number and checksum of each. Invariant:
        # they are as many, and in the order of their first numbers, each of which is held.
        self._firsts = array("q")
        self._sequences = array("q")
        self._digests = array("Q")

    def validate(self) -> None:
        reserved = Spans((first, last) for first, last, _ in self.reserved)
        stored_or_skipped = _union(self.stored, self.skipped)
        assert all(stored_or_skipped.covers(*span) for span in self.durable), "durable, and neither held nor skipped"
        assert not any(self.stored.within(*span) for span in reserved), "held, and still reserved"
        held_above = self.stored.within(self.floor + 1, self.stored.last)
        assert not any(self.voids.within(*span) for span in held_above), "held, and still void"
        assert all(reserved.covers(*span) for span in self.damaged), "damaged, and not reserved"
        assert all(self.voids.covers(*span) for span in self.written_off), "written off, and not void"
        for spans in (self.stored, self.durable, self.announced):
            assert spans.covers(1, self.floor), "forgotten, and not counted as stored"
        assert self.durable_floor <= self.floor <= self.highest_numbered, "a floor above what it is the floor of"
        assert max(self.stored.last, reserved.last) <= self.highest_numbered, "stored above the highest number"
        waiting = sum(len(block.frame) for block in self.waiting.values())
        assert self.held_back == waiting <= _MOST_HELD_BACK, "what waits is of another size"
        firsts = self._firsts.tolist()
        assert len(firsts) == len(self._sequences) == len(self._digests), "columns of records differ in length"
        assert all(map(int.__lt__, firsts, firsts[1:])), "two records begin with one number, or out of order"
        assert all(first in self.stored for first in firsts), "a record of numbers that are not held"

    # ---- the temporary buffer

    def hold_back(self, block: Block) -> bool:
        """Keep a block until its order event is there; False if there is no room."""
        if self.held_back + len(block.frame) > _MOST_HELD_BACK:
            return False
        former = self.waiting.get(block.catenation)
        if former is not None:
            self.held_back -= len(former.frame)
        self.waiting[block.catenation] = block
        self.held_back += len(block.frame)
        return True

    def take_ordered(self) -> list[Block]:
        """The blocks in the buffer whose order events are there, in order."""
        covers = self.announced.covers
        ready = [first for first, block in self.waiting.items() if covers(first, block.last())]
        blocks = [self.waiting.pop(first) for first in sorted(ready)]
        self.held_back -= sum(len(block.frame) for block in blocks)
        return blocks

    def drop_waiting(self) -> None:
        """Forget the blocks in the buffer: no order event comes for them."""
        self.waiting, self.held_back = {}, 0

    # ---- records

    def file(self, line: RecordHeader) -> None:
        """A record of this stream is written or was found."""
        first, last = line.first, line.last
        self.highest_numbered, self.last_sequence = max(self.highest_numbered, last), max(self.last_sequence, line.end)
        self.announced.add(first, last)
        if line.kind is RecordKind.RESERVED:
            self.reserved.append((first, last, line.sequence))
            self.reserved.sort()
            if line.is_damaged:
                self.damaged.add(first, last)
            return
        if self.reserved or self.damaged:
            self._fill(first, last)
        if line.is_written_off:
            self.written_off.add(first, last)
        if line.kind is not RecordKind.EVENTS:
            (self.voids if line.kind is RecordKind.VOID else self.skipped).add(first, last)
            return
        self.stored.add(first, last)
        if self.voids:
            self.voids.remove(first, last)
            self.written_off.remove(first, last)
        at = len(self._firsts)
        if at and self._firsts[-1] > first:
            at = bisect_right(self._firsts, first)
        self._firsts.insert(at, first)
        self._sequences.insert(at, line.sequence)
        self._digests.insert(at, line.digest)

    def recall(self, events: RecordColumns) -> None:
        """Records of events that were found, many at once, in the order of their numbers."""
        firsts, lasts = events.first.astype(np.int64), (events.first + events.length - np.uint64(1)).astype(np.int64)
        breaks = np.flatnonzero(firsts[1:] != lasts[:-1] + 1)
        starts, ends = firsts[np.r_[0, breaks + 1]], lasts[np.r_[breaks, len(lasts) - 1]]
        for first, last in zip(starts.tolist(), ends.tolist(), strict=True):
            self.highest_numbered = max(self.highest_numbered, last)
            self._fill(first, last)
            for spans in (self.voids, self.written_off):
                spans.remove(first, last)
            for spans in (self.announced, self.stored, self.durable):
                spans.add(first, last)
        self.last_sequence = max(self.last_sequence, int((events.sequence + events.length).max()) - 1)
        in_order = not self._firsts or self._firsts[-1] <= firsts[0]
        columns = (
            (self._firsts, firsts),
            (self._sequences, events.sequence.astype(np.int64)),
            (self._digests, events.digest),
        )
        for column, more in columns:
            column.frombytes(more.tobytes())
        if not in_order:
            order = np.argsort(np.array(self._firsts), kind="stable")
            for column, _ in columns:
                column[:] = array(column.typecode, np.array(column)[order].tobytes())

    def _fill(self, first: int, last: int) -> None:
        """These are not reserved any more; what is left of the reservations stays."""
        self.damaged.remove(first, last)
        rest: list[tuple[int, int, int]] = []
        for start, end, sequence in self.reserved:
            if end < first or start > last:
                rest.append((start, end, sequence))
                continue
            if start < first:
                rest.append((start, first - 1, sequence))
            if end > last:
                rest.append((last + 1, end, sequence + last + 1 - start))
        self.reserved = rest

    def places(self, first: int, last: int) -> list[tuple[int, int, int | None]]:
        """New numbers, cut where a reservation begins or ends, with the sequence number set aside for each part."""
        parts: list[tuple[int, int, int | None]] = []
        for start, end, sequence in self.reserved:
            if end < first or start > last:
                continue
            if start > first:
                parts.append((first, start - 1, None))
                first = start
            cut = min(end, last)
            parts.append((first, cut, sequence + first - start))
            first = cut + 1
        if first <= last:
            parts.append((first, last, None))
        return parts

    def remains(self, first: int, last: int) -> list[tuple[int, int, int]]:
        """What stays reserved of the reservations that these numbers take a part of."""
        found: list[tuple[int, int, int]] = []
        for start, end, sequence in self.reserved:
            if end < first or start > last:
                continue
            if start < first:
                found.append((start, first - 1, sequence))
            if end > last:
                found.append((last + 1, end, sequence + last + 1 - start))
        return found

    def earliest(self, done: Spans) -> int | None:
        """The lowest sequence number of a record that is not all within `done`; None if there is none."""
        found = [sequence for start, end, sequence in self.reserved if not done.covers(start, end)]
        for first, last in self.stored.within(self.floor + 1, self.stored.last):
            for start, end in done.missing(first, last):
                at = max(bisect_right(self._firsts, start) - 1, 0)
                records = self._sequences[at : bisect_right(self._firsts, end)]
                found += [min(records)] if records else []  # late ones are not in order
        return min(found, default=None)

    def locate(self, number: int) -> tuple[int, int] | None:
        """The first number and the sequence number of the record that holds this number."""
        at = bisect_right(self._firsts, number) - 1
        return (self._firsts[at], self._sequences[at]) if at >= 0 and number in self.stored else None

    def pieces(self, spans: Iterable[Span], most: int) -> tuple[Numbers, Numbers, Numbers]:
        """Records, or parts of them, that hold these numbers, all of which are held: the first and the last number of
        each, and the sequence number of the first; of the first `most` numbers at least.
        """
        found: list[tuple[Numbers, Numbers, Numbers]] = [(_NOTHING, _NOTHING, _NOTHING)]
        for first, last in spans:
            if most <= 0:
                break
            start = max(bisect_right(self._firsts, first) - 1, 0)
            end = min(bisect_right(self._firsts, last), start + most)
            begins = np.array(self._firsts[start:end], np.int64)
            firsts = np.maximum(begins, first)
            lasts = np.append(firsts[1:] - 1, min(last, self._firsts[end] - 1 if end < len(self._firsts) else last))
            found.append((firsts, lasts, np.array(self._sequences[start:end], np.int64) + firsts - begins))
            most -= last - first + 1
        firsts, lasts, sequences = (np.concatenate(column) for column in zip(*found, strict=True))
        return firsts, lasts, sequences

    def next_record(self, number: int, last: int) -> int:
        """The first number of the record after the one that holds this number; `last + 1` if there is none."""
        at = bisect_right(self._firsts, number)
        return self._firsts[at] if at < len(self._firsts) else last + 1

    def length_at(self, first: int) -> int:
        """How many numbers the record holds that begins with this one."""
        return min(self.next_record(first, self.stored.last), self.stored.upto(first) + 1) - first

    def digest_at(self, first: int) -> int | None:
        """The checksum of the record that begins with this number."""
        at = bisect_right(self._firsts, first) - 1
        return self._digests[at] if at >= 0 and self._firsts[at] == first else None

    def lose(self, line: RecordHeader) -> None:
        """A record turned out to be damaged, and `line` says so: its numbers wait until they are there again."""
        self.stored.remove(line.first, line.last)
        self.durable.remove(line.first, line.last)
        at = bisect_right(self._firsts, line.first) - 1
        if at >= 0 and self._firsts[at] == line.first:
            del self._firsts[at], self._sequences[at], self._digests[at]
        self.file(line)

    def forget(self, floor: int) -> None:
        """All up to here is done with."""
        if floor <= self.floor:
            return
        self.floor = floor
        self.highest_numbered = max(self.highest_numbered, floor)
        for spans in (self.stored, self.durable, self.announced):
            spans.add(1, floor)
        at = bisect_right(self._firsts, floor)
        del self._firsts[:at], self._sequences[:at], self._digests[:at]
        self._fill(1, floor)
        self.written_off.remove(1, floor)

    # ---- what is missing, and who has it

    @property
    def asked_for(self) -> list[Span]:
        """Numbers that are known to exist, are not here, and that their publisher still has."""
        if self.stored.covers(self.acknowledged.upto() + 1, self.announced.last):
            return []
        gaps = self.absent(self.announced, late=True)
        return [rest for gap in gaps for rest in self.acknowledged.missing(*gap)]

    @property
    def holes(self) -> list[Span]:
        """Numbers that had a record here of which nothing is left: all up to the highest have one."""
        known = _union(self.stored, self.skipped)
        known.update((*self.voids, *((first, last) for first, last, _ in self.reserved)))
        return known.missing(self.floor + 1, self.highest_numbered)

    @property
    def missing(self) -> list[Span]:
        """Numbers that are known to exist and are not here."""
        return [] if self.stored.covers(1, self.announced.last) else self.absent(self.announced)

    def undamaged(self, spans: Iterable[Span]) -> list[Span]:
        """Of these numbers, those that no repository has found to be damaged: nobody gives up the others by itself."""
        rest = self.readable(spans)
        for damaged in self.damages.values():
            if damaged:
                rest = [part for span in rest for part in damaged.missing(*span)]
        return rest

    def readable(self, spans: Iterable[Span]) -> list[Span]:
        """Of these numbers, those that are not damaged here."""
        return [part for span in spans for part in self.damaged.missing(*span)] if self.damaged else list(spans)

    @property
    def is_settled(self) -> bool:
        """Whether nothing of it waits, is missing, or is somewhere else and not here; nor forgotten there alone."""
        is_behind = self.told_floor > self.floor
        return not (self.waiting or self.missing or is_behind or any(map(self.wanted_from, self.peer_stored)))

    @property
    def told_floor(self) -> int:
        """Up to where one that serves everyone has forgotten it."""
        return max(self.peer_floors.values(), default=0)

    @property
    def end(self) -> int:
        """The last number of which anybody has said anything."""
        return max(self.highest_numbered, self.announced.last, self.stored.last, self.acknowledged.last)

    def is_forgotten_by(self, others: Iterable[str]) -> bool:
        """Whether all of it is forgotten, here and by others, and that is written down."""
        end = self.end
        return self.durable_floor >= end and all(self.forgotten.get(name, 0) >= end for name in others)

    def absent(self, spans: Iterable[Span], late: bool = False) -> list[Span]:
        """What of these is not here, and is neither skipped nor, unless it may come `late`, void."""
        gaps = [gap for first, last in spans for gap in self.stored.missing(first, last)]
        for settled in (self.skipped,) if late else (self.skipped, self.voids):
            if settled:
                gaps = [rest for gap in gaps for rest in settled.missing(*gap)]
        return gaps

    def replicated_upto(self, copies: int, others: Iterable[str], selective: bool = False) -> int:
        """Up to which number all of it is on so many repositories, of this one and those that count; skips do not, nor
        what was before one that is `selective` began with this stream. What those forget that store all, everyone had.
        """
        floor = max(self.peer_floors.values(), default=0) if selective else self.floor
        own = _union(self.skipped, Spans(((1, self.floor),))) if selective else self.skipped
        had = [_without(self.durable, own, floor)]
        had += [
            _without(self.peer_stored[name], self.peer_skipped.get(name), floor)
            for name in others
            if name in self.peer_stored
        ]
        return sorted((spans.upto() for spans in had), reverse=True)[copies - 1] if len(had) >= copies else 0

    def settled(self, copies: int, others: Iterable[str]) -> int:
        """The same for readers, to whom what is void is no gap."""
        return self._common(self._bridged if self.voids else Spans.upto, copies, others)

    def owed(self, copies: int, others: Iterable[str]) -> int:
        """The same for its publisher, to whom what was acknowledged before is none."""
        known = self.acknowledged
        if known.pieces <= 1:
            return self._common(lambda spans: spans.upto(known.upto() + 1), copies, others)
        return self._common(lambda spans: _union(spans, known).upto(), copies, others)

    @property
    def known(self) -> int:
        """Up to which number all of it is stored, durably: here, or on one that is away; or was, and was damaged. Of
        what is forgotten some may have been void.
        """
        everywhere = _union(self.acknowledged, Spans(self.stored_within(1, self.stored.last)))
        everywhere.update((*self.damaged, *self.written_off))
        for name, theirs in self.peer_stored.items():
            skipped = self.peer_skipped.get(name, Spans())
            everywhere.update(rest for span in theirs for rest in skipped.missing(*span))
        upto = everywhere.upto()
        voids = [rest for void in self.voids.within(1, upto) for rest in self.written_off.missing(*void)]
        return voids[0][0] - 1 if voids else upto

    def _common(self, upto: Callable[[Spans], int], copies: int, others: Iterable[str]) -> int:
        mine = upto(self.durable)
        if copies <= 1:
            return mine
        theirs = [upto(self.peer_stored[name]) for name in others if name in self.peer_stored]
        return min(mine, sorted(theirs, reverse=True)[copies - 2]) if len(theirs) >= copies - 1 else 0

    def reached_by(self, peer: str) -> int:
        """Up to which number another repository has all that is not void."""
        return self._bridged(self.peer_stored[peer]) if peer in self.peer_stored else 0

    def _bridged(self, spans: Spans) -> int:
        return _union(spans, self.voids).upto()

    def stored_within(self, first: int, last: int) -> list[Span]:
        """Of these numbers, those whose records are here and durable."""
        return [part for span in self.stored.within(first, last) for part in self.durable.within(*span)]

    @property
    def kept(self) -> list[Span]:
        """What is durable here, and neither skipped nor forgotten."""
        spans = self.durable.within(self.floor + 1, self.durable.last)
        return [part for span in spans for part in self.skipped.missing(*span)]

    def singles(self, upto: int) -> tuple[Span, ...]:
        """What is durable beyond that."""
        spans = self.durable.within(upto + 1, self.durable.last)
        return tuple(rest for span in spans for rest in self.skipped.missing(*span))

    def is_kept_by(self, peer: str) -> bool:
        """Whether another one has something that is forgotten here."""
        theirs = self.peer_stored.get(peer)
        return theirs is not None and bool(theirs.within(self.peer_floors.get(peer, 0) + 1, self.floor))

    def dismiss(self, peer: str) -> None:
        """Another repository has nothing of it, or does not count any more."""
        for told in (self.forgotten, self.peer_stored, self.peer_floors, self.peer_skipped, self.damages):
            told.pop(peer, None)

    def wanted_from(self, peer: str) -> list[Span]:
        """What the other one has and we do not."""
        theirs = self.peer_stored.get(peer)
        if theirs is None:
            return []
        skips, absent = self.peer_skipped.get(peer), self.absent(theirs, late=True)
        return absent if not skips else [part for gap in absent for part in skips.missing(*gap)]

    def offered_by(self, peer: str) -> list[Span]:
        """What the other one can send us: what it has forgotten, it cannot."""
        floor = self.peer_floors.get(peer, 0)
        return [(max(first, floor + 1), last) for first, last in self.wanted_from(peer) if last > floor]

    def overdue(self, gaps: list[Span], settled: int) -> list[Span]:
        """Those that are hardly on their way any more: what was sent after them is here, or nothing came since then."""
        return gaps if self.changed_at <= settled else [gap for gap in gaps if gap[1] < self.stored.last]

    def learn(self, peer: str, spans: Iterable[Span]) -> None:
        """Another repository has these, or has skipped them."""
        known = self.peer_stored.setdefault(peer, Spans())
        for first, last in spans:
            known.add(first, last)
            self.announced.add(first, last)


def _without(spans: Spans, skips: Spans | None, floor: int) -> Spans:
    """What a repository really has of what lies above the floor."""
    if not skips:
        return spans
    rest = spans.copy()
    for first, last in skips.within(floor + 1, skips.last):
        rest.remove(first, last)
    return rest


def _union(one: Spans, other: Spans) -> Spans:
    both = one.copy()
    both.update(other)
    return both
