"""What a broker tells of the colours of a scope around it: its place in the tree, and what went wrong there."""

import msgspec

from stentor.model.colours.legality import TreeView
from stentor.model.colours.plan import PlanView


class ColourView(msgspec.Struct, frozen=True, kw_only=True):
    """The colours of one scope at one broker; what it counts, it counts since it started."""

    tree: TreeView
    brokers: int  # in the tree below it, itself included, when the last wave ended
    bound: float  # seconds after the last fault within which the scope is well again
    roots: tuple[str, ...] = ()  # the scope's root group, by rank
    faults: int = 0  # how often a wave did not come in time, or something was found that cannot be
    refused: int = 0  # waves that it did not take
    unanswered: int = 0  # children that it left out because they did not answer
    rejoined: int = 0  # how often it was given a parent
    replaced: int = 0  # copies of what members say that were not as their owners say
    detours: int = 0  # members that it reaches by other links than those of the tree, if events are to go by that
    stage: str = ""  # of the plan that is under way here: announced or switched; "" without one
    plans: tuple[PlanView, ...] = ()  # those of the scope that it has carried out as its root, or will
