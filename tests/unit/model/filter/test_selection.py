"""Filters over batches; the properties are in test_properties."""

from collections.abc import Callable

import numpy as np
import pytest

from stentor.model.attribute import LARGEST_INTEGER, SMALLEST_INTEGER, Kind, Value
from stentor.model.column import Column
from stentor.model.filter import Filter

BIG = 2**53


def column(kind: Kind, rows: list[Value | None]) -> Column:
    """A column as a block has it."""
    valid = None if None not in rows else np.array([row is not None for row in rows])
    if kind is Kind.STRING:
        texts = list(dict.fromkeys("" if row is None else str(row) for row in rows))
        codes = [texts.index("" if row is None else str(row)) for row in rows]
        return Column(kind, np.array(codes, np.uint16), valid, tuple(texts))
    dtype = {Kind.BOOLEAN: np.bool_, Kind.INTEGER: np.int64, Kind.DECIMAL: np.float64}[kind]
    return Column(kind, np.array([0 if row is None else row for row in rows], dtype), valid)


def only(name: str, there: Column) -> Callable[[str], Column | None]:
    return {name: there}.get


@pytest.mark.parametrize(
    ("text", "kind", "rows", "expected"),
    [
        ("x > 90.0", Kind.DECIMAL, [89.9, 90.0, 90.1, None], [False, False, True, False]),
        ("x > 90.5", Kind.INTEGER, [90, 91, None], [False, True, False]),
        ("90.5 < x", Kind.INTEGER, [90, 91, None], [False, True, False]),
        ("x <= 90.5", Kind.INTEGER, [90, 91], [True, False]),
        ("x != 90.5", Kind.INTEGER, [90, 91, None], [True, True, False]),
        (f"x = {BIG}.0", Kind.INTEGER, [BIG - 1, BIG, BIG + 1], [False, True, False]),
        (f"x > {BIG}.0", Kind.INTEGER, [BIG, BIG + 1], [False, True]),
        (f"x = {BIG + 1}", Kind.DECIMAL, [float(BIG), float(BIG + 2)], [False, False]),
        (f"x < {BIG + 1}", Kind.DECIMAL, [float(BIG), float(BIG + 2)], [True, False]),
        (f"x >= {BIG + 3}", Kind.DECIMAL, [float(BIG + 2), float(BIG + 4)], [False, True]),
        ("x < 1.0e300", Kind.INTEGER, [LARGEST_INTEGER, SMALLEST_INTEGER], [True, True]),
        ("x >= -1.0e300", Kind.INTEGER, [LARGEST_INTEGER, SMALLEST_INTEGER], [True, True]),
        ("x = 9223372036854775808.0", Kind.INTEGER, [LARGEST_INTEGER], [False]),
        (f"x <= {LARGEST_INTEGER}", Kind.DECIMAL, [2.0**63, 2.0**62], [False, True]),
        ("x = 'b'", Kind.STRING, ["a", "b", None], [False, True, False]),
        ("x != 'b'", Kind.STRING, ["a", "b", None], [True, False, False]),
        ("x = ''", Kind.STRING, ["a", "", None], [False, True, False]),
        ("x = 'zzz'", Kind.STRING, ["a", "b"], [False, False]),
        ("x = 5", Kind.STRING, ["5", "05", "x", None], [True, True, False, False]),
        ("x IN (5)", Kind.STRING, ["5", "05", "x", None], [True, False, False, False]),
        ("NOT (x = 5)", Kind.STRING, ["5", "6", "x", None], [False, True, False, False]),
        ("x LIKE 'a%'", Kind.STRING, ["ab", "ba", None], [True, False, False]),
        ("x NOT LIKE 'a%'", Kind.STRING, ["ab", "ba", None], [False, True, False]),
        ("x LIKE '1%'", Kind.INTEGER, [10, 21, None], [True, False, False]),
        ("x IN (1, 2.0, '3', 4.5)", Kind.INTEGER, [1, 2, 3, 4, None], [True, True, True, False, False]),
        ("x IN (1, 'a', 2)", Kind.INTEGER, [1, 2, 3], [True, False, False]),
        ("NOT (x IN (1, 'a', 2))", Kind.INTEGER, [1, 2, 3], [False, False, False]),
        ("x IN (1,2,3,4,5,6,7,8,9,10)", Kind.INTEGER, [0, 1, 10, 11], [False, True, True, False]),
        (f"x IN ({BIG + 1})", Kind.DECIMAL, [float(BIG)], [False]),
        ("x", Kind.BOOLEAN, [True, False, None], [True, False, False]),
        ("x", Kind.STRING, ["true", "false"], [False, False]),
        ("x AND TRUE", Kind.STRING, ["true", "false", "x", None], [True, False, False, False]),
        ("NOT x", Kind.BOOLEAN, [True, False, None], [False, True, False]),
        ("x = TRUE", Kind.BOOLEAN, [True, False, None], [True, False, False]),
        ("x = 1", Kind.BOOLEAN, [True, False, None], [True, False, False]),
        ("EXISTS x", Kind.INTEGER, [1, None], [True, False]),
        ("NOT EXISTS x", Kind.INTEGER, [1, None], [False, True]),
        ("NOT EXISTS x OR x > 1", Kind.INTEGER, [1, 2, None], [False, True, True]),
        ("x > 1 OR NOT EXISTS x", Kind.INTEGER, [1, 2, None], [False, True, False]),
        ("x > 1 XOR x > 2", Kind.INTEGER, [1, 2, 3, None], [False, True, False, False]),
        ("LENGTH(x) = 2", Kind.STRING, ["ab", "c", None], [True, False, False]),
        ("x * 2 > 3", Kind.INTEGER, [1, 2, LARGEST_INTEGER, None], [False, True, False, False]),
        ("TRUE", Kind.INTEGER, [1, None], [True, True]),
        ("1 / 0 = 1", Kind.INTEGER, [1, None], [False, False]),
        ("x > 1", Kind.DECIMAL, [float("nan"), float("inf")], [False, True]),
        ("x != 1", Kind.DECIMAL, [float("nan"), 1.0], [True, False]),
    ],
)
def test_selects(text: str, kind: Kind, rows: list[Value | None], expected: list[bool]) -> None:
    made = Filter(text)
    mask = made.select(only("x", column(kind, rows)), len(rows))
    assert mask.dtype == np.bool_
    assert mask.tolist() == expected
    assert [made.matches({} if row is None else {"x": row}) for row in rows] == expected


