"""Sizes and durations."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.config.quantity import duration, show_size, size
from stentor.model.errors import InvalidInput


@pytest.mark.parametrize(
    ("written", "count"),
    [(4096, 4096), ("8 MiB", 8 << 20), ("64KiB", 65536), ("1 GB", 10**9), ("1.5 kb", 1500), (" 12 b ", 12)],
)
def test_sizes_are_read(written: object, count: int) -> None:
    assert size(written) == count


@pytest.mark.parametrize(
    ("written", "seconds"), [(5, 5.0), (0.25, 0.25), ("5 s", 5.0), ("500 ms", 0.5), ("2min", 120.0), ("1.5 h", 5400.0)]
)
def test_durations_are_read(written: object, seconds: float) -> None:
    assert duration(written) == seconds


@pytest.mark.parametrize("written", [True, 1.5, "8", "MiB", "-1 KiB", "1e3 B", "0.3 B", "٣ KiB", "8 MiB extra", [], {}])
def test_texts_that_are_no_size_are_refused(written: object) -> None:
    with pytest.raises(InvalidInput, match="expected a size"):
        size(written)


@pytest.mark.parametrize("written", [False, "5", "s", "-5 s", "5 s 3 ms", ["5 s"]])
def test_texts_that_are_no_duration_are_refused(written: object) -> None:
    with pytest.raises(InvalidInput, match="expected a duration"):
        duration(written)


def test_unknown_units_have_a_suggestion() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'MiB'"):
        size("8 MiBi")
    with pytest.raises(InvalidInput, match="known are ms, s, min, h"):
        duration("8 fortnights")


@settings(deadline=None)
@given(st.integers(0, 1 << 70))
def test_a_shown_size_is_read_back(count: int) -> None:
    assert size(show_size(count)) == count
