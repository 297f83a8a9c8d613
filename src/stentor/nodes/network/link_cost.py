"""What a link to a neighbour costs: as much as its level or an operator says, and more while it is slow.

In a scope whose events go by its tree, links of the tree cost next to nothing. So the tree is the shortest way to
everybody as long as it is whole, and where it is not, events take the cheapest way round the gap.
"""

from collections.abc import Callable

from stentor.machine import MILLISECOND
from stentor.model.scope import LARGEST_UNIT

# A round trip as long as this costs what the level says, or less; each doubling adds that again. Brokers of one site
# answer in less, so links inside it differ by what operators say alone.
_SLOW_TRIP_NS = 10 * MILLISECOND
# Round trips in a row that must tell of another cost. A new way may let events overtake each other: that is not for a
# moment's sake.
_DOUBTS_MAX = 5
_SLOW_PEER_STEPS = 2  # by which a link is dearer whose other end does not keep up: as if it were four times as far

LARGEST_COST = 10**12  # as much as brokers can tell each other, in thousandths
TREE_COST = 1  # of a link of the tree, in thousandths
# Of any other link in such a scope, at least. A way between members by the tree has fewer links than there are members.
DETOUR_COST = LARGEST_UNIT * TREE_COST


def thousandths(cost: float) -> int:
    """Return a cost as whole thousandths, at least one: every edge of a graph costs something."""
    return max(1, round(1000 * cost))


class MeasuredCost:
    """What one link costs now, in thousandths."""

    __slots__ = ("_doubts", "_steps", "_told", "base", "trip_ns")

    def __init__(self, base: int) -> None:
        self.base = base  # if the link is quick
        self._told = base  # the same: if they differ, one of them is damaged
        self.trip_ns = 0  # smoothed round trip; 0 before the first
        self._steps = 0  # by how many times the base it costs more now
        self._doubts = 0  # how often in a row another number of steps was measured

    @property
    def now(self) -> int:
        return self.base * (1 + self._steps)

    def set_base(self, base: int) -> int:
        """An operator says what the link costs; return what events are to be routed by at once."""
        self.base = self._told = base
        return base

    @property
    def is_intact(self) -> bool:
        """Whether the link costs what an operator, or its level, says."""
        return self._told == self.base

    def measure(self, trip_ns: int, *, is_slow: bool) -> bool:
        """Take in a round trip, and whether events wait for the peer. Return whether the link costs something else now:
        in steps, and only after several round trips that agree.
        """
        self.trip_ns = trip_ns if not self.trip_ns else (7 * self.trip_ns + trip_ns) // 8
        steps = (self.trip_ns // _SLOW_TRIP_NS).bit_length() + (_SLOW_PEER_STEPS if is_slow else 0)
        self._doubts = self._doubts + 1 if steps != self._steps else 0
        if self._doubts <= _DOUBTS_MAX:
            return False
        self._steps = steps
        self._doubts = 0
        return True


class TreeLinkCost(MeasuredCost):
    """What a link costs in a scope whose events go by its tree, slow or not: no plan is worth another detour."""

    __slots__ = ("_is_in_tree",)

    def __init__(self, base: int, is_in_tree: Callable[[], bool]) -> None:
        super().__init__(base)
        self._is_in_tree = is_in_tree

    @property
    def now(self) -> int:
        return TREE_COST if self._is_in_tree() else max(DETOUR_COST, self.base)

    def set_base(self, base: int) -> int:
        super().set_base(base)
        return self.now
