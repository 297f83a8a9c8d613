"""What matching an event costs at most is known: of filters that must be evaluated, and of many ranges."""

import pytest

from stentor.matching.masks import mask_index as masks_module
from stentor.matching.masks.mask_index import MaskIndex
from stentor.matching.pairs.pair_index import PairIndex
from stentor.model.filter import Filter
from stentor.model.filter.cost import NOTHING


def test_filters_that_are_told_apart_by_keys_are_no_load() -> None:
    index = PairIndex()
    for number in range(5000):
        index.add(Filter(f"symbol = 'S{number}' AND price > 5"), number)
        index.add(Filter(f"symbol = 'S{number}' AND name != 'x'"), 10_000 + number)
    assert (index.load, index.evaluated) == (NOTHING, 0)


def test_filters_that_are_evaluated_for_the_same_events_are_a_load_that_goes_with_them() -> None:
    index = PairIndex()
    filters = [Filter(f"name LIKE '%{number}%'") for number in range(100)]
    for number, where in enumerate(filters):
        index.add(where, number)
    whole = sum(where.cost.worst for where in filters)
    assert 0.9 * whole < index.evaluated < whole, "the first few are nothing to speak of"
    assert index.load.per_character > 0
    for number in range(100):
        index.remove(number)
    assert (index.load, index.evaluated) == (NOTHING, 0)


def test_a_filter_that_many_have_is_evaluated_once_and_counted_as_long_as_somebody_has_it() -> None:
    index = PairIndex()
    for number in range(50):
        index.add(Filter(f"name LIKE '%{number}%'"), number)
    before = index.evaluated
    for number in range(50, 100):
        index.add(Filter(f"name LIKE '%{number - 50}%'"), number)
    assert index.evaluated == before
    for number in range(50):
        index.remove(number)  # who brought them is gone, others have them still
    assert index.evaluated == before
    for number in range(50, 100):
        index.remove(number)
    assert index.evaluated == 0


def test_many_ranges_in_one_bucket_are_a_load_but_not_evaluated() -> None:
    index = PairIndex()
    for number in range(6000):
        index.add(Filter(f"price > {number}"), number)
        index.add(Filter("symbol = 'A'"), 10_000 + number)
    assert index.load.per_event > 0
    assert index.evaluated == 0
    for number in range(6000):
        index.remove(number)
        index.remove(10_000 + number)
    assert index.load == NOTHING


def test_members_with_too_much_to_evaluate_get_all_events_of_the_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    index = MaskIndex()
    filters = [Filter(f"name LIKE '%x{number}%'") for number in range(20)]
    for where in filters:
        index.add(where, 3)
    assert index.match_one({"name": "nothing"}) == 0
    monkeypatch.setattr(masks_module, "DEAREST_BUCKET", sum(where.cost.worst for where in filters) - 1)
    assert index.match_one({"name": "nothing"}) == 1 << 3
    assert index.match_one({"other": "nothing"}) == 0
    index.remove(filters[0], 3)
    assert index.match_one({"name": "nothing"}) == 0
