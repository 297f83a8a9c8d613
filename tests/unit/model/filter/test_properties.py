"""Random filters over random events: against a reference, event by event and in batches, and through their own text."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from stentor.model.attribute import LARGEST_INTEGER, SMALLEST_INTEGER, Kind, Value
from stentor.model.column import Column
from stentor.model.errors import FilterError
from stentor.model.filter import Filter, FilterErrorKind
from stentor.model.filter.canonical import quote
from stentor.model.filter.functions import FUNCTIONS, find
from stentor.model.filter.pattern import matcher
from stentor.model.filter.syntax import (
    Arithmetic,
    Attribute,
    Call,
    Comparison,
    Exists,
    Expression,
    InList,
    Like,
    Literal,
    Logic,
    Logical,
    Negation,
    Not,
    Operator,
    Relation,
)


def tried(examples: int) -> settings:
    """So many random tries; a slow machine is no failure."""
    return settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])


BIG = 2**53
NAMES = ("a", "b", "c_1")
INTEGERS: list[Value] = [0, 1, 2, -1, 5, 100, BIG - 1, BIG, BIG + 1, BIG + 3, LARGEST_INTEGER, SMALLEST_INTEGER]
DECIMALS: list[Value] = [
    0.0,
    -0.0,
    1.0,
    2.5,
    -1.0,
    5.0,
    100.25,
    float(BIG),
    float(BIG + 2),
    float(BIG + 4),
    2.0**63,
    -(2.0**63),
    1e300,
    5e-324,
]
TEXTS: list[Value] = ["", "5", "05", "+5", "2.5", "true", "False", "abc", "ab", "a%_", "it's", 'a"b', "é", str(BIG + 1)]
POOLS: dict[Kind, list[Value]] = {
    Kind.BOOLEAN: [True, False],
    Kind.INTEGER: INTEGERS,
    Kind.DECIMAL: DECIMALS,
    Kind.STRING: TEXTS,
}
PATTERNS = ["%", "a%", "%b", "%5%", "_b%", r"a\%\_", "", "5", "tr_e"]


def spelled(value: Value) -> str:
    """A literal; the smallest integer and the like are spelled with their minus."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, float):
        text = repr(value)
        return text if "." in text else text.replace("e", ".0e")
    return repr(value)


