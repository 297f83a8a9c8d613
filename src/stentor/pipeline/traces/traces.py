"""Traces as a table: what every node tells of the batches that it handled, each once."""

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sql

from stentor.model.reports.trace import SCHEMA, TRACE
from stentor.storage.lake import types_of

ATTRIBUTES: Final = types_of(SCHEMA)
_EMITTER: Final = ("publisher", "incarnation")  # who tells, and in which life


def read(spark: SparkSession, **options: Any) -> DataFrame:
    """All that repositories keep of them."""
    return tidy(spark.read.format("stentor").options(topic=f"{TRACE}/#", **options, attributes=ATTRIBUTES).load())


def tidy(traces: DataFrame) -> DataFrame:
    """Each trace once, however many repositories keep it, and with its body, which the first of its kind carries. Of a
    sum, `until` is when the last of its rows was traced; of any other row it is `at`.
    """
    once = traces.dropDuplicates([*_EMITTER, "catenation"])
    alike = Window.partitionBy(*_EMITTER, "note")
    told = sql.max(sql.when(sql.length("body") > 0, sql.col("body"))).over(alike)
    until = sql.coalesce("until", sql.lit(0))  # traces that are older than sums have none
    return once.withColumns(
        {
            "body": sql.when(sql.col("note") != 0, told),
            "is_sum": until > 0,
            "until": sql.greatest(until, "at"),
            "moment": sql.timestamp_micros((sql.greatest(until, "at") / 1000).cast("bigint")),
        }
    )
