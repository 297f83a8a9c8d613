"""The GES benchmark without its processes: the grid, the networks, and what becomes of figures."""

import io
import sys
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from stentor.bench import ges22, plot, report
from stentor.bench.grid import MATCHES, QUICK, WHERE, Trial, TrialGrid, numbers, whole
from stentor.bench.machine import MachineDescription
from stentor.bench.measurer import Latency, latency
from stentor.bench.paper import TABLE_2
from stentor.bench.replication import REPLICATIONS
from stentor.bench.results import CHAINS, CONNECTED, GesResults, Sample
from stentor.config import Config, load
from stentor.model.errors import InvalidInput
from stentor.model.filter import Filter

EXAMPLES = Path(__file__).parents[3] / "examples"
MACHINE = MachineDescription(2, "a processor", 8.0, "Linux", "CPython", 0.1)


def taken(mean: float, received: int = 10, missed: int = 0) -> Latency:
    return Latency(received, missed, mean, mean / 10, mean, 2 * mean, 3 * mean)


def sample(network: str, trial: Trial, latencies: dict[int, Latency], copies: int = 0) -> Sample:
    return Sample(network, trial, trial.seconds, latencies, 100, 100, 0.1, copies)


def results() -> GesResults:
    found = GesResults("2026-01-01", "0.1", MACHINE, {}, clients=102)
    for rate, mean in ((20.0, 3.0), (952.0, 30.0)):
        for match in (100, 50):
            found.samples.append(sample(CHAINS, Trial(rate, 50, match, 10), {9: taken(mean * match / 100)}))
        found.hops.append(sample(CHAINS, Trial(rate, 50, 50, 10), {1: taken(1.0), 9: taken(mean)}))
        near = {1: taken(1.5), 2: taken(2.0), 4: taken(2.5)}
        found.hops.append(sample(CONNECTED, Trial(rate, 50, 50, 10), near))
        for copies in (1, 2):
            stored = {6: taken(copies + mean), 9: taken(2 * copies + mean)}
            found.stored.append(sample(CHAINS, Trial(rate, 50, 50, 10), stored, copies))
    return found


@pytest.mark.parametrize("match", MATCHES)
def test_the_match_rate_is_the_share_of_events_that_the_filter_takes(match: int) -> None:
    trial = Trial(100.0, 50, match, 1000)
    where = Filter(WHERE)
    wanted = [where.matches(trial.attributes(number)) for number in range(trial.events)]
    assert sum(wanted) == trial.wanted == 10 * match
    assert {len(trial.attributes(number)) for number in range(5)} == {6}
    assert list(trial.attributes(0))[3] == "footprint"


def test_trials_last_long_enough_for_a_mean_and_no_longer() -> None:
    trials = list(TrialGrid().trials())
    assert all(trial.wanted >= 5 for trial in trials)
    assert max(trial.seconds for trial in trials) <= 6.5
    assert (1.0, 50) in TrialGrid().left_out()
    assert not [trial for trial in trials if trial.rate == 1 and trial.match < 100]
    assert sum(trial.seconds for trial in trials) < 400
    assert [trial.events for trial in TrialGrid(rates=(1.0,), sizes=(50,), matches=(50,), events=40).trials()] == [40]


@pytest.mark.parametrize("text", ["", "x", "1,,2", "0", "nan", "1e9", "20;100"])
def test_lists_that_are_none(text: str) -> None:
    with pytest.raises(InvalidInput, match="--rates"):
        numbers(text, "--rates", 0.1, 100_000)


def test_lists_are_sorted_and_whole_where_they_must_be() -> None:
    assert numbers("100, 20,20", "--rates", 0.1, 1000) == (20.0, 100.0)
    with pytest.raises(InvalidInput, match="whole"):
        whole((50.5,), "--sizes")


@pytest.mark.parametrize(("connected", "example"), [(False, "ges22.toml"), (True, "ges22-connected.toml")])
def test_the_networks_are_those_of_the_examples(tmp_path: Path, connected: bool, example: str) -> None:
    def links(config: Config) -> set[frozenset[str]]:
        return {frozenset(map(str, link.between)) for link in config.links}

    ours, theirs = ges22.network(tmp_path, connected=connected), load(EXAMPLES / example)
    assert [node.name for node in ours.nodes] == [node.name for node in theirs.nodes]
    assert links(ours) == links(theirs)
    assert ours.fabric.costs == theirs.fabric.costs


