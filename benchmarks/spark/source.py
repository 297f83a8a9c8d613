"""The source, beside a Python data source in the same Spark that only reads the same rows from Arrow files."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.backlog import fill, until_ready
from benchmarks.durable.stentor import OverSegments
from benchmarks.process import Server
from benchmarks.spark.bench import Bench
from stentor.admin.topics import Registrar
from stentor.client.fabric import connect
from stentor.model.attribute import schema_of as kinds_of
from stentor.model.communication import end_name
from stentor.model.ids import CatenationNumber, Incarnation, publisher_id, topic_id
from stentor.model.stored.record import Record, RecordHeader, RecordKind
from stentor.pipeline.options import read_options
from stentor.pipeline.source.columns import parse_attributes, schema_of
from stentor.pipeline.source.source import BatchReader
from stentor.protocols.delivery.repository.storing.event_log import digest_of
from stentor.wire.block import Block, Origin, encode

OURS, FILES = "stentor", "Arrow files"
ATTRIBUTES = "a map of attributes"
TYPED = "typed attributes"
WHERE = "where takes 10 %"
SINGLE = "a record per event"

RECORDS, LONE = "bench/records", "bench/lone"  # topics: records of a thousand events, and of one
PUBLISHER, SUBSCRIBER, REPOSITORY = "shop", "spark", "r1"
BODY, RECORD = 200, 1000
COLUMNS = "carrier string, delay double, seats bigint"
TAKEN = "seats < 40"  # of 400
SCHEMA = kinds_of({"carrier": "", "delay": 0.0, "seats": 0})
_CARRIERS = [f"C{number}" for number in range(50)]


def records(topic: str, events: int, size: int) -> Iterator[Record]:
    """What a publisher had stored, as the repository would have written it."""
    sender = publisher_id("", end_name("publisher", PUBLISHER, topic))
    chance = np.random.default_rng(1)
    for first in range(1, events + 1, size):
        now = 1_793_491_200_000_000_000 + first * 1_000_000
        columns = {
            "carrier": [_CARRIERS[code] for code in chance.integers(0, len(_CARRIERS), size).tolist()],
            "delay": (chance.integers(0, 400, size) / 4).tolist(),
            "seats": chance.integers(0, 400, size).tolist(),
        }
        bodies = [b"%0*d" % (BODY, number) for number in range(first, first + size)]
        origin = Origin(topic_id(topic), sender, Incarnation(1), CatenationNumber(first), now)
        block = Block(encode(origin, SCHEMA, [columns[name] for name in SCHEMA.names], bodies), SCHEMA)
        line = RecordHeader(0, size, sender, 1, first, RecordKind.EVENTS, digest_of(block))
        yield Record(line, bytes(block.frame), {}, now)


class Stored(OverSegments):
    """A broker and a repository that has the events."""

    def __init__(self, counts: dict[str, tuple[int, int]]) -> None:
        """By topic: how many events, and how many of them are one record."""
        super().__init__()
        self._counts = counts

    @property
    def url(self) -> str:
        return self._url

    def start(self, directory: Path) -> None:
        super().start(directory)
        self.stop()
        for topic, (events, size) in self._counts.items():
            fill(f"{self.storage}:{directory / 'ledgers'}", REPOSITORY, topic, records(topic, events, size), SCHEMA)
        self.server = Server(self.command(directory), directory / "log.txt", self.environment(directory))
        self.server.wait_for(self.port)
        for topic in self._counts:
            asyncio.run(until_ready(self._url, topic))

    async def _enrol(self) -> None:
        async with connect(self._url) as fabric, Registrar(fabric) as registrar:
            for topic in self._counts:
                await registrar.create(topic, (REPOSITORY,))
                await registrar.grant(topic, "publisher", PUBLISHER)
                await registrar.grant(topic, "subscriber", SUBSCRIBER)
                async with fabric.publisher(topic, name=PUBLISHER):
                    pass  # its name is known now


class ArrowFiles(DataSource):
    """Every file of a folder is a partition; its batches are what they are."""

    @classmethod
    def name(cls) -> str:
        return "arrow-files"

    def schema(self) -> str:
        return self.options["ddl"]

    def reader(self, schema: StructType) -> "ArrowReader":  # noqa: ARG002
        return ArrowReader(self.options["path"])


class ArrowReader(DataSourceReader):
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(str(path)) for path in sorted(Path(self._folder).iterdir())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(partition.value) as source, pa.ipc.open_file(source) as file:
            for number in range(file.num_record_batches):
                yield file.get_batch(number)


def save(folder: Path, options: dict[str, str]) -> int:
    """The rows that the source has with these options, a file for each of its partitions."""
    folder.mkdir()
    schema = schema_of(parse_attributes(options["attributes"]) if "attributes" in options else ())
    reader = BatchReader(read_options(options, streaming=False), schema)
    events = 0
    for number, partition in enumerate(reader.partitions()):
        with pa.OSFile(str(folder / f"{number:04}"), "wb") as sink, pa.ipc.new_file(sink, schema) as file:
            for batch in reader.read(partition):
                file.write_batch(batch)
                events += batch.num_rows
    return events


def _drain(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def measure(bench: Bench) -> None:
    spark, events = bench.spark, bench.sizes["source"]
    lone = events // 10
    fabric = Stored({RECORDS: (events, RECORD), LONE: (lone, 1)})
    fabric.prepare(bench.folder, install=False)
    try:
        fabric.start(bench.folder / "stored")
        bench.register_apart(ArrowFiles)
        numbers = itertools.count()

        def ours(**options: str) -> DataFrame:
            return spark.read.format("stentor").options(url=fabric.url, **options).load()

        def files(**options: str) -> DataFrame:
            folder = bench.folder / f"files{next(numbers)}"
            stored = save(folder, {"url": fabric.url, **options})
            assert stored == (lone if options["topic"] == LONE else events), f"{stored} events are there"
            ddl = ", ".join(f"`{name}` {kind}" for name, kind in ours(**options).dtypes)
            return spark.read.format("arrow-files").options(ddl=ddl).load(str(folder))

        for workload, topic, more in (
            (ATTRIBUTES, RECORDS, {}),
            (TYPED, RECORDS, {"attributes": COLUMNS}),
            (SINGLE, LONE, {}),
        ):
            count = lone if topic == LONE else events
            mine, theirs = ours(topic=topic, **more), files(topic=topic, **more)
            bench.compare(
                workload,
                count,
                {FILES: lambda theirs=theirs: _drain(theirs), OURS: lambda mine=mine: _drain(mine)},  # type: ignore[misc]
            )
        taken = ours(topic=RECORDS, attributes=COLUMNS, where=TAKEN)
        chosen = files(topic=RECORDS, attributes=COLUMNS).where(TAKEN)
        assert taken.count() == chosen.count(), "the same events are taken"
        bench.compare(WHERE, events, {FILES: lambda: _drain(chosen), OURS: lambda: _drain(taken)})
    finally:
        fabric.stop()
