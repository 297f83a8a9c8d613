"""The audit of runs of two lengths, of which one is ten times the other: it should take ten times as long at most.

Eight publishers send batches of a hundred events to two repositories, and two subscribers get them all: nine traces a
batch, in Parquet files.
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.results import Sample
from benchmarks.spark.bench import Bench, trial
from stentor.bench import machine
from stentor.pipeline.traces import traces
from stentor.pipeline.traces.audit import audit

SHORT, LONG = "a short run", "ten times as long"
OURS = "stentor, rows of traces"
BATCH, PUBLISHERS, TRACES = 100, 8, 9  # events of a batch; traces that are told of it
_BEGIN = 1_790_000_000_000_000_000
_AUDIENCE = """cast('{"s1":[],"s2":[]}' as binary)"""
_STEPS = """array(
    named_struct('kind', 'published', 'node', concat('publisher:p', p, ':orders'), 'keeper', '', 'subscriber', ''),
    named_struct('kind', 'stored', 'node', 'repository:r1', 'keeper', 'r1', 'subscriber', ''),
    named_struct('kind', 'stable', 'node', 'repository:r1', 'keeper', 'r1', 'subscriber', ''),
    named_struct('kind', 'stored', 'node', 'repository:r2', 'keeper', 'r2', 'subscriber', ''),
    named_struct('kind', 'stable', 'node', 'repository:r2', 'keeper', 'r2', 'subscriber', ''),
    named_struct('kind', 'released', 'node', 'subscriber:s1:orders', 'keeper', 'r1', 'subscriber', 's1'),
    named_struct('kind', 'acknowledged', 'node', 'subscriber:s1:orders', 'keeper', '', 'subscriber', 's1'),
    named_struct('kind', 'released', 'node', 'subscriber:s2:orders', 'keeper', 'r1', 'subscriber', 's2'),
    named_struct('kind', 'acknowledged', 'node', 'subscriber:s2:orders', 'keeper', '', 'subscriber', 's2'))"""


def told(spark: SparkSession, rows: int) -> DataFrame:
    """What nodes tell of it, as a repository keeps it."""
    batches = spark.range(0, rows // TRACES, 1, 8).selectExpr(
        "id as b", f"id % {PUBLISHERS} as p", f"id div {PUBLISHERS} as q"
    )
    steps = batches.selectExpr("b", "p", "q", f"posexplode({_STEPS}) as (k, step)").selectExpr(
        "b", "p", "q", "k", "step.*"
    )
    of_stream = "if(kind = 'stable', 0, {})"
    return steps.selectExpr(
        "node as publisher",
        "1L as incarnation",
        "if(k = 0, q + 1, 2 * b + 2 - k % 2) as catenation",
        "kind",
        "node",
        f"{_BEGIN} + b * 1000000 + k * 10000 as at",
        "'orders' as about",
        "if(k < 2, concat('p', p), '') as source",
        f"{of_stream.format('p + 1')} as source_id",
        f"{of_stream.format('3L')} as life",
        f"{of_stream.format(f'q * {BATCH} + 1')} as first",
        f"{of_stream.format(f'q * {BATCH} + {BATCH}')} as last",
        f"{BATCH}L as count",
        "keeper",
        f"b * {BATCH} + 1 as start",
        f"b * {BATCH} + {BATCH} as end",
        "subscriber",
        "'' as peer",
        f"{BATCH * 100}L as size",
        f"{_BEGIN} + b * 1000000 as born",
        "if(kind = 'stored', 77L, 0L) as note",
        f"if(kind = 'stored', {_AUDIENCE}, cast('' as binary)) as body",
    )


def measure(bench: Bench) -> None:
    """One trial of each: the long one takes minutes."""
    spark, rows = bench.spark, bench.sizes["audit"]
    folder = bench.folder / "traces"
    for name, count in ((SHORT, rows), (LONG, 10 * rows)):
        told(spark, count).write.parquet(str(folder / name))
    _check(spark, folder / SHORT)  # warms it
    for name, count in ((SHORT, rows), (LONG, 10 * rows)):
        machine.await_quiet(bench.settle)
        figures, events = trial(lambda name=name: _check(spark, folder / name), count)  # type: ignore[misc]
        assert events == count // TRACES * BATCH, "all that was published was released"
        bench.results.samples.append(Sample(name, OURS, 1, figures))
        bench.say(f"audit, {name}: {count:,} rows in {count / figures['rate']:,.0f} s")


def _check(spark: SparkSession, folder: Path) -> int:
    found = audit(traces.tidy(spark.read.parquet(str(folder))), at_rest=True)
    try:
        assert found.findings.count() == 0, found.findings.limit(5).collect()
        (topic,) = found.topics.collect()
        assert {row.released for row in found.subscribers.collect()} == {topic.stored}
        return int(topic.published)
    finally:
        found.held.forget()
