"""A driver: copies a topic to another one as a stream; no task of its first batch ends before the test says so."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from tests.spark.standalone import FRUGAL, ROOT, until

import stentor.spark

TASKS = 4  # of a batch


def main(master: str, folder: str, url: str, topic: str, to: str, batch: str) -> None:
    settings = {
        "spark.driver.extraJavaOptions": FRUGAL,
        "spark.executor.extraJavaOptions": FRUGAL,
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # or one worker might get all the first tasks
        "spark.cores.max": "2",
    }
    spark = stentor.spark.session(master, "copying", **settings)

    def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import stentor

        yield from batches
        context = TaskContext.get()
        assert context is not None
        mark = Path(folder) / f"started-{context.partitionId()}-{context.attemptNumber()}-{os.getppid()}"
        mark.write_text(stentor.__file__)
        until((Path(folder) / "go").exists, "nobody said go")

    reader = spark.readStream.format("stentor").option("url", url).option("topic", topic)
    reader = reader.option("from", "beginning").option("maxEventsPerTrigger", batch).option("partitions", TASKS)
    events = reader.load()
    writer = events.mapInArrow(held, events.schema).writeStream.format("stentor").option("url", url)
    writer = writer.option("topic", to).option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
