"""Where matching goes wrong easily: what the experiment before it found, and what tests have found since."""

import math
from collections.abc import Sequence

import numpy as np
from tests.unit.matching.strategies import BIG, HOSTILE, Table, column
from tests.unit.matching.twin import Twin, drive, points

from stentor.matching.masks.mask_index import MaskIndex
from stentor.matching.pairs.pair_index import PairIndex
from stentor.model.attribute import Kind
from stentor.model.batch import Batch, Row, Rows
from stentor.model.column import Column
from stentor.model.filter import Filter


def agree(texts: Sequence[str], batch: Batch) -> list[list[bool]]:
    """Which filter wants which event, the same whoever is asked."""
    made = [Filter(text) for text in texts]
    twin = Twin()
    for member, where in enumerate(made):
        twin.add(where, member)
    for padding in range(8):  # so that there are too many to be evaluated one after the other
        twin.add(Filter(f"padding = {padding}"), 63)
    rows = batch.rows()
    for row in rows:
        twin.check_one(row)
    twin.check(batch)
    twin.check(Rows(list(rows) * (60 // len(rows) + 1)))
    return [[where.matches(row) for row in rows] for where in made]


def test_true_and_one_and_one_point_zero_are_different_keys() -> None:
    texts = [
        "a = TRUE",
        "a = 1",
        "a = 1.0",
        "a = 'true'",
        "a = '1'",
        "a = '1.0'",
        "a",
        "a IN (1)",
        "a IN (TRUE)",
        "a IN ('1')",
    ]
    found = [agree(texts, Rows([{"a": value}])) for value in (True, 1, 1.0)]
    assert [[row[0] for row in each] for each in found] == [
        [True, True, True, True, False, False, True, True, True, False],
        [True, True, True, False, True, False, False, True, True, True],
        [True, True, True, False, False, True, False, True, True, True],
    ]


def test_integers_above_2_to_the_53_are_not_rounded() -> None:
    texts = [
        f"a {relation} {number}" for relation in ("=", "<", "<=", ">", ">=") for number in (BIG, BIG + 1, float(BIG))
    ]
    found = agree(texts, Rows([{"a": BIG - 1}, {"a": BIG}, {"a": BIG + 1}, {"a": BIG + 2}]))
    assert found[0] == [False, True, False, False]
    assert found[1] == [False, False, True, False]
    agree(texts, Rows([{"a": str(number)} for number in range(BIG - 1, BIG + 3)]))
    agree([f"{text} AND b > 1" for text in texts], Rows([{"a": number, "b": 2} for number in range(BIG - 1, BIG + 3)]))


def test_null_and_nan_stay_apart() -> None:
    cells = Column(Kind.DECIMAL, np.array([math.nan, math.nan, 1.0, 0.0]), np.array([True, False, True, False]))
    found = agree(["EXISTS a", "NOT EXISTS a", "a = 'nan'", "a < 5.0", "a = TRUE"], Table({"a": cells}, 4))
    assert found == [
        [True, False, True, False],
        [False, True, False, True],
        [True, False, False, False],
        [False, False, True, False],
        [True, False, True, False],
    ]


def test_a_missing_text_is_not_the_one_that_its_code_stands_for() -> None:
    cells = Column(Kind.STRING, np.array([0, 0, 1], np.uint16), np.array([True, False, True]), ("x", "y"))
    assert agree(["a = 'x'", "a LIKE 'x%'"], Table({"a": cells}, 3)) == [[True, False, False]] * 2


def test_nan_does_not_match_greater() -> None:
    batch = Rows([{"a": value, "b": 1.0} for value in (math.nan, 6.0)])
    found = agree(["a > 5", "a >= 5.0", "a < 5", "a > 5 AND b > 0", "a = 5"], batch)
    assert found == [[False, True], [False, True], [False, False], [False, True], [False, False]]
    wide = [Filter(f"a > {x} AND b < {x}") for x in range(40)]
    drive(Twin(), wide, Rows([{"a": value, "b": 1.0} for value in (math.nan, 6.0) for _ in range(40)]))


def test_infinity_is_above_every_bound() -> None:
    batch = Rows([{"a": value, "b": value} for value in (math.inf, -math.inf, 6.0)])
    found = agree(
        ["a > 5", "a > 5 AND b > 5", "a < 5 AND b < 5", f"a > {BIG * 2}", "a = 'inf'", "a IN ('inf', 'x')"], batch
    )
    assert found == [
        [True, False, True],
        [True, False, True],
        [False, True, False],
        [True, False, False],
        [True, False, False],
        [False, False, False],
    ]
    rows: list[Row] = [{"a": value, "b": other} for value in (*HOSTILE, 6.0) for other in (*HOSTILE, 6.0)]
    drive(Twin(), [Filter(f"a > {x} AND b < {40 - x}") for x in range(40)], Rows(rows * 4))
    drive(Twin(), [Filter(f"a > {x} AND b > {40 - x}") for x in range(40)], Rows(rows * 4))


def test_a_float32_value_is_not_the_decimal_it_was_rounded_from() -> None:
    rounded = np.array([0.1, 0.5], np.float32)
    texts = ["a = 0.1", "a = 0.5", "a > 0.1", "a <= 0.1", "a = '0.1'", f"a = {float(rounded[0])!r}"]
    found = agree(texts, Table({"a": Column(Kind.DECIMAL, rounded, None)}, 2))
    assert [first for first, _ in found] == [False, False, True, False, False, True]


def test_a_number_and_a_text_are_not_compared() -> None:
    texts = ["a < 5", "a = 5", "a < 5.0", "a = '5'", "a IN (5, 'x')", "a IN ('x', 5)", "a < 'x'", "a LIKE '4%'"]
    found = agree(texts, Rows([{"a": value} for value in ("x", "4", "4.5", "", "5", "05")]))
    assert found[0] == [False, True, False, False, False, False]
    assert found[2] == [False, True, True, False, False, False]
    agree(texts, Rows([{"a": 4}, {"a": 5}]))


def test_a_bound_without_a_fraction_asks_for_a_text_without_one() -> None:
    texts = ["a > 2.5 AND a < 7", "a > 2 AND a < 7.5", "a > 2.5 AND a < 7.5", "a > 2.5 AND a < 7 AND b > 0.5 AND b < 2"]
    found = agree(texts, Rows([{"a": value, "b": "1"} for value in ("5", "5.5", "05", "x")]))
    assert found == [[True, False, True, False], [True, False, True, False], [True, True, True, False], found[0]]
    assert agree(texts, Rows([{"a": 5.5, "b": 1}])) == [[True]] * 4


def test_a_constant_on_the_left_is_cast_to_the_type_of_the_attribute() -> None:
    texts = ["'7' = a", "7 = a", "7.0 = a", "TRUE = a", "'x' = a", "7 < a", "7.0 >= a", "'7' < a", "7 != a"]
    found = [agree(texts, Rows([{"a": value}, {"b": 1}])) for value in (7, 7.0, "7", "7.0", "07", True, "true", "x")]
    assert [[each[row][0] for each in found] for row in range(4)] == [
        [True, True, True, False, False, False, False, False],
        [True, True, True, False, False, True, False, False],
        [True, True, False, True, False, True, False, False],
        [False, False, False, False, False, True, True, False],
    ]


def test_texts_are_taken_as_they_are() -> None:
    """A filter's text is normalised, an event's must have been, and a trailing NUL counts."""
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    texts = [f"a = '{composed}'", f"a = '{decomposed}'", f"a LIKE '{composed}%'", "a = 'x'", "a = 'x\0'", "a LIKE 'x_'"]
    found = agree(texts, Rows([{"a": value} for value in (composed, decomposed, "x", "x\0")]))
    assert found == [
        [True, False, False, False],
        [True, False, False, False],
        [True, False, False, False],
        [False, False, True, False],
        [False, False, False, True],
        [False, False, False, True],
    ]


def test_bounds_are_sharp_for_decimals_and_for_integers() -> None:
    around = [
        value for bound in (5.0, 0.0, -5.0) for value in (math.nextafter(bound, -9), bound, math.nextafter(bound, 9))
    ]
    texts = [
        f"a {relation} {bound}" for relation in ("<", "<=", ">", ">=") for bound in (5, 5.0, 0, 0.0, -0.0, -5, -5.0)
    ]
    found = agree(texts, Rows([{"a": value} for value in [*around, -0.0]]))
    assert found[0] == [True, False, False, True, True, True, True, True, True, True]
    assert found[9] == [False] * 3 + [True, True, False] + [True] * 4, "at most 0, and so is -0.0"
    for edge in (0, BIG // 2, -BIG // 2, BIG, -BIG):
        numbers = [f"a {relation} {edge}" for relation in ("<", "<=", ">", ">=")]
        found = agree(numbers, Rows([{"a": edge + step} for step in (-1, 0, 1)]))
        assert found == [[True, False, False], [True, True, False], [False, False, True], [False, True, True]]


def test_minus_zero_is_zero_but_has_a_text_of_its_own() -> None:
    found = agree(
        ["a = 0", "a = -0.0", "a = '0.0'", "a = '-0.0'", "a LIKE '-%'", "a IN (0)"], Rows([{"a": 0.0}, {"a": -0.0}])
    )
    assert found == [[True, True], [True, True], [True, False], [False, True], [False, True], [True, True]]


def test_a_stale_bucket_may_be_the_only_one_of_a_snapshot() -> None:
    twin = Twin()
    batch = points("a")
    for bound in (5, 7):
        twin.add(Filter(f"a > {bound}"), bound)
        twin.check(batch)


def test_a_batch_may_be_empty() -> None:
    index, pairs = MaskIndex(), PairIndex()
    for number, text in enumerate(["a = 1", "a > 1", "s = 'x'", "s LIKE 'x%' AND a = 'y'", "EXISTS s", "NOT EXISTS s"]):
        index.add(Filter(text), number)
        pairs.add(Filter(text), number)
    for kind in Kind:
        batch = Table({name: column(kind, []) for name in ("a", "s")}, 0)
        assert index.match(batch).tolist() == []
        assert index.snapshot().match(batch).tolist() == []
        assert [each.tolist() for each in pairs.match_pairs(batch)] == [[], []]


def test_lists_that_become_too_long_together_lose_nothing() -> None:
    first, second = ", ".join(map(str, range(1, 124))), ", ".join(map(str, range(400, 408)))
    text = f"a IN (0) OR a IN ({first}) OR a IN ({second}) OR a IN (300)"
    assert agree([text], Rows([{"a": value} for value in (0, 5, 123, 124, 401, 300)])) == [
        [True, True, True, False, True, True]
    ]


def test_alternatives_with_ranges_go_together() -> None:
    pairs = PairIndex()
    for number in range(6):
        pairs.add(Filter("(a > 1 AND a < 3) OR (a > 5 AND a < 7)"), number)
    assert sorted(pairs.match_one({"a": 6})) == list(range(6))
    for number in range(6):
        pairs.remove(number)
    assert len(pairs._filed.groups) == 0


def test_subscriptions_may_have_any_number() -> None:
    pairs = PairIndex()
    numbers = [-(2**63), -1, 0, 2**53 + 1, 2**62, 2**63 - 1]
    for number in numbers:
        pairs.add(Filter("a < 3 OR (a < 5 AND a > 1)"), number)
    found, wanted = pairs.match_pairs(Rows([{"a": 2}] * 8))
    assert sorted(zip(found.tolist(), wanted.tolist(), strict=True)) == [(row, n) for row in range(8) for n in numbers]


def test_as_many_texts_as_there_are_codes() -> None:
    """A missing one must not be taken for the first of them."""
    count = 1 << 16
    dictionary = ("x", *map(str, range(count - 1)))
    valid = np.ones(count, np.bool_)
    valid[5] = False
    batch = Table({"a": Column(Kind.STRING, np.zeros(count, np.uint16), valid, dictionary)}, count)
    index = MaskIndex()
    index.add(Filter("a = 'x'"), 0)
    assert (~index.match(batch).astype(np.bool_)).nonzero()[0].tolist() == [5]