@pytest.mark.req("GE-18")
def test_replications_are_stored_where_the_paper_stores_them(tmp_path: Path) -> None:
    config = ges22.network(tmp_path, connected=False, storages=True)
    assert {each.name: str(each.broker) for each in config.repositories} == {
        "r1": "SSC-B/SC-5/k/1",
        "r2": "SSC-B/SC-6/n/8",
    }
    assert [(each.copies, each.repositories) for each in REPLICATIONS] == [(0, ()), (1, ("r1",)), (2, ("r1", "r2"))]
    assert len({each.topic for each in REPLICATIONS}) == 3


def test_few_match_rates_are_tried_with_what_is_stored() -> None:
    assert TrialGrid().stored().matches == (100, 50, 10)
    assert QUICK.stored().matches == (50,)
    assert TrialGrid(matches=(33,)).stored().matches == (33,)


def test_nothing_is_said_of_replications_that_were_not_tried() -> None:
    found = results()
    found.stored = []
    out = io.StringIO()
    report.show(found, TrialGrid(), Console(file=out, width=200))
    assert "eplication" not in out.getvalue()
    assert list(found.by_copies()) == []


def test_mean_and_variance_are_of_the_sample() -> None:
    found = latency([1_000_000, 3_000_000], wanted=3)
    assert (found.received, found.missed, found.mean, found.variance) == (2, 1, 2.0, 2.0)
    assert latency([], wanted=4).missed == 4


@pytest.mark.req("GE-18")
def test_the_lowest_and_highest_of_each_match_rate_and_the_cost_of_a_hop() -> None:
    found = results()
    extremes = found.extremes(50)
    assert extremes is not None
    assert [(each.latency.mean, each.trial.rate) for each in extremes] == [(1.5, 20.0), (15.0, 952.0)]
    assert found.extremes(10) is None
    first, last = found.by_hops()
    assert first.means == {1: 1.5, 2: 2.0, 4: 2.5, 9: 3.0}
    assert first.per_hop == pytest.approx(0.25)
    assert last.per_hop == pytest.approx(29 / 8)
    assert found.lost() == 0


@pytest.mark.req("GE-18")
def test_the_report_has_the_papers_figures_beside_ours() -> None:
    out = io.StringIO()
    report.show(results(), TrialGrid(), Console(file=out, width=200))
    text = out.getvalue()
    for theirs in (TABLE_2[100], TABLE_2[50]):
        assert f"{theirs.high:.0f} @ <952, " in text
    assert "15 @ <952, 50>" in text
    assert "0.25 ms at 20 events/s" in text
    assert "one: stored by the repository at broker 1; two: and by that of SC-6, at broker 8" in text
    assert [line.split() for line in text.splitlines() if line.startswith("│ 50 %  │ 952")] == [
        ["│", "50", "%", "│", "952", "│", "50", "│", "15", "│", "32", "│", "34", "│", "31", "│"]
    ]
    assert "not a quiet machine" not in text


def test_the_file_says_the_same(tmp_path: Path) -> None:
    results().write(tmp_path / "new" / "ges.json")
    content = msgspec.json.decode((tmp_path / "new" / "ges.json").read_bytes())
    assert content["table_2"]["50"]["highest"]["latency"]["mean"] == 15.0
    assert [each["per_hop"] for each in content["figure_10"]] == [0.25, 29 / 8]
    assert [(each["none"], each["one"], each["two"]) for each in content["figure_8"]] == [(1.5, 5, 7), (15, 32, 34)]
    assert content["machine"]["processors"] == 2


def test_plots_are_drawn_where_there_is_matplotlib_and_missed_politely_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    assert [path.name for path in plot.draw(results(), tmp_path)] == [
        "ges-latency.png",
        "ges-hops.png",
        "ges-stored.png",
    ]
    assert all(
        (tmp_path / name).stat().st_size > 1000 for name in ("ges-latency.png", "ges-hops.png", "ges-stored.png")
    )
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError):
        plot.draw(results(), tmp_path)
    assert "stentor[bench]" in plot.MISSING
