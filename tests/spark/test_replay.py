"""Replay: the chosen events of the past come again, in the order and with the attributes that they had, and once."""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.end_to_end.command import PATIENCE, in_process
from tests.spark.stage import Stage

import stentor
from stentor.model.attribute import Kind, Value
from stentor.pipeline.archive import archive
from stentor.pipeline.replay import ReplayPace, alike, in_turn, ordered
from stentor.storage.lake import Lake

pytestmark = pytest.mark.req("SP-03")

BEGIN = datetime(2026, 11, 1, 12, tzinfo=UTC)
Heard = list[tuple[bytes, dict[str, Value]]]


def replay(*arguments: str | Path, cwd: Path | None = None) -> Any:
    return in_process("pipeline", "replay", *arguments, "--master", "local[2]", cwd=cwd)


def stored(stage: Stage, topic: str, count: int) -> Heard:
    """What a new subscriber of a reliable topic gets: so many events, and whatever comes after them."""

    async def take() -> Heard:
        found: Heard = []
        async with (
            stentor.connect(stage.url_of_all, wait=PATIENCE) as fabric,
            fabric.subscribe(topic, name="spark", from_="beginning") as events,
        ):
            async with asyncio.timeout(PATIENCE):
                while len(found) < count:
                    event = await anext(events)
                    found.append((event.body, dict(event.attributes)))
            try:
                async with asyncio.timeout(0.5):  # one too many would be stored already
                    event = await anext(events)
                    found.append((event.body, dict(event.attributes)))
            except TimeoutError:
                pass
        return found

    return asyncio.run(take())


