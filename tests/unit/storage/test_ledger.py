"""The contract of a ledger, proven for each of its twins."""

import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.unit.storage.records import EVERYTHING, events, other, reserved
from tests.unit.storage.stores import STORES, Store, make_store

from stentor.model.stored.record import Entry, Fact, LedgerContents, Record, RecordHeader, RecordKind, Row
from stentor.storage.ledger import Ledger

pytestmark = pytest.mark.req("RD-23")


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return make_store(request.param, request, tmp_path)


@pytest.fixture
def ledger(store: Store) -> Iterator[Ledger]:
    ledger = store.open()
    ledger.load()
    yield ledger
    ledger.close()


def reopened(store: Store, ledger: Ledger) -> tuple[Ledger, LedgerContents]:
    ledger.close()
    again = store.open()
    return again, again.load()


def lines(*records: Record) -> list[RecordHeader]:
    return [record.line for record in records]


# ---- what is committed is there


@pytest.mark.req("GE-15")
def test_records_that_are_older_than_stored_times_are_as_old_as_their_events(ledger: Ledger) -> None:
    """Without a stored time a record is written as it was before there were any."""
    old = [events(1)._replace(stored=0), events(2)._replace(stored=0, audience={})]
    ledger.commit([*old, events(3)])
    assert ledger.scan(1, EVERYTHING).records == [*(record._replace(stored=record.time) for record in old), events(3)]


def test_a_new_ledger_is_empty_and_begins_with_number_1(store: Store) -> None:
    ledger = store.open()
    contents = ledger.load()
    assert (contents.facts, list(contents.lines), list(contents.rows), contents.next) == ({}, [], [], 1)
    assert ledger.scan(1, EVERYTHING) == ([], [])
    assert ledger.find(0) == 1
    assert ledger.rows("other", 1, 100) == []
    ledger.collect(0)
    ledger.collect(100)
    assert ledger.usage() >= 0
    ledger.close()


def test_a_commit_is_there_after_reopening_whatever_it_holds(store: Store, ledger: Ledger) -> None:
    commits: list[list[Entry]] = [
        [events(1, 3, size=5000)],
        [Fact("registration:a\0ü", b"\x00\xff" * 50), Fact("", b"")],
        [Row("far", events(11).line), Row("near", other(4, 7, publisher=(1 << 64) - 1).line)],
        [other(4, 2), events(6), Fact("sync:a", b"6")],
        [
            events(7, 1 << 16, publisher=(1 << 64) - 1),
            other(70000, kind=RecordKind.VOID),
            other(70001, kind=RecordKind.NOTE),
        ],
        [events(70002, time=-5), events(70003, size=0)._replace(frame=b"", audience={})],
        [],
    ]
    stored: list[Record] = []
    facts: dict[str, bytes] = {}
    rows: list[Row] = []
    for commit in commits:
        ledger.commit(commit)
        stored += [entry for entry in commit if isinstance(entry, Record)]
        rows += [entry for entry in commit if isinstance(entry, Row)]
        facts |= {entry.key: entry.value for entry in commit if isinstance(entry, Fact) and entry.value is not None}
        ledger, contents = reopened(store, ledger)
        assert contents.facts == facts
        assert list(contents.lines) == list(contents.lines) == lines(*stored)
        assert list(contents.rows) == rows
        assert contents.next == max((record.line.end + 1 for record in stored), default=1)
        assert ledger.scan(1, EVERYTHING) == (stored, [])
    ledger.close()


def test_facts_are_replaced_and_deleted_the_last_one_of_a_commit_wins(store: Store, ledger: Ledger) -> None:
    ledger.commit([Fact("a", b"1"), Fact("b", b"1"), Fact("c", b"1")])
    ledger.commit([Fact("a", b"2"), Fact("a", b"3"), Fact("b", None), Fact("never", None)])
    ledger.commit([Fact("c", None), Fact("c", b"4")])
    ledger, contents = reopened(store, ledger)
    assert contents.facts == {"a": b"3", "c": b"4"}
    ledger.close()


