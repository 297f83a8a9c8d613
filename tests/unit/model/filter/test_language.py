"""What Stentor adds to CloudEvents SQL, and the places where both are easily misread."""

import pickle

import pytest

from stentor.model.attribute import LARGEST_INTEGER, SMALLEST_INTEGER, Value
from stentor.model.filter import Filter, FilterErrorKind

CAST = FilterErrorKind.CAST
FUNCTION = FilterErrorKind.FUNCTION_EVALUATION
MATH = FilterErrorKind.MATH
MISSING = FilterErrorKind.MISSING_ATTRIBUTE

BIG = 2**53


def evaluate(text: str, **attributes: Value) -> tuple[Value, FilterErrorKind | None]:
    return Filter.parse_cesql(text).evaluate(attributes)


class TestDecimal:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("1.5 + 1", 2.5),
            ("1 + 1.5", 2.5),
            ("'1.5' + 1.5", 3.0),
            ("TRUE + 0.5", 1.5),
            ("7.0 / 2", 3.5),
            ("-7.5 % 2", -1.5),
            ("7.5 % -2", 1.5),
            ("2 * 0.25", 0.5),
            ("-(1.5)", -1.5),
            ("+2.5", 2.5),
            ("1.5e3", 1500.0),
            ("1.5E-3", 0.0015),
            ("ABS(-2.5)", 2.5),
            ("DECIMAL('2.5')", 2.5),
            ("DECIMAL('-1e3')", -1000.0),
            ("DECIMAL(2)", 2.0),
            ("DECIMAL(TRUE)", 1.0),
            ("INT(2.0)", 2),
            ("STRING(2.5)", "2.5"),
            ("STRING(-0.0)", "-0.0"),
            ("STRING(1.0e+20)", "1e+20"),
            ("BOOL(0.5)", True),
            ("BOOL(0.0)", False),
            ("LENGTH(2.5)", 3),
            ("LEFT('abcd', 2.0)", "ab"),
            ("IS_DECIMAL('2.5')", True),
            ("IS_DECIMAL('.5')", False),
            ("IS_DECIMAL('1e999')", False),
            ("IS_INT(2.5)", False),
            ("IS_INT('2.5')", False),
            ("IS_INT('2')", True),
            ("IS_INT(TRUE)", True),
            ("IS_BOOL('yes')", False),
            ("IS_BOOL('True')", True),
        ],
    )
    def test_value(self, text: str, expected: Value) -> None:
        value, error = evaluate(text)
        assert (value, type(value), error) == (expected, type(expected), None)

    @pytest.mark.parametrize(
        ("text", "expected", "kind"),
        [
            ("INT(2.5)", 0, CAST),
            ("INT(1.0e300)", 0, CAST),
            ("LEFT('abc', 1.5)", "", CAST),
            ("DECIMAL('1e999')", 0, CAST),
            ("DECIMAL('x')", 0, CAST),
            ("'2.5' < 3", False, CAST),  # without a Decimal it is CESQL's, which knows only Integers
            ("'2.5' + 3", 0, CAST),
            ("1.0 / 0", 0, MATH),
            ("1.5 % 0.0", 0, MATH),
            ("1.0e308 * 10", 0, MATH),
        ],
    )
    def test_error(self, text: str, expected: Value, kind: FilterErrorKind) -> None:
        assert evaluate(text) == (expected, kind)

    @pytest.mark.parametrize(
        ("text", "x", "expected"),
        [
            ("x = 5", 5.0, True),
            ("x = 5", 5.5, False),
            ("x != 5", 5.5, True),
            ("x = 5.5", "5.5", True),
            ("x = 5.0", "5", True),
            ("x < 5.5", "5.25", True),
            ("x = 1.0", True, True),
            ("x = '5.5'", 5.5, True),
            ("x = TRUE", 0.5, True),
            ("x IN (5)", 5.0, True),
            ("x IN (5.0)", 5, True),
            ("x IN (5.5)", 5, False),
            ("x IN ('5.5')", 5.5, True),
            (f"x = {BIG}.0", BIG, True),
            (f"x = {BIG}.0", BIG + 1, False),
            (f"x > {BIG}.0", BIG + 1, True),
            (f"x = {BIG + 1}", float(BIG), False),
            (f"x < {BIG + 1}", float(BIG), True),
            (f"x IN ({BIG}.0)", BIG + 1, False),
            (f"x <= {LARGEST_INTEGER}", 2.0**63, False),
        ],
    )
    def test_comparison_is_exact(self, text: str, x: Value, expected: bool) -> None:
        assert evaluate(text, x=x) == (expected, None)


