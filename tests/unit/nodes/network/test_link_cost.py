"""What a link costs: more while it is slow, in steps, and not for a moment's sake."""

from functools import partial

import pytest

from stentor.machine import MILLISECOND
from stentor.model.scope import LARGEST_UNIT
from stentor.nodes.network.link_cost import DETOUR_COST, TREE_COST, MeasuredCost, TreeLinkCost, thousandths

QUICK, SLOW = MILLISECOND, 35 * MILLISECOND


@pytest.mark.req("GE-04")
def test_a_link_is_dearer_only_after_several_round_trips_that_agree() -> None:
    cost = MeasuredCost(2000)
    assert [cost.measure(SLOW, is_slow=False) for _ in range(6)] == [False] * 5 + [True]
    assert cost.now == 3 * 2000, "35 ms are between two and four times 10 ms"
    assert not cost.measure(SLOW, is_slow=False), "it is what it was"


def test_one_round_trip_that_is_different_begins_the_count_again() -> None:
    cost = MeasuredCost(1000)
    for _ in range(4):
        assert not cost.measure(QUICK, is_slow=True)
    assert not cost.measure(QUICK, is_slow=False)
    assert [cost.measure(QUICK, is_slow=True) for _ in range(6)] == [False] * 5 + [True]
    assert cost.now == 3000, "events that wait for the peer count like a way four times as long"


def test_a_round_trip_is_smoothed_and_a_link_gets_cheap_again() -> None:
    cost = MeasuredCost(1000)
    for _ in range(6):
        cost.measure(SLOW, is_slow=False)
    before = cost.trip_ns
    cost.measure(QUICK, is_slow=False)
    assert QUICK < cost.trip_ns < before
    for _ in range(40):
        cost.measure(QUICK, is_slow=False)
    assert cost.now == 1000


def test_every_link_costs_something() -> None:
    assert (thousandths(0.0), thousandths(0.0001), thousandths(1.5)) == (1, 1, 1500)


@pytest.mark.req("SC-02", "CO-13")
def test_a_link_of_the_tree_costs_so_little_that_no_other_one_is_worth_a_whole_tree() -> None:
    edges = {"b"}
    in_tree, other, cheap = (
        TreeLinkCost(base, partial(edges.__contains__, name)) for name, base in (("b", 9000), ("c", 2000), ("d", 1))
    )
    assert (in_tree.now, other.now, cheap.now) == (TREE_COST, 2000, DETOUR_COST)
    assert (LARGEST_UNIT - 1) * in_tree.now < cheap.now
    edges.remove("b")
    assert in_tree.now == 9000, "the tree has changed"


def test_in_a_scope_with_a_tree_a_slow_link_costs_what_it_did() -> None:
    cost = TreeLinkCost(1000, lambda: False)
    for _ in range(10):
        cost.measure(SLOW, is_slow=True)
    assert cost.now == 1000


def test_what_an_operator_says_of_a_cost_holds_at_once_but_for_links_of_a_tree() -> None:
    usual, in_tree = MeasuredCost(1000), TreeLinkCost(1000, lambda: True)
    assert (usual.set_base(3000), in_tree.set_base(3000)) == (3000, TREE_COST)
    assert (usual.base, in_tree.base) == (3000, 3000)
