"""The audit: what is planted is found, and nothing else. Each tale is one topic of a fabric that is audited once."""

from collections import defaultdict
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.tale import MILLISECOND, Row, Tale, frame

from stentor.pipeline.audit import audit

pytestmark = pytest.mark.req("SP-05")
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


def _behind(tale: Tale) -> None:
    """A subscriber is not as far as the others."""
    _without(tale, [
        row for row in tale.rows if row["subscriber"] == "some" and row["kind"] in ("released", "acknowledged")
        and (row["source_id"] != 7 or row["first"] > 80)
    ])  # fmt: skip


TALES = {
    each.__name__[1:]: each
    for each in (_healthy, _lost, _left_out, _unnamed, _twice, _acknowledged, _swap, _early, _never_stable, _unstored,
                 _fewer, _killed, _behind)
}  # fmt: skip


def _is_of_reader(row: Row) -> bool:
    return (row["subscriber"], row["source_id"], row["first"]) == ("all", 7, 31)


def _is_of_keeper(row: Row) -> bool:
    return row["kind"] in ("stored", "stable") and "r1" in row["node"] and row["start"] == 31


def _is_of_publisher(row: Row) -> bool:
    return (row["kind"], row["first"]) == ("published", 31)


MUTE = {"mute_subscriber": _is_of_reader, "mute_repository": _is_of_keeper, "mute_publisher": _is_of_publisher}


class Outcome:
    def __init__(self, spark: SparkSession) -> None:
        told = []
        for topic, plant in TALES.items():
            tale = Tale(topic)
            plant(tale)
            told += tale.told()
        for topic, is_lost in MUTE.items():
            told += [row for row in Tale(topic).told() if not is_lost(row)]
        found = audit(frame(spark, told))
        self.findings: dict[str, set[Finding]] = defaultdict(set)
        self.said: dict[str, list[str]] = defaultdict(list)
        for row in found.findings.collect():
            topic = row.about or row.keeper.partition("-")[2]
            self.findings[topic].add((row.verdict, row.kind, row.source or "", row.subscriber, row.first, row.last))
            self.said[topic].append(row.what)
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
        "all": (150, 150, 0, 150, 0), "some": (120, 120, 0, 120, 0), "half": (75, 75, 5, 75, 0),
    }  # fmt: skip


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
    ],
)  # fmt: skip
def test_what_is_planted_is_found_and_nothing_else(planted: str, expected: set[Finding], outcome: Outcome) -> None:
    assert outcome.findings[planted] == expected, outcome.said[planted]


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
    mine: Any = ("unproven", "untold", "", "half", 0, 0)
    assert outcome.findings["killed"] == {
        mine,
        *(("unproven", "left out", "shop", "half", first, first + 4) for first in (41, 51)),
    }
    assert "was killed" in " ".join(outcome.said["killed"])
