"""The sink, on real Spark and a fabric of real processes: every row is there once, whatever dies and when."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType
from tests.end_to_end.command import PATIENCE
from tests.spark.stage import Stage, everything
from tests.spark.standalone import ROOT
from tests.spark.writing import write as write_files

from stentor.model.errors import Unreachable
from stentor.pipeline.options import write_options
from stentor.pipeline.sink.sink import BatchWriter

pytestmark = pytest.mark.req("SP-01")


def write(frame: DataFrame, stage: Stage, topic: str, mode: str = "append", **options: str) -> None:
    writer = frame.write.format("stentor").option("url", stage.url_of_all).mode(mode)
    writer.options(**({"topic": topic} if topic else {}), **options).save()


def test_columns_become_attributes_and_come_back(spark: SparkSession, stage: Stage) -> None:
    topic = stage.topic("sink/columns", publisher="spark")
    frame = spark.range(1000).select(
        sql.col("id").cast("string").alias("body"),
        (sql.col("id") % 3 == 0).alias("third"),
        (sql.col("id") % 100).cast("tinyint").alias("small"),
        (sql.col("id") / 4).cast("float").alias("quarter"),
        sql.when(sql.col("id") % 2 == 0, sql.concat(sql.lit("ü"), "id")).alias("text"),
        sql.current_timestamp().alias("time"),
        sql.lit("nobody").alias("publisher"),
    )
    write(frame, stage, topic)
    kinds = "third boolean, small bigint, quarter double, text string"
    reader = spark.read.format("stentor").option("url", stage.url_of_all).option("topic", topic)
    rows = sorted(reader.option("attributes", kinds).load().collect(), key=lambda row: int(row.body))
    assert [int(row.body) for row in rows] == list(range(1000))
    assert {row.publisher for row in rows} == {"spark"}
    assert sorted(row.catenation for row in rows) == list(range(1, 1001))
    seven, eight = rows[7], rows[8]
    assert (seven.third, seven.small, seven.quarter, seven.text) == (False, 7, 1.75, None)
    assert eight.text == "ü8"

    copies = stage.topic("sink/copies", publisher="spark")
    write(reader.load(), stage, copies)  # as it comes from a topic, with its map
    again = spark.read.format("stentor").option("url", stage.url_of_all).option("topic", copies).load()
    found = {bytes(row.body): row.attributes for row in again.collect()}
    assert len(found) == 1000
    assert found[b"8"] == {"third": "false", "small": "8", "quarter": "2", "text": "ü8"}
    assert "text" not in found[b"7"]


def test_rows_may_name_their_topics(spark: SparkSession, stage: Stage) -> None:
    topics = [stage.topic(f"sink/rows/{name}", publisher="spark") for name in ("a", "b", "c")]
    names = sql.concat(
        sql.lit("sink/rows/"), sql.element_at(sql.array(*map(sql.lit, "abc")), (sql.col("id") % 3 + 1).cast("int"))
    )
    write(spark.range(300).select(names.alias("topic"), sql.col("id").cast("string").alias("body")), stage, "")
    for place, topic in enumerate(topics):
        assert sorted(map(int, everything(stage, topic, 100))) == list(range(place, 300, 3))


def say(folder: Path, first: int, last: int, lines: int = 50) -> None:
    folder.mkdir(exist_ok=True)
    for place in range(first, last):
        (folder / f"{place}.txt").write_text("\n".join(f"{place}-{line}" for line in range(lines)))


def start(spark: SparkSession, stage: Stage, folder: Path, topic: str, checkpoint: Path, **options: str) -> None:
    """All files that are there, each a batch."""
    rows = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(folder))
    writer = rows.select(sql.col("value").alias("body")).writeStream.format("stentor").trigger(availableNow=True)
    writer = writer.option("url", stage.url_of_all).option("topic", topic).option("checkpointLocation", str(checkpoint))
    writer.options(**options).start().awaitTermination()


def test_a_stream_goes_on_where_it_was(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    topic = stage.topic("sink/stream", publisher="spark")
    for first in (0, 2):
        say(tmp_path / "files", first, first + 2)
        start(spark, stage, tmp_path / "files", topic, tmp_path / "checkpoint", staging=str(tmp_path / "staging"))
    found = [body.decode() for body in everything(stage, topic, 200)]
    assert sorted(found) == sorted(f"{place}-{line}" for place in range(4) for line in range(50))
    (staging,) = (tmp_path / "staging").iterdir()
    assert sorted(each.name for each in staging.iterdir()) == [f"{3:020d}.done", "query.json", "rows"]
    assert list((staging / "rows").iterdir()) == []


def test_a_task_that_is_computed_again_with_other_rows_counts_once(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    """The task fails after it has staged its rows; another attempt has others."""
    topic = stage.topic("sink/retried", publisher="spark")
    mark = tmp_path / "mark"

    def fail_once(batches):  # type: ignore[no-untyped-def]
        import uuid

        import pyarrow as pa

        for batch in batches:
            life = uuid.uuid4().hex
            yield pa.RecordBatch.from_pydict(
                {"body": [f"{each} {life}".encode() for each in batch.column(0).to_pylist()]}
            )
        if not mark.exists():
            mark.touch()
            raise RuntimeError("this attempt is lost")

    # One task: of two, the second would be cancelled with the job that the first one fails, before or after its mark.
    frame = spark.range(0, 40_000, 1, 1).mapInArrow(fail_once, "body binary")
    with pytest.raises(PySparkException, match="this attempt is lost"):  # a local master does not try again
        write(frame, stage, topic, staging=str(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["mark"], "nothing is left behind"
    write(frame, stage, topic, staging=str(tmp_path))
    found = [body.split() for body in everything(stage, topic, 40_000)]
    assert sorted(int(number) for number, _ in found) == list(range(40_000))


# ---- kill -9


class Victim:
    """A process and its children, killed when something is to be seen, until one comes to its end."""

    def __init__(self, log: Path, module: str, *arguments: str) -> None:
        self._log, self._command = log, [sys.executable, "-m", module, *arguments]

    def live(self, until: Callable[[], bool]) -> bool:
        """Whether it came to its end before it was killed."""
        with self._log.open("wb") as log:
            process = subprocess.Popen(self._command, cwd=ROOT, start_new_session=True, stdout=log, stderr=log)
        try:
            end = time.monotonic() + 3 * PATIENCE
            while process.poll() is None and not until():
                time.sleep(0.0005)
                assert time.monotonic() < end, self._log.read_text()
            if process.poll() is None:
                return False
            assert process.returncode == 0, self._log.read_text()
            return True
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def seen(staging: Path, pattern: str, known: set[str]) -> Callable[[], bool]:
    """Whether a file has come that was not there before."""
    known |= {each.name for each in staging.glob(pattern)}
    return lambda: any(each.name not in known for each in staging.glob(pattern))


def kill_committers(stage: Stage, tmp_path: Path, topic: str, kills: int) -> None:
    """Batches are staged and committed by processes that die at moments of all kinds."""
    batches, count = 12, 2000
    stage.topic(topic, publisher="spark")
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    arguments = (stage.url_of_all, topic, str(checkpoint), str(batches), str(count))
    victim = Victim(tmp_path / "log", "tests.spark.committing", *arguments)
    draw = random.Random(7)
    staging = checkpoint / "stentor"
    ended = False
    for life in range(kills):
        pattern = ("*.begun", "*.done", "rows/*.arrow", "*.begun")[life % 4]
        look, moment = seen(staging, pattern, set()), [0.0]

        def due(look: Callable[[], bool] = look, moment: list[float] = moment) -> bool:
            if not moment[0] and look():
                moment[0] = time.monotonic() + draw.random() * 0.15
            return bool(moment[0]) and time.monotonic() >= moment[0]

        ended = victim.live(due)
        if ended:
            break
    assert ended or victim.live(lambda: False)
    found = everything(stage, topic, batches * 2 * count)
    numbers = Counter(body.split()[0].decode() for body in found)
    assert len(numbers) == batches * 2 * count, "no gap"
    assert set(numbers.values()) == {1}, "nothing twice"
    lives = {(body.split()[0].rpartition(b"/")[0], body.split()[1]) for body in found}
    assert len(lives) == batches * 2, "a task's rows are of one attempt"
    assert list((staging / "rows").iterdir()) == []


def test_killed_at_any_instant_every_row_is_there_once(stage: Stage, tmp_path: Path) -> None:
    kill_committers(stage, tmp_path, "sink/killed", 8)


@pytest.mark.slow
def test_killed_very_often_every_row_is_there_once(stage: Stage, tmp_path: Path) -> None:
    kill_committers(stage, tmp_path, "sink/killed/often", 40)


def kill_drivers(
    spark: SparkSession, stage: Stage, tmp_path: Path, topic: str, files: int, patterns: list[str]
) -> None:
    """The last life is in the session that is there, since another one takes long to start."""
    stage.topic(topic, publisher="spark")
    say(tmp_path / "files", 0, files, 500)
    checkpoint = tmp_path / "checkpoint"
    arguments = (str(tmp_path / "files"), stage.url_of_all, topic, str(checkpoint))
    victim = Victim(tmp_path / "log", "tests.spark.writing", *arguments)
    for pattern in patterns:
        assert not victim.live(seen(checkpoint / "stentor", pattern, set())), "it was to be killed"
    write_files(spark, *arguments, fail=False)
    found = Counter(body.split()[0].decode() for body in everything(stage, topic, files * 500))
    assert found == Counter(f"{place}-{line}" for place in range(files) for line in range(500))


def test_a_whole_driver_is_killed(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    kill_drivers(spark, stage, tmp_path, "sink/driver", 2, ["*.begun"])


@pytest.mark.slow
def test_whole_drivers_are_killed_again_and_again(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    patterns = ["*.begun", "rows/*.arrow", "*.done", "../commits/*", "*.begun"]
    kill_drivers(spark, stage, tmp_path, "sink/drivers", 8, patterns)


# ---- what can be wrong


def complaint(frame: DataFrame, stage: Stage, **options: str) -> str:
    with pytest.raises(PySparkException) as error:
        write(frame, stage, **{"topic": "", **options})
    return str(error.value)


def test_what_is_wrong_with_a_batch_is_said_with_its_option(spark: SparkSession, stage: Stage) -> None:
    topic = stage.topic("sink/wrong", publisher="spark")
    body = spark.range(3).select(sql.col("id").cast("string").alias("body"))
    assert 'column "body"' in complaint(spark.range(3), stage, topic=topic)
    assert 'option "topic"' in complaint(body, stage)
    assert 'option "topic": no repository has' in complaint(body, stage, topic="sink/wrang")
    assert 'option "publisher": ' in complaint(body, stage, topic=topic, publisher="stranger")
    assert 'column "body": one has' in complaint(spark.sql("select repeat('x', 2000000) body"), stage, topic=topic)
    assert 'mode "overwrite"' in complaint(body, stage, topic=topic, mode="overwrite")


def test_a_fabric_that_is_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stentor.pipeline.sink.publication._CONNECT", 0.2)
    options = write_options({"url": "stentor://127.0.0.1:1", "topic": "x"})
    with pytest.raises(Unreachable, match='option "url": no broker at'):
        BatchWriter(options, StructType().add("body", "binary"), overwrite=False)


def test_a_checkpoint_belongs_to_one_query(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    topic, other = stage.topic("sink/mine", publisher="spark"), stage.topic("sink/other", publisher="spark")
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"
    say(files, 0, 1)
    start(spark, stage, files, topic, checkpoint)
    say(files, 1, 2)
    shutil.copytree(checkpoint, tmp_path / "copy")
    start(spark, stage, files, topic, checkpoint)
    say(files, 2, 3)
    with pytest.raises(StreamingQueryException, match='option "topic": the checkpoint is that of a query with'):
        start(spark, stage, files, other, checkpoint)
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="it is an old copy"):
            start(spark, stage, files, topic, tmp_path / "copy")
    rows = spark.readStream.format("text").load(str(files)).withColumnRenamed("value", "body").writeStream
    with pytest.raises(PySparkException, match="checkpointLocation"):
        rows.format("stentor").option("topic", topic).start().awaitTermination()
    start(spark, stage, files, topic, checkpoint)
    assert len(everything(stage, topic, 150)) == 150