class TestInteger:
    def test_has_64_bits(self) -> None:
        assert evaluate(f"{LARGEST_INTEGER}") == (LARGEST_INTEGER, None)
        assert evaluate(f"{SMALLEST_INTEGER}") == (SMALLEST_INTEGER, None)
        assert evaluate(f"-({-SMALLEST_INTEGER})") == (SMALLEST_INTEGER, None)
        assert evaluate("2147483647 + 1") == (2147483648, None)

    @pytest.mark.parametrize(
        "text",
        [
            f"{LARGEST_INTEGER} + 1",
            f"{SMALLEST_INTEGER} - 1",
            f"{LARGEST_INTEGER} * 2",
            f"{SMALLEST_INTEGER} / -1",
            f"-({SMALLEST_INTEGER})",
        ],
    )
    def test_overflow_is_a_math_error(self, text: str) -> None:
        assert evaluate(text) == (0, MATH)

    @pytest.mark.parametrize(
        ("x", "expected"),
        [
            ("+5", 5),
            ("-5", -5),
            ("0005", 5),
            ("0" * 5000 + "5", 5),
            (str(LARGEST_INTEGER), LARGEST_INTEGER),
            (str(SMALLEST_INTEGER), SMALLEST_INTEGER),
        ],
    )
    def test_text(self, x: str, expected: int) -> None:
        assert evaluate("INT(x)", x=x) == (expected, None)

    @pytest.mark.parametrize("x", ["", "+", " 5", "5 ", "5.0", "1_000", "٥", "0x5", str(2**63), "9" * 5000, "--5"])
    def test_no_text_of_one(self, x: str) -> None:
        assert evaluate("INT(x)", x=x) == (0, CAST)

    @pytest.mark.parametrize(("left", "right"), [(7, 2), (-7, 2), (7, -2), (-7, -2), (LARGEST_INTEGER, 3)])
    def test_division_rounds_towards_zero(self, left: int, right: int) -> None:
        quotient = evaluate(f"{left} / {right}")[0]
        remainder = evaluate(f"{left} % {right}")[0]
        assert isinstance(quotient, int)
        assert isinstance(remainder, int)
        assert quotient * right + remainder == left
        assert abs(remainder) < abs(right)
        assert remainder == 0 or (remainder < 0) == (left < 0)


class TestCasts:
    def test_equality_casts_the_left_side_and_in_casts_the_elements(self) -> None:
        assert evaluate("x = 5", x="05") == (True, None)
        assert evaluate("x IN (5)", x="05") == (False, None)
        assert evaluate("x IN ('05')", x=5) == (True, None)
        assert evaluate("x = '05'", x=5) == (False, None)
        assert evaluate("5 = x", x="05") == (False, None)
        assert evaluate("5 = x", x="5") == (True, None)

    def test_true_is_not_one(self) -> None:
        assert evaluate("x = '1'", x=True) == (False, None)
        assert evaluate("x = 'true'", x=True) == (True, None)
        assert evaluate("x IN ('1')", x=True) == (False, CAST)
        assert evaluate("x = TRUE", x=5) == (True, None)
        assert evaluate("TRUE = x", x=5) == (False, None)

    def test_order_is_of_numbers_only(self) -> None:
        assert evaluate("'a' < 'b'") == (False, CAST)
        assert evaluate("'9' < '10'") == (True, None)
        assert evaluate("FALSE < TRUE") == (True, None)

    def test_elements_count_until_one_cannot_be_cast(self) -> None:
        assert evaluate("x IN (5, 'a')", x=5) == (True, None)
        assert evaluate("x IN ('a', 5)", x=5) == (False, CAST)
        assert evaluate("x IN ('a', 5)", x="5") == (True, None)
        assert evaluate("x IN (6, missing, 5)", x=5) == (False, MISSING)
        assert evaluate("missing IN (5)") == (False, MISSING)

    @pytest.mark.parametrize("text", ["x > 1", "x = 1.5", "x IN (1)", "x LIKE 'a'", "x + 1 = 2", "NOT x"])
    def test_a_value_that_no_attribute_can_have_does_not_match(self, text: str) -> None:
        assert not Filter(text).matches({"x": b"1"})  # type: ignore[dict-item]

    def test_none_is_missing(self) -> None:
        assert Filter("EXISTS x").evaluate({"x": None}) == (False, None)  # type: ignore[dict-item]
        assert Filter("x = 1").evaluate({"x": None}) == (False, MISSING)  # type: ignore[dict-item]


