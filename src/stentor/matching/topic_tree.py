"""Two trees over the levels of topic names: which patterns cover a topic, and which topics a pattern covers."""

from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

V = TypeVar("V")


class _Node(msgspec.Struct, Generic[V], eq=False, gc=False):
    """A level of names. Most have one value or branches, not both: a million of them must not take much, and Python's
    collector need not look at them, since nothing below a node refers to it.
    """

    number: int = 0
    value: V | None = None  # the first of those that are filed here, and its number; None if there is none
    more: "dict[int, V] | None" = None
    branches: "dict[str, _Node[V]] | None" = None

    def values(self) -> list[V]:
        first = [] if self.value is None else [self.value]
        return first if self.more is None else [*first, *self.more.values()]

    def branch(self, level: str) -> "_Node[V] | None":
        return None if self.branches is None else self.branches.get(level)

    @property
    def is_empty(self) -> bool:
        return self.value is None and not self.more and not self.branches

    def put(self, number: int, value: V) -> None:
        if self.value is None or self.number == number:
            self.number, self.value = number, value
        elif self.more is None:
            self.more = {number: value}
        else:
            self.more[number] = value

    def drop(self, number: int) -> None:
        if self.value is not None and self.number == number:
            self.value = None
            return
        if self.more is None:
            raise KeyError(number)
        del self.more[number]
        self.more = self.more or None


class _Tree(Generic[V]):
    """Values filed under a path of levels, each under a number of its own."""

    def __init__(self) -> None:
        self._root: _Node[V] = _Node()

    def add(self, name: str, number: int, value: V) -> None:
        node = self._root
        for level in name.split("/"):
            if node.branches is None:
                node.branches = {}
            below = node.branches.get(level)
            if below is None:
                below = node.branches[level] = _Node()
            node = below
        node.put(number, value)

    def holds(self, name: str, number: int, value: V) -> bool:
        """Return whether a value is filed under a name."""
        node = self._root
        for level in name.split("/"):
            below = node.branch(level)
            if below is None:
                return False
            node = below
        return (node.value is value and node.number == number) or (node.more or {}).get(number) is value

    def remove(self, name: str, number: int) -> None:
        """Forget a value and every branch that led only to it."""
        path = [(self._root, "")]
        for level in name.split("/"):
            below = path[-1][0].branch(level)
            if below is None:
                raise KeyError(name)
            path.append((below, level))
        path[-1][0].drop(number)
        for (parent, _), (node, level) in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
            if not node.is_empty:
                break
            assert parent.branches is not None, "it led here"
            del parent.branches[level]
            parent.branches = parent.branches or None


class PatternTree(_Tree[V]):
    """Patterns with `+` and `#`; finds the values of all that cover a topic, or all topics of another pattern."""

    def covering(self, name: str) -> list[V]:
        found: list[V] = []
        nodes = [self._root]
        hidden = name.startswith("$")  # wildcards at the front do not see system topics
        for depth, level in enumerate(name.split("/")):
            if level == "#":
                return found + self._rests(nodes, at_front=depth == 0)
            following = []
            for node in nodes:
                branches = node.branches
                if branches is None:
                    continue
                if level in branches and level != "+":
                    following.append(branches[level])
                if hidden and not depth:
                    continue
                if "+" in branches:
                    following.append(branches["+"])
                if "#" in branches:
                    found.extend(branches["#"].values())
            nodes = following
        for node in nodes:
            found.extend(node.values())
        return found + self._rests(nodes)  # `a/#` covers `a` too

    def _rests(self, nodes: list[_Node[V]], *, at_front: bool = False) -> list[V]:
        """The values under a `#` that follows; at the front `+/#` is the same as `#`."""
        anything = self._root.branch("+")
        if at_front and anything is not None:
            nodes = [*nodes, anything]
        rests = [rest for node in nodes if (rest := node.branch("#")) is not None]
        return [value for rest in rests for value in rest.values()]


class PatternMap(Generic[V]):
    """Patterns, most of which have no wildcards and need no tree."""

    def __init__(self) -> None:
        self._exact: dict[str, dict[int, V]] = {}
        self._tree: PatternTree[V] = PatternTree()

    def add(self, pattern: str, number: int, value: V) -> None:
        if is_wild(pattern):
            self._tree.add(pattern, number, value)
        else:
            self._exact.setdefault(pattern, {})[number] = value

    def remove(self, pattern: str, number: int) -> None:
        if is_wild(pattern):
            self._tree.remove(pattern, number)
            return
        siblings = self._exact[pattern]
        del siblings[number]
        if not siblings:
            del self._exact[pattern]

    def holds(self, pattern: str, number: int, value: V) -> bool:
        """Return whether a value is filed under a pattern."""
        if is_wild(pattern):
            return self._tree.holds(pattern, number, value)
        return self._exact.get(pattern, {}).get(number) is value

    def covering(self, name: str) -> list[V]:
        """The values of all patterns that cover a topic, or all topics of another pattern."""
        return [*self._exact.get(name, {}).values(), *self._tree.covering(name)]

    def has_exact(self, name: str) -> bool:
        """Return whether there is a value for this name itself."""
        return name in self._exact


def is_wild(pattern: str) -> bool:
    return "+" in pattern or "#" in pattern


class TopicTree(_Tree[V]):
    """Topics; finds the values of all that a pattern covers, one after the other: there may be a million."""

    def covered(self, pattern: str) -> Iterator[V]:
        return self._covered(self._root, pattern.split("/"), 0)

    def _covered(self, node: _Node[V], levels: list[str], depth: int) -> Iterator[V]:
        if depth == len(levels):
            yield from node.values()
        elif levels[depth] == "#":
            yield from self._below(node, hide_system=depth == 0)
        elif levels[depth] == "+":
            for name, branch in (node.branches or {}).items():
                if depth or not name.startswith("$"):
                    yield from self._covered(branch, levels, depth + 1)
        else:
            below = node.branch(levels[depth])
            if below is not None:
                yield from self._covered(below, levels, depth + 1)

    def _below(self, node: _Node[V], *, hide_system: bool) -> Iterator[V]:
        yield from node.values()
        path = [iter((node.branches or {}).items())]
        while path:
            for name, branch in path[-1]:
                if hide_system and len(path) == 1 and name.startswith("$"):
                    continue
                yield from branch.values()
                if branch.branches:
                    path.append(iter(branch.branches.items()))
                    break
            else:
                path.pop()
