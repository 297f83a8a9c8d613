"""The archive: moves stored events into a lake of Parquet files, so that repositories may forget them.

It is a named subscriber: repositories keep what it has not archived. A batch of the stream becomes one file for each
topic and day, under a name that is a function of the batch, so that a batch that is repeated replaces itself.
"""

import json
import os
from collections.abc import Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from stentor.model.stored.position import Position
from stentor.pipeline.options import read_options
from stentor.pipeline.source.blocking_stored_reader import BlockingStoredReader
from stentor.storage.lake import MARK, SUFFIX, Lake, LakeError

NAME: Final = "archive"  # the subscriber that it is, if no other name is given
_MOST: Final = 200_000  # events in a batch, so that a day's part of it fits into a task's memory
_FEW: Final = 8  # files of a day that are not worth compacting
_LARGE: Final = 256 << 20  # bytes of a file that is not compacted any more
_GROUP: Final = 1 << 16  # rows of a row group
_ORDER: Final = [("origin", "ascending"), ("incarnation", "ascending"), ("catenation", "ascending")]
_REPORT: Final = "topic string, day date, events bigint"


def archive(
    spark: SparkSession, lake: Lake, options: dict[str, str], trigger: dict[str, Any], most: int = _MOST
) -> StreamingQuery:
    """Start the stream; the lake must be locked until it has ended."""
    check(lake)
    lake.sweep()
    given = {"from": "beginning", "subscriber": NAME, "maxEventsPerTrigger": str(most), **options, "origin": "true"}
    events = spark.readStream.format("stentor").options(**given).load()
    writer = events.writeStream.foreachBatch(partial(_archive, lake))
    return writer.option("checkpointLocation", str(_checkpoint(lake))).trigger(**trigger).start()


def check(lake: Lake) -> None:
    """Refuse a lake that was filled by somebody else, or whose archive has forgotten what it has done."""
    lake.check()
    if not _checkpoint(lake).exists() and any(lake.files(topic) for topic in lake.topics()):
        raise LakeError(
            f"the lake {lake.path} has events, but {lake.work}, which says how far its archive is, is gone: "
            "bring it back, or begin another lake"
        )


def settle(lake: Lake, options: dict[str, str]) -> None:
    """Acknowledge all that is archived: Spark does so for a batch only when the next one begins."""
    checkpoint = _checkpoint(lake)
    done = [int(path.name) for path in (checkpoint / "commits").glob("*") if path.name.isdigit()]
    if not done:
        return
    offset = json.loads((checkpoint / "offsets" / str(max(done))).read_text().splitlines()[-1])
    with BlockingStoredReader(read_options({"subscriber": NAME, **options}, streaming=True)) as reader:
        for topic, entry in offset.items():
            reader.acknowledge(topic, Position.from_text(entry["read"]))


def _checkpoint(lake: Lake) -> Path:
    return lake.work / "checkpoint"


def _archive(lake: Lake, events: DataFrame, batch: int) -> None:
    by_day = events.withColumn("day", sql.to_date("time")).groupBy("topic", "day")

    def write(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        return _write(lake, batch, key, table)

    by_day.applyInArrow(write, _REPORT).agg(sql.sum("events")).collect()
    compact(events.sparkSession, lake, batch)


def _write(lake: Lake, batch: int, key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
    """One topic and day of a batch."""
    topic, day = (part.as_py() for part in key)
    draft = lake.draft(f"{batch}")
    _save(table.drop_columns(["topic", "day"]).sort_by(_ORDER), draft)
    lake.publish(draft, lake.day(topic, day) / _name(batch))
    return pa.table({"topic": [topic], "day": [day], "events": [len(table)]})


def _name(batch: int) -> str:
    return f"{batch:012d}{SUFFIX}"


def _save(table: pa.Table, path: Path) -> None:
    with path.open("wb") as file:
        parquet.write_table(table.replace_schema_metadata(MARK), file, compression="zstd", row_group_size=_GROUP)
        file.flush()
        os.fsync(file.fileno())


# ---- compacting


def compact(spark: SparkSession, lake: Lake, batch: int) -> None:
    """Of days with many files, one is made of those of earlier batches: these are not repeated any more."""
    days = [
        (topic, path.name.removeprefix("day="))
        for topic in lake.topics()
        for path in sorted(lake.topic(topic).iterdir())
        if len(_mergeable(path, batch)) >= _FEW
    ]
    if days:
        frame = spark.createDataFrame(days, "topic string, day string").repartition(len(days))
        frame.mapInArrow(partial(_compact, lake, batch), "events bigint").agg(sql.sum("events")).collect()


def _mergeable(day: Path, batch: int) -> list[Path]:
    files = sorted(day.glob(f"*{SUFFIX}"))
    return [path for path in files if int(path.stem) < batch and path.stat().st_size < _LARGE]


def _compact(lake: Lake, batch: int, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for part in rows:
        for row in part.to_pylist():
            yield pa.RecordBatch.from_pydict({"events": [_merge(lake, row["topic"], row["day"], batch)]})


def _merge(lake: Lake, topic: str, day: str, batch: int) -> int:
    """Make the directory of a day again beside the lake, then exchange both at once."""
    target = lake.day(topic, date.fromisoformat(day))
    with lake.turn():
        merged: list[Path] = []
        size = 0
        for path in _mergeable(target, batch):
            merged.append(path)
            size += path.stat().st_size
            if size > _LARGE:
                break
        if len(merged) < 2:
            return 0  # somebody has done it
        folder = lake.draft("compact")
        folder.mkdir()
        table = pa.concat_tables([parquet.read_table(path, partitioning=None) for path in merged]).sort_by(_ORDER)
        # under a name that was there: who has listed the old ones finds all of it here, or misses one of them aloud
        _save(table, folder / merged[0].name)
        for path in target.glob(f"*{SUFFIX}"):
            if path not in merged:
                (folder / path.name).hardlink_to(path)
        lake.exchange(folder, target)
    return len(table)
