"""The audit proves from traces that every event came once, in order and to all who want it, or lists what did not.

Each check compares claims that different nodes made about the same numbers. A finding is a violation, unless a gap in
the traces may hide what is missing and no ledger knows it either: then it is unproven.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

from stentor.pipeline.traces import trace_claims
from stentor.pipeline.traces.cached_tables import CachedTables
from stentor.pipeline.traces.doubt import ON_ITS_WAY, SECOND, UNPROVEN, VIOLATION, WARNING, Doubts
from stentor.pipeline.traces.number_ranges import earliest, end_in_section, merge, section, sections, sweep
from stentor.pipeline.traces.trace_claims import STREAM
from stentor.pipeline.traces.trace_gaps import EARLIER, KILLED, OPEN, holes

LOST, LEFT_OUT, DUPLICATE, SWAP = "lost", "left out", "duplicate", "swap"
UNSTABLE, UNSTORED, FEWER, UNTOLD = "released before stable", "unstored", "missing copy", "untold"
KINDS: Final = (LOST, LEFT_OUT, DUPLICATE, SWAP, UNSTABLE, UNSTORED)

_END: Final = (*STREAM, "subscriber")  # a stream at a subscriber
_SYNC: Final = 2 * SECOND  # that an acknowledgement may take to be durable
_SYNC_TOLD: Final = 20 * SECOND  # that it may take until a repository has told of it, which sums things up first
_COLUMNS: Final = ("verdict", "kind", *STREAM, "first", "last", "subscriber", "keeper", "what")


class Audit(NamedTuple):
    """What was found, as tables; the first two have a row for each topic, and for each of its subscribers. `killed` has
    one for each life of a node that did not end in good order.
    """

    topics: DataFrame
    subscribers: DataFrame
    findings: DataFrame
    killed: DataFrame
    held: CachedTables


def audit(
    traces: DataFrame, pattern: str = "#", *, tolerance: int = 50_000_000, at_rest: bool = False, since: bool = False
) -> Audit:
    """Clocks may differ by `tolerance` nanoseconds. `at_rest`: nothing is on its way, so what waits is lost. `since`:
    the traces are those after some time, so that earlier ones are not missed.
    """
    held = CachedTables()
    told = held.hold(traces)
    unknown = held.hold(holes(told, at_rest=at_rest))
    about = told.where(_matches("about", pattern))
    unknown = unknown.where((sql.col("role") == "repository") | _matches("topic", pattern))
    newest = told.agg(sql.max("until").alias("newest"))
    doubts = Doubts(unknown, newest, trace_claims.synced(about), tolerance, at_rest=at_rest)
    recovered = held.hold(trace_claims.recovered(trace_claims.settled(about)))
    journeys = held.hold(_journeys(about, recovered))
    deliveries = held.hold(_deliveries(about))
    unreleased = held.hold(_unreleased(about, deliveries, at_rest=at_rest))
    missing = unreleased.where("not is_synced or is_inside")
    acknowledged = unreleased.where("is_synced and not is_inside")
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
    subscribers = _subscribers(about, deliveries, missing, acknowledged)
    killed = unknown.where(sql.col("why") == KILLED)
    return Audit(_topics(about, journeys, recovered), subscribers, held.hold(findings), killed, held)


def _matches(column: str, pattern: str) -> Column:
    """Whether a topic matches a pattern with + and #."""
    parts = [r"[^/]+" if part == "+" else ".*" if part == "#" else r"\Q" + part + r"\E" for part in pattern.split("/")]
    return sql.col(column).rlike("^" + "/".join(parts).replace("/.*", "(/.*)?") + "$")


# ---- claims, swept


def _as(claims: DataFrame, name: str) -> DataFrame:
    return claims.withColumn("claim", sql.lit(name))


def _union(*claims: DataFrame) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), claims)


def _journeys(traces: DataFrame, recovered: DataFrame) -> DataFrame:
    """Of each stream, which numbers were published, stored, given up and released, and by how many. What a repository
    told twice, also from its ledger, it has once.
    """
    columns = (*STREAM, "keeper", "is_stored", "first", "last", "born")
    settled = trace_claims.settled(traces).where("not is_retold").select(*columns).union(recovered.select(*columns))
    ranges = settled.groupBy(*STREAM, "keeper").agg(sql.min("first").alias("first"), sql.max("last").alias("last"))
    claims = _union(
        _as(trace_claims.published(traces).drop("at", "until"), "published"),
        settled.withColumn("claim", sql.when(sql.col("is_stored"), "stored").otherwise("passed")).drop(
            "keeper", "is_stored"
        ),
        _as(trace_claims.released(traces).select(*STREAM, "first", "last"), "released"),
        _as(ranges.drop("keeper"), "due"),
    )
    return sweep(claims, STREAM, ("published", "stored", "passed", "released", "due"), ("born",))


