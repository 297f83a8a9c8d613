"""A ledger in SQLite: one file, one row per record, one transaction per commit, synced before it is acknowledged."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from stentor.model.stored.record_columns import LONGEST
from stentor.storage.ledger import LedgerBusy, LedgerDamaged, LedgerError, LedgerFailed, LedgerFull
from stentor.storage.statements import SUMMARIES, TABLES
from stentor.storage.table_ledger import TableLedger, Values, seal_fact

VERSION: Final = 1
PATIENCE: Final = 5.0  # seconds to wait for somebody else who holds a lock
MOST_PAGES: Final = 4096  # given back at once, so that nobody waits long
_SETTINGS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "journal_size_limit = 16777216",
    "secure_delete = OFF",  # space that is free need not be overwritten as well
    "cell_size_check = ON",
)
_NEXT: Final = "next"
_NOTE: Final = "UPDATE state SET value = ?, seal = ? WHERE name = ?"

_FULL = {sqlite3.SQLITE_FULL}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class SqliteLedger(TableLedger):
    """A ledger in one SQLite file, which is not touched before `load`."""

    def __init__(self, path: Path, name: str, chapter: int = LONGEST) -> None:
        super().__init__(name, chapter)
        self._path = path
        self._failure = ""
        self._connection: sqlite3.Connection | None = None

    def usage(self) -> int:
        sizes = 0
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                sizes += self._path.with_name(self._path.name + suffix).stat().st_size
        return sizes

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def collect(self, end: int) -> None:
        super().collect(end)
        ((free,),), ((all_of_them,),) = self._query("PRAGMA freelist_count"), self._query("PRAGMA page_count")
        if 4 * free > 3 * all_of_them:  # less than that is soon used again
            with self._translated():
                self._live.executescript(f"PRAGMA incremental_vacuum({MOST_PAGES})")  # a query would free one page

    def _open(self) -> int:
        with self._translated():
            # We commit ourselves, and are called by one thread at a time.
            connection = sqlite3.connect(self._path, PATIENCE, isolation_level=None, check_same_thread=False)
            connection.text_factory = bytes  # there is none, unless a row is rotten
            self._connection = connection
            ((version,),) = self._query("PRAGMA user_version")
            if version > VERSION:
                raise LedgerFailed(
                    f"{self._name}: {self._path} has version {version}, this program reads {VERSION}: use the newer one"
                )
            if not version:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before there is anything in it
            for setting in _SETTINGS:
                connection.execute(f"PRAGMA {setting}")
        if not version:
            self._transact(self._create, self._next)
        elif not self._query("SELECT 1 FROM sqlite_master WHERE name = 'summaries'"):
            self._transact(lambda: self._make_table(SUMMARIES), self._next)
        ((following, seal),) = self._query("SELECT value, seal FROM state WHERE name = ?", (_NEXT,))
        if seal != seal_fact(_NEXT, b"%d" % following):
            raise self._condemned("the next free number")
        return int(following)

    def _make_table(self, statement: str) -> None:
        self._execute(statement.replace("LEDGER ", "").replace("OURS ", ""), ())

    def _create(self) -> None:
        for statement in (*TABLES, SUMMARIES):
            self._make_table(statement)
        self._execute("CREATE TABLE state (name TEXT PRIMARY KEY, value INTEGER NOT NULL, seal INTEGER NOT NULL)", ())
        self._execute("INSERT INTO state VALUES (?, 1, ?)", (_NEXT, seal_fact(_NEXT, b"1")))
        self._execute(f"PRAGMA user_version = {VERSION}", ())

    def _query(self, statement: str, values: Values = ()) -> list[Values]:
        with self._translated():
            return self._live.execute(statement, values).fetchall()

    def _execute(self, statement: str, values: Values) -> None:
        self._live.execute(statement, values)

    def _transact(self, work: Callable[[], None], following: int) -> None:
        if self._failure:
            raise LedgerFailed(self._failure)
        connection = self._live
        with self._translated():
            connection.execute("BEGIN IMMEDIATE")
            try:
                work()
                if following > self._next:
                    self._execute(_NOTE, (following, seal_fact(_NEXT, b"%d" % following), _NEXT))
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                raise

    @property
    def _live(self) -> sqlite3.Connection:
        if self._connection is None:
            raise LedgerFailed(f"{self._name}: the ledger is not open")
        return self._connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Says what SQLite's errors mean; after one that nobody can explain nothing is taken any more."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._meaning(error) from error

    def _meaning(self, error: sqlite3.Error) -> LedgerError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_IOERR) & 0xFF  # what is above is detail
        if code in _FULL:
            return LedgerFull(f"{self._name}: not written ({error})")
        if code in _BUSY:
            return LedgerBusy(f"{self._name}: another process holds {self._path} ({error})")
        if code in _DAMAGED:
            return LedgerDamaged(
                f"{self._name}: {self._path} is damaged ({error}); "
                "restore it, or discard this copy and fill it from another one"
            )
        self._failure = f"{self._name}: {self._path} failed ({error}); restart the node"
        return LedgerFailed(self._failure)
