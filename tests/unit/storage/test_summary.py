"""Summaries: opening a ledger reads them instead of records, and never believes them more than the records."""

from pathlib import Path
from random import Random

import pytest
from tests.unit.storage.records import EVERYTHING, events, other
from tests.unit.storage.stores import SqliteStore

from stentor.model.stored.record import Record, RecordHeader, RecordKind


def filled(path: Path, count: int = 20, chapter: int = 4) -> tuple[SqliteStore, list[RecordHeader]]:
    store = SqliteStore(path, chapter)
    ledger = store.open()
    ledger.load()
    records = [events(number) for number in range(1, count + 1)]
    for record in records:
        ledger.commit([record])
    ledger.close()
    return store, [record.line for record in records]


def reopened(store: SqliteStore) -> list[RecordHeader]:
    ledger = store.open()
    found = list(ledger.load().lines)
    ledger.close()
    return found


def summaries(store: SqliteStore) -> list[tuple[int, int]]:
    return [(first, last) for first, last in store.ask("SELECT first, last FROM summaries ORDER BY first")]


def test_all_but_the_newest_are_summed_up(tmp_path: Path) -> None:
    store, lines = filled(tmp_path)
    assert summaries(store) == [(1, 4), (5, 8), (9, 12), (13, 16)]
    assert reopened(store) == lines


def test_a_large_commit_is_summed_up_at_once(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, chapter=4)
    ledger = store.open()
    ledger.load()
    ledger.commit([events(number) for number in range(1, 22)])
    ledger.close()
    assert summaries(store) == [(1, 4), (5, 8), (9, 12), (13, 16)]


def test_what_is_summed_up_is_not_read_before_somebody_wants_it(tmp_path: Path) -> None:
    store, _ = filled(tmp_path)
    for number in (2, 19):
        store.damage(events(number))
    assert [line.sequence for line in reopened(store) if line.kind is RecordKind.RESERVED] == [19]
    ledger = store.open()
    ledger.load()
    assert [line.sequence for line in ledger.scan(1, EVERYTHING).damaged] == [2, 19]
    ledger.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE summaries SET content = zeroblob(40) WHERE first = 5",
        "UPDATE summaries SET last = 7 WHERE first = 5",
        "DELETE FROM summaries WHERE first = 5",
        "DELETE FROM summaries",
        "DROP TABLE summaries",
    ],
)
def test_a_summary_that_is_damaged_or_gone_is_made_anew(tmp_path: Path, statement: str) -> None:
    store, lines = filled(tmp_path)
    before = store.ask("SELECT * FROM summaries ORDER BY first")
    store.change(statement)
    assert reopened(store) == lines
    assert store.ask("SELECT * FROM summaries ORDER BY first") == before


def test_summaries_do_not_hide_that_a_row_is_gone(tmp_path: Path) -> None:
    store, lines = filled(tmp_path)
    store.change("DELETE FROM records WHERE sequence = 6")
    assert reopened(store) == [line for line in lines if line.sequence != 6]
    assert reopened(store) == [line for line in lines if line.sequence != 6]


def test_a_summary_whose_records_are_partly_deleted_tells_the_rest(tmp_path: Path) -> None:
    store, lines = filled(tmp_path)
    ledger = store.open()
    ledger.load()
    ledger.collect(6)
    ledger.close()
    assert summaries(store) == [(5, 8), (9, 12), (13, 16)]
    assert reopened(store) == lines[6:]
    ledger = store.open()
    ledger.load()
    ledger.collect(20)
    ledger.close()
    assert (summaries(store), reopened(store)) == ([], [])


@pytest.mark.parametrize("seed", range(30))
def test_summaries_always_tell_what_the_records_tell(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    (tmp_path / "plain").mkdir()
    stores = [SqliteStore(tmp_path, chapter=random.randrange(1, 6)), SqliteStore(tmp_path / "plain")]
    ledgers = [store.open() for store in stores]
    for ledger in ledgers:
        ledger.load()
    following, floor = 1, 0
    aside: list[RecordHeader] = []
    for _ in range(60):
        batch: list[Record] = []
        for _ in range(random.randrange(1, 6)):
            record = other(following, random.randrange(1, 4)) if random.random() < 0.2 else events(following, 2)
            following = record.line.end + 1
            batch.append(record)
        aside += [record.line for record in batch if record.line.kind is RecordKind.RESERVED]
        if aside and random.random() < 0.4:
            line = aside.pop(random.randrange(len(aside)))
            if line.sequence > floor:
                batch.append(events(line.sequence, line.length))
        for ledger in ledgers:
            ledger.commit(batch)
        if random.random() < 0.1:
            floor = random.randrange(floor, following)
            for ledger in ledgers:
                ledger.collect(floor)
        if random.random() < 0.2:
            for ledger in ledgers:
                ledger.close()
            ledgers = [store.open() for store in stores]
            summed, plain = (list(ledger.load().lines) for ledger in ledgers)
            assert summed == plain
    for ledger in ledgers:
        ledger.close()
