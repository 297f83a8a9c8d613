"""The shape of a network: units, shapes of links, parts, numbers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.config.topology import ROOT, Connect, Pair, Tree, number
from stentor.model.scope import LARGEST_UNIT, ScopePath


def paths(*names: str) -> list[ScopePath]:
    return [ScopePath.parse(name) for name in names]


def written(pairs: list[Pair]) -> list[str]:
    return [f"{one} {other}" for one, other in pairs]


CAMPUS = Tree(paths("n/l/b1", "n/h/b1", "n/l/b2", "s/l/b1", "n/p/b9"))


def test_units_are_where_brokers_are() -> None:
    assert [str(unit) for unit in CAMPUS.members] == ["", "n", "n/l", "n/h", "s", "s/l", "n/p"]
    assert CAMPUS.members[ROOT] == paths("n", "s")
    assert CAMPUS.members[ScopePath(("n",))] == paths("n/l", "n/h", "n/p")
    assert CAMPUS.members[ScopePath(("n", "l"))] == paths("n/l/b1", "n/l/b2")
    assert str(CAMPUS.first[ScopePath(("n", "p"))]) == "n/p/b9"
    assert Tree([]).members == {ROOT: []}


@pytest.mark.parametrize(
    ("unit", "shape", "links"),
    [
        ("n/l", "mesh", ["n/l/b1 n/l/b2"]),
        ("n/l", "ring", ["n/l/b1 n/l/b2"]),
        ("n/l", "chain", ["n/l/b1 n/l/b2"]),
        ("n/h", "mesh", []),
        ("n/h", "ring", []),
        ("n", "chain", ["n/l/b1 n/h/b1", "n/h/b1 n/p/b9"]),
        ("n", "ring", ["n/l/b1 n/h/b1", "n/h/b1 n/p/b9", "n/l/b1 n/p/b9"]),
        ("n", "mesh", ["n/l/b1 n/h/b1", "n/l/b1 n/p/b9", "n/h/b1 n/p/b9"]),
    ],
)
def test_members_are_linked_by_the_shape_of_their_unit(unit: str, shape: Connect, links: list[str]) -> None:
    assert written(CAMPUS.pairs(ScopePath.parse(unit), shape)) == links


def test_a_way_around_through_another_unit_does_not_join() -> None:
    b1, hall, b2, south, p9 = CAMPUS.brokers
    parts = CAMPUS.parts([(b1, south), (south, b2), (hall, p9)])
    assert parts[ScopePath(("n", "l"))] == [[b1], [b2]]
    assert parts[ScopePath(("n",))] == [paths("n/l"), paths("n/h", "n/p")]
    assert parts[ROOT] == [paths("n", "s")]
    assert all(len(found) == 1 for found in CAMPUS.parts([(b1, south), (b1, b2), (hall, p9), (p9, b2)]).values())


NAMES = st.tuples(*[st.sampled_from("abcd")] * 3).map(ScopePath)


@settings(deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=20, unique=True), st.sampled_from(["mesh", "ring", "chain"]))
def test_any_shape_joins_every_unit(names: list[ScopePath], shape: Connect) -> None:
    tree = Tree(names)
    links = [pair for unit in tree.members for pair in tree.pairs(unit, shape)]
    assert all(len(parts) == 1 for parts in tree.parts(links).values())
    assert all(tree.brokers[one] < tree.brokers[other] for one, other in links)


def test_numbers_are_places_but_for_those_that_are_claimed() -> None:
    a, b, c, d = paths("a", "b", "c", "d")
    assert number([a, b, c], {}) == {a: 0, b: 1, c: 2}
    assert number([a, b, c], {a: 5}) == {a: 5, b: 1, c: 2}
    assert number([a, b, c, d], {b: 0}) == {a: 1, b: 0, c: 2, d: 3}
    assert number([a, b, c, d], {d: 1}) == {a: 0, b: 2, c: 3, d: 1}


@settings(deadline=None)
@given(st.dictionaries(st.integers(0, 63), st.integers(0, 63), max_size=64), st.integers(0, 64))
def test_all_members_have_a_number_of_their_own(wanted: dict[int, int], count: int) -> None:
    members = [ScopePath((f"b{place}",)) for place in range(count)]
    claims = {members[place]: claim for claim, place in wanted.items() if place < count}
    found = number(members, claims)
    assert len(set(found.values())) == len(found) == count
    assert all(0 <= each < LARGEST_UNIT for each in found.values())
    assert claims.items() <= found.items()
