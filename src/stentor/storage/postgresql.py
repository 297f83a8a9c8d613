"""A ledger in PostgreSQL: all ledgers share the tables of one schema, a commit is one transaction.

Each transaction leaves a token in its ledger's row. When the connection broke before COMMIT was answered, that row is
locked and read on another connection: the token tells whether the transaction took place, and the lock that it is not
still about to. Whoever opened a ledger last owns it, and a transaction of anybody else fails.
"""

import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from stentor.model.errors import ConfigError
from stentor.storage.ledger import LedgerBusy, LedgerDamaged, LedgerError, LedgerFailed, LedgerFull
from stentor.storage.statements import SUMMARIES, TABLES, Statements
from stentor.storage.table_ledger import TableLedger, Values, seal_fact

VERSION: Final = 1
DOUBT: Final = 60.0  # seconds to find out what became of a commit: the server gives up what is left of it sooner
PAUSE: Final = 0.2  # seconds between two attempts to do so
_CONNECTION: Final = {  # unless the address says otherwise
    "connect_timeout": "5",
    "application_name": "stentor",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
_SETTINGS: Final = (
    "SET search_path = stentor; SET synchronous_commit = on; SET statement_timeout = '30s'; SET lock_timeout = '10s'; "
    "SET idle_in_transaction_session_timeout = '10s'; SET client_min_messages = warning"
)
_LEDGERS: Final = (
    "CREATE TABLE ledgers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, repository text NOT NULL, "
    "topic text NOT NULL, next bigint NOT NULL, seal bigint NOT NULL, owner bigint NOT NULL, token bigint NOT NULL, "
    "UNIQUE (repository, topic)) WITH (fillfactor = 50)"
)
_NEXT: Final = "next"
_OWN: Final = (
    "INSERT INTO ledgers (repository, topic, next, seal, owner, token) VALUES (%s, %s, 1, %s, %s, 0) "
    "ON CONFLICT (repository, topic) DO UPDATE SET owner = excluded.owner RETURNING id, next, seal"
)
_SIGN: Final = (  # divides by zero if it is not ours: the whole transaction fails
    "WITH signed AS (UPDATE ledgers SET token = %s, next = %s, seal = %s WHERE id = %s AND owner = %s RETURNING 1) "
    "SELECT 1 / count(*) FROM signed"
)
_BYTES: Final = (
    "SELECT sum(bytes) FROM ("
    "SELECT sum(octet_length(frame) + octet_length(audience) + 150) AS bytes FROM records WHERE ledger = %s "
    "UNION ALL SELECT sum(octet_length(key) + octet_length(value) + 40) FROM facts WHERE ledger = %s "
    "UNION ALL SELECT sum(octet_length(repository) + 100) FROM rows WHERE ledger = %s) AS parts"
)
_LONG: Final = "SET LOCAL statement_timeout = '10min'"

_FULL: Final = "53100"
_STOLEN: Final = "another process has opened or discarded it; two repositories must not have the same name"
_ZERO: Final = "22012"
_DAMAGED: Final = ("XX001", "XX002")
_PASSING: Final = ("08", "40", "53", "55", "57", "25006")  # classes of errors that go by
_LASTING = re.compile(
    r"password|authentication|does not exist|pg_hba\.conf|permission denied|not permitted", re.IGNORECASE
)

Session = psycopg.Connection[Values]


class Server:
    """Where a database is, and how to reach it."""

    def __init__(self, url: str) -> None:
        try:
            parts = conninfo_to_dict(url)
            self._address = make_conninfo(url, **{key: _CONNECTION[key] for key in _CONNECTION if key not in parts})
        except psycopg.ProgrammingError as error:
            raise ConfigError(
                f"this is no address of a database ({str(error).strip()}): "
                "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
            ) from None
        place = f"{parts.get('host') or 'localhost'}" + (f":{parts['port']}" if parts.get("port") else "")
        self.name = f"database {parts.get('dbname') or parts.get('user') or ''} at {place}"  # and no password

    def connect(self) -> Session:
        """Raises LedgerBusy if it may be there later, LedgerFailed if somebody has to do something."""
        session = None
        try:
            session = psycopg.connect(self._address, autocommit=True)
            session.execute(_SETTINGS)
        except psycopg.Error as error:
            if session is not None:
                session.close()
            text = f"{self.name} cannot be reached ({one_line(error)})"
            if _LASTING.search(str(error)):
                raise LedgerFailed(f"{text}; check user, password and database, and who may connect") from error
            raise LedgerBusy(text) from error
        return session

    def prepare(self, session: Session) -> None:
        """Make the tables, if they are not there; many may try at once."""
        if not _is_there(session, "summaries"):
            with session.transaction():
                session.execute("SELECT pg_advisory_xact_lock(hashtext('stentor'))")
                if not _is_there(session, "ledgers"):
                    session.execute("CREATE SCHEMA IF NOT EXISTS stentor")
                    for statement in (*TABLES, _LEDGERS):
                        session.execute(_spoken(statement))
                    # nothing is won by packing it
                    session.execute("ALTER TABLE records ALTER frame SET STORAGE EXTERNAL")
                    session.execute(f"COMMENT ON TABLE ledgers IS '{VERSION}'")
                session.execute(_spoken(SUMMARIES))
        (version,) = session.execute("SELECT obj_description('stentor.ledgers'::regclass)").fetchone() or ("",)
        if version != str(VERSION):
            raise LedgerFailed(
                f"{self.name} has tables of version {version}, this program reads {VERSION}: use the newer one"
            )


def _is_there(session: Session, table: str) -> bool:
    return session.execute("SELECT to_regclass(%s)", (f"stentor.{table}",)).fetchone() != (None,)


def _spoken(statement: str) -> bytes:
    """In this dialect, and for many ledgers."""
    shared = statement.replace("LEDGER ", "ledger bigint NOT NULL, ").replace("OURS ", "ledger, ")
    return shared.replace("INTEGER", "bigint").replace("BLOB", "bytea").encode()


def one_line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())


