"""Profile summaries: of all that the clients of a unit want, what the level above must be told, and no more.

A filter that another one covers is not told. The summary keeps it as a child of the one that covers it, and looks at it
again when that one goes; what it covers itself stays with it. So filters are a forest whose roots are told. The search
for a covering filter is bounded: a missed one makes a summary larger than it need be, and never wrong.
"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from stentor.matching.covers.cover_index import CoverIndex
from stentor.matching.covers.extent import FilterExtent
from stentor.matching.topic_tree import PatternMap, TopicTree, is_wild
from stentor.model.filter import Filter
from stentor.model.topic import covers

_PATIENCE = 64  # comparisons in vain before a search is given up
_MOST_SHELVES = 256  # patterns that are searched for what a filter covers

Told = tuple[str, str]  # a pattern and the text of a filter; "" is every event


class SummaryChange(NamedTuple):
    """How the profile that is told to the level above changes."""

    added: tuple[Told, ...]
    removed: tuple[Told, ...]


_NO_CHANGE = SummaryChange((), ())


class _SummarisedFilter:
    """A pattern and a filter that somebody has."""

    __slots__ = ("children", "count", "extent", "number", "parent", "told_as", "where")

    def __init__(self, number: int, told_as: Told, where: Filter | None) -> None:
        self.number = number  # in order of arrival
        self.told_as = told_as
        self.where = where
        self.count = 1
        self.extent: FilterExtent | None = None  # only while it is told: there may be many others
        self.parent: _SummarisedFilter | None = None
        self.children: dict[int, _SummarisedFilter] | None = None  # most have none

    def adopt(self, child: "_SummarisedFilter") -> None:
        child.parent = self
        if self.children is None:
            self.children = {}
        self.children[child.number] = child

    def disown(self, child: "_SummarisedFilter") -> None:
        assert self.children is not None, "it has that child"
        del self.children[child.number]
        if not self.children:
            self.children = None


class ProfileSummary:
    """Filters, each counted as often as somebody has it, and those among them that no other one covers."""

    def __init__(self) -> None:
        self._entries: dict[Told, _SummarisedFilter] = {}
        self._told: dict[Told, None] = {}
        self._indexes: dict[str, CoverIndex[_SummarisedFilter]] = {}  # told filters by pattern
        self._patterns: PatternMap[CoverIndex[_SummarisedFilter]] = PatternMap()  # to find the patterns that cover one
        self._names: TopicTree[CoverIndex[_SummarisedFilter]] = TopicTree()  # to find the patterns that one may cover
        self._impossible = _SummarisedFilter(0, ("", ""), None)  # parent of what no event can match
        self._last = 0
        self._predicates = 0

    def __iter__(self) -> Iterator[Told]:
        return iter(self._told)

    def __len__(self) -> int:
        return len(self._told)

    @property
    def predicates(self) -> int:
        """Return how many filters there are, equal ones counted one by one."""
        return self._predicates

    def add(self, pattern: str, where: Filter | None) -> SummaryChange:
        """Add a filter that somebody has; None is every event of the topics."""
        key = pattern, "" if where is None else str(where)
        self._predicates += 1
        entry = self._entries.get(key)
        if entry is not None:
            entry.count += 1
            return _NO_CHANGE
        self._last += 1
        entry = self._entries[key] = _SummarisedFilter(self._last, key, where)
        touched: dict[Told, bool] = {}
        self._place(entry, touched)
        return self._change(touched)

    def remove(self, pattern: str, where: Filter | None) -> SummaryChange:
        """Remove a filter that somebody had; raise KeyError if nobody had it."""
        key = pattern, "" if where is None else str(where)
        entry = self._entries[key]
        self._predicates -= 1
        entry.count -= 1
        if entry.count:
            return _NO_CHANGE
        del self._entries[key]
        children = entry.children or {}
        if entry.parent is not None:
            entry.parent.disown(entry)
            for child in children.values():
                entry.parent.adopt(child)  # a filter that covers another one covers its children
            return _NO_CHANGE
        touched: dict[Told, bool] = {}
        self._withdraw(entry, touched)
        for _, child in sorted(children.items()):  # of two that are equal, the first is told
            child.parent = None
            self._place(child, touched)
        return self._change(touched)

    def _place(self, entry: _SummarisedFilter, touched: dict[Told, bool]) -> None:
        """Find a parent for a filter that has none, or tell it."""
        pattern = entry.told_as[0]
        indexes = self._patterns.covering(pattern)
        parent = next((index.every for index in indexes if index.every is not None), None)
        extent = None
        if parent is None and entry.where is not None:
            extent = FilterExtent(entry.where)
            parent = _find_wider(indexes, extent) if extent.parts else self._impossible
        if parent is not None:
            parent.adopt(entry)
            return
        for each in self._find_narrower(pattern, extent):
            self._withdraw(each, touched)
            entry.adopt(each)
        entry.extent = extent
        self._tell(entry, touched)

    def _find_narrower(self, pattern: str, extent: FilterExtent | None) -> list[_SummarisedFilter]:
        """Return told filters that this one covers, in order of arrival."""
        found: dict[int, _SummarisedFilter] = {}
        vain = 0
        for index in self._indexes_under(pattern, None if extent is None else _MOST_SHELVES):
            for entry in index.narrower(extent):
                if entry.number in found:
                    continue
                if extent is None or (entry.extent is not None and extent.covers(entry.extent)):
                    found[entry.number] = entry
                    continue
                vain += extent.effort
                if vain >= _PATIENCE:
                    break
            if vain >= _PATIENCE:
                break
        return [entry for _, entry in sorted(found.items())]

    def _indexes_under(self, pattern: str, most: int | None) -> Iterator[CoverIndex[_SummarisedFilter]]:
        """The shelves of patterns that are covered, its own first."""
        own = self._indexes.get(pattern)
        if own is not None:
            yield own
        if is_wild(pattern):
            # a tree of topics takes a wildcard in a name for a name, so that it finds too many
            for index in islice(self._names.covered(pattern), most):
                if index is not own and covers(pattern, index.pattern):
                    yield index

    def _tell(self, entry: _SummarisedFilter, touched: dict[Told, bool]) -> None:
        touched.setdefault(entry.told_as, False)
        self._told[entry.told_as] = None
        pattern = entry.told_as[0]
        index = self._indexes.get(pattern)
        if index is None:
            index = self._indexes[pattern] = CoverIndex(pattern)
            self._patterns.add(pattern, 0, index)
            self._names.add(pattern, 0, index)
        index.add(entry.number, entry.extent, entry)

    def _withdraw(self, entry: _SummarisedFilter, touched: dict[Told, bool]) -> None:
        touched.setdefault(entry.told_as, True)
        del self._told[entry.told_as]
        pattern = entry.told_as[0]
        index = self._indexes[pattern]
        index.remove(entry.number)
        entry.extent = None
        if not index:
            del self._indexes[pattern]
            self._patterns.remove(pattern, 0)
            self._names.remove(pattern, 0)

    def _change(self, touched: dict[Told, bool]) -> SummaryChange:
        """What is told now and was not, and the other way round."""
        return SummaryChange(
            tuple([each for each, was_told in touched.items() if not was_told and each in self._told]),
            tuple([each for each, was_told in touched.items() if was_told and each not in self._told]),
        )


def _find_wider(indexes: list[CoverIndex[_SummarisedFilter]], extent: FilterExtent) -> _SummarisedFilter | None:
    """Return a told filter that covers this one."""
    vain = 0
    for index in indexes:
        for entry in index.possible_covers(extent):
            assert entry.extent is not None, "what is every event was asked before"
            if entry.extent.covers(extent):
                return entry
            vain += entry.extent.effort
            if vain >= _PATIENCE:
                return None
    return None
