"""What a filter costs at most is known when it is read, and what costs too much is refused with a reason."""

import pytest

from stentor.model.errors import FilterError
from stentor.model.filter import Filter
from stentor.model.filter.cost import DEAREST_FILTER, NOTHING, Cost


def test_a_pattern_with_a_long_wild_middle_is_refused() -> None:
    assert Filter("a LIKE '%" + "x_" * 30 + "y%'").cost.worst < DEAREST_FILTER
    for pattern in ("%" + "x_" * 1900 + "%y_y%", "%" + "x_" * 40 + "y%"):
        with pytest.raises(FilterError, match="at most 64 characters if _ is among them"):
            Filter(f"a LIKE '{pattern}'")
    assert Filter("a LIKE '" + "x_" * 1900 + "'").matches({"a": "xy" * 1900})


def test_many_dear_patterns_in_one_filter_are_refused() -> None:
    dear = " OR ".join(f"a LIKE '%{'x_' * 15}{number}%'" for number in range(60))
    with pytest.raises(FilterError, match="more than 5 ms for one event"):
        Filter(dear)


def test_many_functions_of_long_texts_in_one_filter_are_refused() -> None:
    calls = " AND ".join("LENGTH(UPPER(TRIM(a))) > 1" for _ in range(50))
    joined = f"CONCAT({', '.join('a' * 200)}) LIKE '%a_b%'"
    for dear in (calls, joined):
        with pytest.raises(FilterError, match="more than 5 ms for one event"):
            Filter(dear)


def test_costs_grow_with_what_has_to_be_done() -> None:
    plain, like = Filter("a != 5").cost, Filter("a LIKE '%abc%'").cost
    assert 0 < plain.per_event < Filter("a != 5 AND b != 6").cost.per_event
    assert plain.per_character == 0 < like.per_character
    assert Filter("a IN (1, 2, 3)").cost.per_event > Filter("a IN (1)").cost.per_event
    assert Filter("LENGTH(a) = 3").cost.per_character > 0


def test_costs_are_added_and_taken_back() -> None:
    one, other = Cost(3, 1), Cost(4, 2)
    assert one.plus(other) == (7, 3)
    assert one.plus(other).minus(one) == other
    assert NOTHING.worst == 0
    assert Cost(1, 1).worst == 8193
