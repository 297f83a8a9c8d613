"""The sink beside the native client, and beside a Python sink in the same Spark that throws its rows away.

`python -m benchmarks.spark.sink`: rows of 200 bytes, in turn to each of the three; a repository stores them durably.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

import stentor.spark
from benchmarks.durable.stentor import OverSegments
from stentor.client import connect
from stentor.registration import Registrar

SIZE, PORTION = 200, 10_000  # bytes of a body; events that the native client publishes at once
GOAL = 0.5
TOPIC = "bench/sink"

Row = tuple[str, float, str]  # what, events a second, and how that compares


class Abyss(DataSource):
    """A sink that looks at every row and keeps none."""

    @classmethod
    def name(cls) -> str:
        return "abyss"

    def writer(self, schema: StructType, overwrite: bool) -> "AbyssWriter":  # noqa: ARG002
        return AbyssWriter()


class AbyssWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class Fabric(OverSegments):
    """With a topic for Spark."""

    async def _enrol(self) -> None:
        async with connect(self._url) as fabric, Registrar(fabric) as registrar:
            await registrar.create(TOPIC, ("r1",))
            for name in ("native", "spark"):
                await registrar.grant(TOPIC, "publisher", name)

    @property
    def url(self) -> str:
        return self._url

    def native(self, count: int) -> None:
        """Returns when all is stored."""

        async def publish() -> None:
            bodies = [b"x" * SIZE] * PORTION
            async with connect(self._url) as fabric, fabric.publisher(TOPIC, name="native") as publisher:
                for _ in range(count // PORTION):
                    await publisher.send_many(bodies)
                await publisher.flush()

        asyncio.run(publish())


def _rows(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(0, count, 1, 2).select(
        sql.lpad(sql.col("id").cast("string"), SIZE, "x").cast("binary").alias("body")
    )


def _seconds(work: Callable[[], None]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main(rounds: int = 3, count: int = 500_000) -> list[Row]:
    """Rates as medians over the rounds, in which the three take turns."""
    spark = stentor.spark.session("local[2]", "bench-sink")
    spark.dataSource.register(Abyss)
    fabric = Fabric()
    with tempfile.TemporaryDirectory() as folder:
        fabric.prepare(Path(folder), install=False)
        fabric.start(Path(folder) / "fabric")
        try:

            def save(kind: str, rows: int) -> None:
                writer = _rows(spark, rows).write.format(kind).mode("append")
                writer.options(url=fabric.url, topic=TOPIC, staging=folder).save()

            contestants: dict[str, Callable[[int], None]] = {
                "native client, durable": fabric.native,
                "a Python sink that keeps nothing": lambda rows: save("abyss", rows),
                "the sink": lambda rows: save("stentor", rows),
            }
            taken: dict[str, list[float]] = {name: [] for name in contestants}
            for work in contestants.values():
                work(2 * PORTION)  # Java and the workers are warm
            for _ in range(rounds):
                for name, work in contestants.items():
                    taken[name].append(_seconds(lambda work=work: work(count)))  # type: ignore[misc]
        finally:
            fabric.stop()
    rates = {name: count / statistics.median(each) for name, each in taken.items()}
    base = min(rate for name, rate in rates.items() if name != "the sink")
    ratio = rates["the sink"] / base
    verdict = f"{ratio:.0%} of the lesser, goal {GOAL:.0%}: {'met' if ratio >= GOAL else 'missed'}"
    return [(name, rate, verdict if name == "the sink" else "") for name, rate in rates.items()]


if __name__ == "__main__":
    for what, rate, comparison in main(*map(int, sys.argv[1:])):
        print(f"{what:36} {rate / 1e3:8,.1f} k/s  {comparison}")
