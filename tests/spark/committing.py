"""What Spark does with a sink, without Spark: stages and commits batches, to be killed at any instant.

Like Spark, it stages anew whatever it has not written down as committed; the rows are others each time.
"""

import random
import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructType

from stentor.pipeline.options import write_options
from stentor.pipeline.sink.sink import StreamWriter

TASKS = 2


def rows(batch: int, task: int, count: int) -> pa.RecordBatch:
    life = random.randbytes(8).hex()
    bodies = [f"{batch}/{task}/{number} {life}".encode().ljust(200) for number in range(count)]
    return pa.RecordBatch.from_pydict({"body": pa.array(bodies, pa.binary())})


def main(url: str, topic: str, checkpoint: str, batches: str, count: str) -> None:
    schema = StructType().add("body", BinaryType())
    options = write_options({"url": url, "topic": topic, "checkpointLocation": checkpoint})
    commits = Path(checkpoint) / "commits"
    commits.mkdir(exist_ok=True)
    for batch in range(int(batches)):
        if (commits / str(batch)).exists():
            continue
        writer = StreamWriter(options, schema, overwrite=False)
        messages = [writer.write(iter([rows(batch, task, int(count))])) for task in range(TASKS)]
        StreamWriter(options, schema, overwrite=False).commit(list(messages), batch)
        (commits / str(batch)).touch()


if __name__ == "__main__":
    main(*sys.argv[1:])
