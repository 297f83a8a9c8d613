"""The times of waves: what is configured fits together, and whoever is refused is told what would do."""

import msgspec
import pytest

from stentor.model.colours.wave_timing import ColourSettings, timing_of
from stentor.model.errors import InvalidInput


def test_a_period_that_is_too_short_is_refused_with_the_smallest_that_works() -> None:
    with pytest.raises(InvalidInput) as caught:
        timing_of(ColourSettings(period=1, height=9))
    assert str(caught.value) == (
        "xi = 1 is too short for waves that take up to 0.9 s (height 9, delta_max 0.1): the smallest that works is 2.3"
    )


@pytest.mark.parametrize("delay_max", [0.1, 0.007, 0.1234567, 3.3])
def test_the_smallest_period_that_is_told_works(delay_max: float) -> None:
    for height in range(1, 300):
        with pytest.raises(InvalidInput) as caught:
            timing_of(ColourSettings(period=0.001, height=height, delay_max=delay_max))
        told = float(str(caught.value).rpartition(" is ")[2])
        assert timing_of(ColourSettings(period=told, height=height, delay_max=delay_max)).period == told
        with pytest.raises(InvalidInput):
            timing_of(ColourSettings(period=told - 0.002, height=height, delay_max=delay_max))


@pytest.mark.req("CO-01")
def test_an_audit_takes_as_many_rounds_as_fit_into_its_time_and_at_least_one() -> None:
    settings = ColourSettings(period=2, delay_max=0.1, height=5)
    assert timing_of(settings).audit_rounds == 0, "that is left to the audit"
    for seconds, rounds in ((0.1, 1), (2.5, 1), (25.0, 10), (27.0, 10)):
        assert timing_of(msgspec.structs.replace(settings, audit=seconds)).audit_rounds == rounds


@pytest.mark.req("CO-01")
def test_the_bound_counts_an_audit_that_takes_longer_than_a_round() -> None:
    settings = ColourSettings(period=2, delay_max=0.1, height=5)
    usual = timing_of(settings).bound()
    assert timing_of(msgspec.structs.replace(settings, audit=1.0)).bound() == usual
    assert timing_of(msgspec.structs.replace(settings, audit=25.0)).bound() == pytest.approx(usual + 25.0 - 2.5)
