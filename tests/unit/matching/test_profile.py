"""Profiles: members, patterns and filters together, beside a loop over all of them."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.matching import profile
from stentor.matching.profile import Profile
from stentor.model.batch import Row, Rows
from stentor.model.filter import Filter
from stentor.model.topic import matches

PATTERNS = ["a", "a/b", "a/+", "a/#", "#", "+", "+/b", "$sys/#", "$sys/x"]
TOPICS = ["a", "b", "a/b", "a/c", "a/b/c", "$sys", "$sys/x"]
FILTERS: list[Filter | None] = [None, *map(Filter, ("n > 1", "n = 2", "n < 3 AND t = 'x'", "LENGTH(t) = 1"))]

entries = st.tuples(st.sampled_from(PATTERNS), st.sampled_from(FILTERS), st.integers(0, 63))


@pytest.mark.req("GE-07")
@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.booleans(), entries), max_size=40))
def test_a_profile_answers_like_a_loop(steps: list[tuple[bool, tuple[str, Filter | None, int]]]) -> None:
    made, there = Profile(), Counter[tuple[str, Filter | None, int]]()
    rows: list[Row] = [{"n": 2, "t": "x"}, {"n": 4, "t": "xy"}]

    def naive(topic: str, row: Row) -> int:
        found = 0
        for pattern, where, member in +there:
            if matches(pattern, topic) and (where is None or where.matches(row)):
                found |= 1 << member
        return found

    for is_new, entry in steps:
        before = {topic: [naive(topic, row) for row in rows] for topic in TOPICS}
        if is_new:
            changed = made.add(*entry)
            there[entry] += 1
        elif there[entry]:
            changed = made.remove(*entry)
            there[entry] -= 1
        else:
            continue
        after = {topic: [naive(topic, row) for row in rows] for topic in TOPICS}
        assert changed or before == after
        for topic in TOPICS:
            assert [made.match_one(topic, row) for row in rows] == after[topic]
            assert made.match(topic, Rows(rows)).tolist() == after[topic]
        assert len(made) == there.total()


def test_a_new_pattern_forgets_only_the_topics_that_it_covers() -> None:
    made = Profile()
    made.add("#", None, 0)
    for topic in ("a/x", "b/x"):
        made.match_one(topic, {})
    made.add("a/+", None, 1)
    assert set(made._seen) == {"b/x"}
    assert made.match_one("a/x", {}) == 3
    made.add("a/+", Filter("n = 1"), 2)
    assert set(made._seen) == {"a/x", "b/x"}


def test_what_is_not_there_cannot_be_removed_and_who_does_not_exist_cannot_be_added() -> None:
    made = Profile()
    with pytest.raises(ValueError, match="64 members"):
        made.add("a", None, 64)
    assert len(made) == 0
    made.add("a", None, 1)
    with pytest.raises(KeyError):
        made.remove("a", Filter("n = 1"), 1)
    with pytest.raises(KeyError):
        made.remove("b", None, 1)
    assert made.remove("a", None, 1)
    assert made.match_one("a", {}) == 0


def test_topics_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "_MOST_TOPICS", 3)
    made = Profile()
    made.add("+", None, 0)
    assert [made.match_one(topic, {}) for topic in "abcdefg"] == [1] * 7
    assert len(made._seen) <= 3
