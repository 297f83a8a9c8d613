"""The testimony of a repository: what it traces of one topic, so that others can find out what came of every event."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from stentor.machine import SECOND
from stentor.model.record import Entry, Kind, Record
from stentor.model.span import Span
from stentor.model.trace import Intent, Trace, TraceKind, audience_body, intent_body
from stentor.protocols.delivery.destination import DisseminationTable
from stentor.protocols.delivery.registry import Frontier, Registry
from stentor.protocols.delivery.trail import Trail

_AGAIN = 3600 * SECOND  # after which subscriptions are told again: traces are not kept for ever
KINDS = {Kind.EVENTS: TraceKind.STORED, Kind.VOID: TraceKind.VOIDED, Kind.SKIPPED: TraceKind.SKIPPED}


class Testimony:
    """What is durable, stable and registered here."""

    def __init__(
        self, topic: str, repository: str, registry: Registry, table: DisseminationTable, trail: Trail
    ) -> None:
        self._topic, self._repository = topic, repository
        self._registry, self._table, self._trail = registry, table, trail
        self._repeated = 0
        self._former: Mapping[int, bytes] | None = None  # an audience, and what was told of it
        self._body = b""

    def stored(self, now: int, entries: Iterable[Entry]) -> None:
        """These are durable."""
        if not self._trail.on:
            return
        for entry in entries:
            kind = KINDS.get(entry.line.kind) if isinstance(entry, Record) else None
            if kind is not None:
                assert isinstance(entry, Record)
                self._store(now, kind, entry)

    def _store(self, now: int, kind: TraceKind, record: Record) -> None:
        line = record.line
        known = self._registry.publishers.get(line.publisher)
        self._trail.add(
            Trace(
                kind=kind, at=now, about=self._topic, source=known.name if known is not None else "",
                source_id=line.publisher, life=line.incarnation, first=line.first, last=line.last, count=line.length,
                keeper=self._repository, start=line.sequence, end=line.end, size=len(record.frame), born=record.time,
                body=self._audience(record.audience, line.length) if kind is TraceKind.STORED else b"",
            )
        )  # fmt: skip

    def _audience(self, audience: Mapping[int, bytes], count: int) -> bytes:
        if audience != self._former:  # most are for the same as the one before
            names = self._table.names
            wanted = {names[slot]: _rows(bits, count) for slot, bits in audience.items() if slot in names}
            self._former, self._body = audience, audience_body(wanted)
        return self._body

    def stable(self, now: int, first: int, last: int) -> None:
        """These sequence numbers may be shown to readers."""
        if last >= first:
            self._trail.add(
                Trace(
                    kind=TraceKind.STABLE, at=now, about=self._topic, keeper=self._repository, start=first, end=last,
                    count=last - first + 1,
                )
            )  # fmt: skip

    def registered(self, now: int) -> None:
        """Who wants what, if that has changed."""
        if now - self._repeated > _AGAIN:
            self._repeated = now
            self._table.changed.update(dict.fromkeys(self._table.destinations))
        if not self._table.changed:
            return
        changed, self._table.changed = self._table.changed, {}
        self._former = None
        for name in changed if self._trail.on else ():
            destination, known = self._table.destinations.get(name), self._registry.subscriptions.get(name)
            kind, epoch, body = TraceKind.UNSUBSCRIBED, 0, b""
            if destination is not None and known is not None:
                changes = [(where, _plain(upto)) for where, upto in known.changes]
                kind, epoch = TraceKind.SUBSCRIBED, destination.epoch
                body = intent_body(Intent(known.where, _plain(known.frontier), changes))
            self._trail.add(
                Trace(
                    kind=kind, at=now, about=self._topic, keeper=self._repository, end=epoch, subscriber=name, body=body
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
