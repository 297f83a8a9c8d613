"""A plan: changes of a scope's topology that take effect together, everywhere, without losing an event.

While a plan is under way a broker routes by two topologies of the scope: the one before the plan and the one after it.
Which of them a parcel is routed by follows from its colour.
"""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta

from stentor.model.ranges import Address, Id, Path
from stentor.model.scope import LARGEST_UNIT

MOST_CHANGES = 4096
MOST_FINISHED = 8  # plans by order of which waves tell that they are finished: more than are made while a broker starts
NO_PLAN = 0
LinkCostOrNone = Annotated[int, Meta(ge=0, le=10**12)]  # in thousandths; 0 is no link


class TopologyChange(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A link between two brokers of a scope comes, goes, or costs something else from now on."""

    near: Path  # who opens it
    far: Path
    before: LinkCostOrNone
    after: LinkCostOrNone
    address: Address = ""  # where the far end listens
    is_measured: bool = False  # the near end found out what it costs in its direction; nobody has ordered it
    is_return: bool = False  # it was lost, and is there again: nobody has ordered that either

    @property
    def comes(self) -> bool:
        return not self.before

    @property
    def goes(self) -> bool:
        return not self.after

    @property
    def is_ordered_cost(self) -> bool:
        """Whether somebody wants a link that stays to cost something else."""
        return not (self.comes or self.goes or self.is_measured)


RootGroup = Annotated[tuple[Path, ...], Meta(max_length=LARGEST_UNIT)]  # by rank: the first that can is the root
TopologyChanges = Annotated[tuple[TopologyChange, ...], Meta(max_length=MOST_CHANGES)]
Choosers = Annotated[tuple[Path, ...], Meta(max_length=LARGEST_UNIT)]  # brokers that choose their exits again
FinishedOrders = Annotated[tuple[Id, ...], Meta(max_length=MOST_FINISHED)]  # numbers of plans


class TopologyPlan(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What shall change in a scope. Plans with the same number are the same plan."""

    number: Id
    changes: TopologyChanges
    leaves: Annotated[tuple[Path, ...], Meta(max_length=LARGEST_UNIT)] = ()  # members that need not be reached after it
    roots: RootGroup | None = None  # the root group from then on; None if it stays
    choosers: Choosers = ()  # they have nearer exits to members of the scope than those that they chose

    @property
    def is_ordered(self) -> bool:
        """Whether somebody has ordered something of it: then brokers write their part down."""
        return self.roots is not None or any(not (each.is_measured or each.is_return) for each in self.changes)

    @property
    def size(self) -> int:
        """How much changes: links, the root group, and by which exits brokers send."""
        return len(self.changes) + (self.roots is not None) + len(self.choosers)

    def concerns(self, broker: str) -> bool:
        """Return whether a broker has to do something that its next life must know: what nobody has ordered is none."""
        return self.roots is not None or any(
            broker in (change.near, change.far) and not (change.is_measured or change.is_return)
            for change in self.changes
        )


class Side(enum.Enum):
    """Which of the two topologies of a plan."""

    BEFORE = "before"
    AFTER = "after"


class PlanStage(enum.StrEnum):
    """How far a plan has come at one broker."""

    ANNOUNCED = "announced"  # the new colour has the topology after it, all others the one before
    SWITCHED = "switched"  # only the old colour has the topology before it; whose way has changed is held
    FINISHED = "finished"  # all colours are the same again: links are closed, and nothing is held


class PlanChange(enum.Enum):
    """What happens to a plan at one broker."""

    ROTATED = "rotated"
    DRAINED = "drained"


PLAN_TRANSITIONS = {
    (PlanStage.ANNOUNCED, PlanChange.ROTATED): PlanStage.SWITCHED,
    (PlanStage.SWITCHED, PlanChange.DRAINED): PlanStage.FINISHED,
}


class PlanPhase(enum.StrEnum):
    """How far a plan has come in its scope, as the root knows it."""

    WAITING = "waiting"  # for another plan, or for the tree to be whole
    ANNOUNCING = "announced"  # not all brokers know of it
    PREPARING = "preparing"  # links are opened, tables are made
    SWITCHING = "switching"  # a wave activates it
    DRAINING = "draining"  # events are under way by the topology before it
    DONE = "done"
    UNDONE = "undone"  # nothing has changed


ENDED = (PlanPhase.DONE, PlanPhase.UNDONE)
PHASE_TRANSITIONS = {
    PlanPhase.WAITING: (PlanPhase.ANNOUNCING, PlanPhase.UNDONE),
    PlanPhase.ANNOUNCING: (PlanPhase.PREPARING, PlanPhase.UNDONE),
    PlanPhase.PREPARING: (PlanPhase.SWITCHING, PlanPhase.UNDONE),
    PlanPhase.SWITCHING: (PlanPhase.DRAINING,),
    PlanPhase.DRAINING: (PlanPhase.DONE,),
}


class PlanView(msgspec.Struct, frozen=True, kw_only=True):
    """What the root of a scope tells of a plan."""

    number: int
    phase: PlanPhase
    changes: int
    brokers: int = 0  # in the scope, as far as they answered
    prepared: int = 0  # of these
    in_doubt: int = 0  # parcels that were under way by the topology before it when the deadline ended the wait
    seconds: float = 0.0  # that it has taken so far, or took
    held: float = 0.0  # of these, the ones since its switch: longer no event waits that it concerns
    reason: str = ""  # why it waits, or was undone
