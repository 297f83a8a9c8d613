"""Summaries: what is told above stands for all that is wanted, and for nothing else, whatever comes and goes."""

import os
import random
import subprocess
import sys
from collections import Counter
from itertools import product

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.unit.matching.strategies import events, filters, near_filters, tried

from stentor.matching.covering import covers
from stentor.matching.covers.extent import FilterExtent
from stentor.matching.profile_summary import ProfileSummary, SummaryChange
from stentor.model import topic
from stentor.model.batch import Row
from stentor.model.filter import Filter

PATTERNS = ["a", "a/b", "a/+", "a/#", "#", "+/#", "+", "+/b", "$sys/#", "$sys/x"]
TOPICS = ["a", "b", "a/b", "a/c", "a/b/c", "c/b", "$sys", "$sys/x"]
NOTHING = SummaryChange((), ())

Wish = tuple[str, Filter | None]


def told(made: ProfileSummary) -> list[tuple[str, str]]:
    return sorted(made)


def text(where: Filter | None) -> str:
    return "" if where is None else str(where)


def filled(*wishes: tuple[str, str]) -> ProfileSummary:
    """A summary of patterns and texts of filters."""
    made = ProfileSummary()
    for pattern, where in wishes:
        made.add(pattern, Filter(where) if where else None)
    return made


def test_equal_filters_are_counted_and_told_once() -> None:
    made = ProfileSummary()
    assert made.add("a", Filter("n > 1")) == SummaryChange((("a", "n > 1"),), ())
    assert made.add("a", Filter("n  >  1")) == NOTHING
    assert (len(made), made.predicates) == (1, 2)
    assert made.remove("a", Filter("n > 1")) == NOTHING
    assert made.remove("a", Filter("n > 1")) == SummaryChange((), (("a", "n > 1"),))
    assert (len(made), made.predicates) == (0, 0)


def test_a_covered_filter_is_not_told() -> None:
    made = filled(("a", "n > 1"))
    assert made.add("a", Filter("n > 2")) == NOTHING
    assert made.add("a", Filter("n = 7 AND s = 'x'")) == NOTHING
    assert made.add("a", Filter("n > 0 AND s = 'x'")) == SummaryChange((("a", "n > 0 AND s = 'x'"),), ())
    assert (len(made), made.predicates) == (2, 4)


def test_a_wider_filter_replaces_the_filters_it_covers() -> None:
    made = filled(("a", "n > 5"), ("a", "n > 7 AND s = 'x'"), ("a", "s = 'y'"))
    assert told(made) == [("a", "n > 5"), ("a", "s = 'y'")]
    assert made.add("a", Filter("n > 1")) == SummaryChange((("a", "n > 1"),), (("a", "n > 5"),))
    assert made.add("a", None) == SummaryChange((("a", ""),), (("a", "s = 'y'"), ("a", "n > 1")))
    assert told(made) == [("a", "")]


def test_a_filter_is_told_when_the_one_that_covered_it_goes() -> None:
    made = filled(("a", "n > 1"), ("a", "n > 2"), ("a", "n > 3"), ("a", "n > 4 AND s = 'x'"), ("a", "s = 'x'"))
    assert told(made) == [("a", "n > 1"), ("a", "s = 'x'")]
    assert made.remove("a", Filter("n > 1")) == SummaryChange((("a", "n > 2"),), (("a", "n > 1"),))
    assert made.remove("a", Filter("s = 'x'")) == SummaryChange((), (("a", "s = 'x'"),))
    assert made.remove("a", Filter("n > 2")) == SummaryChange((("a", "n > 3"),), (("a", "n > 2"),))
    assert made.remove("a", Filter("n > 3")) == SummaryChange((("a", "n > 4 AND s = 'x'"),), (("a", "n > 3"),))


def test_a_filter_that_is_covered_through_another_stays_covered_without_it() -> None:
    made = filled(("a", "n > 3"), ("a", "n > 2"), ("a", "n > 1"))
    assert made.remove("a", Filter("n > 2")) == NOTHING
    assert told(made) == [("a", "n > 1")]
    assert made.remove("a", Filter("n > 1")) == SummaryChange((("a", "n > 3"),), (("a", "n > 1"),))