def _deliveries(traces: DataFrame) -> DataFrame:
    """Of each stream at each subscriber, which numbers are for it, were released, acknowledged, and durably so."""
    synced = trace_claims.synced(traces).groupBy(*_END, "first").agg(sql.max("last").alias("last"))
    claims = _union(
        _as(trace_claims.wanted(traces).drop("at", "until"), "wanted"),
        _as(trace_claims.released(traces).select(*_END, "first", "last"), "released"),
        _as(trace_claims.acknowledged(traces).select(*_END, "first", "last"), "acknowledged"),
        _as(synced, "synced"),
    )
    return sweep(claims, _END, ("wanted", "released", "acknowledged", "synced"), ("keeper", "ahead", "born"))


def _unreleased(traces: DataFrame, deliveries: DataFrame, *, at_rest: bool) -> DataFrame:
    """What nobody told to be released to those it is for.

    It `should` have been if later ones were. It `is_synced` if a ledger knows that it was acknowledged: so it was
    released, to a life that could not tell. But a life tells what it releases in order: what `is_inside` of the
    numbers that one life told was not released to that life, whatever a ledger believes.
    """
    given = traces.where("kind = 'released'")
    lives = given.groupBy(*_END, "incarnation").agg(sql.min("first").alias("low"), sql.max("last").alias("high"))
    reached = lives.groupBy(*_END).agg(
        sql.max("high").alias("reached"), sql.collect_list(sql.struct("low", "high")).alias("lives")
    )
    # who reads what is stored comes for it, and tells nothing: it is never late
    acting = given.select("about", "subscriber").distinct()
    reading = deliveries.where("wanted > 0 and synced > 0").select("about", "subscriber").distinct()
    readers = reading.join(acting, ["about", "subscriber"], "left_anti").withColumn("is_reader", sql.lit(True))
    passed = given.groupBy("about", "subscriber", "keeper").agg(sql.max("end").alias("end"))
    gone = traces.where("kind = 'unsubscribed'").select("about", "subscriber", sql.lit(True).alias("gone")).distinct()
    found = deliveries.where("wanted > 0 and released = 0").join(reached, list(_END), "left")
    found = found.join(passed, ["about", "subscriber", "keeper"], "left")
    found = found.join(gone, ["about", "subscriber"], "left").join(readers, ["about", "subscriber"], "left")
    should = sql.expr("coalesce(last < reached, false) or coalesce(first + ahead < end, false)")
    rest = sql.lit(at_rest) & sql.col("gone").isNull() & sql.col("is_reader").isNull()
    inside = sql.expr("coalesce(exists(lives, life -> life.low < first and last < life.high), false)")
    return found.withColumns({"should": should | rest, "is_inside": inside, "is_synced": sql.col("synced") > 0}).drop(
        "reached", "end", "gone", "is_reader", "lives"
    )


# ---- checks


def _lost(traces: DataFrame, missing: DataFrame, journeys: DataFrame, doubts: Doubts) -> DataFrame:
    """What was not released to a subscriber that it is for: to nobody, or to others. Between two of its lives there may
    have been one that told nothing: what that one acknowledged, ledgers tell soon.
    """
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
        "is_inside",
        "is_synced",
    )
    found = merge(kinds, (*_END, "kind", "is_inside", "is_synced")).withColumn("place", sql.col("last") + 1)
    given = _passing(traces).join(sql.broadcast(found.select(*_END).distinct()), list(_END), "left_semi")
    passed = earliest(found, given, _END, "by")
    born, by = sql.col("born"), sql.col("by")
    judged = doubts.judge(doubts.of_subscribers(passed), born, by).where(f"verdict <> '{UNPROVEN}' or not is_synced")
    told_by = by + _SYNC_TOLD
    unknown = doubts.of_all_keepers(judged.drop("holes"), trace_claims.settled(traces)).crossJoin(
        sql.broadcast(doubts.newest)
    )
    is_between = sql.col("verdict").eqNullSafe(VIOLATION) & ~sql.col("is_inside")
    judged = unknown.where(
        sql.lit(doubts.at_rest) | ~is_between | sql.coalesce(sql.col("newest") > told_by, sql.lit(True))
    ).withColumn(
        "verdict", sql.when(is_between & doubts.is_hidden(born, told_by), UNPROVEN).otherwise(sql.col("verdict"))
    )
    what = sql.concat(
        sql.lit("stored by "),
        "keeper",
        sql.when(sql.col("kind") == LEFT_OUT, sql.lit(", released to others")).otherwise(
            sql.lit(", released to nobody")
        ),
    )
    return judged.withColumn("what", what)


