"""Filters by their shape, beside the parser: the same trees, texts, names and errors."""

from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.model.filter.test_complaint import REFUSED
from tests.unit.model.filter.test_properties import texts, tokens, tried

from stentor.model.errors import FilterError
from stentor.model.filter import LONGEST_FILTER, MOST_TERMS, Filter, expression, shape
from stentor.model.filter.canonical import canonical
from stentor.model.filter.parser import parse
from stentor.model.filter.syntax import Literal, Logical, names, walk

Outcome = tuple[str, ...] | tuple[str, str, int]


ODD_LITERALS = [
    "0",
    "00",
    "007",
    "5",
    "9223372036854775807",
    "9223372036854775808",
    "9223372036854775809",
    "9" * 400,
    "0.0",
    "00.50",
    "1.0",
    "1.5E-3",
    "1.5e+5",
    "1.0e-999",
    "1.0e22",
    "1.0e308",
    "1.0e309",
    "123456789.123456789",
    "''",
    '""',
    "'x'",
    r"'it\'s'",
    r"""'a\"b'""",
    r'"a\"b"',
    r"'\\'",
    r"'a\%\_%'",
    r"'\\\''",
    "'%s %'",
    "'#?$'",
    "'1'",
    "'e\u0301'",
    "'\u0338'",
    "'\ud800'",
    "'\n'",
    "'TRUE'",
    "'5 AND 5.5'",
    '"it\'s"',
    "'a\"b'",
]
PIECES = [
    "a",
    "5a",
    "a5",
    "_5",
    "5_",
    "5e3",
    "AND",
    "or",
    "NOT",
    "LIKE",
    "IN",
    "EXISTS",
    "TRUE",
    "false",
    "(",
    ")",
    ",",
    "=",
    "<>",
    "<=",
    "-",
    "--",
    "- -",
    "-(",
    "+",
    "*",
    "/",
    "%",
    "LEFT(",
    "ABS(",
    ".",
    "'",
    '"',
    "\\",
    "#",
    "?",
    "$",
    " ",
    "\n",
    "é",
    "5.",
    ".5",
    "e5",
]
SLOTTED = [
    "{} = a",
    "a = -{} AND b != --{}",
    "-{} < -(-{})",
    "NOT a LIKE {} OR b IN ({}, -{}, +{})",
    "ABS(-{}) % {} = {}",
    "a NOT LIKE {} AND b NOT IN ({})",
    "CONCAT({}, b, {}) = {}",
    "-a - {} - -{}",
    "nosuch({}) OR TRUE AND {}",
    "a = 1 XOR NOT {} = (b + {})",
    "a={}{}",
    "{}a",
    "a{} = {}",
    "a = {}.{}",
    "a LIKE {} LIKE {}",
    "{} IN ({}) IN (c)",
]

odd_literals = st.sampled_from(ODD_LITERALS)
garbage = st.lists(st.sampled_from(PIECES) | odd_literals | tokens, max_size=12)
slotted = st.builds(
    lambda text, values: text.format(*values),
    st.sampled_from(SLOTTED),
    st.lists(odd_literals, min_size=4, max_size=4),
)


def described(text: str, *, strict: bool) -> Outcome:
    """What a filter is, so exactly that -0.0 is not 0.0; or what is wrong with it."""
    try:
        made = Filter(text) if strict else Filter.parse_cesql(text)
    except FilterError as error:
        return error.reason, error.text, error.position
    return repr(made.syntax), str(made), *sorted(made.names)


def in_full(text: str, *, strict: bool) -> Outcome:
    """The same by the parser alone."""
    try:
        syntax = parse(text, strict=strict)
    except FilterError as error:
        return error.reason, error.text, error.position
    written = canonical(syntax)
    if len(written) > LONGEST_FILTER:
        return f"written out, this filter has more than {LONGEST_FILTER:,} characters", "", 0
    return repr(syntax), written, *sorted(names(syntax))


