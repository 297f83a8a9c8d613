"""The index of what members want, made anew from their profiles beside the one in use."""

from collections.abc import Iterator

import pytest

from stentor.matching.topic_tree import PatternMap
from stentor.model.attribute import Value
from stentor.model.filter import Filter
from stentor.protocols.dissemination.member_interests import Change, InterestIndex, MemberInterests

DEPTH = 2
WANTS: list[Change] = [
    (True, 0, 1, "a/#", ""),
    (True, 0, 2, "a/#", "n > 1"),
    (True, 1, 3, "a/#", "n = 5"),
    (True, 1, 3, "b", ""),
    (True, 0, 1, "b", "m = 'x'"),
]


def add(index: InterestIndex, change: Change) -> None:
    _, level, member, pattern, where = change
    index.add(DEPTH, level, member, pattern, Filter(where) if where else None)


def remove(index: InterestIndex, change: Change) -> None:
    _, level, member, pattern, where = change
    index.remove(level, member, pattern, Filter(where) if where else None)


def made() -> InterestIndex:
    index = InterestIndex()
    for want in WANTS:
        add(index, want)
    return index


def wants() -> Iterator[Change]:
    return iter(WANTS)


def masks(index: InterestIndex, topic: str) -> list[tuple[str, list[int], list[int]]]:
    """By pattern and level: who wants every event, and who one with n = 5 and m = 'x'."""
    event: dict[str, Value] = {"n": 5, "m": "x"}
    return [
        (each.pattern, each.whole, [0 if index is None else index.match_one(event) for index in each.filtered])
        for each in index.covering(topic)
    ]


def damage(index: InterestIndex) -> None:
    for each in index._by_pattern.values():
        each.whole[0] ^= 0b101
        for level in range(DEPTH):
            if (masks := each.filtered[level]) is not None:
                for group in masks._groups:
                    group.buckets.clear()


@pytest.mark.req("CO-01")
def test_damage_to_masks_is_gone_when_all_wants_were_indexed_anew() -> None:
    index, sound = made(), made()
    kept = index.covering("a/b")
    damage(index)
    for _ in range(len(WANTS) - 1):
        index.renew(DEPTH, wants, 1)
        assert masks(index, "a/b") != masks(sound, "a/b")
    index.renew(DEPTH, wants, 1)
    assert [masks(index, topic) for topic in ("a/b", "b")] == [masks(sound, topic) for topic in ("a/b", "b")]
    assert index.covering("a/b") == kept, "routes that refer to them hold"


@pytest.mark.req("CO-01")
def test_patterns_that_are_lost_come_back_and_strays_go() -> None:
    index, sound = made(), made()
    del index._by_pattern["b"]
    index._by_pattern["ghost"] = MemberInterests(9, "ghost", DEPTH)
    index._covering = PatternMap()
    index.renew(DEPTH, wants, 100)
    assert [masks(index, topic) for topic in ("a/b", "b", "ghost")] == [
        *(masks(sound, topic) for topic in ("a/b", "b")),
        [],
    ]


def test_what_changes_meanwhile_is_in_the_new_index() -> None:
    index = made()
    index.renew(DEPTH, wants, 2)
    remove(index, WANTS[0])
    remove(index, WANTS[4])
    add(index, (True, 1, 7, "c/+", "n > 3"))
    index.renew(DEPTH, wants, 100)
    assert masks(index, "a/b") == [("a/#", [0, 0], [0b100, 0b1000])]
    assert masks(index, "b") == [("b", [0, 0b1000], [0, 0])]
    assert masks(index, "c/d") == [("c/+", [0, 0], [0, 1 << 7])]
    remove(index, (True, 1, 7, "c/+", "n > 3"))
    assert masks(index, "c/d") == []


def test_one_that_cannot_be_finished_is_given_up() -> None:
    index = made()
    index.renew(DEPTH, lambda: iter(WANTS[1:]), 1)
    remove(index, WANTS[0])  # which the new one never had
    index.renew(DEPTH, lambda: iter(WANTS[1:]), 100)
    assert masks(index, "a/b") == [("a/#", [0, 0], [0b100, 0b1000])]
    index.renew(DEPTH, lambda: iter(WANTS[1:]), 100)
    assert masks(index, "a/b") == [("a/#", [0, 0], [0b100, 0b1000])]


def test_an_index_that_is_cleared_forgets_the_one_in_the_making() -> None:
    index = made()
    index.renew(DEPTH, wants, 1)
    index.clear()
    add(index, WANTS[3])
    index.renew(DEPTH, lambda: iter([WANTS[3]]), 100)
    assert masks(index, "b") == [("b", [0, 0b1000], [0, 0])]
    assert masks(index, "a/b") == []
