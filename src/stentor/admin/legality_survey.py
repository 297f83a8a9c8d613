"""Whether a scope of a running network is in its correct state, as far as its brokers tell.

`stentor.model.colours.legality` is the judge, and wants to hear all brokers of a scope. Those who do not answer get the
benefit of the doubt: each is taken to say what the others say of it. So a scope is illegal only for what somebody in it
told, and a broker that is merely silent is called silent.
"""

from collections import Counter
from collections.abc import Collection, Mapping

import msgspec

from stentor.model.colours.colour import COLOURS
from stentor.model.colours.legality import TreePointers, TreeView, illegalities
from stentor.model.colours.plan import PlanView
from stentor.model.reports.colour_view import ColourView
from stentor.model.reports.view import NetworkView


class ColoursSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The colours of a scope, as far as its brokers tell."""

    root: str  # "" if there is none, or more than one
    round: int  # of the root; 0 if there is none
    is_legal: bool
    reasons: tuple[str, ...]  # why it is not legal
    orphans: tuple[str, ...]  # brokers that look for a parent
    silent: tuple[str, ...]  # brokers that told nothing
    bound: float  # seconds after the last fault within which the scope is well again
    roots: tuple[str, ...] = ()  # the root group, as the root tells
    plans: tuple[PlanView, ...] = ()  # of the root
    detours: int = 0  # members that some broker reaches off the tree by which events are to go, at most
    unlike: tuple[str, ...] = ()  # brokers whose `[colours]` are not those of the root: they may rejoin for ever


def colours_of(scope: str, views: Mapping[str, NetworkView | None]) -> ColoursSeen | None:
    """Judge a scope by the views of all its brokers, None for one that did not answer; return None if nobody did."""
    told = {name: found for name, view in views.items() if (found := _colours_in(view, scope)) is not None}
    if not told:
        return None
    silent = tuple(sorted(views.keys() - told.keys()))
    trees = completed({name: each.tree for name, each in told.items()}, silent)
    reasons = tuple(illegalities(trees))
    roots = [name for name, tree in trees.items() if tree.role == "root"]
    root = roots[0] if len(roots) == 1 else ""
    return ColoursSeen(
        root=root,
        round=trees[root].round if root else 0,
        is_legal=not reasons,
        reasons=reasons,
        orphans=tuple(sorted(name for name, tree in trees.items() if tree.role == "orphan")),
        silent=silent,
        bound=max(each.bound for each in told.values()),
        roots=told[root].roots if root in told else (),
        plans=told[root].plans if root in told else (),
        detours=max(each.detours for each in told.values()),
        unlike=_unlike(root, told),
    )


def _unlike(root: str, told: Mapping[str, ColourView]) -> tuple[str, ...]:
    """Return the brokers whose times are not those of the root: bounds follow from what is configured, and nothing
    else. Without a root, whose times most brokers have are right.
    """
    bounds = Counter(each.bound for each in told.values())
    right = told[root].bound if root in told else bounds.most_common(1)[0][0]
    return tuple(sorted(name for name, each in told.items() if each.bound != right))


def _colours_in(view: NetworkView | None, scope: str) -> ColourView | None:
    scopes = () if view is None else view.scopes
    return next((each.colours for each in scopes if each.scope == scope), None)


def completed(trees: Mapping[str, TreeView], silent: Collection[str]) -> dict[str, TreeView]:
    """Return the trees with those of the silent brokers that anybody speaks of, as they would fit.

    Where nobody says who its parent is, a silent broker hangs below the root: silent ones may be between the two.
    """
    found = dict(trees)
    roots = {name for name, tree in trees.items() if tree.role == "root"}
    roots |= _silent_roots(trees, silent, has_root=bool(roots))
    root = min(roots, default="")
    hung: list[list[str]] = [[] for _ in range(COLOURS)]  # below the root, by colour
    for name in silent:
        said = [_as_others_say(name, trees, colour) for colour in range(COLOURS)]
        if name in roots:
            found[name] = TreeView("root", name, _round_below(name, trees), 0, tuple(said))
        elif any(each.parent or each.children for each in said):
            for below, each in zip(hung, said, strict=True):
                if not each.parent:
                    below.append(name)
            pointers = tuple(TreePointers(each.parent or root, each.children) for each in said)
            found[name] = TreeView("member", root, 0, 1, pointers)
    if any(hung) and root:
        own = found[root]
        pointers = tuple(
            TreePointers(own.at(colour).parent, (*own.at(colour).children, *below)) for colour, below in enumerate(hung)
        )
        found[root] = msgspec.structs.replace(own, pointers=pointers)
    return found


def _silent_roots(trees: Mapping[str, TreeView], silent: Collection[str], *, has_root: bool) -> set[str]:
    """Return the silent brokers that must be roots.

    Whoever is farther down may still speak of a root that is gone, so if there is another one, only children count.
    """
    return {
        tree.root
        for tree in trees.values()
        if tree.root in silent and (not has_root or any(each.parent == tree.root for each in tree.pointers))
    }


def _as_others_say(name: str, trees: Mapping[str, TreeView], colour: int) -> TreePointers:
    parents = sorted(other for other, tree in trees.items() if name in tree.at(colour).children)
    children = sorted(other for other, tree in trees.items() if tree.at(colour).parent == name)
    return TreePointers(parents[0] if parents else "", tuple(children))


def _round_below(root: str, trees: Mapping[str, TreeView]) -> int:
    """Return the round of a silent root, as the nearest below it tells: waves get there first."""
    return min((tree.depth, tree.round) for tree in trees.values() if tree.root == root)[1]
