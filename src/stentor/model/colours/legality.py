"""The correct state of a scope: the one predicate by which status, simulation and tests judge its tree.

As the paper has it: parents and children agree for the colours that are old and current at the root, and neither of
these two trees is in parts. What the new colour holds does not matter: it is being prepared.
"""

from collections.abc import Mapping

import msgspec

from stentor.model.colours.colour import COLOURS, current_colour, old_colour


class TreePointers(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A broker's neighbours in a scope's tree of one colour."""

    parent: str = ""
    children: tuple[str, ...] = ()


class TreeView(msgspec.Struct, frozen=True):
    """What one broker tells of a scope's tree."""

    role: str  # root, member or orphan
    root: str  # below whom it is; "" if it does not know
    round: int
    depth: int
    pointers: tuple[TreePointers, ...]  # by colour, not by age

    def at(self, colour: int) -> TreePointers:
        return self.pointers[colour] if len(self.pointers) == COLOURS else TreePointers()


def illegalities(trees: Mapping[str, TreeView]) -> list[str]:
    """Return what is wrong with the tree of a scope, given what all of its brokers tell; nothing if it is correct."""
    roots = sorted(name for name, tree in trees.items() if tree.role == "root")
    if len(roots) != 1:
        return [f"{len(roots)} roots: {', '.join(roots)}" if roots else "no root"] if trees else []
    found = [
        f"{name} looks for a parent" for name, tree in sorted(trees.items()) if tree.role not in ("root", "member")
    ]
    root = trees[roots[0]]
    for word, colour in (("old", old_colour(root.round)), ("current", current_colour(root.round))):
        found += _disagreements(trees, roots[0], word, colour)
    return found


def _disagreements(trees: Mapping[str, TreeView], root: str, word: str, colour: int) -> list[str]:
    """Return where parents and children do not speak of each other in a colour, and who cannot be reached."""
    found: list[str] = []
    for name, tree in sorted(trees.items()):
        parent, children = tree.at(colour).parent, tree.at(colour).children
        if name != root and (parent not in trees or name not in trees[parent].at(colour).children):
            found.append(f"{name} has the {word} parent {parent or 'nobody'}, whose child it is not")
        found += [
            f"{name} has the {word} child {child}, whose parent it is not"
            for child in children
            if child not in trees or trees[child].at(colour).parent != name
        ]
    reached, fresh = {root}, [root]
    while fresh:
        for child in trees[fresh.pop()].at(colour).children:
            if child in trees and child not in reached:
                reached.add(child)
                fresh.append(child)
    found += [f"no {word} way leads from the root to {name}" for name in sorted(trees.keys() - reached)]
    return found
