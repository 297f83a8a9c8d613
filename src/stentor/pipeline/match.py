"""Back-testing: what filters would have had of events that are stored, by the code with which brokers match them.

Events are rows as the data source has them, with a column for each attribute, or all in the map `attributes` and their
types in `types` (`option("origin", "true")`, and in the lake). Bodies stay where they are: only sizes are looked at.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
from numpy.typing import NDArray
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import MapType

from stentor.matching.pairs.pair_index import PairIndex
from stentor.model.attribute import Kind
from stentor.model.batch import DTYPES, Row
from stentor.model.column import Column
from stentor.model.errors import InvalidInput
from stentor.model.filter import Filter
from stentor.pipeline.engine.worker import settle
from stentor.pipeline.source.columns import BOOKKEEPING, ORIGIN
from stentor.storage.lake import schema_of

COLUMNS: Final = "filter string, day date, events long, bytes long, first timestamp, last timestamp"
BATCH: Final = 10_000  # rows that are matched at once, as many as Spark passes on
_STORED: Final = ("time", "body", "attributes", "types")
_TASKS: Final = 4  # per core
_AT_ONCE: Final = 64  # tallies that are added up
_DAY: Final = 86_400_000_000  # microseconds
_OURS: Final = frozenset(field.name for field in (*BOOKKEEPING, *ORIGIN))
_TYPES: Final = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.DECIMAL: pa.float64(),
    Kind.STRING: pa.string(),
}
_SCHEMA: Final = pa.schema(
    [
        ("filter", pa.string()),
        ("day", pa.date32()),
        ("events", pa.int64()),
        ("bytes", pa.int64()),
        ("first", pa.timestamp("us", tz="UTC")),
        ("last", pa.timestamp("us", tz="UTC")),
    ]
)
Numbers = NDArray[np.int64]


def daily(events: DataFrame, filters: Mapping[str, Filter]) -> DataFrame:
    """For each filter and day what it matched, as COLUMNS; the filter null stands for all events."""
    names, wheres = tuple(filters), tuple(filters.values())
    micros, size = f.unix_micros("time").alias("time"), f.coalesce(f.octet_length("body"), f.lit(0)).alias("size")
    chosen = events.select(micros, size.cast("long").alias("size"), *_attributes(events, filters))

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from together(tally(batch, names, wheres) for batch in batches if batch.num_rows)

    return _summed(chosen.mapInArrow(count, COLUMNS))


def only(events: DataFrame, where: Filter) -> DataFrame:
    """The events that a filter matches, with all their columns."""
    row = f.struct(*(f.col(f"`{name}`") for name in events.columns)).alias("row")
    looked = events.select(row, *_attributes(events, {str(where): where}))
    schema = looked.select("row").schema

    def choose(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        index = _index((where,))
        for batch in batches:
            rows = [np.zeros(0, np.intp)]
            for places, part in _parts(batch):
                which, _ = index.match_pairs(part)
                rows.append(which if places is None else places[which])
            yield batch.select(["row"]).take(pa.array(np.unique(np.concatenate(rows))))

    return looked.mapInArrow(choose, schema).select("row.*")


def daily_of_files(spark: SparkSession, files: Sequence[Path], filters: Mapping[str, Filter]) -> DataFrame:
    """The same for files of a lake. Tasks read them: to pass rows through the JVM costs more than to match them."""
    names, wheres = tuple(filters), tuple(filters.values())
    places = [(str(file), group) for file in files for group in range(parquet.read_metadata(file).num_row_groups)]
    tasks = min(len(places), _TASKS * spark.sparkContext.defaultParallelism)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine = (places[number] for batch in batches for number in batch.column(0).to_pylist())
        for path, groups in groupby(mine, key=itemgetter(0)):
            with parquet.ParquetFile(path) as file:
                yield from file.iter_batches(BATCH, row_groups=[group for _, group in groups], columns=list(_STORED))

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from together(tally(from_lake(batch), names, wheres) for batch in read(batches))

    return _summed(spark.range(0, len(places), 1, max(1, tasks)).mapInArrow(count, COLUMNS))


def from_lake(batch: pa.RecordBatch) -> pa.RecordBatch:
    """What matching looks at, of rows of a lake."""
    time, body, attributes, types = (batch[name] for name in _STORED)
    arrays = [time.cast(pa.int64()), pc.fill_null(pc.binary_length(body), 0).cast(pa.int64()), attributes, types]
    return pa.RecordBatch.from_arrays(arrays, ["time", "size", "attributes", "types"])


def _summed(found: DataFrame) -> DataFrame:
    return found.groupBy("filter", "day").agg(
        f.sum("events").alias("events"),
        f.sum("bytes").alias("bytes"),
        f.min("first").alias("first"),
        f.max("last").alias("last"),
    )


def _attributes(events: DataFrame, filters: Mapping[str, Filter]) -> list[Expression]:
    """The columns that filters look at."""
    types = {field.name: field.dataType for field in events.schema}
    if isinstance(types.get("attributes"), MapType):
        if "types" not in types:
            raise InvalidInput(
                'a map of attributes does not tell their types: read with option("origin", "true"), '
                'or with option("attributes", "name type, …")'
            )
        return [f.col("attributes"), f.col("types")]
    missing = {name: text for text, where in filters.items() for name in where.names - (types.keys() - _OURS)}
    if missing:
        name, text = min(missing.items())
        raise InvalidInput(f"the filter {text!r} looks at {name!r}, of which there is no column")
    # `_` keeps them apart from the two columns that are always there
    return [
        f.col(name).alias(f"_{name}") for name in sorted({name for each in filters.values() for name in each.names})
    ]


class _Events:
    """Rows of Spark's as matching sees them."""

    def __init__(self, arrays: Mapping[str, pa.Array], count: int) -> None:
        self.count = count
        self._arrays = arrays
        self._columns: dict[str, Column | None] = {}

    def column(self, name: str) -> Column | None:
        if name not in self._columns:
            array = self._arrays.get(name)
            self._columns[name] = None if array is None else to_column(array)
        return self._columns[name]

    def rows(self) -> Sequence[Row]:
        found: list[Row] = [{} for _ in range(self.count)]
        for name in self._arrays:
            column = self.column(name)
            for row, value in zip(found, column.to_list() if column else (), strict=False):
                if value is not None:
                    row[name] = value
        return found


