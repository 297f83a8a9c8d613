"""The routing cache: always what a search from scratch would find, and no more work than the change calls for."""

import random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.protocols.overlay.shortest_paths import Cost, RoutingCache

VERTEX, DEPTH = "campus/library/b1", 3
UNITS = [
    VERTEX,
    "campus/library/b2",
    "campus/library/b3",
    "campus/library/b4",
    "campus/hall",
    "campus/lab",
    "campus/gate",
    "city",
    "port",
    "moon",
    "",
]


class Way(NamedTuple):
    """All that a cache says about a unit."""

    distance: Cost | None
    path: list[str]
    hop: str | None


NOWHERE = Way(None, [], None)
Edges = dict[tuple[str, str], tuple[int, int]]
Ways = dict[str, Way]


def searched(edges: Edges) -> Ways:
    """Bellman and Ford from scratch: rounds until no distance falls, then the parents, then the paths."""
    weights = {
        pair: [cost if at == DEPTH - 1 - level else 0 for at in range(DEPTH)] for pair, (level, cost) in edges.items()
    }
    distances: dict[str, Cost] = {VERTEX: (0,) * DEPTH}

    def by(near: str, far: str) -> Cost:
        return tuple(a + b for a, b in zip(distances[near], weights[near, far], strict=True))

    falling = True
    while falling:
        falling = False
        for near, far in edges:
            if near in distances and (far not in distances or by(near, far) < distances[far]):
                distances[far] = by(near, far)
                falling = True
    ways = {VERTEX: Way(distances[VERTEX], [], None)}
    for unit in sorted(distances.keys() - {VERTEX}, key=lambda each: distances[each]):
        equals = [near for near, far in edges if far == unit and near in distances and by(near, far) == distances[unit]]
        parent = min(equals, key=lambda each: (distances[each], each))
        path = [*ways[parent].path, unit]
        ways[unit] = Way(distances[unit], path, path[0])
    return ways


def told(cache: RoutingCache) -> Ways:
    """What the cache says, without the units that it cannot reach."""
    ways = {unit: Way(cache.distance(unit), cache.path(unit), cache.hop(unit)) for unit in UNITS}
    return {unit: way for unit, way in ways.items() if way != NOWHERE}


def apply(cache: RoutingCache, near: str, far: str, edge: tuple[int, int] | None) -> None:
    if edge is None:
        cache.remove_edge(near, far)
    else:
        cache.set_edge(near, far, *edge)


def built(edges: Edges) -> RoutingCache:
    cache = RoutingCache(VERTEX, DEPTH)
    for (near, far), edge in edges.items():
        apply(cache, near, far, edge)
    return cache


def line(*units: str) -> RoutingCache:
    """A cache of a single path from the vertex, which has been asked once."""
    cache = built(dict.fromkeys(zip((VERTEX, *units), units, strict=False), (0, 1)))
    cache.take_changes()
    cache.recomputed = 0
    return cache


def looked_at(cache: RoutingCache) -> int:
    """How many units the next question has to look at."""
    before = cache.recomputed
    cache.hop(VERTEX)
    return cache.recomputed - before


def turned(before: Ways, after: Ways) -> set[str]:
    """The units whose hop differs."""
    return {unit for unit in UNITS if before.get(unit, NOWHERE).hop != after.get(unit, NOWHERE).hop}


def due(edges: Edges, near: str, far: str, edge: tuple[int, int] | None) -> int:
    """How many units a change should look at: all behind a broken edge of the tree, or else just those it alters."""
    before, after = searched(edges), searched(altered(edges, near, far, edge))
    former = edges.get((near, far))
    taken = before.get(far, NOWHERE).path[-2:] in ([near, far], [far] if near == VERTEX else None)
    if former is not None and taken and (edge is None or edge > former):
        return sum(far in way.path for way in before.values())
    ways = [(before.get(unit, NOWHERE), after.get(unit, NOWHERE)) for unit in UNITS]
    return sum((a.distance, a.path[-2:], a.hop) != (b.distance, b.path[-2:], b.hop) for a, b in ways)


def altered(edges: Edges, near: str, far: str, edge: tuple[int, int] | None) -> Edges:
    rest = {pair: each for pair, each in edges.items() if pair != (near, far)}
    return rest if edge is None else {**rest, (near, far): edge}


def test_the_vertex_needs_no_hop_and_the_unknown_have_none() -> None:
    cache = RoutingCache(VERTEX, DEPTH)
    assert (cache.distance(VERTEX), cache.path(VERTEX), cache.hop(VERTEX)) == ((0, 0, 0), [], None)
    assert (cache.distance("city"), cache.path("city"), cache.hop("city")) == (None, [], None)
    assert cache.take_changes() == set()


