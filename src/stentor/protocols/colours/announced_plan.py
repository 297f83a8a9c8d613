"""A plan as one broker of the scope takes part in it: announced, switched by a wave, finished when all has drained.

What a broker holds of a plan never outlives it for long: the links that are there in the end are the truth, and a plan
only says from when on they are used. So a plan that was cut short, at whatever point, leaves a sound network behind.
"""

from typing import NamedTuple, Protocol

from stentor.model.colours.colour import Colour, new_colour, old_colour
from stentor.model.colours.plan import (
    MOST_FINISHED,
    NO_PLAN,
    PLAN_TRANSITIONS,
    PlanChange,
    PlanStage,
    Side,
    TopologyChange,
    TopologyPlan,
)


class PlanWork(Protocol):
    """What a plan makes the broker do that it passes."""

    def refusal(self, plan: TopologyPlan) -> str:
        """Return why a plan cannot be carried out, as far as is known here; "" if it can."""
        ...

    def announce(self, plan: TopologyPlan) -> None:
        """Look at the topology as it is before anything changes."""
        ...

    def prepare(self) -> None:
        """Open the links that are to come and begin here."""
        ...

    def complaint(self) -> str:
        """Return what is still missing; "" if nothing is."""
        ...

    def under_way(self, colour: Colour) -> tuple[int, int]:
        """Return how many parcels of a colour were sent over links of the scope, and how many have come."""
        ...

    def switch(self) -> None:
        """Send events by the topology after the plan from now on, and hold those whose way has changed."""
        ...

    def finish(self) -> None:
        """Release what is held; close the links that go, and write down what has changed."""
        ...

    def withdraw(self) -> None:
        """Close the links that were opened for it."""
        ...

    def requests(self) -> tuple[TopologyChange, ...]:
        """Return what this broker would have changed."""
        ...

    def has_nearer_exits(self) -> bool:
        """Return whether events for members of the scope would leave our units by nearer exits than those we chose."""
        ...

    def rotate(self) -> None:
        """A wave has come: what finished plans have made of links may be known everywhere by now."""
        ...

    def keep_to(self, plan: TopologyPlan | None) -> None:
        """See to it that this is the plan under way; if it is not, damage has made it so."""
        ...

    def conclude(self, plan: TopologyPlan, *, is_finished: bool) -> None:
        """Do what is left to do here of a plan that has ended while this broker was away: finished, or undone."""
        ...

    @property
    def root_group(self) -> tuple[str, ...] | None:
        """The root group that plans have given the scope; None if that of the file holds."""
        ...


class PlanProgress(NamedTuple):
    """How far a plan is at one broker: its part of a PlanAnswer."""

    known: int = 0
    prepared: int = 0
    switched: int = 0
    sent: int = 0
    arrived: int = 0
    complaint: str = ""


