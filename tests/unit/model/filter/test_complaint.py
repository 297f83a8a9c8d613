"""What a filter is refused for, and where."""

import pytest

from stentor.model.errors import FilterError
from stentor.model.filter import DEEPEST_FILTER, LONGEST_FILTER, MOST_TERMS, Filter

# Each text has a ‸ before the character that is to blame.
REFUSED = [
    ("‸", "the filter is empty"),
    ("  ‸", "the filter is empty"),
    ("price >‸", "ends too early: expected an attribute, a value or ("),
    ("price > ‸", "ends too early: expected an attribute, a value or ("),
    ("(a = 1‸", "ends too early: expected an operator such as = or AND or )"),
    ("LEFT(a, 1‸", "ends too early: expected an operator such as = or AND or ',' or )"),
    ("a = 1‸)", "expected an operator such as = or AND or the end, not )"),
    ("a ‸b", "expected an operator such as = or AND or the end, not b"),
    ("a = 1 AND ‸OR b = 2", "expected an attribute, a value or (, not OR"),
    ("EXISTS ‸'a'", "expected the name of an attribute, not 'a'"),
    ("EXISTS‸", "ends too early: expected the name of an attribute"),
    ("a LIKE ‸b", "expected a pattern in quotes, such as 'abc%', not b"),
    ("a NOT ‸= 1", "expected LIKE or IN, not ="),
    ("a IN ‸1", "expected (, not 1"),
    ("a IN (‸)", "expected an attribute, a value or (, not )"),
    ("a IN (1 ‸2)", "expected an operator such as = or AND or ',' or ), not 2"),
    ("LEFT(‸,)", "expected an attribute, a value or ( or ), not ,"),
    ("a = ‸'abc", "this string never ends: ' is missing"),
    ('a = ‸"abc', 'this string never ends: " is missing'),
    ("a =‸= 1", "'==' means nothing here: for equality, write ="),
    ("a = 1 ‸&& b = 2", "'&&' means nothing here: write AND"),
    ("a = 1 ‸|| b = 2", "'||' means nothing here: write OR"),
    ("‸!a", "'!' means nothing here: write NOT"),
    ("a ‸IS NULL", "write EXISTS name"),
    ("a ‸between 1 AND 2", "write name >= … AND name <= …"),
    ("a‸.b = 1", "a name has letters, digits and _"),
    ("a = ‸.5", "a decimal number has digits before and after the point"),
    ("a = 5‸.", "a decimal number has digits before and after the point"),
    ("a = ‸$b", "'$' means nothing here: expected an attribute, a value or ("),
    ("prix_‸é = 1", "'é' means nothing here"),
    ("a = 'it'‸'s'", "to have ' in a string, write \\'"),
    ("a = ‸9223372036854775808", "integers go from -9223372036854775808 to 9223372036854775807"),
    ("a = 1 - ‸9223372036854775808", "integers go from"),
    ("a = -‸9223372036854775809", "integers go from"),
    ("a = ‸1.0e999", "too large"),
    ("a = 1 AND b = 2 ‸OR c = 3", "AND and OR are mixed: add parentheses"),
    ("a OR b OR c ‸XOR d", "OR and XOR are mixed: add parentheses"),
    ("x = 1 AND (a OR b ‸and c)", "OR and AND are mixed: add parentheses"),
    ("‸NOT a = 1", "write NOT (… = …), or (NOT …) = …"),
    ("a = 1 AND ‸NOT b LIKE 'c'", "write NOT (… LIKE …)"),
    ("‸NOT a IN (1)", "write NOT (… IN …)"),
    ("1 < a ‸< 3", "comparisons do not chain: write … < … AND … < …"),
    ("‸nosuch(a)", "there is no function nosuch: there are ABS, BOOL,"),
    ("a = 1 AND ‸left(a) = 'b'", "LEFT takes 2 arguments, not 1"),
    ("‸SUBSTRING(a)", "SUBSTRING takes 2 or 3 arguments, not 1"),
    ("‸CONCAT_WS()", "CONCAT_WS takes 1 or more arguments, not 0"),
    ("‸LENGTH()", "LENGTH takes 1 argument, not 0"),
    ("a = 'x' AND b‸\ud800", "not a valid Unicode character"),
    (f"‸{'n' * 129} = 1", "name has at most 128 characters"),
]


