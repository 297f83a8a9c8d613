"""A node's logs on the real disk, and the lock that keeps a second process away from them."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from stentor.model.errors import ConfigError
from stentor.storage.filesystem import RealDirectory
from stentor.storage.segment import SegmentLog, stored_logs

_PORT = "http"  # the file of a node's directory that holds a port


def remembered_port(home: Path) -> int:
    """Return the port on which the node of a directory last served HTTP, or 0."""
    try:
        port = int((home / _PORT).read_text())
    except (OSError, ValueError):
        return 0
    return port if 0 < port < 1 << 16 else 0


def remember_port(home: Path, port: int) -> None:
    """Keep a port for the next start; a disk that is full keeps nothing, and is no reason not to start."""
    if port != remembered_port(home):
        with suppress(OSError):
            (home / _PORT).write_text(f"{port}\n")


class NodeStorage:
    """The directory of one node. Opening it takes its lock; the operating system gives it back if the process dies."""

    def __init__(self, path: Path) -> None:
        try:
            self._directory = RealDirectory(path)
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(f"cannot keep data in {path}: {error.strerror or error}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._lock, 20, 0).decode(errors="replace").strip() or "unknown"
            raise ConfigError(
                f"{path} is in use by a running node (process {holder}): stop it, or give this one another name"
            ) from None
        try:
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            raise ConfigError(f"cannot keep data in {path}: {error.strerror or error}") from None
        self._logs: dict[str, SegmentLog] = {}

    def load(self) -> dict[str, list[bytes]]:
        """What the logs hold; each record is handed out once, at the start."""
        return {name: self._log(name).recovered for name in stored_logs(self._directory)}

    def append(self, log: str, records: list[bytes]) -> None:
        """Returns when the records are durable."""
        target = self._log(log)
        target.append(records)
        target.sync()

    def rewrite(self, log: str, records: list[bytes]) -> None:
        """Returns when the log durably holds these records and nothing else."""
        self._log(log).rewrite(records)

    def close(self) -> None:
        for log in self._logs.values():
            log.close()
        os.close(self._lock)

    def _log(self, name: str) -> SegmentLog:
        if name not in self._logs:
            self._logs[name] = SegmentLog(self._directory, name)
        return self._logs[name]
