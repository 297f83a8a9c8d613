"""The Narada benchmark without its processes: statistics, networks, plans, and what becomes of figures."""

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from stentor.bench.machine import MachineDescription
from stentor.bench.narada import plot, report
from stentor.bench.narada.costs import CostTrial, measure
from stentor.bench.narada.paper import TABLE_1
from stentor.bench.narada.plan import QUICK, NaradaPlan, payloads_of, topologies_of
from stentor.bench.narada.results import DelaySample, FloodSample, NaradaResults
from stentor.bench.narada.statistic import describe
from stentor.bench.narada.topologies import OTHERS, TOPOLOGIES, network
from stentor.model.errors import InvalidInput

MACHINE = MachineDescription(2, "a processor", 8.0, "Linux", "CPython", 0.1)


def results() -> NaradaResults:
    found = NaradaResults("2026-01-01", "0.1", MACHINE, NaradaPlan(runs=4), clients=20)
    for topology, mean in (("A", 1.0), ("B", 2.0), ("C", 4.0)):
        for size in (100, 8000):
            plain, reliable = [mean, mean, mean, mean], [mean + 1.0, mean + 1.0, mean + 1.0, mean + 5.0]
            found.delays.append(DelaySample(topology, size, plain, reliable, [0.25, 0.5, 0.5, 0.75], 0.1))
        for rate in (1000.0, 900.0, 1100.0):
            found.floods.append(FloodSample(topology, 8000, False, rate, 100.0, 0.1))
            found.floods.append(FloodSample(topology, 8000, True, rate * mean / 4, 50.0, 0.1))
    found.operations = {"catching up": [200.0, 240.0], "store": [0.3, 0.4, 0.5], "gossip processed": []}
    return found


def test_a_statistic_is_the_papers() -> None:
    found = describe([1.0, 2.0, 3.0, 4.0, 10.0])
    assert (found.count, found.mean, found.median) == (5, 4.0, 3.0)
    assert found.deviation == pytest.approx(math.sqrt(50 / 4))
    assert found.error == pytest.approx(found.deviation / math.sqrt(5))
    assert describe([7.0]).deviation == 0.0
    with pytest.raises(ValueError, match="nothing"):
        describe([])


@pytest.mark.req("RD-24")
def test_the_networks_are_those_of_the_paper(tmp_path: Path) -> None:
    shapes = {}
    for name, topology in TOPOLOGIES.items():
        config = network(topology, tmp_path, "segments")
        shapes[name] = len(config.nodes), len(config.repositories)
        assert all(each.storage.startswith("segments:") for each in config.repositories)
    assert shapes == {"A": (1, 1), "B": (3, 1), "C": (3, 3)}
    assert len(OTHERS) + 2 == 20
    without = network(TOPOLOGIES["C"], tmp_path, "sqlite", "r3")
    assert [each.name for each in without.repositories] == ["r1", "r2"]
    assert len({each.broker for each in network(TOPOLOGIES["C"], tmp_path, "sqlite").repositories}) == 3


def test_plans() -> None:
    assert NaradaPlan().runs == 50
    assert NaradaPlan(payloads=(100,)).sizes == (100, 8000), "table 1 is of 8 KB"
    assert QUICK.sizes == (100, 8000)
    assert payloads_of("500,100") == (100, 500)
    assert topologies_of("c,a") == ("A", "C")
    for wrong in ("", "D", "A,,X"):
        with pytest.raises(InvalidInput, match="expected some of A, B, C"):
            topologies_of(wrong)


def test_the_table_has_the_rows_that_were_measured() -> None:
    rows = {each.row.key: each for each in results().table_1()}
    assert list(rows) == ["delivery A", "delivery B", "delivery C", "store", "catching up"]
    assert rows["catching up"].factor == pytest.approx(11_172 / 220)
    assert rows["delivery A"].ours.mean == 3.0
    assert {row.key for row in TABLE_1} >= rows.keys()


def test_goals_are_judged_by_medians() -> None:
    found = results()
    a_delay, a_rate, *_, c_delay, c_rate, recovery = found.judge()
    assert (a_delay.value, a_delay.met) == (2.0, True), "one millisecond more is two syncs"
    assert (a_rate.value, a_rate.met) == (0.25, False)
    assert (c_delay.met, c_rate.met) == (True, True)
    assert recovery.value == pytest.approx(11_172 / 220)
    assert recovery.met
    assert NaradaResults("", "", MACHINE, NaradaPlan()).judge() == []


def test_the_report_and_the_plot(tmp_path: Path) -> None:
    found = results()
    console = Console(file=io.StringIO(), width=200)
    report.show(found, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for expected in ("11,172 ms", "220 ms", "1,408 µs", "400 µs", "1 ms = 2 fdatasyncs", "missed", "0.25"):
        assert expected in text
    assert plot.draw(found, tmp_path / "narada.png")[0].stat().st_size > 10_000
    found.write(tmp_path / "narada.json")
    written = json.loads((tmp_path / "narada.json").read_text())
    assert len(written["figures"]) == 6
    assert len(written["goals"]) == 7
    report.show(NaradaResults("", "", MACHINE, NaradaPlan(), interrupted=True), console)
    assert "interrupted" in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("storage", ["sqlite", "segments"])
def test_single_operations_are_timed_with_the_real_machines(tmp_path: Path, storage: str) -> None:
    found = measure(CostTrial(str(tmp_path), storage, 8000, runs=3, missed=40, rounds=1))
    assert [len(getattr(found, field)) for field in found.__struct_fields__] == [3, 3, 3, 3, 1, 3, 3]
    assert all(value > 0 for field in found.__struct_fields__ for value in getattr(found, field))
