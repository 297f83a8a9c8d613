"""Relations between filters against all events of a small world, and what each of them can tell."""

import math
import random
from functools import cache
from itertools import permutations, product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.matching.strategies import BIG, filters, near_filters, tried

from stentor.matching.conjunct import MOST_KEYS
from stentor.matching.covering import covers, equal, may_overlap, merge
from stentor.matching.normal_form import normal_form
from stentor.model.attribute import Value
from stentor.model.batch import Row
from stentor.model.filter import Filter
from stentor.model.filter.parser import LONGEST_FILTER, MOST_TERMS

VALUES: list[Value | None] = [
    None,
    True,
    False,
    0,
    1,
    2,
    5,
    7,
    8,
    -1,
    1000,
    BIG,
    BIG + 1,
    0.0,
    -0.0,
    1.0,
    2.5,
    7.0,
    7.5,
    1000.0,
    float(BIG),
    1e300,
    math.inf,
    math.nan,
    "",
    "x",
    "xy",
    "xyz",
    "xz",
    "y",
    "1",
    "7",
    "007",
    "7.0",
    "7.5",
    "1e3",
    "true",
    "True",
    "inf",
    str(BIG + 1),
]


@cache
def world(names: frozenset[str]) -> list[Row]:
    """All events with these attributes, or some of them if they are too many."""
    chance = random.Random(1)
    several: list[tuple[Value | None, ...]] = list(product(VALUES, repeat=len(names)))
    chosen = several if len(several) <= 2000 else chance.sample(several, 2000)
    return [
        {name: value for name, value in zip(sorted(names), each, strict=True) if value is not None} for each in chosen
    ]


def matched(where: Filter, events: list[Row]) -> list[bool]:
    return [where.matches(event) for event in events]


pairs = st.one_of(
    st.tuples(near_filters, near_filters),
    st.tuples(filters, filters),
    st.builds(lambda one, other: (one, Filter.parse_cesql(f"({one}) AND ({other})")), near_filters, near_filters),
)


@tried(150)
@given(pairs)
@example((Filter("a = 7.0"), Filter("a = 7")))
@example((Filter("a > 7.0"), Filter("a > 7")))
def test_what_is_covered_matches_no_other_event(both: tuple[Filter, Filter]) -> None:
    events = world(both[0].names | both[1].names)
    for one, other in permutations(both):
        if covers(one, other):
            assert [event for event in events if other.matches(event) and not one.matches(event)] == []


@tried(150)
@given(pairs)
def test_what_does_not_overlap_matches_no_common_event(both: tuple[Filter, Filter]) -> None:
    one, other = both
    assert may_overlap(one, other) is may_overlap(other, one)
    if not may_overlap(one, other):
        events = world(one.names | other.names)
        assert [event for event in events if one.matches(event) and other.matches(event)] == []


@tried(150)
@given(pairs)
def test_what_is_merged_loses_nothing(both: tuple[Filter, Filter]) -> None:
    one, other = both
    merged = merge(one, other)
    if merged is not None:
        events = world(one.names | other.names)
        lost = [event for event in events if (one.matches(event) or other.matches(event)) and not merged.matches(event)]
        assert lost == []
        assert Filter.parse_cesql(str(merged)) == merged, "it can be sent"
        if all(conjunct.exact for conjunct in normal_form(merged)):
            assert covers(merged, one)
            assert covers(merged, other)


@tried(150)
@given(st.lists(near_filters, min_size=4, max_size=4))
def test_covering_is_reflexive_and_transitive(several: list[Filter]) -> None:
    assert all(covers(one, one) for one in several)
    for one, other, third in permutations(several, 3):
        if covers(one, other) and covers(other, third):
            assert covers(one, third)


@tried(150)
@given(pairs)
def test_equality_is_symmetric(both: tuple[Filter, Filter]) -> None:
    one, other = both
    assert equal(one, one)
    assert equal(one, other) is equal(other, one)
    if equal(one, other):
        events = world(one.names | other.names)
        assert matched(one, events) == matched(other, events)


def test_random_filters_have_to_do_with_each_other() -> None:
    """Or the tests above would show little."""
    found = {"covers": 0, "apart": 0, "merged": 0}

    @tried(100)
    @given(pairs)
    def count(both: tuple[Filter, Filter]) -> None:
        found["covers"] += covers(*both) and both[0] != both[1]
        found["apart"] += not may_overlap(*both)
        found["merged"] += merge(*both) not in (None, *both)

    count()
    assert all(some >= 5 for some in found.values()), found


