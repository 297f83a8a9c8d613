"""The matching tree of Gryphon, as section 3.2.1 of the Grid Event Service paper describes it.

Attributes stand in the fixed order of the events' signature. A node looks at one of them: an edge for each value that a
filter asks for, and one for "don't care", which every event may take. A filter ends where its last value is asked for.
Ranges cannot be edges, since no value is their own: they are tests at the leaf where their filter ends, made one after
the other. The paper counts filters per unit on every edge; counts on nodes, and per member at the leaf, prune as well.
"""

from collections.abc import Iterable, Mapping
from math import inf

from stentor import Filter
from stentor.model.attribute import Value
from stentor.model.filter.syntax import Attribute, Comparison, Expression, Literal, Logic, Logical, Relation

Test = tuple[str, float, float]  # an attribute lies between these, both included
Tests = tuple[Test, ...]


class Node:
    """What is asked of one attribute, and the filters that ask no more of those after it."""

    __slots__ = ("any", "count", "edges", "masks", "repeats")

    def __init__(self) -> None:
        self.edges: dict[Value | None, Node] = {}
        self.any: Node | None = None
        self.count = 0  # filters that end here or below
        self.masks: dict[Tests, int] = {}
        self.repeats: dict[tuple[Tests, int], int] = {}  # how often, of what a member asks for more than once


class Tree:
    """Filters that are conjunctions of texts to be equal and numbers to be within bounds; others are refused."""

    def __init__(self, order: Iterable[str]) -> None:
        self._order = tuple(order)
        self._depth = 0  # attributes by which any filter has been told apart
        self._root = Node()

    def add(self, where: Filter, member: int) -> None:
        path, tests = self._read(where)
        self._depth = max(self._depth, len(path))
        node = self._root
        node.count += 1
        for value in path:
            node = self._child(node, value)
            node.count += 1
        mask = node.masks.get(tests, 0)
        if mask >> member & 1:
            node.repeats[tests, member] = node.repeats.get((tests, member), 1) + 1
        node.masks[tests] = mask | 1 << member

    def remove(self, where: Filter, member: int) -> None:
        """Take back one that was added."""
        path, tests = self._read(where)
        node = self._root
        node.count -= 1
        for value in path:
            parent, node = node, self._child(node, value)
            node.count -= 1
            if not node.count:
                self._cut(parent, value)
        times = node.repeats.pop((tests, member), 1) - 1
        if times > 1:
            node.repeats[tests, member] = times
        if not times:
            node.masks[tests] &= ~(1 << member)
            if not node.masks[tests]:
                del node.masks[tests]

    def match_one(self, attributes: Mapping[str, Value]) -> int:
        """A bit for each member of whose filters one matches."""
        nodes = [self._root]
        found = _leaf(self._root, attributes, 0) if self._root.masks else 0
        for name in self._order[: self._depth]:
            value = attributes.get(name)
            below = []
            for node in nodes:
                child = node.edges.get(value)
                if child is not None:
                    below.append(child)
                if node.any is not None:
                    below.append(node.any)
            for node in below:
                if node.masks:
                    found = _leaf(node, attributes, found)
            nodes = below
        return found

    def _read(self, where: Filter) -> tuple[list[str | None], Tests]:
        """The values that a filter asks for, None for any, and its tests."""
        values: dict[str, str] = {}
        bounds: dict[str, tuple[float, float]] = {}
        for part in _parts(where.syntax):
            match part:
                case Comparison(Relation.EQUAL, Attribute(name), Literal(_, str() as text)) if name not in values:
                    values[name] = text
                case Comparison(Relation.GREATER_OR_EQUAL, Attribute(name), Literal(_, int() | float() as number)):
                    low, high = bounds.get(name, (-inf, inf))
                    bounds[name] = max(low, number), high
                case Comparison(Relation.LESS_OR_EQUAL, Attribute(name), Literal(_, int() | float() as number)):
                    low, high = bounds.get(name, (-inf, inf))
                    bounds[name] = low, min(high, number)
                case _:
                    raise ValueError(f"not a filter for a tree: {where}")
        path = [values.get(name) for name in self._order]
        while path and path[-1] is None:
            path.pop()
        if sum(value is not None for value in path) < len(values):
            raise ValueError(f"asks for more than {', '.join(self._order)}: {where}")
        return path, tuple((name, *bounds[name]) for name in sorted(bounds))

    def _child(self, node: Node, value: str | None) -> Node:
        child = node.any if value is None else node.edges.get(value)
        if child is None:
            child = Node()
            if value is None:
                node.any = child
            else:
                node.edges[value] = child
        return child

    def _cut(self, node: Node, value: str | None) -> None:
        if value is None:
            node.any = None
        else:
            del node.edges[value]


def _parts(node: Expression) -> tuple[Expression, ...]:
    return node.operands if isinstance(node, Logical) and node.logic is Logic.AND else (node,)


def _leaf(node: Node, attributes: Mapping[str, Value], found: int) -> int:
    """What was found, and the members of whose filters here one passes."""
    for tests, mask in node.masks.items():
        if mask & ~found:  # kinder than the paper: a filter whose members are all found already is not tested
            for name, low, high in tests:
                value = attributes.get(name)
                if value is None or not low <= value <= high:  # type: ignore[operator]
                    break
            else:
                found |= mask
    return found
