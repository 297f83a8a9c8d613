"""Random filters and events over few names and few constants, so that they often have to do with each other."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from stentor.model.attribute import LARGEST_INTEGER, SMALLEST_INTEGER, Kind, Value
from stentor.model.batch import Row
from stentor.model.column import Column
from stentor.model.filter import Filter
from stentor.model.filter.canonical import literal, quote
from stentor.model.filter.syntax import Literal

NAMES = ("a", "b", "s")
BIG = 2**53
INTEGERS: list[Value] = [
    0,
    1,
    2,
    5,
    7,
    -1,
    1000,
    BIG // 2,
    BIG // 2 + 1,
    BIG,
    BIG + 1,
    LARGEST_INTEGER,
    SMALLEST_INTEGER,
]
DECIMALS: list[Value] = [
    0.0,
    -0.0,
    1.0,
    2.0,
    2.5,
    7.0,
    7.5,
    -1.0,
    0.1,
    1000.0,
    float(BIG // 2),
    float(BIG),
    float(BIG + 2),
    -(2.0**63),
    1e300,
    5e-324,
]
TEXTS: list[Value] = [
    "",
    "x",
    "xy",
    "xyz",
    "y",
    "x%_",
    "abcdefgh",
    "abcdefghi",
    "7",
    "07",
    "+7",
    "7.5",
    "7.0",
    "1e3",
    "1000",
    "0",
    "-0.0",
    "true",
    "True",
    "false",
    "inf",
    "nan",
    "é",
    "x\0",
    str(BIG),
    str(BIG + 1),
    "9" * 20,
]
POOLS: dict[Kind, list[Value]] = {
    Kind.BOOLEAN: [True, False],
    Kind.INTEGER: INTEGERS,
    Kind.DECIMAL: DECIMALS,
    Kind.STRING: TEXTS,
}
HOSTILE = [math.nan, math.inf, -math.inf]  # what a peer may send, though none of our own would
PATTERNS = [
    "%",
    "",
    "x",
    "x%",
    "xy%",
    "xyz%",
    "y%",
    "%y",
    "x_",
    "_%",
    "7%",
    "tr%",
    "abcdefg%",
    "abcdefghi%",
    r"x\%%",
    "é%",
]


def tried(examples: int) -> settings:
    """So many random tries; a slow machine is no failure."""
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def spelled(value: Value) -> str:
    """A literal."""
    kinds = {bool: Kind.BOOLEAN, int: Kind.INTEGER, float: Kind.DECIMAL, str: Kind.STRING}
    return literal(Literal(kinds[type(value)], value))


def likely(pool: Sequence[Value], favourites: Sequence[Value]) -> st.SearchStrategy[Value]:
    """Some more often than the others, or two random filters would rarely meet."""
    return st.sampled_from([*pool, *list(favourites) * max(1, len(pool) // len(favourites))])


names = st.sampled_from(NAMES)
constants = likely([value for pool in POOLS.values() for value in pool], [0, 1, 2, 7, 7.0, 2.5, "x", "xy", "7", True])
literals = constants.map(spelled)
numbers = likely([*INTEGERS, *DECIMALS], [1, 2, 5, 7, 2.5, 7.5])
patterns = st.sampled_from(PATTERNS).map(quote)
inversions = st.sampled_from(["", "NOT "])
relations = st.sampled_from(["=", "=", "!=", "<", "<=", ">", ">="])
orders = st.sampled_from(["<", "<=", ">", ">="])
lists = st.lists(literals, min_size=1, max_size=5).map(", ".join)


def _between(name: str, bounds: list[Value]) -> str:
    low, high = sorted(bounds, key=float)
    return f"({name} >= {spelled(low)} AND {name} < {spelled(high)})"


# What the normal form knows exactly, mostly.
plain = st.one_of(
    st.builds("({} = {})".format, names, literals),
    st.builds("({} {} {})".format, names, orders, numbers.map(spelled)),
    st.builds(_between, names, st.lists(numbers, min_size=2, max_size=2)),
    st.builds("({} IN ({}))".format, names, lists),
    st.builds("({} LIKE {})".format, names, patterns),
    st.builds("(EXISTS {})".format, names),
    names,
)

# What it may know little of.
odd = st.one_of(
    st.builds("({} {} {})".format, names, relations, literals),
    st.builds("({} {} {})".format, literals, relations, names),
    st.builds("({} {} {})".format, names, relations, names),
    st.builds("({} {}IN ({}))".format, names, inversions, lists),
    st.builds("({} IN ({}, {}))".format, names, names, literals),
    st.builds("({} {}LIKE {})".format, names, inversions, patterns),
    st.builds("(NOT {})".format, names),
    st.builds("({} {} {} {} {})".format, names, st.sampled_from("+-*/%"), literals, relations, literals),
    st.builds("(-{} {} {})".format, names, relations, literals),
    st.builds("(LENGTH({}) {} 2)".format, names, relations),
    st.builds("(UPPER({}) = 'X')".format, names),
    st.builds("(ABS({}) = {})".format, names, literals),
    st.builds(
        "{}({})".format, st.sampled_from(["INT", "BOOL", "STRING", "DECIMAL", "IS_INT", "IS_BOOL", "LOWER"]), names
    ),
    literals,
)

Texts = st.SearchStrategy[str]


def _joined(logics: Sequence[str]) -> Callable[[Texts], Texts]:
    def join(inner: Texts) -> Texts:
        several = st.lists(inner, min_size=2, max_size=3)
        return st.builds(lambda logic, parts: f"({f' {logic} '.join(parts)})", st.sampled_from(logics), several)

    return join


def _anyhow(inner: Texts) -> Texts:
    return _joined(["AND", "OR", "XOR"])(inner) | st.builds("(NOT {})".format, inner)


plain_filters = st.recursive(plain, _joined(["AND", "AND", "OR"]), max_leaves=4).map(Filter.parse_cesql)
odd_filters = st.recursive(plain | odd, _anyhow, max_leaves=5).map(Filter.parse_cesql)
filters = plain_filters | odd_filters

cells: dict[Kind, st.SearchStrategy[Value]] = {
    Kind.BOOLEAN: st.booleans(),
    Kind.INTEGER: likely(INTEGERS, [1, 2, 5, 7]),
    Kind.DECIMAL: likely([*DECIMALS, *HOSTILE], [1.0, 2.5, 7.0, 7.5]),
    Kind.STRING: likely(TEXTS, ["x", "xy", "7", "true"]),
}
events: st.SearchStrategy[Row] = st.dictionaries(names, st.one_of(list(cells.values())))


class Table:
    """A batch made of columns, as the wire makes it."""

    def __init__(self, columns: dict[str, Column], count: int) -> None:
        self.count = count
        self._columns = columns

    def column(self, name: str) -> Column | None:
        return self._columns.get(name)

    def rows(self) -> list[Row]:
        rows: list[Row] = [{} for _ in range(self.count)]
        for name, column in self._columns.items():
            for row, value in zip(rows, column.to_list(), strict=True):
                if value is not None:
                    row[name] = value
        return rows


def column(kind: Kind, cells: Sequence[Value | None]) -> Column:
    """A column of these values, None where there is none; a dictionary has texts that no event has, and one twice."""
    valid = np.array([cell is not None for cell in cells], np.bool_) if None in cells else None
    if kind is Kind.STRING:
        dictionary = [str(text) for text in [*TEXTS, "x"]]
        codes = [len(dictionary) - 1 if cell is None else dictionary.index(str(cell)) for cell in cells]
        return Column(kind, np.array(codes, np.uint16), valid, tuple(dictionary))
    dtype = {Kind.BOOLEAN: np.bool_, Kind.INTEGER: np.int64, Kind.DECIMAL: np.float64}[kind]
    return Column(kind, np.array([0 if cell is None else cell for cell in cells], dtype), valid)


@st.composite
def tables(draw: st.DrawFn, size: int | None = None) -> Table:
    """A few different events of one schema, over and over if a size is given."""
    count = draw(st.integers(1, 8))
    order = np.resize(np.arange(count), size or count)
    columns = {}
    for name in draw(st.lists(names, unique=True)):
        kind = draw(st.sampled_from(sorted(cells)))
        drawn = draw(st.lists(cells[kind] | st.none(), min_size=count, max_size=count))
        columns[name] = column(kind, drawn).take(order)
    return Table(columns, len(order))


# Filters that often have to do with each other: one attribute more than the other, constants that nearly agree.
near_names = st.sampled_from(["a", "a", "b"])
near_constants: list[Value] = [
    1,
    2,
    7,
    1.0,
    7.0,
    2.5,
    7.5,
    BIG,
    BIG + 1,
    float(BIG),
    -0.0,
    "x",
    "xy",
    "7",
    "007",
    "7.5",
    "1e3",
    "true",
    True,
]
near_literals = st.sampled_from(near_constants).map(spelled)
near_numbers = st.sampled_from(["1", "2", "5", "7", "2.5", "7.5", "7.0", str(BIG)])
near_conditions = st.one_of(
    st.builds("({} = {})".format, near_names, near_literals),
    st.builds("({} = {})".format, near_literals, near_names),
    st.builds("({} {} {})".format, near_names, orders, near_numbers),
    st.builds("({0} > {1} AND {0} <= {2})".format, near_names, near_numbers, near_numbers),
    st.builds("({} IN ({}))".format, near_names, st.lists(near_literals, min_size=1, max_size=4).map(", ".join)),
    st.builds("({} LIKE {})".format, near_names, st.sampled_from(["x%", "xy%", "%", "7%", "x", "%y"]).map(quote)),
    st.builds("(EXISTS {})".format, near_names),
    st.builds("({} != 'x')".format, near_names),
    st.just("(LENGTH(a) > 1)"),
    near_names,
)
near_filters = st.recursive(near_conditions, _joined(["AND", "AND", "OR"]), max_leaves=4).map(Filter.parse_cesql)