def to_column(array: pa.Array) -> Column | None:
    """A column as brokers have it; None if no event has the attribute."""
    if array.null_count == len(array):
        return None
    valid = pc.is_valid(array).to_numpy(zero_copy_only=False) if array.null_count else None
    if pa.types.is_string(array.type):
        coded = array.dictionary_encode()
        codes = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        return Column(Kind.STRING, codes.astype(np.uint32), valid, tuple(coded.dictionary.to_pylist()))
    if pa.types.is_boolean(array.type):
        kind = Kind.BOOLEAN
    elif pa.types.is_integer(array.type):
        kind = Kind.INTEGER
    elif pa.types.is_floating(array.type):
        kind = Kind.DECIMAL
    else:
        raise InvalidInput(f"a column of {array.type} is no attribute: they are Booleans, numbers or strings")
    plain = array.fill_null(False) if kind is Kind.BOOLEAN else array.fill_null(0)
    return Column(kind, plain.to_numpy(zero_copy_only=False).astype(DTYPES[kind], copy=False), valid)


def tally(batch: pa.RecordBatch, names: tuple[str, ...], wheres: tuple[Filter, ...]) -> pa.RecordBatch:
    if batch["time"].null_count:
        raise InvalidInput("there are events without a time")
    times, sizes = batch["time"].to_numpy(), batch["size"].to_numpy()
    rows, numbers = [np.arange(batch.num_rows)], [np.full(batch.num_rows, len(wheres), np.int64)]
    index = _index(wheres)
    for places, events in _parts(batch):
        which, who = index.match_pairs(events)
        rows.append(which if places is None else places[which])
        numbers.append(who)
    return _sums(np.concatenate(rows), np.concatenate(numbers), times, sizes, names)


