"""Two commits beside each other, without running either: ratios, the verdict, and rows read from what suites write."""

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest
from benchmarks.against import comparison, report
from benchmarks.against.__main__ import Turns, _measure
from benchmarks.against.comparison import compare, is_no_slower, one_sided
from benchmarks.against.suites import SUITES, Row, Scale, Suite
from benchmarks.results import Results, Sample
from rich.console import Console

from stentor.bench.machine import MachineDescription

MACHINE = MachineDescription(2, "a processor", 8.0, "Linux", "CPython", 0.1)
BASE, HEAD = "1234567", "this tree"


def results(*samples: Sample) -> Results:
    settings: dict[str, float] = {"rounds": 5, "seconds": 1.0}
    return Results("test", "2026-01-01", MACHINE, settings, {}, samples=list(samples))


def both(row: str, figure: str, base: list[float], head: list[float]) -> list[Sample]:
    return [
        Sample(row, side, number, {figure: value})
        for side, values in ((BASE, base), (HEAD, head))
        for number, value in enumerate(values, 1)
    ]


def test_a_ratio_is_that_of_medians() -> None:
    (row,) = compare(results(*both("256B", "rate", [100, 90, 5], [99, 300, 1])), BASE, HEAD)
    assert (row.base, row.head) == (90, 99)
    assert row.ratio == pytest.approx(1.1)


@pytest.mark.parametrize("figure", ["p50", "us", "count"])
def test_less_time_and_fewer_messages_are_faster(figure: str) -> None:
    (row,) = compare(results(*both("latency", figure, [100], [80])), BASE, HEAD)
    assert row.ratio == pytest.approx(1.25)


@pytest.mark.parametrize(("head", "enough"), [(97.0, True), (96.9, False)])
def test_a_row_may_lose_three_per_cent(head: float, enough: bool) -> None:
    assert is_no_slower(results(*both("16B", "rate", [100], [head])), BASE, HEAD) is enough


def test_processor_time_stands_beside_wall_time_and_decides_nothing() -> None:
    found = results(
        Sample("16B", BASE, 1, {"rate": 100, "cpu_us": 2.0}), Sample("16B", HEAD, 1, {"rate": 100, "cpu_us": 4.0})
    )
    (row,) = compare(found, BASE, HEAD)
    assert row.cost_ratio == 0.5
    assert is_no_slower(found, BASE, HEAD)


def test_a_row_that_is_new_is_no_reproach_and_one_that_is_gone_is() -> None:
    kept = both("16B", "rate", [100], [100])
    new, gone = Sample("new", HEAD, 1, {"rate": 1}), Sample("gone", BASE, 1, {"rate": 1})
    assert one_sided(results(*kept, new, gone), BASE, HEAD) == ["new", "gone"]
    assert is_no_slower(results(*kept, new), BASE, HEAD)
    assert not is_no_slower(results(*kept, gone), BASE, HEAD)


def test_a_failed_trial_or_nothing_at_all_is_no_success() -> None:
    assert not is_no_slower(results(), BASE, HEAD)
    failed = Sample("16B", HEAD, 2, {}, "LinkError: nothing was delivered")
    assert not is_no_slower(results(*both("16B", "rate", [100], [100]), failed), BASE, HEAD)


class Scripted(Suite):
    """A suite whose rates are written down: by side, round after round."""

    def measure(self, directory: Path, part: str, scale: Scale) -> list[Row]:  # noqa: ARG002
        return [(f"{part}: a", {"rate": RATES[directory.name, part].pop(0)}, "")]


RATES: dict[tuple[str, str], list[float]] = {}


def test_a_row_that_is_slow_is_measured_again_with_twice_the_rounds_and_that_counts() -> None:
    RATES.update(
        {
            ("base", "fast"): [100.0],
            ("head", "fast"): [100.0],
            ("base", "slow"): [100.0] * 3,
            ("head", "slow"): [90.0, 101.0, 99.0],
        }
    )
    suite = Scripted("none", ("fast", "slow"), lambda _: [], lambda _: iter(()))
    told: list[str] = []
    turns = Turns(suite, {BASE: Path("base"), HEAD: Path("head")}, Scale(1.0, 0.0, 1), told.append)
    found = results()
    _measure(turns, ["fast", "slow"], 1, BASE, found, told.append)
    assert not any(RATES.values()), "every rate was asked for, and none twice"
    assert [(row.row, row.ratio) for row in compare(found, BASE, HEAD)] == [("fast: a", 1.0), ("slow: a", 1.0)]
    assert found.settings["first time, slow: a"] == 0.9
    assert [each.split(", ")[2][:4] for each in told if each.startswith("slow")] == [
        "1234",
        "this",
        "1234",
        "this",
        "this",
        "1234",
    ]


def test_rows_of_results_are_ours_alone() -> None:
    content = msgspec.to_builtins(
        results(
            Sample("256B", "stentor x32", 1, {"rate": 1.0}),
            Sample("window 64", "stentor sqlite", 1, {}, "why"),
            Sample("256B", "nats", 1, {"rate": 1.0}),
        )
    )
    assert list(SUITES["bench"].rows(content)) == [
        ("stentor x32", {"rate": 1.0}, ""),
        ("window 64, stentor sqlite", {}, "why"),
    ]


def test_rows_of_a_network_are_what_is_timed_or_counted() -> None:
    content: dict[str, Any] = {
        "hops": [{"filters": 1000, "batch": 1, "relay_us": 3.0, "matching_us": 30.0}],
        "traffic": [{"content_bytes": 5.0}],
        "profiles": [],
        "joining": {"inside": 160.0, "outside_most": 0.0},
    }
    assert [(name, figures) for name, figures, _ in SUITES["network"].rows(content)] == [
        ("1,000 filters, 1 events, relay", {"us": 3.0}),
        ("1,000 filters, 1 events, matching", {"us": 30.0}),
        ("row 1, content_bytes", {"count": 5.0}),
        ("inside", {"count": 160.0}),
    ]


def test_the_table_and_the_file_show_every_row(tmp_path: Path) -> None:
    samples = both("publishers: stentor", "rate", [100_000], [83_000]) + both("latency: stentor", "p50", [80], [80])
    found = results(*samples, Sample("new: stentor", HEAD, 1, {"rate": 1.0}))
    text = io.StringIO()
    report.show(found, BASE, HEAD, Console(file=text, width=160))
    assert "100 k/s" in text.getvalue()
    assert "0.83" in text.getvalue()
    assert "not compared: new: stentor, measured by this tree" in text.getvalue()
    report.write(found, BASE, HEAD, tmp_path / "test.json")
    rows = msgspec.json.decode((tmp_path / "test.json").read_bytes())["rows"]
    assert [(row["ratio"], row["met"]) for row in rows] == [(0.83, False), (1.0, True)]


def test_a_sample_is_told_in_a_line() -> None:
    assert report.line({"rate": 1_234_000, "cpu_us": 2.345}) == "1,234 k/s, 2.35 µs of processor time"
    assert report.line({"p50": 123.4}) == "123 µs"
    assert report.line({}) == ""


def test_samples_of_chosen_rows_come_from_the_second_run() -> None:
    first, second = both("a", "rate", [1], [1]) + both("b", "rate", [1], [1]), both("b", "rate", [2, 2], [2, 2])
    assert comparison.replace(first, ["b"], second) == [*first[:2], *second]
