"""The indexes against the filters themselves, one by one: at every moment, for single events and for batches."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.matching.strategies import Table, events, filters, tables, tried
from tests.unit.matching.twin import Twin, drive, points

from stentor.matching import facet_groups
from stentor.matching.masks.box_grid import BoxGrid
from stentor.matching.masks.mask_index import MaskIndex
from stentor.matching.normal_form import normal_form
from stentor.matching.pairs.pair_index import PairIndex
from stentor.model.batch import Row, Rows
from stentor.model.filter import Filter

members = st.sampled_from([0, 1, 2, 63])
Change = tuple[bool, Filter | None, int, int]
changes = st.lists(
    st.tuples(st.booleans() | st.just(True), filters | st.none(), members, st.integers(0, 9)), max_size=14
)


def apply(twin: Twin, change: Change) -> bool:
    """Add the filter, or remove one that is there; sometimes one that is there comes again."""
    adds, where, member, choice = change
    numbers = list(twin.held)
    if adds or not numbers:
        if numbers and choice == 0:
            where, member = twin.held[numbers[0]]
        return twin.add(where, member)
    return twin.remove(numbers[choice % len(numbers)])


@tried(125)
@given(changes, st.lists(events, min_size=1, max_size=6))
def test_single_events_find_what_the_filters_find(several: list[Change], some: list[Row]) -> None:
    twin = Twin()
    for change in several:
        before = [twin.masks.match_one(event) for event in some]
        changed = apply(twin, change)
        for event in some:
            twin.check_one(event)
        assert changed or [twin.masks.match_one(event) for event in some] == before
    for number in list(twin.held):
        twin.remove(number)
    twin.prove_empty()


@tried(100)
@given(changes, tables(), tables(size=64))
def test_batches_find_what_the_filters_find(several: list[Change], few: Table, many: Table) -> None:
    """The large one is above what is looked at event by event, and its snapshot is stale after every change."""
    twin = Twin()
    for change in several:
        apply(twin, change)
        twin.check(few)
        twin.check(many)
    twin.check_pickled(many)
    for number in list(twin.held):
        twin.remove(number)
        twin.check(many)
    twin.prove_empty()


# ---- many filters of one kind


def grids(twin: Twin) -> int:
    return sum(
        isinstance(kept, BoxGrid)
        for each in twin.masks._groups
        for b in each.buckets.values()
        for kept in b.boxes.values()
    )


def ranges(names: str, count: int, width: float) -> list[Filter]:
    chance = random.Random(count)
    made = []
    for _ in range(count):
        parts = []
        for name in names:
            low = chance.randrange(0, 30) / 2
            parts.append(f"{name} >= {low} AND {name} < {low + chance.uniform(0.5, width):.1f}")
        made.append(Filter(" AND ".join(parts)))
    return made


def test_many_ranges_of_one_number() -> None:
    drive(Twin(), ranges("a", 300, 6), points("a"))


def test_many_ranges_of_few_members_lie_over_each_other() -> None:
    drive(Twin(), ranges("a", 300, 3), points("a"), most_members=1)


def test_ranges_that_touch_cover_what_lies_over_both() -> None:
    twin = Twin()
    twin.add(Filter("a >= 0 AND a < 5"))
    twin.add(Filter("a >= 5 AND a < 9"))
    assert twin.add(Filter("a >= 2 AND a < 7")) is False
    assert twin.remove(twin._next) is False
    for x in range(-1, 11):
        twin.check_one({"a": x})


def test_wide_boxes_become_a_grid() -> None:
    twin = Twin()
    for where in ranges("ab", 100, 12):
        twin.add(where)
    assert grids(twin) == 1
    drive(Twin(), ranges("ab", 200, 12), points("ab"))


def test_boxes_of_three_numbers_become_a_grid() -> None:
    twin = Twin()
    for where in ranges("abc", 100, 12):
        twin.add(where)
    assert grids(twin) == 1
    drive(Twin(), ranges("abc", 200, 12), points("abc"))


def test_boxes_without_an_end_become_a_grid() -> None:
    chance = random.Random(5)
    made = [
        Filter(f"a {chance.choice('<>')} {x / 2} AND b {chance.choice('<>')} {(40 - x) / 2}")
        for x in range(40)
        for _ in range(4)
    ]
    twin = Twin()
    for where in made:
        twin.add(where)
    assert grids(twin) == 1
    drive(Twin(), made, points("ab"))


def test_few_boxes_stay_boxes() -> None:
    made = ranges("ab", 150, 12)
    twin = Twin()
    for place, where in enumerate(made[:60]):
        twin.add(where, place % 30)
    assert grids(twin) == 0
    drive(Twin(), made, points("ab"), most_members=64)


def test_few_boxes_of_three_numbers_stay_boxes() -> None:
    twin = Twin()
    for where in ranges("abc", 10, 12):
        twin.add(where)
    assert grids(twin) == 0
    drive(Twin(), ranges("abc", 60, 12), points("abc"), most_members=64)


@pytest.mark.parametrize("crowd", [0, 40], ids=["boxes", "grid"])
def test_a_filter_written_in_two_ways_is_there_until_both_are_removed(crowd: int) -> None:
    twin = Twin()
    for x in range(crowd):
        twin.add(Filter(f"a > {x + 20} AND b < {x - 20}"))
    assert grids(twin) == (crowd > 0)
    several: list[Row] = [{"s": "x"}, {"a": 4}, {"a": 2, "b": 3}]
    pairs = [("s = 'x'", "s IN ('x', 'x')"), ("a > 3", "3 < a"), ("a > 1 AND b > 2", "b > 2 AND a > 1 AND a > 0")]
    for one, other in pairs:
        assert twin.add(Filter(one), 1) is True
        first = twin._next
        assert twin.add(Filter(other), 1) is False
        assert twin.remove(first) is False
        for event in several:
            twin.check_one(event)
        assert twin.remove(twin._next) is True
    for number in list(twin.held):
        twin.remove(number)
    twin.prove_empty()


def test_boxes_inside_of_others_show_when_those_go() -> None:
    twin = Twin()
    numbers = []
    for size in (1, 5, 3, 4, 2, 5):
        twin.add(Filter(f"a > {-size} AND a < {size} AND b > {-size} AND b < {size}"))
        numbers.append(twin._next)
    events: list[Row] = [{"a": x, "b": x} for x in range(-6, 7)]
    assert twin.add(Filter("a > -4 AND a < 4 AND b > -4 AND b < 3.5")) is False, "it is inside of another"
    for number in (numbers[1], numbers[5], numbers[3], numbers[0]):
        twin.remove(number)
        for event in events:
            twin.check_one(event)


def test_more_sets_of_attributes_than_there_may_be_facet_groups() -> None:
    names = [f"n{place}" for place in range(9)]
    chance = random.Random(3)
    made = []
    for _ in range(400):
        some = chance.sample(names, chance.randrange(1, 4))
        parts = [f"{name} = '{chance.choice('xy')}'" for name in some]
        if chance.random() < 0.4:
            parts.append(f"p < {chance.randrange(10)}")
        made.append(Filter(" AND ".join(parts)))
    twin = Twin()
    for where in made:
        twin.add(where)
    assert len(twin.masks._groups) in (facet_groups.MOST_CLUSTERS, facet_groups.MOST_CLUSTERS + 1)
    assert twin.masks._groups._reduced
    rows: list[Row] = [{name: chance.choice("xyz") for name in names if chance.random() < 0.8} for _ in range(80)]
    for row in rows:
        row["p"] = chance.randrange(10)
    drive(Twin(), made, Rows(rows))


def test_keys_and_ranges_together() -> None:
    chance = random.Random(4)
    made = []
    for where in ranges("a", 300, 8) + ranges("ab", 100, 9):
        symbols = ", ".join(f"'{symbol}'" for symbol in chance.sample("uvwxyz", chance.randrange(1, 4)))
        made.append(Filter(f"s IN ({symbols}) AND {where}"))
    rows = points("ab").rows()
    for row in rows:
        row["s"] = chance.choice("uvwxyzq")
    drive(Twin(), made, Rows(rows), most_members=8)


def test_a_batch_with_too_many_pairs_is_matched_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pairs.pair_index", "masks.mask_snapshot"):
        monkeypatch.setattr(f"stentor.matching.{module}._MOST_PAIRS", 100)
    drive(Twin(), ranges("ab", 60, 12), points("ab"), most_members=16)
    drive(Twin(), ranges("a", 60, 12), points("a"), most_members=16)


def test_prefixes_and_what_only_evaluation_tells() -> None:
    texts = ["", "x", "xy", "xyz", "yx", "abcdefghij", "abcdefghik", "abcdefgh"]
    made = [Filter(f"s LIKE '{text}{end}'") for text in texts for end in ("%", "", "%y", "_") if text + end]
    made += [Filter(f"LENGTH(s) > {length} AND n < {length}") for length in range(4)]
    made += [Filter(f"s LIKE 'x%' AND n < {bound} AND m > {bound}") for bound in range(4)]
    rows: list[Row] = [{"s": text, "n": number, "m": 2} for text in [*texts, "xyy"] for number in range(5)]
    rows += [{"s": text} for text in texts]
    rows += [{"n": 1}] * 20
    drive(Twin(), made, Rows(rows))


def test_one_filter_may_lie_in_one_place_twice() -> None:
    twin = Twin()
    twin.add(Filter("(a = 'x' AND LENGTH(b) > 1) OR (a = 'x' AND c LIKE '%z')"))
    twin.add(Filter("a > 1 XOR b > 1"))
    several: list[Row] = [{"a": "x", "b": "yy"}, {"a": "x", "b": "y", "c": "z"}, {"a": "x", "c": "z"}, {"a": 2, "b": 1}]
    for event in several:
        twin.check_one(event)
    for number in list(twin.held):
        twin.remove(number)
    twin.prove_empty()


def test_more_keys_than_are_filed() -> None:
    """Each of two long lists with each of the other would be too many entries."""
    first, second = (", ".join(f"'{letter}{number}'" for number in range(20)) for letter in "uv")
    made = [Filter(f"a IN ({first}) AND b IN ({second})"), Filter(f"a IN ({first}) AND b IN ({second}) AND c < 5")]
    rows: list[Row] = [{"a": f"u{x % 25}", "b": f"v{x % 21}", "c": x % 9} for x in range(80)]
    assert [conjunct.exact for where in made for conjunct in normal_form(where)] == [False, False]
    drive(Twin(), made, Rows(rows))


def test_more_alternatives_than_are_filed() -> None:
    parts = [f"(a = {number} AND b < {number})" for number in range(20)]
    made = [Filter(" OR ".join(parts[:count])) for count in (2, 3, 15, 16, 17, 20)]
    made += [Filter(f"({where}) AND ({where})") for where in made[:3]]
    made += [Filter(f"({made[1]}) AND (c = 1 OR (c = 2 AND b = 1)) AND (c < 5 OR (c > 7 AND b < 1))")]
    rows: list[Row] = [{"a": x % 20, "b": x % 7, "c": x % 3} for x in range(80)]
    drive(Twin(), [*made, *made], Rows(rows))


def test_a_stale_snapshot_is_made_anew_in_the_end() -> None:
    twin = Twin()
    batch = points("a")
    for where in ranges("a", 20, 8):
        twin.add(where)
    twin.check(batch)
    first = twin.masks._snapshot
    twin.add(Filter("a < 3"), 5)
    twin.check(batch)
    assert twin.masks._snapshot is first, "what it does not know is looked up event by event"
    twin.check(batch)
    assert twin.masks._snapshot is not first
    assert first is not None
    assert first.slow > 0


def test_a_snapshot_stays_as_it_was() -> None:
    twin = Twin()
    batch = points("ab")
    for where in [*ranges("ab", 30, 9), Filter("LENGTH(a) > 3"), Filter("a > 3")]:
        twin.add(where)
    snapshot = twin.masks.snapshot()
    before = snapshot.match(batch).tolist()
    twin.add(Filter("a > 2 OR LENGTH(b) > 1"), 7)
    for number in list(twin.held)[:30]:
        twin.remove(number)
    assert snapshot.match(batch).tolist() == before
    assert twin.masks.match(batch).tolist() != before


# ---- what callers do wrong


@pytest.mark.parametrize("member", [-1, 64])
def test_a_mask_has_sixty_four_members(member: int) -> None:
    index = MaskIndex()
    with pytest.raises(ValueError, match="64 members"):
        index.add(Filter("a = 1"), member)
    assert len(index) == 0


def test_a_filter_that_is_not_there_cannot_be_removed() -> None:
    index, pairs = MaskIndex(), PairIndex()
    index.add(Filter("a = 1"), 1)
    pairs.add(Filter("a = 1"), 1)
    with pytest.raises(KeyError):
        index.remove(Filter("a = 1"), 2)
    with pytest.raises(KeyError):
        index.remove(None, 1)
    with pytest.raises(KeyError):
        pairs.remove(2)
    with pytest.raises(ValueError, match="already"):
        pairs.add(Filter("a = 2"), 1)
    assert index.match_one({"a": 1}) == 2
    assert pairs.match_one({"a": 1}) == [1]


def test_what_never_matches_is_filed_nowhere() -> None:
    index = MaskIndex()
    for text in ("FALSE", "a > 1 AND a < 1", "a = 'x' AND a = 'y'", "1"):
        assert index.add(Filter(text), 0) is False
    assert len(index._groups) == 0
    assert len(index) == 4
