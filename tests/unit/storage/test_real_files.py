"""Ledgers in real files: kill -9 in the middle of commits, a file system that is full, a disk that does not sync."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.storage.records import EVERYTHING, events
from tests.unit.storage.writer import SIZE

from stentor.model.stored.record import Fact
from stentor.storage.ledger import LedgerFull
from stentor.storage.ledger_store import open_ledger

pytestmark = [pytest.mark.req("RD-23"), pytest.mark.parametrize("kind", ["segments", "sqlite"])]

ROOT = Path(__file__).parents[3]


def writer(where: str, count: int, *wrapper: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*wrapper, sys.executable, "-m", "tests.unit.storage.writer", where, str(count)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
    )


def check(where: str, acknowledged: int, attempted: int) -> None:
    """All that was acknowledged is there, and perhaps one commit more, each as a whole."""
    ledger = open_ledger(where, "r", "t")
    contents = ledger.load()
    count = contents.next - 1
    assert acknowledged <= count <= attempted
    assert [line.sequence for line in contents.lines] == list(range(1, count + 1))
    assert ledger.scan(0, EVERYTHING) == ([events(number, size=SIZE) for number in range(1, count + 1)], [])
    assert contents.facts == ({"last": b"%d" % count} if count else {})
    assert [row.line.sequence for row in contents.rows] == list(range(1, count + 1))
    ledger.close()


def test_what_was_acknowledged_survives_kill_9(kind: str, tmp_path: Path) -> None:
    where = f"{kind}:{tmp_path}"
    acknowledged = 0
    for lines in (1, 60):
        process = writer(where, 100_000)
        assert process.stdout is not None
        for _ in range(lines):
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().splitlines(keepends=True)
        acknowledged = max([acknowledged, *(int(line) for line in rest if line.endswith("\n"))])
        process.stdout.close()
        process.wait()
        check(where, acknowledged, acknowledged + 1)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of one mebibyte."""
    place = tmp_path / "small"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no small file system could be mounted: {done.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_refuses_a_commit_keeps_the_others_and_takes_more_when_it_has_room(
    kind: str, small_disk: Path
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(300_000))
    ledger = open_ledger(f"{kind}:{small_disk}", "r", "t")
    ledger.load()
    number = 0
    with pytest.raises(LedgerFull, match=r"not written .*(No space|full)"):  # noqa: PT012  (sooner or later)
        while True:
            ledger.commit([events(number + 1, size=20_000), Fact("last", b"%d" % (number + 1))])
            number += 1
    assert number > 5
    with pytest.raises(LedgerFull):
        ledger.commit([events(number + 1, size=2_000_000)])
    assert len(ledger.scan(0, EVERYTHING).records) == number
    ballast.unlink()
    ledger.commit([events(number + 1, size=20_000)])
    ledger.close()
    ledger = open_ledger(f"{kind}:{small_disk}", "r", "t")
    contents = ledger.load()
    assert contents.facts == {"last": b"%d" % number}
    expected = [events(each, size=20_000) for each in range(1, number + 2)]
    assert ledger.scan(0, EVERYTHING) == (expected, [])
    ledger.close()


def test_after_a_failed_sync_nothing_is_acknowledged_any_more(kind: str, tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not there to make syncs fail")
    where = f"{kind}:{tmp_path}"
    fault = "inject=fdatasync,fsync:error=EIO:when=20+"
    process = writer(where, 30, "strace", "-f", "-o", "/dev/null", "-e", "trace=fdatasync,fsync", "-e", fault)
    output, _ = process.communicate(timeout=30)
    lines = output.splitlines()
    taken = [int(line) for line in lines if line.isdigit()]
    assert len(lines) == 30
    assert 0 < len(taken) < 30
    assert taken == [int(line) for line in lines[: len(taken)]], "none after the first that failed"
    assert all(line.startswith("LedgerFailed ") for line in lines[len(taken) :]), lines
    check(where, taken[-1], taken[-1] + 1)
