"""What a user of Spark is told: an option that does not exist, a fabric that is not there; in one sentence of ours."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from tests.end_to_end.command import PATIENCE, environment
from tests.end_to_end.command import stentor as command
from tests.spark.stage import Stage
from tests.spark.standalone import FRUGAL, ROOT

from stentor.model.errors import InvalidInput, StentorError, Unreachable
from stentor.pipeline.options import read_options, write_options
from stentor.pipeline.sink.publication import introduce
from stentor.spark import plain_errors

pytestmark = pytest.mark.req("SP-01")

NOWHERE = "stentor://127.0.0.1:1"
STACK = re.compile(r"^\s+at [\w.$]+\(|Traceback|^\s+File \"", re.MULTILINE)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("wher", "where"), ("Topics", "topic"), ("maxEventPerTrigger", "maxEventsPerTrigger"), ("fial", "failOnDataLoss")],
)
def test_an_unknown_option_of_the_source_is_refused_with_the_nearest_name(given: str, meant: str) -> None:
    for streaming in (False, True):
        with pytest.raises(InvalidInput) as refused:
            read_options({"topic": "x", given: "1"}, streaming=streaming)
        sentence = str(refused.value)
        assert f'unknown option "{given.lower()}" of the stentor source' in sentence
        assert (f'did you mean "{meant}"?' in sentence) is (given != "fial")
        assert meant in sentence.partition("nown are ")[2].split(", ")


def test_an_unknown_option_of_the_sink_is_refused_with_those_that_exist() -> None:
    with pytest.raises(InvalidInput, match=r'"publsher" of the stentor sink: did you mean "publisher"\?'):
        write_options({"topic": "x", "publsher": "1"})
    with pytest.raises(InvalidInput, match=r'"subscriber" of the stentor sink: .*known are url, .*staging'):
        write_options({"topic": "x", "subscriber": "1"})


def test_case_does_not_matter_and_what_spark_hands_over_is_taken() -> None:
    assert read_options({"TOPIC": "x", "path": "p", "paths": "[]"}, streaming=False).topic == "x"
    given = {"Topic": "x", "path": "p", "queryname": "q", "checkpointlocation": "c"}
    assert write_options(given).checkpoint == "c"
    assert (read_options({"topic": "x"}, streaming=True).wait, write_options({"wait": "2.5"}).wait) == (0.0, 2.5)
    for wrong in ("soon", "0", "-1", "inf", "nan"):
        with pytest.raises(InvalidInput, match=r'option "wait": .* is no number of seconds above 0'):
            read_options({"topic": "x", "wait": wrong}, streaming=False)


def test_spark_passes_on_our_sentence_without_a_stack(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    reading = {"url": stage.url_of_all, "topic": "x", "wher": "a = 1"}
    writing = {"url": stage.url_of_all, "topic": "x", "publsher": "me"}
    rows = spark.range(3).selectExpr("cast(id as string) body")
    with pytest.raises(AnalysisException, match=r'unknown option "wher".* did you mean "where"') as batch:
        spark.read.format("stentor").options(**reading).load()
    with pytest.raises(AnalysisException, match=r'unknown option "wher".* did you mean "where"') as stream:
        spark.readStream.format("stentor").options(**reading).load()
    with pytest.raises(PySparkException, match=r'unknown option "publsher".* did you mean "publisher"') as sink:
        rows.write.format("stentor").options(**writing).mode("append").save()
    ticks = spark.readStream.format("rate").load().selectExpr("cast(value as string) body").writeStream
    query = ticks.format("stentor").options(**writing).option("checkpointLocation", str(tmp_path)).start("any")
    with pytest.raises(StreamingQueryException, match=r'unknown option "publsher".* did you mean') as streaming_sink:
        query.awaitTermination()
    for refused in (batch, stream, sink, streaming_sink):
        assert not STACK.search(str(refused.value))


def test_an_error_of_a_task_comes_without_a_stack(spark: SparkSession, stage: Stage) -> None:
    topic = stage.topic("failure/task")
    stage.publish(topic, [b"0"], {"carrier": ["UA"]})
    reader = spark.read.format("stentor").option("url", stage.url_of_all).option("topic", topic)
    with pytest.raises(PySparkException, match="carrier is double there, and string") as failed:
        reader.option("attributes", "carrier double").load().collect()
    assert not STACK.search(str(failed.value))


def test_a_mistake_that_is_not_ours_keeps_its_stack(spark: SparkSession) -> None:
    def divide(batches):  # type: ignore[no-untyped-def]
        yield from (1 // 0 for _ in batches)

    with pytest.raises(PySparkException, match="in divide") as failed:
        spark.range(3).mapInArrow(divide, "id long").collect()
    assert STACK.search(str(failed.value))


def test_a_stream_that_starts_without_a_fabric_says_so(spark: SparkSession, tmp_path: Path) -> None:
    events = spark.readStream.format("stentor").options(url=NOWHERE, topic="x", wait="0.3").load()
    query = events.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(StreamingQueryException, match=f"no broker at {NOWHERE} within 0.3 s") as failed:
        query.awaitTermination()
    assert not STACK.search(str(failed.value))
    with pytest.raises(Unreachable) as plain, plain_errors():
        query.awaitTermination()
    assert str(plain.value).startswith(f'option "url": no broker at {NOWHERE} within 0.3 s')
    assert "is `stentor up` running there?" in str(plain.value)


def test_source_and_sink_wait_for_a_fabric_as_long_as_the_option_says(spark: SparkSession) -> None:
    events = spark.read.format("stentor").options(url=NOWHERE, topic="x", wait="0.4").load()
    with pytest.raises(Unreachable, match=r"within 0\.4 s"), plain_errors():
        events.count()
    with pytest.raises(Unreachable, match=r"within 0\.4 s"):
        introduce(write_options({"url": NOWHERE, "topic": "x", "wait": "0.4"}), "", resumes=False)


def test_plain_errors_leaves_other_errors_alone(spark: SparkSession) -> None:
    with pytest.raises(ZeroDivisionError), plain_errors():
        _ = 1 // 0
    with pytest.raises(StentorError, match=r"^\[TABLE_OR_VIEW_NOT_FOUND\]") as failed, plain_errors():
        spark.table("nowhere")
    assert "\n" not in str(failed.value)


def test_a_command_ends_with_one_sentence(tmp_path: Path) -> None:
    options = ("--lake", tmp_path / "lake", "--topic", "x", "--url", NOWHERE, "--master", "local[2]")
    done = command("pipeline", "archive", *options, cwd=tmp_path, patience=2 * PATIENCE)
    assert done.returncode == 3, done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith("WARNING: ")]  # of the Java machine
    assert len(said) == 1, done.stderr
    assert said[0].startswith('stentor: option "url": no broker at')


_STREAM = f"""
import sys, stentor.spark
spark = stentor.spark.session("local[2]", **{{"spark.driver.extraJavaOptions": {FRUGAL!r}}})
events = spark.readStream.format("stentor").options(url={NOWHERE!r}, topic="x", wait="0.3").load()
query = events.writeStream.format("noop").option("checkpointLocation", sys.argv[1]).start()
while query.isActive:
    pass
spark.stop()
"""


def test_a_stream_that_nobody_waits_for_logs_our_sentence_without_a_stack(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _STREAM, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        timeout=2 * PATIENCE,
        check=True,
    )
    assert f"no broker at {NOWHERE}" in done.stderr
    assert not STACK.search(done.stderr), done.stderr