def test_a_level_is_never_traded_for_a_lower_one() -> None:
    cache = RoutingCache(VERTEX, 2)
    cache.set_edge(VERTEX, "city", 1, 1)
    for near, far in ((VERTEX, "b2"), ("b2", "b3"), ("b3", "city")):
        cache.set_edge(near, far, 0, 1000)
    assert cache.path("city") == ["b2", "b3", "city"]
    assert cache.distance("city") == (0, 3000)
    cache.remove_edge("b3", "city")
    assert (cache.hop("city"), cache.distance("city")) == ("city", (1, 0))


def test_of_equals_the_nearest_parent_is_taken_and_then_the_first_by_name() -> None:
    cache = built({(VERTEX, "b"): (0, 1), (VERTEX, "a"): (0, 2), ("a", "x"): (0, 1), ("b", "x"): (0, 2)})
    assert cache.path("x") == ["b", "x"]
    cache.set_edge(VERTEX, "c", 0, 1)
    cache.set_edge("c", "x", 0, 2)
    assert cache.path("x") == ["b", "x"]
    cache.set_edge(VERTEX, "a", 0, 1)
    cache.set_edge("a", "x", 0, 2)
    assert cache.path("x") == ["a", "x"]


def test_an_edge_is_replaced_with_its_level_and_edges_are_told_sorted() -> None:
    cache = RoutingCache(VERTEX, DEPTH)
    cache.set_edge(VERTEX, "city", 0, 5)
    cache.set_edge(VERTEX, "city", 2, 1)
    cache.set_edge("city", "port", 1, 4)
    cache.set_edge("city", "moon", 1, 9)
    assert cache.distance("moon") == (1, 9, 0)
    assert list(cache.edges()) == [(VERTEX, "city", 2, 1), ("city", "moon", 1, 9), ("city", "port", 1, 4)]
    cache.remove_edge("city", "nobody")
    cache.remove_edge("nobody", "city")
    cache.remove_edge(VERTEX, "city")
    assert list(cache.edges()) == [("city", "moon", 1, 9), ("city", "port", 1, 4)]


@pytest.mark.parametrize(("level", "cost"), [(0, 0), (0, -1), (-1, 1), (DEPTH, 1)])
def test_an_edge_that_cannot_be_is_our_own_fault(level: int, cost: int) -> None:
    with pytest.raises(AssertionError):
        RoutingCache(VERTEX, DEPTH).set_edge(VERTEX, "city", level, cost)


def test_what_is_cut_off_is_unreachable_until_it_comes_back() -> None:
    cache = line("a", "b", "c")
    cache.set_edge("c", "b", 0, 1)  # a circle does not hold itself up
    cache.remove_edge("a", "b")
    assert [cache.hop(unit) for unit in "abc"] == ["a", None, None]
    assert cache.path("c") == []
    assert cache.take_changes() == {"b", "c"}
    cache.set_edge("a", "c", 0, 1)
    assert cache.path("b") == ["a", "c", "b"]
    assert cache.take_changes() == {"b", "c"}


def test_what_does_not_matter_costs_nothing() -> None:
    cache = line("a", "b", "c")
    assert looked_at(cache) == 0, "nothing changed"
    cache.set_edge(VERTEX, "c", 1, 1)
    assert looked_at(cache) == 0, "an edge that improves nothing"
    cache.set_edge(VERTEX, "c", 2, 1)
    assert looked_at(cache) == 0, "a dearer edge that is not of the tree"
    cache.remove_edge(VERTEX, "c")
    assert looked_at(cache) == 0, "a removed edge that is not of the tree"
    cache.set_edge("a", "b", 0, 1)
    assert looked_at(cache) == 0, "the same edge again"
    cache.remove_edge("a", "b")
    cache.set_edge("a", "b", 0, 1)
    assert looked_at(cache) == 0, "gone and back before anyone asked"
    for near in ("c", VERTEX):
        cache.set_edge(near, VERTEX, 0, 1)
        cache.remove_edge(near, VERTEX)
    assert looked_at(cache) == 0, "a way back to the vertex"
    cache.set_edge("nobody", "c", 0, 1)
    assert looked_at(cache) == 0, "an edge from where no path leads"
    assert cache.take_changes() == set()


def test_a_change_costs_what_is_behind_it_or_what_it_improves() -> None:
    cache = line("a", "b", "c", "d", "e")
    cache.set_edge("d", "e", 0, 2)
    assert looked_at(cache) == 1, "a leaf's edge is dearer"
    cache.remove_edge("d", "e")
    assert looked_at(cache) == 1, "a leaf's edge is gone"
    cache.set_edge("d", "e", 0, 1)
    assert looked_at(cache) == 1, "a leaf is back"
    cache.set_edge("b", "d", 0, 1)
    assert looked_at(cache) == 2, "d and e are nearer"
    cache.remove_edge("b", "c")
    assert looked_at(cache) == 1, "nothing is behind c any more"
    cache.remove_edge(VERTEX, "a")
    assert looked_at(cache) == 4, "all that was left"


