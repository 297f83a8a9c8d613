"""Facet groups: conjuncts that ask for keys of the same facets, filed by those keys.

An event finds the conjuncts of a group in one look-up. Each group costs every event a look-up, so there are few:
conjuncts whose facets would make one too many are filed by fewer facets, or with everything, and evaluated.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stentor.matching.conjunct import Conjunct
from stentor.matching.facet import Codes, Facet, Key, View, keys_of
from stentor.model.attribute import Value
from stentor.model.batch import Batch

MOST_CLUSTERS = 32

B = TypeVar("B")
Facets = tuple[Facet, ...]
BucketKey = Key | tuple[Key, ...]  # of several facets a tuple, of a single one just its key
KeyCache = dict[Facet, tuple[list[Key | None], Codes] | None]


class Filing(NamedTuple):
    """Where a conjunct is filed."""

    facets: Facets
    keys: list[BucketKey]
    exact: bool  # whether being found there, and in its ranges, is enough


class FacetGroup(Generic[B]):
    """Buckets by the keys of some facets."""

    __slots__ = ("_first", "_is_text", "buckets", "facets")

    def __init__(self, facets: Facets) -> None:
        self.facets = facets
        self.buckets: dict[BucketKey, B] = {}
        self._first = facets[0].name if len(facets) == 1 else ""
        self._is_text = len(facets) == 1 and facets[0].view is View.TEXT

    def find(self, attributes: Mapping[str, Value]) -> B | None:
        """The bucket of an event."""
        if self._first:
            value = attributes.get(self._first)
            if self._is_text and type(value) is str:
                return self.buckets.get(value)
            key = None if value is None else self.facets[0].look(value)
            return None if key is None else self.buckets.get(key)
        keys = []
        for facet in self.facets:
            value = attributes.get(facet.name)
            key = value if type(value) is str and facet.view is View.TEXT else _key(facet, value)
            if key is None:
                return None
            keys.append(key)
        return self.buckets.get(tuple(keys))


def _key(facet: Facet, value: Value | None) -> Key | None:
    return None if value is None else facet.look(value)


def different_keys(
    facets: Facets, batch: Batch, cache: KeyCache
) -> tuple[list[BucketKey | None], NDArray[np.intp]] | None:
    """The different bucket keys in a batch, and which of them each event has; None if no event can have one."""
    if not facets:
        return [()], np.zeros(batch.count, np.intp)
    for facet in facets:
        if facet not in cache:
            cache[facet] = keys_of(batch, facet)
    seen = cache[facets[0]]
    if seen is None:
        return None
    keys, codes = seen
    if len(facets) == 1:
        return keys, codes  # type: ignore[return-value]
    combined: list[BucketKey | None] = [None if key is None else (key,) for key in keys]
    for facet in facets[1:]:
        seen = cache[facet]
        if seen is None:
            return None
        more, others = seen
        if len(more) == 1 and more[0] is not None:
            combined = [None if key is None else (*key, more[0]) for key in combined]  # type: ignore[misc]
            continue
        used, codes = np.unique(codes.astype(np.intp) * len(more) + others, return_inverse=True)
        combined = [_extended(combined[pair // len(more)], more[pair % len(more)]) for pair in used.tolist()]
    return combined, codes  # type: ignore[return-value]


def _extended(key: Any, more: Key | None) -> BucketKey | None:
    return None if key is None or more is None else (*key, more)


class FacetGroups(Generic[B]):
    """All facet groups of an index."""

    def __init__(self, bucket: Callable[[], B]) -> None:
        self._bucket = bucket
        self._groups: dict[Facets, FacetGroup[B]] = {}
        self._reduced: dict[Facets, tuple[Facets, int]] = {}  # facets that found no room: where they are, how many

    def __iter__(self) -> Iterator[FacetGroup[B]]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def enter(self, conjunct: Conjunct) -> Filing:
        """Where to file a conjunct that is new here; `open` makes the buckets."""
        wanted = filed_by(conjunct)
        facets, reduced = self._reduced.get(wanted, (wanted, 0))
        if facets not in self._groups:
            if len(self._groups) >= MOST_CLUSTERS:
                facets = self._best(wanted)
            if facets not in self._groups:
                self._groups[facets] = FacetGroup(facets)
        if facets != wanted:
            self._reduced[wanted] = facets, reduced + 1
        return _filing(conjunct, facets)

    def leave(self, conjunct: Conjunct) -> Filing:
        """Where a conjunct that goes has been filed."""
        wanted = filed_by(conjunct)
        if wanted not in self._reduced:
            return _filing(conjunct, wanted)
        facets, reduced = self._reduced.pop(wanted)
        if reduced > 1:
            self._reduced[wanted] = facets, reduced - 1
        return _filing(conjunct, facets)

    def open(self, facets: Facets, key: BucketKey) -> B:
        """The bucket of a key, made if there is none."""
        buckets = self._groups[facets].buckets
        bucket = buckets.get(key)
        if bucket is None:
            bucket = buckets[key] = self._bucket()
        return bucket

    def close(self, facets: Facets, key: BucketKey) -> None:
        """A bucket is empty."""
        buckets = self._groups[facets].buckets
        del buckets[key]
        if not buckets:
            del self._groups[facets]

    def _best(self, wanted: Facets) -> Facets:
        """The cluster with most of these facets and no other; the one without any always has room."""
        kept = [facets for facets in self._groups if set(facets) < set(wanted)]
        return max(kept, key=len, default=())


def filed_by(conjunct: Conjunct) -> Facets:
    """The facets to file by: what is evaluated anyway is not also filed by all that it needs to be there."""
    if conjunct.exact:
        return conjunct.facets
    telling = tuple(facet for facet in conjunct.facets if facet.view is not View.PRESENT)
    return telling or conjunct.facets[:1]


def _filing(conjunct: Conjunct, facets: Facets) -> Filing:
    exact = conjunct.exact and facets == conjunct.facets
    if len(facets) == 1:
        place = conjunct.facets.index(facets[0])
        return Filing(facets, list(conjunct.keys[place]), exact)
    lists = [keys for facet, keys in zip(conjunct.facets, conjunct.keys, strict=True) if facet in facets]
    return Filing(facets, list(product(*lists)), exact)
