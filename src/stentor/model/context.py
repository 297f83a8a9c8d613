"""Contexts: where a broker is in the tree of units, and as what it sees the others."""

from stentor.model.errors import InvalidInput
from stentor.model.scope import ScopePath


class Context:
    """A broker's path, level by level: 0 is the broker, 1 its cluster, 2 its super-cluster and so on."""

    __slots__ = ("depth", "name", "path", "scopes", "units")

    def __init__(self, path: ScopePath) -> None:
        self.path = path
        self.name = str(path)
        self.depth = len(path.parts)
        prefixes = ["/".join(path.parts[:length]) for length in range(self.depth + 1)]
        self.units = tuple(prefixes[:0:-1])  # the own unit of each level
        self.scopes = tuple(prefixes[-2::-1])  # what holds the units of each level; the last is the network: ""

    def level(self, unit: str) -> int | None:
        """The level of a unit that is a member of one of our scopes; None if it is not for us to know."""
        level = self.depth - unit.count("/") - 1
        if 0 <= level < self.depth and unit.rpartition("/")[0] == self.scopes[level] and unit:
            return level
        return None

    def view(self, other: ScopePath) -> tuple[int, str]:
        """The level at which another broker differs from us, and the unit that we see of it."""
        level = self.path.level_of_difference(other)
        if level < 0:
            raise InvalidInput(f"{other} is this broker itself")
        return level, "/".join(other.parts[: self.depth - level])