def test_numbers_once_used_are_never_given_out_again(store: Store, ledger: Ledger) -> None:
    for kind in RecordKind:
        ledger, before = reopened(store, ledger)
        ledger.commit([other(before.next, 5, kind)])
        ledger, after = reopened(store, ledger)
        assert after.next == before.next + 5
    ledger.collect(after.next - 1)
    ledger.commit([Fact("something", b"else")])
    ledger, emptied = reopened(store, ledger)
    assert (list(emptied.lines), emptied.next) == ([], after.next)
    ledger.close()


# ---- what was reserved


def test_a_record_replaces_what_was_reserved_and_the_writer_writes_the_rest(store: Store, ledger: Ledger) -> None:
    before, behind = events(1, 4), events(11, 2)
    ledger.commit([before, other(5, 6), behind])
    middle = [other(5, 1), events(6, 3), other(9, 2)]
    ledger.commit([middle[1], middle[0], middle[2]])
    assert ledger.scan(1, EVERYTHING).records == [before, *middle, behind]
    ledger, contents = reopened(store, ledger)
    assert list(contents.lines) == lines(before, *middle, behind)
    assert contents.next == 13
    filled = [events(5), other(9, 2, RecordKind.VOID)]
    ledger.commit(filled)
    ledger, contents = reopened(store, ledger)
    assert list(contents.lines) == lines(before, filled[0], middle[1], filled[1], behind)
    ledger.close()


def test_one_record_may_replace_many_and_one_of_its_own_commit(store: Store, ledger: Ledger) -> None:
    ledger.commit([other(1, 2), other(3, 2), other(5, 2)])
    whole = events(1, 6)
    ledger.commit([whole, other(7, 10), events(7, 4), other(11, 6)])
    expected = lines(whole, events(7, 4), other(11, 6))
    assert [record.line for record in ledger.scan(1, EVERYTHING).records] == expected
    ledger, contents = reopened(store, ledger)
    assert list(contents.lines) == expected
    ledger.close()


@pytest.mark.parametrize("kind", [RecordKind.EVENTS, RecordKind.VOID, RecordKind.NOTE])
def test_what_is_not_reserved_is_never_replaced_and_nothing_of_such_a_commit_is_taken(
    store: Store, ledger: Ledger, kind: RecordKind
) -> None:
    ledger.commit([other(1, 5, kind), other(6, 5)])
    with pytest.raises(AssertionError, match="would replace"):
        ledger.commit([Fact("a", b"1"), events(11), events(5, 2)])
    ledger, contents = reopened(store, ledger)
    assert (contents.facts, contents.next) == ({}, 11)
    assert list(contents.lines) == lines(other(1, 5, kind), other(6, 5))
    ledger.close()


def test_lines_are_made_one_by_one(store: Store, ledger: Ledger) -> None:
    count = 3000
    ledger.commit([events(1 + number) for number in range(count)])
    ledger, contents = reopened(store, ledger)
    found = iter(contents.lines)
    assert next(found).sequence == 1
    assert [line.sequence for line in found] == list(range(2, count + 1))
    ledger.close()


# ---- reading


def test_a_scan_begins_with_the_record_that_holds_a_number_or_the_next_one(ledger: Ledger) -> None:
    records = [events(1, 3), events(4, 1), other(5, 5), events(10, 10)]
    ledger.commit(records)
    for first, begins in ((0, 0), (1, 0), (2, 0), (3, 0), (4, 1), (5, 2), (7, 2), (9, 2), (10, 3), (19, 3), (20, 4)):
        assert ledger.scan(first, EVERYTHING).records == records[begins:], first
    ledger.collect(4)
    for first in range(9):
        assert ledger.scan(first, EVERYTHING).records == records[2:]


def test_a_scan_returns_one_record_at_least_and_no_more_bytes_than_it_may(ledger: Ledger) -> None:
    records = [events(number, size=100)._replace(audience={}, stored=0) for number in range(1, 6)]
    ledger.commit([*records, other(6, 10), events(16, size=100)._replace(audience={}, stored=0)])
    for budget, count in ((0, 1), (1, 1), (100, 1), (199, 1), (200, 2), (299, 2), (300, 3), (599, 6), (600, 7)):
        assert len(ledger.scan(1, budget).records) == count, budget
    assert ledger.scan(3, 200).records == [record._replace(stored=record.time) for record in records[2:4]]


