"""The ledger in PostgreSQL: a server that goes away, commits in doubt, owners, errors that say what is wrong."""

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex

import psycopg
import pytest
from tests.postgresql import Database
from tests.unit.storage.cutting_proxy import Cut, CuttingProxy
from tests.unit.storage.records import EVERYTHING, events, other
from tests.unit.storage.stores import PostgresqlStore

from stentor.model.errors import ConfigError
from stentor.model.stored.record import Entry, Fact, RecordHeader, RecordKind, Row
from stentor.storage import postgresql
from stentor.storage.ledger import Ledger, LedgerBusy, LedgerDamaged, LedgerFailed, LedgerFull
from stentor.storage.ledger_store import find_ledger_store, open_ledger
from stentor.storage.postgresql import PostgresqlLedger, Server

pytestmark = pytest.mark.req("RD-23")

OURS = "ledger = (SELECT id FROM ledgers WHERE repository = %s)"


@pytest.fixture
def store(database: Database) -> PostgresqlStore:
    return PostgresqlStore(database.url)


@pytest.fixture
def own_store(database: Database) -> Iterator[PostgresqlStore]:
    """Tables that no other test uses, for one that changes them."""
    name = f"own_{token_hex(4)}"
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield PostgresqlStore(database.url.replace("/postgres?", f"/{name}?"))
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def filled(store: PostgresqlStore) -> PostgresqlLedger:
    ledger = PostgresqlLedger(Server(store.url), store.repository, "topic")
    ledger.load()
    ledger.commit([events(1, 2), events(3, 4), events(7), Fact("a", b"1"), Row("near", events(9).line)])
    return ledger


# ---- a server that goes away


def insist(ledger: Ledger, entries: list[Entry]) -> int:
    """Commit until it is taken; how often was it not?"""
    for attempt in range(300):
        try:
            ledger.commit(entries)
        except LedgerBusy:
            time.sleep(0.05)
        else:
            return attempt
    raise AssertionError("it never came back")


