"""The tree of a scope, as one of its brokers knows it: its round, its place, and its neighbours in the tree by colour.

Everything here may be damaged. `clamp` takes out what cannot be, whatever it was; what can be and is wrong is found by
the waves, because both ends of a pointer speak of it.
"""

import enum
from collections.abc import Collection
from typing import NamedTuple

from stentor.model.colours.colour import COLOURS, LAST_ROUND, current_colour, new_colour, next_round
from stentor.model.colours.legality import TreePointers, TreeView


class TreeRole(enum.Enum):
    """What a broker is in the tree of a scope."""

    ROOT = "root"  # begins waves; a broker that knows nobody else is the root of itself
    MEMBER = "member"  # has a parent, from which waves come
    ORPHAN = "orphan"  # has none, and looks for one; what is below it stays there


class TreeChange(enum.Enum):
    """What happens to a broker in the tree of a scope."""

    PLACED = "placed"  # the root, or one of more right, has given it a parent
    PARTED = "parted"  # its parent is gone, or silent
    CROWNED = "crowned"  # nobody of more right was there for as long as its rank says, or a root has chosen it
    RESIGNED = "resigned"  # it is about to leave, and another one is the root


TRANSITIONS = {
    (TreeRole.ROOT, TreeChange.PLACED): TreeRole.MEMBER,
    (TreeRole.MEMBER, TreeChange.PLACED): TreeRole.MEMBER,
    (TreeRole.ORPHAN, TreeChange.PLACED): TreeRole.MEMBER,
    (TreeRole.MEMBER, TreeChange.PARTED): TreeRole.ORPHAN,
    (TreeRole.ORPHAN, TreeChange.CROWNED): TreeRole.ROOT,
    (TreeRole.ROOT, TreeChange.RESIGNED): TreeRole.ORPHAN,
}


class Claim(NamedTuple):
    """A root and its rank; of two claims the smaller one has more right."""

    rank: int
    root: str


UNRANKED = 4095  # the rank of whoever is not in the root group: the same at all brokers, however long their groups are
NO_CLAIM = Claim(4096, "")  # of whoever knows no root; everybody who does has more right


class Pointers(NamedTuple):
    """A broker's neighbours in a tree."""

    parent: str = ""
    children: tuple[str, ...] = ()


