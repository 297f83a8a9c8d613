"""Scopes: paths of names, the level of a link, and units whose members are bits of one word."""

import pytest

from stentor.model.errors import InvalidInput
from stentor.model.scope import ScopePath

path = ScopePath.parse


@pytest.mark.req("GE-01")
def test_a_context_is_its_path_of_names_at_any_depth() -> None:
    broker = path("earth/campus-2/library_1/b.1")
    assert broker.parts == ("earth", "campus-2", "library_1", "b.1")
    assert broker.name == "b.1"
    assert str(broker) == "earth/campus-2/library_1/b.1"
    ancestors = []
    parent = broker.parent
    while parent is not None:
        ancestors.append(str(parent))
        parent = parent.parent
    assert ancestors == ["earth/campus-2/library_1", "earth/campus-2", "earth"]


@pytest.mark.parametrize("text", ["", "/", "a/", "/a", "a//b", "a b", "é", "a/#", "a\0", "a\n"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a scope path"):
        path(text)


def test_paths_are_values_with_an_order() -> None:
    assert path("a/b") == path("a/b")
    assert len({path("a/b"), path("a/b"), path("a/c")}) == 2
    assert sorted([path("b"), path("a/b"), path("a")]) == [path("a"), path("a/b"), path("b")]


@pytest.mark.req("GE-02")
@pytest.mark.parametrize(
    ("one", "other", "level"),
    [
        ("s/c/b1", "s/c/b2", 0),  # within a cluster
        ("s/c1/b1", "s/c2/b1", 1),  # between clusters, though the brokers' names are equal
        ("s1/c/b1", "s2/c/b1", 2),
        ("s1/c1/b1", "s2/c2/b2", 2),
        ("b1", "b2", 0),
        ("s/c/b1", "s/c/b1", -1),
    ],
)
def test_a_links_level_is_the_highest_at_which_the_contexts_differ(one: str, other: str, level: int) -> None:
    assert path(one).level_of_difference(path(other)) == level
    assert path(other).level_of_difference(path(one)) == level


def test_paths_of_different_depth_have_no_level() -> None:
    with pytest.raises(InvalidInput, match="not at the same depth"):
        path("a/b").level_of_difference(path("a"))