def _passing(traces: DataFrame) -> DataFrame:
    """Numbers that were released, and by when at the latest."""
    return trace_claims.released(traces).select(*_END, sql.col("first").alias("place"), sql.col("until").alias("at"))


def _repeats(traces: DataFrame, deliveries: DataFrame, doubts: Doubts) -> DataFrame:
    """What was released twice in one life of a subscriber, or again after it had acknowledged it."""
    keys = (*_END, "incarnation")
    twice = sql.broadcast(deliveries.where("released > 1").select(*_END).distinct())
    given = trace_claims.released(traces).join(twice, list(_END), "left_semi")
    later = _ranges(given, *keys)
    when = (sql.col("until").alias("done_at"), sql.col("incarnation").alias("done_in"))
    done = trace_claims.acknowledged(traces).join(twice, list(_END), "left_semi")
    done = done.select(*_END, "first", "last", *when)
    before = done.join(later, list(_END)).where("incarnation > done_in and last >= low and first <= high")
    claims = _union(
        _as(given.select(*keys, "first", "last"), "released"),
        _as(before.drop("low", "high", "began_at"), "done"),
        _as(_durable_before(traces, _ranges(given, *keys, "keeper"), doubts.tolerance), "durable"),
    )
    swept = sweep(claims, keys, ("released", "done", "durable"), ("done_at", "done_in"))
    found = swept.where("released > 1 or (released > 0 and done + durable > 0)").withColumns(
        {"again": sql.col("released") > 1, "durable": sql.col("durable") > 0}
    )
    merged = merge(
        found.select(*keys, "again", "durable", "first", "last", "done_at", "done_in"), (*keys, "again", "durable")
    )

    def unsynced(hole: Column) -> Column:
        killed = (hole["why"] == KILLED) & (hole["incarnation"] == sql.col("done_in"))
        return killed & (hole["since"] - _SYNC <= sql.col("done_at"))

    # an acknowledgement is promised to last once it is durable, and what is not acknowledged comes again
    excused = ~sql.col("again") & ~sql.col("durable") & sql.exists(sql.coalesce("holes", sql.array()), unsynced)
    what = sql.when(sql.col("again"), "released twice in one life of the subscriber")
    what = what.when(sql.col("durable"), "released again after its acknowledgement was durable")
    return (
        doubts.of_subscribers(merged)
        .where(~excused)
        .select(
            sql.lit(VIOLATION).alias("verdict"),
            sql.lit(DUPLICATE).alias("kind"),
            *keys,
            "first",
            "last",
            sql.lit("").alias("keeper"),
            what.otherwise("released again after it was acknowledged").alias("what"),
        )
    )


def _ranges(given: DataFrame, *keys: str) -> DataFrame:
    """From where to where releases go, and when they began."""
    return given.groupBy(*keys).agg(
        sql.min("first").alias("low"), sql.max("last").alias("high"), sql.min("at").alias("began_at")
    )


def _durable_before(traces: DataFrame, later: DataFrame, tolerance: int) -> DataFrame:
    """What a repository had written down as acknowledged before a life began to which it released later ones."""
    gone = traces.where("kind = 'unsubscribed'").select("about", "subscriber")
    noted = trace_claims.synced(traces).drop("incarnation", "catenation").join(later, [*_END, "keeper"])
    noted = noted.where(sql.col("until") + tolerance < sql.col("began_at"))
    noted = noted.join(gone, ["about", "subscriber"], "left_anti")
    clipped = noted.select(
        *_END, "incarnation", sql.greatest("first", "low").alias("first"), sql.least("last", "high").alias("last")
    )
    return clipped.where("last >= first").groupBy(*_END, "incarnation", "first").agg(sql.max("last").alias("last"))


def _swaps(traces: DataFrame, repeats: DataFrame) -> DataFrame:
    """What was released after later ones of its stream."""
    keys = (*_END, "incarnation")
    along = Window.partitionBy(*keys).orderBy("catenation").rowsBetween(Window.unboundedPreceding, -1)
    rows = traces.where("kind = 'released'").withColumn("highest", sql.max("last").over(along))
    parts = trace_claims.numbers(rows).where("first <= highest")
    found = parts.withColumn("last", sql.least("last", "highest"))  # a sum goes on behind what came late
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


