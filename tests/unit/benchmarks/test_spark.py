"""The benchmark of the data pipeline: what it stores can be read, and what its goals are held against."""

import io
from pathlib import Path

import pytest
from benchmarks.backlog import fill
from benchmarks.results import Results, Sample
from benchmarks.spark import report, sink, source
from rich.console import Console

from stentor.bench import machine
from stentor.protocols.delivery.repository.storing.event_log import EventLog
from stentor.protocols.delivery.repository.storing.recent_records import Budget
from stentor.protocols.delivery.repository.storing.streams import Streams
from stentor.storage.ledger_store import open_ledger


def test_stored_events_have_their_attributes(tmp_path: Path) -> None:
    place = f"segments:{tmp_path}"
    fill(place, source.REPOSITORY, source.RECORDS, source.records(source.RECORDS, 20, 10), source.SCHEMA)
    ledger = open_ledger(place, source.REPOSITORY, source.RECORDS)
    log = EventLog(Streams(), Budget(1 << 20), lambda _: {})
    log.load(ledger.load())
    blocks = [log.block(record) for record in ledger.scan(1, 1 << 20).records]
    ledger.close()
    assert [block.count for block in blocks] == [10, 10]
    assert {len(body) for block in blocks for body in block.bodies()} == {source.BODY}
    assert all(row.keys() == {"carrier", "delay", "seats"} for block in blocks for row in block.rows())


def _results(**rates: float) -> Results:
    samples = [
        Sample(sink.SINK, getattr(sink, name), 1, {"rate": rate, "cpu_us": 1.0, "noise_cores": 0.0})
        for name, rate in rates.items()
    ]
    return Results("spark", "today", machine.describe(), {"rounds": 1}, {}, samples=samples)


@pytest.mark.parametrize(("native", "nothing", "ratio"), [(1000.0, 200.0, 0.5), (100.0, 200.0, 1.0)])
def test_the_sink_is_held_against_the_lesser(native: float, nothing: float, ratio: float) -> None:
    results = _results(NATIVE=native, NOTHING=nothing, OURS=100.0)
    (verdict,) = results.judge(report.goals(results))
    assert (verdict.ratio, verdict.met) == (ratio, True)


def test_what_was_measured_is_shown(tmp_path: Path) -> None:
    results = _results(NATIVE=1e6, NOTHING=4e5, OURS=1e5)
    console = Console(width=140, file=io.StringIO(), record=True)
    report.show(results, console)
    assert "missed" in console.export_text()
    report.draw(results, tmp_path / "spark.png")
    assert (tmp_path / "spark.png").stat().st_size
