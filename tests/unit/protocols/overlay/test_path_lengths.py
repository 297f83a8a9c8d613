"""How long the paths of a unit are, and which link would shorten them most."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stentor.protocols.overlay.path_lengths import PathLengths

NAMES = "abcdefgh"
PAIRS = list(combinations(NAMES, 2))


def graph(*pairs: tuple[str, str] | str, names: str = NAMES) -> dict[str, set[str]]:
    links: dict[str, set[str]] = {name: set() for name in names}
    for pair in pairs:
        one, other = pair[0], pair[1]
        links[one].add(other)
        links[other].add(one)
    return links


@pytest.mark.req("GE-22")
def test_the_average_counts_the_links_between_any_two() -> None:
    assert PathLengths(graph("ab", "bc", names="abc")).average == (1 + 1 + 2) / 3
    assert PathLengths(graph("ab", "bc", "ca", names="abc")).average == 1
    assert PathLengths(graph(names="a")).average == 0
    assert PathLengths({}).average == 0


def test_the_ends_of_a_chain_are_the_best_shortcut() -> None:
    chain = graph("ab", "bc", "cd", "de", names="abcde")
    assert PathLengths(chain).shortcuts(8)[0] == ("a", "e")
    assert PathLengths(graph("ab", "bc", "ca", names="abc")).shortcuts(8) == []


def test_who_has_enough_links_gets_no_more() -> None:
    star = graph("ab", "ac", "ad", "ae", "ef", names="abcdef")
    assert all("a" not in pair for pair in PathLengths(star).shortcuts(4))
    assert PathLengths(star).shortcuts(1) == []


@given(st.permutations(NAMES), st.sets(st.sampled_from(PAIRS)))
def test_the_first_shortcut_shortens_as_much_as_any(chain: list[str], more: set[tuple[str, str]]) -> None:
    pairs = [*pairwise(chain), *more]
    paths = PathLengths(graph(*pairs))
    found = paths.shortcuts(8)
    averages = {pair: PathLengths(graph(*pairs, pair)).average for pair in found}
    if found:
        assert averages[found[0]] == min(averages.values())
        assert averages[found[0]] < paths.average
