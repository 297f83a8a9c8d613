"""Topics and patterns: what may be one, and which covers which."""

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.model.errors import TopicError
from stentor.model.topic import DEEPEST_TOPIC, LONGEST_TOPIC, check_pattern, check_topic, covers, matches

FINE = ["a", "flights/jfk", "a//b", "/", "a/", "$sys/status", "été/ö", "with space", "x" * LONGEST_TOPIC, "a\nb"]


@pytest.mark.parametrize("topic", FINE)
def test_a_good_topic_comes_back_as_it_is(topic: str) -> None:
    assert check_topic(topic) == topic
    assert check_pattern(topic) == topic


@pytest.mark.parametrize(
    ("topic", "complaint"),
    [
        ("", "must not be empty"),
        ("a/+/b", "holds a wildcard"),
        ("a/#", "holds a wildcard"),
        ("a+b", "holds a wildcard"),
        ("a\0b", "NUL"),
        ("a\ud800", "not valid Unicode"),
        ("x" * (LONGEST_TOPIC + 1), f"at most {LONGEST_TOPIC} bytes, this one has {LONGEST_TOPIC + 1}"),
        ("é" * (LONGEST_TOPIC // 2 + 1), f"this one has {LONGEST_TOPIC + 2}"),
        ("/" * DEEPEST_TOPIC, f"at most {DEEPEST_TOPIC} levels"),
    ],
)
def test_a_bad_topic_is_refused_with_what_is_wrong(topic: str, complaint: str) -> None:
    with pytest.raises(TopicError, match=re.escape(complaint)) as caught:
        check_topic(topic)
    assert len(str(caught.value)) < 200, "a message never repeats a long topic whole"


def test_the_limits_of_a_topic_are_inclusive() -> None:
    check_topic("é" * (LONGEST_TOPIC // 2))
    check_topic("/" * (DEEPEST_TOPIC - 1))


@pytest.mark.parametrize("pattern", ["#", "+", "+/+", "a/#", "a/+/#", "+/a", "a/+", "/#", "$sys/#", "a//+"])
def test_a_good_pattern_comes_back_as_it_is(pattern: str) -> None:
    assert check_pattern(pattern) == pattern


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("", "a pattern must not be empty"),
        ("#/a", "must be the last level"),
        ("a/#/b", "must be the last level"),
        ("#/#", "must be the last level"),
        ("a+", "mixes it with a name"),
        ("+a/b", "mixes it with a name"),
        ("a/b#", "mixes it with a name"),
        ("++", "mixes it with a name"),
        ("##", "mixes it with a name"),
        ("a\0", "pattern 'a\\x00' holds a NUL"),
        ("\udfff/#", "not valid Unicode"),
        ("x" * LONGEST_TOPIC + "/#", "a pattern has at most"),
        ("+/" * DEEPEST_TOPIC + "+", "levels"),
    ],
)
def test_a_bad_pattern_is_refused_with_what_is_wrong(pattern: str, complaint: str) -> None:
    with pytest.raises(TopicError, match=re.escape(complaint)):
        check_pattern(pattern)


@pytest.mark.req("GE-06")
@pytest.mark.parametrize(
    ("pattern", "covered", "not_covered"),
    [
        ("a/b", ["a/b"], ["a", "a/b/", "a/b/c", "A/b"]),
        ("a/+", ["a/b", "a/", "a/$x"], ["a", "a/b/c", "b/a"]),
        ("a/#", ["a", "a/", "a/b", "a/b/c"], ["b", "ab", "ab/c"]),
        ("#", ["a", "a/b", "/", "a/$x"], ["$sys", "$sys/a"]),
        ("+", ["a", ""], ["a/b", "$sys", "/"]),
        ("+/+", ["a/b", "/"], ["a", "$sys/a"]),
        ("+/#", ["a", "a/b", "/"], ["$sys", "$sys/a"]),
        ("$sys/#", ["$sys", "$sys/a"], ["a", "sys/a"]),
        ("$sys/+", ["$sys/a"], ["$sys"]),
        ("/#", ["", "/", "/a"], ["a", "a/"]),
    ],
)
def test_wildcards_cover_one_level_or_the_rest(pattern: str, covered: list[str], not_covered: list[str]) -> None:
    assert [topic for topic in covered if not matches(pattern, topic)] == []
    assert [topic for topic in not_covered if matches(pattern, topic)] == []


levels = st.sampled_from(["a", "b", "", "$s"])
topics = st.lists(levels, min_size=1, max_size=5).map("/".join)
patterns = st.builds(
    lambda front, rest: "/".join([*front, *rest]),
    st.lists(levels | st.just("+"), min_size=1, max_size=4),
    st.sampled_from([[], ["#"]]),
) | st.just("#")


@pytest.mark.req("GE-06")
@given(patterns, topics)
def test_matching_says_what_a_regular_expression_says(pattern: str, topic: str) -> None:
    text = re.escape(pattern).replace(r"\+", "[^/]*").replace(r"/\#", "(/.*)?").replace(r"\#", ".*")
    hidden = pattern[:1] in ("+", "#") and topic.startswith("$")
    assert matches(pattern, topic) is (re.fullmatch(text, topic) is not None and not hidden)


@pytest.mark.parametrize(
    ("pattern", "covered", "not_covered"),
    [
        ("a/b", ["a/b"], ["a", "a/+", "a/#", "a/b/#", "+/b", "#"]),
        ("a/+", ["a/b", "a/+", "a/"], ["a", "a/#", "a/+/#", "+/+", "a/b/c"]),
        ("a/#", ["a", "a/b", "a/+", "a/+/#", "a/b/#", "a/#"], ["#", "+/#", "+", "b/#"]),
        ("#", ["#", "+/#", "+", "a", "+/b", "a/$x"], ["$sys", "$sys/#", "$sys/+"]),
        ("+/#", ["#", "+/#", "+", "a/#"], ["$sys", "$sys/#"]),
        ("+", ["+", "a"], ["#", "+/#", "a/#", "$sys"]),
        ("a/+/#", ["a/+", "a/b", "a/b/#", "a/+/+"], ["a", "a/#"]),
        ("$sys/#", ["$sys", "$sys/+", "$sys/#", "$sys/a/b"], ["#", "+", "$other"]),
    ],
)
def test_a_pattern_covers_a_narrower_one(pattern: str, covered: list[str], not_covered: list[str]) -> None:
    assert [other for other in covered if not covers(pattern, other)] == []
    assert [other for other in not_covered if covers(pattern, other)] == []


# a name that is in no pattern stands for all others
TOPICS = ["/".join(each) for depth in range(1, 6) for each in product(["a", "b", "", "$s", "new"], repeat=depth)]
few_levels = st.lists(levels | st.just("+"), min_size=1, max_size=3)
short_patterns = st.builds("/".join, few_levels) | few_levels.map(lambda front: "/".join([*front, "#"])) | st.just("#")


@settings(deadline=None, max_examples=100)
@given(short_patterns, short_patterns)
def test_a_pattern_covers_another_if_it_covers_all_of_its_topics(pattern: str, other: str) -> None:
    assert covers(pattern, other) is all(matches(pattern, topic) for topic in TOPICS if matches(other, topic))
