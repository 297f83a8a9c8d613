"""The audit: what is planted is found, and nothing else. Each tale is one topic of a fabric that is audited once."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from tests.end_to_end.command import in_process
from tests.end_to_end.network import until
from tests.spark.stage import Stage
from tests.spark.tale import MILLISECOND, START, Row, Tale, frame

from stentor.pipeline.traces import trace_claims, traces
from stentor.pipeline.traces.audit import audit

pytestmark = pytest.mark.req("SP-05")
LATER, MUCH_LATER = START + 2 * 10**9, START + 90 * 10**9  # when all has happened; when somebody tells something else
Finding = tuple[str, str, str, str, int, int]  # verdict, kind, publisher, subscriber, numbers


def _of(tale: Tale, first: int, *kinds: str) -> list[Row]:
    """What is told of a batch of the shop."""
    rows = [row for row in tale.rows if row["kind"] in kinds and row["source_id"] == 7 and row["first"] == first]
    assert rows
    return rows


def _shorten(rows: list[Row]) -> None:
    """Without the first two numbers."""
    for row in rows:
        body = b"[[0,0],[3,7]]" if row["subscriber"] == "some" else row["body"]
        row.update(first=row["first"] + 2, count=row["count"] - 2, body=body)


def _without(tale: Tale, rows: list[Row]) -> None:
    tale.rows = [row for row in tale.rows if not any(row is each for each in rows)]


def _healthy(tale: Tale) -> None:
    assert len(tale.rows) > 150


def _lost(tale: Tale) -> None:
    _shorten(_of(tale, 31, "released", "acknowledged"))


def _left_out(tale: Tale) -> None:
    _shorten([row for row in _of(tale, 31, "released", "acknowledged") if row["subscriber"] == "all"])


def _unnamed(tale: Tale) -> None:
    """Whoever wants everything is not named by the repositories, and is not given it."""
    for row in _of(tale, 31, "stored"):
        row["body"] = row["body"].replace(b'"all": [], ', b"")
    _without(tale, [row for row in _of(tale, 31, "released", "acknowledged") if row["subscriber"] == "all"])


def _twice(tale: Tale) -> None:
    (row,) = [row for row in _of(tale, 31, "released") if row["subscriber"] == "all"]
    tale.rows.insert(tale.rows.index(row) + 1, dict(row, at=row["at"] + 1))


def _acknowledged(tale: Tale) -> None:
    """The second life of a subscriber is given what the first one had acknowledged."""
    (row,) = [row for row in _of(tale, 41, "released") if row["subscriber"] == "half"]
    later = next(row for row in _of(tale, 51, "released") if row["incarnation"] == 2)
    tale.rows.insert(tale.rows.index(later), dict(row, at=later["at"], incarnation=2))


def _swap(tale: Tale) -> None:
    one, other = (next(row for row in _of(tale, first, "released") if row["subscriber"] == "all") for first in (31, 41))
    here, there = tale.rows.index(one), tale.rows.index(other)
    tale.rows[here], tale.rows[there] = dict(other, at=one["at"] + 20 * MILLISECOND), dict(one, at=other["at"])
    for row in tale.rows:  # both were stable by then
        if row["kind"] == "stable" and row["end"] == 50:
            row["at"] = one["at"]


def _early(tale: Tale) -> None:
    for row in _of(tale, 31, "released"):
        if row["subscriber"] == "all":
            row["at"] -= 60 * MILLISECOND


def _never_stable(tale: Tale) -> None:
    _without(tale, [row for row in tale.rows if row["kind"] == "stable" and row["end"] == 40 and "r2" in row["node"]])


def _unstored(tale: Tale) -> None:
    _without(tale, _of(tale, 31, "stored", "released", "acknowledged"))


def _fewer(tale: Tale) -> None:
    _without(tale, [row for row in _of(tale, 31, "stored") if "r2" in row["node"]])


def _killed(tale: Tale) -> None:
    """The first life of a subscriber is killed after it acknowledged what it was given, and told neither."""
    rows = [
        row for row in tale.rows if row["subscriber"] == "half" and row["source_id"] == 7 and row["first"] in (41, 51)
    ]
    ended = [row for row in tale.rows if row["kind"] == "ended" and row["incarnation"] == 1 and "half" in row["node"]]
    _without(tale, [*rows, *ended])


def _killed_and_known(tale: Tale) -> None:
    """The same, and a ledger knows what it acknowledged."""
    _killed(tale)
    tale.sync("half", 1, 60, LATER)


def _killed_and_passed(tale: Tale) -> None:
    """A ledger knows of some, and the next life of the subscriber was never given the rest."""
    _killed(tale)
    tale.sync("half", 1, 50, LATER)


def _killed_and_jumped(tale: Tale) -> None:
    """A cursor went over what no life of the subscriber was given: the one around it would have told."""
    _lost(tale)
    _killed(tale)
    for name in ("all", "some", "half"):
        tale.sync(name, 1, 100, LATER)


def _killed_and_given_again(tale: Tale) -> None:
    """An acknowledgement was not durable when the subscriber was killed: what it is about comes again."""
    _acknowledged(tale)
    _without(
        tale, [row for row in tale.rows if row["kind"] == "ended" and "half" in row["node"] and row["incarnation"] == 1]
    )
    tale.sync("half", 1, 40, LATER)


def _durable_and_given_again(tale: Tale) -> None:
    """… was durable, and it is given again nevertheless."""
    _killed_and_given_again(tale)
    (row,) = [row for row in _of(tale, 41, "released") if row["incarnation"] == 2]
    tale.sync("half", 41, 42, row["at"] - 60 * MILLISECOND)


def _kill_repository(tale: Tale, *lost: int) -> list[Row]:
    """A repository is killed before it tells of some batches; what its next life tells is another one's."""
    mine = [row for row in tale.rows if row["node"].startswith("repository:r1")]
    untold = [row for row in mine if row["kind"] in ("stored", "stable") and row["start"] in lost]
    assert untold
    for row in mine[mine.index(untold[0]) :]:
        row["incarnation"] = 2
    _without(tale, untold)
    return untold


