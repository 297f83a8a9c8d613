"""Latency and traffic: jobs over traces, on real Spark."""

import asyncio
import threading
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from tests.spark.stage import Stage

import stentor
from stentor.model.errors import InvalidInput
from stentor.pipeline.traces import picture, report, traces
from stentor.pipeline.traces.latency import latency
from stentor.pipeline.traces.traffic import rates, summary, talkers, traffic
from stentor.protocols.delivery.trace_sum import delay_of
from stentor.storage.lake import Lake

pytestmark = pytest.mark.req("SP-04")

MINUTE = 60 * 10**9
START = int(datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp()) * 10**9
COLUMNS = (
    "publisher string, incarnation bigint, catenation bigint, body binary, kind string, at bigint, about string, "
    "source string, source_id bigint, count bigint, size bigint, keeper string, subscriber string, node string, "
    "born bigint, note bigint, life bigint, first bigint, last bigint, peer string, until bigint, delays string"
)


def trace(number: int, kind: str, took: float, count: int = 1, first: int = 1, **more: object) -> dict[str, object]:
    """One that was told `took` milliseconds after its events were born, in a minute of its own for each thousand."""
    born = START + (number // 1000) * MINUTE + number % 1000
    row = {
        "publisher": "e",
        "incarnation": 1,
        "catenation": number,
        "body": b"",
        "kind": kind,
        "about": "orders",
        "source": "shop",
        "source_id": 7,
        "count": count,
        "size": 100 * count,
        "keeper": "r1",
        "subscriber": "billing",
        "node": "campus/b1",
        "note": 0,
        "life": 1,
        "first": first,
        "last": first + count - 1,
        "peer": "",
        "until": 0,
        "delays": "",
    }
    return {**row, "born": born, "at": born + int(took * 1e6), **more}


def frame_of(spark: SparkSession, rows: list[dict[str, object]]) -> DataFrame:
    names = [part.split()[0] for part in COLUMNS.split(", ")]
    return traces.tidy(spark.createDataFrame([Row(**{name: row[name] for name in names}) for row in rows], COLUMNS))


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> DataFrame:
    rows = [trace(number, "released", took=number + 1.0, first=number + 1) for number in range(100)]
    rows += [trace(1000, "released", took=5.0, count=99, first=201), trace(1001, "released", took=50.0, first=300)]
    rows += [trace(1002, "hop", took=2.0), trace(1003, "stored", took=3.0)]
    rows += [trace(500, "published", took=0.1, count=200)]
    rows += [trace(501, "published", took=0.1, count=10, source="kiosk", source_id=8)]
    rows += [trace(1500, "published", took=0.1, count=400, first=201), trace(1600, "acknowledged", took=9.0)]
    again = trace(1004, "stored", took=90_000.0, peer="ledger")  # of a crashed repository: it is not known since when
    rows.append(again)
    return frame_of(spark, [*rows, *rows[:50]]).persist()  # another repository keeps some of them too


def test_percentiles_by_window_and_place_count_every_event_of_a_batch(told: DataFrame) -> None:
    found = {(row.start.minute, row.measure): row for row in latency(told, "1 minute").collect()}
    assert set(found) == {(0, "released"), (1, "released"), (1, "hop"), (1, "stored")}
    first = found[0, "released"]
    assert (first.topic, first.place, first.unit, first.events) == ("orders", "billing", "", 100)
    assert (first.p50, first.p90, first.longest) == (pytest.approx(50.5), pytest.approx(90.1), 100.0)
    second = found[1, "released"]
    assert (second.events, second.p50, second.longest) == (100, 5.0, 50.0)
    assert (found[1, "hop"].place, found[1, "hop"].unit) == ("campus/b1", "campus")
    assert found[1, "stored"].place == "r1"


def test_percentiles_of_sums_are_right_to_six_percent(spark: SparkSession) -> None:
    took = [(delay_of(5_000_000), 90), (delay_of(50_000_000), 10)]
    row = trace(1, "stored", took=5.0, count=100, until=START + 10**9, delays=str([list(pair) for pair in took]))
    (found,) = latency(frame_of(spark, [row]), "1 minute").collect()
    assert (found.events, found.summed) == (100, True)
    assert found.p50 == pytest.approx(5.0, rel=0.07)
    assert found.p99 == pytest.approx(50.0, rel=0.07)


def test_traffic_shares_and_talkers(told: DataFrame) -> None:
    amounts = {row.start.minute: row for row in traffic(told, "1 minute").collect()}
    assert (amounts[0].events, amounts[0].bytes, amounts[0].publishers) == (210, 21_000, 2)
    shares = {row.start.minute: row for row in rates(told, "1 minute").collect()}
    assert (shares[0].subscriber, shares[0].released, shares[0].share) == ("billing", 100, pytest.approx(100 / 210))
    largest = talkers(told, "1 hour", most=1).collect()
    assert [(row.rank, row.source, row.events) for row in largest] == [(1, "shop", 600)]
    assert {row.what for row in summary(told, "1 minute", 3).collect()} == {"topic", "talker", "subscriber"}


AGAIN = trace(2, "released", took=9.0, count=100, incarnation=2)
RESUMED = trace(2, "published", took=9.0, count=100, incarnation=2)
UNTOLD = trace(2, "released", took=9.0, count=50, first=101)
SOME = trace(2, "released", took=0.1, subscriber="late", count=3, note=5, last=10, body=b"[[0,0],[8,9]]")
NEXT = trace(1000, "published", took=0.1, count=2, first=101)
ACROSS = trace(1001, "released", took=0.1, count=23, first=80)


@pytest.mark.parametrize(
    ("more", "shares"),
    [
        pytest.param([AGAIN], {0: 1.0}, id="the subscriber crashed and was given them again"),
        pytest.param([RESUMED], {0: 1.0}, id="the publisher resumed and sent them again"),
        pytest.param([UNTOLD], {0: 1.0}, id="nobody told that some were published"),
        pytest.param([NEXT, ACROSS], {0: 1.0, 1: 1.0}, id="a batch that was released has events of two windows"),
        pytest.param([SOME], {0: 1.0}, id="another subscriber is given some of a stretch"),
    ],
)
def test_a_share_is_of_events_that_were_published_then(
    spark: SparkSession, more: list[dict[str, object]], shares: dict[int, float]
) -> None:
    rows = [trace(0, "published", took=0.1, count=100), trace(1, "released", took=1.0, count=100)]
    found = rates(frame_of(spark, rows + more), "1 minute").collect()
    assert {row.start.minute: row.share for row in found if row.subscriber == "billing"} == shares
    assert {row.share for row in found if row.subscriber == "late"} <= {0.03}
    events = {row.start.minute: row.events for row in traffic(frame_of(spark, rows + more), "1 minute").collect()}
    assert events == {row.start.minute: row.published for row in found}, "shares are of what topics have"


def test_a_report_is_kept_and_drawn(told: DataFrame, tmp_path: Path) -> None:
    found = latency(told, "1 minute")
    for _ in range(2):  # the second one replaces the first
        folder = report.save(found, Lake(tmp_path / "lake"), "latency")
    assert folder == tmp_path / "lake.reports" / "latency"
    table = parquet.read_table(folder)
    assert len(table) == 4
    assert set(table["day"].to_pylist()) == {date(2026, 11, 16)} or set(table["day"].to_pylist()) == {"2026-11-16"}
    rows = report.rows_of(found, "start")
    for suffix, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        path = picture.check_picture(tmp_path / f"latency{suffix}")
        picture.draw(path, rows, "measure", lambda row: str(row.place), "p99", "ms")
        assert path.read_bytes().startswith(magic)
    with pytest.raises(InvalidInput, match=r"\.png or \.svg"):
        picture.check_picture(tmp_path / "latency.gif")


def test_a_report_is_told_as_events(told: DataFrame, stage: Stage) -> None:
    rows = report.rows_of(latency(told, "1 minute"), "start", "measure")
    heard: list[dict[str, object]] = []
    listening, enough = threading.Event(), threading.Event()

    async def listen() -> None:
        async with stentor.connect(stage.url_of_all) as fabric, fabric.subscribe("$stentor/latency") as events:
            listening.set()
            async for event in events:
                heard.append(dict(event.attributes))
                if len(heard) == len(rows):
                    break
        enough.set()

    thread = threading.Thread(target=lambda: asyncio.run(listen()))
    thread.start()
    assert listening.wait(60)
    report.tell(rows, "latency", stage.url_of_all, None)
    assert enough.wait(60)
    thread.join()
    assert [(each["measure"], each["events"]) for each in heard] == [(row.measure, row.events) for row in rows]


def test_the_traces_of_a_fabric_are_read_each_once(spark: SparkSession, stage: Stage) -> None:
    topic = stage.topic("traced/orders")
    stage.publish(topic, [b"%d" % number for number in range(500)])

    def published() -> int:
        found = traces.read(spark, url=stage.url_of_all).where(f"kind = 'published' and about = '{topic}'")
        return int(found.groupBy().sum("count").collect()[0][0] or 0)

    for _ in range(60):
        if published() == 500:
            break
    assert published() == 500
