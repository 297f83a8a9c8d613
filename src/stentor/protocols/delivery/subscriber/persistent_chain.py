"""Persistent chain: what the steering repository tells a subscriber, without a gap and in the order of its numbers."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from stentor.model.control import Rectify, SequenceRun
from stentor.model.stored.record import StreamId
from stentor.model.stored.span import Span, Spans

Numbers = range | NDArray[np.int64]  # that grow


def rank(numbers: Numbers, value: int) -> int:
    """Return how many numbers are at or below a value."""
    if isinstance(numbers, range):
        return min(max(value - numbers.start + 1, 0), len(numbers))
    return int(numbers.searchsorted(value, side="right"))


def to_array(numbers: Numbers) -> NDArray[np.int64]:
    return np.arange(numbers.start, numbers.stop) if isinstance(numbers, range) else numbers


def to_spans(numbers: Numbers) -> list[Span]:
    """Return the same numbers as spans."""
    if isinstance(numbers, range):
        return [(numbers.start, numbers.stop - 1)] if numbers else []
    if not len(numbers):
        return []
    breaks = np.flatnonzero(np.diff(numbers) != 1)
    firsts = numbers[np.concatenate(([0], breaks + 1))].tolist()
    lasts = numbers[np.concatenate((breaks, [len(numbers) - 1]))].tolist()
    return list(zip(firsts, lasts, strict=True))


class ChainRun:
    """Events of one stream that follow each other in the chain: their numbers and their sequence numbers."""

    __slots__ = ("before", "numbers", "redelivered", "sequences", "since", "stream")

    def __init__(
        self, stream: StreamId, numbers: Numbers, sequences: Numbers, before: int, redelivered: int, since: int
    ) -> None:
        # Invariant: `numbers` and `sequences` grow, and are as long as each other.
        self.stream = stream
        self.numbers = numbers
        self.sequences = sequences
        self.before = before  # sequence number of the event that goes before it
        self.redelivered = redelivered
        self.since = since  # when it was told

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def first(self) -> int:
        return int(self.numbers[0])

    @property
    def last(self) -> int:
        return int(self.numbers[-1])

    def part(self, start: int, end: int) -> "ChainRun":
        if not start and end == len(self.numbers):
            return self
        before = int(self.sequences[start - 1]) if start else self.before
        return ChainRun(
            self.stream, self.numbers[start:end], self.sequences[start:end], before, self.redelivered, self.since
        )

    def span(self, start: int, end: int) -> Span:
        """Return the sequence numbers of a part, and of what is not ours before each of its events."""
        before = int(self.sequences[start - 1]) if start else self.before
        return before + 1, int(self.sequences[end - 1])


class PersistentChain:
    """What one repository told in one attempt. All of it up to `upto` is known; the runs wait to be taken."""

    def __init__(self, repository: str, attempt: int, sync: int) -> None:
        self.repository, self.attempt = repository, attempt
        self.sync = self.upto = sync
        self.tail = sync  # sequence number of the last event that is ours
        self.runs: deque[ChainRun] = deque()
        self.taken = 0  # events that were taken
        self.weight = 0  # what the runs take in memory: one for a range, one for each number in an array
        self.torn = False  # whether something was told that could not be added
        self.explored = False  # whether anything was told yet
        self.acked = Spans()  # sequence numbers, above the sync, that the application is done with

    # ---- what is told

    def extend(
        self, now: int, previous: int, upto: int, stretches: Iterable[SequenceRun], redelivered: int, most: int
    ) -> list[ChainRun] | None:
        """Add what is new, and return it; None if something between is missing. What is beyond `most` is cut off."""
        if previous > self.upto:
            self.torn = True
            return None
        self.explored = True
        new: list[ChainRun] = []
        self.torn = False
        for stream, group in _grouped(self._new(stretches)):
            if self.weight >= most:
                self.torn = True
                upto = min(upto, group[0].sequence - 1)
                break
            run = _run(stream, group, self.tail, redelivered, now)
            self.weight += _weight(run, len(run)) + 1
            self.tail = int(run.sequences[-1])
            new.append(run)
        self.runs += new
        self.upto = max(self.upto, upto)
        return new

    def _new(self, stretches: Iterable[SequenceRun]) -> Iterator[SequenceRun]:
        """Return the stretches that are not known yet, in order and joined where they meet."""
        last: SequenceRun | None = None
        known = self.upto
        for each in stretches:
            skip = known + 1 - each.sequence
            count = each.count - max(skip, 0)
            if count <= 0:
                continue
            if skip > 0:
                each = SequenceRun(known + 1, count, each.publisher, each.incarnation, each.first + skip)  # noqa: PLW2901
            known = each.sequence + count - 1
            if last is not None and _meet(last, each):
                last = SequenceRun(last.sequence, last.count + count, last.publisher, last.incarnation, last.first)
                continue
            if last is not None:
                yield last
            last = each
        if last is not None:
            yield last

    def take(self, count: int) -> None:
        """Take so many events of the first run away."""
        run = self.runs[0]
        self.taken += count
        self.weight -= _weight(run, count)
        if count == len(run):
            self.runs.popleft()
            self.weight -= 1
        else:
            self.runs[0] = run.part(count, len(run))

    # ---- what is acknowledged

    def acknowledge(self, span: Span) -> None:
        """The application is done with these sequence numbers."""
        self.acked.add(max(span[0], self.sync + 1), span[1])

    @property
    def frontier(self) -> int:
        """All up to here is acknowledged, or is not ours."""
        done = self.acked.upto(self.sync + 1)
        return self.upto if done >= self.tail else done

    def report(self, most: int) -> tuple[Span, ...]:
        """Return what is acknowledged above the sync, in few spans."""
        frontier = self.frontier
        spans = [(self.sync + 1, frontier)] if frontier > self.sync else []
        return (*spans, *self.acked.within(frontier + 1, self.upto)[:most])

    def confirm(self, sync: int) -> bool:
        """Take a sync in; return whether it has advanced."""
        if sync <= self.sync:
            return False
        self.sync = sync
        self.upto = max(self.upto, sync)
        self.acked.remove(1, sync)
        return True

    def forgets(self, rectify: Rectify) -> bool:
        """Return whether a repository lists what is acknowledged."""
        if not self.acked:
            return False
        return any(self.acked.within(run.sequence, run.sequence + run.count - 1) for run in rectify.stretches)


def _weight(run: ChainRun, count: int) -> int:
    return 0 if isinstance(run.numbers, range) else count


def _meet(last: SequenceRun, each: SequenceRun) -> bool:
    return (
        each.sequence == last.sequence + last.count
        and each.first == last.first + last.count
        and each.publisher == last.publisher
        and each.incarnation == last.incarnation
    )


def _grouped(stretches: Iterable[SequenceRun]) -> Iterator[tuple[StreamId, list[SequenceRun]]]:
    """Return neighbours of one stream whose numbers grow, together."""
    group: list[SequenceRun] = []
    for each in stretches:
        if group:
            last = group[-1]
            if (
                each.publisher != last.publisher
                or each.incarnation != last.incarnation
                or each.first < last.first + last.count
            ):
                yield (last.publisher, last.incarnation), group
                group = []
        group.append(each)
    if group:
        yield (group[-1].publisher, group[-1].incarnation), group


def _run(stream: StreamId, group: Sequence[SequenceRun], before: int, redelivered: int, now: int) -> ChainRun:
    if len(group) == 1:
        only = group[0]
        numbers = range(only.first, only.first + only.count)
        return ChainRun(stream, numbers, range(only.sequence, only.sequence + only.count), before, redelivered, now)
    counts = np.array([each.count for each in group])
    within = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    firsts = np.repeat(np.array([each.first for each in group]), counts)
    sequences = np.repeat(np.array([each.sequence for each in group]), counts)
    return ChainRun(stream, firsts + within, sequences + within, before, redelivered, now)
