"""Numbers with their nouns."""

import pytest

from stentor.model.wording.count import counted


@pytest.mark.parametrize(
    ("number", "thing", "told"),
    [
        (1, "topic", "1 topic"),
        (0, "topic", "0 topics"),
        (2000, "event", "2,000 events"),
        (1, "copy", "1 copy"),
        (2, "copy", "2 copies"),
        (3, "[[access]] line", "3 [[access]] lines"),
    ],
)
def test_a_noun_agrees_with_its_number(number: int, thing: str, told: str) -> None:
    assert counted(number, thing) == told
