"""A cursor: how far a subscriber that this repository steers has been told of what is stored for it.

An application is handed only what its subscriber was told of, and a subscriber is told of nothing before its
application has asked and enough repositories know that. So what a life that was killed may have been handed is at most
what it was told of, and a life that never asked was handed nothing.
"""

import enum
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from stentor.model.control import HandedOut, SequenceRun, StreamRanges
from stentor.model.stored.record import RecordHeader, RecordKind, StreamId
from stentor.model.stored.span import Spans
from stentor.protocols.delivery.repository.serving.dissemination_table import SubscriberProgress
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream


def _latest(one: Mapping[StreamId, int], other: Mapping[StreamId, int]) -> dict[StreamId, int]:
    return {stream: max(one.get(stream, 0), other.get(stream, 0)) for stream in (*one, *other)}


class Ask(enum.Enum):
    """Whether the application of a subscriber has asked for events. It is handed none that it was not told of."""

    NONE = "none"  # it has not: it is told of none, so that a life that never asks leaves no doubt behind
    NOTED = "noted"  # it has, and not enough repositories know that yet
    KNOWN = "known"  # as many know it as events must be on: it is told what there is


class CursorState(enum.Enum):
    CONSULTING = (
        "consulting"  # the other repositories are asked what they know of the subscriber, which is told nothing
    )
    ACTIVE = "active"  # it knows that this repository steers it, and is told what there is
    ENDING = "ending"  # its life ended in good order; it is told so once enough repositories know that


class CursorChange(enum.Enum):
    WELCOMED = "welcomed"  # it was told that it is steered here
    ENDED = "ended"  # it says that it ends


TRANSITIONS = {
    (CursorState.CONSULTING, CursorChange.WELCOMED): CursorState.ACTIVE,
    (CursorState.CONSULTING, CursorChange.ENDED): CursorState.ENDING,
    (CursorState.ACTIVE, CursorChange.WELCOMED): CursorState.ACTIVE,  # it had not heard, and asked again
    (CursorState.ACTIVE, CursorChange.ENDED): CursorState.ENDING,
    (CursorState.ENDING, CursorChange.WELCOMED): CursorState.ENDING,  # that answers what it asked before it ended
    (CursorState.ENDING, CursorChange.ENDED): CursorState.ENDING,  # it has not heard that we know
}