class TestPrecedence:
    @pytest.mark.parametrize(
        ("text", "meaning"),
        [
            ("a AND b OR c", "(a AND b) OR c"),
            ("a OR b AND c", "(a OR b) AND c"),
            ("a XOR b OR c AND d", "((a XOR b) OR c) AND d"),
            ("NOT a = b", "(NOT a) = b"),
            ("NOT a LIKE 'b'", "(NOT a) LIKE 'b'"),
            ("NOT a IN (b)", "(NOT a) IN (b)"),
            ("NOT EXISTS a", "NOT (EXISTS a)"),
            ("-a LIKE 'b'", "(-a) LIKE 'b'"),
            ("a + b LIKE 'c'", "a + (b LIKE 'c')"),
            ("a * b IN (c)", "a * (b IN (c))"),
            ("a < b = c", "(a < b) = c"),
            ("a - b - c", "(a - b) - c"),
            ("a - b * c", "a - (b * c)"),
            ("a / b % c", "(a / b) % c"),
            ("a+1 < b-1 AND c", "((a + 1) < (b - 1)) AND c"),
            ("a-1", "a - 1"),
            ("a--1", "a - (-1)"),
            ("NOT NOT a", "NOT (NOT a)"),
            ("a IN (b) IN (c)", "(a IN (b)) IN (c)"),
            ("a AND (b AND c)", "a AND b AND c"),
        ],
    )
    def test_is_the_specifications(self, text: str, meaning: str) -> None:
        assert Filter.parse_cesql(text) == Filter.parse_cesql(meaning)

    def test_keywords_end_where_words_end(self) -> None:
        assert Filter("android AND orange AND inn AND nothing AND trueish").names == {
            "android",
            "orange",
            "inn",
            "nothing",
            "trueish",
        }
        assert Filter("left = 'x' AND LEFT(left, 1) = 'x'").names == {"left"}
        assert Filter("_a_1 = 2 AND 3d = 4 AND 007bond = 5").names == {"_a_1", "3d", "007bond"}

    def test_names_keep_their_case(self) -> None:
        assert Filter("Price = 1").matches({"Price": 1})
        assert not Filter("Price = 1").matches({"price": 1})


class TestMissing:
    def test_not_is_not_pushed_inward(self) -> None:
        assert evaluate("NOT (missing = 2)") == (False, MISSING)
        assert evaluate("missing != 2") == (False, MISSING)
        assert not Filter("NOT (missing = 2)").matches({})

    def test_short_circuit(self) -> None:
        assert evaluate("x = 1 OR missing = 2", x=1) == (True, None)
        assert evaluate("missing = 2 OR x = 1", x=1) == (False, MISSING)
        assert evaluate("x = 2 AND missing = 2", x=1) == (False, None)
        assert evaluate("TRUE XOR missing", x=1) == (False, MISSING)
        assert evaluate("NOT EXISTS x OR x = 1") == (True, None)


class TestMatches:
    @pytest.mark.parametrize("text", ["1", "'true'", "x", "1 + 1", "LOWER('TRUE')"])
    def test_only_true_does(self, text: str) -> None:
        assert not Filter(text).matches({"x": "true"})

    def test_a_boolean_attribute_does(self) -> None:
        assert Filter("x").matches({"x": True})
        assert Filter("x AND TRUE").matches({"x": "true"})
        assert not Filter("x").matches({"x": False})


class TestStrings:
    def test_literals_are_normalised(self) -> None:
        assert Filter("x = 'e\u0301'").matches({"x": "\u00e9"})
        assert Filter("x LIKE 'e\u0301_'").matches({"x": "\u00e9a"})
        assert Filter("x = 'e\u0301'") == Filter("x = '\u00e9'")

    def test_only_quotes_are_escaped(self) -> None:
        assert evaluate(r"'a\nb'") == ("a\\nb", None)
        assert evaluate(r"'a\\b'") == ("a\\\\b", None)
        assert evaluate(r"""'a\"b'""") == ('a\\"b', None)

    def test_trim_takes_white_space_only(self) -> None:
        assert evaluate("TRIM(x)", x="\u2003\u00a0\t a \x1f\n") == ("a \x1f", None)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("SUBSTRING('', 0)", ("", None)),
            ("SUBSTRING('', 1)", ("", FUNCTION)),
            ("SUBSTRING('abc', 3)", ("c", None)),
            ("SUBSTRING('abc', -3, 1)", ("a", None)),
            ("SUBSTRING('abc', 2, 0)", ("", None)),
            ("SUBSTRING('abc', 2, -1)", ("", FUNCTION)),
            ("SUBSTRING('abc', 2, 9223372036854775807)", ("bc", None)),
            ("RIGHT('abc', 0)", ("", None)),
            ("LEFT('abc', 'x')", ("", CAST)),
            ("LENGTH('€😀')", (2, None)),
            ("CONCAT(1, TRUE, 1.5)", ("1true1.5", None)),
        ],
    )
    def test_functions(self, text: str, expected: tuple[Value, FilterErrorKind | None]) -> None:
        assert evaluate(text) == expected


class TestFilter:
    def test_equality_is_by_canonical_text(self) -> None:
        assert Filter("a  =1 and(b<>'x')") == Filter('a = 1 AND b != "x"')
        assert hash(Filter("a=1")) == hash(Filter("(a = +1)"))
        assert Filter("a = 1") != Filter("a = 1.0")
        assert Filter("a = 1") != "a = 1"

    def test_pickle(self) -> None:
        for made in (Filter("a = 1 AND b LIKE 'x%'"), Filter.parse_cesql("nosuch(1) OR a AND b")):
            again = pickle.loads(pickle.dumps(made))
            assert again == made
            assert again.evaluate({"a": 1, "b": "xy"}) == made.evaluate({"a": 1, "b": "xy"})

    def test_repr_reads_back(self) -> None:
        assert repr(Filter("a=1")) == "Filter('a = 1')"

    def test_names(self) -> None:
        assert Filter("a = 1 AND (EXISTS b OR LOWER(c) IN (d, 'e'))").names == {"a", "b", "c", "d"}
        assert Filter("TRUE").names == frozenset()