class PostgresqlLedger(TableLedger):
    """Connects when it is asked for something, and again when the connection was lost."""

    def __init__(self, server: Server, repository: str, topic: str) -> None:
        super().__init__(f"ledger of {topic}")
        self._server = server
        self._repository = repository
        self._topic = topic
        self._session: Session | None = None
        self._transacting = False
        self._owner = secrets.randbits(62)
        self._id = 0
        self._failure = ""

    def usage(self) -> int:
        """What is in use: how much more the shared tables take is the database's affair."""
        ((size,),) = self._query(_BYTES, (self._id,) * 3)
        return int(size or 0)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _open(self) -> int:
        with self._translated():
            session = self._connected()
            self._server.prepare(session)
            first = seal_fact(_NEXT, b"1")
            found = session.execute(_OWN, (self._repository, self._topic, first, self._owner)).fetchone()
        assert found is not None
        self._id, following, seal = found
        if seal != seal_fact(_NEXT, b"%d" % following):
            raise self._condemned("the next free number")
        self._statements = Statements(self._id, "%s")
        return int(following)

    def _query(self, statement: str, values: Values = ()) -> list[Values]:
        fresh = self._session is None
        try:
            with self._translated():
                return self._connected().execute(statement.encode(), values).fetchall()
        except LedgerBusy:
            if fresh or self._transacting or self._session is not None:
                raise
        return self._query(statement, values)  # what broke may have been broken for long

    def _execute(self, statement: str, values: Values) -> None:
        assert self._session is not None, "within a transaction there is no other connection"
        self._session.execute(statement.encode(), values)

    def _forget(self, end: int) -> None:
        self._execute(_LONG, ())
        super()._forget(end)

    def _transact(self, work: Callable[[], None], following: int) -> None:
        if self._failure:
            raise LedgerFailed(self._failure)
        session = self._connected()
        token = secrets.randbits(62)
        asked = False
        self._transacting = True
        try:
            with self._translated(), session.pipeline():
                session.execute("BEGIN")
                seal = seal_fact(_NEXT, b"%d" % following)
                session.execute(_SIGN, (token, following, seal, self._id, self._owner))
                work()
                asked = True
                session.execute("COMMIT")
        except LedgerError:
            self._roll_back(session)
            if not asked or not self._took_place(token):
                raise
        except BaseException:
            self._roll_back(session)
            raise
        finally:
            self._transacting = False

    def _took_place(self, token: int) -> bool:
        """What became of a transaction whose COMMIT was sent and not answered as it should."""
        deadline = time.monotonic() + DOUBT
        while True:
            try:
                found = self._query("SELECT token, owner FROM ledgers WHERE id = %s FOR UPDATE", (self._id,))
                break
            except LedgerError as error:
                if time.monotonic() > deadline:
                    self._failure = f"{self._name}: nobody knows whether the last commit took place; restart the node"
                    raise LedgerFailed(f"{self._failure} ({error})") from error
                time.sleep(PAUSE)
        if not found or found[0][1] != self._owner:
            self._failure = f"{self._name}: {_STOLEN}; restart the node"
            raise LedgerFailed(self._failure)
        return bool(found[0][0] == token)

    def _roll_back(self, session: Session) -> None:
        with suppress(psycopg.Error):
            if session.info.transaction_status != TransactionStatus.IDLE:
                session.execute("ROLLBACK")
        self._let_go()

    def _connected(self) -> Session:
        if self._session is None:
            self._session = self._server.connect()
        return self._session

    def _let_go(self) -> None:
        """Forget a connection that is of no use any more."""
        if self._session is not None and (self._session.closed or self._session.broken):
            self._session.close()
            self._session = None

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            self._let_go()
            raise self._meaning(error) from error

    def _meaning(self, error: psycopg.Error) -> LedgerError:
        state = error.sqlstate or ""
        text = f"{self._name}: {self._server.name} ({one_line(error)})"
        if state == _FULL:
            return LedgerFull(f"{text}: not written")
        if not state or state.startswith(_PASSING):
            return LedgerBusy(text)
        if state == _ZERO:
            text = f"{self._name}: {_STOLEN}"
        self._failure = f"{text}; restart the node"
        return LedgerDamaged(text) if state in _DAMAGED else LedgerFailed(self._failure)


