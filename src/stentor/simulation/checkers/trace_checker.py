"""The trace checker: whether a machine traced of each step what it did in that step, number by number.

It also checks that the traces of a repository that are kept, with those that it traces when it begins again, tell what
its ledger knows.
"""

from collections import Counter
from collections.abc import Iterable

from stentor.machine import Effect
from stentor.model.reports.trace import Trace, TraceKind, numbers_of
from stentor.model.stored.record import RecordHeader
from stentor.model.stored.span import Span, Spans
from stentor.protocols.delivery.endpoint_api import Release
from stentor.protocols.delivery.repository.storing.commit_queue import PROGRESS
from stentor.protocols.delivery.repository.tracer import KINDS
from stentor.protocols.delivery.transport import Publish
from stentor.simulation.checkers.delivery_history import DiskContents, Numbers
from stentor.wire.block import Block

Event = tuple[int, int, int]  # publisher, incarnation, number
Told = Counter[tuple[str, int, int, int]]  # kinds and events
_PARTIAL = {TraceKind.RELEASED, TraceKind.ACKNOWLEDGED, TraceKind.SYNCED}  # whose bodies say which numbers
_KEPT = {TraceKind.STORED, TraceKind.SYNCED, TraceKind.STABLE}  # until they are told, their records are not forgotten
_OF_NUMBERS = {TraceKind.PUBLISHED, TraceKind.RELEASED, TraceKind.ACKNOWLEDGED, *KINDS.values()}


def told(rows: Iterable[Trace]) -> Told:
    """What was traced."""
    found: Told = Counter()
    for row in rows:
        if row.kind in _OF_NUMBERS:
            numbers = [number for low, high in spans_of(row) for number in range(low, high + 1)]
            assert len(numbers) == row.count, row
            found.update((row.kind, row.source_id, row.life, number) for number in numbers)
    return found


def spans_of(row: Trace) -> list[Span]:
    """Return the numbers that a row is about."""
    offsets = numbers_of(row.body) if row.kind in _PARTIAL and row.body else [(0, row.last - row.first)]
    return [(row.first + low, row.first + high) for low, high in offsets]


def done(effects: Iterable[Effect]) -> Told:
    """What was published and released."""
    found: Told = Counter()
    for effect in effects:
        if isinstance(effect, Publish):
            found.update((TraceKind.PUBLISHED, *event) for event in events(effect.block))
        elif isinstance(effect, Release):
            for portion in effect.portions:
                found.update((TraceKind.RELEASED, *event) for event in events(portion.block))
    return found


def events(block: Block) -> list[Event]:
    return [(block.publisher, block.incarnation, block.catenation + offset) for offset in block.offsets()]


def durable(lines: Iterable[RecordHeader]) -> Told:
    """What became durable."""
    return Counter(
        (KINDS[line.kind], line.publisher, line.incarnation, number)
        for line in lines
        if line.kind in KINDS
        for number in range(line.first, line.last + 1)
    )


class KeptTraces:
    """What is kept of one repository's traces. A crash loses those that it had not told by then."""

    def __init__(self) -> None:
        self._stored = Numbers()
        self._synced: dict[str, Numbers] = {}
        self._untold: list[Trace] = []

    def add(self, rows: Iterable[Trace]) -> bool:
        """Take rows in that are told later; return whether they are the first of those."""
        was_empty = not self._untold
        self._untold += [row for row in rows if row.kind in _KEPT]
        return was_empty and bool(self._untold)

    def tell(self) -> None:
        """Keep all rows that were taken in."""
        untold, self._untold = self._untold, []
        for row in untold:
            if row.kind is TraceKind.STABLE:
                continue
            kept = self._stored if row.kind is TraceKind.STORED else self._synced.setdefault(row.subscriber, Numbers())
            kept[row.source_id, row.life].update(spans_of(row))

    def crash(self) -> None:
        self._untold = []

    def missing(self, contents: DiskContents) -> str:
        """Return what the ledger knows, and what neither earlier lives nor this one have traced; "" if nothing is."""
        everything = KeptTraces()
        everything._stored = self._stored.copy()
        everything._synced = {name: numbers.copy() for name, numbers in self._synced.items()}
        everything._untold = list(self._untold)
        everything.tell()
        found = _gaps(contents.stored, everything._stored, contents.doubtful)
        for name, numbers in contents.progress.items():
            if PROGRESS + name not in contents.facts:
                continue  # its registration is gone
            found += _gaps(numbers, everything._synced.get(name, Numbers()), Numbers())
        return ", ".join(found)


def _gaps(known: Numbers, traced: Numbers, excused: Numbers) -> list[str]:
    found: list[str] = []
    for stream, spans in known.items():
        covered = Spans([*traced.get(stream, ()), *excused.get(stream, ())])
        found += [f"{stream} {gap}" for span in spans for gap in covered.missing(*span)]
    return found


def lost_traces(kept: Spans, remembered: Spans) -> list[Span]:
    """Return the numbers of traces that a node could tell again, and that nobody keeps though later ones are kept."""
    gaps = kept.missing(1, kept.last) if kept else []
    return [lost for gap in gaps for lost in remembered.within(*gap)]
