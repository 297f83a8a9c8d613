"""The database of the tests, as the workers of a run see it; the small suite here runs with two of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.end_to_end.network import until

ROOT = Path(__file__).resolve().parents[1]

SUITE = """
import pytest

@pytest.mark.parametrize("turn", range(6))
def test_one(database, turn, tmp_path_factory, worker_id):
    place = tmp_path_factory.getbasetemp().parent / f"{worker_id}-{turn}"
    place.write_text(str((database.path / "postmaster.pid").read_text().splitlines()[0]))

def test_own(database, own_database):
    own_database.kill()
    assert database.path != own_database.path
    assert own_database.url != database.url
    own_database.start()
"""


@pytest.mark.req("RD-23")
def test_one_server_is_started_for_all_workers_and_stopped_when_they_are_done(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.postgresql import database, own_database, pytest_configure\n")
    (tmp_path / "test_suite.py").write_text(SUITE)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TEST_RUN"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "--basetemp", tmp_path / "base", tmp_path],
        cwd=tmp_path,
        env={**env, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "7 passed" in done.stdout, done.stdout
    (process,) = {path.read_text() for path in (tmp_path / "base").glob("gw*-*")}
    until(lambda: not Path(f"/proc/{process}").exists(), "it is stopped")