def test_a_change_tells_only_the_end() -> None:
    made = filled(("a", ""), ("a", "n > 5"), ("a", "n > 3"), ("a", "n > 1"))
    assert made.remove("a", None) == SummaryChange((("a", "n > 1"),), (("a", ""),))


@pytest.mark.parametrize(
    ("first", "second"), [("n > 1", "1 < n"), ("n = 1 AND s = 'x'", "s = 'x' AND n = 1"), ("s IN ('x')", "s = 'x'")]
)
def test_of_two_that_are_equal_the_first_is_told(first: str, second: str) -> None:
    one, other = str(Filter(first)), str(Filter(second))
    for pair in ((one, other), (other, one)):
        made = filled(*(("a", each) for each in pair))
        assert told(made) == [("a", pair[0])]
        made.add("a", None)
        assert made.remove("a", None) == SummaryChange((("a", pair[0]),), (("a", ""),))
        assert made.remove("a", Filter(pair[0])) == SummaryChange((("a", pair[1]),), (("a", pair[0]),))


def test_patterns_that_are_equal_are_told_once() -> None:
    made = filled(("#", ""), ("+/#", ""))
    assert told(made) == [("#", "")]
    assert made.remove("#", None) == SummaryChange((("+/#", ""),), (("#", ""),))


def test_a_wider_pattern_covers_only_with_a_wider_filter() -> None:
    made = filled(("a/b", "n > 3"), ("a/c", "n > 1"), ("$sys/b", "n > 3"))
    wide = Filter("n > 2")
    assert made.add("#", wide) == SummaryChange((("#", "n > 2"),), (("a/b", "n > 3"),))
    assert made.add("a/+", Filter("n > 4")) == NOTHING
    assert made.add("a/+", None) == SummaryChange((("a/+", ""),), (("a/c", "n > 1"),))
    assert made.remove("a/+", None) == SummaryChange((("a/c", "n > 1"),), (("a/+", ""),))
    assert made.remove("#", wide).added == (("a/b", "n > 3"), ("a/+", "n > 4"))


def test_every_event_of_a_pattern_covers_every_event_of_a_topic() -> None:
    made = filled(("a/b", ""), ("a/c", "n > 1"), ("$sys", ""))
    assert made.add("#", None) == SummaryChange((("#", ""),), (("a/b", ""), ("a/c", "n > 1")))
    assert made.add("a/d", None) == NOTHING
    assert told(made) == [("#", ""), ("$sys", "")]


def test_a_filter_that_matches_nothing_is_not_told() -> None:
    made = ProfileSummary()
    never = Filter("n = 1 AND n = 2")
    assert made.add("a", never) == NOTHING
    assert (len(made), made.predicates) == (0, 1)
    assert made.add("a", None) == SummaryChange((("a", ""),), ())
    assert made.remove("a", never) == NOTHING
    assert made.predicates == 1


def test_a_filter_that_is_not_there_cannot_be_removed() -> None:
    made = filled(("a", "n > 1"), ("a", "n > 2"))
    for pattern, where in (("a", None), ("b", Filter("n > 1")), ("a", Filter("n > 3"))):
        with pytest.raises(KeyError):
            made.remove(pattern, where)
    assert (len(made), made.predicates) == (1, 2)
    made.remove("a", Filter("n > 2"))
    with pytest.raises(KeyError):
        made.remove("a", Filter("n > 2"))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("EXISTS s", "s = 'xy' AND n > 1"),
        ("s LIKE 'x%'", "s = 'xyz'"),
        ("s LIKE 'x%'", "s LIKE 'xy%' AND n = 1"),
        ("s IN ('x', 'y', 'z')", "s IN ('x', 'z') AND b"),
        ("s IN ('x', 'y') AND n > 1", "s = 'y' AND n = 3"),
        ("n > 1", "n > 3 AND n < 5 AND m > 2"),
        ("n >= 1 AND n < 9", "n = 5"),
        ("LENGTH(s) > 1", "LENGTH(s) > 1 AND n = 1"),
        ("s = 'x' OR s = 'y'", "s = 'y' AND n < 2"),
        ("(s = 'x' AND n > 5) OR (s = 'x' AND n < 2)", "s = 'x' AND n = 1"),
        ("(s = 'x' AND n > 5) OR (s = 'x' AND n < 2)", "s = 'x' AND n = 7"),
        ("TRUE", "n = 1"),
    ],
)
def test_coverings_of_many_kinds_are_found_from_both_sides(wide: str, narrow: str) -> None:
    one, other = str(Filter(wide)), str(Filter(narrow))
    assert told(filled(("a", wide), ("a", narrow))) == [("a", one)]
    assert told(filled(("a", narrow), ("a", wide))) == [("a", one)]
    made = filled(("a", narrow), ("a", wide), ("a", ""))
    made.remove("a", None)
    assert told(made) == [("a", one)]
    made.remove("a", Filter(wide))
    assert told(made) == [("a", other)]


