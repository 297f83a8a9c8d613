"""Forwarding policies: who shall have an event."""

import numpy as np
import pytest

from stentor.policies.forwarding import FORWARDING, Chosen

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


@pytest.mark.req("SC-02")
def test_coloured_routing_sends_to_those_who_want_it_and_it_alone_goes_by_the_tree() -> None:
    coloured = FORWARDING["coloured"]
    assert coloured.destinations(lambda: 0b1010, 0b0110) == 0b0010
    assert coloured.selective
    assert [name for name, policy in FORWARDING.items() if policy.is_by_tree] == ["coloured"]
