"""`stentor pipeline campaign`: seeds as tasks of Spark come to what they come to anywhere."""

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark import breaking
from typer.testing import CliRunner, Result

from stentor.cli.main import build
from stentor.cli.pipeline import campaign as command
from stentor.pipeline import campaign
from stentor.simulation.scenarios import SCENARIOS

pytestmark = pytest.mark.req("SP-08")


def invoke(*arguments: str) -> Result:
    words = ["pipeline", "campaign", *arguments, "--master", "local[2]"]
    return CliRunner().invoke(build(["pipeline"]), words, env={"COLUMNS": "200"})


@pytest.mark.usefixtures("spark")
def test_seeds_are_summed_up_as_if_they_had_run_here(spark: SparkSession, tmp_path: Path) -> None:
    result = invoke("log", "--seeds", "45", "--first", "10", "--json", "--out", str(tmp_path / "found"))
    assert result.exit_code == 0, result.output
    summary = json.loads(result.output)
    expected = {seed: SCENARIOS["log"].run(seed) for seed in range(10, 55)}
    assert (summary["scenario"], summary["first"], summary["seeds"], summary["failed"]) == ("log", 10, 45, 0)
    assert summary["statistics"] == dict(sum((Counter(each.statistics) for each in expected.values()), Counter()))
    rows = spark.read.parquet(str(tmp_path / "found")).collect()
    assert {row.seed: row.digest for row in rows} == {seed: each.digest for seed, each in expected.items()}


@pytest.mark.usefixtures("spark")
def test_failing_seeds_are_listed_with_what_replays_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "run", breaking.run)
    result = invoke("log", "--seeds", "40")
    assert result.exit_code == 1, result.output
    lines = [line.split() for line in result.output.splitlines() if "stentor simulate" in line]
    assert [line[:5] for line in lines] == [
        ["stentor", "simulate", "log", "--seed", str(seed)] for seed in (breaking.LOSES, breaking.CRASHES)
    ]
    assert "lost-write" in lines[0]
    assert lines[1][5:] == [campaign.CRASH]
    assert "seeds 0 to 39, 2 failed" in result.output


def test_all_scenarios_take_turns(spark: SparkSession) -> None:
    found = campaign.outcomes(spark, ["log", "overlay"], 3, 4, command.run)
    rows = found.select("scenario", "seed", "digest").collect()
    expected = {(name, seed): SCENARIOS[name].run(seed).digest for name in ("log", "overlay") for seed in range(3, 7)}
    assert {(row.scenario, row.seed): row.digest for row in rows} == expected
    assert len(rows) == len(expected)


def test_what_most_means_is_the_most(spark: SparkSession) -> None:
    rows = [("a", 1, {"most-links": 3, "links": 3}), ("a", 2, {"most-links": 5, "links": 5}), ("b", 1, {"links": 1})]
    found = spark.createDataFrame(rows, "scenario string, seed long, statistics map<string, long>")
    told = {(row.scenario, row.what): row["count"] for row in campaign.statistics(found).collect()}
    assert told == {("a", "most-links"): 5, ("a", "links"): 8, ("b", "links"): 1}


@pytest.mark.parametrize("most", [1, 2])
def test_the_first_that_failed_of_each_scenario(spark: SparkSession, most: int) -> None:
    wrong = [("lost-write", "one"), ("duplicate", "two"), ("duplicate", "three")]
    rows = [(name, seed, wrong if seed % 2 else []) for name in ("a", "b") for seed in range(8, 0, -1)]
    columns = "scenario string, seed long, anomalies array<struct<kind: string, detail: string>>"
    found = spark.createDataFrame(rows, columns)
    told = [tuple(row) for row in campaign.failed(found, most).orderBy("scenario", "seed").collect()]
    expected = [(name, seed, ["duplicate", "lost-write"], "one") for name in ("a", "b") for seed in (1, 3)[:most]]
    assert told == expected
    kinds = {(row.scenario, row.kind): (row.anomalies, row.seeds) for row in campaign.failures(found).collect()}
    assert kinds["a", "duplicate"] == (8, 4)
    assert kinds["b", "lost-write"] == (4, 4)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("brocker",), "did you mean 'broker'?"),
        (("log", "--seeds", "0"), "greater than or equal to 1"),
    ],
)
def test_wrong_use_is_exit_code_2_with_a_hint(arguments: tuple[str, ...], hint: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert hint in result.output


def test_a_campaign_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    result = invoke("log", "--out", str(tmp_path))
    assert "is there already" in str(result.exception)
