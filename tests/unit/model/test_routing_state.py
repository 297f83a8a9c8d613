"""Routing states: values that are equal if they say the same, and that find out when they cannot be true."""

from typing import Any

import pytest

from stentor.model.routing_state import RoutingState

SOUND: dict[str, Any] = {
    "scope": "north",
    "interests": None,
    "own": 1,
    "numbers": {"north/a": 0, "north/b": 1, "north/c": 2, "north/d": 3},
    "costs": {"north/b": (0, 1000), "north/c": (0, 2000)},
    "next_hops": {"north/b/1": 0b110},
    "members": 0b110,
}


def state(**changes: object) -> RoutingState[None]:
    return RoutingState(**{**SOUND, **changes})


def test_a_sound_state_is_valid_and_equal_to_one_that_says_the_same() -> None:
    state().validate()
    assert state() == state()
    assert state() != state(costs={"north/b": (0, 1), "north/c": (0, 2000)})


def test_whoever_agrees_on_members_and_numbers_has_the_same_version_wherever_it_is() -> None:
    elsewhere = state(own=0b10, next_hops={"north/a/1": 0b101}, members=0b101)
    assert elsewhere.version == state().version
    assert 0 <= state().version < 1 << 16
    assert state(numbers={**SOUND["numbers"], "north/d": 4}).version != state().version
    assert state(scope="south").version != state().version


@pytest.mark.parametrize(
    "damage",
    [
        {"own": 0b10},
        {"own": 1 << 9},
        {"next_hops": {"north/b/1": 0b110, "north/c/1": 0b100}},
        {"members": 0b111},
        {"members": 0b010},
        {"costs": {"north/b": (0, 1000)}},
    ],
)
def test_a_state_that_contradicts_itself_is_found_out(damage: dict[str, object]) -> None:
    with pytest.raises(AssertionError, match="north"):
        state(**damage).validate()
