"""The benchmark of a backlog: what it puts into a ledger is what a repository would have, and the table tells it."""

from pathlib import Path

import pytest
from benchmarks.backlog import AWAY, KINDS, NEW, REPOSITORY, TOPIC, Outcome, Trial, fill, load, records, table

from stentor.model.attribute import EMPTY_SCHEMA
from stentor.protocols.delivery.repository.storing.event_log import EventLog
from stentor.protocols.delivery.repository.storing.recent_records import Budget
from stentor.protocols.delivery.repository.storing.streams import Streams
from stentor.storage.ledger_store import open_ledger
from stentor.wire.block import Block


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 7])
def test_a_ledger_is_filled_with_events_that_a_repository_takes(tmp_path: Path, kind: str, batch: int) -> None:
    trial = Trial(kind, 20, batch)
    _, size = fill(f"{kind}:{tmp_path / REPOSITORY}", REPOSITORY, TOPIC, records(trial))
    assert size > 20 * 100
    assert load(tmp_path, trial) > 0
    ledger = open_ledger(f"{kind}:{tmp_path / REPOSITORY}", REPOSITORY, TOPIC)
    log = EventLog(Streams(), Budget(1 << 20), lambda _: {})
    log.load(ledger.load())
    ledger.close()
    (stream,) = log.streams.values()
    assert (list(stream.durable), log.horizon, log.next) == ([(1, 20)], 20, 21)


def test_each_event_has_a_body_of_its_own() -> None:
    blocks = [Block(record.frame, EMPTY_SCHEMA) for record in records(Trial("sqlite", 5, 2))]
    assert [block.count for block in blocks] == [2, 2, 1]
    assert [int(body) for block in blocks for body in block.bodies()] == [1, 2, 3, 4, 5]


def test_the_table_has_a_row_for_a_trial() -> None:
    outcome = Outcome(Trial("sqlite", 1_000_000, 1))
    for times in (outcome.first, outcome.all_of_it, outcome.highest):
        times.update({NEW: 1.0, AWAY: 2.0})
    assert table([outcome]).row_count == 1
