"""The tracer of a repository: what it traces of one topic, so that others can find out what came of every event."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from stentor.machine import MILLISECOND, SECOND
from stentor.model.control import StreamRanges
from stentor.model.reports.trace import LEDGER, Intent, Trace, TraceKind, audience_body, intent_body, numbers_body
from stentor.model.stored.record import Entry, Record, RecordHeader, RecordKind, StreamId
from stentor.model.stored.span import Span, Spans
from stentor.protocols.delivery.repository.registry import Frontier
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.protocols.delivery.trace_buffer import TraceBuffer
from stentor.protocols.delivery.trace_sum import TraceSum

_AGAIN = 3600 * SECOND  # after which subscriptions are told again: traces are not kept for ever
_PROGRESS_PAUSE = SECOND  # between rows about the same subscriber: one for each acknowledgement would cost too much
_PROGRESS_COST = MILLISECOND  # of that pause for each row: many subscribers of many publishers are told less often
_NO_LIMIT: Final = 1 << 62
KINDS = {RecordKind.EVENTS: TraceKind.STORED, RecordKind.VOID: TraceKind.VOIDED, RecordKind.SKIPPED: TraceKind.SKIPPED}


class RepositoryTracer:
    """What is durable, stable and registered here."""

    def __init__(self, state: TopicState, traces: TraceBuffer) -> None:
        self._step, self._traces = state.step, traces
        self._topic, self._repository = state.topic, state.settings.name
        self._registry, self._table = state.registry, state.table
        self._repeated = 0
        self._former: Mapping[int, bytes] | None = None  # an audience, and what was told of it
        self._body = b""
        # The sums that hold what was traced last, and was not told again: most of what follows goes on there.
        self._last_stored: TraceSum | None = None
        self._last_source: tuple[StreamId, str] | None = None  # of what was stored: its stream, its publisher's name
        self._last_stable: TraceSum | None = None
        # Sequence numbers. Invariant: _kept_upto <= _traced_upto
        self._traced_upto = 0  # traced as stable, and so as stored
        self._kept_upto = 0  # … and these traces are kept
        self._ledger_end = 0  # the ledger's last when it was opened: an earlier life may have traced what it holds
        self._progress: dict[tuple[str, StreamId], Spans] = {}  # numbers that are durably done with, and not traced
        self._progress_upto: dict[tuple[str, StreamId], int] = {}  # … and are traced, all up to this number
        self._progress_due_at = 0

    # ---- after a crash

    def reopen(self, horizon: int, end: int) -> None:
        """Begin with a ledger whose records after `horizon`, up to `end`, are read again."""
        self._traced_upto = self._kept_upto = horizon
        self._ledger_end = end

    def recall(self, records: Iterable[Record]) -> None:
        """Trace records of the ledger again that an earlier life may not have told before it was killed."""
        self.stored((record for record in records if record.line.end > self._kept_upto), LEDGER)

    @property
    def traced_upto(self) -> int:
        return self._traced_upto

    def keep(self, upto: int) -> None:
        """Note that the traces up to this sequence number are kept: no later life has to tell them."""
        self._kept_upto = max(self._kept_upto, upto)

    @property
    def forgettable_upto(self) -> int:
        """The sequence number up to which the ledger may forget records: what is traced of them is kept."""
        return self._kept_upto if self._traces.on and self._kept_upto < self._traced_upto else _NO_LIMIT

    @property
    def is_kept(self) -> bool:
        """Whether all that there was to trace is traced, and these traces are kept."""
        return not self._progress and self.forgettable_upto == _NO_LIMIT

    # ---- events

    def stored(self, entries: Iterable[Entry], peer: str = "") -> None:
        """Trace what is durable."""
        if not self._traces.on:
            return
        run: list[Record] = []  # that go on where each other end: one row tells the same of all
        for entry in entries:
            if isinstance(entry, Record) and entry.line.kind in KINDS:
                if run and not _follows(run[-1], entry):
                    self._store(run, peer)
                    run = []
                run.append(entry)
        if run:
            self._store(run, peer)

    def _store(self, run: Sequence[Record], peer: str) -> None:
        record, line, end = run[0], run[0].line, run[-1].line
        kind = KINDS[line.kind]
        known = self._registry.publishers.get(line.publisher)
        source = known.name if known is not None else ""
        size = sum([len(each.frame) for each in run])
        if kind is TraceKind.STORED and not peer and self._goes_on(record, source, end, size):
            return
        row = Trace(
            kind=kind,
            at=self._step.now,
            about=self._topic,
            source=source,
            source_id=line.publisher,
            life=line.incarnation,
            first=line.first,
            last=end.last,
            count=end.last - line.first + 1,
            keeper=self._repository,
            start=line.sequence,
            end=end.end,
            peer=peer,
            size=size,
            born=record.time,
            body=self._audience(record.audience, line.length) if kind is TraceKind.STORED else b"",
        )
        made = self._traces.add(row)
        self._last_stored = None if peer or kind is not TraceKind.STORED else made
        self._last_source = line.stream, source

    def _goes_on(self, record: Record, source: str, end: RecordHeader, size: int) -> bool:
        """Take records, from one to another, into the sum of those before, if they are of the same publisher and wholly
        for the same subscribers; return whether they were.
        """
        line, known = record.line, self._last_stored
        if known is None or (line.stream, source) != self._last_source or record.audience != self._former:
            return False
        if any(record.audience.values()):
            return False
        span, sequences = (line.first, end.last), (line.sequence, end.end)
        return known.extend(self._step.now, span, sequences, size, record.time, self._traces.offset)

    def _audience(self, audience: Mapping[int, bytes], count: int) -> bytes:
        if audience != self._former:  # most are for the same as the one before
            names = self._table.names
            wanted = {names[slot]: _rows(bits, count) for slot, bits in audience.items() if slot in names}
            self._former, self._body = audience, audience_body(wanted)
        return self._body

    def stable(self, first: int, last: int) -> None:
        """Trace that these sequence numbers may be shown to subscribers."""
        self._traced_upto = max(self._traced_upto, last)
        known = self._last_stable
        if known is not None and first > self._ledger_end and known.extend_stable(self._step.now, first, last):
            return
        middle = min(last, self._ledger_end)
        for low, high, peer in ((first, middle, LEDGER), (max(first, middle + 1), last, "")):
            if high >= low:
                row = Trace(
                    kind=TraceKind.STABLE,
                    at=self._step.now,
                    about=self._topic,
                    keeper=self._repository,
                    start=low,
                    end=high,
                    count=high - low + 1,
                    peer=peer,
                )
                made = self._traces.add(row)
                self._last_stable = None if peer else made

    # ---- subscribers

    def progressed(self, name: str, done: Iterable[StreamRanges]) -> None:
        """Note that it is durable that a subscriber is done with these."""
        if self._traces.on:
            for held in done:
                if held.floor or held.spans:
                    spans = self._progress.setdefault((name, (held.publisher, held.incarnation)), Spans())
                    spans.update(((1, held.floor), *held.spans))

    def abandon(self, stream: StreamId) -> None:
        """There will be nothing more of a stream."""
        for name in self._table.destinations:
            self._progress_upto.pop((name, stream), None)

    def tell_progress(self, *, is_last: bool = False) -> None:
        """Trace what subscribers are done with, if that is due, or if the node stops."""
        now = self._step.now
        if not self._progress or (now < self._progress_due_at and not is_last):
            return
        self._progress_due_at = now + _PROGRESS_PAUSE + _PROGRESS_COST * len(self._progress)
        progress, self._progress = self._progress, {}
        for key, spans in progress.items():
            upto = self._progress_upto.get(key, 0)
            spans.remove(1, upto)
            self._progress_upto[key] = spans.upto(upto + 1)
            if spans:
                self._tell_synced(*key, spans)

    def _tell_synced(self, name: str, stream: StreamId, spans: Spans) -> None:
        publisher, incarnation = stream
        self._traces.add(
            Trace(
                kind=TraceKind.SYNCED,
                at=self._step.now,
                about=self._topic,
                source_id=publisher,
                life=incarnation,
                first=spans.first,
                last=spans.last,
                count=sum(high - low + 1 for low, high in spans),
                keeper=self._repository,
                subscriber=name,
                body=numbers_body(spans.first, spans.pairs()),
            )
        )

    def registered(self) -> None:
        """Trace who wants what, if that has changed."""
        if self._step.now - self._repeated > _AGAIN:
            self._repeated = self._step.now
            self._table.change_all()
        changed = self._table.take_changed()
        if not changed:
            return
        self._former = None
        gone = {name for name in changed if name not in self._table.destinations}
        for key in [key for key in self._progress_upto if key[0] in gone] if gone else ():
            del self._progress_upto[key]  # whoever comes under this name begins anew
        for name in changed if self._traces.on else ():
            progress, known = self._table.destinations.get(name), self._registry.subscriptions.get(name)
            kind, epoch, body = TraceKind.UNSUBSCRIBED, 0, b""
            if progress is not None and known is not None:
                changes = [(where, _plain(upto)) for where, upto in known.changes]
                kind, epoch = TraceKind.SUBSCRIBED, progress.epoch
                body = intent_body(Intent(known.where, _plain(known.frontier), changes))
            self._traces.add(
                Trace(
                    kind=kind,
                    at=self._step.now,
                    about=self._topic,
                    keeper=self._repository,
                    end=epoch,
                    subscriber=name,
                    body=body,
                )
            )


def _rows(bits: bytes, count: int) -> Sequence[Span]:
    """Which events of a record are meant; nothing if it is all."""
    if not bits:
        return ()
    rows = np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), count=count, bitorder="little"))
    breaks = np.flatnonzero(np.diff(rows) != 1)
    firsts, lasts = rows[np.r_[0, breaks + 1]].tolist(), rows[np.r_[breaks, len(rows) - 1]].tolist()
    return list(zip(firsts, lasts, strict=True))


def _plain(frontier: Frontier) -> list[tuple[str, int, int]]:
    return [(f"{publisher:016x}", incarnation, number) for publisher, incarnation, number in frontier]


def _follows(former: Record, record: Record) -> bool:
    """Return whether a record goes on where a former one ends, at the same time and wholly for the same subscribers."""
    before, line = former.line, record.line
    return (
        line.first == before.last + 1
        and line.sequence == before.end + 1
        and line.stream == before.stream
        and line.kind is before.kind
        and record.time == former.time
        and record.audience == former.audience
        and not any(record.audience.values())
    )
