"""The audit: proves from traces that every event came once, in order and to all who want it, or lists what did not.

Each check compares claims about the same numbers that different nodes made. What a check finds is a violation unless a
hole in the traces may hide what is missing; then it is unproven.
"""

from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

from stentor.pipeline import claim
from stentor.pipeline.claim import STREAM
from stentor.pipeline.holding import Holding
from stentor.pipeline.hole import EARLIER, KILLED, OPEN, holes
from stentor.pipeline.stretch import earliest, end_in_section, merge, section, sections, sweep

VIOLATION, WARNING, UNPROVEN = "violation", "warning", "unproven"
LOST, LEFT_OUT, DUPLICATE, SWAP = "lost", "left out", "duplicate", "swap"
UNSTABLE, UNSTORED, FEWER, UNTOLD = "released before stable", "unstored", "missing copy", "untold"
KINDS: Final = (LOST, LEFT_OUT, DUPLICATE, SWAP, UNSTABLE, UNSTORED)

_END: Final = (*STREAM, "subscriber")  # a stream at a subscriber
_EVER: Final = (1 << 63) - 1
_SECOND: Final = 10**9
_ON_ITS_WAY: Final = 30 * _SECOND  # that an event may be while nobody waits for it
_SYNC: Final = 2 * _SECOND  # that an acknowledgement may take to be durable
_COLUMNS: Final = ("verdict", "kind", *STREAM, "first", "last", "subscriber", "keeper", "what")


class Audit(NamedTuple):
    """What was found, as tables; the first two have a row for each topic, and for each of its subscribers."""

    topics: DataFrame
    subscribers: DataFrame
    findings: DataFrame
    held: Holding


def audit(
    traces: DataFrame, pattern: str = "#", *, tolerance: int = 50_000_000, at_rest: bool = False, since: bool = False
) -> Audit:
    """Clocks may differ by `tolerance` nanoseconds. `at_rest`: nothing is on its way, so what waits is lost. `since`:
    the traces are those after some time, so that earlier ones are not missed.
    """
    held = Holding()
    told = held.hold(traces)
    unknown = held.hold(holes(told, at_rest=at_rest))
    about = told.where(_matches("about", pattern))
    unknown = unknown.where((sql.col("role") == "repository") | _matches("topic", pattern))
    doubts = _Doubts(unknown, tolerance)
    journeys = held.hold(_journeys(about))
    deliveries = held.hold(_deliveries(about))
    missing = held.hold(_missing(about, deliveries, at_rest=at_rest))
    repeats = held.hold(_repeats(about, deliveries, doubts))
    found = [
        _lost(about, missing, journeys, doubts),
        repeats,
        _swaps(about, repeats),
        _unstable(about, doubts),
        _unstored(about, journeys, doubts, at_rest=at_rest),
        _fewer(about, journeys, doubts),
        _untold(unknown, since=since),
        _unknown(about),
    ]
    names = about.where("source <> ''").groupBy("source_id").agg(sql.max("source").alias("source"))
    findings = reduce(DataFrame.union, (each.select(*_COLUMNS) for each in found)).join(
        sql.broadcast(names), "source_id", "left"
    )
    return Audit(_topics(journeys), _subscribers(deliveries, missing), held.hold(findings), held)


def _matches(column: str, pattern: str) -> Column:
    """Whether a topic matches a pattern with + and #."""
    parts = [r"[^/]+" if part == "+" else ".*" if part == "#" else r"\Q" + part + r"\E" for part in pattern.split("/")]
    return sql.col(column).rlike("^" + "/".join(parts).replace("/.*", "(/.*)?") + "$")


