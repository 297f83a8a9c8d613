"""Doubts: whether a claim that the traces lack is a violation, or may be hidden by a gap that no ledger closes."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from stentor.pipeline.traces.trace_gaps import KILLED, OPEN

VIOLATION, WARNING, UNPROVEN = "violation", "warning", "unproven"
SECOND: Final = 10**9
ON_ITS_WAY: Final = 30 * SECOND  # that an event may be while nobody waits for it, or a trace of somebody who lives
_EVER: Final = (1 << 63) - 1


def _gathered(holes: DataFrame, *keys: Column) -> DataFrame:
    """Return a row for each of these keys, with a list of its holes."""
    return holes.groupBy(*keys).agg(sql.collect_list("hole").alias("holes"))


class Doubts:
    """What holes leave open. What a killed node had not told hides nothing if ledgers tell it: those of a repository
    when it is back, those of repositories of what a subscriber acknowledged. What a publisher had sent and nobody
    stored, nobody has promised to keep.
    """

    def __init__(
        self, unknown: DataFrame, newest: DataFrame, synced: DataFrame, tolerance: int, *, at_rest: bool
    ) -> None:
        self.tolerance = tolerance
        self.at_rest = at_rest
        self.newest = newest
        known = synced.select(sql.col("about").alias("topic"), sql.col("subscriber").alias("name")).distinct()
        known = known.withColumns({"role": sql.lit("subscriber"), "is_known": sql.lit(True)})
        by_ledgers = sql.coalesce("is_known", sql.col("role") != "subscriber")
        hole = sql.struct(
            "since",
            sql.coalesce("until", sql.lit(_EVER - tolerance)).alias("until"),
            "why",
            "incarnation",
            ((sql.col("why") != OPEN) & ~((sql.col("why") == KILLED) & by_ledgers)).alias("hides"),
        )
        holes = unknown.join(sql.broadcast(known), ["topic", "name", "role"], "left")
        self._holes = holes.withColumn("hole", hole)

    def of_subscribers(self, found: DataFrame) -> DataFrame:
        of = (sql.col("topic").alias("about"), sql.col("name").alias("subscriber"))
        theirs = _gathered(self._holes.where("role = 'subscriber'"), *of)
        return found.join(sql.broadcast(theirs), ["about", "subscriber"], "left")

    def of_keepers(self, found: DataFrame) -> DataFrame:
        theirs = _gathered(self._holes.where("role = 'repository'"), sql.col("name").alias("keeper"))
        return found.join(sql.broadcast(theirs), "keeper", "left")

    def of_all_keepers(self, found: DataFrame, settled: DataFrame) -> DataFrame:
        """Of those repositories that store something of the topic."""
        keepers = settled.select("about", sql.col("keeper").alias("name")).distinct()
        theirs = _gathered(self._holes.where("role = 'repository'").join(keepers, "name"), sql.col("about"))
        return found.join(sql.broadcast(theirs), "about", "left")

    def is_hidden(self, born: Column, by: Column) -> Column:
        """Whether one of the `holes` is closed, and nobody but who told nothing in it can know."""

        def hides(hole: Column) -> Column:
            in_time = (hole["since"] <= sql.coalesce(by, sql.lit(_EVER))) & (hole["until"] + self.tolerance >= born)
            return hole["hides"] & in_time

        return sql.exists(sql.coalesce("holes", sql.array()), hides)

    def judge(self, found: DataFrame, born: Column, by: Column, verdict: str = VIOLATION) -> DataFrame:
        """Whether what is missing may have been told in a hole: one that ends after the event was `born`, and begins
        before it was to be told at last. What nobody can have told yet is not judged; but who is silent for long was
        killed, and has not come back.
        """
        latest = sql.coalesce(by, sql.lit(_EVER))

        def may(hole: Column) -> Column:
            return (hole["why"] == OPEN) & (hole["since"] < latest)

        known = sql.coalesce("holes", sql.array())
        is_old = sql.lit(self.at_rest) | (sql.col("_newest") - latest > ON_ITS_WAY)
        silent = sql.when(is_old, UNPROVEN if verdict == VIOLATION else verdict).otherwise("open")
        judged = sql.when(self.is_hidden(born, by), UNPROVEN).when(sql.exists(known, may), silent).otherwise(verdict)
        timed = found.crossJoin(sql.broadcast(self.newest.withColumnRenamed("newest", "_newest")))
        return timed.withColumn("verdict", judged).where("verdict <> 'open'").drop("_newest")
