"""The two topic trees against plain matching, and what they leave behind."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.matching.topic_tree import PatternTree, TopicTree
from stentor.model.topic import covers, matches

levels = st.sampled_from(["a", "b", "c", "", "$s"])
topics = st.lists(levels, min_size=1, max_size=4).map("/".join)
patterns = st.one_of(
    st.lists(levels | st.just("+"), min_size=1, max_size=4).map("/".join),
    st.lists(levels | st.just("+"), max_size=3).map(lambda front: "/".join([*front, "#"])),
)
numbers = st.integers(0, 5)


def branches(tree: PatternTree[Any] | TopicTree[Any]) -> int:
    """How many nodes hang below the root."""
    pending, found = [tree._root], -1
    while pending:
        node = pending.pop()
        found += 1
        pending += (node.branches or {}).values()
    return found


def needed(names: set[str]) -> int:
    """How many nodes it takes to hold just these names."""
    return len({tuple(name.split("/")[: depth + 1]) for name in names for depth in range(name.count("/") + 1)})


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(st.booleans(), patterns, numbers), max_size=30),
    st.lists(topics, max_size=10),
    st.lists(patterns, max_size=10),
)
def test_the_pattern_tree_finds_what_plain_matching_finds(
    changes: list[tuple[bool, str, int]], asked: list[str], wild: list[str]
) -> None:
    tree: PatternTree[tuple[str, int]] = PatternTree()
    held: set[tuple[str, int]] = set()
    for add, pattern, number in changes:
        if add:
            tree.add(pattern, number, (pattern, number))
            held.add((pattern, number))
        elif (pattern, number) in held:
            tree.remove(pattern, number)
            held.remove((pattern, number))
        assert branches(tree) == needed({pattern for pattern, _ in held}), "no branch is left that leads to nothing"
    for topic in asked:
        assert sorted(tree.covering(topic)) == sorted(each for each in held if matches(each[0], topic))
    for pattern in wild:
        assert sorted(tree.covering(pattern)) == sorted(each for each in held if covers(each[0], pattern))


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.booleans(), topics, numbers), max_size=30), st.lists(patterns, max_size=10))
def test_the_topic_tree_finds_what_plain_matching_finds(changes: list[tuple[bool, str, int]], asked: list[str]) -> None:
    tree: TopicTree[tuple[str, int]] = TopicTree()
    held: set[tuple[str, int]] = set()
    for add, topic, number in changes:
        if add:
            tree.add(topic, number, (topic, number))
            held.add((topic, number))
        elif (topic, number) in held:
            tree.remove(topic, number)
            held.remove((topic, number))
        assert branches(tree) == needed({topic for topic, _ in held})
    for pattern in asked:
        assert sorted(tree.covered(pattern)) == sorted(each for each in held if matches(pattern, each[0]))


def test_a_pattern_of_many_wildcards_is_found_once() -> None:
    tree: PatternTree[str] = PatternTree()
    deep = "/".join("+" * 64)
    tree.add(deep, 1, "deep")
    assert tree.covering(deep) == ["deep"]


def test_a_value_is_replaced_under_its_number() -> None:
    tree: PatternTree[str] = PatternTree()
    tree.add("a/+", 1, "old")
    tree.add("a/+", 1, "new")
    tree.add("a/+", 2, "other")
    assert sorted(tree.covering("a/b")) == ["new", "other"]
    tree.remove("a/+", 1)
    assert tree.covering("a/b") == ["other"]


def test_a_pattern_that_is_not_there_cannot_be_removed() -> None:
    tree: TopicTree[str] = TopicTree()
    tree.add("a/b", 1, "value")
    for name, number in (("a", 1), ("a/b", 2), ("c", 1)):
        with pytest.raises(KeyError):
            tree.remove(name, number)
    assert list(tree.covered("#")) == ["value"]


def test_an_emptied_tree_is_as_small_as_a_new_one() -> None:
    tree: PatternTree[int] = PatternTree()
    names = [f"a/{one}/{two}/#" for one in range(20) for two in range(20)]
    for number, name in enumerate(names):
        tree.add(name, number, number)
    assert branches(tree) == 1 + 20 + 400 + 400
    for number, name in enumerate(names):
        tree.remove(name, number)
    assert branches(tree) == 0
