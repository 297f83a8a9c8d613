"""Replay: events of the past are published again, in their order, on another topic.

Their order is that of each publisher's numbers, and of time between publishers. On a reliable topic a replay is one
batch of the sink: what it is stands in its manifest, so whoever repeats it publishes what is missing, or nothing.
"""

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import MapType, StructType

from stentor.client.blocking import BlockingFabric, connect
from stentor.model.attribute import MOST_ATTRIBUTES, Kind
from stentor.model.errors import InvalidInput, Unreachable
from stentor.pipeline.match import unfold
from stentor.pipeline.options import WriteOptions
from stentor.pipeline.sink.folder import Folder
from stentor.pipeline.sink.rows import RowLayout, events_of, layout_of
from stentor.pipeline.sink.sink import StagedRows, StreamWriter
from stentor.pipeline.sink.staging import Staged
from stentor.pipeline.source.columns import BOOKKEEPING, ORIGIN
from stentor.storage.lake import KINDS, schema_of

NAME: Final = "replay"  # the publisher that it is, if no other name is given
_DEFINITION: Final = "replay.json"
_BATCH: Final = 0  # the only one
_STREAM: Final = ("topic", "publisher")
_NUMBERS: Final = ("incarnation", "catenation")
_OURS: Final = frozenset(field.name for field in (*BOOKKEEPING, *ORIGIN)) - {"body"}
_STAGED: Final = "name string, topic string, rows long"
_TYPES: Final = {kind: name for name, kind in KINDS.items()}
_ARROW: Final = {Kind.BOOLEAN: "bool", Kind.INTEGER: "int64", Kind.DECIMAL: "double", Kind.STRING: "string"}
_CONNECT: Final = 10.0  # seconds until a broker must be there
_PIECE: Final = 1000  # events that are published at once, if nobody waits for them to be stored


# ---- which events, and in which order


def between(events: DataFrame, since: datetime | None, until: datetime | None) -> DataFrame:
    """Those from one time to another, the latter not among them."""
    if since is not None:
        events = events.where(f.col("time") >= f.lit(since))
    if until is not None:
        events = events.where(f.col("time") < f.lit(until))
    return events


def in_turn(events: DataFrame) -> DataFrame:
    """What is published of each event, and its turn: that begins with its time, or with a later one of an event that
    its publisher has published before it."""
    known = set(events.columns)
    moment: Expression = f.col("time")
    if known.issuperset(_NUMBERS):
        stream = [name for name in _STREAM if name in known]
        moment = f.max("time").over(Window.partitionBy(*stream).orderBy(*_NUMBERS))
    order = [name for name in (*_STREAM, *_NUMBERS) if name in known]
    wanted = {"body", "attributes", "types"} if _mapped(events) else known - _OURS
    chosen = [f"`{name}`" for name in events.columns if name in wanted]
    turn = f.struct(f.unix_micros(moment).alias("moment"), *order)
    return events.select(turn.alias("turn"), f.struct(*chosen).alias("event"))


def ordered(turns: DataFrame) -> DataFrame:
    return turns.orderBy("turn").select("turn.moment", "event")


def in_one_line(turns: DataFrame) -> DataFrame:
    """The same for one task, which will see all of them."""
    return turns.repartition(1).sortWithinPartitions("turn").select("turn.moment", "event")


def _mapped(events: DataFrame) -> bool:
    return "attributes" in events.columns and isinstance(events.schema["attributes"].dataType, MapType)


# ---- events as they are published