class _Doubts:
    """What holes leave open."""

    def __init__(self, unknown: DataFrame, tolerance: int) -> None:
        self.tolerance = tolerance
        hole = sql.struct(
            "since", sql.coalesce("until", sql.lit(_EVER - tolerance)).alias("until"), "why", "incarnation"
        )
        self._holes = unknown.withColumn("hole", hole)

    def of_subscribers(self, found: DataFrame) -> DataFrame:
        theirs = self._holes.where("role = 'subscriber'").groupBy(
            sql.col("topic").alias("about"), sql.col("name").alias("subscriber")
        ).agg(sql.collect_list("hole").alias("holes"))  # fmt: skip
        return found.join(sql.broadcast(theirs), ["about", "subscriber"], "left")

    def of_keepers(self, found: DataFrame) -> DataFrame:
        theirs = self._holes.where("role = 'repository'").groupBy(sql.col("name").alias("keeper")).agg(
            sql.collect_list("hole").alias("holes")
        )  # fmt: skip
        return found.join(sql.broadcast(theirs), "keeper", "left")

    def of_all_keepers(self, found: DataFrame, settled: DataFrame) -> DataFrame:
        """Of those repositories that store something of the topic."""
        keepers = settled.select("about", sql.col("keeper").alias("name")).distinct()
        theirs = self._holes.where("role = 'repository'").join(keepers, "name").groupBy("about").agg(
            sql.collect_list("hole").alias("holes")
        )  # fmt: skip
        return found.join(sql.broadcast(theirs), "about", "left")

    def judge(self, found: DataFrame, born: Column, by: Column, verdict: str = VIOLATION) -> DataFrame:
        """Whether what is missing may have been told in a hole: one that ends after the event was `born`, and begins
        before it was to be told at last. What nobody can have told yet is not judged.
        """
        latest = sql.coalesce(by, sql.lit(_EVER))

        def hides(hole: Column) -> Column:
            closed = (hole["why"] != OPEN) & (hole["since"] <= latest)
            return closed & (hole["until"] + self.tolerance >= born)

        def may(hole: Column) -> Column:
            return (hole["why"] == OPEN) & (hole["since"] < latest)

        known = sql.coalesce("holes", sql.array())
        judged = sql.when(sql.exists(known, hides), UNPROVEN).when(sql.exists(known, may), "open").otherwise(verdict)
        return found.withColumn("verdict", judged).where("verdict <> 'open'")


# ---- claims, swept


def _as(claims: DataFrame, name: str) -> DataFrame:
    return claims.withColumn("claim", sql.lit(name))


def _union(*claims: DataFrame) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), claims)


def _journeys(traces: DataFrame) -> DataFrame:
    """Of each stream, which numbers were published, stored, given up and released, and by how many."""
    settled = claim.settled(traces).drop("note", "body", "at", "start")
    ranges = settled.groupBy(*STREAM, "keeper").agg(sql.min("first").alias("first"), sql.max("last").alias("last"))
    claims = _union(
        _as(claim.published(traces).drop("at"), "published"),
        settled.withColumn("claim", sql.when(sql.col("is_stored"), "stored").otherwise("passed")).drop(
            "keeper", "is_stored"
        ),
        _as(claim.released(traces).select(*STREAM, "first", "last"), "released"),
        _as(ranges.drop("keeper"), "due"),
    )
    return sweep(claims, STREAM, ("published", "stored", "passed", "released", "due"), ("born",))


def _deliveries(traces: DataFrame) -> DataFrame:
    """Of each stream at each subscriber, which numbers are for it, were released and acknowledged."""
    claims = _union(
        _as(claim.wanted(traces).drop("at"), "wanted"),
        _as(claim.released(traces).select(*_END, "first", "last"), "released"),
        _as(claim.acknowledged(traces).select(*_END, "first", "last"), "acknowledged"),
    )
    return sweep(claims, _END, ("wanted", "released", "acknowledged"), ("keeper", "ahead", "born"))


