"""Back-testing: what Spark finds for a filter is what the filter says of each event, one by one."""

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.end_to_end.command import in_process
from tests.spark.stage import Columns, Stage

from stentor.model.attribute import Value, schema_of
from stentor.model.errors import InvalidInput
from stentor.model.filter import Filter
from stentor.pipeline.archive import archive
from stentor.pipeline.filters import parse_filters
from stentor.pipeline.match import daily
from stentor.storage.lake import Lake, types_of

pytestmark = pytest.mark.req("SP-03")

BEGIN = datetime(2026, 11, 1, 22, tzinfo=UTC)
ATTRIBUTES = "carrier string, delay double, seats long, on_time boolean"
FILTERS = [
    "carrier = 'UA'",
    "carrier IN ('DL', 'AA') AND delay > 10.5",
    "delay > 30.0 OR seats < 20",
    "on_time",
    "NOT (EXISTS delay)",
    "carrier LIKE 'A%' AND NOT on_time",
    "seats >= 10 AND seats < 12",
    "TRUE",
    "carrier = 'nobody'",
]
Attributes = dict[str, Value]
Event = tuple[datetime, bytes, Attributes]


def some_events(count: int, seed: int = 1) -> list[Event]:
    """Over three days, most without some of their attributes."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        every: Attributes = {
            "carrier": chance.choice(["UA", "DL", "AA", "ü"]),
            "delay": chance.choice([0.1, 10.5, 30.25, 1e300]),
            "seats": chance.randrange(-5, 40),
            "on_time": chance.random() < 0.5,
        }
        kept = {name: value for name, value in every.items() if chance.random() < 0.8}
        moment = BEGIN + timedelta(seconds=chance.randrange(2 * 86_400), microseconds=number)
        found.append((moment, b"x" * chance.randrange(50), kept))
    return found


def as_columns(spark: SparkSession, events: Sequence[Event]) -> DataFrame:
    names = [part.split()[0] for part in ATTRIBUTES.split(", ")]
    rows = [(moment, body, *map(attributes.get, names)) for moment, body, attributes in events]
    return spark.createDataFrame(rows, f"time timestamp, body binary, {ATTRIBUTES}")


def as_map(spark: SparkSession, events: Sequence[Event]) -> DataFrame:
    def text(value: Value) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    rows = [
        (moment, body, {name: text(value) for name, value in attributes.items()}, types_of(schema_of(attributes)))
        for moment, body, attributes in events
    ]
    return spark.createDataFrame(rows, "time timestamp, body binary, attributes map<string, string>, types string")


def expected(events: Sequence[Event], filters: dict[str, Filter]) -> dict[tuple[str | None, str], tuple[Any, ...]]:
    found: dict[tuple[str | None, str], list[tuple[datetime, int]]] = {}
    for moment, body, attributes in events:
        for name in (None, *(name for name, where in filters.items() if where.matches(attributes))):
            found.setdefault((name, moment.date().isoformat()), []).append((moment, len(body)))
    return {
        key: (len(hits), sum(size for _, size in hits), min(hits)[0].timestamp(), max(hits)[0].timestamp())
        for key, hits in found.items()
    }


def told(days: DataFrame) -> dict[tuple[str | None, str], tuple[Any, ...]]:
    rows = days.selectExpr(
        "filter", "cast(day as string)", "events", "bytes", "unix_micros(first) / 1e6", "unix_micros(last) / 1e6"
    ).collect()
    return {(row[0], row[1]): tuple(row)[2:] for row in rows}


@pytest.mark.parametrize("few", [True, False], ids=["few filters", "many filters"])
@pytest.mark.parametrize("portion", [3, 10_000], ids=["small batches", "large batches"])
@pytest.mark.parametrize("form", [as_columns, as_map])
def test_it_is_what_the_filter_says_of_each_event(spark: SparkSession, form: Any, portion: int, few: bool) -> None:
    """Small batches and few filters go other ways in the matching code."""
    filters = {f"f{number}": Filter(text) for number, text in enumerate(FILTERS[: 3 if few else None])}
    events = some_events(60 if portion == 3 else 500)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", portion)
    try:
        found = told(daily(form(spark, events), filters))
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert found == expected(events, filters)
    assert len({day for _, day in found}) == 3


def test_a_map_without_types_is_refused(spark: SparkSession) -> None:
    events = as_map(spark, some_events(3)).drop("types")
    with pytest.raises(InvalidInput, match='option\\("origin", "true"\\)'):
        daily(events, {"a": Filter("seats > 1")})


def test_an_attribute_without_a_column_is_named(spark: SparkSession) -> None:
    with pytest.raises(InvalidInput, match=r"'late'.* looks at 'weather'"):
        daily(as_columns(spark, some_events(3)), {"late": Filter("weather = 'bad'")})


def test_bookkeeping_is_no_attribute(spark: SparkSession) -> None:
    with pytest.raises(InvalidInput, match="looks at 'time'"):
        daily(as_columns(spark, some_events(3)), {"old": Filter("time = 'x'")})


# ---- files of filters


def test_a_file_has_a_filter_a_line() -> None:
    found = parse_filters("# late ones\nlate: delay > 30.0\n\n  on_time  \nwith-colon: carrier = 'a: b'\n")
    assert {name: str(where) for name, where in found.items()} == {
        "late": "delay > 30.0",
        "on_time": "on_time",
        "with-colon": "carrier = 'a: b'",
    }


@pytest.mark.parametrize(
    ("text", "hints"),
    [
        ("a > 1\n\nlate: delay >\nb < 2\nc <", ["line 3: ", "line 5: ", "ends too early"]),
        ("x: a > 1\nx: b > 1", ["line 2: 'x' is there already"]),
        ("# nothing\n", ["no filter"]),
    ],
)
def test_bad_lines_are_named_with_the_reason(text: str, hints: list[str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_filters(text)
    assert all(hint in str(caught.value) for hint in hints), str(caught.value)


# ---- the command


def match(*arguments: str | Path) -> Any:
    return in_process("pipeline", "match", *arguments, "--master", "local[2]")


def test_files_are_matched_by_the_command(spark: SparkSession, tmp_path: Path) -> None:
    events = some_events(200)
    as_map(spark, events).selectExpr("'flights/jfk' topic", "*").write.parquet(str(tmp_path / "events"))
    (tmp_path / "filters").write_text("ua: carrier = 'UA'\nnobody: carrier = 'nobody'\n")
    done = match(tmp_path / "filters", "--parquet", tmp_path / "events", "--topic", "flights/#", "--json")
    assert done.returncode == 0, done.stderr
    ua, nobody = map(json.loads, done.stdout.splitlines())
    wanted = [moment for moment, _, attributes in events if attributes.get("carrier") == "UA"]
    assert (ua["name"], ua["events"], ua["share"]) == ("ua", len(wanted), len(wanted) / 200)
    assert [datetime.fromisoformat(ua[name]) for name in ("first", "last")] == [min(wanted), max(wanted)]
    assert sum(day["events"] for day in ua["days"]) == len(wanted)
    assert (nobody["events"], nobody["first"], nobody["days"]) == (0, None, [])

    shown = match("carrier = 'UA'", "--parquet", tmp_path / "events", "--days")
    assert shown.returncode == 0, shown.stderr
    assert "200 events" in shown.stdout
    assert f"{len(wanted) / 200:.2%}" in shown.stdout
    assert "2026-11-02" in shown.stdout


def test_a_fabric_and_its_lake_say_the_same(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    topic = stage.topic("matched")
    columns: Columns = {"carrier": ["UA", "DL", "UA", "AA"] * 25, "delay": [float(number) for number in range(100)]}
    stage.publish(topic, [b"%d" % number for number in range(100)], columns)
    lake = Lake(tmp_path / "lake")
    options = {"url": stage.url_of_all, "topic": topic, "subscriber": "spark"}
    with lake.lock():
        archive(spark, lake, options, {"availableNow": True}).awaitTermination()
    places: list[list[str | Path]] = [["--url", stage.url_of_all, "--topic", topic], ["--lake", lake.path]]
    for place in places:
        done = match("carrier = 'UA' AND delay > 50.0", *place, "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert (found["events"], found["bytes"], found["share"]) == (24, 48, 0.24)
    other = match("TRUE", "--lake", lake.path, "--topic", "other/#")
    assert (other.returncode, "the lake has matched" in other.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("a >", "--topic", "x"), "ends too early"),
        (("filters.txt", "--topic", "x"), "there is no file 'filters.txt'"),
        (("a > 1",), "say where events are"),
        (("a > 1", "--lake", "/nowhere"), "--lake /nowhere"),
        (("a > 1", "--lake", "x", "--parquet", "x"), "say one"),
        (("a > 1", "--parquet", "x", "--from", "now"), "--from is for a fabric"),
        (("a > 1", "--topic", "x", "--from", "yesteryear"), 'option "from"'),
        (("a > 1", "--topic", "a/#/b"), "#"),
    ],
)
def test_wrong_use_is_exit_code_2_with_a_hint(arguments: tuple[str, ...], hint: str) -> None:
    done = match(*arguments)
    assert done.returncode == 2, done.stderr
    assert hint in done.stderr


@pytest.mark.usefixtures("spark")
@pytest.mark.usefixtures("spark")
def test_what_spark_finds_wrong_is_one_line(tmp_path: Path) -> None:
    done = match("a > 1", "--parquet", tmp_path / "nothing")
    assert done.returncode == 1
    assert "PATH_NOT_FOUND" in done.stderr
    assert "Traceback" not in done.stderr
