"""Where ledgers are kept in these tests: each store opens the same one again and again, and can damage it."""

import sqlite3
from pathlib import Path
from random import Random
from typing import Protocol

from stentor.model.record import Kind, Line, Record
from stentor.simulation.disk import SimulatedDisk
from stentor.storage.directory import Directory
from stentor.storage.filesystem import RealDirectory
from stentor.storage.ledger import Ledger
from stentor.storage.segments import SegmentLedger
from stentor.storage.sqlite import SqliteLedger

SEGMENT = 1 << 14


def events(sequence: int, length: int = 1, first: int = 0, publisher: int = 7, size: int = 20, time: int = 0) -> Record:
    """A record whose frame tells which one it is."""
    first = first or sequence
    frame = b"%d:%d:%d|" % (publisher, first, length)
    frame += Random(frame).randbytes(max(0, size - len(frame)))
    line = Line(sequence, length, publisher, 1, first, Kind.EVENTS, digest=len(frame))
    return Record(line, frame, {3: b"", 5: b"\x01"}, time or 1000 + sequence)


def other(sequence: int, length: int = 1, kind: Kind = Kind.RESERVED, first: int = 0, publisher: int = 7) -> Record:
    return Record(Line(sequence, length, publisher, 1, first or sequence, kind))


def reserved(line: Line) -> Line:
    """How a line looks whose record is damaged."""
    return line._replace(kind=Kind.RESERVED)


class Store(Protocol):
    def open(self) -> Ledger:
        """Another handle of the ledger; `load` was not called yet."""
        ...

    def damage(self, record: Record) -> None:
        """Change the contents of a stored record behind the ledger's back."""
        ...

    def close(self) -> None: ...


class SegmentStore:
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

    def close(self) -> None: ...


class SqliteStore:
    def __init__(self, path: Path) -> None:
        self.path = path / "topic.sqlite"

    def open(self) -> SqliteLedger:
        return SqliteLedger(self.path, "topic")

    def change(self, statement: str, *values: object) -> None:
        """As an operator with a shell would do."""
        connection = sqlite3.connect(self.path)
        connection.execute(statement, values)
        connection.commit()
        connection.close()

    def damage(self, record: Record) -> None:
        frame = bytearray(record.frame)
        frame[len(frame) // 2] ^= 4
        self.change("UPDATE records SET frame = ? WHERE sequence = ?", bytes(frame), record.line.sequence)

    def close(self) -> None: ...


STORES = ("segments", "simulated-segments", "sqlite")


def make_store(kind: str, path: Path) -> Store:
    match kind:
        case "segments":
            return SegmentStore(RealDirectory(path))
        case "simulated-segments":
            return SegmentStore(SimulatedDisk(Random(1)))
        case "sqlite":
            return SqliteStore(path)
    raise AssertionError(kind)