def together(tallies: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Tallies of many batches as few: what leaves a task costs more than to add it up."""
    found: list[pa.RecordBatch] = []
    for each in tallies:
        found.append(each)
        if len(found) == _AT_ONCE:
            found = _added(found)
    yield from _added(found)


def _added(tallies: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(tallies) < 2:
        return tallies
    sums = [("events", "sum"), ("bytes", "sum"), ("first", "min"), ("last", "max")]
    added = pa.Table.from_batches(tallies).group_by(["filter", "day"]).aggregate(sums)
    names = ["filter", "day", *(f"{name}_{function}" for name, function in sums)]
    (batch,) = added.select(names).rename_columns(_SCHEMA.names).cast(_SCHEMA).combine_chunks().to_batches()
    return [batch]


def _sums(
    rows: NDArray[np.intp], numbers: Numbers, times: Numbers, sizes: Numbers, names: tuple[str, ...]
) -> pa.RecordBatch:
    """What each pair of an event and the number of a filter comes to, by filter and day."""
    days = times // _DAY
    first = days.min()
    span = days.max() - first + 1
    keys = numbers * span + (days - first)[rows]
    order = keys.argsort(kind="stable")
    rows, keys = rows[order], keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    who, day = np.divmod(keys[starts], span)
    moments = times[rows]
    arrays = [
        pa.array([*names, None], pa.string()).take(pa.array(who)),
        pa.array((day + first).astype(np.int32)).cast(pa.date32()),
        pa.array(np.diff(starts, append=len(keys))),
        pa.array(np.add.reduceat(sizes[rows], starts)),
        pa.array(np.minimum.reduceat(moments, starts)).cast(_SCHEMA.field("first").type),
        pa.array(np.maximum.reduceat(moments, starts)).cast(_SCHEMA.field("last").type),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


@lru_cache(maxsize=4)
def _index(wheres: tuple[Filter, ...]) -> PairIndex:
    """Made once in a worker, not once a task."""
    index = PairIndex()
    for number, where in enumerate(wheres):
        index.add(where, number)
    settle()
    return index


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[NDArray[np.intp] | None, _Events]]:
    """Events whose attributes have the same types, and where in the batch they are; None is all of it."""
    if "types" not in batch.schema.names:
        arrays = {name[1:]: batch[name] for name in batch.schema.names if name.startswith("_")}
        yield None, _Events(arrays, batch.num_rows)
        return
    coded = batch["types"].fill_null("").dictionary_encode()
    texts, codes = coded.dictionary.to_pylist(), coded.indices.to_numpy()
    for code, text in enumerate(texts):
        if len(texts) == 1:
            yield None, _Events(unfold(batch["attributes"], text), batch.num_rows)
        else:
            places = np.flatnonzero(codes == code)
            yield places, _Events(unfold(batch["attributes"].take(pa.array(places)), text), len(places))


def unfold(attributes: pa.MapArray, types: str) -> dict[str, pa.Array]:
    """A column of each attribute out of a map of their texts, which is not a slice of another one."""
    bounds = attributes.offsets.to_numpy()
    keys, texts = attributes.keys, attributes.items
    owners = np.repeat(np.arange(len(attributes)), np.diff(bounds))
    schema = schema_of(types)
    found = {}
    for name, kind in zip(schema.names, schema.kinds, strict=True):
        there = np.flatnonzero(pc.equal(keys, name).to_numpy(zero_copy_only=False))
        places = np.full(len(attributes), -1, np.int64)
        places[owners[there]] = there
        found[name] = texts.take(pa.array(places, mask=places < 0)).cast(_TYPES[kind])
    return found