literals = st.sampled_from([value for pool in POOLS.values() for value in pool]).map(spelled)
leaves = st.one_of(st.sampled_from(NAMES), literals, st.sampled_from(NAMES).map("EXISTS {}".format))


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Texts out of texts, with and without parentheses: CESQL gives every such text a meaning."""
    part = inner | inner.map("({})".format)
    infix = st.sampled_from(["AND", "or", "Xor", "=", "!=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"])
    lists = st.lists(part, min_size=1, max_size=4).map(", ".join)
    function = st.sampled_from(sorted(FUNCTIONS))
    return st.one_of(
        st.builds("{} {} {}".format, part, infix, part),
        st.builds("NOT {}".format, part),
        st.builds("-{}".format, part),
        st.builds("{} {}LIKE {}".format, part, st.sampled_from(["", "not "]), st.sampled_from(PATTERNS).map(quote)),
        st.builds("{} {}IN ({})".format, part, st.sampled_from(["", "not "]), lists),
        st.builds("{}({})".format, function, st.lists(part, max_size=3).map(",".join)),
    )


def _simple() -> st.SearchStrategy[str]:
    """The shapes that have a quick way of their own."""
    name = st.sampled_from(NAMES)
    relation = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
    condition = st.one_of(
        st.builds("({} {} {})".format, name, relation, literals),
        st.builds("({} {} {})".format, literals, relation, name),
        st.builds("({} IN ({}))".format, name, st.lists(literals, min_size=1, max_size=12).map(", ".join)),
        st.builds("({} LIKE {})".format, name, st.sampled_from(PATTERNS).map(quote)),
        st.builds("(EXISTS {})".format, name),
        name,
    )
    return st.recursive(
        condition,
        lambda inner: st.one_of(
            st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR", "XOR"]), inner),
            st.builds("(NOT {})".format, inner),
        ),
        max_leaves=6,
    )


texts = st.recursive(leaves, _grow, max_leaves=10) | _simple()
values = st.sampled_from([value for pool in POOLS.values() for value in pool])
events = st.dictionaries(st.sampled_from(NAMES), values)


def parse(text: str) -> Filter:
    """The filter, unless it is too deep."""
    made, error = attempt(text)
    assume(made is not None)
    assert made is not None, error
    return made


def attempt(text: str, *, strict: bool = False) -> tuple[Filter | None, FilterError | None]:
    try:
        return (Filter(text) if strict else Filter.parse_cesql(text)), None
    except FilterError as error:
        return None, error


# The reference: CESQL's text taken word by word, with exact fractions for numbers, and tuples of value and error.

Result = tuple[Value, FilterErrorKind | None]


def cast(value: Value, kind: Kind) -> Result:
    if kind is Kind.STRING:
        return (
            value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
        ), None
    if kind is Kind.BOOLEAN:
        if isinstance(value, str):
            known = {"true": True, "false": False}.get(value.lower())
            return (False, FilterErrorKind.CAST) if known is None else (known, None)
        return bool(value), None
    try:
        number = Fraction(value)
    except ValueError:
        return 0, FilterErrorKind.CAST
    if kind is Kind.DECIMAL:
        return float(number), None
    is_integer = number.denominator == 1 and SMALLEST_INTEGER <= number <= LARGEST_INTEGER
    if not is_integer or (isinstance(value, str) and "." in value):
        return 0, FilterErrorKind.CAST
    return int(number), None


def kind_of(value: Value) -> Kind:
    return {bool: Kind.BOOLEAN, int: Kind.INTEGER, float: Kind.DECIMAL, str: Kind.STRING}[type(value)]


def is_number(value: Value) -> bool:
    return kind_of(value) in (Kind.INTEGER, Kind.DECIMAL)


def equals(value: Value, target: Value) -> Result:
    if is_number(value) and is_number(target):
        return Fraction(value) == Fraction(target), None
    value, error = cast(value, kind_of(target))
    return (False, error) if error else (value == target, None)


def pair(left: Value, right: Value) -> tuple[Value, Value, FilterErrorKind | None]:
    results = []
    for value in (left, right):
        if Kind.DECIMAL not in (kind_of(left), kind_of(right)):
            results.append(cast(value, Kind.INTEGER))
        else:
            results.append((value, None) if is_number(value) else cast(value, Kind.DECIMAL))
    (first, wrong), (second, also_wrong) = results
    return first, second, wrong or also_wrong


def compute(operator: Operator, left: Value, right: Value) -> Result:
    first, second, error = pair(left, right)
    if error:
        return 0, error
    assert not isinstance(first, str)
    assert not isinstance(second, str)
    if isinstance(first, float) or isinstance(second, float):
        x, y = float(first), float(second)
        if y == 0 and operator in (Operator.DIVIDE, Operator.REMAINDER):
            return 0, FilterErrorKind.MATH
        number = {
            Operator.PLUS: lambda: x + y,
            Operator.MINUS: lambda: x - y,
            Operator.TIMES: lambda: x * y,
            Operator.DIVIDE: lambda: x / y,
            Operator.REMAINDER: lambda: math.fmod(x, y),
        }[operator]()
        return (number, None) if math.isfinite(number) else (0, FilterErrorKind.MATH)
    if operator in (Operator.DIVIDE, Operator.REMAINDER):
        if second == 0:
            return 0, FilterErrorKind.MATH
        quotient = math.trunc(Fraction(first, second))
        whole = quotient if operator is Operator.DIVIDE else first - second * quotient
    else:
        sign = {Operator.PLUS: first + second, Operator.MINUS: first - second, Operator.TIMES: first * second}
        whole = sign[operator]
    return (whole, None) if SMALLEST_INTEGER <= whole <= LARGEST_INTEGER else (0, FilterErrorKind.MATH)


def join(node: Logical, event: dict[str, Value]) -> Result:
    parity = False
    for operand in node.operands:
        value, error = reference(operand, event)
        if not error:
            value, error = cast(value, Kind.BOOLEAN)
        if error:
            return False, error
        if node.logic is Logic.AND and not value:
            return False, None
        if node.logic is Logic.OR and value:
            return True, None
        parity ^= value is True
    return (parity if node.logic is Logic.XOR else node.logic is Logic.AND), None


def compare(relation: Relation, left: Value, right: Value) -> Result:
    if relation in (Relation.EQUAL, Relation.UNEQUAL):
        same, error = equals(left, right)
        return (False, error) if error else (same is (relation is Relation.EQUAL), None)
    first, second, error = pair(left, right)
    if error:
        return False, error
    x, y = Fraction(first), Fraction(second)
    return {
        Relation.LESS: x < y,
        Relation.LESS_OR_EQUAL: x <= y,
        Relation.GREATER: x > y,
        Relation.GREATER_OR_EQUAL: x >= y,
    }[relation], None


def call(node: Call, event: dict[str, Value]) -> Result:
    """Functions have tables of their own; here only what happens around them."""
    if find(node.name, len(node.arguments)) is None:
        return False, FilterErrorKind.MISSING_FUNCTION
    arguments = [reference(argument, event) for argument in node.arguments]
    assume(not any(error for _, error in arguments))
    constants = ", ".join(spelled(value) for value, _ in arguments)
    return Filter.parse_cesql(f"{node.name}({constants})").evaluate({})


def contain(node: InList, event: dict[str, Value]) -> Result:
    value, error = reference(node.subject, event)
    for element in node.elements:
        if error:
            break
        candidate, error = reference(element, event)
        if not error:
            same, error = equals(candidate, value)
            if same:
                return True, None
    return False, error


def combine(node: Comparison | Arithmetic, event: dict[str, Value]) -> Result:
    first, wrong = reference(node.left, event)
    second, also_wrong = reference(node.right, event)
    if wrong or also_wrong:
        return (False if isinstance(node, Comparison) else 0), wrong or also_wrong
    if isinstance(node, Comparison):
        return compare(node.relation, first, second)
    return compute(node.operator, first, second)


def apply(node: Not | Negation | Like, event: dict[str, Value]) -> Result:
    value, error = reference(node.subject if isinstance(node, Like) else node.operand, event)
    if isinstance(node, Negation):
        if error:
            return 0, error
        return (-value, None) if isinstance(value, float) else compute(Operator.MINUS, 0, value)
    if not error:
        value, error = cast(value, Kind.STRING if isinstance(node, Like) else Kind.BOOLEAN)
    if error:
        return False, error
    return (matcher(node.pattern)(str(value)) if isinstance(node, Like) else not value), None


def reference(node: Expression, event: dict[str, Value]) -> Result:
    match node:
        case Literal(_, value):
            return value, None
        case Attribute(name):
            return (event[name], None) if name in event else (False, FilterErrorKind.MISSING_ATTRIBUTE)
        case Exists(name):
            return name in event, None
        case Logical():
            return join(node, event)
        case Call():
            return call(node, event)
        case InList():
            return contain(node, event)
        case Comparison() | Arithmetic():
            return combine(node, event)
        case Not() | Negation() | Like():
            return apply(node, event)


@tried(200)
@given(texts, events)
@example("a = -1 XOR TRUE", {"a": 1})
def test_evaluates_as_the_reference_does(text: str, event: dict[str, Value]) -> None:
    made = parse(text)
    value, error = made.evaluate(event)
    expected, expected_error = reference(made.syntax, event)
    assert (value, type(value), error) == (expected, type(expected), expected_error)
    assert made.matches(event) is (value is True and error is None)


@tried(125)
@given(texts, st.lists(events, max_size=3))
def test_its_text_is_the_same_filter(text: str, some: list[dict[str, Value]]) -> None:
    made = parse(text)
    again = Filter.parse_cesql(str(made))
    assert again == made
    assert again.syntax == made.syntax
    assert str(again) == str(made)
    assert hash(again) == hash(made)
    assert again.names == made.names
    for event in some:
        assert again.evaluate(event) == made.evaluate(event)


@tried(100)
@given(texts)
def test_its_text_is_never_doubtful(text: str) -> None:
    """Whatever CESQL's precedence makes of a text, its canonical text says in a way that people read so too."""
    made = parse(text)
    again, error = attempt(str(made), strict=True)
    if error is not None:
        assert "argument" in error.reason  # a function called with too few or too many
    else:
        assert again == made


