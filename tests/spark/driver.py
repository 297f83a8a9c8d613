"""What runs on the cluster: a session, and tasks that do not end before the test says so."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from tests.spark.standalone import FRUGAL, ROOT, until

import stentor.spark

TASKS = 4  # of a stage
Map = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def session(master: str) -> SparkSession:
    settings = {
        "spark.driver.extraJavaOptions": FRUGAL,
        "spark.executor.extraJavaOptions": FRUGAL,
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # or one worker might get all the first tasks
        "spark.cores.max": "2",
        # few tasks, but not one: it would be on one worker
        "spark.sql.shuffle.partitions": str(TASKS),
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    return stentor.spark.session(master, "tests", **settings)


def held(folder: Path) -> Map:
    """Passes on what it gets, leaves a mark of its task, and waits for the file `go`."""

    def hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import stentor

        yield from batches
        context = TaskContext.get()
        assert context is not None
        mark = folder / f"started-{context.partitionId()}-{context.attemptNumber()}-{os.getppid()}"
        mark.write_text(stentor.__file__)
        until((folder / "go").exists, "nobody said go")

    return hold
