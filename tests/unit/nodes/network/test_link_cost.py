"""What a link costs: more while it is slow, in steps, and not for a moment's sake."""

import pytest

from stentor.machine import MILLISECOND
from stentor.nodes.network.link_cost import MeasuredCost, thousandths

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
