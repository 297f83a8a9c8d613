"""Traffic: how much is published on which topic and by whom, and which share of it each subscriber gets."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql


def traffic(traces: DataFrame, window: str) -> DataFrame:
    """By window and topic: events, bytes, publishers."""
    published = _in_windows(traces, "published", window)
    return published.groupBy("start", "topic").agg(
        sql.sum("count").alias("events"),
        sql.sum("size").alias("bytes"),
        sql.countDistinct("source", "source_id").alias("publishers"),
    )


def talkers(traces: DataFrame, window: str, most: int = 10) -> DataFrame:
    """Of each window, the publishers that publish the most bytes."""
    published = _in_windows(traces, "published", window)
    sums = published.groupBy("start", "topic", "source").agg(
        sql.sum("count").alias("events"), sql.sum("size").alias("bytes")
    )
    largest = sql.expr("sort_array(collect_list(struct(bytes, events, topic, source)), false)")
    ranked = sums.groupBy("start").agg(sql.slice(largest, 1, most).alias("largest"))
    return ranked.select("start", sql.posexplode("largest").alias("rank", "talker")).select(
        "start", (sql.col("rank") + 1).alias("rank"), "talker.source", "talker.topic", "talker.events", "talker.bytes"
    )


def rates(traces: DataFrame, window: str) -> DataFrame:
    """By window, topic and subscriber: which share of what was published it was given."""
    published = _in_windows(traces, "published", window).groupBy("start", "topic").agg(
        sql.sum("count").alias("published")
    )  # fmt: skip
    released = _in_windows(traces, "released", window).groupBy("start", "topic", "subscriber").agg(
        sql.sum("count").alias("released")
    )  # fmt: skip
    return released.join(published, ["start", "topic"], "left").select(
        "start",
        "topic",
        "subscriber",
        sql.coalesce("published", sql.lit(0)).alias("published"),
        "released",
        (sql.col("released") / sql.col("published")).alias("share"),
    )


def _in_windows(traces: DataFrame, kind: str, window: str) -> DataFrame:
    """By the time of publication, so that both sides of a share are of the same events."""
    born = sql.timestamp_micros((sql.col("born") / 1000).cast("bigint"))
    return traces.where(sql.col("kind") == kind).where("born > 0").select(
        sql.window(born, window)["start"].alias("start"),
        sql.col("about").alias("topic"),
        "source",
        "source_id",
        "subscriber",
        "count",
        "size",
    )  # fmt: skip


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
    )
    largest = talkers(traces, window, most).select(
        "start", sql.lit("talker"), "topic", "source", "events", "bytes", sql.lit(None).cast("double")
    )
    shares = rates(traces, window).select(
        "start", sql.lit("subscriber"), "topic", "subscriber", "released", sql.lit(None).cast("bigint"), "share"
    )
    return topics.union(largest).union(shares)
