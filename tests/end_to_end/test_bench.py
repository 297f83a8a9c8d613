"""`stentor bench` and `stentor plan` as a user runs them."""

import json
from pathlib import Path

import pytest
from tests.end_to_end.command import Command, children, gone, in_process


@pytest.mark.slow
@pytest.mark.req("GE-18")
def test_the_papers_network_is_measured_for_real(tmp_path: Path) -> None:
    options = ("--rates", "20,200", "--sizes", "50", "--match", "50", "--events", "20", "--out", tmp_path / "out")
    with Command("bench", "ges", *options, cwd=tmp_path) as bench:
        bench.line("clients subscribe")
        brokers = children(bench.process.pid)
        assert len(brokers) >= 24  # with two repositories
        assert bench.ended(within=240.0) == 0, bench.errors
        assert gone(*brokers)
    text = "\n".join(bench.out)
    assert "102 clients over 9 hops" in text
    assert "178.66" in text or "179 @ <952, 350>" in text  # the paper's, beside ours
    found = json.loads((tmp_path / "out" / "ges.json").read_text())
    assert [each["latencies"]["9"]["received"] for each in found["samples"]] == [10, 10]
    assert [each["received"] for each in found["samples"]] == [1000, 1000]  # by the other hundred clients
    stored = [(each["copies"], each["trial"]["rate"]) for each in found["stored"]]
    assert stored == [(1, 20.0), (1, 200.0), (2, 20.0), (2, 200.0)]
    assert [each["received"] for each in found["stored"]] == [1000] * 4
    assert all(each["latencies"][hops]["received"] == 10 for each in found["stored"] for hops in ("6", "9"))
    assert all(each[copies] > 0 for each in found["figure_8"] for copies in ("none", "one", "two"))
    for point in found["figure_10"]:
        assert set(point["means"]) == {"1", "2", "4", "9"}
        assert all(mean > 0 for mean in point["means"].values())
        assert point["per_hop"] is not None
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "ges.json",
        "ges-latency.png",
        "ges-hops.png",
        "ges-stored.png",
    }


@pytest.mark.slow
@pytest.mark.req("RD-24")
def test_the_papers_reliable_delivery_is_measured_for_real(tmp_path: Path) -> None:
    with Command("bench", "narada", "--quick", "--runs", "3", "--out", tmp_path / "out", cwd=tmp_path) as bench:
        assert bench.ended(within=240.0) == 0, bench.errors
    text = "\n".join(bench.out)
    assert "11,172 ms" in text  # the paper's, beside ours
    found = json.loads((tmp_path / "out" / "narada.json").read_text())
    assert len(found["table_1"]) == 12
    assert all(row["ours"]["mean"] > 0 for row in found["table_1"])
    assert [(each["topology"], each["size"]) for each in found["delays"]] == [
        (topology, size) for topology in "ABC" for size in (100, 8000)
    ]
    assert all(len(each["plain"]) == len(each["reliable"]) == 3 for each in found["delays"])
    assert all(each["rate"] > 0 for each in found["floods"])
    assert len(found["goals"]) == 7
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"narada.json", "narada.png"}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--topologies", "A,D"), "expected some of A, B, C"),
        (("--payloads", "4"), "expected 8 to 60000"),
        (("--storage", "paper"), "expected sqlite or segments"),
    ],
)
def test_plans_of_narada_that_cannot_be_measured_are_refused(
    tmp_path: Path, options: tuple[str, ...], reason: str
) -> None:
    done = in_process("bench", "narada", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert reason in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    with Command("bench", "ges", "--quick", "--out", tmp_path / "out", cwd=tmp_path) as bench:
        bench.line("starting 22 brokers")
        while not (brokers := children(bench.process.pid)):
            assert bench.process.poll() is None
        bench.interrupt()
        assert bench.ended() == 130
        assert gone(*brokers)
    assert "interrupted" in "\n".join(bench.out)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--rates", "fast"), "expected numbers such as 20,100, found 'fast'"),
        (("--rates", "0"), "expected 0.1 to 100000"),
        (("--sizes", "8"), "expected 16 to 65536"),
        (("--sizes", "50.5"), "whole numbers"),
        (("--match", "101"), "expected 1 to 100"),
        (("--replications", "3"), "expected 0 to 2"),
    ],
)
def test_grids_that_cannot_be_measured_are_refused(tmp_path: Path, options: tuple[str, ...], reason: str) -> None:
    done = in_process("bench", "ges", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert reason in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.req("GE-19")
def test_a_plan_in_words_and_as_json(tmp_path: Path) -> None:
    done = in_process("plan", "--clients", "20_000", "--levels", "3", "--shape", "ring", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "a random graph" in done.stdout
    assert "48 brokers with room for 24,000 clients" in done.stdout
    found = json.loads(in_process("plan", "--clients", "2e4", "--levels", "3", "--shape", "ring", "--json").stdout)
    assert found["brokers"] == 48
    assert [level["members"] for level in found["levels"]] == [4, 4, 3]
    assert found["graph_nodes"] == 11


def test_a_plan_whose_events_would_not_arrive_says_so() -> None:
    options = ("--levels", "2", "--unit", "64", "--shape", "ring", "--links-per-member", "2", "--samples", "20")
    done = in_process("plan", "--clients", "2e6", *options)
    assert done.returncode == 0
    assert "would be dropped" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--clients", "many"), "expected a number such as 1e9"),
        (("--clients", "0"), "expected 1 to 1e15"),
        (("--clients", "1e9", "--levels", "2"), "take 4 levels"),
        (("--clients", "10", "--shape", "star"), "expected mesh, ring, random"),
    ],
)
def test_plans_that_cannot_be_built_are_refused(options: tuple[str, ...], reason: str) -> None:
    done = in_process("plan", *options)
    assert done.returncode == 2
    assert reason in done.stderr
