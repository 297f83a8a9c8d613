"""The data source `stentor`: reads what repositories store, in batches and in streams.

An offset says of every topic what was read of it, as numbers of streams, and at which number of which repository that
was known; any other repository of the bundle can go on from it, since it admits only what all that live have stored.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from stentor.client.stored_reader import Availability
from stentor.model.errors import InvalidInput, StentorError
from stentor.model.stored.position import Position
from stentor.model.topic import matches
from stentor.model.wording.count import counted
from stentor.pipeline.engine.worker import plain, settle
from stentor.pipeline.options import ReadOptions, parse, parse_flag, read_options, source_options, write_options
from stentor.pipeline.sink.sink import BatchWriter, StreamWriter
from stentor.pipeline.source.blocking_stored_reader import BlockingStoredReader
from stentor.pipeline.source.columns import ddl_of, parse_attributes, schema_of, to_arrow

Offset = dict[str, dict[str, Any]]  # by topic

_PART = 25_000  # events that are worth a task
_MOST_PARTS = 32


class SourcePartition(InputPartition):
    """What one task reads."""

    def __init__(self, topic: str, wanted: Position, repositories: tuple[str, ...]) -> None:
        super().__init__(None)
        self.topic = topic
        self.wanted = wanted
        self.repositories = repositories


class Source(DataSource):
    """`format("stentor")`."""

    @classmethod
    def name(cls) -> str:
        return "stentor"

    @plain()
    def schema(self) -> str:
        """Return the columns; Spark asks for them first, so that `load()` already refuses options that are wrong."""
        read_options(self.options, streaming=False)
        return ddl_of(_schema(self.options))

    @plain()
    def reader(self, schema: StructType) -> "BatchReader":  # noqa: ARG002
        return BatchReader(read_options(self.options, streaming=False), _schema(self.options))

    @plain()
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return BatchWriter(write_options(self.options), schema, overwrite)

    @plain()
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        return StreamWriter(write_options(self.options), schema, overwrite)

    @plain()
    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: ARG002, N802
        return StreamReader(read_options(self.options, streaming=True), _schema(self.options))


def _schema(options: Mapping[str, str]) -> pa.Schema:
    given = source_options(options)
    return schema_of(parse(given, "attributes", parse_attributes, ()), parse(given, "origin", parse_flag, False))


class _Reader:
    """What reading a batch and reading a stream have in common."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options, self._schema = options, schema

    def _portions(self, topic: str, stock: Availability, upto: Position) -> list[InputPartition]:
        """All of it, neighbouring parts from different repositories. What the one that was asked does not have, since
        its disk was damaged, or it is behind the one that was asked before, another one has.
        """
        members = stock.members
        rest = upto.minus(stock.end).minus(stock.gone)
        parts = (*stock.parts, rest) if rest.streams else stock.parts
        return [
            SourcePartition(topic, part, (*members[place % len(members) :], *members[: place % len(members)]))
            for place, part in enumerate(parts)
        ]

    def _parts(self, events: int) -> int:
        return self._options.partitions or min(max(-(-events // _PART), 1), _MOST_PARTS)

    def _check(self, topic: str, gone: Position) -> None:
        if gone.streams and self._options.strict:
            raise StentorError(
                f"forgotten, or lost, before anybody read them: {counted(len(gone), 'event')} of {topic}; "
                'option "failOnDataLoss", "false" goes on without them'
            )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SourcePartition):
            return  # Spark makes up one if there is none
        settle()
        with plain(), BlockingStoredReader(self._options, running=True) as reader:
            for page in reader.pages(partition.topic, partition.wanted, partition.repositories):
                if self._options.since != "beginning":
                    self._check(partition.topic, page.lost)
                yield from to_arrow(page, partition.topic, self._schema)


class BatchReader(_Reader, DataSourceReader):
    """Reads all that is stored when the query is planned."""

    @plain()
    def partitions(self) -> list[InputPartition]:
        found: list[InputPartition] = []
        with BlockingStoredReader(self._options) as reader:
            for topic in reader.topics():
                stock = reader.stock(topic, since=self._options.since)
                upto = stock.end
                parts = self._parts(len(upto.minus(stock.done)))
                if parts > 1:
                    stock = reader.stock(topic, done=stock.done, upto=upto, parts=parts)
                found += self._portions(topic, stock, upto)
        return found


class StreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream for ever, from one offset to the next."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        super().__init__(options, schema)
        self._opened: BlockingStoredReader | None = None
        self._target: dict[str, Position] | None = None  # beyond which nothing is read
        self._turn = 0

    @property
    def _stored_reader(self) -> BlockingStoredReader:
        if self._opened is None:
            # only if it is there: Spark stops readers that failed
            self._opened = BlockingStoredReader(self._options).__enter__()
        return self._opened

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    # ---- offsets

    @plain()
    def initialOffset(self) -> Offset:  # noqa: N802
        offset: Offset = {}
        for topic in self._stored_reader.topics():
            stock = self._stored_reader.stock(topic, since=self._options.since, most=1, enrol=True)
            offset[topic] = _entry(stock, stock.done.plus(stock.gone))
        return offset

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.most)

    @plain()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = {
            topic: self._stored_reader.stock(topic, since="beginning").end for topic in self._stored_reader.topics()
        }

    @plain()
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """As far as the limit goes; topics take turns at being first."""
        self._check_topics(start)
        limited = not isinstance(limit, ReadAllAvailable)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else 0
        size = self._options.size if limited else 0
        end = dict(start)
        topics = list(self._stored_reader.topics())
        self._turn += 1
        for topic in (*topics[self._turn % len(topics) :], *topics[: self._turn % len(topics)]):
            done = _position(start, topic)
            if self._target is not None:
                upto = self._target.get(topic, Position())
                if not upto.minus(done).streams:
                    continue
                stock = self._stock(topic, start, done, upto=upto, most=most, size=size)
            else:
                stock = self._stock(topic, start, done, most=most, size=size)
            count = len(stock.end.minus(done))
            if count:
                end[topic] = _entry(stock, stock.end)
            if most:
                most -= count
                if most <= 0:
                    break
        return end

    def _stock(self, topic: str, start: Offset, done: Position, **what: Any) -> Availability:
        stock = self._stored_reader.stock(topic, done=done, enrol=topic not in start, **what)
        if topic in start:
            self._check(topic, stock.gone)
        return stock

    def _check_topics(self, offset: Offset) -> None:
        for topic in offset:
            if not matches(self._options.topic, topic):
                raise InvalidInput(
                    f'option "topic": the checkpoint is that of a query on {topic!r}, which {self._options.topic!r} '
                    "does not mean; use another checkpointLocation"
                )

    @plain()
    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        self._check_topics(end)
        found: list[InputPartition] = []
        for topic in end:
            done, upto = _position(start, topic), _position(end, topic)
            events = len(upto.minus(done))
            if events:
                stock = self._stored_reader.stock(topic, done=done, upto=upto, parts=self._parts(events))
                self._check(topic, stock.gone)
                found += self._portions(topic, stock, upto)
        return found

    @plain()
    def commit(self, end: Offset) -> None:
        for topic in end:
            self._stored_reader.acknowledge(topic, _position(end, topic))


def _entry(stock: Availability, read: Position) -> dict[str, Any]:
    return {"repository": stock.repository, "number": stock.number, "read": read.to_text()}


def _position(offset: Offset, topic: str) -> Position:
    entry = offset.get(topic)
    if entry is None:
        return Position()
    try:
        return Position.from_text(msgspec.convert(entry["read"], dict[str, str]))
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise InvalidInput(f"the checkpoint holds no position in {topic!r}: {error}") from None
