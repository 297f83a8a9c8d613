"""Who gives how many clients to whom, and where a newcomer is better off."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stentor.cli.running.balance import Move, balance
from stentor.policies.host_choice import Load, find_host

LOADS = st.lists(st.integers(0, 500), min_size=1, max_size=8)


def cluster(*clients: int) -> list[Load]:
    return [Load(f"b{place}", count) for place, count in enumerate(clients)]


def moved(brokers: list[Load], moves: list[Move]) -> list[Load]:
    gain = {each.name: 0 for each in brokers}
    for move in moves:
        gain[move.origin] -= move.clients
        gain[move.target] += move.clients
    return [Load(name, clients + gain[name]) for name, clients in brokers]


@pytest.mark.req("GE-17")
def test_half_of_the_excess_goes_to_who_has_least() -> None:
    assert balance(10, cluster(30, 0)) == [Move("b0", "b1", 8)]
    assert balance(10, cluster(30, 12, 0)) == [Move("b0", "b2", 8)]
    assert balance(10, cluster(100, 0, 0)) == [Move("b0", "b1", 33)], "the share is 34"


def test_nobody_gives_who_is_not_above_the_limit_nor_for_a_little() -> None:
    assert balance(10, cluster(10, 0)) == []
    assert balance(10, cluster(11, 0)) == [], "a tenth too many is not worth a move"
    assert balance(10, cluster(99)) == []
    assert balance(10, []) == []


@given(st.integers(1, 100), LOADS)
def test_who_gives_stays_above_its_share_and_who_takes_below_until_nothing_is_left_to_move(
    limit: int, clients: list[int]
) -> None:
    brokers = cluster(*clients)
    for _ in range(12):
        moves = balance(limit, brokers)
        assert {move.origin for move in moves}.isdisjoint(move.target for move in moves)
        assert all(move.clients > 0 for move in moves)
        share = max(limit, -(-sum(clients) // len(clients)))
        after = dict(moved(brokers, moves))
        assert all(after[move.origin] >= share for move in moves)
        assert all(after[move.target] <= share for move in moves)
        brokers = moved(brokers, moves)
    assert balance(limit, brokers) == [], "it comes to rest"


def test_a_newcomer_is_pointed_to_the_neighbour_with_least_to_do() -> None:
    assert find_host(10, 11, cluster(9, 3, 3)) == "b1"
    assert find_host(10, 10, cluster(0)) is None, "it is no more than it may have"
    assert find_host(10, 99, cluster(10, 12)) is None, "others have enough to do"
    assert find_host(10, 99, []) is None