# ---- what covers what


@pytest.mark.parametrize(
    ("large", "small"),
    [
        ("s IN ('x', 'y')", "s = 'x'"),
        ("s = 'x' OR s = 'y'", "s IN ('x', 'y')"),
        ("EXISTS s", "s = 'x'"),
        ("EXISTS s", "s < 5"),
        ("EXISTS s", "LENGTH(s) > 3"),
        ("s LIKE 'x%'", "s = 'xyz'"),
        ("s LIKE 'x%'", "s LIKE 'xy%'"),
        ("s LIKE 'x%' OR s LIKE 'y%'", "s LIKE 'xy%' OR s LIKE 'yx%' OR s = 'x'"),
        ("s = 'x' OR s LIKE 'y%'", "s IN ('x', 'yz')"),
        ("a > 5", "a = 7"),
        ("a > 5", "a > 7"),
        ("a > 5", "a >= 6 AND a < 9"),
        ("a >= 5", "a > 5"),
        ("a > 5.0", "a > 5"),
        ("a > 5.0", "a = 7"),
        ("a = 7.0", "a = 7"),
        ("a > 5 AND b > 5", "b > 6 AND c = 1 AND a > 7"),
        ("a IN (5, 7)", "a IN (7)"),
        ("a IN (5, 7)", "7 = a"),
        ("a = 7", "a IN ('7')"),
        ("a = TRUE", "a"),
        ("a = 'true'", "a"),
        ("a AND b", "a = TRUE AND b = TRUE AND c = 1"),
        ("a != 'x'", "a = 'y'"),
        ("LENGTH(a) > 2", "a = 'xyz'"),
        ("a = b", "a = 'x' AND b = 'x'"),
        ("LENGTH(s) > 3", "LENGTH(s) > 3 AND a = 1"),
        ("LENGTH(s) > 3 AND a > 1", "a = 5 AND s = 'x' AND LENGTH(s) > 3"),
        ("a > 9007199254740992", "a > 9007199254740992 AND s = 'x'"),
        ("(s = 'x' AND a > 3) OR (s = 'y' AND a > 5)", "s IN ('x', 'y') AND a > 7"),
        ("(a = 1 AND b > 2) OR (a = 2 AND b > 1)", "(a = 1 OR a = 2) AND b > 5"),
        ("a = 1", "a > 5 AND a < 3"),
        ("a = 1", "s = 'x' AND s = 5"),
        ("TRUE", "a = 1"),
    ],
)
def test_the_larger_covers_the_smaller(large: str, small: str) -> None:
    assert covers(Filter(large), Filter(small))
    assert merge(Filter(large), Filter(small)) in (Filter(large), None)


@pytest.mark.parametrize(
    ("one", "other", "event"),
    [
        ("a > 5", "a > 5.0", {"a": "7.5"}),
        ("a = 7", "a = 7.0", {"a": "7.0"}),
        ("a IN (7)", "a = 7", {"a": "007"}),
        ("a = '7'", "a = 7", {"a": 7.0}),
        ("a = 7", "a = '7.0'", {"a": "7.0"}),
        ("a", "a = TRUE", {"a": 1}),
        ("a", "a AND b", {"a": "true", "b": "true"}),
        ("LOWER(a)", "LOWER(a) AND b", {"a": "TRUE", "b": True}),
        ("a = 1 OR b = 2", "b = 2", {"b": 2}),
        ("a = 9007199254740992.0", "a = 9007199254740993", {"a": BIG + 1}),
        ("a LIKE 'xy%'", "a LIKE 'x%'", {"a": "x"}),
        ("a LIKE 'abcdefghi%'", "a LIKE 'abcdefgh%'", {"a": "abcdefgh"}),
        ("a < 5", "a <= 5", {"a": 5}),
        ("a = '0.0'", "a = 0.0", {"a": -0.0}),
        ("a != '-0.0'", "a IN (0)", {"a": -0.0}),
        ("a IN ('x', '7.5')", "a = '7.5'", {"a": 7.5}),
    ],
)
def test_what_only_looks_as_if_it_covered(one: str, other: str, event: Row) -> None:
    assert Filter(other).matches(event)
    assert not Filter(one).matches(event)
    assert not covers(Filter(one), Filter(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = 1 AND s = 'x'", "s = 'x' AND a = 1"),
        ("s IN ('x', 'y')", "s = 'y' OR s = 'x'"),
        ("5 < a", "a > 5"),
        ("a > 1 AND a > 5", "a > 5"),
        ("s LIKE 'x'", "s = 'x'"),
        ("a > 3 AND a < 3", "FALSE"),
    ],
)
def test_the_same_said_in_two_ways_is_equal(one: str, other: str) -> None:
    assert equal(Filter(one), Filter(other))
    assert Filter(one) != Filter(other)


