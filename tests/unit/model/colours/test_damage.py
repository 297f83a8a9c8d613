"""Parts of a broker's memory, as operators name them."""

import pytest

from stentor.model.colours.memory_part import LAST_SEED, MemoryPart, check_seed, parse_damage
from stentor.model.errors import InvalidInput


def test_parts_are_named_in_any_order_and_more_than_once() -> None:
    assert parse_damage(["credit", "rounds", "credit"]) == (MemoryPart.ROUNDS, MemoryPart.CREDIT)


def test_all_is_every_part() -> None:
    assert parse_damage(["all", "rounds"]) == tuple(MemoryPart)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["pointer"], "no part 'pointer'; did you mean 'pointers'?"),
        (
            ["rounds", "xyzzy"],
            "no part 'xyzzy'; known are rounds, pointers, members, routes, profiles, subscriptions, indexes, plans",
        ),
        ([], "no part of a broker's memory is named; known are rounds"),
    ],
)
def test_a_part_that_there_is_not_is_refused_with_those_that_there_are(words: list[str], told: str) -> None:
    with pytest.raises(InvalidInput, match=told.replace("?", r"\?")):
        parse_damage(words)


def test_a_seed_is_a_number_of_32_bits() -> None:
    for seed in (0, LAST_SEED):
        check_seed(seed)
    for seed in (-1, LAST_SEED + 1):
        with pytest.raises(InvalidInput, match=f"a seed of {seed}: expected 0 to {LAST_SEED}"):
            check_seed(seed)
