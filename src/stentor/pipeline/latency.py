"""Latency: how long events take to be stored, to reach each broker and to be released, over windows of time."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

_SHARES = (0.5, 0.9, 0.99)
_MEASURES = {"hop": "node", "stored": "keeper", "released": "subscriber"}  # and where each is taken


def latency(traces: DataFrame, window: str) -> DataFrame:
    """By window, measure, topic and place: events, percentiles in milliseconds; a batch counts with all its events."""
    place = sql.coalesce(*(sql.when(sql.col("kind") == kind, sql.col(where)) for kind, where in _MEASURES.items()))
    first_told = (sql.col("kind") == "hop") | (sql.col("peer") == "")  # a ledger does not know since when
    taken = traces.where(sql.col("kind").isin(*_MEASURES)).where("born > 0").where(first_told).select(
        sql.window("moment", window).alias("window"),
        sql.col("kind").alias("measure"),
        sql.col("about").alias("topic"),
        place.alias("place"),
        unit_of(place).alias("unit"),
        sql.greatest((sql.col("at") - sql.col("born")) / 1e6, sql.lit(0.0)).alias("took"),
        sql.col("count"),
    )  # fmt: skip
    shares = sql.expr(f"percentile(took, array({', '.join(map(str, _SHARES))}), count)")
    found = taken.groupBy("window", "measure", "topic", "unit", "place").agg(
        sql.sum("count").alias("events"), shares.alias("shares"), sql.max("took").alias("longest")
    )
    return found.select(
        sql.col("window.start").alias("start"),
        "measure",
        "topic",
        "unit",
        "place",
        "events",
        *(sql.col("shares")[at].alias(f"p{share * 100:g}") for at, share in enumerate(_SHARES)),
        "longest",
    )


def unit_of(place: Column) -> Column:
    """The unit that a broker is in; others are in none."""
    return sql.when(place.contains("/"), sql.regexp_replace(place, "/[^/]*$", "")).otherwise("")
