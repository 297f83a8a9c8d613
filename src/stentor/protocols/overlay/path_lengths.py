"""Path lengths: how many links lie between the members of a scope, and which new link would shorten paths most."""

from collections.abc import Iterator, Mapping, Set

import numpy as np
from numpy.typing import NDArray

_MOST_TRIED = 64  # pairs whose link is tried, those farthest apart: all 2,016 of a full unit would take too long


class PathLengths:
    """The paths between the members of one scope that reach each other, by the links between them."""

    def __init__(self, links: Mapping[str, Set[str]]) -> None:
        """`links` has every member, with those to whom it is linked; a link is known at both its ends."""
        self._names = sorted(links)
        self._links = links
        self._lengths = _measure(self._names, links)

    @property
    def average(self) -> float:
        """The links on a path from one member to another, on average; 0 if there are no two."""
        return _average(self._lengths)

    def shortcuts(self, most_links: int) -> list[tuple[str, str]]:
        """Return pairs that are not linked, both with fewer links than this, the one that shortens paths most first."""
        gains = []
        for one, other in self._candidates(most_links):
            lengths = self._lengths
            by_new = np.minimum(
                lengths[:, one, None] + 1 + lengths[None, other, :], lengths[:, other, None] + 1 + lengths[None, one, :]
            )
            gains.append((int(np.minimum(lengths, by_new).sum()), self._names[one], self._names[other]))
        return [(one, other) for _, one, other in sorted(gains)]

    def _candidates(self, most_links: int) -> Iterator[tuple[int, int]]:
        open_ones = [place for place, name in enumerate(self._names) if len(self._links[name]) < most_links]
        pairs = [
            (-int(self._lengths[one, other]), one, other)
            for one in open_ones
            for other in open_ones
            if one < other and self._lengths[one, other] > 1
        ]
        return ((one, other) for _, one, other in sorted(pairs)[:_MOST_TRIED])


def _measure(names: list[str], links: Mapping[str, Set[str]]) -> NDArray[np.int64]:
    """Return the number of links between any two; those that do not reach each other count as next to each other."""
    place = {name: at for at, name in enumerate(names)}
    lengths = np.zeros((len(names), len(names)), np.int64)
    for start in names:
        reached, fresh, length = {start}, [start], 0
        while fresh:
            length += 1
            fresh = sorted({far for near in fresh for far in links[near] if far not in reached})
            reached.update(fresh)
            lengths[place[start], [place[far] for far in fresh]] = length
    return lengths


def _average(lengths: NDArray[np.int64]) -> float:
    pairs = len(lengths) * (len(lengths) - 1)
    return float(lengths.sum()) / pairs if pairs else 0.0
