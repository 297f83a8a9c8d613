"""Forwarding policies: who shall have an event, and which policy a scope has."""

import numpy as np
import pytest

from stentor.model.errors import InvalidInput
from stentor.policies.forwarding import FORWARDING, Chosen, resolve

CONTENT, FLOODING = FORWARDING["content"], FORWARDING["flooding"]


@pytest.mark.req("SC-02")
def test_content_routing_sends_to_those_who_want_it_and_can_be_reached() -> None:
    assert CONTENT.destinations(lambda: 0b1010, 0b0110) == 0b0010
    masks = CONTENT.destinations(lambda: np.array([0b11, 0b100, 0], np.uint64), 0b110)
    assert isinstance(masks, np.ndarray)
    assert masks.tolist() == [0b10, 0b100, 0]


@pytest.mark.req("SC-02")
def test_flooding_asks_nobody() -> None:
    def wanted() -> Chosen:
        raise AssertionError("it matches nothing")

    assert FLOODING.destinations(wanted, 0b0110) == 0b0110


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("", "content"),
        ("a", "flooding"),
        ("a/b", "flooding"),
        ("a/c", "content"),
        ("a/c/d", "content"),
        ("b", "content"),
    ],
)
def test_a_scope_has_the_policy_of_the_nearest_around_it_that_sets_one(scope: str, expected: str) -> None:
    assert resolve(scope, {"": "content", "a": "flooding", "a/c": "content"}) is FORWARDING[expected]


def test_without_any_setting_content_decides() -> None:
    assert resolve("a/b", {}) is CONTENT


def test_a_policy_that_there_is_not_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"no forwarding policy 'gossip': use one of content, flooding"):
        resolve("a", {"": "gossip"})