def _unstable(traces: DataFrame, doubts: Doubts) -> DataFrame:
    """What was released under a sequence number that its repository had not told to be stable by then. Of sums it is
    known whether all of them was told, and when only if all of one was before all of the other.
    """
    columns = (*_END, "first", "last", "keeper", "born")
    given = traces.where("kind = 'released' and keeper <> ''").select(
        *columns, sql.col("until").alias("at"), sql.col("end").alias("place"), section(sql.col("end")).alias("section")
    )
    rows = traces.where("kind = 'stable'").select(
        "about", "keeper", "at", "start", "end", trace_claims.from_ledger().alias("again")
    )
    stable = sections(rows, "start", "end")
    keys = ("about", "keeper", "section")
    first_told = stable.where("not again").select(*keys, "at", end_in_section("end").alias("place"))
    found = earliest(given, first_told, keys, "stable_at")
    early = found.where(sql.col("stable_at").isNull() | (sql.col("stable_at") > sql.col("at") + doubts.tolerance))
    early = _without_recovered(early, stable, keys).unionByName(_uncovered(traces, rows), allowMissingColumns=True)
    judged = doubts.judge(doubts.of_keepers(early), sql.col("born"), sql.col("at") + doubts.tolerance)
    ahead = ((sql.col("stable_at") - sql.col("at")) / 1e6).cast("decimal(18,1)").cast("string")
    what = sql.when(sql.col("stable_at").isNull(), sql.lit("never told to be stable")).otherwise(
        sql.concat(sql.lit("stable "), ahead, sql.lit(" ms later"))
    )
    return judged.withColumn("kind", sql.lit(UNSTABLE)).withColumn("what", what)


def _uncovered(traces: DataFrame, stable: DataFrame) -> DataFrame:
    """Sums of releases with sequence numbers that were never told to be stable."""
    sums = traces.where("kind = 'released' and keeper <> '' and is_sum")
    span = (sql.col("start").alias("first"), sql.col("end").alias("last"))
    claims = _union(
        _as(sums.select("about", "keeper", *span), "given"), _as(stable.select("about", "keeper", *span), "stable")
    )
    gaps = sweep(claims, ("about", "keeper"), ("given", "stable")).where("given > 0 and stable = 0")
    named = gaps.select("about", "keeper", sql.col("first").alias("low"), sql.col("last").alias("high"))
    pairs = sums.join(named, ["about", "keeper"]).where("low <= end and start <= high")
    is_whole = sql.expr("count = end - start + 1 and count = last - first + 1")
    first = sql.when(is_whole, sql.expr("first + greatest(low - start, 0)")).otherwise(sql.col("first"))
    last = sql.when(is_whole, sql.expr("last - greatest(end - high, 0)")).otherwise(sql.col("last"))
    never = sql.lit(None).cast("bigint").alias("stable_at")
    return pairs.select(
        *_END, first.alias("first"), last.alias("last"), "keeper", "born", sql.col("until").alias("at"), never
    )