def _repository_is_back(tale: Tale) -> None:
    """Its next life tells from its ledger what the first one had not told, and some that it had."""
    untold = _kill_repository(tale, 31, 41)
    told = [row for row in tale.rows if row["node"].startswith("repository:r1") and row["start"] == 21]
    place = next(at for at, row in enumerate(tale.rows) if row["incarnation"] == 2 and "r1" in row["node"])
    tale.rows[place:place] = [
        dict(row, incarnation=2, peer="ledger", at=row["at"] + 400 * MILLISECOND) for row in (*told, *untold)
    ]


def _repository_forgot(tale: Tale) -> None:
    """Its ledger does not have what it had shown to subscribers."""
    _kill_repository(tale, 31)


def _repository_is_gone(tale: Tale) -> None:
    """It never came back, and nobody else tells of its numbers."""
    ended = next(row for row in tale.rows if row["kind"] == "ended" and row["node"].startswith("repository:r1"))
    untold = [
        row
        for row in tale.rows
        if row["node"].startswith("repository:r1") and row["kind"] in ("stored", "stable") and row["start"] > 140
    ]
    _without(tale, [*untold, ended])


def _reader(tale: Tale) -> None:
    """One reads what is stored: it came when all was there, and tells nothing itself."""
    for keeper in ("r1", "r2"):
        whole, body = tale.keeper(keeper), b'{"where": "", "frontier": [], "changes": []}'
        tale.tell(f"repository:{whole}", "subscribed", LATER, keeper=whole, subscriber="spark", end=150, body=body)
        tale.sync("spark", 1, 80, LATER, keeper)


def _behind(tale: Tale) -> None:
    """A subscriber is not as far as the others."""
    _without(
        tale,
        [
            row
            for row in tale.rows
            if row["subscriber"] == "some"
            and row["kind"] in ("released", "acknowledged")
            and (row["source_id"] != 7 or row["first"] > 80)
        ],
    )


TALES = {
    each.__name__[1:]: each
    for each in (
        _healthy,
        _lost,
        _left_out,
        _unnamed,
        _twice,
        _acknowledged,
        _swap,
        _early,
        _never_stable,
        _unstored,
        _fewer,
        _killed,
        _behind,
        _killed_and_known,
        _killed_and_passed,
        _killed_and_jumped,
        _killed_and_given_again,
        _durable_and_given_again,
        _repository_is_back,
        _repository_forgot,
        _repository_is_gone,
        _reader,
    )
}


def _is_of_reader(row: Row) -> bool:
    return (row["subscriber"], row["source_id"], row["first"]) == ("all", 7, 31)


def _is_of_keeper(row: Row) -> bool:
    return row["kind"] in ("stored", "stable") and "r1" in row["node"] and row["start"] == 31


def _is_of_publisher(row: Row) -> bool:
    return (row["kind"], row["first"]) == ("published", 31)


MUTE = {"mute_subscriber": _is_of_reader, "mute_repository": _is_of_keeper, "mute_publisher": _is_of_publisher}


