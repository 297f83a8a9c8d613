"""Contestants: the ways to match that are measured, as plain calls: nothing stands between them and the clock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.matching.tree import Tree
from stentor import Filter
from stentor.matching.masks.mask_index import MaskIndex
from stentor.matching.normal_form import normal_form
from stentor.matching.pairs.pair_index import PairIndex
from stentor.model.batch import Batch, Row

EVERY = 10_000_000
ANY = "any"  # masks, for a contestant to whom they make no difference


class Snapshot(Protocol):
    """A copy of an index that can be sent elsewhere."""

    def match(self, batch: Batch, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class Contestant:
    """An empty index; `add` and `remove` take a filter and its member or, for lists, its number."""

    add: Callable[[Filter, int], object]
    remove: Callable[[Filter, int], object]
    one: Callable[[Row], Any]
    prepare: Callable[[Filter], object] = lambda _where: None  # what a broker does once for all of its indexes
    batch: Callable[[Batch], Any] | None = None
    snapshot: Callable[[], Snapshot] | None = None


class Naive:
    """A loop over compiled filters."""

    def __init__(self) -> None:
        self._filters: list[tuple[Filter, int]] = []

    def add(self, where: Filter, member: int) -> None:
        where.matches({})  # compiles it
        self._filters.append((where, 1 << member))

    def remove(self, where: Filter, member: int) -> None:
        self._filters.remove((where, 1 << member))

    def match_one(self, attributes: Row) -> int:
        found = 0
        for where, bit in self._filters:
            if where.matches(attributes):
                found |= bit
        return found


def _naive(_order: Sequence[str]) -> Contestant:
    made = Naive()
    return Contestant(made.add, made.remove, made.match_one)


def _tree(order: Sequence[str]) -> Contestant:
    made = Tree(order)
    return Contestant(made.add, made.remove, made.match_one)


def _masks(_order: Sequence[str]) -> Contestant:
    made = MaskIndex()
    return Contestant(made.add, made.remove, made.match_one, normal_form, made.match, made.snapshot)


def _lists(_order: Sequence[str]) -> Contestant:
    made = PairIndex()
    return Contestant(made.add, lambda _, number: made.remove(number), made.match_one, normal_form, made.match_pairs)


@dataclass(frozen=True, slots=True)
class Entry:
    """A contestant as the programme announces it."""

    name: str
    title: str
    make: Callable[[Sequence[str]], Contestant]  # takes the events' attributes in order
    peer: bool = True
    lists: bool = False  # answers with the numbers of filters, not with a mask of members
    by_masks: bool = True  # whether it matters who owns the filters
    batches: bool = False
    limits: dict[str, int] = field(default_factory=dict)  # filters of a workload up to which it is tried
    why: str = "hopeless"  # not beyond that

    def limit(self, workload: str) -> int:
        return self.limits.get(workload, EVERY)


ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            "naive",
            "naive loop",
            _naive,
            by_masks=False,
            limits=dict.fromkeys(("W1", "W2", "W2n", "W3"), 100_000),
        ),
        Entry("tree", "tree of the paper", _tree, limits=dict.fromkeys(("W2", "W2n", "W3"), 100_000)),
        Entry("masks", "stentor", _masks, peer=False, batches=True),
        Entry(
            "lists",
            "stentor, local lists",
            _lists,
            peer=False,
            lists=True,
            by_masks=False,
            batches=True,
            limits=dict.fromkeys(("W1", "W3"), 10_000),
            why="a hundredth of all filters match, so it would measure the length of lists",
        ),
    )
}