class AnnouncedPlan:
    """The plan of one scope that one broker heard of last. Invariant: without a plan, the stage is FINISHED."""

    def __init__(self, work: PlanWork) -> None:
        self._work = work
        self.plan: TopologyPlan | None = None
        self.stage = PlanStage.FINISHED
        self._switched_in = -1  # the round; in later ones no colour has the topology before the plan
        self.recalled: TopologyPlan | None = None  # one that was under way when this broker was last stopped
        self.orders: tuple[int, ...] = ()  # plans by order that were finished last, the newest at the end

    @property
    def number(self) -> int:
        return NO_PLAN if self.plan is None else self.plan.number

    @property
    def finished(self) -> int:
        """The number of the plan that was finished last, if no other one was announced since."""
        return NO_PLAN if self.is_open else self.number

    @property
    def is_open(self) -> bool:
        """Whether a plan is under way."""
        return self.plan is not None and self.stage is not PlanStage.FINISHED

    def side(self, colour: Colour, round_number: int) -> Side | None:
        """Return by which topology parcels of a colour are routed; None if there is only one."""
        if self.plan is None:
            return None
        match self.stage:
            case PlanStage.ANNOUNCED:
                return Side.AFTER if colour == new_colour(round_number) else Side.BEFORE
            case PlanStage.SWITCHED:
                is_old = colour == old_colour(round_number) and round_number == self._switched_in
                return Side.BEFORE if is_old else Side.AFTER
            case PlanStage.FINISHED:
                return None

    # ---- what the root says

    def on_announce(self, plan: TopologyPlan, stage: PlanStage, round_number: int) -> None:
        """Take a plan up, as far as it has come elsewhere."""
        if self.number != plan.number:
            self._take(plan)
        if stage is PlanStage.SWITCHED and self.stage is PlanStage.ANNOUNCED:  # we have missed the wave
            self._work.prepare()
            self._switch(round_number)

    def take_up_recalled(self) -> None:
        """Go on with the plan that was under way when this broker was stopped: it is the root, so nobody else does.
        Brokers that have finished it count as prepared and switched.
        """
        if self.recalled is not None and not self.is_open:
            self._take(self.recalled)

    def _take(self, plan: TopologyPlan) -> None:
        """Let this be the plan that is announced."""
        self._drop()
        if self.recalled is not None and self.recalled.number == plan.number:
            self.recalled = None
        self.plan = plan
        self.stage = PlanStage.ANNOUNCED
        self._work.announce(plan)

    def on_withdrawal(self, number: int) -> None:
        if self.number == number and self.stage is PlanStage.ANNOUNCED:
            self._drop()

    def conclude(self, plan: int, finished: int, orders: tuple[int, ...]) -> None:
        """A parent's wave has come, with the plan that is under way and those that were finished last: do what is left
        of the one that was under way when this broker was stopped. Our own waves know nothing of that.
        """
        self.orders = orders
        recalled = self.recalled
        if recalled is not None and recalled.number != plan:
            self.recalled = None
            self._work.conclude(recalled, is_finished=recalled.number in (finished, *orders))

    def on_rotation(self, round_number: int, plan: int, finished: int, *, is_switched: bool) -> None:
        """A wave has come: it tells which plan is under way, whether that is in force, and which was finished last."""
        self._work.rotate()
        if not self.is_open:
            return
        if self.number == plan:
            if is_switched and self.stage is PlanStage.ANNOUNCED:
                self._switch(round_number)
        elif self.number == finished:
            if self.stage is PlanStage.ANNOUNCED:
                self._work.prepare()
                self._switch(round_number)
            self.on_go(self.number)
        else:  # the root knows nothing of it any more
            self._drop()

    @property
    def switched(self) -> int:
        """The number of the plan that is in force, and not finished."""
        return self.number if self.stage is PlanStage.SWITCHED else NO_PLAN

    def on_placed(self, round_number: int, switched: int) -> None:
        """We have another parent, whose round is ours now, and a plan is in force there: we have missed the wave."""
        if self.number == switched and self.stage is PlanStage.ANNOUNCED:
            self._work.prepare()
            self._switch(round_number)

    def _switch(self, round_number: int) -> None:
        self._change(PlanChange.ROTATED)
        self._switched_in = round_number
        self._work.switch()

    def on_go(self, number: int) -> None:
        if self.number == number and self.stage is PlanStage.SWITCHED:
            self._change(PlanChange.DRAINED)
            if self.plan is not None and self.plan.is_ordered and number not in self.orders:
                self.orders = (*self.orders, number)[-MOST_FINISHED:]
            self._work.finish()

    def _change(self, change: PlanChange) -> None:
        following = PLAN_TRANSITIONS.get((self.stage, change))
        assert following is not None, f"a plan that is {self.stage.value} cannot be {change.value}"
        self.stage = following

    def _drop(self) -> None:
        """Forget the plan, whatever has become of it."""
        if self.plan is None:
            return
        match self.stage:
            case PlanStage.ANNOUNCED:
                self._work.withdraw()
            case PlanStage.SWITCHED:
                self._work.finish()
        self.plan = None
        self.stage = PlanStage.FINISHED

    # ---- how far it has come

    def progress(self, number: int, old: Colour) -> PlanProgress:
        """Return how far the plan of a number is at this broker."""
        if self.number != number:
            return PlanProgress(complaint="has not heard of the plan")
        if self.stage is PlanStage.ANNOUNCED:
            complaint = self._work.complaint()
            return PlanProgress(known=1, prepared=int(not complaint), complaint=complaint)
        sent, arrived = self._work.under_way(old)
        return PlanProgress(known=1, prepared=1, switched=1, sent=sent, arrived=arrived)

    def requests(self) -> tuple[TopologyChange, ...]:
        """Return what this broker would have changed; while a plan is under way, that can wait."""
        return () if self.is_open else self._work.requests()

    def choosers(self, name: str) -> tuple[str, ...]:
        """Return the name of this broker if it would leave by other exits than it chose, and no plan is under way."""
        return (name,) if not self.is_open and self._work.has_nearer_exits() else ()

    @property
    def root_group(self) -> tuple[str, ...] | None:
        """The root group that plans have given the scope; None if that of the file holds."""
        return self._work.root_group

    def refusal(self, plan: TopologyPlan) -> str:
        """Return why a plan cannot be carried out; "" if it can."""
        return self._work.refusal(plan)

    def prepare(self) -> None:
        if self.stage is PlanStage.ANNOUNCED:
            self._work.prepare()

    def clamp(self) -> None:
        """Take out what cannot be: a stage without a plan, or work for another plan than there is."""
        if self.plan is None:
            self.stage = PlanStage.FINISHED
        self._work.keep_to(self.plan if self.is_open else None)

    def validate(self) -> None:
        assert self.plan is not None or self.stage is PlanStage.FINISHED, f"no plan, and that is {self.stage.value}"