def test_a_server_that_is_killed_and_restarted_in_the_middle_of_commits_loses_and_doubles_nothing(
    own_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresqlStore(own_database.url)
    doubts = []
    original = PostgresqlLedger._took_place

    def took_place(self: PostgresqlLedger, token: int) -> bool:
        doubts.append(original(self, token))
        return doubts[-1]

    monkeypatch.setattr(PostgresqlLedger, "_took_place", took_place)
    ledger = store.open()
    ledger.load()

    def restart() -> None:
        time.sleep(0.3)
        own_database.kill()
        time.sleep(0.1)
        own_database.start()

    restarter = threading.Thread(target=restart)
    restarter.start()
    refused = number = 0
    while restarter.is_alive() or number < 50:
        number += 1
        refused += insist(ledger, [events(number), Fact("last", b"%d" % number)])
    restarter.join()
    assert doubts.count(False) <= refused
    ledger.close()
    ledger = store.open()
    contents = ledger.load()
    assert [line.sequence for line in contents.lines] == list(range(1, number + 1))
    assert contents.facts == {"last": b"%d" % number}
    assert ledger.scan(0, EVERYTHING) == ([events(each) for each in range(1, number + 1)], [])
    ledger.close()


def test_while_the_server_is_away_everything_is_busy_and_then_goes_on(store: PostgresqlStore) -> None:
    ledger = filled(store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Server, "connect", lambda self: psycopg_is_away(self.name))
        patch.setattr(postgresql, "DOUBT", 0.0)
        terminate(store, ledger)
        for call in (
            lambda: ledger.scan(1, 1),
            lambda: ledger.find(0),
            lambda: ledger.rows("near", 1, 2),
            ledger.usage,
        ):
            with pytest.raises(LedgerBusy, match="away"):
                call()
        with pytest.raises(LedgerBusy, match="away"):
            ledger.commit([events(8)])
        with pytest.raises(LedgerBusy, match="away"):
            ledger.collect(1)
    assert ledger.scan(7, 1).records == [events(7)]
    ledger.commit([events(8)])
    assert ledger.scan(8, 1).records == [events(8)]
    ledger.close()


def psycopg_is_away(name: str) -> None:
    raise LedgerBusy(f"{name} is away")


def terminate(store: PostgresqlStore, ledger: PostgresqlLedger) -> None:
    """End its connection at the server, and wait for it."""
    assert ledger._session is not None
    process = ledger._session.info.backend_pid
    with psycopg.connect(store.url) as connection:
        assert connection.execute("SELECT pg_terminate_backend(%s, 5000)", (process,)).fetchone() == (True,)


def test_a_connection_that_broke_while_nobody_looked_is_not_noticed_by_readers(store: PostgresqlStore) -> None:
    ledger = filled(store)
    terminate(store, ledger)
    assert ledger.scan(7, 1).records == [events(7)]
    terminate(store, ledger)
    with pytest.raises(LedgerBusy, match="database postgres"):
        ledger.commit([events(8)])
    ledger.commit([events(8)])
    terminate(store, ledger)
    with pytest.raises(LedgerBusy):
        ledger.commit([other(9, 2), events(9)])
    assert ledger.find(0) == 1
    ledger.commit([other(9, 2), events(9), other(10)])
    assert ledger.scan(8, EVERYTHING).records == [events(8), events(9), other(10)]
    ledger.close()


# ---- commits in doubt


@pytest.fixture
def proxy(database: Database) -> Iterator[CuttingProxy]:
    path = Path(tempfile.mkdtemp())  # short: the path of a socket must be
    proxy = CuttingProxy(database.url, path)
    yield proxy
    proxy.close()
    shutil.rmtree(path)


@pytest.mark.parametrize("cut", Cut)
def test_a_commit_whose_answer_was_lost_is_found_out_and_neither_denied_nor_done_twice(
    proxy: CuttingProxy, cut: Cut
) -> None:
    repository = token_hex(8)
    ledger = open_ledger(proxy.url, repository, "t")
    ledger.load()
    ledger.commit([events(1)])
    proxy.cut = cut
    entries: list[Entry] = [events(2), other(3, 5), Fact("a", b"1")]
    if cut is Cut.BEFORE:
        with pytest.raises(LedgerBusy):
            ledger.commit(entries)
        assert len(ledger.scan(0, EVERYTHING).records) == 1
        ledger.commit(entries)
    else:
        ledger.commit(entries)
    assert proxy.cuts == 1
    ledger.commit([events(3, 5)])
    ledger.close()
    ledger = open_ledger(proxy.url, repository, "t")
    assert ledger.load().facts == {"a": b"1"}
    assert ledger.scan(0, EVERYTHING) == ([events(1), events(2), events(3, 5)], [])
    ledger.close()


@pytest.mark.parametrize("released", [True, False])
def test_a_commit_that_stays_in_doubt_ends_the_ledger(
    store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch, released: bool
) -> None:
    monkeypatch.setattr(postgresql, "_SETTINGS", postgresql._SETTINGS.replace("'10s'", "'100ms'"))
    monkeypatch.setattr(postgresql, "DOUBT", 10.0 if released else 0.3)
    ledger = filled(store)
    with psycopg.connect(store.url) as connection:
        lock = "SELECT 1 FROM stentor.ledgers WHERE repository = %s FOR UPDATE"
        connection.execute(lock, (store.repository,))
        release = threading.Timer(0.4, connection.rollback)
        if released:
            release.start()
            with pytest.raises(LedgerBusy, match="lock timeout"):
                ledger.commit([events(8)])
            release.join()
            ledger.commit([events(8)])
        else:
            with pytest.raises(LedgerFailed, match="nobody knows whether the last commit took place"):
                ledger.commit([events(8)])
            connection.rollback()
            with pytest.raises(LedgerFailed, match="restart the node"):
                ledger.commit([events(8)])
    ledger.close()


# ---- owners


@pytest.mark.parametrize("entries", [[Fact("b", b"1")], [events(3, 4)]], ids=["append", "replace"])
def test_who_opened_a_ledger_last_owns_it(store: PostgresqlStore, entries: list[Entry]) -> None:
    first = filled(store)
    second = store.open()
    assert second.load().next == 8
    for _ in range(2):
        with pytest.raises(LedgerFailed, match="another process has opened"):
            first.commit(entries)
    with pytest.raises(LedgerFailed, match="another process has opened"):
        first.collect(8)
    second.commit([events(8)])
    assert [record.line.sequence for record in second.scan(0, EVERYTHING).records] == [1, 3, 7, 8]
    first.close()
    second.close()


def test_ledgers_of_one_database_do_not_meet(database: Database) -> None:
    one, two = token_hex(8), token_hex(8)
    topics = ["a", "a/b", "ü", "A"]
    for repository in (one, two):
        for topic in topics:
            ledger = open_ledger(database.url, repository, topic)
            assert list(ledger.load().lines) == []
            ledger.commit([events(1), Fact("topic", topic.encode()), Row("near", events(1).line)])
            ledger.close()
    ledger_store = find_ledger_store(database.url, one)
    assert ledger_store.topics() == sorted(topics)
    ledger_store.discard("a")
    ledger_store.discard("a")
    assert ledger_store.topics() == sorted(topics)[:1] + sorted(topics)[2:]
    ledger = open_ledger(database.url, one, "a/b")
    assert ledger.load().facts == {"topic": b"a/b"}
    ledger.collect(1)
    ledger.close()
    for topic, facts in (("a", {}), ("a/b", {"topic": b"a/b"})):
        ledger = open_ledger(database.url, one, topic)
        contents = ledger.load()
        assert (contents.facts, list(contents.lines)) == (facts, [])
        ledger.close()
    for topic in topics:
        ledger = open_ledger(database.url, two, topic)
        contents = ledger.load()
        assert (contents.facts, len(list(contents.lines)), len(list(contents.rows))) == (
            {"topic": topic.encode()},
            1,
            1,
        )
        ledger.close()


def test_a_ledger_that_was_discarded_while_it_was_open_takes_nothing(store: PostgresqlStore) -> None:
    ledger = filled(store)
    find_ledger_store(store.url, store.repository).discard("topic")
    with pytest.raises(LedgerFailed, match="opened or discarded"):
        ledger.commit([events(8)])
    ledger.close()
    assert find_ledger_store(store.url, store.repository).topics() == []


# ---- errors


def test_every_session_syncs_its_commits_and_waits_for_nothing_forever(store: PostgresqlStore) -> None:
    ledger = filled(store)
    wanted = {"synchronous_commit": "on", "statement_timeout": "30s", "lock_timeout": "10s", "search_path": "stentor"}
    for name, value in wanted.items():
        assert ledger._query(f"SHOW {name}") == [(value,)]
    ledger.close()


def test_a_database_without_space_refuses_a_commit_and_takes_more_when_it_has_room(own_store: PostgresqlStore) -> None:
    ledger = filled(own_store)
    own_store.change(
        "CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$"
    )
    own_store.change("CREATE TRIGGER full_disk BEFORE INSERT ON records FOR EACH ROW EXECUTE FUNCTION no_space()")
    with pytest.raises(LedgerFull, match=r"No space left.*not written"):
        ledger.commit([Fact("b", b"1"), events(8)])
    own_store.change("DROP FUNCTION no_space CASCADE")
    ledger.commit([events(8)])
    ledger.close()
    filled_again(own_store).close()


def filled_again(store: PostgresqlStore) -> Ledger:
    ledger = store.open()
    contents = ledger.load()
    assert (contents.facts, contents.next) == ({"a": b"1"}, 9)
    return ledger


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        (f"UPDATE facts SET value = '2' WHERE {OURS}", "the fact 'a'"),
        (f"UPDATE rows SET first = first + 1 WHERE {OURS}", "the row of near at 9"),
        ("UPDATE ledgers SET next = 2 WHERE repository = %s", "the next free number"),
    ],
)
def test_damaged_facts_rows_and_numbers_are_not_served(store: PostgresqlStore, statement: str, what: str) -> None:
    filled(store).close()
    store.change(statement, store.repository)
    ledger = store.open()
    with pytest.raises(LedgerDamaged, match=f"ledger of topic: {what} is damaged"):
        ledger.load()
    ledger.close()


