"""Copies a topic to another one as a stream; no task of its first batch ends before the test says so."""

from pathlib import Path

from pyspark.sql import SparkSession
from tests.spark.driver import TASKS, held


def copy(spark: SparkSession, folder: Path, url: str, topic: str, to: str, batch: str) -> None:
    reader = spark.readStream.format("stentor").option("url", url).option("topic", topic)
    reader = reader.option("from", "beginning").option("maxEventsPerTrigger", batch).option("partitions", TASKS)
    events = reader.load()
    writer = events.mapInArrow(held(folder), events.schema).writeStream.format("stentor").option("url", url)
    writer = writer.option("topic", to).option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
