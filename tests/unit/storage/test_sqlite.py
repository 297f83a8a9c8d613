"""The ledger in SQLite: what is special about it."""

import sqlite3
from pathlib import Path
from random import Random

import pytest
from tests.unit.storage.records import EVERYTHING, events, other, reserved
from tests.unit.storage.stores import SqliteStore

from stentor.model.stored.record import Fact, RecordHeader, RecordKind, Row
from stentor.storage import sqlite
from stentor.storage.ledger import LedgerBusy, LedgerDamaged, LedgerFailed, LedgerFull
from stentor.storage.sqlite import SqliteLedger

pytestmark = pytest.mark.req("RD-23")


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path)


def filled(store: SqliteStore) -> SqliteLedger:
    ledger = store.open()
    ledger.load()
    ledger.commit([events(1, 2), events(3, 4), events(7), Fact("a", b"1"), Row("near", events(9).line)])
    return ledger


def test_every_commit_is_synced(store: SqliteStore) -> None:
    ledger = filled(store)
    assert ledger._query("PRAGMA journal_mode") == [(b"wal",)]
    assert ledger._query("PRAGMA synchronous") == [(2,)]
    ledger.close()


def test_calls_before_it_is_open_or_after_it_was_closed_are_refused(store: SqliteStore) -> None:
    ledger = store.open()
    with pytest.raises(LedgerFailed, match="topic: the ledger is not open"):
        ledger.commit([Fact("a", b"1")])
    ledger.load()
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerFailed, match="not open"):
        ledger.scan(1, 1)


@pytest.mark.parametrize(
    "change",
    [
        "length = 3",
        "kind = 1",
        "kind = 9",
        "publisher = publisher + 1",
        "incarnation = 0",
        "first = 4",
        "digest = 1",
        "time = time - 1",
        "label = 0",
        "length = 'x'",
        "digest = NULL",
        "length = 1000",
        "length = -5",
    ],
)
def test_a_record_that_nobody_knows_any_more_keeps_its_place_and_no_more(store: SqliteStore, change: str) -> None:
    ledger = filled(store)
    ledger.close()
    connection = sqlite3.connect(store.path)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_schema SET sql = replace(sql, ' NOT NULL', '') WHERE name = 'records'")
    connection.commit()
    connection.close()
    store.change(f"UPDATE records SET {change} WHERE sequence = 3")
    ledger = store.open()
    lines = list(ledger.load().lines)
    assert [line.sequence for line in lines] == [1, 3, 7]
    assert lines[1] == RecordHeader(3, lines[1].length, 0, 0, 0, RecordKind.RESERVED)
    assert 1 <= lines[1].length <= 4
    assert ledger.scan(3, EVERYTHING) == ([events(7)], [lines[1]])
    assert ledger.scan(2, EVERYTHING) == ([events(1, 2), events(7)], [lines[1]])
    ledger.commit([events(3, 4)])
    assert ledger.scan(1, EVERYTHING) == ([events(1, 2), events(3, 4), events(7)], [])
    ledger.close()


@pytest.mark.parametrize("column", ["frame", "audience", "seal"])
def test_any_change_of_the_contents_is_noticed(store: SqliteStore, column: str) -> None:
    ledger = filled(store)
    values = {"frame": b"forged", "audience": b"\x80", "seal": 5}
    store.change(f"UPDATE records SET {column} = ? WHERE sequence = 3", values[column])
    assert ledger.scan(3, EVERYTHING) == ([events(7)], [reserved(events(3, 4).line)])
    ledger.close()


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE facts SET value = x'32'", "the fact 'a'"),
        ("UPDATE facts SET key = x'62'", "the fact 'b'"),
        ("UPDATE rows SET first = first + 1", "the row of near at 9"),
        ("UPDATE rows SET repository = x'666172'", "the row of far at 9"),
        ("UPDATE state SET value = 2", "the next free number"),
    ],
)
def test_damaged_facts_rows_and_numbers_are_not_served(store: SqliteStore, statement: str, what: str) -> None:
    filled(store).close()
    store.change(statement)
    with pytest.raises(LedgerDamaged, match=f"topic: {what} is damaged; restore the database"):
        store.open().load()


def test_bytes_that_rot_in_the_file_are_damage_or_noticed_by_sqlite(store: SqliteStore) -> None:
    ledger = store.open()
    ledger.load()
    records = [events(number, size=3000) for number in range(1, 9)]
    ledger.commit(records)
    ledger.close()
    content = store.path.read_bytes()
    random = Random(3)
    seen = set()
    for _ in range(80):
        rotten = bytearray(content)
        rotten[random.randrange(len(content))] ^= 1 << random.randrange(8)
        store.path.write_bytes(rotten)
        ledger = store.open()
        try:
            contents = ledger.load()
            excerpt = ledger.scan(0, EVERYTHING)
            assert all(record in records for record in excerpt.records)
            assert len(excerpt.records) + len(excerpt.damaged) == len(records) == len(list(contents.lines))
            seen.add(len(excerpt.damaged))
        except (LedgerFailed, LedgerBusy):
            seen.add(-1)
        finally:
            ledger.close()
            for suffix in ("-wal", "-shm"):
                Path(f"{store.path}{suffix}").unlink(missing_ok=True)
    assert {0, 1} <= seen, "what was never used may rot"


def test_files_that_are_not_ours_are_refused_with_the_reason(store: SqliteStore) -> None:
    store.path.write_bytes(b"#!/bin/sh\necho hello\n" * 100)
    with pytest.raises(LedgerDamaged, match="is damaged"):
        store.open().load()
    store.path.unlink()
    filled(store).close()
    store.change("PRAGMA user_version = 2")
    with pytest.raises(LedgerFailed, match="has version 2, this program reads 1"):
        store.open().load()
    with pytest.raises(LedgerFailed, match="unable to open"):
        SqliteLedger(store.path / "no such directory" / "x", "topic").load()


def test_who_holds_the_file_makes_it_busy_and_nothing_is_lost(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "PATIENCE", 0.05)
    ledger = filled(store)
    connection = sqlite3.connect(store.path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerBusy, match="another process holds"):
        ledger.commit([other(8)])
    connection.execute("ROLLBACK")
    connection.close()
    ledger.commit([other(8)])
    assert ledger.scan(8, 1).records == [other(8)]
    ledger.close()


def test_a_database_that_may_not_grow_is_full(store: SqliteStore) -> None:
    ledger = filled(store)
    ((pages,),) = ledger._query("PRAGMA page_count")
    ledger._query(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(LedgerFull, match=r"topic: not written .*full"):
        ledger.commit([events(8, size=100_000), Fact("b", b"1")])
    ledger.commit([Fact("c", b"1")])
    ledger.close()
    ledger = store.open()
    assert ledger.load().facts == {"a": b"1", "c": b"1"}
    ledger.close()


def test_space_that_is_free_is_given_back(store: SqliteStore) -> None:
    ledger = store.open()
    ledger.load()
    for number in range(1, 30):
        ledger.commit([events(number, size=50_000)])
    ledger.close()
    full = store.path.stat().st_size
    ledger = store.open()
    ledger.load()
    ledger.collect(28)
    ledger.close()
    assert store.path.stat().st_size < full / 3