def is_known_by_shape(text: str) -> bool:
    return shape.read(text, strict=False) is not None


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The texts that are parsed in full, for shapes and for filters; nothing is known beforehand."""
    found: list[str] = []

    def watched(text: str, *, strict: bool) -> object:
        found.append(text)
        return parse(text, strict=strict)

    monkeypatch.setattr(shape, "parse", watched)
    monkeypatch.setattr(expression, "parse", watched)
    shape._shape.cache_clear()
    expression._read_text.cache_clear()
    yield found
    shape._shape.cache_clear()


@tried(200)
@given(texts)
def test_any_filter_is_what_the_parser_says(text: str) -> None:
    for strict in (True, False):
        assert described(text, strict=strict) == in_full(text, strict=strict)


@tried(300)
@given(slotted | garbage.map(" ".join) | garbage.map("".join) | st.text(max_size=40))
@example('a = \'b\\"c"')
@example("a = '\"b\" AND c = '")
@example("a5.5 = 5.5.5")
def test_any_text_is_what_the_parser_says(text: str) -> None:
    for strict in (True, False):
        assert described(text, strict=strict) == in_full(text, strict=strict)


@tried(100)
@given(texts)
def test_only_nothing_or_the_smallest_integer_needs_the_parser_again(text: str) -> None:
    try:
        syntax = parse(text, strict=False)
    except FilterError:
        return
    values = [node.value for node in walk(syntax) if isinstance(node, Literal)]
    assert is_known_by_shape(text) or 0 in values or "" in values or -(2**63) in values


@pytest.mark.parametrize(
    "text",
    [
        "5a = 5",
        "a1 = 1 AND 007bond = 007",
        "5_5 = 5",
        "5e3 = 5.0e3",
        "a='x'AND b=5",
        "a=-5",
        "a-5=5-a",
        "a--5.5 = +5",
        "a LIKE '5%' AND 5 IN (5,5.0,'5')",
        "'' = \"\"",
        "5",
        "'x'",
        "TRUE",
        "a",
        "NOT a",
        "a % 5 = 1",
        "-5 - -5 = --5",
        "a NOT LIKE 'it\\'s'",
        "a = 'e\u0301'",
        "a = '#' AND b = '?$%s'",
        "a = 'b\nc'",
        "LEFT(a, 5) = ''",
    ],
)
def test_is_known_by_shape(text: str) -> None:
    assert is_known_by_shape(text)
    assert described(text, strict=True) == in_full(text, strict=True)


@pytest.mark.parametrize(
    "text",
    [
        "a = 9223372036854775808",
        "a = -9223372036854775808",
        "a = --9223372036854775808",
        "a = 1 - 9223372036854775808",
        "a = -9223372036854775809",
        f"a = {'9' * 4000}",
        "a = 1.0e309",
        "a = -1.0e999",
        "a = -0",
        "--0",
        "-(-0) = a",
        "a = ---00",
        "a = -0.0",
        "a = 'b\ud800'",
        "a\ud800 = 'b'",
        f"a = '{'x' * LONGEST_FILTER}'",
        f"a='{'x' * (LONGEST_FILTER - 4)}'",
        f"a IN ({', '.join(['5'] * MOST_TERMS)})",
        "-" * 34 + "5",
        "-" * 34 + "0",
        "a = 'b",
        "a = 'b\\'",
        "a = \"b\\\" AND c = 'd'",
        'a = \'b\\"c"',
        '\'"x"',
        "a = #",
        "a = # AND b = 5",
        "a#",
        "0#",
        "a = #5",
        "a = 5#.5",
        "a = $ OR b LIKE ?",
        "a = 5.",
        "a = .5",
        "a = 5.5.5",
        "a = 5.5e",
        "a = 5.5a",
        "a5.5",
        "5 5",
        "5.5'x'",
        "",
        " \n",
    ],
)
def test_the_parser_has_the_word_on_all_that_is_special(text: str) -> None:
    assert not is_known_by_shape(text)
    for strict in (True, False):
        assert described(text, strict=strict) == in_full(text, strict=strict)


@pytest.mark.parametrize("marked", [marked for marked, _ in REFUSED])
def test_errors_are_the_parsers(marked: str) -> None:
    text = marked.replace("‸", "")
    assert described(text, strict=True) == in_full(text, strict=True)


class TestCost:
    def test_a_shape_is_parsed_once(self, parsed: list[str]) -> None:
        assert str(Filter("a = 'x' AND b >= 10.53 AND c IN (1, -2)")) == "a = 'x' AND b >= 10.53 AND c IN (1, -2)"
        assert len(parsed) == 1
        made = Filter('a = "it\'s" AND b >= 1.0e30 AND c IN (007, -8)')
        assert str(made) == 'a = "it\'s" AND b >= 1.0e+30 AND c IN (7, -8)'
        assert made.matches({"a": "it's", "b": 2e30, "c": -8})
        assert made.names == {"a", "b", "c"}
        assert len(parsed) == 1

    def test_a_shape_knows_the_type_of_its_constants(self, parsed: list[str]) -> None:
        for text in ("a = 1", "a = 1.0", "a = '1'", "a = TRUE", "a = FALSE", "a = b"):
            assert str(Filter(text)) == text
        assert len(parsed) == 6

    def test_what_falls_back_spoils_no_shape(self, parsed: list[str]) -> None:
        for text in ("a = #", "a = -0", "a = 9223372036854775808"):
            assert described(text, strict=True) == in_full(text, strict=True)
        parsed.clear()
        assert str(Filter("a = 5")) == "a = 5"
        assert str(Filter("a = -5")) == "a = -5"
        assert parsed == []

    def test_a_text_that_is_no_filter_is_a_shape_of_none(self, parsed: list[str]) -> None:
        for number in range(3):
            with pytest.raises(FilterError):
                Filter(f"a = {number} 5")
        assert len(parsed) == 4

    @pytest.mark.usefixtures("parsed")
    def test_strict_and_not_are_kept_apart(self) -> None:
        for number in (1, 2):
            text = f"NOT a = {number} OR b = {number} AND c"
            assert Filter.parse_cesql(text).names == {"a", "b", "c"}
            with pytest.raises(FilterError, match="NOT applies only to"):
                Filter(text)
        for number in (1, 2):
            with pytest.raises(FilterError, match="comparisons do not chain"):
                Filter(f"1 < a < {number}")
            assert str(Filter.parse_cesql(f"1 < a < {number}")) == f"(1 < a) < {number}"

    @pytest.mark.usefixtures("parsed")
    def test_the_number_of_shapes_is_bounded(self) -> None:
        for number in range(shape.MOST_SHAPES + 1):
            Filter(f"a{number} = 5")
        assert shape._shape.cache_info().currsize == shape.MOST_SHAPES

    def test_a_string_without_an_end_is_looked_at_once(self) -> None:
        text = "'" + "\\'" * 2000
        assert shape._LITERAL.split(text) == ["", text, ""]

    def test_filters_of_a_shape_share_what_has_no_constants(self) -> None:
        one, other = Filter("(a OR b) AND c = 'one'"), Filter("(a OR b) AND c = 'other'")
        assert isinstance(one.syntax, Logical)
        assert isinstance(other.syntax, Logical)
        assert one.syntax.operands[0] is other.syntax.operands[0]
