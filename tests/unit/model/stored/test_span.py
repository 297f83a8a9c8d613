"""Sets of numbers as ranges."""

from stentor.model.stored.span import Spans


def test_nothing_is_within_a_range_that_ends_before_it_begins() -> None:
    assert Spans(((1, 18),)).within(14, 13) == []