class Outcome:
    def __init__(self, spark: SparkSession, *, sums: bool = False) -> None:
        told = []
        for topic, plant in TALES.items():
            tale = Tale(topic)
            plant(tale)
            if sums:
                tale.sum_up()
            told += tale.told()
        for topic, is_lost in MUTE.items() if not sums else ():
            told += [row for row in Tale(topic).told() if not is_lost(row)]
        told.append(dict(told[0], kind="hop", node="b1", publisher="b1", incarnation=1, catenation=1, at=MUCH_LATER))
        found = audit(frame(spark, told))
        self.findings: dict[str, set[Finding]] = defaultdict(set)
        self.said: dict[str, list[str]] = defaultdict(list)
        for row in found.findings.collect():
            topic = row.about or row.keeper.partition("-")[2]
            self.findings[topic].add((row.verdict, row.kind, row.source or "", row.subscriber, row.first, row.last))
            self.said[topic].append(row.what)
        self.killed = Counter(row.node for row in found.killed.collect())
        self.topics = {row.about: row for row in found.topics.collect()}
        self.subscribers = {(row.about, row.subscriber): row for row in found.subscribers.collect()}
        found.held.forget()


@pytest.fixture(scope="module")
def outcome(spark: SparkSession) -> Outcome:
    return Outcome(spark)


def test_a_healthy_run_is_proven(outcome: Outcome) -> None:
    topic = outcome.topics["healthy"]
    assert (topic.published, topic.stored, topic.given_up) == (150, 150, 0)
    sums = {
        name: (row.wanted, row.released, row.again, row.acknowledged, row.waiting)
        for (about, name), row in outcome.subscribers.items()
        if about == "healthy"
    }
    assert sums == {
        "all": (150, 150, 0, 150, 0),
        "some": (120, 120, 0, 120, 0),
        "half": (75, 75, 5, 75, 0),
    }


def _violations(kind: str, first: int, last: int, *subscribers: str) -> set[Finding]:
    return {("violation", kind, "shop", name, first, last) for name in subscribers}


@pytest.mark.parametrize(
    ("planted", "expected"),
    [
        ("healthy", set()),
        ("lost", _violations("lost", 31, 32, "all", "some", "half")),
        ("left_out", _violations("left out", 31, 32, "all")),
        ("unnamed", _violations("left out", 31, 40, "all")),
        ("twice", _violations("duplicate", 31, 40, "all")),
        ("acknowledged", _violations("duplicate", 41, 45, "half")),
        ("swap", _violations("swap", 31, 40, "all")),
        ("early", _violations("released before stable", 31, 40, "all")),
        ("never_stable", _violations("released before stable", 31, 35, "half")),
        ("unstored", _violations("unstored", 31, 40, "")),
        ("fewer", {("warning", "missing copy", "shop", "", 31, 40)}),
        ("behind", set()),
        ("killed_and_known", set()),
        ("killed_and_passed", _violations("left out", 51, 55, "half")),
        ("killed_and_jumped", _violations("lost", 31, 32, "all", "some", "half")),
        ("killed_and_given_again", set()),
        ("durable_and_given_again", _violations("duplicate", 41, 42, "half")),
        ("repository_is_back", set()),
        (
            "repository_forgot",
            {
                ("warning", "missing copy", "shop", "", 31, 40),
                *_violations("released before stable", 31, 40, "all", "some"),
            },
        ),
        ("reader", set()),
    ],
)
def test_what_is_planted_is_found_and_nothing_else(planted: str, expected: set[Finding], outcome: Outcome) -> None:
    assert outcome.findings[planted] == expected, outcome.said[planted]


@pytest.fixture(scope="module")
def summed(spark: SparkSession) -> Outcome:
    return Outcome(spark, sums=True)


@pytest.mark.parametrize(
    ("planted", "expected"),
    [
        ("healthy", set()),
        ("lost", _violations("lost", 31, 32, "all", "some", "half")),
        ("left_out", _violations("left out", 31, 32, "all")),
        ("unnamed", _violations("left out", 31, 40, "all")),
        ("twice", _violations("duplicate", 31, 40, "all")),
        ("acknowledged", _violations("duplicate", 41, 45, "half")),
        ("swap", _violations("swap", 31, 40, "all")),
        ("early", set()),  # the one thing that sums do not tell: what happened first within ten seconds
        ("never_stable", _violations("released before stable", 1, 55, "half")),  # … of those some are not stable
        ("unstored", _violations("unstored", 31, 40, "")),
        ("fewer", {("warning", "missing copy", "shop", "", 31, 40)}),
        ("behind", set()),
        ("killed_and_known", set()),
        ("killed_and_passed", _violations("left out", 51, 55, "half")),
        ("killed_and_jumped", _violations("lost", 31, 32, "all", "some", "half")),
        ("killed_and_given_again", set()),
        ("reader", set()),
    ],
)
def test_the_same_is_found_in_sums(planted: str, expected: set[Finding], summed: Outcome) -> None:
    assert summed.findings[planted] == expected, summed.said[planted]
    assert summed.topics[planted].summed


