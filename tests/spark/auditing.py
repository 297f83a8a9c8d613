"""Audits what a fabric told of a topic, and the same with something planted in it, as that of another topic.

Traces are put together by one stage, and no task of the next one ends before the test says so: what a worker holds of
the first is lost with it.
"""

import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from tests.spark.driver import held
from tests.spark.standalone import PATIENCE

from stentor.pipeline.traces import traces
from stentor.pipeline.traces.audit import audit


def check(spark: SparkSession, folder: Path, url: str, topic: str, changed: str, events: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE
    while not _is_told(told := traces.read(spark, url=url), topic, int(events)):
        assert time.monotonic() < deadline, "the fabric has not told all"
    told = told.mapInArrow(held(folder), told.schema).persist()
    both = told.union(_changed(_another(told, topic, changed), changed))
    found = audit(both, topic.rpartition("/")[0] + "/+", at_rest=True)
    return {
        "findings": [[row.verdict, row.kind, row.about, row.subscriber] for row in found.findings.collect()],
        "sums": {
            row.subscriber: [row.wanted, row.acknowledged]
            for row in found.subscribers.where(sql.col("about") == topic).collect()
        },
    }


def _is_told(told: DataFrame, topic: str, events: int) -> bool:
    """Whether all ends have ended, and three repositories told all that there is to tell."""
    kinds = (
        told.where(f"about = '{topic}' or node like '%:{topic}'")
        .groupBy("kind")
        .agg(sql.sum("count").alias("events"), sql.count("*").alias("rows"))
    )
    sums = {row.kind: row for row in kinds.collect()}
    ended = "ended" in sums and sums["ended"].rows == 3
    return ended and all(kind in sums and sums[kind].events >= 3 * events for kind in ("stored", "stable"))


def _another(told: DataFrame, topic: str, name: str) -> DataFrame:
    """The same, as if it had happened to another topic with other repositories."""
    node = sql.regexp_replace(sql.regexp_replace("node", f":{topic}$", f":{name}"), "^repository:", "repository:other-")
    keeper = sql.when(sql.col("keeper") != "", sql.concat(sql.lit("other-"), "keeper")).otherwise("")
    about = sql.when(sql.col("about") == topic, name).otherwise(sql.col("about"))
    return told.withColumns({"node": node, "publisher": node, "keeper": keeper, "about": about})


def _changed(told: DataFrame, topic: str) -> DataFrame:
    """One subscriber tells its first release twice, of another one the second trace is lost."""
    of_few = told.where(f"node = 'subscriber:few:{topic}'")
    (newest,) = of_few.agg(sql.max("catenation").alias("newest")).collect()
    again = of_few.where("kind = 'released'").orderBy("catenation").limit(1)
    kept = told.where(f"not (node = 'subscriber:everything:{topic}' and catenation = 2)")
    return kept.union(again.withColumn("catenation", sql.lit(newest.newest + 1)))
