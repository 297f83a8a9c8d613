"""Two trees over the levels of topic names: which patterns cover a topic, and which topics a pattern covers."""

from collections.abc import Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class _Node(Generic[V]):
    __slots__ = ("branches", "values")

    def __init__(self) -> None:
        self.branches: dict[str, _Node[V]] = {}
        self.values: dict[int, V] = {}


class _Tree(Generic[V]):
    """Values filed under a path of levels, each under a number of its own."""

    def __init__(self) -> None:
        self._root: _Node[V] = _Node()

    def add(self, name: str, number: int, value: V) -> None:
        node = self._root
        for level in name.split("/"):
            node = node.branches.setdefault(level, _Node())
        node.values[number] = value

    def remove(self, name: str, number: int) -> None:
        """Forget a value and every branch that led only to it."""
        path = [(self._root, "")]
        for level in name.split("/"):
            path.append((path[-1][0].branches[level], level))
        del path[-1][0].values[number]
        for (parent, _), (node, level) in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
            if node.branches or node.values:
                break
            del parent.branches[level]


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
                if level in branches and level != "+":
                    following.append(branches[level])
                if hidden and not depth:
                    continue
                if "+" in branches:
                    following.append(branches["+"])
                if "#" in branches:
                    found.extend(branches["#"].values.values())
            nodes = following
        for node in nodes:
            found.extend(node.values.values())
        return found + self._rests(nodes)  # `a/#` covers `a` too

    def _rests(self, nodes: list[_Node[V]], *, at_front: bool = False) -> list[V]:
        """The values under a `#` that follows; at the front `+/#` is the same as `#`."""
        if at_front and "+" in self._root.branches:
            nodes = [*nodes, self._root.branches["+"]]
        return [value for node in nodes if "#" in node.branches for value in node.branches["#"].values.values()]


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

    def covering(self, name: str) -> list[V]:
        """The values of all patterns that cover a topic, or all topics of another pattern."""
        return [*self._exact.get(name, {}).values(), *self._tree.covering(name)]

    def has_exact(self, name: str) -> bool:
        """Return whether there is a value for this name itself."""
        return name in self._exact


def is_wild(pattern: str) -> bool:
    return "+" in pattern or "#" in pattern


class TopicTree(_Tree[V]):
    """Topics; finds the values of all that a pattern covers."""

    def covered(self, pattern: str) -> Iterator[V]:
        nodes = [self._root]
        for depth, level in enumerate(pattern.split("/")):
            if level == "#":
                for node in nodes:
                    yield from self._below(node, hide_system=depth == 0)
                return
            if level == "+":
                nodes = [
                    branch
                    for node in nodes
                    for name, branch in node.branches.items()
                    if depth or not name.startswith("$")
                ]
            else:
                nodes = [node.branches[level] for node in nodes if level in node.branches]
        for node in nodes:
            yield from node.values.values()

    def _below(self, node: _Node[V], *, hide_system: bool) -> Iterator[V]:
        pending = [node]
        while pending:
            current = pending.pop()
            yield from current.values.values()
            pending += [
                branch
                for name, branch in current.branches.items()
                if not (hide_system and current is node and name.startswith("$"))
            ]
