"""LIKE, beside a slow matcher that is plainly right, and by the number of its steps."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.model.filter.pattern import matcher


def reference(pattern: str, text: str) -> bool:
    """Row by row over the pattern: which beginnings of the text does it match so far?"""
    reached = {0}
    index = 0
    while index < len(pattern):
        character = pattern[index]
        if character == "%":
            reached = set(range(min(reached), len(text) + 1)) if reached else set()
        elif character == "_":
            reached = {end + 1 for end in reached if end < len(text)}
        else:
            if character == "\\" and pattern[index + 1 : index + 2] in ("%", "_"):
                index += 1
                character = pattern[index]
            reached = {end + 1 for end in reached if text[end : end + 1] == character}
        index += 1
    return len(text) in reached


@settings(deadline=None, max_examples=150)
@given(st.text("ab%_\\é", max_size=12), st.text("ab%_\\é", max_size=12))
def test_matches_like_the_reference(pattern: str, text: str) -> None:
    assert matcher(pattern)(text) is reference(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("", "", True),
        ("", "a", False),
        ("%", "", True),
        ("%%", "a", True),
        ("_", "", False),
        ("_", "😀", True),
        ("a%a", "a", False),
        ("a%a", "aa", True),
        ("%ab%ab%", "abab", True),
        ("%ab%ab%", "aba", False),
        ("a.c", "abc", False),
        ("[a-z]*", "abc", False),
        (r"\\%", "\\%", True),  # a backslash before a backslash is itself
        (r"\\%", "\\abc", False),
        (r"a\b", r"a\b", True),
        ("a%\n%b", "a\n\nb", True),
    ],
)
def test_case(pattern: str, text: str, expected: bool) -> None:
    assert matcher(pattern)(text) is expected


class Counted(str):
    """A text that counts how many of its characters were looked at one by one."""

    __slots__ = ("looks",)
    looks: int

    def __iter__(self) -> Iterator[str]:
        self.looks = 0
        for character in str.__iter__(self):
            self.looks += 1
            yield character


@pytest.mark.parametrize("pattern", ["%_a" * 100 + "b", "%a_%" * 500 + "b", "_%" * 1000 + "b", "%" + "a_" * 500 + "b%"])
def test_evil_patterns_take_one_step_per_character(pattern: str) -> None:
    text = Counted("a" * 5000)
    assert not matcher(pattern)(text)
    assert text.looks <= len(text)
