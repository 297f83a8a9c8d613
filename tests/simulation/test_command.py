"""`stentor simulate`."""

import json

import pytest
from typer.testing import CliRunner, Result

from stentor.cli.main import build
from stentor.simulation.scenarios import SCENARIOS
from stentor.storage.segment import SegmentLog


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(build(["simulate"]), ["simulate", *arguments], env={"COLUMNS": "200"})


def test_without_a_scenario_they_are_listed() -> None:
    result = invoke()
    assert result.exit_code == 0
    assert all(name in result.output for name in SCENARIOS)


def test_a_seed_is_replayed_to_its_digest() -> None:
    result = invoke("log", "--seed", "5")
    assert result.exit_code == 0
    assert SCENARIOS["log"].run(5).digest in result.output
    assert "nothing happened that must not" in result.output


def test_a_trace_shows_every_step() -> None:
    result = invoke("log", "--seed", "5", "--trace")
    assert result.exit_code == 0
    assert all(line in result.output for line in SCENARIOS["log"].run(5, keep_trace=True).trace)


def test_many_seeds_in_many_processes_are_summed_up() -> None:
    result = invoke("log", "--seeds", "45", "--from", "10", "--json")
    assert result.exit_code == 0
    summary = json.loads(result.output)
    assert (summary["scenario"], summary["first"], summary["seeds"], summary["failed"]) == ("log", 10, 45, [])
    assert summary["statistics"]["syncs"] == sum(SCENARIOS["log"].run(s).statistics["syncs"] for s in range(10, 55))


def test_all_means_every_scenario() -> None:
    result = invoke("all", "--seed", "1", "--json")
    assert [json.loads(line)["scenario"] for line in result.output.splitlines()] == list(SCENARIOS)


def test_what_must_not_happen_is_exit_code_1_and_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SegmentLog, "sync", lambda _: None)
    one = invoke("log", "--seed", "0")
    assert (one.exit_code, "lost-write" in one.output) == (1, True)
    many = invoke("log", "--seeds", "3")
    assert (many.exit_code, "stentor simulate log --seed 0" in many.output) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("brocker",), "did you mean 'broker'?"),
        (("qqq",), f"there are {', '.join(map(repr, SCENARIOS))}"),
        (("log", "--trace"), "say which --seed"),
        (("log", "--seeds", "0"), "greater than or equal to 1"),
    ],
)
def test_wrong_use_is_exit_code_2_with_a_hint(arguments: tuple[str, ...], hint: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert hint in result.output