def test_a_batch_without_the_attribute() -> None:
    nothing: Callable[[str], Column | None] = lambda _name: None  # noqa: E731
    for text in ("x > 1", "NOT (x > 1)", "x < y", "x LIKE 'a'", "x"):
        assert Filter(text).select(nothing, 2).tolist() == [False, False]
    assert Filter("NOT EXISTS x").select(nothing, 2).tolist() == [True, True]
    assert Filter("EXISTS x OR TRUE").select(nothing, 0).tolist() == []


def test_two_attributes() -> None:
    columns = {"a": column(Kind.INTEGER, [1, 2, None]), "b": column(Kind.DECIMAL, [1.5, 1.5, 1.5])}
    assert Filter("a < b").select(columns.get, 3).tolist() == [True, False, False]
    assert Filter("a < b OR c = 1").select(columns.get, 3).tolist() == [True, False, False]
    assert Filter("a + b > 3.0 AND b > 1").select(columns.get, 3).tolist() == [False, True, False]


def test_a_dictionary_with_more_texts_than_events() -> None:
    texts = tuple(f"t{index}" for index in range(1000))
    there = Column(Kind.STRING, np.array([7, 999], np.uint16), None, texts)
    assert Filter("x = 't7'").select(only("x", there), 2).tolist() == [True, False]
    assert Filter("x LIKE '%99'").select(only("x", there), 2).tolist() == [False, True]
    assert Filter("LENGTH(x) = 2").select(only("x", there), 2).tolist() == [True, False]


def test_a_dictionary_that_repeats_itself() -> None:
    there = Column(Kind.STRING, np.array([0, 1, 2], np.uint16), None, ("a", "b", "a"))
    assert Filter("x = 'a'").select(only("x", there), 3).tolist() == [True, False, True]
    assert Filter("x != 'a'").select(only("x", there), 3).tolist() == [False, True, False]


def test_the_mask_is_the_callers_own() -> None:
    there = Column(Kind.INTEGER, np.arange(3), np.array([True, True, False]))
    mask = Filter("EXISTS x").select(only("x", there), 3)
    mask[:] = False
    assert there.valid is not None
    assert there.valid.tolist() == [True, True, False]