def test_changes_are_told_once_and_only_if_a_hop_is_another() -> None:
    cache = built({(VERTEX, "a"): (0, 1), ("a", "b"): (0, 1), ("b", "c"): (0, 1)})
    assert cache.take_changes() == {"a", "b", "c"}
    assert cache.take_changes() == set()
    cache.set_edge("a", "b", 0, 3)
    assert cache.take_changes() == set(), "farther, but by the same hop"
    cache.set_edge(VERTEX, "x", 0, 1)
    cache.set_edge("x", "b", 0, 1)
    assert cache.take_changes() == {"x", "b", "c"}
    cache.remove_edge("x", "b")
    assert cache.hop("c") == "a"
    cache.set_edge("x", "b", 0, 1)
    assert cache.take_changes() == set(), "another for a while, and now as before"


def test_a_tie_that_turns_one_unit_turns_all_behind_it() -> None:
    cache = built({(VERTEX, "b"): (0, 1), ("b", "x"): (0, 1), ("x", "y"): (0, 1), ("y", "z"): (1, 1)})
    cache.set_edge(VERTEX, "a", 0, 1)
    cache.take_changes()
    cache.set_edge("a", "x", 0, 1)
    assert looked_at(cache) == 3
    assert [cache.hop(unit) for unit in "xyz"] == ["a", "a", "a"]
    assert cache.take_changes() == {"x", "y", "z"}


def test_nothing_is_left_of_edges_that_came_and_went() -> None:
    cache = line("a", "b", "c")
    for near, far, _, _ in list(cache.edges()):
        cache.remove_edge(near, far)
    assert cache.take_changes() == {"a", "b", "c"}
    assert list(cache._labels) == [VERTEX]
    assert not any((cache._edges, cache._predecessors, cache._hops, cache._dirty, cache._formerly))


@pytest.mark.parametrize("seed", range(8))
def test_after_every_change_the_cache_is_right_and_did_no_more_than_was_due(seed: int) -> None:
    rng = random.Random(seed)
    cache, edges = RoutingCache(VERTEX, DEPTH), Edges()
    highest = seed % DEPTH  # with one level only, ties are densest
    ways = searched(edges)
    for _ in range(500):
        near, far = rng.choice(UNITS), rng.choice(UNITS)
        edge = (rng.randint(0, highest), rng.randint(1, 3)) if rng.random() < 0.6 else None
        if edge is None and edges:
            near, far = rng.choice(list(edges))
        work = due(edges, near, far, edge)
        apply(cache, near, far, edge)
        edges = altered(edges, near, far, edge)
        before, ways = ways, searched(edges)
        assert looked_at(cache) == work
        assert told(cache) == ways
        assert cache.take_changes() == turned(before, ways)
        assert list(cache.edges()) == sorted((*pair, *each) for pair, each in edges.items())


units = st.sampled_from(UNITS)
changes = st.tuples(units, units, st.none() | st.tuples(st.integers(0, DEPTH - 1), st.integers(1, 3)))


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.lists(changes, max_size=25), st.booleans()), max_size=8))
def test_many_changes_at_once_are_repaired_as_one(
    rounds: list[tuple[list[tuple[str, str, tuple[int, int] | None]], bool]],
) -> None:
    cache, edges = RoutingCache(VERTEX, DEPTH), Edges()
    taken = searched(edges)
    for bulk, take in rounds:
        for near, far, edge in bulk:
            apply(cache, near, far, edge)
            edges = altered(edges, near, far, edge)
        assert looked_at(cache) < len(UNITS), "each at most once"
        ways = searched(edges)
        assert told(cache) == ways
        if take:
            assert cache.take_changes() == turned(taken, ways)
            taken = ways


@settings(deadline=None, max_examples=100)
@given(st.lists(changes, max_size=60), st.randoms(use_true_random=False))
def test_the_order_of_changes_leaves_no_trace(
    steps: list[tuple[str, str, tuple[int, int] | None]], rng: random.Random
) -> None:
    lived, edges = RoutingCache(VERTEX, DEPTH), Edges()
    for near, far, edge in steps:
        apply(lived, near, far, edge)
        lived.hop(far)
        edges = altered(edges, near, far, edge)
    shuffled = RoutingCache(VERTEX, DEPTH)
    for near, far in rng.sample(list(edges), len(edges)):
        shuffled.set_edge(near, far, *edges[near, far])
        shuffled.hop(far)
    assert told(lived) == told(shuffled) == told(built(edges))
