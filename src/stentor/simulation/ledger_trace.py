"""A trace of nodes with ledgers: what is written and read there, in a form that a digest takes."""

from collections.abc import Sequence

import msgspec

from stentor.machine import Commit, Effect, Input, Opened, Scanned
from stentor.model.record import Record
from stentor.simulation.trace import Trace


def plain_input(happened: Input) -> Input:
    """Return an input without what a digest cannot take: maps by number, and what a ledger reads only when asked."""
    if isinstance(happened, Opened):
        return Opened(happened.ledger, msgspec.structs.replace(happened.holdings, lines=(), rows=()))
    if isinstance(happened, Scanned):
        return msgspec.structs.replace(happened, records=[_plain(each) for each in happened.records])
    return happened


def plain_effect(effect: Effect) -> Effect:
    if isinstance(effect, Commit):
        entries = [_plain(entry) if isinstance(entry, Record) else entry for entry in effect.entries]
        return Commit(effect.ledger, effect.token, entries)
    return effect


def _plain(record: Record) -> Record:
    return record._replace(audience={str(slot): bits for slot, bits in record.audience.items()})  # type: ignore[misc]


class LedgerTrace(Trace):
    """Digests every step of nodes that have ledgers."""

    def step(self, time: int, node: str, happened: Input, effects: Sequence[Effect]) -> None:
        super().step(time, node, plain_input(happened), [plain_effect(each) for each in effects])
