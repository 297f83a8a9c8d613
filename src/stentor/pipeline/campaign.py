"""Campaigns: thousands of seeded simulations as tasks of Spark, and what they came to.

A seed is a row and a range of rows is a task, so that a worker imports the house once and seeds of all scenarios are
spread evenly. What is simulated, and how, is not known here: `run` is handed in and travels to the workers.
"""

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from stentor.pipeline.engine.worker import settle

COLUMNS: Final = (
    "scenario string, seed long, digest string, seconds double, "
    "anomalies array<struct<kind: string, detail: string>>, statistics map<string, long>"
)
CRASH: Final = "crash"  # the kind of anomaly that a simulation is which does not end in order
_MOST: Final = "most-"  # statistics of this name are summed up by their greatest
_SHORTEST: Final = 20  # seeds of a task, unless there are fewer
_TASKS: Final = 16  # per core: the last ones to end are short, and their overhead is not seen
_SCHEMA: Final = pa.schema(
    [
        ("scenario", pa.string()),
        ("seed", pa.int64()),
        ("digest", pa.string()),
        ("seconds", pa.float64()),
        ("anomalies", pa.list_(pa.struct([("kind", pa.string()), ("detail", pa.string())]))),
        ("statistics", pa.map_(pa.string(), pa.int64())),
    ]
)


class SeedAnomaly(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def detail(self) -> str: ...


class SeedOutcome(Protocol):
    @property
    def digest(self) -> str: ...
    @property
    def anomalies(self) -> Sequence[SeedAnomaly]: ...
    @property
    def statistics(self) -> Mapping[str, int]: ...


Run = Callable[[str, int], SeedOutcome]


def outcomes(spark: SparkSession, scenarios: Sequence[str], first: int, seeds: int, run: Run) -> DataFrame:
    """A row for each scenario and seed, as COLUMNS; nothing is run before somebody asks for them."""
    names, total = tuple(scenarios), len(scenarios) * seeds
    tasks = max(1, min(-(-total // _SHORTEST), _TASKS * spark.sparkContext.defaultParallelism))

    def simulate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for batch in batches:
            for start in range(0, batch.num_rows, _SHORTEST):
                places = batch.column(0).slice(start, _SHORTEST).to_pylist()
                rows = [_row(run, names[place % len(names)], first + place // len(names)) for place in places]
                yield pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)

    return spark.range(0, total, 1, tasks).mapInArrow(simulate, COLUMNS)


def _row(run: Run, scenario: str, seed: int) -> dict[str, object]:
    started = time.perf_counter()
    digest, anomalies, statistics = "", [], []
    try:
        outcome = run(scenario, seed)
    except Exception:  # one seed that fails must not hide what all others came to
        anomalies = [{"kind": CRASH, "detail": traceback.format_exc(limit=-5)}]
    else:
        digest, statistics = outcome.digest, list(outcome.statistics.items())
        anomalies = [{"kind": each.kind, "detail": each.detail} for each in outcome.anomalies]
    return {
        "scenario": scenario,
        "seed": seed,
        "digest": digest,
        "seconds": time.perf_counter() - started,
        "anomalies": anomalies,
        "statistics": statistics,
    }


def summary(found: DataFrame) -> DataFrame:
    """For each scenario its seeds, those that failed, and the seconds that the slowest and all of them took."""
    return found.groupBy("scenario").agg(
        f.count("*").alias("seeds"),
        f.count_if(f.size("anomalies") > 0).alias("failed"),
        f.sum("seconds").alias("seconds"),
        f.max("seconds").alias("slowest"),
    )


def statistics(found: DataFrame) -> DataFrame:
    """For each scenario what happened how often."""
    every = found.select("scenario", f.explode("statistics").alias("what", "count"))
    count = f.when(f.col("what").startswith(_MOST), f.max("count")).otherwise(f.sum("count"))
    return every.groupBy("scenario", "what").agg(count.alias("count"))


def failures(found: DataFrame) -> DataFrame:
    """For each scenario and kind of anomaly how many there are, and in how many seeds."""
    every = found.select("scenario", "seed", f.explode("anomalies.kind").alias("kind"))
    return every.groupBy("scenario", "kind").agg(
        f.count("*").alias("anomalies"), f.count_distinct("seed").alias("seeds"), f.min("seed").alias("first")
    )


def failed(found: DataFrame, most: int) -> DataFrame:
    """The first seeds of each scenario that failed, with the kinds of what happened and the first detail."""
    order = Window.partitionBy("scenario").orderBy("seed")
    kinds, detail = f.array_sort(f.array_distinct("anomalies.kind")), f.col("anomalies")[0].detail
    wrong = found.where(f.size("anomalies") > 0)
    ranked = wrong.select("scenario", "seed", kinds.alias("kinds"), detail.alias("detail"), f.row_number().over(order))
    return ranked.toDF("scenario", "seed", "kinds", "detail", "rank").where(f.col("rank") <= most).drop("rank")
