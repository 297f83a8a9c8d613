"""Scopes: paths of names, the level of a link, and units whose members are bits of one word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stentor.model.errors import InvalidInput
from stentor.model.ids import MemberMask
from stentor.model.scope import LARGEST_UNIT, ScopePath, Unit

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


@pytest.mark.req("GE-01")
def test_the_65th_member_is_refused_and_64_fill_one_word() -> None:
    unit = Unit(path("campus"))
    masks = [unit.admit(f"b{number}") for number in range(64)]
    union = 0
    for mask in masks:
        assert mask.bit_count() == 1
        assert not union & mask
        union |= mask
    assert union == 2**64 - 1
    assert len(unit) == LARGEST_UNIT == 64
    with pytest.raises(InvalidInput, match="unit campus has 64 members already"):
        unit.admit("b64")
    assert unit.members(MemberMask(union)) == [f"b{number}" for number in range(64)]


def test_a_member_that_comes_again_keeps_its_bit() -> None:
    unit = Unit(path("campus"))
    first, second = unit.admit("a"), unit.admit("b")
    assert first != second
    assert unit.admit("a") == first
    assert len(unit) == 2


def test_the_bit_of_a_dismissed_member_is_used_again_and_no_other() -> None:
    unit = Unit(path("campus"))
    masks = {name: unit.admit(name) for name in ("a", "b", "c")}
    unit.dismiss("b")
    unit.dismiss("nobody")
    assert unit.members(MemberMask(2**64 - 1)) == ["a", "c"]
    assert unit.admit("d") == masks["b"]
    assert unit.members(masks["b"]) == ["d"]
    assert unit.members(MemberMask(masks["a"] | masks["c"])) == ["a", "c"]


@given(st.lists(st.tuples(st.sampled_from("+-"), st.integers(0, 70).map(str)), max_size=200))
def test_members_and_masks_agree_whatever_comes_and_goes(changes: list[tuple[str, str]]) -> None:
    unit = Unit(path("u"))
    present: dict[str, MemberMask] = {}
    for sign, name in changes:
        if sign == "-":
            unit.dismiss(name)
            present.pop(name, None)
        elif name in present or len(present) < LARGEST_UNIT:
            mask = unit.admit(name)
            assert present.setdefault(name, mask) == mask
        else:
            with pytest.raises(InvalidInput):
                unit.admit(name)
    assert len(unit) == len(present)
    assert len(set(present.values())) == len(present)
    assert all(unit.members(mask) == [name] for name, mask in present.items())
    assert unit.members(MemberMask(0)) == []
