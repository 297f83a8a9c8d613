"""Indexes that are made anew beside those in use: they find the same, and what damage has done does not last."""

import pytest

from stentor.matching.pairs.pair_index import PairIndex
from stentor.matching.renewal import _CHANGES_MAX, Renewal
from stentor.model.filter import Filter

TEXTS = [f"a = {number} AND b > {number}" for number in range(20)]
FOUND = {"a": 3, "b": 9}


def index(*texts: str) -> PairIndex:
    made = PairIndex()
    for number, text in enumerate(texts):
        made.add(Filter(text), number)
    return made


def lose_everything(damaged: PairIndex) -> None:
    for group in damaged._filed.groups:
        group.buckets.clear()


def test_what_is_lost_is_found_again_when_all_was_filed_anew() -> None:
    pairs = index(*TEXTS)
    lose_everything(pairs)
    assert pairs.match_one(FOUND) == []
    assert pairs.renew(15) == 15
    assert (pairs.is_renewed, pairs.match_one(FOUND)) == (False, [])
    assert pairs.renew(15) == 5
    assert (pairs.is_renewed, pairs.match_one(FOUND)) == (True, [3])


def test_what_comes_and_goes_meanwhile_is_in_the_new_index_as_it_should() -> None:
    pairs = index(*TEXTS)
    pairs.renew(10)
    pairs.remove(3)  # was filed anew
    pairs.remove(17)  # was not yet
    pairs.add(Filter("a = 3 AND b < 20"), 99)
    pairs.add(Filter("a = 17 AND b < 20"), 17)  # another one under a number of before
    while not pairs.is_renewed:
        pairs.renew(1)
    assert pairs.match_one(FOUND) == [99]
    assert pairs.match_one({"a": 17, "b": 18}) == [17]
    assert len(pairs) == 20


def test_costs_are_those_of_the_new_index() -> None:
    texts = [f"name LIKE '%{number}%x%{number}%'" for number in range(200)]
    pairs, sound = index(*texts), index(*texts)
    pairs._filed.evaluated = 7
    pairs.renew(len(texts))
    assert pairs.evaluated == sound.evaluated > 0
    assert pairs.load == sound.load


def test_what_is_not_where_it_was_filed_can_be_removed() -> None:
    pairs = index(*TEXTS)
    lose_everything(pairs)
    pairs.remove(5)
    assert pairs.match_one({"a": 5, "b": 9}) == []
    assert pairs.match_one(FOUND) == [3]


def test_all_but_some_are_forgotten() -> None:
    pairs = index(*TEXTS)
    pairs.keep({3, 4, 5, 6, 7, 100})
    assert (len(pairs), pairs.match_one(FOUND), pairs.match_one({"a": 8, "b": 9})) == (5, [3], [])


def test_a_storm_of_changes_lets_an_index_in_the_making_be_given_up() -> None:
    renewal: Renewal[list[int], int] = Renewal([], range(2), list.append)
    assert all(renewal.note(change) for change in range(_CHANGES_MAX))
    assert not renewal.note(0)
    pairs = index(*TEXTS)
    pairs.renew(1)
    for _ in range(_CHANGES_MAX):
        pairs.remove(3)
        pairs.add(Filter(TEXTS[3]), 3)
    assert pairs.is_renewed, "it begins anew with the next slice"
    assert pairs.match_one(FOUND) == [3]


@pytest.mark.parametrize("most", [1, 7, 100])
def test_an_index_finds_the_same_while_it_is_made_anew(most: int) -> None:
    pairs = index(*TEXTS)
    for _ in range(30):
        pairs.renew(most)
        assert [pairs.match_one({"a": number, "b": 50}) for number in range(20)] == [[number] for number in range(20)]
