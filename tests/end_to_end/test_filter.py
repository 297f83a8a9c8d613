"""`stentor filter check`: what a filter means, says and costs."""

import re

import pytest
from tests.end_to_end.command import in_process, stentor


def test_a_filter_is_explained() -> None:
    done = stentor("filter", "check", "symbol = 'IBM' and price > 90.0", "--attr", "symbol=IBM", "--attr", "price=92.5")
    assert done.returncode == 0, done.stderr
    rows = {line.split("  ")[0].strip(): line.partition("  ")[2].strip() for line in done.stdout.splitlines()}
    assert rows["filter"] == "symbol = 'IBM' AND price > 90.0"
    assert rows["looks at"] == "price, symbol"
    assert (rows["value"], rows["error"], rows["matches"]) == ("true", "none", "yes")
    assert rows["indexed"] == "symbol, as text, is 'IBM'; price, as a number, is > 90.0"
    assert rows["then"] == "nothing: an event that is found matches"
    assert re.fullmatch(r"[0-9.]+ µs an event, evaluated alone", rows["cost"])


@pytest.mark.parametrize(
    ("expression", "attributes", "said"),
    [
        ("colour != 'red'", [], "missingAttribute (the event has no colour)"),
        ("size > 5", ["size=large"], "cast"),
        ("1 / zero = 1", ["zero=0"], "math"),
        ("size = 5 OR LENGTH(note) > 3", ["size=5"], "the whole filter is evaluated for the events found by note"),
        ("size > 5 AND size < 3", [], "no event can match"),
        ("TRUE", [], "every event"),
        ("note LIKE 'abc%'", ["note=abcd"], "note begins with 'abc'"),
        ("size <= 7 AND size >= 3", ["size=7"], "size, as a number, is >= 3.0 and <= 7.0"),
        ("size IN (1, 2)", ["size:=2"], "one of 1, 2, '1', '2', true"),
    ],
)
def test_a_filter_shows_its_value_its_error_and_how_it_is_indexed(
    expression: str, attributes: list[str], said: str
) -> None:
    options = [word for each in attributes for word in ("--attr", each)]
    done = in_process("filter", "check", expression, *options)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["price >"], "expected an attribute, a value or ("),
        (["a = 1 AND b = 2 OR c = 3"], "add parentheses"),
        (["a = 1", "--attr", "a"], "write name=value"),
        (["a = 1", "--attr", "a=1", "--attr", "a=2"], "given twice"),
        (["a = 1", "--attr", "ä=1"], "letters, digits"),
    ],
)
def test_a_wrong_filter_is_refused_with_the_reason(words: list[str], said: str) -> None:
    done = in_process("filter", "check", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_operators_bind_as_the_specification_says() -> None:
    done = in_process("filter", "check", "--cesql", "a = 1 AND b = 2 OR c = 3")
    assert done.returncode == 0
    assert "(a = 1 AND b = 2) OR c = 3" in done.stdout
