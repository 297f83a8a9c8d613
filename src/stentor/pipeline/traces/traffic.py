"""Traffic: how much is published on which topic and by whom, and which share of it each subscriber gets.

An event belongs to the window in which it was published, and counts once there: however often a publisher that resumes
sends it, and however often a subscriber that crashed is given it again. So no share is above 1. Events whose publisher
died before it told of them are in neither side of a share.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from stentor.pipeline.traces import trace_claims
from stentor.pipeline.traces.number_ranges import sweep
from stentor.pipeline.traces.trace_claims import STREAM


def traffic(traces: DataFrame, window: str) -> DataFrame:
    """By window and topic: events, bytes, publishers, and whether that comes from sums: these are cut every ten
    seconds, so windows of a multiple of that are exact.
    """
    publishers = sql.countDistinct("source", "source_id").alias("publishers")
    published = _publications(traces, window)
    summed = sql.max("is_sum").alias("summed")
    return published.groupBy("start", "topic").agg(sql.sum("events").alias("events"), _bytes(), publishers, summed)


def talkers(traces: DataFrame, window: str, most: int = 10) -> DataFrame:
    """Of each window, the publishers that publish the most bytes."""
    published = _publications(traces, window)
    sums = published.groupBy("start", "topic", "source").agg(sql.sum("events").alias("events"), _bytes())
    largest = sql.expr("sort_array(collect_list(struct(bytes, events, topic, source)), false)")
    ranked = sums.groupBy("start").agg(sql.slice(largest, 1, most).alias("largest"))
    return ranked.select("start", sql.posexplode("largest").alias("rank", "talker")).select(
        "start", (sql.col("rank") + 1).alias("rank"), "talker.source", "talker.topic", "talker.events", "talker.bytes"
    )


def rates(traces: DataFrame, window: str) -> DataFrame:
    """By window, topic and subscriber: which share of the events that were published then it was ever given."""
    published = _publications(traces, window)
    given = sweep(
        trace_claims.released(traces).withColumn("claim", sql.lit("released")), (*STREAM, "subscriber"), ("released",)
    )
    low, high = sql.greatest("first", "published_first"), sql.least("last", "published_last")
    # Both sides consist of ranges that do not overlap, so each number is in one pair at most.
    pairs = given.join(published, [*STREAM, "section"]).where(low <= high)
    released = pairs.groupBy("start", "topic", "subscriber").agg(sql.sum(high - low + 1).alias("released"))
    sums = published.groupBy("start", "topic").agg(sql.sum("events").alias("published"))
    return released.join(sums, ["start", "topic"]).select(
        "start",
        "topic",
        "subscriber",
        "published",
        "released",
        (sql.col("released") / sql.col("published")).alias("share"),
    )


def _publications(traces: DataFrame, window: str) -> DataFrame:
    """Stretches of numbers that were published, each number in one of them, with the window in which that was."""
    born = sql.timestamp_micros((sql.col("born") / 1000).cast("bigint"))
    told = traces.where("kind = 'published' and born > 0").select(
        *STREAM,
        "first",
        "last",
        sql.lit("published").alias("claim"),
        sql.window(born, window)["start"].alias("start"),
        "source",
        (sql.col("size") / sql.col("count")).alias("size"),  # of one event
        "is_sum",
    )
    swept = sweep(told, STREAM, ("published",), ("start", "source", "size", "is_sum"))
    return swept.withColumnsRenamed({"first": "published_first", "last": "published_last"}).select(
        "*",
        sql.col("about").alias("topic"),
        (sql.col("published_last") - sql.col("published_first") + 1).alias("events"),
    )


def _bytes() -> Column:
    return sql.round(sql.sum(sql.col("size") * sql.col("events"))).cast("bigint").alias("bytes")


def summary(traces: DataFrame, window: str, most: int) -> DataFrame:
    """All of it as one table: topics, the largest talkers, and what each subscriber got."""
    topics = traffic(traces, window).select(
        "start",
        sql.lit("topic").alias("what"),
        "topic",
        sql.lit("").alias("who"),
        "events",
        "bytes",
        sql.lit(None).cast("double").alias("share"),
        "summed",
    )
    largest = talkers(traces, window, most).select(
        "start",
        sql.lit("talker"),
        "topic",
        "source",
        "events",
        "bytes",
        sql.lit(None).cast("double"),
        sql.lit(None).cast("boolean"),
    )
    shares = rates(traces, window).select(
        "start",
        sql.lit("subscriber"),
        "topic",
        "subscriber",
        "released",
        sql.lit(None).cast("bigint"),
        "share",
        sql.lit(None).cast("boolean"),
    )
    return topics.union(largest).union(shares)
