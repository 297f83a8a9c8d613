"""Compaction while somebody reads, and while it is killed: each event is there once, whoever looks and whenever."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as dataset
import pytest

from stentor.pipeline.archive import _name, _save
from stentor.storage.lake import Lake

DAY = date(2026, 11, 16)
FILES = 6
EVENTS = 20  # of a file

# adds batches and compacts, for ever
WRITER = """
import sys, pyarrow as pa
from datetime import date
from pathlib import Path
from stentor.pipeline.archive import _merge, _name, _save
from stentor.storage.lake import Lake
lake, day, batch = Lake(Path(sys.argv[1])), date(2026, 11, 16), int(sys.argv[2])
while True:
    first = batch * 20
    table = pa.table({"origin": [1] * 20, "incarnation": [1] * 20, "catenation": list(range(first, first + 20))})
    draft = lake.draft("batch")
    _save(table, draft)
    lake.publish(draft, lake.day("t", day) / _name(batch))
    print(batch, flush=True)
    batch += 1
    _merge(lake, "t", day.isoformat(), batch - 1)
"""


def seen(lake: Lake) -> Counter[int]:
    """Listing and reading are not one act: a reader to whom a file is gone looks again, as all of them must."""
    while True:
        try:
            table = dataset.dataset(lake.path, format="parquet", partitioning="hive").to_table(["catenation"])
            return Counter(table["catenation"].to_pylist())
        except (OSError, pa.ArrowInvalid):
            continue


@pytest.mark.req("SP-02")
def test_each_event_is_there_once_while_days_are_compacted_and_compaction_is_killed(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    lake.path.mkdir()
    batch = 0
    for seed in range(3):
        with lake.lock():
            lake.sweep()
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(lake.path), str(batch)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        done = int(process.stdout.readline())
        end = time.monotonic() + random.Random(seed).random() / 2
        while time.monotonic() < end:
            found = seen(lake)
            assert set(found.values()) == {1}
            assert set(range((done + 1) * EVENTS)) <= found.keys()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        last = [done, *map(int, process.stdout.read().split())][-1]
        process.stdout.close()
        found = seen(lake)
        assert set(found.values()) == {1}
        assert found.keys() >= set(range((last + 1) * EVENTS))
        batch = max(found) // EVENTS  # the one that may have been interrupted is repeated, as an archive does
    assert len(lake.files("t")) < 10
    assert batch > FILES


def test_what_stands_beside_the_lake_is_swept(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.lock():
        _save(pa.table({"a": [1]}), lake.draft("left"))
        lake.sweep()
        assert len(list((lake.work / "drafts").iterdir())) == 1  # somebody may be busy with it
        lake.sweep(age=0)
    assert not list((lake.work / "drafts").iterdir())
    assert not list(lake.path.rglob("*"))
    assert _name(1) == "000000000001.parquet"
    assert lake.day("a/b", DAY) == lake.path / "topic=a%2Fb" / "day=2026-11-16"
