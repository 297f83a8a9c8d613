"""Ranges of numbers, from `first` to `last`: a sweep over their ends finds who claims which.

The work grows with the number of ranges, however long they are. Numbers are cut into sections, so that Spark works on
the ranges of one stream in parallel, and so that a join looks at one section and not at all of the stream.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

_BITS: Final = 12  # of the numbers in one section


def section(number: Column) -> Column:
    return sql.shiftright(number, _BITS)


def spread(rows: DataFrame, spans: Column) -> DataFrame:
    """A row for each range that is meant, by offsets from `first`; none named is all."""
    whole = sql.array(sql.array(sql.lit(0).cast("bigint"), sql.col("last") - sql.col("first")))
    meant = sql.when(sql.coalesce(sql.size(spans), sql.lit(0)) > 0, spans).otherwise(whole)
    return (
        rows.withColumn("_span", sql.explode(meant))
        .withColumn("last", sql.col("first") + sql.col("_span")[1])
        .withColumn("first", sql.col("first") + sql.col("_span")[0])
        .drop("_span")
    )


def sweep(claims: DataFrame, keys: Sequence[str], counted: Sequence[str], known: Sequence[str] = ()) -> DataFrame:
    """For each key the longest ranges that are claimed alike: how often, as a column for each of those `claim`s that
    are counted, and what is `known` by the claim that begins last and has it. None goes beyond its `section`.
    """
    has = sql.col(known[0]).isNotNull() if known else sql.lit(False)
    notes = sql.when(has, sql.struct(*known) if known else sql.struct(sql.lit(0))).alias("_known")
    cut = sections(claims.select(*keys, "claim", notes, "first", "last"), "first", "last")
    low = sql.greatest(sql.col("first"), sql.shiftleft("section", _BITS)).alias("place")
    begins = sql.struct(low, sql.lit(1).alias("sign"))
    ends = sql.struct((end_in_section("last") + 1).alias("place"), sql.lit(-1).alias("sign"))
    edges = cut.select(*keys, "section", "claim", "_known", sql.inline(sql.array(begins, ends)))
    along = Window.partitionBy(*keys, "section").orderBy("place")
    upto = along.rowsBetween(Window.unboundedPreceding, 0)
    claimed = (sql.when(sql.col("claim") == each, sql.col("sign")).otherwise(0) for each in counted)
    swept = edges.select(
        *keys,
        "section",
        sql.col("place").alias("first"),
        (sql.lead("place").over(along) - 1).alias("last"),
        *(sql.sum(each).over(upto).alias(name) for name, each in zip(counted, claimed, strict=True)),
        sql.last(sql.when(sql.col("sign") > 0, sql.col("_known")), ignorenulls=True).over(upto).alias("_known"),
    )
    found = swept.where("last >= first").where(" or ".join(f"{name} > 0" for name in counted))
    return found.select(
        *keys, "section", "first", "last", *counted, *(sql.col("_known")[name].alias(name) for name in known)
    )


def merge(stretches: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Stretches of one key that go on where another one ended become one; of other columns, the least is kept."""
    along = Window.partitionBy(*keys).orderBy("first")
    fresh = sql.coalesce(sql.col("first") != sql.lag("last").over(along) + 1, sql.lit(True))
    marked = stretches.withColumn("_fresh", fresh.cast("bigint"))
    grouped = marked.withColumn("_group", sql.sum("_fresh").over(along.rowsBetween(Window.unboundedPreceding, 0)))
    others = [name for name in stretches.columns if name not in (*keys, "first", "last")]
    return (
        grouped.groupBy(*keys, "_group")
        .agg(
            sql.min("first").alias("first"),
            sql.max("last").alias("last"),
            *(sql.min(name).alias(name) for name in others),
        )
        .drop("_group")
    )


def earliest(points: DataFrame, marks: DataFrame, keys: Sequence[str], name: str) -> DataFrame:
    """Of each point, as `name`, the earliest `at` of marks whose `place` is not before its own, or null."""
    nothing = sql.lit(None).cast(points.select(sql.struct("*")).schema[0].dataType)
    never = sql.lit(None).cast("bigint").alias("_at")
    sides = points.select(*keys, "place", never, sql.struct("*").alias("_point")).union(
        marks.select(*keys, "place", "at", nothing)
    )
    back = Window.partitionBy(*keys).orderBy(sql.desc("place"), sql.asc_nulls_last("_at"))
    found = sides.withColumn(name, sql.min("_at").over(back.rowsBetween(Window.unboundedPreceding, 0)))
    return found.where("_point is not null").select("_point.*", name)


def sections(rows: DataFrame, first: str, last: str) -> DataFrame:
    """A row for each `section` that a range is in."""
    return rows.withColumn("section", sql.explode(sql.sequence(section(sql.col(first)), section(sql.col(last)))))


def end_in_section(last: str) -> Column:
    """Where a range ends in its section."""
    return sql.least(sql.col(last), sql.shiftleft(sql.col("section") + 1, _BITS) - 1)
