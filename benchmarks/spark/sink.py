"""The sink beside the native client, and beside a Python sink in the same Spark that throws its rows away.

Rows of 200 bytes, in turn to each of the three; a repository stores them durably.
"""

import asyncio
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from benchmarks.durable.stentor import OverSegments
from benchmarks.spark.bench import Bench
from stentor.admin.topics import Registrar
from stentor.client.fabric import connect

SIZE, PORTION = 200, 10_000  # bytes of a body; events that the native client publishes at once
TOPIC = "bench/sink"
SINK = "the sink"
NATIVE, NOTHING, OURS = "native client, durable", "a Python sink that keeps nothing", "stentor"


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


def measure(bench: Bench) -> None:
    spark, count = bench.spark, bench.sizes["sink"] // PORTION * PORTION
    bench.register_apart(Abyss)
    fabric = Fabric()
    fabric.prepare(bench.folder, install=False)
    try:
        fabric.start(bench.folder / "sink")

        def save(kind: str) -> None:
            writer = _rows(spark, count).write.format(kind).mode("append")
            writer.options(url=fabric.url, topic=TOPIC, staging=str(bench.folder / "staging")).save()

        bench.compare(
            SINK,
            count,
            {NATIVE: lambda: fabric.native(count), NOTHING: lambda: save("abyss"), OURS: lambda: save("stentor")},
        )
    finally:
        fabric.stop()