def test_sums_count_as_all_traces_do(outcome: Outcome, summed: Outcome) -> None:
    for topic in ("healthy", "behind", "killed_and_known", "reader"):
        counts = ("published", "stored", "given_up")
        assert [summed.topics[topic][name] for name in counts] == [outcome.topics[topic][name] for name in counts]
        mine = {key: row for key, row in outcome.subscribers.items() if key[0] == topic}
        assert {key: row for key, row in summed.subscribers.items() if key[0] == topic} == mine
    assert not outcome.topics["healthy"].summed


def test_what_a_slow_subscriber_has_not_got_waits(outcome: Outcome) -> None:
    row = outcome.subscribers["behind", "some"]
    assert (row.wanted, row.released, row.waiting) == (120, 64, 56)


UNTOLD: Any = ("unproven", "untold", "", "", 0, 0)


def test_a_lost_trace_is_not_a_lost_event(outcome: Outcome) -> None:
    """What it could have told is unproven; that it is missing is said too."""
    mine: Any = ("unproven", "untold", "", "all", 0, 0)
    assert outcome.findings["mute_subscriber"] == {mine, ("unproven", "left out", "shop", "all", 31, 40)}
    assert "2 traces are lost" in " ".join(outcome.said["mute_subscriber"])
    early: set[Any] = {("unproven", "released before stable", "shop", name, 31, 40) for name in ("all", "some")}
    copies: Any = ("unproven", "missing copy", "shop", "", 31, 40)
    assert outcome.findings["mute_repository"] == {UNTOLD, copies} | early
    assert outcome.findings["mute_publisher"] == {UNTOLD}


def test_the_last_second_of_who_was_killed_is_unproven(outcome: Outcome) -> None:
    """If no ledger knows of it."""
    assert outcome.findings["killed"] == {
        ("unproven", "left out", "shop", "half", first, first + 4) for first in (41, 51)
    }


def test_what_a_repository_had_is_unproven_if_it_never_came_back(outcome: Outcome) -> None:
    assert outcome.findings["repository_is_gone"] == {
        ("unproven", "released before stable", "kiosk", name, 41, 50) for name in ("all", "some")
    }


def test_what_ledgers_know_is_counted_and_said_to_be_from_them(outcome: Outcome) -> None:
    half, spark = outcome.subscribers["killed_and_known", "half"], outcome.subscribers["reader", "spark"]
    assert (half.wanted, half.released, half.acknowledged, half.waiting, half.from_ledgers) == (75, 75, 75, 0, 10)
    assert (spark.wanted, spark.released, spark.acknowledged, spark.waiting, spark.from_ledgers) == (
        150,
        80,
        80,
        70,
        80,
    )
    assert outcome.topics["repository_is_back"].from_ledgers == 20
    assert outcome.topics["healthy"].from_ledgers == 0
    assert outcome.killed["repository:r1-repository_is_back"] == 1
    assert outcome.killed["subscriber:half:killed"] == 1
    assert not outcome.killed["subscriber:half:healthy"]


# ---- with a fabric

READ, EACH = 500, 100


@pytest.mark.slow  # a minute of two processors; `make test` has the audit of what such readers tell, without a fabric
def test_readers_of_what_is_stored_are_listed_as_their_ledgers_know_them(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    """Both come when all is stored. Spark acknowledges a batch when the next one begins, the archive also the last."""
    topic = stage.topic("read/orders", subscriber="archive")
    grant = in_process("topic", "grant", topic, "--subscriber", "spark", "--url", stage.url_of_all)
    assert grant.returncode == 0, grant.stderr
    stage.publish(topic, [b"%d" % number for number in range(READ)])
    options = {"url": stage.url_of_all, "topic": topic, "from": "beginning", "maxEventsPerTrigger": str(EACH)}
    source = spark.readStream.format("stentor").options(**options).load()
    writer = source.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    lake = ("--lake", tmp_path / "lake", "--url", stage.url_of_all, "--master", "local[2]")
    done = in_process("pipeline", "archive", "--topic", topic, *lake)
    assert done.returncode == 0, done.stderr

    def traced() -> dict[str, int]:
        rows = trace_claims.synced(traces.read(spark, url=stage.url_of_all).where(f"about = '{topic}'"))
        return {
            row.subscriber: row.upto for row in rows.groupBy("subscriber").agg(sql.max("last").alias("upto")).collect()
        }

    until(lambda: traced() == {"archive": READ, "spark": READ - EACH})
    assert {name: READ - lag for name, lag in stage.lags(topic).items()} == traced()
    found = audit(traces.read(spark, url=stage.url_of_all), topic)
    assert [(row.verdict, row.what) for row in found.findings.collect()] == []
    assert {
        row.subscriber: (row.wanted, row.released, row.again, row.acknowledged, row.waiting, row.from_ledgers)
        for row in found.subscribers.collect()
    } == {
        "archive": (READ, READ, 0, READ, 0, READ),
        "spark": (READ, READ - EACH, 0, READ - EACH, EACH, READ - EACH),
    }
    found.held.forget()
