"""How soon a subscription acknowledges and asks: what may be set, and to what."""

import pytest

from stentor.client.pace import Pace, settings_of
from stentor.machine import MILLISECOND
from stentor.model.errors import InvalidInput
from stentor.protocols.delivery.settings import SubscriberSettings


def test_what_is_left_out_has_its_default() -> None:
    assert settings_of({}) == SubscriberSettings()
    settings = settings_of({"ack_every": 1, "ack_within": 0.002, "nak_after": 2})
    assert (settings.ack_events, settings.ack_after, settings.missing) == (1, 2 * MILLISECOND, 2000 * MILLISECOND)


@pytest.mark.parametrize(
    "pace",
    [
        {"ack_every": 0},
        {"ack_every": 65_537},
        {"ack_every": 1.5},
        {"ack_every": "x"},
        {"ack_within": 0.0},
        {"ack_within": 61.0},
        {"nak_after": float("nan")},
        {"nak_after": "soon"},
        {"ack_often": 1},
    ],
)
def test_what_is_out_of_range_is_refused_by_name(pace: Pace) -> None:
    with pytest.raises(InvalidInput, match=next(iter(pace))):
        settings_of(pace)