@pytest.mark.parametrize("part", ["s = 'x' AND n > 1", "s = 'y' AND n < 1"])
def test_a_filter_that_is_covered_only_in_part_is_told(part: str) -> None:
    both = "(s = 'x' AND n > 1) OR (s = 'y' AND n < 1)"
    assert ("a", both) in filled(("a", part), ("a", both))
    assert ("a", both) in filled(("a", both), ("a", part))


def test_a_number_that_is_written_as_a_text_is_found_by_whom_it_is_covered() -> None:
    assert told(filled(("a", "n = 7"), ("a", "n = '7'"))) == [("a", "n = 7")]


def test_no_covering_filter_is_missed_among_many_intervals() -> None:
    chance = random.Random(3)
    wishes = []
    for _ in range(1500):
        symbol, low = chance.choice(["", "symbol = 'X' AND ", "symbol = 'Y' AND "]), chance.randrange(3000)
        wishes.append(Filter(f"{symbol}price > {low} AND price < {low + chance.randrange(2, 40)}"))
    made = ProfileSummary()
    for where in wishes:
        made.add("a", where)
    kept = [Filter(where) for _, where in made]
    boxes = {str(where): where for where in wishes}
    assert len(kept) < 0.8 * len(boxes)
    assert [one for one, other in product(kept[:200], kept) if one != other and covers(other, one)] == []


def test_a_filter_that_covers_many_replaces_all_of_them() -> None:
    made = filled(*[("a", f"symbol = 'S{number}' AND price > {number}") for number in range(500)])
    assert len(made.add("a", Filter("price > 100")).removed) == 400
    assert len(made.remove("a", Filter("price > 100")).added) == 400


def test_a_search_in_vain_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Counter[str]()
    compare = FilterExtent.covers

    def counted(wide: FilterExtent, narrow: FilterExtent) -> bool:
        asked["comparisons"] += 1
        return compare(wide, narrow)

    monkeypatch.setattr(FilterExtent, "covers", counted)
    made = filled(*[("a", f"s LIKE '%{number}%x'") for number in range(100)])
    assert len(made) == 100
    asked.clear()
    made.add("a", Filter("s LIKE '%other'"))
    assert asked["comparisons"] <= 2 * 8
    made = filled(*[("a", f"x > {number} AND y < {number} AND x < 999 AND y > 0") for number in range(1, 400)])
    asked.clear()
    made.add("a", Filter("x > 200 AND y < 200 AND z < 3 AND x < 999"))
    assert asked["comparisons"] <= 2 * 64


def test_nothing_is_left_behind() -> None:
    made, fresh = ProfileSummary(), ProfileSummary()
    chance = random.Random(4)
    parts = ["n > 1", "n < 9", "s = 'x'", "s LIKE 'x%'", "s IN ('x', 'y')", "EXISTS m", "LENGTH(s) > 1", "n = 1"]
    wishes: list[Wish] = [
        (chance.choice(PATTERNS), Filter(" AND ".join(chance.sample(parts, chance.randrange(1, 4)))))
        for _ in range(200)
    ]
    wishes += [(pattern, None) for pattern in PATTERNS]
    for wish in wishes:
        made.add(*wish)
    indexes = list(made._indexes.values())
    chance.shuffle(wishes)
    for wish in wishes:
        made.remove(*wish)
    for name in ("_entries", "_told", "_indexes"):
        assert getattr(made, name) == getattr(fresh, name) == {}
    assert made._impossible.children is None
    for tree in (made._names, made._patterns._tree):
        assert not tree._root.branches
    for index in indexes:
        assert not index
        assert [index._homes, index._haunts, index._filed, index._facets] == [{}] * 4


