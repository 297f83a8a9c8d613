"""A program that writes a stream of files to a topic, to be killed while it does: `python -m tests.spark.writing`.

Some tasks fail, and are tried again with other rows.
"""

import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as sql
from tests.spark.standalone import FRUGAL

import stentor.spark


def unlucky(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A first attempt fails when all of its rows are on their way."""
    yield from batches
    context = TaskContext.get()
    if context is not None and context.partitionId() == 0 and context.attemptNumber() == 0:
        raise RuntimeError("this attempt is lost")


def main(files: str, url: str, topic: str, checkpoint: str) -> None:
    conf = {"spark.driver.extraJavaOptions": FRUGAL, "spark.driver.memory": "1g"}
    spark = stentor.spark.session("local[2,4]", "writing", **conf)
    # whoever computes a row again gets another one
    body = sql.concat_ws(" ", "value", sql.expr("uuid()"))
    rows = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(files).select(body.alias("body"))
    query = (
        rows.repartition(2)
        .mapInArrow(unlucky, rows.schema)
        .writeStream.format("stentor")
        .option("url", url)
        .option("topic", topic)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