def _missing(traces: DataFrame, deliveries: DataFrame, *, at_rest: bool) -> DataFrame:
    """What was not released to those it is for, and whether it `should` have been: later ones were."""
    given = traces.where("kind = 'released'")
    reached = given.groupBy(*_END).agg(sql.max("last").alias("reached"))
    passed = given.groupBy("about", "subscriber", "keeper").agg(sql.max("end").alias("end"))
    gone = traces.where("kind = 'unsubscribed'").select("about", "subscriber", sql.lit(True).alias("gone")).distinct()
    found = deliveries.where("wanted > 0 and released = 0").join(reached, list(_END), "left").join(
        passed, ["about", "subscriber", "keeper"], "left"
    ).join(gone, ["about", "subscriber"], "left")  # fmt: skip
    should = sql.expr("coalesce(last < reached, false) or coalesce(first + ahead < end, false)")
    rest = sql.lit(at_rest) & sql.col("gone").isNull()
    return found.withColumn("should", should | rest).drop("reached", "end", "gone")


# ---- checks


def _lost(traces: DataFrame, missing: DataFrame, journeys: DataFrame, doubts: _Doubts) -> DataFrame:
    """What was not released to a subscriber that it is for: to nobody, or to others."""
    others = journeys.select(
        *STREAM,
        "section",
        sql.col("first").alias("low"),
        sql.col("last").alias("high"),
        sql.col("released").alias("had"),
    )
    pieces = (
        missing.where("should")
        .drop("released")
        .join(others, [*STREAM, "section"])
        .where("low <= last and first <= high")
    )
    kinds = pieces.select(
        *_END,
        sql.greatest("first", "low").alias("first"),
        sql.least("last", "high").alias("last"),
        sql.when(sql.col("had") > 0, LEFT_OUT).otherwise(LOST).alias("kind"),
        "keeper",
        "born",
    )  # fmt: skip
    found = merge(kinds, (*_END, "kind")).withColumn("place", sql.col("last") + 1)
    given = traces.where("kind = 'released'").join(
        sql.broadcast(found.select(*_END).distinct()), list(_END), "left_semi"
    )
    passed = earliest(found, given.withColumn("place", sql.col("first")), _END, "by")
    judged = doubts.judge(doubts.of_subscribers(passed), sql.col("born"), sql.col("by"))
    what = sql.concat(
        sql.lit("stored by "),
        "keeper",
        sql.when(sql.col("kind") == LEFT_OUT, sql.lit(", released to others")).otherwise(
            sql.lit(", released to nobody")
        ),
    )
    return judged.withColumn("what", what)


def _repeats(traces: DataFrame, deliveries: DataFrame, doubts: _Doubts) -> DataFrame:
    """What was released twice in one life of a subscriber, or again after it had acknowledged it."""
    keys = (*_END, "incarnation")
    twice = sql.broadcast(deliveries.where("released > 1").select(*_END).distinct())
    given = claim.released(traces).join(twice, list(_END), "left_semi")
    later = given.groupBy(*keys).agg(sql.min("first").alias("low"), sql.max("last").alias("high"))
    done = claim.acknowledged(traces).join(twice, list(_END), "left_semi").select(
        *_END, "first", "last", sql.col("at").alias("done_at"), sql.col("incarnation").alias("done_in")
    )  # fmt: skip
    before = done.join(later, list(_END)).where("incarnation > done_in and last >= low and first <= high")
    claims = _union(_as(given.select(*keys, "first", "last"), "released"), _as(before.drop("low", "high"), "done"))
    swept = sweep(claims, keys, ("released", "done"), ("done_at", "done_in"))
    found = swept.where("released > 1 or (released > 0 and done > 0)").withColumn("again", sql.col("released") > 1)
    merged = merge(found.select(*keys, "again", "first", "last", "done_at", "done_in"), (*keys, "again"))

    def unsynced(hole: Column) -> Column:
        killed = (hole["why"] == KILLED) & (hole["incarnation"] == sql.col("done_in"))
        return killed & (hole["since"] - _SYNC <= sql.col("done_at"))

    excused = ~sql.col("again") & sql.exists(sql.coalesce("holes", sql.array()), unsynced)
    what = sql.when(sql.col("again"), "released twice in one life of the subscriber")
    what = what.when(excused, "acknowledged just before the subscriber was killed, and released again")
    return doubts.of_subscribers(merged).select(
        sql.when(excused, UNPROVEN).otherwise(VIOLATION).alias("verdict"),
        sql.lit(DUPLICATE).alias("kind"),
        *keys,
        "first",
        "last",
        sql.lit("").alias("keeper"),
        what.otherwise("released again after it was acknowledged").alias("what"),
    )


