"""A driver: counts rows with as many tasks as are wanted, none of which ends before the test says so."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from tests.spark.standalone import FRUGAL, ROOT, until

import stentor.spark

TASKS, ROWS = 8, 8000


def main(master: str, folder: str) -> None:
    settings = {
        "spark.driver.extraJavaOptions": FRUGAL,
        "spark.executor.extraJavaOptions": FRUGAL,
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # or one worker might get all the first tasks
        "spark.cores.max": "2",
    }
    spark = stentor.spark.session(master, "counting", **settings)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import stentor

        context = TaskContext.get()
        assert context is not None
        (Path(folder) / f"started-{context.partitionId()}-{context.attemptNumber()}-{os.getppid()}").touch()
        until((Path(folder) / "go").exists, "nobody said go")
        for batch in batches:
            yield pa.record_batch({"id": batch["id"], "place": [stentor.__file__] * batch.num_rows})

    frame = spark.range(0, ROWS, 1, TASKS).mapInArrow(work, "id long, place string")
    for row in frame.selectExpr("count(*) n", "count(distinct id) d", "sum(id) s", "max(place) place").collect():
        print(row.n, row.d, row.s, row.place)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
