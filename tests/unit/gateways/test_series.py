"""How many series a metric may have."""

import math

from stentor.gateways.http.series import MOST_SERIES, Series


def many(count: int, first: int = 0) -> dict[tuple[str, ...], float]:
    return {(f"name{number:05}",): 1.0 for number in range(first, first + count)}


def test_as_many_as_may_be_have_a_series_each() -> None:
    assert dict(Series(1).bound(many(MOST_SERIES))) == many(MOST_SERIES)
    assert dict(Series(1).bound({})) == {}


def test_all_others_are_counted_together() -> None:
    found = dict(Series(1).bound(many(100_000)))
    assert len(found) == MOST_SERIES + 1
    assert found["other",] == 100_000 - MOST_SERIES
    assert sum(found.values()) == 100_000


def test_whoever_has_a_series_keeps_it_while_others_come() -> None:
    series = Series(1)
    before = dict(series.bound(many(MOST_SERIES, first=1_000)))
    after = dict(series.bound(many(MOST_SERIES + 1_000)))
    assert after.keys() - {("other",)} == before.keys()


def test_whoever_is_gone_makes_room() -> None:
    series = Series(1)
    list(series.bound(many(MOST_SERIES)))
    assert dict(series.bound(many(MOST_SERIES, first=1))).keys() == many(MOST_SERIES, first=1).keys()


def test_a_name_that_is_the_label_of_all_others_has_no_series_of_its_own() -> None:
    assert dict(Series(2).bound({("other", "other"): 2.0, ("other", "x"): 1.0})) == {
        ("other", "x"): 1.0,
        ("other", "other"): 2.0,
    }
    assert dict(Series(1).bound({**many(MOST_SERIES + 1), ("other",): 2.0}))["other",] == 3.0


def test_what_never_was_heard_spoils_no_sum() -> None:
    found = dict(Series(1).bound({**many(MOST_SERIES), ("zz",): math.inf}))
    assert found["other",] == math.inf