def _swaps(traces: DataFrame, repeats: DataFrame) -> DataFrame:
    """What was released after later ones of its stream."""
    keys = (*_END, "incarnation")
    along = Window.partitionBy(*keys).orderBy("catenation").rowsBetween(Window.unboundedPreceding, -1)
    found = (
        traces.where("kind = 'released'").withColumn("highest", sql.max("last").over(along)).where("first <= highest")
    )
    again = repeats.select(*keys, sql.col("first").alias("low"), sql.col("last").alias("high"))
    same = [found[key].eqNullSafe(again[key]) for key in keys]
    swapped = found.join(
        again, [*same, sql.col("low") <= found["last"], found["first"] <= sql.col("high")], "left_anti"
    )
    return swapped.select(
        sql.lit(VIOLATION).alias("verdict"),
        sql.lit(SWAP).alias("kind"),
        *_END,
        "first",
        "last",
        "keeper",
        sql.concat(sql.lit("released after "), sql.col("highest").cast("string")).alias("what"),
    )


def _unstable(traces: DataFrame, doubts: _Doubts) -> DataFrame:
    """What was released under a sequence number that its repository had not told to be stable by then."""
    columns = (*_END, "first", "last", "keeper", "at", "born")
    given = traces.where("kind = 'released' and keeper <> ''").select(
        *columns, sql.col("end").alias("place"), section(sql.col("end")).alias("section")
    )
    stable = sections(traces.where("kind = 'stable'").select("about", "keeper", "at", "start", "end"), "start", "end")
    keys = ("about", "keeper", "section")
    found = earliest(given, stable.select(*keys, "at", end_in_section("end").alias("place")), keys, "stable_at")
    early = found.where(sql.col("stable_at").isNull() | (sql.col("stable_at") > sql.col("at") + doubts.tolerance))
    judged = doubts.judge(doubts.of_keepers(early), sql.col("born"), sql.col("at") + doubts.tolerance)
    ahead = ((sql.col("stable_at") - sql.col("at")) / 1e6).cast("decimal(18,1)").cast("string")
    what = sql.when(sql.col("stable_at").isNull(), sql.lit("never told to be stable")).otherwise(
        sql.concat(sql.lit("stable "), ahead, sql.lit(" ms later"))
    )
    return judged.withColumn("kind", sql.lit(UNSTABLE)).withColumn("what", what)


def _unstored(traces: DataFrame, journeys: DataFrame, doubts: _Doubts, *, at_rest: bool) -> DataFrame:
    """What was published and is stored nowhere, though later ones are, and readers have passed it or it is long ago."""
    settled = claim.settled(traces)
    reached = settled.groupBy(*STREAM).agg(sql.max("last").alias("reached"))
    newest = settled.agg(sql.max("at").alias("newest"))
    never = journeys.where("published > 0 and stored = 0 and passed = 0").join(reached, list(STREAM), "left").crossJoin(
        sql.broadcast(newest)
    )  # fmt: skip
    due = never.where(sql.lit(at_rest) | (sql.col("last") < sql.col("reached")))
    found = merge(due.select(*STREAM, "first", "last", "born", "newest"), STREAM).withColumn(
        "place", sql.col("last") + 1
    )
    given = traces.where("kind = 'released'").join(
        sql.broadcast(found.select(*STREAM).distinct()), list(STREAM), "left_semi"
    )
    passed = earliest(found, given.withColumn("place", sql.col("first")), STREAM, "by")
    late = passed.where(
        sql.lit(at_rest) | sql.col("by").isNotNull() | (sql.col("newest") - sql.col("born") > _ON_ITS_WAY)
    )
    judged = doubts.judge(doubts.of_all_keepers(late, settled), sql.col("born"), sql.col("by"))
    return _of_stream(judged, UNSTORED, sql.lit("published, and stored by no repository"))


