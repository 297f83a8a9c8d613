"""The archive as its users run it: real processes, killed at any instant; and every reader sees each event once."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as dataset
import pyarrow.parquet as parquet
import pytest
from pyspark.sql import SparkSession
from tests.end_to_end.command import STENTOR, environment, in_process
from tests.end_to_end.network import until
from tests.spark.stage import Stage

from stentor.pipeline.archive import check
from stentor.storage.lake import MARK, Lake, LakeError

pytestmark = pytest.mark.req("SP-02")


class Archive:
    """`stentor pipeline archive` as a process with all its children."""

    def __init__(self, stage: Stage, lake: Lake, topic: str, *more: str) -> None:
        command = [STENTOR, "pipeline", "archive", "--topic", topic, "--lake", str(lake.path), "--master", "local[2]"]
        self.process = subprocess.Popen(
            [*command, "--url", stage.url_of_all, *more],
            start_new_session=True,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until_it_writes(self, lake: Lake, topic: str) -> None:
        before = len(lake.files(topic))
        until(lambda: len(lake.files(topic)) > before + 1 or self.process.poll() is not None)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def numbers(lake: Lake) -> Counter[int]:
    """What a reader of Parquet finds that knows nothing of us."""
    if not lake.path.exists():
        return Counter()
    table = dataset.dataset(lake.path, format="parquet", partitioning="hive").to_table(["body"])
    return Counter(int(body) for body in table["body"].to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, 20])
def test_kills_at_any_instant_leave_each_event_once(
    stage: Stage, spark: SparkSession, tmp_path: Path, kills: int
) -> None:
    topic, lake = stage.topic(f"lake/orders-{kills}", subscriber="archive"), Lake(tmp_path / "lake")
    stage.publish(topic, [b"%d" % number for number in range(1500)], {"price": list(range(1500))})
    for seed in range(kills):
        archive = Archive(stage, lake, topic, "--batch", "150")
        archive.until_it_writes(lake, topic)
        pause(random.Random(seed).random())
        archive.kill()
        assert set(numbers(lake).values()) <= {1}
    options = ("--topic", topic, "--lake", lake.path, "--url", stage.url_of_all, "--batch", "150")
    done = in_process("pipeline", "archive", *options, "--master", "local[2]")  # in the session that is there
    assert done.returncode == 0, done.stderr
    assert topic in done.stdout
    assert "1,500" in done.stdout
    assert numbers(lake) == Counter(range(1500))
    assert len(lake.files(topic)) < 8  # compacted
    until(lambda: stage.lags(topic)["archive"] == 0)

    rows = spark.read.parquet(str(lake.path)).where("attributes['price'] = '7'").collect()
    assert [(bytes(row.body), row.topic, row.publisher, row.types) for row in rows] == [
        (b"7", topic, "shop", "price bigint")
    ]


def pause(seconds: float) -> None:
    """Somewhere in the middle: the kill comes when it comes."""
    subprocess.run(["sleep", f"{seconds:.2f}"], check=True)


def test_a_lake_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    foreign = lake.path / "topic=x" / "day=2026-11-16" / "other.parquet"
    foreign.parent.mkdir(parents=True)
    parquet.write_table(pa.table({"a": [1]}), foreign)
    with pytest.raises(LakeError, match=r"has a foreign file, topic=x/day=2026-11-16/other.parquet"):
        check(lake)
    foreign.rename(lake.path / "notes.txt")
    with pytest.raises(LakeError, match=r"has a foreign file, notes.txt"):
        check(lake)


def test_one_archive_writes_at_a_time(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    code = f"from stentor.storage.lake import lake_of; lake_of({str(lake.path)!r}).lock().__enter__()"
    with lake.lock():
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "another archive writes to the lake" in other.stderr


def test_an_archive_whose_memory_is_gone_does_not_begin_anew(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    there = lake.day("orders", date(2026, 11, 16)) / "000000000000.parquet"
    there.parent.mkdir(parents=True)
    parquet.write_table(pa.table({"a": [1]}).replace_schema_metadata(MARK), there)
    with pytest.raises(LakeError, match="says how far its archive is, is gone"):
        check(lake)
