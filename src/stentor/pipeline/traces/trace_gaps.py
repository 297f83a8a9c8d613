"""Trace gaps: what nodes may have traced and nobody can know any more. A claim in a gap is neither proven nor refuted.

A node numbers its traces, so missing numbers show what was lost on the way, and the node itself says what it had no
room for. A node that was killed has not said that it ended: what it had not told is missing. Ledgers close a part of
these gaps: a repository that is back tells again what it stored, and what subscribers acknowledged.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

_LIFE: Final = ("publisher", "incarnation")
_PARTS: Final = r"^(publisher|subscriber|repository):([^:]*):?(.*)$"  # of a node's name; brokers have others

_GROWS: Final = 10 * 10**9  # nanoseconds, for as long as sums do
LOST, DROPPED, KILLED, OPEN, EARLIER = "lost", "dropped", "killed", "open", "earlier"


def holes(traces: DataFrame, *, at_rest: bool) -> DataFrame:
    """`role`, `name` and `topic` of who told nothing after `since` until `until`, both in nanoseconds, and `why`.

    What a life has not told yet that may go on is `open`, until for ever. If all is at rest, only that of a repository
    is: it may have been killed, and never have come back.
    """
    told = traces.where("kind <> 'hop'")
    lives = _lives(told).where(_part(1) != "")
    broken = lives.where("told <> newest or dropped").select(*_LIFE)
    may_go_on = sql.lit(not at_rest) | (_part(1) == "repository")
    ends = (
        lives.where("not ended")
        .where(sql.col("until").isNotNull() | may_go_on)
        .select(
            *_LIFE,
            "node",
            sql.when(sql.col("until").isNull(), OPEN).otherwise(KILLED).alias("why"),
            sql.col("ended_at").alias("since"),
            "until",
            sql.lit(0).cast("bigint").alias("count"),
        )
    )
    return (
        _gaps(told.join(broken, list(_LIFE), "left_semi"))
        .unionByName(ends)
        .select(
            *_LIFE,
            "node",
            _part(1).alias("role"),
            _part(2).alias("name"),
            _part(3).alias("topic"),
            "why",
            "since",
            "until",
            "count",
        )
    )


def _part(number: int) -> Column:
    return sql.regexp_extract("node", _PARTS, number)


def _lives(told: DataFrame) -> DataFrame:
    lives = told.groupBy(*_LIFE).agg(
        sql.max("node").alias("node"),
        sql.count("*").alias("told"),
        sql.max("catenation").alias("newest"),
        sql.min("at").alias("began_at"),
        sql.max("until").alias("ended_at"),
        sql.max(sql.col("kind") == "ended").alias("ended"),
        sql.max(sql.col("kind") == "dropped").alias("dropped"),
    )
    after = Window.partitionBy("publisher").orderBy("incarnation")
    return lives.withColumn("until", sql.lead("began_at").over(after))


def _gaps(told: DataFrame) -> DataFrame:
    """Of lives whose numbers have gaps, or that dropped some."""
    along = Window.partitionBy(*_LIFE).orderBy("catenation")
    before = sql.coalesce(sql.lag("catenation").over(along), sql.lit(0))
    seen = told.select(
        *_LIFE,
        "node",
        "kind",
        # A sum that is lost may have grown until the one behind it was told.
        (sql.col("until") + sql.when(sql.col("is_sum"), _GROWS).otherwise(0)).alias("until"),
        sql.col("count").alias("named"),
        sql.coalesce(sql.lag("at").over(along), sql.lit(0)).alias("since"),
        (sql.col("catenation") - before - 1).alias("missing"),
    )
    why = sql.when(sql.col("kind") == "dropped", DROPPED).when(sql.col("since") == 0, EARLIER).otherwise(LOST)
    missing = sql.col("missing") + sql.when(sql.col("kind") == "dropped", sql.col("named")).otherwise(0)
    found = seen.withColumn("count", missing).where("count > 0").withColumn("why", why)
    return found.select(*_LIFE, "node", "why", "since", "until", "count")