class PostgresqlLedgerStore:
    """The ledgers of a repository in a database."""

    def __init__(self, url: str, repository: str) -> None:
        self._server, self._repository = Server(url), repository

    def open(self, topic: str) -> PostgresqlLedger:
        return PostgresqlLedger(self._server, self._repository, topic)

    def topics(self) -> list[str]:
        with self._session() as session:
            statement = 'SELECT topic FROM ledgers WHERE repository = %s ORDER BY topic COLLATE "C"'
            return [topic for (topic,) in session.execute(statement, (self._repository,))]

    def discard(self, topic: str) -> None:
        with self._session() as session, session.transaction():
            ours = (self._repository, topic)
            statement = "DELETE FROM ledgers WHERE repository = %s AND topic = %s RETURNING id"
            for ledger in session.execute(statement, ours).fetchall():
                for table in map(sql.Identifier, ("records", "facts", "rows", "summaries")):
                    session.execute(sql.SQL("DELETE FROM {} WHERE ledger = %s").format(table), ledger)

    @contextmanager
    def _session(self) -> Iterator[Session]:
        session = self._server.connect()
        try:
            self._server.prepare(session)
            yield session
        except psycopg.Error as error:
            raise LedgerBusy(f"{self._server.name} ({one_line(error)})") from error
        finally:
            session.close()