SCRIPT = """
import random
from stentor.matching.profile_summary import ProfileSummary
from stentor.model.filter import Filter
chance, made, wishes = random.Random(5), ProfileSummary(), []
for _ in range(300):
    if wishes and chance.random() < 0.4:
        print(made.remove(*wishes.pop(chance.randrange(len(wishes)))))
    else:
        some = ", ".join(repr(chance.choice("uvwxyz")) for _ in range(3))
        rest = chance.choice(["", " AND n > %d" % chance.randrange(9), " AND LENGTH(t) > 1"])
        wishes.append((chance.choice(["a", "b", "+", "a/#"]), Filter(f"s IN ({some}){rest}")))
        print(made.add(*wishes[-1]))
print(list(made))
"""


def test_the_order_of_things_does_not_depend_on_the_process() -> None:
    printed = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(printed) == 1


class Unit(RuleBasedStateMachine):
    """Clients come and go, and what was told is what they want."""

    def __init__(self) -> None:
        super().__init__()
        self.made = ProfileSummary()
        self.wishes: list[Wish] = []
        self.replayed: set[tuple[str, str]] = set()

    def heard(self, change: SummaryChange) -> None:
        assert not self.replayed & set(change.added)
        assert self.replayed >= set(change.removed)
        self.replayed = (self.replayed - set(change.removed)) | set(change.added)

    @rule(pattern=st.sampled_from(PATTERNS), where=st.none() | near_filters | near_filters | filters)
    def add(self, pattern: str, where: Filter | None) -> None:
        self.wishes.append((pattern, where))
        self.heard(self.made.add(pattern, where))

    @precondition(lambda self: self.wishes)
    @rule(chance=st.randoms(use_true_random=False), narrower=near_filters)
    def add_a_narrower_one(self, chance: random.Random, narrower: Filter) -> None:
        pattern, where = chance.choice(self.wishes)
        both = narrower if where is None else Filter.parse_cesql(f"({where}) AND ({narrower})")
        self.add(pattern, both)

    @precondition(lambda self: self.wishes)
    @rule(chance=st.randoms(use_true_random=False))
    def add_the_same(self, chance: random.Random) -> None:
        wish = chance.choice(self.wishes)
        self.wishes.append(wish)
        assert self.made.add(*wish) == NOTHING

    @precondition(lambda self: self.wishes)
    @rule(chance=st.randoms(use_true_random=False))
    def remove(self, chance: random.Random) -> None:
        self.heard(self.made.remove(*self.wishes.pop(chance.randrange(len(self.wishes)))))

    @rule(some=st.lists(events, min_size=1, max_size=8))
    def ask(self, some: list[Row]) -> None:
        kept: list[Wish] = [(pattern, Filter.parse_cesql(where) if where else None) for pattern, where in self.made]
        for name, event in product(TOPICS, some):
            assert wanted(kept, name, event) is wanted(self.wishes, name, event)

    @invariant()
    def what_was_heard_is_what_is_told(self) -> None:
        assert self.replayed == set(self.made)
        assert len(self.made) == len(self.replayed)
        assert self.made.predicates == len(self.wishes)
        assert self.replayed <= {(pattern, text(where)) for pattern, where in self.wishes}

    def teardown(self) -> None:
        for wish in self.wishes:
            self.heard(self.made.remove(*wish))
        assert (set(self.made), self.replayed, self.made.predicates) == (set(), set(), 0)


def wanted(wishes: list[Wish], name: str, event: Row) -> bool:
    return any(topic.matches(pattern, name) and (where is None or where.matches(event)) for pattern, where in wishes)


TestUnit = Unit.TestCase
TestUnit.settings = tried(60)