@pytest.mark.parametrize(("marked", "reason"), REFUSED)
def test_points_at_the_character_and_says_what_was_expected(marked: str, reason: str) -> None:
    position = marked.index("‸")
    text = marked.replace("‸", "")
    with pytest.raises(FilterError) as caught:
        Filter(text)
    assert reason in caught.value.reason
    assert (caught.value.text, caught.value.position) == (text, position)


@pytest.mark.parametrize("text", ["a = 1 AND b = 2 OR c = 3", "NOT a = 1", "1 < a < 3", "nosuch(a)", "LENGTH()"])
def test_what_is_only_doubtful_the_specification_takes(text: str) -> None:
    assert isinstance(Filter.parse_cesql(text), Filter)


@pytest.mark.parametrize("text", [None, 5, b"a = 1"])
def test_is_text(text: str) -> None:
    with pytest.raises(FilterError, match="a filter is text"):
        Filter(text)
    with pytest.raises(FilterError, match="a filter is text"):
        Filter.parse_cesql(text)


def test_no_word_of_the_grammar_gets_out() -> None:
    for marked, _ in REFUSED:
        with pytest.raises(FilterError) as caught:
            Filter(marked.replace("‸", ""))
        assert not {"COMPARE", "LOGIC", "TIMES", "$END", "OPEN", "CLOSE", "COMMA"} & set(caught.value.reason.split())


class TestLimits:
    def test_length(self) -> None:
        room = LONGEST_FILTER - len("a = ''")
        assert Filter(f"a = '{'x' * room}'").matches({"a": "x" * room})
        with pytest.raises(FilterError, match="at most 4,096 characters"):
            Filter(f"a = '{'x' * (room + 1)}'")

    def test_length_of_the_canonical_text(self) -> None:
        room = LONGEST_FILTER - len("a=''")
        with pytest.raises(FilterError, match="written out"):
            Filter(f"a='{'x' * room}'")

    def test_terms(self) -> None:
        constants = ", ".join(str(index % 10) for index in range(MOST_TERMS - 1))
        assert Filter(f"a IN ({constants})").matches({"a": 5})
        text = f"a IN ({constants}, 1)"
        with pytest.raises(FilterError, match="at most 256 names and values") as caught:
            Filter(text)
        assert caught.value.position == len(text) - 2

    def test_brackets(self) -> None:
        deep = "(" * DEEPEST_FILTER + "a = 1" + ")" * DEEPEST_FILTER
        assert Filter(deep) == Filter("a = 1")
        with pytest.raises(FilterError, match="32 levels") as caught:
            Filter(f"({deep})")
        assert caught.value.position == DEEPEST_FILTER

    @pytest.mark.parametrize(
        "text", ["NOT " * 1000 + "a", "-" * 4000 + "a", "(" * 4000, "a IN (" * 600, "ABS(" * 1000, "(-" * 2000]
    )
    def test_depth_never_reaches_pythons_stack(self, text: str) -> None:
        with pytest.raises(FilterError):
            Filter(text)

    def test_depth_of_operators(self) -> None:
        assert Filter("NOT " * DEEPEST_FILTER + "a").matches({"a": True})
        with pytest.raises(FilterError, match="32 levels"):
            Filter("NOT " * (DEEPEST_FILTER + 1) + "a")
        with pytest.raises(FilterError, match="32 levels"):
            Filter("1" + " + 1" * (DEEPEST_FILTER + 1))

    def test_many_operands_side_by_side_are_not_deep(self) -> None:
        assert Filter(" AND ".join(["a = 1"] * (MOST_TERMS // 2))).matches({"a": 1})
        assert Filter(" OR ".join(["a = 1"] * (MOST_TERMS // 2))).matches({"a": 1})
