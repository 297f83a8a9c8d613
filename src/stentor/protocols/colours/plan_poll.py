"""Polls: the root asks how far a plan has come, and the answers of all brokers are summed up on their way to it."""

import msgspec

from stentor.model.colours.colour import old_colour
from stentor.model.colours.plan import NO_PLAN, PlanStage, TopologyPlan
from stentor.model.colours.plan_messages import Announce, Go, PlanAnswer, Poll
from stentor.protocols.colours.announced_plan import AnnouncedPlan
from stentor.protocols.colours.scope_surroundings import ScopeSurroundings
from stentor.protocols.colours.scope_tree import ScopeTree, TreeRole

_LONGEST_COMPLAINT = 200


class PlanPoll:
    """What is said of a plan between one broker and those above and below it in a scope's tree."""

    def __init__(self, around: ScopeSurroundings, tree: ScopeTree, announced: AnnouncedPlan, delay_ns: int) -> None:
        self._around = around
        self._tree = tree
        self._announced = announced
        self._delay_ns = delay_ns
        self._sum: PlanAnswer | None = None  # of this broker and of the children that have answered; None: no poll runs
        self._waiting: set[str] = set()  # children that have not
        self._answered = (NO_PLAN, 0)  # the last poll that came here: a plan and a turn
        self.deadline_at = 0  # when answers are waited for no longer
        self.result: PlanAnswer | None = None  # at the root: what the last poll found

    @property
    def is_running(self) -> bool:
        return self._sum is not None

    # ---- down

    def announce(self, message: Announce) -> None:
        """Take up a plan, or give one up, and tell those below."""
        if message.withdrawn:
            self._announced.on_withdrawal(message.plan.number)
        else:
            if message.stage is PlanStage.SWITCHED and self._tree.round != message.round:
                self._tree.rotate(message.round)
            self._announced.on_announce(message.plan, message.stage, self._tree.round)
        self._tell_children(message)

    def go(self, message: Go) -> None:
        self._tell_children(message)
        self._announced.on_go(message.plan)

    def poll(self, message: Poll) -> None:
        tree = self._tree
        if message.is_known and message.plan == self._announced.number:
            self._announced.prepare()
        own = self._announced.progress(message.plan, old_colour(tree.round))
        # We have another parent since this turn began, and the former one may have counted us.
        is_again = (message.plan, message.turn) == self._answered
        self._answered = message.plan, message.turn
        self._sum = PlanAnswer(
            scope=self._around.scope,
            plan=message.plan,
            turn=message.turn,
            brokers=1,
            known=own.known,
            prepared=own.prepared,
            switched=own.switched,
            silent=int(is_again),
            sent=own.sent,
            arrived=own.arrived,
            complaint=f"{tree.name}: {own.complaint}"[:_LONGEST_COMPLAINT] if own.complaint else "",
        )
        self._waiting = set(tree.children)
        self.deadline_at = self._around.step.now + 2 * (tree.height - tree.depth) * self._delay_ns
        self._tell_children(message)
        self.look()

    def _tell_children(self, message: Announce | Poll | Go) -> None:
        for child in self._tree.children:
            self._around.say(child, message)

    # ---- up

    def on_answer(self, name: str, answer: PlanAnswer) -> None:
        found = self._sum
        if found is None or name not in self._waiting or (answer.plan, answer.turn) != (found.plan, found.turn):
            return
        self._waiting.remove(name)
        self._sum = msgspec.structs.replace(
            found,
            brokers=found.brokers + answer.brokers,
            known=found.known + answer.known,
            prepared=found.prepared + answer.prepared,
            switched=found.switched + answer.switched,
            silent=found.silent + answer.silent,
            sent=found.sent + answer.sent,
            arrived=found.arrived + answer.arrived,
            complaint=found.complaint or answer.complaint,
        )
        lacks_switch = self._announced.stage is PlanStage.SWITCHED and answer.switched < answer.brokers
        if answer.known < answer.brokers or lacks_switch:
            self._announce_again(name)
        self.look()

    def _announce_again(self, child: str) -> None:
        """Tell a child how far the plan is that we know: somebody at or below it has come since, or missed a wave."""
        plan = self._announced.plan
        if plan is not None and self._announced.stage is not PlanStage.FINISHED:
            self._around.say(child, self.word_of(plan))

    def word_of(self, plan: TopologyPlan, *, withdrawn: bool = False) -> Announce:
        """Return how to announce a plan, as far as it has come here."""
        is_switched = plan.number == self._announced.number and self._announced.stage is PlanStage.SWITCHED
        return Announce(
            scope=self._around.scope,
            plan=plan,
            stage=PlanStage.SWITCHED if is_switched else PlanStage.ANNOUNCED,
            round=self._tree.round,
            withdrawn=withdrawn,
        )

    def forget(self, child: str) -> None:
        """A child is gone: nobody waits for its answer."""
        if child in self._waiting:
            self._waiting.remove(child)
            self.look()

    def look(self) -> None:
        """End the poll if everybody below us has answered, or had the time to."""
        found = self._sum
        if found is None or (self._waiting and self._around.step.now < self.deadline_at):
            return
        self._sum = None
        found = msgspec.structs.replace(found, silent=found.silent + len(self._waiting))
        self._waiting = set()
        if self._tree.role is TreeRole.ROOT:
            self.result = found
        elif self._tree.role is TreeRole.MEMBER:
            self._around.say(self._tree.parent, found)
