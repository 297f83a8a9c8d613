"""What one broker knows of a scope's tree: whatever it is, `clamp` leaves something that can be."""

from random import Random

import pytest

from stentor.model.colours.colour import LAST_ROUND
from stentor.protocols.colours.scope_tree import NO_CLAIM, Claim, Pointers, ScopeTree, TreeChange, TreeRole

NAMES = ("a", "b", "c", "d", "me", "", "stranger")


def placed() -> ScopeTree:
    tree = ScopeTree("me", 3, 5, 2)
    tree.place("a", Claim(0, "root"), 7, 2)
    return tree


@pytest.mark.req("CO-10")
@pytest.mark.parametrize("seed", range(200))
def test_any_values_are_clamped_to_some_that_can_be(seed: int) -> None:
    random = Random(seed)
    tree = ScopeTree("me", 3, 5, 2)
    tree.role = random.choice(tuple(TreeRole))
    tree.round = random.choice((-1, 0, 7, LAST_ROUND, LAST_ROUND + 1, 1 << 70))
    tree.depth = random.choice((-3, 0, 1, 5, 6, 1 << 40))
    tree.claim = random.choice((NO_CLAIM, Claim(0, "root"), Claim(-5, "")))
    tree.pointers = [
        Pointers(random.choice(NAMES), tuple(random.choices(NAMES, k=random.randrange(6)))) for _ in range(3)
    ]
    tree.clamp({"a", "b", "c", "d"})
    tree.validate()
    assert not tree.clamp({"a", "b", "c", "d"})


def test_a_sound_tree_is_left_as_it_is() -> None:
    tree = placed()
    tree.adopt("b")
    assert not tree.clamp({"a", "b"})
    assert (tree.parent, tree.children) == ("a", ("b",))


def test_a_member_whose_parent_is_no_neighbour_is_an_orphan_and_keeps_its_children() -> None:
    tree = placed()
    tree.adopt("b")
    assert tree.clamp({"b"})
    assert tree.role is TreeRole.ORPHAN
    assert tree.children == ("b",)


def test_a_new_parent_is_no_child_any_more() -> None:
    tree = ScopeTree("me", 3, 5, 2)
    tree.adopt("a")
    tree.place("a", Claim(0, "root"), 7, 2)
    assert tree.children == ()
    tree.validate()


def test_there_is_room_for_as_many_children_as_the_degree_and_not_below_the_height() -> None:
    tree = placed()
    assert tree.has_room
    tree.adopt("b")
    tree.adopt("c")
    assert not tree.has_room
    tree.disown("c")
    tree.depth = 5
    assert not tree.has_room


def test_a_root_is_not_crowned() -> None:
    with pytest.raises(AssertionError, match="a broker that is root cannot be crowned"):
        ScopeTree("me", 3, 5, 2).change(TreeChange.CROWNED)


def test_a_change_that_was_prepared_in_new_is_current_after_the_rotation_and_not_in_old() -> None:
    tree = placed()
    tree.pointers[(tree.round + 1) % 3] = Pointers("b", ("c",))
    tree.rotate(tree.round + 1)
    view = tree.view()
    assert view.at(tree.round % 3).parent == view.at((tree.round + 1) % 3).parent == "b"
    assert view.at((tree.round + 2) % 3).parent == "a"


def test_neighbours_in_the_tree_are_those_of_the_next_waves() -> None:
    tree = placed()
    tree.adopt("b")
    assert [tree.has_edge(name) for name in ("a", "b", "c")] == [True, True, False]
    tree.part()
    assert [tree.has_edge(name) for name in ("a", "b")] == [False, True]
