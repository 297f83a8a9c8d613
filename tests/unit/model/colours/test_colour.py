"""Colours follow from a round, and rounds begin again at their end."""

import pytest

from stentor.model.colours.colour import LAST_ROUND, current_colour, new_colour, next_round, old_colour


@pytest.mark.req("CO-02")
@pytest.mark.parametrize("number", [0, 1, 2, 5, LAST_ROUND - 1, LAST_ROUND])
def test_a_round_later_what_was_new_is_current_and_what_was_current_is_old(number: int) -> None:
    following = next_round(number)
    assert current_colour(following) == new_colour(number)
    assert old_colour(following) == current_colour(number)


@pytest.mark.req("CO-17")
def test_rounds_never_leave_their_range() -> None:
    assert 0 <= next_round(LAST_ROUND) <= 2
