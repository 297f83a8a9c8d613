"""Trace claims: which numbers of which stream traces say to be published, stored, wanted, released and acknowledged,
and what repositories tell from their ledgers when nodes that would have told it were killed.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from stentor.model.reports.trace import LEDGER
from stentor.pipeline.traces.number_ranges import spread, sweep

STREAM: Final = ("about", "source_id", "life")
_SPANS: Final = "array<array<bigint>>"
_INTENT: Final = "where string, frontier array<array<string>>, changes array<string>"
_NUMBERS: Final = (*STREAM, "first", "last", "at", "until")


def published(traces: DataFrame) -> DataFrame:
    return traces.where("kind = 'published'").select(*_NUMBERS, "born")


def settled(traces: DataFrame) -> DataFrame:
    """What repositories have decided: stored, given up or left to others."""
    return traces.where("kind in ('stored', 'voided', 'skipped')").select(
        *_NUMBERS,
        "keeper",
        "end",
        "born",
        (sql.col("kind") == "stored").alias("is_stored"),
        from_ledger().alias("is_retold"),
        "note",
        "body",
    )


def from_ledger() -> Column:
    """Whether a repository told this again when it opened its ledger: it knows that it is so, not since when."""
    return sql.col("peer") == LEDGER


def recovered(decided: DataFrame) -> DataFrame:
    """Of what repositories have decided, that which only their ledgers told: the node was killed before it could."""
    keys = (*STREAM, "keeper", "is_stored")
    some = decided.join(decided.where("is_retold").select(*keys).distinct(), list(keys), "left_semi")
    claims = some.withColumn("claim", sql.when(sql.col("is_retold"), "again").otherwise("told"))
    swept = sweep(claims, keys, ("told", "again"), ("born",))
    return swept.where("told = 0 and again > 0").select(*keys, "first", "last", "born")


def released(traces: DataFrame) -> DataFrame:
    return _at_an_end(traces, "released")


def acknowledged(traces: DataFrame) -> DataFrame:
    return _at_an_end(traces, "acknowledged")


def synced(traces: DataFrame) -> DataFrame:
    """What repositories have durably written down: a subscriber is done with these, or they are not for it."""
    return _at_an_end(traces, "synced")


def _at_an_end(traces: DataFrame, kind: str) -> DataFrame:
    rows = traces.where(sql.col("kind") == kind).select(
        *_NUMBERS, "keeper", "subscriber", "incarnation", "catenation", "body"
    )
    return numbers(rows).drop("body")


def numbers(rows: DataFrame) -> DataFrame:
    """The same rows for each range of numbers that their bodies list."""
    return spread(rows, sql.from_json(_text(), _SPANS))


def wanted(traces: DataFrame) -> DataFrame:
    """For whom what was stored is: by each repository that stored it, and by subscriptions to everything, also of what
    was stored before they came; not what was published before a subscription begins.
    """
    stored = (
        settled(traces)
        .where("is_stored")
        .select(
            *_NUMBERS,
            "keeper",
            "born",
            # Of its number is its sequence number; of a sum of several publishers' events, at most.
            (sql.col("end") - sql.col("last")).alias("ahead"),
            sql.from_json(_text(), f"map<string, {_SPANS}>").alias("audience"),
        )
    )
    named = spread(stored.select("*", sql.explode("audience").alias("subscriber", "spans")), sql.col("spans"))
    unnamed = stored.join(sql.broadcast(_of_everything(traces)), ["about", "keeper"]).where(
        "audience is not null and coalesce(size(audience[subscriber]) > 0, true)"  # a sum may name it for some
    )
    columns = (*_NUMBERS, "keeper", "born", "ahead", "subscriber")
    claims = named.select(*columns).union(unnamed.select(*columns))
    begun = claims.join(_beginnings(traces), [*STREAM, "subscriber"], "left")
    after = sql.greatest(sql.col("first"), sql.coalesce(sql.col("floor"), sql.lit(0)) + 1)
    return begun.withColumn("first", after).where("last >= first").drop("floor")


def unknown_audiences(traces: DataFrame) -> DataFrame:
    """What was stored for somebody, and it was too long to tell for whom."""
    return settled(traces).where("is_stored and note <> 0 and body is null")


def _text() -> Column:
    return sql.col("body").cast("string")


def subscribers(traces: DataFrame) -> DataFrame:
    """Who is registered, and has not gone."""
    gone = traces.where("kind = 'unsubscribed'").select("about", "subscriber")
    there = traces.where("kind = 'subscribed'").select("about", "subscriber").distinct()
    return there.join(gone, ["about", "subscriber"], "left_anti")


def _subscriptions(traces: DataFrame) -> DataFrame:
    intent = sql.from_json(_text(), _INTENT)
    return traces.where("kind = 'subscribed'").select("about", "keeper", "subscriber", intent.alias("intent"))


def _of_everything(traces: DataFrame) -> DataFrame:
    """Who has always wanted all of a topic, by repository."""
    gone = traces.where("kind = 'unsubscribed'").select("about", "subscriber").distinct()
    where = sql.max(sql.coalesce(sql.col("intent.where"), sql.lit("?"))).alias("where")
    changes = sql.max(sql.coalesce(sql.size("intent.changes"), sql.lit(0))).alias("changes")
    ever = _subscriptions(traces).groupBy("about", "keeper", "subscriber").agg(where, changes)
    return (
        ever.where("where = '' and changes = 0")
        .join(gone, ["about", "subscriber"], "left_anti")
        .drop("where", "changes")
    )


def _beginnings(traces: DataFrame) -> DataFrame:
    """The last number of each stream before a subscription begins, if all repositories tell one."""
    rows = _subscriptions(traces)
    times = rows.groupBy("about", "subscriber").agg(sql.count("*").alias("times"))
    named = rows.select("about", "subscriber", sql.explode("intent.frontier").alias("stream")).groupBy(
        "about",
        "subscriber",
        sql.conv(sql.col("stream")[0], 16, -10).cast("bigint").alias("source_id"),
        sql.col("stream")[1].cast("bigint").alias("life"),
    )
    floors = named.agg(sql.min(sql.col("stream")[2].cast("bigint")).alias("floor"), sql.count("*").alias("told"))
    return floors.join(times, ["about", "subscriber"]).where("told = times").drop("told", "times")
