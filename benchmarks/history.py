"""`python -m benchmarks.history`: filters over stored events, in Spark and by the same code without it.

Both read the same files, as a lake has them, on as many cores: processes that read their share and match it, beside
the job of `stentor pipeline match --lake`, whose tasks read by themselves, and that of other events, which pass through
the JVM. Rounds take turns; the ratio is what Spark costs.
"""

import datetime
import json
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
import typer
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

import stentor.spark
from stentor.bench import machine
from stentor.model.filter import Filter
from stentor.pipeline.match import BATCH, daily, daily_of_files, from_lake, tally

RESULTS = Path(__file__).parent / "results"
FILTERS = (1, 100, 1000)
BODY = 200  # bytes
CARRIERS = [f"C{number}" for number in range(50)]
TYPES = "carrier string, delay double, seats bigint"


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


def timed(action: Callable[[], int]) -> tuple[float, int]:
    begin = time.perf_counter()
    found = action()
    return time.perf_counter() - begin, found


def measure(
    spark: SparkSession, pool: ProcessPoolExecutor, folder: Path, count: int, rounds: int, cores: int
) -> dict[str, list[float]]:
    """Seconds of each round."""
    filters = some_filters(count)
    files = sorted(map(str, folder.glob("*.parquet")))

    def total(days: DataFrame) -> int:
        row = days.where("filter is not null").selectExpr("sum(events) n").first()
        return 0 if row is None or row.n is None else int(row.n)

    contestants: dict[str, Callable[[], int]] = {
        "outside": lambda: sum(pool.map(alone, [files[core::cores] for core in range(cores)], [filters] * cores)),
        "lake": lambda: total(daily_of_files(spark, list(map(Path, files)), filters)),
        "rows": lambda: total(daily(spark.read.parquet(str(folder)), filters)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):  # the first one warms all of them
        taken = {name: timed(action) for name, action in contestants.items()}
        assert len({found for _, found in taken.values()}) == 1, "all find the same"
        for name, (each, _) in taken.items() if number else ():
            seconds[name].append(each)
    return seconds


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; figures are medians over them.")] = 3,
    events: Annotated[int, typer.Option(min=1000, help="Events.")] = 1_000_000,
    cores: Annotated[int, typer.Option(min=1, help="Cores that each side may use.")] = os.cpu_count() or 1,
    out: Annotated[str, typer.Option(help="Name of the JSON in benchmarks/results.")] = "history",
) -> None:
    """Match in Spark and outside of it in one run; write benchmarks/results/NAME.json."""
    console = Console(width=None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "120")))
    noise = machine.Noise()
    results: dict[str, Any] = {}
    spark = stentor.spark.session(f"local[{cores}]", "history")
    table = Table("filters", "thousand events/s outside", "lake", "ratio", "rows", "ratio", box=None, pad_edge=False)
    with (
        ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool,
        tempfile.TemporaryDirectory() as directory,
        console.status("measuring"),
    ):
        write(Path(directory), events, 4 * cores)
        for count in FILTERS:
            seconds = measure(spark, pool, Path(directory), count, rounds, cores)
            rates = {name: events / statistics.median(each) / 1000 for name, each in seconds.items()}
            ratios = {
                name: statistics.median(a / b for a, b in zip(seconds["outside"], seconds[name], strict=True))
                for name in ("lake", "rows")
            }
            cells = [f"{rates[name]:,.0f}" for name in ("outside", "lake", "rows")]
            table.add_row(f"{count:,}", cells[0], cells[1], f"{ratios['lake']:.2f}", cells[2], f"{ratios['rows']:.2f}")
            results[str(count)] = {"seconds": seconds, "ratios": ratios}
    console.print(table)
    report: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": msgspec.to_builtins(machine.describe()), "noise_cores": round(noise.cores(), 2),
        "events": events, "cores": cores, "body_bytes": BODY, "results": results,
    }  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{out}.json").write_text(json.dumps(report, indent=1))
    console.print(f"written: {RESULTS / out}.json", highlight=False)


if __name__ == "__main__":
    typer.run(main)