# ---- what cannot meet


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s = 'x'", "s = 'y'"),
        ("s LIKE 'x%'", "s = 'y'"),
        ("s LIKE 'x%'", "s LIKE 'yx%'"),
        ("a > 5", "a < 5"),
        ("a > 5", "a <= 5.0"),
        ("a = 7", "a > 7.0"),
        ("a = 7", "a = 7.5"),
        ("a = '7.5'", "a = 7"),
        ("a = 'x'", "a > 5"),
        ("a = TRUE", "NOT a"),
        ("a IN (5, 'x')", "a > 7"),
        ("a = 'x'", "a != 'x'"),
        ("a = 'x'", "LENGTH(a) > 1"),
        ("a = 1 AND b = 2", "b > 2 AND c = 3"),
        ("a = 1", "FALSE"),
        ("(s = 'x' AND a > 5) OR (s = 'y' AND a > 7)", "(s = 'x' AND a < 5) OR (s = 'y' AND a < 7)"),
    ],
)
def test_what_cannot_be_at_once_does_not_overlap(one: str, other: str) -> None:
    assert not may_overlap(Filter(one), Filter(other))


@pytest.mark.parametrize(
    ("one", "other", "event"),
    [
        ("a = '07'", "a = 7", {"a": "07"}),
        ("a > 5.5", "a < 6", {"a": 5.75}),
        ("s LIKE 'x%'", "s LIKE '%y'", {"s": "xy"}),
        ("a = TRUE", "a = 7", {"a": 7}),
        ("a = 9007199254740993", "a = 9007199254740992.0", {"a": str(BIG + 1)}),
        ("a LIKE '7%'", "a > 70", {"a": 71}),
        ("a = 1", "b = 1", {"a": 1, "b": 1}),
    ],
)
def test_what_only_looks_as_if_it_could_not_meet(one: str, other: str, event: Row) -> None:
    assert Filter(one).matches(event)
    assert Filter(other).matches(event)
    assert may_overlap(Filter(one), Filter(other))


# ---- what sums it up


@pytest.mark.parametrize(
    ("one", "other", "merged"),
    [
        ("s = 'x'", "s = 'y'", "s IN ('x', 'y')"),
        ("s = 'x' AND a > 5", "s = 'y' AND a > 5", "a > 5 AND s IN ('x', 'y')"),
        ("s = 'x' AND a > 5", "s = 'x' AND a > 3 AND a < 9", "a > 3 AND s = 'x'"),
        ("a > 5 AND a <= 9", "a >= 2 AND a < 7", "a >= 2 AND a <= 9"),
        ("a > 5 AND a < 9", "a > 11.5 AND a <= 12.0", "a > 5.0 AND a <= 12.0"),
        ("a = 1", "a = 2", "a = 1 OR a = 2"),
        ("a = 1", "a = 2.5", "a = 1.0 OR a = 2.5"),
        ("a = 1", "a > 5", "a >= 1"),
        ("a = 1 AND b = 1", "a = 2 AND c = 1", "a = 1 OR a = 2"),
        ("a", "NOT a", "a = FALSE OR a = TRUE"),
        ("s = '7'", "s = 'x'", "s = '7' OR s = 'x'"),
        ("s IN ('7')", "s IN ('9')", "s IN ('7', '9')"),
        ("s IN (7)", "s IN ('x', 9)", "s IN (7, '9', 'x')"),
        ("s IN ('7')", "s IN ('!')", "s IN ('7', '!')"),
        ("a = '7.5'", "a = 7.0 AND 7.0 = a", "a IN (7, 7.5, '7.0')"),
        ("LOWER(s) AND a = 1", "LOWER(s) AND b = 1", "EXISTS s"),
        ("s LIKE 'xy%'", "s LIKE 'xz%'", "s LIKE 'xy%' OR s LIKE 'xz%'"),
        ("s LIKE 'xy%'", "s LIKE 'y%'", "s LIKE 'x%' OR s LIKE 'y%'"),
        ("s LIKE 'xy%'", "s = 'x'", "s = 'x' OR s LIKE 'xy%'"),
        (r"s LIKE 'x\%%'", r"s LIKE 'x\_%'", r"s LIKE 'x\%%' OR s LIKE 'x\_%'"),
        ("s = 'x'", "s > 5", "EXISTS s"),
        ("a > 5", "a < 3", "EXISTS a"),
        ("LENGTH(s) > 3 AND a = 1", "a = 2 AND LENGTH(s) > 3", "(a = 1 OR a = 2) AND LENGTH(s) > 3"),
        ("(a = 1 OR b = 2) AND c = 1", "(a = 1 OR b = 2) AND c = 2", "(c = 1 OR c = 2) AND (a = 1 OR b = 2)"),
        ("LENGTH(s) > 3", "LENGTH(s) < 2", "EXISTS s"),
        ("a = 9007199254740993", "a = 2.5", "a >= 2.5"),
        ("a > 4503599627370496", "a > 4503599627370496.0 AND b = 1", "a > 4503599627370496.0"),
    ],
)
def test_a_merger_is_tight(one: str, other: str, merged: str) -> None:
    assert str(merge(Filter(one), Filter(other))) == merged
    assert str(merge(Filter(other), Filter(one))) == merged


