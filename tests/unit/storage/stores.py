"""Where ledgers are kept in these tests: each store opens the same one again and again, and can damage it."""

import sqlite3
from pathlib import Path
from random import Random
from secrets import token_hex
from typing import Protocol

import psycopg
import pytest

from stentor.model.stored.record import Record
from stentor.model.stored.record_columns import LONGEST
from stentor.simulation.disk import SimulatedDisk
from stentor.storage.directory import Directory
from stentor.storage.filesystem import RealDirectory
from stentor.storage.ledger import Ledger
from stentor.storage.ledger_store import open_ledger
from stentor.storage.segments import SegmentLedger
from stentor.storage.sqlite import SqliteLedger

SEGMENT = 1 << 14


class Store(Protocol):
    summed: bool  # records are summed up soon, so that opening the ledger does not read them

    def open(self) -> Ledger:
        """Another handle of the ledger; `load` was not called yet."""
        ...

    def damage(self, record: Record) -> None:
        """Change the contents of a stored record behind the ledger's back."""
        ...


class SegmentStore:
    summed = False

    def __init__(self, directory: Directory, segment: int = SEGMENT) -> None:
        self.directory, self.segment = directory, segment

    def open(self) -> SegmentLedger:
        return SegmentLedger(self.directory, "topic", self.segment)

    def damage(self, record: Record) -> None:
        for name in self.directory.names():
            file = self.directory.open(name)
            at = file.read().rfind(record.frame)
            if at >= 0:
                file.write(at + len(record.frame) // 2, bytes([record.frame[len(record.frame) // 2] ^ 4]))
                file.sync()
            file.close()


class SqliteStore:
    def __init__(self, path: Path, chapter: int = LONGEST) -> None:
        self.path, self.chapter = path / "topic.sqlite", chapter
        self.summed = chapter < LONGEST

    def open(self) -> SqliteLedger:
        return SqliteLedger(self.path, "topic", self.chapter)

    def change(self, statement: str, *values: object) -> None:
        """As an operator with a shell would do."""
        connection = sqlite3.connect(self.path)
        connection.execute(statement, values)
        connection.commit()
        connection.close()

    def ask(self, statement: str) -> list[tuple[int, ...]]:
        connection = sqlite3.connect(self.path)
        found = connection.execute(statement).fetchall()
        connection.close()
        return found

    def damage(self, record: Record) -> None:
        frame = bytearray(record.frame)
        frame[len(frame) // 2] ^= 4
        self.change("UPDATE records SET frame = ? WHERE sequence = ?", bytes(frame), record.line.sequence)


class PostgresqlStore:
    """A repository of its own in the one server that all tests share."""

    summed = False

    def __init__(self, url: str) -> None:
        self.url, self.repository = url, token_hex(8)

    def open(self) -> Ledger:
        return open_ledger(self.url, self.repository, "topic")

    def change(self, statement: str, *values: object) -> None:
        with psycopg.connect(self.url, options="-c search_path=stentor") as connection:
            connection.execute(statement.encode(), values)

    def damage(self, record: Record) -> None:
        ours = "ledger = (SELECT id FROM ledgers WHERE repository = %s)"
        place = len(record.frame) // 2
        self.change(
            f"UPDATE records SET frame = set_byte(frame, %s, %s) WHERE {ours} AND sequence = %s",
            place,
            record.frame[place] ^ 4,
            self.repository,
            record.line.sequence,
        )


STORES = ("segments", "simulated-segments", "sqlite", "summed-up-sqlite", "postgresql")


def make_store(kind: str, request: pytest.FixtureRequest, path: Path) -> Store:
    match kind:
        case "segments":
            return SegmentStore(RealDirectory(path))
        case "simulated-segments":
            return SegmentStore(SimulatedDisk(Random(1)))
        case "sqlite":
            return SqliteStore(path)
        case "summed-up-sqlite":
            return SqliteStore(path, chapter=2)
        case "postgresql":
            return PostgresqlStore(request.getfixturevalue("database").url)
    raise AssertionError(kind)
