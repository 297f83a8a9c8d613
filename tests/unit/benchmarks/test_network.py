"""The benchmark of a network: its laboratory is a network indeed, and its figures are about what they say."""

from pathlib import Path

import pytest
from benchmarks.network import growth, hops, settling, traffic
from benchmarks.network.results import Results
from benchmarks.network.traffic import build

from stentor.bench import ges22
from stentor.bench.machine import MachineDescription
from stentor.config import load

MACHINE = MachineDescription(2, "a processor", 8.0, "Linux", "CPython", 0.1)


def test_all_brokers_of_the_laboratory_know_each_other(tmp_path: Path) -> None:
    lab = build(ges22.network(tmp_path, connected=False), "content")
    assert len(lab.brokers) == 22
    for broker in lab.brokers.values():
        seen = broker.view()
        assert not seen.parted
        assert all(member.reachable for scope in seen.scopes for member in scope.members)
        assert all(link.state == "up" for link in seen.links)


def test_content_routing_uses_fewer_links_than_flooding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "EVENTS", 60)
    config = load(traffic.CAMPUS)
    flooded, _ = traffic._trial(config, "flooding", common=True)
    routed, _ = traffic._trial(config, "content", common=True)
    assert flooded == 60 * 8  # over a tree each event takes a link to every other broker
    assert 0 < routed <= flooded / 5
    assert routed % 8 == 0  # and so does each that everybody wants


def test_a_relay_hop_passes_on_and_a_matching_hop_looks() -> None:
    bench = hops.Bench(200)
    bench._relay.receive(bench._from, bench._flows, bench.parcels(5, 4)[0], 0, 1 << 20)
    assert (bench._relay.relayed, bench._relay.matched) == (5, 0)
    assert [len(box.fresh) for box in bench._boxes] == [0, 0, 1, 0]
    bench._relay.receive(bench._from, bench._flows, bench.parcels(50, 1)[0], 0, 1 << 20)
    assert bench._relay.matched == 1
    assert [len(box.fresh) for box in bench._boxes] == [0, 1, 1, 0]


def test_who_joins_is_heard_of_inside_its_unit_and_hardly_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "JOIN_SIZES", (3, 3, 2))
    found = growth.joining()
    assert found["brokers"] == 18
    assert found["graph_nodes"] == 8
    assert found["outside"] < found["inside"]
    assert found["outside_reached"] <= 6  # the rest of its super-cluster hears that the cluster has one more


def test_profiles_are_told_in_fewer_words_than_they_were_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "SUBSCRIPTIONS", (150,))
    rows = growth.profiles()
    assert [row["level"] for row in rows] == [0, 1, 2, 3]
    assert all(row["wants"] <= row["distinct"] <= row["predicates"] for row in rows)
    assert rows[-1]["predicates"] == 75


def test_settling_costs_two_changes_and_a_receipt_from_everybody() -> None:
    assert settling.count_messages("chain") == {"ProfileChange": 4, "MarkReceipt": 3}  # b2's takes two links
    assert settling.count_messages("mesh") == {"ProfileChange": 2 * (7 + 7 * 6), "MarkReceipt": 7}


def test_a_broker_of_ten_thousand_knows_forty() -> None:
    assert growth.holding() == {"brokers": 10_000, "levels": 4, "nodes": 40, "edges": 324}


def test_goals_are_judged_by_the_worst() -> None:
    found = Results(date="", machine=MACHINE)
    assert list(found.verdicts()) == []
    found.hops = [{"batch": 1, "ratio": 0.2}, {"batch": 1, "ratio": 0.4}, {"batch": 100, "ratio": 0.05}]
    found.failing = {"silent": [{"heartbeats": 1.0, "gap_s": 1.0}, {"heartbeats": 2.5, "gap_s": 2.5}]}
    found.traffic = [
        {"wanted": "the same 5 %", "events_ratio": 18.0},
        {"wanted": "5 % of its own", "events_ratio": 3.0},
    ]
    assert [(verdict.measured, verdict.met) for verdict in found.verdicts()] == [
        (0.4, False),
        (0.05, True),
        (18.0, True),
        (2.5, False),
    ]