@pytest.mark.parametrize(("one", "other"), [("a = 1", "b = 1"), ("TRUE", "a = 1"), ("NOT EXISTS a", "b = 1")])
def test_a_merger_of_everything_is_none(one: str, other: str) -> None:
    assert merge(Filter(one), Filter(other)) is None
    assert merge(Filter(other), Filter(one)) is None


def among(name: str, texts: list[str]) -> str:
    listed = ", ".join(f"'{text}'" for text in texts)
    return f"{name} IN ({listed})"


def test_a_merger_that_would_be_too_long_becomes_wider() -> None:
    one, other = ([f"key-{number}" for number in range(start, start + 200)] for start in (0, 200))
    merged = merge(Filter(f"{among('s', one)} AND a = 1"), Filter(f"{among('s', other)} AND a = 2"))
    assert str(merged) == "(a = 1 OR a = 2) AND s LIKE 'key-%'"
    long = ["x" + letter * 1500 for letter in "abc"]
    assert str(merge(Filter(among("s", long[:2])), Filter(among("s", long[2:])))) == "s LIKE 'x%'"
    evens, odds = (" OR ".join(f"a = {number}" for number in range(start, 200, 2)) for start in (0, 1))
    assert str(merge(Filter(evens), Filter(f"({odds}) AND b = 1"))) == "a >= 0 AND a <= 199"
    assert MOST_TERMS < 2 * 200
    assert LONGEST_FILTER < 3 * 1500


def test_a_merger_can_be_filed() -> None:
    """So many combinations of keys would have to be evaluated, and could cover nothing."""
    one, other = (" AND ".join(among(name, [f"{letter}{n}" for n in range(12)]) for name in "ab") for letter in "xy")
    merged = merge(Filter(one), Filter(other))
    assert merged is not None
    assert all(conjunct.exact for conjunct in normal_form(merged))
    assert MOST_KEYS < 24 * 24
    assert covers(merged, Filter("a = 'x1' AND b = 'y1'"))


def test_mergers_add_up() -> None:
    merged: Filter | None = Filter("s = 'x' AND a > 10")
    tail = "y" * 60
    for number in range(80):
        assert merged is not None
        merged = merge(merged, Filter(f"s = 'x{number}{tail}' AND a > {10 + number % 7}"))
    assert str(merged) == "a > 10 AND s LIKE 'x%'"


def test_a_backslash_before_the_wildcard_is_left_out() -> None:
    """It would make the wildcard a character."""
    one, other = Filter(r"s LIKE 'ab\x%'"), Filter(r"s LIKE 'ab\y%' AND a = 1")
    longer = Filter(r"s LIKE 'abcdefg\x%' AND a = 1")
    for several in ((one, other), (one, longer), (longer, Filter(r"s LIKE 'abcdefg\y%' AND a = 2"))):
        merged = merge(*several)
        assert merged is not None
        for text in (r"ab\x", r"ab\y", r"abcdefg\x", r"abcdefg\y"):
            for a in (1, 2):
                event: Row = {"s": text, "a": a}
                assert merged.matches(event) or not any(where.matches(event) for where in several)
