"""Tables of the pipeline's commands in a terminal of 80 columns: nothing is cut off."""

from datetime import UTC, datetime
from io import StringIO

import pytest
from pyspark.sql import Row
from rich.console import Console
from rich.table import Table

from stentor.cli.pipeline.traces import latency_table, traffic_table

pytestmark = pytest.mark.req("SP-04")

START = datetime(2026, 11, 17, 4, 30, tzinfo=UTC)
TOPIC = "flights/jfk/departures/united"


def measured(measure: str, place: str, events: int, took: float) -> Row:
    times = {"p50": took, "p90": 2 * took, "p99": 3 * took, "longest": 9 * took}
    return Row(start=START, measure=measure, topic=TOPIC, unit="", place=place, events=events, **times)


def counted(what: str, who: str, size: int | None, share: float | None) -> Row:
    return Row(start=START, what=what, topic=TOPIC, who=who, events=1_234_567, bytes=size, share=share)


def shown(table: Table, columns: int) -> list[str]:
    console = Console(file=StringIO(), width=columns, highlight=False)
    console.print(table)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()


LATENCIES = [
    measured("hop", "campus/east/b1", 1000, 0.77),
    measured("stored", "repository-of-the-north", 1_234_567, 12.4),
    measured("released", "billing", 2048, 1_620_608.0),
]
AMOUNTS = [counted("subscriber", "billing-of-the-north", None, 1.0), counted("talker", "shop", 123_456_789, None)]


@pytest.mark.parametrize(
    ("table", "wanted"),
    [
        (latency_table(LATENCIES), ["start", "topic", "measure", "events", "p50", "longest", "1,234,567", "14,585 s"]),
        (traffic_table(AMOUNTS), ["start", "what", "who", "share", "subscriber", "1,234,567", "117.7 MiB", "100.0%"]),
    ],
)
def test_in_80_columns_headings_and_numbers_are_whole(table: Table, wanted: list[str]) -> None:
    lines = shown(table, 80)
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)
    for word in wanted:
        assert any(word in line for line in lines), (word, lines)
    first = lines[1].split()
    assert first[0] == "2026-11-17", "a date stays in one piece"


def test_a_window_is_written_once() -> None:
    assert "".join(shown(traffic_table(AMOUNTS), 120)).count("2026-11-17") == 1
