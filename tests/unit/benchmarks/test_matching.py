"""The matching benchmark: its tree, its loop and its own idea of the truth agree, or no figure means anything."""

import pytest
from benchmarks.matching import clock
from benchmarks.matching.contestants import ENTRIES, Naive
from benchmarks.matching.goals import judge
from benchmarks.matching.population import MEMBERS
from benchmarks.matching.results import Results, Sample
from benchmarks.matching.tree import Tree
from benchmarks.matching.trial import Task, measure
from benchmarks.matching.truth import Disagreement, Truth
from benchmarks.matching.workloads import MASKS, WORKLOADS

from stentor import Filter
from stentor.bench.machine import MachineDescription

COUNT, EVENTS = 300, 200
NAMES = sorted(WORKLOADS)


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("name", NAMES)
def test_the_tree_finds_what_a_loop_finds(name: str, masks: str) -> None:
    workload = WORKLOADS[name]
    filters, events = workload.filters(COUNT, 1), workload.events(EVENTS, 2)
    tree, naive = Tree(events[0]), Naive()
    for number, owner in enumerate(filters.owners(masks)):
        where = Filter(filters.text(number))
        tree.add(where, owner)
        naive.add(where, owner)
    found = [naive.match_one(event) for event in events]
    assert [tree.match_one(event) for event in events] == found
    assert any(found)


@pytest.mark.parametrize("name", NAMES)
def test_the_tree_forgets_what_is_removed(name: str) -> None:
    workload = WORKLOADS[name]
    filters, events = workload.filters(COUNT, 3), workload.events(EVENTS, 4)
    tree, naive = Tree(events[0]), Naive()
    pairs = [(Filter(filters.text(number)), owner) for number, owner in enumerate(filters.owners("dense"))]
    for where, owner in pairs + pairs[::3]:  # a third of them twice
        tree.add(where, owner)
        naive.add(where, owner)
    for where, owner in pairs:
        tree.remove(where, owner)
        naive.remove(where, owner)
    assert [tree.match_one(event) for event in events] == [naive.match_one(event) for event in events]
    for where, owner in pairs[::3]:
        tree.remove(where, owner)
    root = tree._root
    assert (root.count, root.edges, root.any, root.masks, root.repeats) == (0, {}, None, {}, {})


def test_the_tree_takes_any_value_where_none_is_asked_for() -> None:
    tree = Tree(("a", "b"))
    tree.add(Filter("b = 'x'"), 3)
    tree.add(Filter("c >= 2 AND c <= 5.5"), 4)
    assert tree.match_one({"a": "anything", "b": "x"}) == 1 << 3
    assert tree.match_one({"b": "x", "c": 5.5}) == 1 << 3 | 1 << 4
    assert tree.match_one({"b": "y", "c": 6}) == 0


@pytest.mark.parametrize("text", ["a = 'x' OR b = 'y'", "a > 1", "a = 'x' AND a = 'y'", "z = 'x'"])
def test_the_tree_refuses_what_it_cannot_file(text: str) -> None:
    with pytest.raises(ValueError):
        Tree(("a", "b")).add(Filter(text), 0)


@pytest.mark.parametrize("name", NAMES)
def test_the_truth_is_what_the_language_says(name: str) -> None:
    workload = WORKLOADS[name]
    filters, events = workload.filters(COUNT, 5), workload.events(50, 6)
    compiled = [Filter(filters.text(number)) for number in range(COUNT)]
    for event in events:
        assert filters.truth(event).tolist() == [where.matches(event) for where in compiled]


@pytest.mark.parametrize("name", NAMES)
def test_sparse_masks_have_few_bits_and_dense_ones_many(name: str) -> None:
    workload = WORKLOADS[name]
    filters, events = workload.filters(20_000, 7), workload.events(100, 8)
    assert all(0 <= owner < MEMBERS for masks in MASKS for owner in filters.owners(masks))
    sparse, dense = (Truth(filters, filters.owners(masks), events).figures()["bits"] for masks in ("sparse", "dense"))
    assert sparse < 5
    assert sparse < dense / 2


def test_workloads_are_the_same_for_the_same_seed() -> None:
    for workload in WORKLOADS.values():
        first, second = (workload.filters(100, 9) for _ in range(2))
        assert [first.text(number) for number in range(100)] == [second.text(number) for number in range(100)]
        assert workload.events(100, 9) == workload.events(100, 9)


def test_a_wrong_answer_ends_a_trial() -> None:
    workload = WORKLOADS["W1"]
    filters, events = workload.filters(COUNT, 1), workload.events(EVENTS, 2)
    truth = Truth(filters, filters.owners("dense"), events)
    with pytest.raises(Disagreement, match="one event"):
        truth.check_one(lambda _: 0)


@pytest.mark.parametrize("contestant", ENTRIES)
def test_a_trial_measures_and_checks(contestant: str) -> None:
    figures = measure(Task("W2", "dense", contestant, size=200, rounds=2, seconds=0.01))
    assert len(figures["one"]) == len(figures["add_p50"]) == len(figures["remove_p99"]) == 2
    assert ("batch1000" in figures) is ENTRIES[contestant].batches


def test_the_clock_counts_calls() -> None:
    calls: list[int] = []
    assert clock.rate(calls.append, range(10), 0.001) > 0
    assert set(calls) == set(range(10))
    assert clock.costs(divmod, [(7, 2), (9, 3)])[1] >= 0


def test_a_goal_is_judged_by_the_worst_trial() -> None:
    results = Results("", MachineDescription(2, "", 1, "", "", 0), {})
    for masks, rate in (("dense", 900_000.0), ("sparse", 300_000.0)):
        results.samples.append(
            Sample("W2", masks, "masks", 1_000, {"batch1000": [rate, rate, 0.0], "one": [250_000.0]})
        )
    verdicts = {verdict.text: verdict for verdict in judge(results)}
    batches = verdicts["W2: batches of 1,000 ≥ 400,000 events/s at every size"]
    assert (batches.measured, batches.met) == (300_000, False)
    assert "sparse" in batches.where
    assert verdicts["W2: an event against 1,000 filters ≤ 6 µs"].measured == 4
