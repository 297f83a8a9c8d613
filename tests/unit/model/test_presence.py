"""Presences that damage left behind are known for what they are."""

import pytest

from stentor.model.messages import LAST_CREDIBLE_VERSION, Presence


def presence(unit: str, speaker: str, *, version: int = 1, left: bool = False) -> Presence:
    return Presence(unit=unit, version=version, speaker=speaker, number=0, left=left)


@pytest.mark.req("CO-01")
@pytest.mark.parametrize(
    ("said", "is_credible"),
    [
        (presence("north/hall", "north/hall/b1"), True),
        (presence("north/hall/b1", "north/hall/b1"), True),
        (presence("north/hall", ""), False),
        (presence("north/hall", "north/halls/b1"), False),
        (presence("north/hall", "north/hall/b1", version=LAST_CREDIBLE_VERSION + 1), False),
        (presence("north/hall", "north/lab/b1", left=True), True),
    ],
)
def test_only_a_broker_of_a_unit_speaks_for_it_unless_it_has_left(said: Presence, is_credible: bool) -> None:
    assert said.is_credible is is_credible