class ScopeTree:
    """Invariants, asserted by `validate` and enforced by `clamp`:

    a ROOT has no parent, depth 0 and its own claim; a MEMBER has a parent in every colour and a depth from 1 to
    `height`; an ORPHAN has no parent and NO_CLAIM; no broker is its own parent or child, or both to another one; there
    are at most `degree` children
    """

    def __init__(self, name: str, rank: int, height: int, degree: int) -> None:
        self.name = name
        self.own_claim = Claim(rank, name)
        self.height = height
        self.degree = degree
        self.role = TreeRole.ROOT
        self.round = 0
        self.depth = 0
        self.claim = self.own_claim  # below whom we are
        self.pointers = [Pointers()] * COLOURS  # by colour

    # ---- reading

    @property
    def parent(self) -> str:
        """From whom the next wave is taken: the parent in the new colour."""
        return self.pointers[new_colour(self.round)].parent

    @property
    def children(self) -> tuple[str, ...]:
        """To whom a wave is passed on: the children in the current colour."""
        return self.pointers[current_colour(self.round)].children

    @property
    def has_room(self) -> bool:
        """Whether one more child would be neither too many nor too deep."""
        return len(self.children) < self.degree and self.depth < self.height

    def has_edge(self, name: str) -> bool:
        """Return whether a broker is our neighbour in the tree, as the next waves go."""
        return name == self.parent or name in self.children

    # ---- changing

    def change(self, change: TreeChange) -> None:
        following = TRANSITIONS.get((self.role, change))
        assert following is not None, f"a broker that is {self.role.value} cannot be {change.value}"
        self.role = following

    def begin_round(self) -> None:
        """Rotate, as the root does by itself."""
        self.rotate(next_round(self.round))

    def rotate(self, round_number: int) -> None:
        """Go over to a round: what was new is current, and new begins as a copy of it."""
        prepared = self.pointers[new_colour(self.round)]
        self.round = round_number
        self.pointers[current_colour(round_number)] = prepared
        self.pointers[new_colour(round_number)] = prepared

    def place(self, parent: str, claim: Claim, round_number: int, depth: int) -> None:
        """Get a parent, in all colours: a fault is mended at once."""
        self.change(TreeChange.PLACED)
        self.claim = claim
        self.round = round_number
        self.depth = depth
        self.pointers = [
            Pointers(parent, tuple(child for child in each.children if child != parent)) for each in self.pointers
        ]

    def part(self) -> None:
        """Lose the parent."""
        self.change(TreeChange.PARTED)
        self.claim = NO_CLAIM
        self.depth = 0
        self.pointers = [Pointers("", each.children) for each in self.pointers]

    def crown(self) -> None:
        """Become the root of what is below, and of whoever joins."""
        self.change(TreeChange.CROWNED)
        self.claim = self.own_claim
        self.depth = 0

    def resign(self) -> None:
        """Be the root no more; what is below stays there."""
        self.change(TreeChange.RESIGNED)
        self.claim = NO_CLAIM

    def promote(self, rank: int) -> None:
        """Get another rank in the root group, higher or lower."""
        self.own_claim = Claim(rank, self.name)
        if self.role is TreeRole.ROOT:
            self.claim = self.own_claim

    def adopt(self, child: str) -> None:
        """Get a child, in all colours."""
        self.pointers = [
            each if child in each.children else Pointers(each.parent, (*each.children, child)) for each in self.pointers
        ]

    def disown(self, child: str) -> None:
        """Lose a child, in all colours."""
        self.pointers = [
            Pointers(each.parent, tuple(other for other in each.children if other != child)) for each in self.pointers
        ]

    # ---- damage

    def clamp(self, neighbours: Collection[str]) -> bool:
        """Take out what cannot be; return whether there was anything. `neighbours` are those in the scope."""
        before = self._values()
        if not 0 <= self.round <= LAST_ROUND:
            self.round = 0
        parent = self.parent
        if self.role is TreeRole.MEMBER and (parent not in neighbours or not 1 <= self.depth <= self.height):
            self.part()
        if self.role is not TreeRole.MEMBER:
            parent = ""
            self.depth = 0
            self.claim = self.own_claim if self.role is TreeRole.ROOT else NO_CLAIM
        self.pointers = [self._clamped(each, parent, neighbours) for each in self.pointers]
        return self._values() != before

    def _clamped(self, pointers: Pointers, parent: str, neighbours: Collection[str]) -> Pointers:
        """Return pointers that can be; `parent` is the one in the new colour, "" if there shall be none."""
        if parent and pointers.parent in neighbours:
            parent = pointers.parent
        children = dict.fromkeys(child for child in pointers.children if child in neighbours and child != parent)
        return Pointers(parent, tuple(children)[: self.degree])

    def _values(self) -> tuple[object, ...]:
        return self.role, self.round, self.depth, self.claim, tuple(self.pointers)

    def validate(self) -> None:
        is_member = self.role is TreeRole.MEMBER
        for colour, (parent, children) in enumerate(self.pointers):
            assert bool(parent) is is_member, f"{self.role.value} with the parent {parent!r} in colour {colour}"
            assert self.name not in (parent, *children), f"its own neighbour in colour {colour}"
            assert parent not in children, f"{parent} is above and below in colour {colour}"
            assert len(set(children)) == len(children) <= self.degree, f"children {children} in colour {colour}"
        assert (1 <= self.depth <= self.height) if is_member else not self.depth, f"depth {self.depth}"
        assert 0 <= self.round <= LAST_ROUND, f"round {self.round}"
        if not is_member:
            assert self.claim == (self.own_claim if self.role is TreeRole.ROOT else NO_CLAIM), f"claims {self.claim}"

    def view(self) -> TreeView:
        """Return what this broker tells of the tree."""
        return TreeView(
            role=self.role.value,
            root=self.claim.root,
            round=min(max(self.round, 0), LAST_ROUND),  # what damage leaves there may fit into no message
            depth=self.depth,
            pointers=tuple(TreePointers(*each) for each in self.pointers),
        )