class Voice:
    """Rows as events on one topic, with attributes of the types that they had."""

    def __init__(self, topic: str, schema: StructType) -> None:
        self._topic = topic
        self._stated = "types" in schema.names
        self._layout = None if self._stated else layout_of(schema, topic)

    def pieces(self, batch: pa.RecordBatch, largest: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Bodies, then attributes by name; in order."""
        events = pa.RecordBatch.from_struct_array(batch["event"])
        if self._layout is not None:
            yield from events_of(events, self._layout, self._topic, largest)
            return
        for start, end, kinds in alike(events["types"]):
            part = events.take(pa.array(np.arange(start, end)))
            types = ", ".join(f"{name} {_TYPES[kind]}" for name, kind in kinds.items())
            columns = unfold(part["attributes"], types)
            typed = pa.RecordBatch.from_arrays([part["body"], *columns.values()], names=["body", *columns])
            places = tuple((name, place, _ARROW[kind]) for place, (name, kind) in enumerate(kinds.items(), 1))
            yield from events_of(typed, RowLayout(0, -1, -1, places), self._topic, largest)


def alike(types: pa.Array) -> Iterator[tuple[int, int, dict[str, Kind]]]:
    """Rows that follow each other, from one to before another, among which an attribute has one type."""
    coded = types.fill_null("").dictionary_encode()
    schemas = [dict(zip(each.names, each.kinds, strict=True)) for each in map(schema_of, coded.dictionary.to_pylist())]
    codes = coded.indices.to_numpy()
    start, seen, union = 0, set[int](), dict[str, Kind]()
    for row in np.flatnonzero(np.diff(codes, prepend=-1)).tolist():
        code = int(codes[row])
        if code in seen:
            continue
        schema = schemas[code]
        if any(union.get(name, kind) is not kind for name, kind in schema.items()) or (
            len(union.keys() | schema.keys()) > MOST_ATTRIBUTES
        ):
            yield start, row, union
            start, seen, union = row, set(), {}
        seen.add(code)
        union = union | schema
    if len(codes):
        yield start, len(codes), union


# ---- on a reliable topic


class Definition(msgspec.Struct, frozen=True):
    """Which events a replay of a name has."""

    topic: str | None
    lake: str | None
    parquet: str | None
    where: str
    since: str
    until: str


class Replay(StreamWriter):
    """One batch of the sink, whose checkpoint is the memory of a name."""

    def __init__(self, options: WriteOptions, events: StructType, definition: Definition) -> None:
        self._voice = Voice(options.topic, events)
        folder = Folder(options.checkpoint, "name")
        folder.make()
        folder.write_once(_DEFINITION, msgspec.json.encode(definition))
        _compare(folder, definition)
        super().__init__(options, StructType().add("body", "binary"), overwrite=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        pieces = (piece for batch in iterator for piece in self._voice.pieces(batch, self._largest))
        return StagedRows(self._staging.write(pieces))

    @property
    def known(self) -> tuple[int, bool] | None:
        """How many events it is, and whether all are stored; None if nobody has computed it."""
        manifest, done = self._staging.newest()
        return None if manifest is None else (sum(each.rows for each in manifest.files), done)

    def perform(self, turns: DataFrame) -> None:
        """Stage and publish, whichever is still to be done."""
        files: tuple[Staged, ...] = ()
        if self.known is None:
            rows = ordered(turns).mapInArrow(self._stage, _STAGED).collect()  # one for each file, in their order
            files = tuple(Staged(*row) for row in rows)
        self.commit([StagedRows(files)], _BATCH)

    def _stage(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message = self.write(batches)
        assert isinstance(message, StagedRows)
        names, topics, rows = ([getattr(each, name) for each in message.files] for name in ("name", "topic", "rows"))
        yield pa.RecordBatch.from_arrays(
            [pa.array(names, pa.string()), pa.array(topics, pa.string()), pa.array(rows, pa.int64())],
            names=["name", "topic", "rows"],
        )


def _compare(folder: Folder, definition: Definition) -> None:
    try:
        before = msgspec.json.decode(folder.read(_DEFINITION) or b"", type=Definition)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f'option "name": {folder.uri}/{_DEFINITION} is not what a replay writes: {error}') from None
    for name in Definition.__struct_fields__:
        old, new = getattr(before, name), getattr(definition, name)
        if old != new:
            raise InvalidInput(f'option "name": the replay of that name has {name} {old!r}, not {new!r}; use another')


# ---- on any other topic


def tell(turns: DataFrame, options: WriteOptions, speed: float) -> int:
    """Publish best effort, as fast as it goes if the speed is 0, else at so many times the pace that events had."""
    voice = Voice(options.topic, turns.select("event.*").schema)

    def publish(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = 0
        with _fabric(options) as fabric:
            pace = ReplayPace(speed)
            for batch in batches:
                moments = batch["moment"].to_numpy()
                for _, piece in voice.pieces(batch, 0):
                    for part in pace.parts(moments[: piece.num_rows], piece):
                        bodies, *columns = (column.to_pylist() for column in part.columns)
                        attributes = dict(zip(part.schema.names[1:], columns, strict=True))
                        fabric.publish_many(options.topic, bodies, attributes)
                    moments = moments[piece.num_rows :]
                    count += piece.num_rows
            fabric.flush()
        yield pa.RecordBatch.from_pydict({"events": pa.array([count], pa.int64())})

    return int(in_one_line(turns).mapInArrow(publish, "events long").agg(f.sum("events")).collect()[0][0] or 0)


def _fabric(options: WriteOptions) -> BlockingFabric:
    return connect(options.url, tls=options.tls, wait=_CONNECT)


def reach(options: WriteOptions) -> None:
    """Before anything is computed."""
    try:
        with _fabric(options):
            pass
    except Unreachable as error:
        raise Unreachable(f'option "url": {error}') from None


class ReplayPace:
    """When events of a replay are due, counted from the first of them."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._first: int | None = None
        self._began = 0.0

    def parts(self, moments: NDArray[np.int64], events: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Some at a time, when they are due; all that are by then."""
        if self._first is None and len(moments):
            self._first, self._began = int(moments[0]), time.monotonic()
        start = 0
        while start < events.num_rows:
            end = events.num_rows
            if self._speed:
                end = self._due(moments, start)
            end = min(end, start + _PIECE)
            yield events.slice(start, end - start)
            start = end

    def _due(self, moments: NDArray[np.int64], start: int) -> int:
        """Wait for the first; until which one they are due then."""
        assert self._first is not None
        wait = self._began + (int(moments[start]) - self._first) / 1e6 / self._speed - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        now = self._first + (time.monotonic() - self._began) * 1e6 * self._speed
        return max(int(np.searchsorted(moments, now, side="right")), start + 1)