class SubscriberCursor:
    """A subscriber that this repository steers: a cursor over the ledger, from its sync on."""

    __slots__ = (
        "_told_of",
        "acked",
        "announced_upto",
        "answered",
        "ask",
        "attempt",
        "began",
        "doubt",
        "has_asked",
        "in_notice_group",
        "inbox",
        "incarnation",
        "inflight",
        "inherited",
        "lines",
        "live",
        "lost",
        "pause",
        "pending",
        "predecessor",
        "progress",
        "rectifying",
        "safe",
        "scanned_upto",
        "scanning",
        "state",
        "wanted",
        "was_elsewhere",
    )

    def __init__(self, progress: SubscriberProgress, inbox: str, incarnation: int, attempt: int, now: int) -> None:
        self.progress = progress
        self.inbox = inbox
        self.incarnation = incarnation
        self.attempt = attempt
        self.live = 0  # the topic on which events come to it by themselves, if they are held at borders
        self.state = CursorState.CONSULTING
        self.began = now
        self.ask = Ask.NONE
        self.doubt: Mapping[StreamId, int] | None = None  # what earlier lives may have been handed; None is anything
        self.inherited: Mapping[StreamId, int] | None = None  # the same, as far as we ourselves told these lives
        self.predecessor = 0  # the newest of these lives
        self.has_asked = False  # its application has asked, as far as it told us when it wanted to be steered
        self.was_elsewhere = False  # another repository may have told this life of events
        self._told_of: dict[StreamId, int] = {}  # the last numbers of which this life was told, before it was rewound
        # Sequence numbers, and records between them. Invariants, asserted by `validate`:
        #   safe <= sync <= scanned_upto      what enough repositories know, what is acknowledged, what was looked at
        #   announced_upto <= scanned_upto    what it was told, of what was looked at
        #   lines end with `scanned_upto`, begin after `sync` and leave out nothing in between
        #   acked lies between sync and announced_upto, and begins with a gap
        #   pending is the sum of what is inflight, all of which is after sync
        self.lines: deque[RecordHeader] = deque()
        self.answered = now  # when it last acknowledged something
        self.pause = 0  # after which silence it is told again
        self.wanted = Spans()  # sequence numbers to be sent again
        self.in_notice_group = False  # it hears what is told to all who want the same
        self.safe = 0  # the sync that enough repositories have, and that may be told
        self.rewind()

    def validate(self) -> None:
        sync = self.progress.sync
        assert max(self.announced_upto, sync) <= self.scanned_upto, (
            f"{sync}, {self.announced_upto} and {self.scanned_upto} in a row"
        )
        assert self.safe <= sync, "more is safe than was acknowledged"
        for before, after in pairwise(self.lines):
            assert before.end < after.sequence, f"{after} follows {before}"
        if self.lines:
            assert sync < self.lines[0].end, "a line that it is done with"
            assert self.lines[-1].end <= self.scanned_upto, "a line that was not looked at"
        assert not self.acked or sync + 1 < self.acked.first <= self.acked.last <= self.announced_upto, (
            "acked, and not told"
        )
        assert self.pending == sum(count for _, count in self.inflight), "pending is not what is inflight"
        assert all(sync < last <= self.scanned_upto for last, _ in self.inflight), (
            "inflight, and acknowledged or not sent"
        )

    def change(self, change: CursorChange) -> None:
        self.state = TRANSITIONS[self.state, change]

    @property
    def is_active(self) -> bool:
        """Whether it is told what there is."""
        return self.state is CursorState.ACTIVE

    def rewind(self) -> None:
        """Tell it everything again, from its sync on."""
        self.scanned_upto, self.announced_upto = self.progress.sync, min(self.safe, self.progress.sync)
        self.scanning = 0  # token of the scan that it waits for
        self.rectifying = False  # what comes next is a Rectify
        self.acked = Spans()
        self._told_of = self._all_told()
        self.lines.clear()
        self.lost: list[StreamRanges] = []  # what it is to be told to be lost
        self.inflight: deque[tuple[int, int]] = deque()  # last sequence number and count of what it was told
        self.pending = 0  # events that it was told of and has not acknowledged

    def follow(self, sent: int, lines: Iterable[RecordHeader], told: Iterable[tuple[int, int]]) -> None:
        """Note that it was told of records: last sequence numbers and counts of what is its own."""
        self.scanned_upto = sent
        self.lines += lines
        for each in told:
            self.inflight.append(each)
            self.pending += each[1]

    def lose(self, streams: Iterable[PublisherStream]) -> None:
        """It is to be told what is lost of these, but for what it is done with."""
        for stream in streams:
            done = self.progress.done.get(stream.id, Spans())
            if spans := [rest for span in stream.written_off for rest in done.missing(*span)]:
                self.lost.append(StreamRanges(*stream.id, 0, tuple(spans)))

    def _all_told(self) -> dict[StreamId, int]:
        told = dict(self._told_of)
        for line in self.lines:
            told[line.stream] = max(told.get(line.stream, 0), line.last)
        return told

    def succeed(self, former: "SubscriberCursor", alone: bool) -> None:
        """Take the place of an earlier cursor of the same name; `alone` if no other repository can have steered it."""
        if former.incarnation < self.incarnation:
            self.predecessor = former.incarnation
            if former.doubt is not None and not former.was_elsewhere:
                self.inherited = _latest(former.doubt, former._all_told())
        elif alone:
            self.was_elsewhere = former.was_elsewhere
            self._told_of = former._all_told()

    def given_before(self) -> Mapping[StreamId, int] | None:
        """Return what earlier lives may have been handed, once all repositories have told what they know of them."""
        handed = self.progress.handed
        if handed.life < self.incarnation and handed.life and not handed.ended:  # that one was killed
            return self.inherited if self.predecessor >= handed.life else None
        if handed.given is None:
            return None
        return {(publisher, life): number for publisher, life, number in handed.given}

    def testify(self, *, ended: bool = False, given: Mapping[StreamId, int] | None = None) -> HandedOut:
        """Return what is to be written down of this life, and those before it."""
        known = None
        if self.doubt is not None:
            done = self.progress.upto
            latest = _latest(self.doubt, given or {})
            known = tuple((*stream, last) for stream, last in sorted(latest.items()) if last > done(stream))
        return HandedOut(self.incarnation, ended, known)

    def doubtful(self, run: SequenceRun) -> int:
        """Return the last sequence number of these events that an earlier life may have been handed; 0 if none."""
        count = run.count
        if self.doubt is not None:
            last = self.doubt.get((run.publisher, run.incarnation), 0)
            count = min(count, last - run.first + 1)
        return run.sequence + count - 1 if count > 0 else 0

    def divide(self, found: list[SequenceRun]) -> Iterator[tuple[list[SequenceRun], int]]:
        """Yield these in parts: all of a part up to a sequence number may have been handed before, and nothing else."""
        if found and self.doubt == {}:
            yield found, 0
            return
        part: list[SequenceRun] = []
        upto = 0
        for run in found:
            doubtful = self.doubtful(run)
            if part and bool(doubtful) != bool(upto):
                yield part, upto
                part, upto = [], 0
            part.append(run)
            upto = doubtful
            if 0 < doubtful < run.sequence + run.count - 1:  # what follows is not in doubt
                yield part, upto
                part, upto = [], 0
        if part:
            yield part, upto

    def acknowledge(self, spans: Iterable[tuple[int, int]]) -> bool:
        """Take in an acknowledgement in our numbers; return whether it is done with more than before."""
        progress = self.progress
        for first, last in spans:
            self.acked.add(max(first, progress.sync + 1), min(last, self.announced_upto))
        sync = self.acked.upto(progress.sync + 1)
        return self._advance(self.scanned_upto if sync == self.announced_upto else sync)

    def skip(self) -> bool:
        """If everything that it was told is acknowledged, it is done with what is not for it too."""
        return self._advance(self.scanned_upto) if not self.pending else False

    def _advance(self, sync: int) -> bool:
        """Move the sync; return whether that is to be written down: registrations, which take numbers, are not."""
        progress, is_news = self.progress, False
        if sync <= progress.sync:
            return False
        progress.sync = sync
        self.acked.remove(1, sync)
        while self.lines and self.lines[0].sequence <= sync:
            line = self.lines[0]
            if (
                line.publisher and line.kind is not RecordKind.VOID
            ):  # that may turn up one day, and must then be given to it
                progress.mark(line.stream, line.first, min(line.last, line.first + sync - line.sequence))
                is_news = True
            if line.end > sync:
                break
            self.lines.popleft()
        while self.inflight and self.inflight[0][0] <= sync:
            self.pending -= self.inflight.popleft()[1]
        return is_news
