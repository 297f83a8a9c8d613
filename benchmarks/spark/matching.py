"""Filters over stored events, in Spark and by the same code without it.

Both read the same files, as a lake has them, on as many cores: processes that read their share and match it, beside
the job of `stentor pipeline match --lake`, whose tasks read by themselves, and that of other events, which pass through
the JVM; the ratio is what Spark costs.
"""

import datetime
import multiprocessing
import random
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
from pyspark.sql import DataFrame

from benchmarks.spark.bench import Bench, Work
from stentor.model.filter import Filter
from stentor.pipeline.match import BATCH, daily, daily_of_files, from_lake, tally

FILTERS = (1, 100, 1000)
OUTSIDE, LAKE, ROWS = "outside of Spark", "stentor, tasks read the lake", "stentor, rows through the JVM"
BODY = 200  # bytes
CARRIERS = [f"C{number}" for number in range(50)]
TYPES = "carrier string, delay double, seats bigint"


def workload(filters: int) -> str:
    return f"{filters:,} filter{'s' if filters > 1 else ''}"


def write(folder: Path, events: int, files: int) -> None:
    """Events with three attributes over ten days."""
    chance = np.random.default_rng(1)
    count = events // files
    begin = int(datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC).timestamp() * 1e6)
    for number in range(files):
        carrier = pa.array(CARRIERS).take(pa.array(chance.integers(0, len(CARRIERS), count)))
        delay, seats = pa.array(chance.integers(0, 400, count) / 4), pa.array(chance.integers(0, 400, count))
        times = pa.array(begin + np.sort(chance.integers(0, 10 * 86_400_000_000, count)))
        bodies = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(BODY), count, [None, pa.py_buffer(chance.bytes(BODY * count))]
        )
        texts = pa.concat_arrays([carrier, delay.cast(pa.string()), seats.cast(pa.string())])
        keys = pa.array(["carrier", "delay", "seats"]).take(pa.array(np.tile(np.arange(3), count)))
        order = pa.array(np.arange(3 * count).reshape(3, count).T.ravel())
        bounds = pa.array(np.arange(count + 1, dtype=np.int32) * 3)
        columns = {
            "time": times.cast(pa.timestamp("us", tz="UTC")),
            "body": bodies.cast(pa.binary()),
            "attributes": pa.MapArray.from_arrays(bounds, keys, texts.take(order)),
            "types": pa.repeat(pa.scalar(TYPES), count),
        }
        parquet.write_table(pa.table(columns), folder / f"{number}.parquet", compression="zstd", row_group_size=1 << 16)


def some_filters(count: int) -> dict[str, Filter]:
    chance = random.Random(count)
    texts = {
        f"carrier = '{chance.choice(CARRIERS)}' AND delay > {chance.randrange(400) / 4} AND seats < {number % 400}"
        for number in range(10 * count)
    }
    return {text: Filter(text) for text in sorted(texts)[:count]}


def alone(files: list[str], filters: dict[str, Filter]) -> int:
    """What a task does, without Spark: the pairs that it finds."""
    names, wheres = tuple(filters), tuple(filters.values())
    found = 0
    for file in files:
        for batch in parquet.ParquetFile(file).iter_batches(BATCH):
            sums = tally(from_lake(batch), names, wheres)
            found += pc.sum(pc.if_else(pc.is_valid(sums["filter"]), sums["events"], 0)).as_py()
    return found


def measure(bench: Bench) -> None:
    spark, cores, events = bench.spark, bench.cores, bench.sizes["matching"]
    folder = bench.folder / "lake"
    folder.mkdir()
    write(folder, events, 4 * cores)
    files = sorted(map(str, folder.glob("*.parquet")))

    def total(days: DataFrame) -> int:
        row = days.where("filter is not null").selectExpr("sum(events) n").first()
        return 0 if row is None or row.n is None else int(row.n)

    with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool:

        def outside(filters: dict[str, Filter]) -> int:
            return sum(pool.map(alone, [files[core::cores] for core in range(cores)], [filters] * cores))

        for count in FILTERS:
            filters = some_filters(count)
            contestants: dict[str, Work] = {
                OUTSIDE: partial(outside, filters),
                LAKE: lambda filters=filters: total(daily_of_files(spark, list(map(Path, files)), filters)),  # type: ignore[misc]
                ROWS: lambda filters=filters: total(daily(spark.read.parquet(str(folder)), filters)),  # type: ignore[misc]
            }
            bench.compare(workload(count), events, contestants)
