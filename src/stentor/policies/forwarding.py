"""Forwarding policies: which members of a scope shall have an event, and whether by the scope's tree alone.
`scope_policies` says which one holds where.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Chosen = int | NDArray[np.uint64]  # a mask of members: the same for all events, or one for each


class Forwarding(Protocol):
    """One question, asked for each batch and scope."""

    selective: bool  # nobody gets what nobody wants: without any demand there is nothing to ask
    is_by_tree: bool  # events go by links of the scope's tree, whatever others cost

    def destinations(self, wanted: Callable[[], Chosen], members: int, /) -> Chosen:
        """Return who shall have the events: `wanted` matches them with profiles, `members` can be reached."""
        ...


class ContentRouting:
    """An event goes to the members that want it, on the shortest paths to them."""

    selective = True
    is_by_tree = False

    def destinations(self, wanted: Callable[[], Chosen], members: int, /) -> Chosen:
        chosen = wanted()
        return chosen & members if isinstance(chosen, int) else chosen & np.uint64(members)


class ColouredRouting(ContentRouting):
    """An event goes to the members that want it, by the tree of its colour: the model of paper 003."""

    is_by_tree = True


class Flooding:
    """An event goes to every member, whoever wants it: nothing is matched before it arrives."""

    selective = False
    is_by_tree = False

    def destinations(self, _wanted: Callable[[], Chosen], members: int, /) -> Chosen:
        return members


FORWARDING: Mapping[str, Forwarding] = {
    "content": ContentRouting(),
    "flooding": Flooding(),
    "coloured": ColouredRouting(),
}
DEFAULT = "content"
