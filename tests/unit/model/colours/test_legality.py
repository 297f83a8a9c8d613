"""The predicate of the correct state: what it calls wrong, and why."""

import pytest

from stentor.model.colours.colour import COLOURS, current_colour, new_colour, old_colour
from stentor.model.colours.legality import TreePointers, TreeView, illegalities


def tree(role: str, parent: str = "", *children: str, round: int = 6) -> TreeView:  # noqa: A002
    pointers = COLOURS * (TreePointers(parent, children),)
    return TreeView(role=role, root="a", round=round, depth=0, pointers=pointers)


def chain(round_of_c: int = 6) -> dict[str, TreeView]:
    return {"a": tree("root", "", "b"), "b": tree("member", "a", "c"), "c": tree("member", "b", round=round_of_c)}


@pytest.mark.req("CO-11")
def test_a_chain_whose_pointers_agree_is_correct() -> None:
    assert illegalities(chain()) == []
    assert illegalities({}) == []
    assert illegalities({"a": tree("root")}) == []


@pytest.mark.req("CO-11")
def test_a_wave_that_has_not_reached_everybody_yet_changes_nothing() -> None:
    for earlier in (5, 4, 7, 2**32 - 1):
        assert illegalities(chain(earlier)) == []


def test_the_reasons_name_who_disagrees_with_whom() -> None:
    views = chain()
    views["c"] = tree("member", "a")
    assert illegalities(views)[:2] == [
        "b has the old child c, whose parent it is not",
        "c has the old parent a, whose child it is not",
    ]
    views["c"] = tree("orphan")
    assert illegalities(views)[0] == "c looks for a parent"


def test_two_roots_and_no_root_are_wrong() -> None:
    assert illegalities({"a": tree("root"), "b": tree("root")}) == ["2 roots: a, b"]
    assert illegalities({"a": tree("orphan"), "b": tree("member", "a")}) == ["no root"]


def test_a_part_that_no_way_leads_to_is_wrong() -> None:
    views = chain() | {"x": tree("member", "y", "y"), "y": tree("member", "x", "x")}
    assert illegalities(views) == [
        f"no {word} way leads from the root to {name}" for word in ("old", "current") for name in ("x", "y")
    ]


def test_what_the_new_colour_holds_does_not_matter() -> None:
    views = chain()
    for colour, is_wrong in ((new_colour(6), False), (old_colour(6), True), (current_colour(6), True)):
        pointers = [TreePointers("b")] * COLOURS
        pointers[colour] = TreePointers("nobody")
        views["c"] = TreeView(role="member", root="a", round=6, depth=2, pointers=tuple(pointers))
        assert bool(illegalities(views)) is is_wrong


def test_a_view_without_pointers_is_wrong_and_no_error() -> None:
    views = chain() | {"c": TreeView(role="member", root="a", round=6, depth=2, pointers=())}
    assert "c has the old parent nobody, whose child it is not" in illegalities(views)
