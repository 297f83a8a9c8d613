"""Ledger stores: where the ledgers of one repository are, one ledger for each topic. A line of configuration names one:

sqlite:DIRECTORY        one SQLite file per topic
segments:DIRECTORY      one directory of segment files per topic
postgresql://…          rows of the tables of a PostgreSQL database
"""

import os
import shutil
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote

from stentor.model.errors import ConfigError
from stentor.storage.filesystem import RealDirectory
from stentor.storage.ledger import Ledger
from stentor.storage.segments import SegmentLedger
from stentor.storage.sqlite import SqliteLedger

_SQLITE: Final = ".sqlite"
_SEGMENTS: Final = ".segments"
_NAME: Final = ".name"
_DISCARDED: Final = ".discarded"
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
_LONGEST_NAME: Final = 120  # of a file; file systems take 255 bytes, SQLite 512 with all directories
_LEGIBLE: Final = 60  # of a longer one
_CHOICES: Final = "sqlite:DIRECTORY, segments:DIRECTORY or postgresql://USER@HOST/DATABASE"


class LedgerStore(Protocol):
    """Where the ledgers of one repository are."""

    def open(self, topic: str) -> Ledger:
        """The ledger of a topic, made if there is none; nothing is read before its `load`."""
        ...

    def topics(self) -> list[str]:
        """The topics that have a ledger here, sorted."""
        ...

    def discard(self, topic: str) -> None:
        """Delete the ledger of a topic, if there is one; it must not be open."""
        ...


def find_ledger_store(where: str, repository: str) -> LedgerStore:
    """the ledger store that a configuration value means; raises ConfigError."""
    kind, colon, rest = where.partition(":")
    if kind in ("postgresql", "postgres") and rest.startswith("//"):
        try:
            from stentor.storage.postgresql import PostgresqlLedgerStore
        except ImportError as error:
            raise ConfigError(
                f"{where!r} needs the PostgreSQL driver: pip install 'stentor[postgresql]' ({error})"
            ) from None
        return PostgresqlLedgerStore(where, repository)
    if not colon or kind not in ("sqlite", "segments"):
        raise ConfigError(f"{where!r} is no place for ledgers: write {_CHOICES}")
    if not rest:
        raise ConfigError(f"{where!r} names no directory: write {kind}:DIRECTORY")
    if rest.startswith("//"):
        raise ConfigError(f"{where!r} is no address: {kind} keeps ledgers in a directory, write {kind}:DIRECTORY")
    return FileLedgerStore(Path(rest), repository, _SQLITE if kind == "sqlite" else _SEGMENTS)


def directory_of(where: str) -> Path | None:
    """Return the directory that holds the files of a ledger store, or None if its ledgers are in a database."""
    kind, _, rest = where.partition(":")
    return Path(rest) if kind in ("sqlite", "segments") else None


def open_ledger(where: str, repository: str, topic: str) -> Ledger:
    return find_ledger_store(where, repository).open(topic)


def file_name(name: str) -> str:
    """One that is safe on every file system, and a different one for every name; a long one is cut, with a digest."""
    text = "".join(letter if letter in _PLAIN else "".join(map("%{:02x}".format, letter.encode())) for letter in name)
    if len(text) <= _LONGEST_NAME:
        return text
    return f"{text[:_LEGIBLE]}+{blake2b(name.encode(), digest_size=16).hexdigest()}"


class FileLedgerStore:
    """A directory for each repository, and in it a file or a directory for each topic; beside one whose name was cut
    stands a file that holds it whole.
    """

    def __init__(self, directory: Path, repository: str, suffix: str) -> None:
        self._where, self._suffix = directory, suffix
        self._root = directory / file_name(repository)

    def open(self, topic: str) -> Ledger:
        path = self._path(topic)
        name = f"ledger of {topic}"
        try:
            _make(self._root)
            if unquote(path.stem) != topic:
                self._note(path.with_suffix(_NAME), topic)
            if self._suffix == _SQLITE:
                return SqliteLedger(path, name)
            _make(path)
            return SegmentLedger(RealDirectory(path), name)
        except OSError as error:
            raise ConfigError(f"cannot keep ledgers in {self._where}: {error.strerror or error}") from None

    def topics(self) -> list[str]:
        return sorted(self._topic(path) for path in self._root.glob(f"*{self._suffix}"))

    def discard(self, topic: str) -> None:
        path = self._path(topic)
        if not path.exists():
            return
        discarded = path.with_suffix(_DISCARDED)
        if self._suffix == _SQLITE:
            path.unlink()  # first, or what is left without its log would pass for a ledger
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        else:
            shutil.rmtree(discarded, ignore_errors=True)  # from an earlier attempt
            path.rename(discarded)
        _sync(self._root)
        path.with_suffix(_NAME).unlink(missing_ok=True)
        shutil.rmtree(discarded, ignore_errors=True)

    def _path(self, topic: str) -> Path:
        return self._root / (file_name(topic) + self._suffix)

    def _topic(self, path: Path) -> str:
        if "+" in path.stem:
            return path.with_suffix(_NAME).read_bytes().decode()
        return unquote(path.stem)

    def _note(self, path: Path, topic: str) -> None:
        with path.open("wb") as file:
            file.write(topic.encode())
            file.flush()
            os.fsync(file.fileno())
        _sync(self._root)


def _make(path: Path) -> None:
    """A directory that is still there after a power cut."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in missing:
        _sync(each.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