def test_a_record_that_nobody_knows_any_more_keeps_its_place_and_no_more(store: PostgresqlStore) -> None:
    filled(store).close()
    store.change(f"UPDATE records SET publisher = 0, length = 99 WHERE {OURS} AND sequence = 3", store.repository)
    ledger = store.open()
    unknown = RecordHeader(3, 4, 0, 0, 0, RecordKind.RESERVED)
    assert list(ledger.load().lines) == [events(1, 2).line, unknown, events(7).line]
    assert ledger.scan(5, EVERYTHING) == ([events(7)], [unknown])
    ledger.close()


def _may_connect(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture
def stranger(database: Database) -> Iterator[Callable[[str, str], str]]:
    """A user who needs a password, and one who may not do anything."""
    rules = database.path / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text("local all stranger scram-sha-256\n" + before)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE stranger LOGIN PASSWORD 'right'")
        connection.execute("SELECT pg_reload_conf()")
    while _may_connect(f"postgresql://stranger@/postgres?host={database.path}"):  # until the rules are read
        time.sleep(0.02)
    yield lambda password, name: f"postgresql://stranger:{password}@/{name}?host={database.path}"
    rules.write_text(before)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("DROP ROLE stranger")
        connection.execute("SELECT pg_reload_conf()")


def test_errors_of_the_configuration_say_what_is_wrong_and_no_password(
    database: Database, store: PostgresqlStore, stranger: Callable[[str, str], str]
) -> None:
    filled(store).close()
    cases = [
        (
            stranger("s3cret", "postgres"),
            LedgerFailed,
            r"password authentication failed.*check user",
        ),
        (stranger("right", "postgres"), LedgerFailed, r"permission denied"),
        (database.url.replace("/postgres?", "/nowhere?"), LedgerFailed, r"nowhere at .*does not exist.*check user"),
        (database.url.replace("://postgres", "://nobody"), LedgerFailed, r"role .nobody. does not exist"),
        ("postgresql://u:s3cret@127.0.0.1:1/x", LedgerBusy, r"database x at 127.0.0.1:1 cannot be reached.*refused"),
        ("postgresql://u:s3cret@/x?host=/nowhere", LedgerBusy, r"No such file or directory"),
    ]
    for url, sort, text in cases:
        ledger = open_ledger(url, "r", "t")
        with pytest.raises(sort, match=text) as raised:
            ledger.load()
        assert "s3cret" not in str(raised.value)
        ledger.close()
        with pytest.raises((LedgerFailed, LedgerBusy)):
            find_ledger_store(url, "r").topics()


@pytest.mark.parametrize("url", ["postgresql://[::1/x", "postgresql://h/x?colour=red"])
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigError, match="write postgresql://USER:PASSWORD@HOST:PORT/DATABASE"):
        open_ledger(url, "r", "t")


def test_tables_of_another_version_are_left_alone(own_store: PostgresqlStore) -> None:
    filled(own_store).close()
    own_store.change("COMMENT ON TABLE ledgers IS '2'")
    ledger = own_store.open()
    with pytest.raises(LedgerFailed, match="tables of version 2, this program reads 1"):
        ledger.load()
    ledger.close()
    own_store.change("COMMENT ON TABLE ledgers IS '1'")
    filled(PostgresqlStore(own_store.url)).close()
