"""Latency: how long events take to be stored, to reach each broker and to be released, over windows of time."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

_SHARES = (0.5, 0.9, 0.99)
_MEASURES = {"hop": "node", "stored": "keeper", "released": "subscriber"}  # and where each is taken


def latency(traces: DataFrame, window: str) -> DataFrame:
    """By window, measure, topic and place: events, percentiles in milliseconds; a batch counts with all its events."""
    place = sql.coalesce(*(sql.when(sql.col("kind") == kind, sql.col(where)) for kind, where in _MEASURES.items()))
    first_told = (sql.col("kind") == "hop") | (sql.col("peer") == "")  # a ledger does not know since when
    alone = sql.array(sql.struct(((sql.col("at") - sql.col("born")) / 1e6).alias("took"), sql.col("count").alias("of")))
    delays = sql.transform(
        sql.from_json("delays", "array<array<bigint>>"), lambda each: sql.struct(_took(each[0]), each[1].alias("of"))
    )
    delay = sql.explode(sql.when(sql.col("is_sum"), delays).otherwise(alone))
    told = traces.where(sql.col("kind").isin(*_MEASURES)).where("born > 0").where(first_told)
    taken = told.withColumn("delay", delay).select(
        sql.window("moment", window).alias("window"),
        sql.col("kind").alias("measure"),
        sql.col("about").alias("topic"),
        place.alias("place"),
        unit_of(place).alias("unit"),
        sql.greatest("delay.took", sql.lit(0.0)).alias("took"),
        sql.col("delay.of").alias("count"),
        "is_sum",
    )
    shares = sql.expr(f"percentile(took, array({', '.join(map(str, _SHARES))}), count)")
    found = taken.groupBy("window", "measure", "topic", "unit", "place").agg(
        sql.sum("count").alias("events"),
        shares.alias("shares"),
        sql.max("took").alias("longest"),
        sql.max("is_sum").alias("summed"),
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
        "summed",
    )


def _took(delay: Column) -> Column:
    """Milliseconds that the number of a delay stands for: the middle of those that have it (`trace_sum.delay_of`)."""
    shift = (sql.shiftright(delay, 3) - 1).cast("int")
    middle = (delay - shift * 8 + 0.5) * sql.pow(sql.lit(2.0), shift)
    return (sql.when(delay < 16, delay.cast("double")).otherwise(middle) / 1000).alias("took")


def unit_of(place: Column) -> Column:
    """The unit that a broker is in; others are in none."""
    return sql.when(place.contains("/"), sql.regexp_replace(place, "/[^/]*$", "")).otherwise("")
