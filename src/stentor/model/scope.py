"""Scopes: the administrative tree. A unit is a scope that holds brokers; a broker is a leaf; ≤ 64 members each."""

from dataclasses import dataclass

from stentor.model.errors import InvalidInput

LARGEST_UNIT = 64  # so that a set of members is one 64-bit word
LONGEST_NODE_NAME = 128  # characters of one scope's name, or a repository's: topics of letters hold them
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


@dataclass(frozen=True, slots=True, order=True)
class ScopePath:
    """A node's name is its path of scope names, outermost first: `campus/library/b1`."""

    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "ScopePath":
        parts = tuple(text.split("/"))
        for part in parts:
            if part in (".", ".."):  # a path of scopes is also one below a directory: storage is laid out by it
                raise InvalidInput(f"{text!r} is not a scope path: '.' and '..' are no names")
            if len(part) > LONGEST_NODE_NAME:
                raise InvalidInput(f"{part[:40]!r}…: a name in a scope path has at most {LONGEST_NODE_NAME} characters")
            if not part or not _NAME.issuperset(part):
                raise InvalidInput(
                    f"{text!r} is not a scope path: names of letters, digits, '-', '_' and '.', joined by '/'"
                )
        return cls(parts)

    @property
    def name(self) -> str:
        return self.parts[-1]

    @property
    def parent(self) -> "ScopePath | None":
        return ScopePath(self.parts[:-1]) if len(self.parts) > 1 else None

    def level_of_difference(self, other: "ScopePath") -> int:
        """The highest level at which two leaves differ; 0 is the leaf itself, and equal paths give -1."""
        if len(self.parts) != len(other.parts):
            raise InvalidInput(f"{self} and {other} are not at the same depth of the tree")
        for depth, (mine, theirs) in enumerate(zip(self.parts, other.parts, strict=True)):
            if mine != theirs:
                return len(self.parts) - 1 - depth
        return -1

    def __str__(self) -> str:
        return "/".join(self.parts)