def test_a_time_finds_the_first_record_of_it_or_later(ledger: Ledger) -> None:
    assert ledger.find(5) == 1
    times = {1: 100, 4: 200, 6: 150, 7: 300}  # clocks of publishers differ
    ledger.commit([events(number, size=10, time=time) for number, time in times.items()])
    ledger.commit([other(8, 5), other(13, 2, RecordKind.VOID)])
    for time, sequence in ((0, 1), (100, 1), (101, 4), (151, 4), (200, 4), (201, 7), (300, 7), (301, 15)):
        assert ledger.find(time) == sequence, time
    ledger.collect(4)
    assert ledger.find(0) == 6
    ledger.collect(14)
    assert ledger.find(0) == 15


def test_rows_are_found_by_repository_and_number_in_order(store: Store, ledger: Ledger) -> None:
    near = [Row("near", events(sequence, length).line) for sequence, length in ((1, 3), (4, 100), (50, 2), (104, 1))]
    far = [Row("far", events(sequence).line) for sequence in (7, 8)]
    ledger.commit([near[1], far[1], near[3], far[0]])
    ledger.commit([near[2], near[0]])
    for again in (False, True):
        if again:
            ledger, contents = reopened(store, ledger)
            assert list(contents.rows) == [*far, *near]
        assert ledger.rows("near", 1, 200) == near
        assert ledger.rows("near", 1, 3) == near[:1]
        assert ledger.rows("near", 51, 51) == near[1:3]
        assert ledger.rows("near", 103, 104) == [near[1], near[3]]
        assert ledger.rows("near", 105, 200) == []
        assert ledger.rows("far", 0, 7) == far[:1]
        assert ledger.rows("unheard of", 1, 200) == []
    ledger.close()


def test_a_row_of_the_same_numbers_replaces_the_older_one(store: Store, ledger: Ledger) -> None:
    older = Row("near", other(5, 5).line)
    newer, longer = Row("near", events(5, 5).line), Row("near", events(5, 6).line)
    ledger.commit([older, longer])
    ledger.commit([newer])
    ledger, contents = reopened(store, ledger)
    assert list(contents.rows) == ledger.rows("near", 1, 9) == [newer, longer]
    ledger.close()


# ---- forgetting


def test_only_records_that_end_by_then_are_forgotten_facts_stay(store: Store, ledger: Ledger) -> None:
    records = [events(1, 3), other(4, 2), events(6, 5), events(11, 2)]
    ledger.commit([*records, Fact("a", b"1")])
    ledger.collect(7)
    assert ledger.scan(1, EVERYTHING).records == records[2:]
    ledger.commit([Fact("b", b"2")])  # what need not be durable at once is by the next commit
    ledger, contents = reopened(store, ledger)
    assert list(contents.lines) == lines(*records[2:])
    assert contents.facts == {"a": b"1", "b": b"2"}
    ledger.collect(5)  # goes back nowhere
    assert ledger.scan(1, EVERYTHING).records == records[2:]
    ledger.close()


def test_rows_go_with_the_events_that_were_forgotten_and_stay_with_those_that_are_not(
    store: Store, ledger: Ledger
) -> None:
    def row(first: int, length: int, publisher: int = 7) -> Row:
        return Row("near", events(1000 + publisher * 100 + first, length, first, publisher).line)

    ledger.commit([events(1, 10, 1), events(11, 10, 11), events(21, 5, 1, publisher=8), events(26, 5, 21)])
    forgotten, across, later = row(1, 10), row(11, 15), row(26, 5)
    elsewhere, unknown = row(1, 5, 8), row(1, 5, 9)
    rows = [forgotten, across, later, elsewhere, unknown]
    ledger.commit(rows)
    ledger.collect(20)
    assert ledger.rows("near", 0, 9999) == rows[1:], "across has events that are here"
    ledger.collect(25)
    assert ledger.rows("near", 0, 9999) == [across, later, unknown]
    ledger.commit([Fact("a", b"1")])
    ledger, contents = reopened(store, ledger)
    assert list(contents.rows) == [across, later, unknown]
    ledger.collect(30)
    assert ledger.rows("near", 0, 9999) == [later, unknown], "what never was here was not forgotten"
    ledger.close()