def _without_recovered(early: DataFrame, stable: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Without what only the ledger of its repository tells to be stable: it was killed before it could say when."""
    told = stable.select(*keys, "start", "end", "again")
    around = early.select("keeper", "about", "section", "place").distinct().join(told, list(keys))
    around = around.where("start <= place and place <= end")
    recovered = around.groupBy(*keys, "place").agg(sql.min("again").alias("recovered")).where("recovered")
    return early.join(recovered, [*keys, "place"], "left_anti")


def _unstored(traces: DataFrame, journeys: DataFrame, doubts: Doubts, *, at_rest: bool) -> DataFrame:
    """What was published and is stored nowhere, though later ones are, and readers have passed it or it is long ago."""
    settled = trace_claims.settled(traces)
    reached = settled.groupBy(*STREAM).agg(sql.max("last").alias("reached"))
    newest = settled.agg(sql.max("until").alias("newest"))
    never = journeys.where("published > 0 and stored = 0 and passed = 0").join(reached, list(STREAM), "left")
    never = never.crossJoin(sql.broadcast(newest))
    due = never.where(sql.lit(at_rest) | (sql.col("last") < sql.col("reached")))
    found = merge(due.select(*STREAM, "first", "last", "born", "newest"), STREAM).withColumn(
        "place", sql.col("last") + 1
    )
    given = _passing(traces).join(sql.broadcast(found.select(*STREAM).distinct()), list(STREAM), "left_semi")
    passed = earliest(found, given, STREAM, "by")
    late = passed.where(
        sql.lit(at_rest) | sql.col("by").isNotNull() | (sql.col("newest") - sql.col("born") > ON_ITS_WAY)
    )
    told_by = sql.coalesce(sql.col("by"), sql.col("born") + ON_ITS_WAY)
    judged = doubts.judge(doubts.of_all_keepers(late, settled), sql.col("born"), told_by)
    return _of_stream(judged, UNSTORED, sql.lit("published, and stored by no repository"))


def _fewer(traces: DataFrame, journeys: DataFrame, doubts: Doubts) -> DataFrame:
    """What fewer repositories have than have earlier and later ones."""
    settled = trace_claims.settled(traces)
    copies = sql.col("stored") + sql.col("passed")
    rows = journeys.where("stored > 0").where(copies < sql.col("due"))
    found = merge(rows.select(*STREAM, "stored", "due", "first", "last", "born"), (*STREAM, "stored", "due"))
    told_by = sql.col("born") + ON_ITS_WAY
    judged = doubts.judge(doubts.of_all_keepers(found, settled), sql.col("born"), told_by, WARNING)
    return _of_stream(judged, FEWER, sql.format_string("on %d repositories of %d", "stored", "due"))


def _of_stream(found: DataFrame, kind: str, what: Column) -> DataFrame:
    empty = sql.lit("")
    return found.withColumns({"kind": sql.lit(kind), "subscriber": empty, "keeper": empty, "what": what})


def _untold(unknown: DataFrame, *, since: bool) -> DataFrame:
    """The holes themselves: also what seems to be right may have gone wrong in them. But what was promised to a node
    that was killed, or of what it had, ledgers know.
    """
    found = unknown.where(~sql.col("why").isin(OPEN, KILLED)).where(sql.lit(not since) | (sql.col("why") != EARLIER))
    many = sql.concat(sql.col("count").cast("string"), sql.lit(" traces"))
    reason = sql.when(sql.col("why") == EARLIER, sql.concat(many, sql.lit(" before its first one are not kept")))
    reason = reason.when(sql.col("why") == "dropped", sql.concat(sql.lit("had no room for "), many))
    reason = reason.otherwise(sql.concat(many, sql.lit(" are lost")))
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
    found = trace_claims.unknown_audiences(traces).withColumns(
        {"verdict": sql.lit(UNPROVEN), "kind": sql.lit(UNTOLD), "subscriber": sql.lit("")}
    )
    return found.withColumn("what", sql.lit("it is not told for whom these are stored"))


# ---- sums


def _topics(traces: DataFrame, journeys: DataFrame, recovered: DataFrame) -> DataFrame:
    """What is known of each topic, and whether some of that comes from sums."""
    summed = traces.groupBy("about").agg(sql.max("is_sum").alias("summed"))
    sums = journeys.groupBy("about").agg(
        _numbers("published > 0 or stored > 0").alias("published"),  # a killed publisher has not told all
        _numbers("stored > 0").alias("stored"),
        _numbers("stored = 0 and passed > 0").alias("given_up"),
    )
    ledgers = recovered.where("is_stored").groupBy("about").agg(_numbers("true").alias("from_ledgers"))
    return sums.join(ledgers, "about", "left").fillna(0, ["from_ledgers"]).join(summed, "about")


def _subscribers(traces: DataFrame, deliveries: DataFrame, missing: DataFrame, acknowledged: DataFrame) -> DataFrame:
    """All who are registered or were given something; what ledgers know to be acknowledged counts as both."""
    keys = ["about", "subscriber"]
    sums = deliveries.groupBy(*keys).agg(
        _numbers("wanted > 0 or released > 0").alias("wanted"),
        _numbers("released > 0").alias("released"),
        sql.sum(sql.expr("if(released > 1, (released - 1) * (last - first + 1), 0)")).alias("again"),
        _numbers("acknowledged > 0 or (released > 0 and synced > 0)").alias("acknowledged"),
    )
    waiting = missing.where("not should").groupBy(*keys).agg(_numbers("true").alias("waiting"))
    ledgers = acknowledged.groupBy(*keys).agg(_numbers("true").alias("from_ledgers"))
    found = (
        sums.join(trace_claims.subscribers(traces), keys, "full")
        .join(waiting, keys, "left")
        .join(ledgers, keys, "left")
    )
    told = found.fillna(0)
    return told.withColumns({name: sql.col(name) + sql.col("from_ledgers") for name in ("released", "acknowledged")})


def _numbers(condition: str) -> Column:
    return sql.sum(sql.expr(f"if({condition}, last - first + 1, 0)"))
