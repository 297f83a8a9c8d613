"""A program that writes a stream of files to a topic, to be killed while it does: `python -m tests.spark.writing`.

Some tasks fail, and are tried again with other rows.
"""

import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from tests.spark.standalone import FRUGAL

import stentor.spark


def unlucky(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A first attempt fails when all of its rows are on their way."""
    yield from batches
    context = TaskContext.get()
    if context is not None and context.partitionId() == 0 and context.attemptNumber() == 0:
        raise RuntimeError("this attempt is lost")


def write(spark: SparkSession, files: str, url: str, topic: str, checkpoint: str, *, fail: bool) -> None:
    """All files that are there, each a batch; first attempts fail only where Spark makes another one."""
    # whoever computes a row again gets another one
    body = sql.concat_ws(" ", "value", sql.expr("uuid()"))
    rows = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(files).select(body.alias("body"))
    rows = rows.repartition(2).mapInArrow(unlucky, rows.schema) if fail else rows
    writer = rows.writeStream.format("stentor").option("url", url).option("topic", topic)
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def main(files: str, url: str, topic: str, checkpoint: str) -> None:
    conf = {"spark.driver.extraJavaOptions": FRUGAL, "spark.driver.memory": "1g"}
    spark = stentor.spark.session("local[2,4]", "writing", **conf)
    write(spark, files, url, topic, checkpoint, fail=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