def test_rows_of_events_that_came_late_stay_as_long_as_these(ledger: Ledger) -> None:
    ledger.commit([events(1, 10, 101), events(11, 10, 1), events(21, 10, 111)])
    rows = [Row("near", events(first, 10, first).line) for first in (1, 101, 111)]
    ledger.commit(rows)
    ledger.collect(10)
    assert ledger.rows("near", 0, 999) == [rows[0], rows[2]]
    ledger.collect(20)
    assert ledger.rows("near", 0, 999) == [rows[2]]


def test_the_disk_does_not_fill_up_under_a_steady_load(store: Store, ledger: Ledger) -> None:
    random = Random(5)
    registration = Fact("registration", random.randbytes(300))
    ledger.commit([registration, events(1, size=700)])
    usages = []
    for number in range(2, 400):
        facts = Fact("sync:a", b"%d" % number), Fact(f"guest:{number}", b"x"), Fact(f"guest:{number - 5}", None)
        ledger.commit([events(number, size=700), Row("near", events(number).line), *facts])
        if number % 10 == 0:
            ledger.collect(number - 20)
            usages.append(ledger.usage())
        if number == 200:
            ledger, _ = reopened(store, ledger)
    assert max(usages[25:]) <= 1.25 * max(usages[8:25])
    ledger, contents = reopened(store, ledger)
    assert [line.sequence for line in contents.lines] == list(range(371, 400))
    assert contents.facts == {
        "registration": registration.value,
        "sync:a": b"399",
        **{f"guest:{number}": b"x" for number in range(395, 400)},
    }
    assert [row.line.sequence for row in contents.rows] == list(range(371, 400))
    assert [record.line.sequence for record in ledger.scan(0, EVERYTHING).records] == list(range(371, 400))
    ledger.close()


# ---- damage


def test_damaged_contents_are_reported_and_never_served(store: Store, ledger: Ledger) -> None:
    records = [events(1, 2), events(3, 4, size=3000), events(7), events(8)]
    for record in records:
        ledger.commit([record])
    store.damage(records[1])
    store.damage(records[3])
    expected = ([records[0], records[2]], [reserved(records[1].line), reserved(records[3].line)])
    assert ledger.scan(1, EVERYTHING) == expected
    assert ledger.scan(4, 1) == ([records[2]], [reserved(records[1].line)])
    assert ledger.scan(8, 1) == ([], [reserved(records[3].line)])
    ledger, contents = reopened(store, ledger)
    noticed = (8,) if store.summed else (3, 8)
    assert list(contents.lines) == [reserved(line) if line.sequence in noticed else line for line in lines(*records)]
    assert contents.next == 9
    assert ledger.scan(1, EVERYTHING) == expected
    assert ledger.find(0) == 1
    ledger.close()


@pytest.mark.parametrize("noticed", [False, True])
def test_a_damaged_record_is_replaced_like_one_that_is_reserved(store: Store, ledger: Ledger, noticed: bool) -> None:
    records = [events(1, 2), events(3, 4), events(7)]
    for record in records:
        ledger.commit([record])
    store.damage(records[1])
    if noticed:
        assert ledger.scan(3, 0).damaged == [reserved(records[1].line)]
    else:
        ledger, _ = reopened(store, ledger)
    anew = [events(3, 3), other(6)]
    ledger.commit(anew)
    assert ledger.scan(1, EVERYTHING) == ([records[0], *anew, records[2]], [])
    ledger, contents = reopened(store, ledger)
    assert list(contents.lines) == lines(records[0], *anew, records[2])
    ledger.close()


# ---- threads


def test_it_does_not_matter_which_thread_calls(ledger: Ledger) -> None:
    lock = threading.Lock()
    written = 0
    failures: list[Exception] = []

    def write() -> None:
        nonlocal written
        for number in range(1, 60):
            with lock:
                ledger.commit([events(number)])
                written = number

    def read() -> None:
        seen = 0
        try:
            while seen < 59:
                with lock:
                    found = ledger.scan(seen + 1, 100).records
                    assert found or seen == written
                for record in found:
                    assert record == events(seen + 1)
                    seen += 1
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=each) for each in (write, read, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not failures
    assert written == 59
