"""LIKE, beside a slow matcher that is plainly right, and by the number of its steps."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.model.filter import pattern as pattern_module
from stentor.model.filter.pattern import cost_per_character, longest_wild_core, matcher, wildcards


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


@pytest.mark.parametrize("pattern", ["%_a" * 100 + "b", "%a_%" * 500 + "b", "_%" * 1000 + "b", "%" + "a_" * 31 + "b%"])
def test_evil_patterns_find_each_segment_once(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    searches = 0
    finder = pattern_module._finder

    def counted(segment: pattern_module._Segment) -> pattern_module.Find | None:
        find = finder(segment)

        def search(text: str, start: int, end: int) -> int:
            nonlocal searches
            searches += 1
            assert find is not None
            return find(text, start, end)

        return None if find is None else search

    monkeypatch.setattr(pattern_module, "_finder", counted)
    assert not matcher(pattern)("a" * 5000)
    assert searches <= pattern.count("%")


def test_the_length_of_what_is_tried_at_every_character_is_known() -> None:
    assert longest_wild_core("%" + "a_" * 30 + "b%") == 61
    assert longest_wild_core("%___abc___%") == 0, "without those at its ends it is a plain search"
    assert longest_wild_core("a_b%c_d") == 0, "the first and the last segment have their places"
    assert cost_per_character("abc%") == 0
    assert cost_per_character("%abc%") == 1
    assert cost_per_character("%" + "a" * 80 + "%") > cost_per_character("%abc%")
    assert cost_per_character("%a_b%") < cost_per_character("%" + "a_" * 30 + "b%")
    assert wildcards(r"%a\%_b%") == 3
