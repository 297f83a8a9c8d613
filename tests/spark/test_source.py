"""The data source, on real Spark and a fabric of real processes."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from tests.end_to_end.network import until
from tests.end_to_end.troupe import TOPIC
from tests.spark.stage import Columns, Stage

from stentor.client.stored_reader import Availability
from stentor.model.errors import InvalidInput
from stentor.model.stored.position import Position
from stentor.model.stored.span import Spans
from stentor.pipeline.options import parse, read_options
from stentor.pipeline.source.columns import parse_attributes, schema_of
from stentor.pipeline.source.source import BatchReader

pytestmark = pytest.mark.req("SP-01")


def numbered(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


def delays(start: int, end: int) -> Columns:
    return {
        "carrier": ["UA" if number % 3 else "DL" for number in range(start, end)],
        "dep_delay": [float(number) if number % 7 else None for number in range(start, end)],
        "seats": list(range(start, end)),
        "on_time": [number % 2 == 0 for number in range(start, end)],
    }


def load(spark: SparkSession, stage: Stage, topic: str, **options: str | int) -> DataFrame:
    reader = spark.read.format("stentor").option("url", stage.url_of_all).option("topic", topic)
    return reader.options(**options).load()


def stream(spark: SparkSession, stage: Stage, topic: str, **options: str | int) -> DataFrame:
    reader = spark.readStream.format("stentor").option("url", stage.url_of_all).option("topic", topic)
    return reader.options(**options).load()


def bodies(frame: DataFrame) -> list[int]:
    return sorted(int(row.body) for row in frame.select("body").collect())


def test_a_batch_has_every_event_once_with_its_columns(spark: SparkSession, stage: Stage) -> None:
    topic = stage.topic("batch/one")
    stage.publish(topic, numbered(0, 300), delays(0, 300))
    stage.publish(topic, [b"300"])  # another life, and no attributes
    ordered = sql.col("body").cast("string").cast("int")
    rows = load(spark, stage, topic, partitions=5).orderBy(ordered).collect()
    for _ in range(10):  # two copies are enough to be stored: on a busy machine the third repository comes later
        if len({row.repository for row in rows}) == 3:
            break
        rows = load(spark, stage, topic, partitions=5).orderBy(ordered).collect()
    assert [int(row.body) for row in rows] == list(range(301))
    first, last = rows[1], rows[-1]
    assert (first.topic, first.publisher, first.catenation) == (topic, "shop", 2)
    assert first.attributes == {"carrier": "UA", "dep_delay": "1", "seats": "1", "on_time": "false"}
    assert "dep_delay" not in rows[0].attributes
    assert last.attributes == {}
    assert last.incarnation > first.incarnation
    assert last.catenation == 1
    assert len({(row.repository, row.sequence) for row in rows}) == 301
    assert {row.repository for row in rows} == {"r1", "r2", "r3"}

    typed = load(spark, stage, topic, attributes="carrier string, dep_delay double, seats int, gone boolean")
    assert typed.columns[-4:] == ["carrier", "dep_delay", "seats", "gone"]
    row = typed.where("seats = 8").first()
    assert row is not None
    assert (row.carrier, row.dep_delay, row.seats, row.gone) == ("UA", 8.0, 8, None)
    matched = load(spark, stage, topic, where="dep_delay > 250 AND carrier = 'DL'")
    assert bodies(matched) == [number for number in range(251, 300) if number % 3 == 0 and number % 7]


def test_a_pattern_and_beginnings(spark: SparkSession, stage: Stage) -> None:
    for name in ("jfk", "lga"):
        stage.publish(stage.topic(f"begin/{name}"), numbered(0, 10))
    time.sleep(0.01)
    between = time.time_ns()
    stage.publish("begin/jfk", numbered(10, 15))
    both = load(spark, stage, "begin/#").groupBy("topic").count().collect()
    assert {row.topic: row["count"] for row in both} == {"begin/jfk": 15, "begin/lga": 10}
    late = load(spark, stage, "begin/jfk", **{"from": _iso(between)})
    assert bodies(late) == list(range(10, 15))
    assert load(spark, stage, "begin/jfk", **{"from": "now"}).count() == 0


def _iso(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).isoformat()


def test_a_stream_goes_on_where_its_checkpoint_is(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    topic = stage.topic("stream/one")
    stage.publish(topic, numbered(0, 250))
    out = str(tmp_path / "out")

    def catch_up(**options: str | int) -> None:
        frame = stream(spark, stage, topic, **{"from": "beginning", "maxEventsPerTrigger": 100, **options})
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.option("path", out).trigger(availableNow=True).start()
        query.awaitTermination()

    catch_up()
    assert bodies(spark.read.parquet(out)) == list(range(250))
    offsets = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    assert len(offsets) == 3
    entry = json.loads(offsets[-1].read_text().splitlines()[-1])[topic]
    assert entry["repository"] in ("r1", "r2", "r3")
    assert entry["number"] >= 250
    assert list(entry["read"].values()) == ["1-250"]
    stage.publish(topic, numbered(250, 330))
    catch_up()
    assert bodies(spark.read.parquet(out)) == list(range(330))
    catch_up()
    assert bodies(spark.read.parquet(out)) == list(range(330))
    other = stream(spark, stage, stage.topic("stream/two"))
    writer = other.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.option("path", out).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="the checkpoint is that of a query on 'stream/one'"):
        query.awaitTermination()


def test_only_what_spark_has_committed_is_acknowledged(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    topic = stage.topic("stream/acknowledged")
    frame = stream(spark, stage, topic, **{"from": "now"})
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="50 milliseconds")
        .start()
    )
    try:
        until(lambda: "spark" in stage.lags(topic))
        stage.publish(topic, numbered(0, 50))
        until(lambda: _processed(query.lastProgress) or stage.lags(topic)["spark"] == 0)
        stage.publish(topic, numbered(50, 60))  # a commit lags behind by one batch
        until(lambda: stage.lags(topic)["spark"] <= 10)
    finally:
        query.stop()


def _processed(progress: object) -> bool:
    return progress is not None and getattr(progress, "numInputRows", 0) > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"where": "dep_delay >"}, 'option "where"'),
        ({"from": "yesterday"}, 'option "from": .*no beginning'),
        ({"attributes": "carrier text"}, 'option "attributes": .*carrier text'),
        ({"attributes": "body string"}, 'option "attributes": .*is there already'),
        ({"maxEventsPerTrigger": "many"}, 'option "maxEventsPerTrigger"'),
        ({"topic": "a//#/b"}, 'option "topic"'),
        ({"url": "http://x"}, 'option "url"'),
        ({"failOnDataLoss": "perhaps"}, 'option "failOnDataLoss"'),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], message: str) -> None:
    given = {"topic": "x", **options}
    with pytest.raises(InvalidInput, match=message):
        (read_options(given, streaming=True), parse(given, "attributes", parse_attributes, ()))
    with pytest.raises(InvalidInput, match='option "topic": say which'):
        read_options({}, streaming=False)


def test_what_cannot_be_read_is_explained(spark: SparkSession, stage: Stage) -> None:
    nowhere = spark.read.format("stentor").option("url", "stentor://127.0.0.1:1").option("topic", "x").load()
    with ThreadPoolExecutor() as pool:  # it is tried for ten seconds
        away = pool.submit(nowhere.count)
        _refused(spark, stage)
        with pytest.raises(PySparkException, match='option "url": no broker at'):
            away.result()


def _refused(spark: SparkSession, stage: Stage) -> None:
    topic = stage.topic("refused/one", subscriber="other")
    with pytest.raises(PySparkException, match='option "subscriber": spark is not registered'):
        load(spark, stage, topic).count()
    with pytest.raises(PySparkException, match='option "topic": no repository has a reliable topic'):
        load(spark, stage, "nowhere/#").count()
    with pytest.raises(AnalysisException, match='option "attributes"'):
        load(spark, stage, topic, attributes="carrier text")
    stage.publish(stage.topic("refused/two"), [b"0"], {"carrier": ["UA"]})
    with pytest.raises(PySparkException, match='option "attributes": carrier is double there, and string'):
        load(spark, stage, "refused/two", attributes="carrier double").collect()


def test_a_repository_that_dies_in_the_middle_is_made_up_for(spark: SparkSession, tmp_path: Path) -> None:
    count = 6000
    with Stage(tmp_path) as stage:
        topic = stage.topic(TOPIC)
        stage.publish(topic, [bytes(2000)] * count, {"seats": list(range(count))}, portion=500)
        until(lambda: stage.shown(topic) == count)
        frame = load(spark, stage, topic, partitions=12, attributes="seats int")
        tracker = spark.sparkContext.statusTracker()
        ended = threading.Event()
        killed: list[str] = []

        def under_way() -> bool:
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            return any(each is not None and 0 < each.numCompletedTasks < each.numTasks for each in stages)

        def kill_two() -> None:
            while not under_way():
                if ended.wait(0.005):
                    return
            for name in ("r1", "r2"):
                stage.kill(name)
                killed.append(name)

        killer = threading.Thread(target=kill_two)
        killer.start()
        try:
            found = frame.groupBy().agg(sql.count("*"), sql.countDistinct("seats"), sql.sum("seats")).collect()[0]
        finally:
            ended.set()
            killer.join()
        assert tuple(found) == (count, count, count * (count - 1) // 2)
        assert killed == ["r1", "r2"]


def test_what_one_repository_does_not_have_is_read_from_another() -> None:
    """The one that plans a batch may lack what the one that admitted it had: nothing of it may be left out."""
    stream = (7, 1)
    whole, known = Position({stream: Spans([(1, 100)])}), Position({stream: Spans([(1, 60)])})
    gone = Position({stream: Spans([(91, 100)])})
    stock = Availability("r2", 60, ("r1", "r2"), Position(), (known,), gone)
    reader = BatchReader(read_options({"topic": "orders"}, streaming=False), schema_of(()))
    portions = reader._portions("orders", stock, whole)
    assert [each.wanted for each in portions] == [known, Position({stream: Spans([(61, 90)])})]  # type: ignore[attr-defined]