@st.composite
def batches(draw: st.DrawFn) -> tuple[dict[str, Column], list[dict[str, Value]]]:
    """Columns, and the same events one by one."""
    count = draw(st.integers(0, 12))
    rows: list[dict[str, Value]] = [{} for _ in range(count)]
    columns = {}
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        kind = draw(st.sampled_from(sorted(POOLS)))
        pool = [*POOLS[kind], math.nan, math.inf] if kind is Kind.DECIMAL else POOLS[kind]
        cells = draw(st.lists(st.sampled_from(pool) | st.none(), min_size=count, max_size=count))
        for row, cell in zip(rows, cells, strict=True):
            if cell is not None:
                row[name] = cell
        columns[name] = _column(kind, cells)
    return columns, rows


def _column(kind: Kind, cells: list[Value | None]) -> Column:
    valid = np.array([cell is not None for cell in cells], np.bool_) if None in cells else None
    if kind is Kind.STRING:
        dictionary = [str(value) for value in TEXTS]
        codes = [0 if cell is None else dictionary.index(str(cell)) for cell in cells]
        return Column(kind, np.array(codes, np.uint16), valid, tuple(dictionary))
    dtype = {Kind.BOOLEAN: np.bool_, Kind.INTEGER: np.int64, Kind.DECIMAL: np.float64}[kind]
    return Column(kind, np.array([0 if cell is None else cell for cell in cells], dtype), valid)


@tried(250)
@given(texts, batches())
def test_selects_what_matches(text: str, batch: tuple[dict[str, Column], list[dict[str, Value]]]) -> None:
    columns, rows = batch
    made = parse(text)
    assert made.select(columns.get, len(rows)).tolist() == [made.matches(row) for row in rows]


tokens = st.sampled_from(
    [
        "a",
        "b1",
        "AND",
        "or",
        "NOT",
        "LIKE",
        "IN",
        "EXISTS",
        "(",
        ")",
        ",",
        "'x'",
        '"',
        "5",
        "5.5",
        "=",
        "<>",
        "<",
        "-",
        "+",
        "*",
        "%",
        "TRUE",
        "LEFT",
        "\\",
        ".",
        " ",
        "\n",
        "é",
        "\ud800",
        "9223372036854775808",
        "!",
        "&&",
    ]
)


@tried(150)
@given(st.text(max_size=40) | st.lists(tokens, max_size=30).map(" ".join) | st.lists(tokens, max_size=30).map("".join))
def test_any_text_is_a_filter_or_a_filter_error(text: str) -> None:
    for strict in (True, False):
        made, error = attempt(text, strict=strict)
        if error is not None:
            assert 0 <= error.position <= len(text)
            assert error.reason
        else:
            assert made is not None
            made.evaluate({"a": 1, "b1": "x"})
