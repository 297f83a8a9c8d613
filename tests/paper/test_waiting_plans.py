"""Paper 003, section 4: the root carries out one plan after the other. One that has waited is checked when its turn
comes: a scope that each of two plans leaves whole may fall apart when both are carried out.
"""

import pytest
from tests.paper.coloured_scope import ColouredScope

from stentor.model.colours.plan import ENDED, PlanPhase, PlanView, TopologyChange, TopologyPlan
from stentor.simulation.scenarios.plans import PlanDrawn

RING = (("A", "B", 1.0), ("B", "C", 1.0), ("A", "C", 1.0))


def removal(number: int, near: str, far: str) -> TopologyPlan:
    return TopologyPlan(number, (TopologyChange(near=near, far=far, before=1000, after=0, address=f"at-{far}"),))


def carry_out(scope: ColouredScope, *plans: TopologyPlan) -> list[PlanView]:
    """Ask for plans at once, and return what has become of each."""
    colours = scope[scope.root()].network.colouring.scopes[0]
    for plan in plans:
        scope.world.tell(f"at-{scope.root()}", PlanDrawn("", plan))
    wanted = {plan.number for plan in plans}

    def ended() -> list[PlanView]:
        return [view for view in colours.planning.views() if view.number in wanted and view.phase in ENDED]

    scope.run_until(lambda: len(ended()) == len(plans))
    return ended()


@pytest.mark.req("CO-05", "CO-12")
def test_a_waiting_plan_is_undone_if_the_one_before_it_has_removed_the_other_link_of_a_broker() -> None:
    scope = ColouredScope("ABC", RING, forwarding={})
    done, undone = carry_out(scope, removal(7, "A", "C"), removal(8, "B", "C"))
    assert (done.number, done.phase) == (7, PlanPhase.DONE)
    assert (undone.number, undone.phase) == (8, PlanPhase.UNDONE)
    assert undone.reason == "without these links C could not be reached"
    scope.run(5.0)
    assert scope.wrong() == []
    assert sorted(scope["C"].network.peers) == ["B"]


@pytest.mark.req("CO-05", "CO-12")
def test_two_plans_that_leave_the_scope_whole_together_are_both_carried_out() -> None:
    scope = ColouredScope("ABCD", (*RING, ("A", "D", 1.0), ("B", "D", 1.0)), forwarding={})
    assert {view.phase for view in carry_out(scope, removal(7, "A", "C"), removal(8, "A", "D"))} == {PlanPhase.DONE}
    scope.run(5.0)
    assert sorted(scope["A"].network.peers) == ["B"]