def _fewer(traces: DataFrame, journeys: DataFrame, doubts: _Doubts) -> DataFrame:
    """What fewer repositories have than have earlier and later ones."""
    settled = claim.settled(traces)
    copies = sql.col("stored") + sql.col("passed")
    rows = journeys.where("stored > 0").where(copies < sql.col("due"))
    found = merge(rows.select(*STREAM, "stored", "due", "first", "last", "born"), (*STREAM, "stored", "due"))
    judged = doubts.judge(doubts.of_all_keepers(found, settled), sql.col("born"), sql.lit(None).cast("bigint"), WARNING)
    return _of_stream(judged, FEWER, sql.format_string("on %d repositories of %d", "stored", "due"))


def _of_stream(found: DataFrame, kind: str, what: Column) -> DataFrame:
    empty = sql.lit("")
    return found.withColumns({"kind": sql.lit(kind), "subscriber": empty, "keeper": empty, "what": what})


def _untold(unknown: DataFrame, *, since: bool) -> DataFrame:
    """The holes themselves: also what seems to be right may have gone wrong in them."""
    found = unknown.where(sql.col("why") != OPEN).where(sql.lit(not since) | (sql.col("why") != EARLIER))
    many = sql.concat(sql.col("count").cast("string"), sql.lit(" traces"))
    reason = sql.when(sql.col("why") == KILLED, sql.lit("was killed: nothing more is known of it")).when(
        sql.col("why") == EARLIER, sql.concat(many, sql.lit(" before its first one are not kept"))
    ).when(sql.col("why") == "dropped", sql.concat(sql.lit("had no room for "), many)).otherwise(
        sql.concat(many, sql.lit(" are lost"))
    )  # fmt: skip
    zero = sql.lit(0).cast("bigint")
    when = sql.date_format(
        sql.timestamp_micros((sql.greatest("since", sql.lit(0)) / 1000).cast("bigint")), "HH:mm:ss.SSS"
    )
    return found.select(
        sql.lit(UNPROVEN).alias("verdict"),
        sql.lit(UNTOLD).alias("kind"),
        sql.col("topic").alias("about"),
        zero.alias("source_id"),
        zero.alias("life"),
        zero.alias("first"),
        zero.alias("last"),
        sql.when(sql.col("role") == "subscriber", sql.col("name")).otherwise("").alias("subscriber"),
        sql.when(sql.col("role") == "repository", sql.col("name")).otherwise("").alias("keeper"),
        sql.concat(
            "node",
            sql.lit(" "),
            reason,
            sql.when(sql.col("since") > 0, sql.concat(sql.lit(", after "), when)).otherwise(""),
        ).alias("what"),
    )


def _unknown(traces: DataFrame) -> DataFrame:
    found = claim.unknown_audiences(traces).withColumns(
        {"verdict": sql.lit(UNPROVEN), "kind": sql.lit(UNTOLD), "subscriber": sql.lit("")}
    )
    return found.withColumn("what", sql.lit("it is not told for whom these are stored"))


# ---- sums


def _topics(journeys: DataFrame) -> DataFrame:
    return journeys.groupBy("about").agg(
        _numbers("published > 0").alias("published"),
        _numbers("stored > 0").alias("stored"),
        _numbers("stored = 0 and passed > 0").alias("given_up"),
    )


def _subscribers(deliveries: DataFrame, missing: DataFrame) -> DataFrame:
    sums = deliveries.groupBy("about", "subscriber").agg(
        _numbers("wanted > 0").alias("wanted"),
        _numbers("released > 0").alias("released"),
        sql.sum(sql.expr("if(released > 1, (released - 1) * (last - first + 1), 0)")).alias("again"),
        _numbers("acknowledged > 0").alias("acknowledged"),
    )
    waiting = missing.where("not should").groupBy("about", "subscriber").agg(_numbers("true").alias("waiting"))
    return sums.join(waiting, ["about", "subscriber"], "left").fillna(0, ["waiting"])


def _numbers(condition: str) -> Column:
    return sql.sum(sql.expr(f"if({condition}, last - first + 1, 0)"))