def test_a_fabric_and_its_lake_are_replayed_once(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    topic = stage.topic("replayed/orders")
    seats: list[Value | None] = list(range(60))
    stage.publish(topic, [b"%d" % number for number in range(60)], {"seats": seats, "late": [True, None] * 30})
    stage.publish(topic, [b"60"], {"seats": ["many"]})  # another life, and another type
    stage.publish(topic, [b"61"])
    expected: Heard = [
        (b"%d" % number, {"seats": number, "late": True} if number % 2 == 0 else {"seats": number})
        for number in range(60)
    ]
    expected += [(b"60", {"seats": "many"}), (b"61", {})]

    again = stage.topic("again/fabric", publisher="replay")
    fabric = ("--url", stage.url_of_all, "--to-topic", again, "--name", "first")
    for hint in ("62 events on again/fabric\n", "62 events on again/fabric, as was done before"):
        done = replay("--topic", "replayed/#", *fabric, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(hint)
    assert stored(stage, again, 62) == expected
    other = replay("--topic", topic, *fabric, cwd=tmp_path)
    assert (other.returncode, "has topic 'replayed/#', not" in other.stderr) == (2, True), other.stderr

    lake = Lake(tmp_path / "lake")
    options = {"url": stage.url_of_all, "topic": topic, "subscriber": "spark"}
    with lake.lock():
        archive(spark, lake, options, {"availableNow": True}).awaitTermination()
    again = stage.topic("again/lake", publisher="replay")
    chosen = ("--lake", lake.path, "--where", "seats >= 50 AND late", "--from", "2020-01-01", "--to", "2120-01-01")
    done = replay(*chosen, "--url", stage.url_of_all, "--to-topic", again, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert stored(stage, again, 5) == [event for event in expected[50:60] if "late" in event[1]]
    assert list((tmp_path / ".stentor" / "replays").iterdir()) == [tmp_path / ".stentor" / "replays" / "first"]


def test_a_publisher_is_not_overtaken_by_itself(spark: SparkSession) -> None:
    """Its clock was set back: its own order counts, and the time at which each event had its turn."""

    def row(publisher: str, incarnation: int, number: int, seconds: int) -> tuple[Any, ...]:
        body = f"{publisher}{incarnation}.{number}"
        return "t", publisher, incarnation, number, BEGIN + timedelta(seconds=seconds), body

    rows = [row("a", 1, 1, 10), row("a", 1, 2, 4), row("a", 1, 3, 12), row("a", 2, 1, 11), row("b", 7, 1, 11)]
    rows += [row("b", 7, 2, 20), row("c", 1, 1, 5)]
    events = spark.createDataFrame(
        rows[::-1], "topic string, publisher string, incarnation long, catenation long, time timestamp, body string"
    )
    found = ordered(in_turn(events)).collect()
    assert [each.event.body for each in found] == ["c1.1", "a1.1", "a1.2", "b7.1", "a1.3", "a2.1", "b7.2"]
    began = int(BEGIN.timestamp() * 1e6)
    assert [(each.moment - began) / 1e6 for each in found] == [5, 10, 10, 11, 12, 12, 20]


def test_best_effort_at_a_pace(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    """Files of others, with a column for each attribute; whoever listens gets them."""
    rows = [(BEGIN + timedelta(seconds=10 * number), f"{number}", number % 3, 0.5) for number in range(30)]
    events = spark.createDataFrame(rows, "time timestamp, body string, third int, half double").repartition(3)
    events.write.parquet(str(tmp_path / "events"))
    place = ("--parquet", tmp_path / "events", "--url", stage.url_of_all, "--to-topic", "live/again")
    chosen = ("--where", "third = 1", "--from", "2026-11-01T12:01", "--to", "2026-11-01T12:04:10")

    async def listen() -> Heard:
        found: Heard = []
        async with (
            stentor.connect(stage.url_of_all, wait=PATIENCE) as fabric,
            fabric.subscribe("live/again") as live,
            asyncio.timeout(PATIENCE),
        ):
            await fabric.flush()
            begun = asyncio.to_thread(replay, *place, *chosen, "--best-effort", "--speed", "600")
            task = asyncio.create_task(begun)
            async for event in live:
                found.append((event.body, dict(event.attributes)))
                if len(found) == 6:
                    break
            done = await task
        assert done.returncode == 0, done.stderr
        assert done.stdout == "6 events on live/again\n"
        return found

    assert asyncio.run(listen()) == [(b"%d" % number, {"third": 1, "half": 0.5}) for number in range(7, 25, 3)]


def parts(speed: float, seconds: Sequence[int]) -> list[tuple[float, int]]:
    """When how many were due."""
    began = time.monotonic()
    moments = np.array(seconds, np.int64) * 1_000_000
    events = pa.RecordBatch.from_pydict({"body": [b""] * len(seconds)})
    return [(time.monotonic() - began, part.num_rows) for part in ReplayPace(speed).parts(moments, events)]


def test_what_is_due_at_a_time_comes_at_once() -> None:
    found = parts(100, [1_000, 1_000, 1_010, 1_010, 1_020])
    assert found[0][1] >= 2
    assert sum(count for _, count in found) == 5
    assert found[-1][0] >= 0.2
    assert [count for _, count in parts(0, range(2500))] == [1000, 1000, 500]


def test_rows_are_divided_where_an_attribute_changes_its_type() -> None:
    types = ["a bigint", "", "a bigint, b string", "a bigint", "b string, a double", "c double", None, "b bigint"]
    found = list(alike(pa.array(types, pa.string())))
    assert found == [
        (0, 4, {"a": Kind.INTEGER, "b": Kind.STRING}),
        (4, 7, {"b": Kind.STRING, "a": Kind.DECIMAL, "c": Kind.DECIMAL}),
        (7, 8, {"b": Kind.INTEGER}),
    ]
    assert list(alike(pa.array([], pa.string()))) == []


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--topic", "x", "--where", "a >"), "--where: "),
        (("--topic", "x", "--from", "yesteryear"), "--from yesteryear"),
        (("--topic", "x", "--from", "2026-11-02", "--to", "2026-11-01"), "is not before --to"),
        (("--lake", "x"), "--lake x: there is no such directory"),
        ((), "say where events are"),
        (("--topic", "a/#"), "--to-topic a/b is one of the topics"),
        (("--topic", "x", "--name", "../x"), "--name '../x'"),
        (("--topic", "x", "--name", "x", "--best-effort"), "--name is for what is stored"),
        (("--topic", "x", "--speed", "2"), "--speed is for --best-effort"),
        (("--topic", "x", "--speed", "-1", "--best-effort"), "--speed -1.0"),
        (("--topic", "x", "--to-topic", "a/#"), "--to-topic: "),
    ],
)
def test_wrong_use_is_exit_code_2_with_a_hint(arguments: tuple[str, ...], hint: str) -> None:
    done = replay("--to-topic", "a/b", *arguments)
    assert done.returncode == 2, done.stderr
    assert hint in done.stderr


def test_what_the_fabric_refuses_is_explained(
    spark: SparkSession, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql("select timestamp'2026-11-01' time, 'x' body").write.parquet(str(tmp_path / "events"))
    place = ("--parquet", tmp_path / "events", "--url", stage.url_of_all)
    topic = stage.topic("again/refused")
    nowhere = replay(*place, "--to-topic", "again/nowhere", cwd=tmp_path)
    assert (nowhere.returncode, "--to-topic: no repository has" in nowhere.stderr) == (2, True), nowhere.stderr
    refused = replay(*place, "--to-topic", topic, "--name", "x", cwd=tmp_path)
    assert (refused.returncode, 'option "publisher": replay' in refused.stderr) == (1, True), refused.stderr
    monkeypatch.setattr("stentor.pipeline.replay._CONNECT", 0.2)
    away = replay(*place[:2], "--url", "stentor://127.0.0.1:1", "--to-topic", topic, "--best-effort", cwd=tmp_path)
    assert (away.returncode, 'option "url": no broker' in away.stderr) == (3, True), away.stderr
