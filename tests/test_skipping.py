"""Skipping, as `make test` and CI see it; what is here runs a small suite with our hooks in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.skipping import LACKS, system_tool

ROOT = Path(__file__).resolve().parents[1]

SUITE = """
import pytest
from tests.skipping import lacks

@pytest.mark.req("RD-23")
def test_of_a_requirement():
    pytest.skip("the database did not start")

@pytest.mark.req("RD-14")
@pytest.mark.skipif(True, reason="not today")
def test_that_is_marked():
    pass

@pytest.mark.req("RD-14")
def test_of_a_disk():
    lacks("mkfs.ext4 is not installed")

def test_of_nothing_that_was_promised():
    pytest.skip("no time")
"""


def run(folder: Path, ci: str) -> tuple[int, str]:
    (folder / "test_suite.py").write_text(SUITE)
    (folder / "conftest.py").write_text("from tests.skipping import pytest_runtest_makereport\n")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = req(*ids): requirements\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:randomly", folder],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CI": ci, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.req("UX-01")
def test_in_ci_a_skipped_test_of_a_requirement_fails_unless_only_root_or_the_kernel_could_help(tmp_path: Path) -> None:
    code, said = run(tmp_path, ci="true")
    assert code == 1
    assert "1 failed, 2 skipped, 1 error" in said
    assert "it proves a requirement and was skipped: the database did not start" in said
    assert "it proves a requirement and was skipped: not today" in said
    assert f"{LACKS}mkfs.ext4 is not installed" in said
    assert "no time" in said


def test_elsewhere_skipped_tests_are_listed_with_their_reasons(tmp_path: Path) -> None:
    code, said = run(tmp_path, ci="")
    assert code == 0
    for reason in ("the database did not start", "not today", "mkfs.ext4 is not installed", "no time"):
        assert reason in said


def test_a_system_tool_is_found_though_its_directory_is_not_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert Path(system_tool("ldconfig")).is_file()
    with pytest.raises(pytest.skip.Exception, match=f"{LACKS}no-such-tool is not installed"):
        system_tool("no-such-tool")
