"""Links that were lost and are there again: plans bring them, unless somebody needs them at once."""

import msgspec
import pytest
from tests.unit.nodes.network.desk import ME, Desk

from stentor.machine import SECOND
from stentor.model.colours.plan import PlanStage, TopologyChange, TopologyPlan
from stentor.model.messages import LinkReturned
from stentor.nodes.broker.link_session import LinkSession
from stentor.nodes.network.plans.plan_work import ScopePlanWork

NEAR, FAR = "north/library/b2", "north/library/b3"
RETURN = TopologyChange(near=ME, far=FAR, before=0, after=1000, is_return=True)


def triangle() -> tuple[Desk, LinkSession]:
    """A broker with two neighbours that have a link with each other, and its session with one of them."""
    made = Desk()
    made.link(NEAR, 1000)
    session = made.link(FAR, 1000)
    made.hear(NEAR, NEAR, 6, ME, FAR)
    made.hear(FAR, FAR, 7, ME, NEAR)
    made.network.end_step()
    return made, session


def again() -> Desk:
    """The same, after the link to one of them was lost and came back."""
    made, session = triangle()
    made.network.link_down(session, "broken")
    made.network.end_step()
    made.link(FAR, 1000)
    made.network.end_step()
    return made


def work(made: Desk) -> ScopePlanWork:
    return made.network.colouring._work[0]


def neighbours_of_own(made: Desk) -> list[str]:
    """Whom our presence speaks of."""
    presence = made.network.gateways.graph.members[0][ME]
    return [gateway.unit for gateway in presence.gateways]


@pytest.mark.req("CO-13")
def test_a_link_that_comes_back_is_used_when_a_plan_brings_it() -> None:
    made = again()
    assert made.network.gateways.neighbours[FAR].hidden
    assert neighbours_of_own(made) == [NEAR]
    assert made.network.routes.way_towards(FAR)[0] == NEAR
    assert work(made).requests() == (RETURN,)
    work(made).announce(TopologyPlan(7, (RETURN,)))
    work(made).prepare()
    assert neighbours_of_own(made) == [NEAR, FAR]
    assert made.network.routes._neighbours_on((None,) * 3), "somebody is there"
    work(made).switch()
    work(made).finish()
    assert made.remembered == [], "the link is in the file, or was remembered before"
    assert work(made).requests() == ()


@pytest.mark.req("CO-13")
def test_a_plan_that_is_undone_hides_it_again_and_it_is_asked_for_once_more() -> None:
    made = again()
    work(made).announce(TopologyPlan(7, (RETURN,)))
    work(made).prepare()
    work(made).withdraw()
    assert made.network.gateways.neighbours[FAR].hidden
    assert made.ended == [], "the link stays"
    assert work(made).requests() == (RETURN,)


@pytest.mark.req("CO-13")
def test_a_link_that_was_never_lost_is_used_at_once() -> None:
    made, _ = triangle()
    assert neighbours_of_own(made) == [NEAR, FAR]


@pytest.mark.req("CO-13")
def test_a_link_without_which_somebody_cannot_be_reached_is_used_at_once() -> None:
    made = Desk()
    session = made.link(FAR, 1000)
    made.hear(FAR, FAR, 7, ME)
    made.network.link_down(session, "broken")
    made.network.end_step()
    made.link(FAR, 1000)
    made.network.end_step()
    assert neighbours_of_own(made) == [FAR]


@pytest.mark.req("CO-13")
def test_when_the_other_way_is_lost_the_hidden_link_is_used_at_once() -> None:
    made = again()
    made.network.link_down(made.network.peers[NEAR].session, "broken")
    made.network.end_step()
    assert neighbours_of_own(made) == [FAR]


@pytest.mark.req("CO-13")
def test_a_link_that_no_plan_brings_is_used_after_a_while() -> None:
    made = again()
    patience = made.network.colouring.scopes[0].timing.patience
    made.step.now += int(4 * patience * SECOND)
    made.network.end_step()
    assert neighbours_of_own(made) == [NEAR]
    made.step.now += SECOND
    made.network.end_step()
    assert neighbours_of_own(made) == [NEAR, FAR]


def test_a_link_that_a_plan_has_closed_is_new_when_it_is_opened_again() -> None:
    made, _ = triangle()
    gone = TopologyChange(near=FAR, far=ME, before=1000, after=0, address="here:1")
    work(made).announce(TopologyPlan(7, (gone,)))
    work(made).prepare()
    work(made).switch()
    work(made).finish()
    made.link(FAR, 1000)
    assert not made.network.gateways.neighbours[FAR].hidden


@pytest.mark.req("CO-13")
def test_a_broker_that_knows_of_no_loss_hides_a_link_when_the_other_end_says_so() -> None:
    made, session = triangle()
    made.network.hear(session, LinkReturned())
    assert neighbours_of_own(made) == [NEAR]
    assert work(made).requests() == (RETURN,)
    work(made).announce(TopologyPlan(7, (RETURN,)))
    work(made).prepare()
    made.network.hear(session, LinkReturned())
    assert neighbours_of_own(made) == [NEAR, FAR], "a plan has brought it: the other end hears of that a little later"


@pytest.mark.req("CO-13")
def test_a_link_that_is_the_only_way_is_used_whatever_the_other_end_says() -> None:
    made = Desk()
    session = made.link(FAR, 1000)
    made.hear(FAR, FAR, 7, ME)
    made.network.hear(session, LinkReturned())
    assert neighbours_of_own(made) == [FAR]


@pytest.mark.req("CO-13")
def test_a_link_for_which_plans_are_undone_again_and_again_is_used_in_the_end() -> None:
    made = again()
    patience = made.network.colouring.scopes[0].timing.patience
    for number in range(1, 6):
        work(made).announce(TopologyPlan(number, (RETURN,)))
        work(made).prepare()
        work(made).withdraw()
        made.step.now += int(patience * SECOND)
        made.network.end_step()
    assert neighbours_of_own(made) == [NEAR, FAR]
    work(made).announce(TopologyPlan(9, (RETURN,)))
    work(made).withdraw()
    assert neighbours_of_own(made) == [NEAR, FAR], "what is used stays in use"


@pytest.mark.req("CO-13")
def test_a_link_to_a_broker_that_was_stopped_in_good_order_comes_back_by_a_plan() -> None:
    made, session = triangle()
    presence = made.network.gateways.graph.members[0][FAR]
    made.network.gateways.hear(NEAR, msgspec.structs.replace(presence, version=presence.version + 1, left=True))
    made.network.link_down(session, "it stops")
    made.network.beat(0)
    made.hear(NEAR, FAR, 7, ME, NEAR, version=2)
    made.link(FAR, 1000)
    made.network.end_step()
    assert made.network.gateways.neighbours[FAR].hidden


def test_a_link_that_another_one_replaces_is_lost_with_what_is_in_doubt_on_it() -> None:
    made, session = triangle()
    session.connection.outbox.events = 5
    made.link(FAR, 1000)
    assert made.network.traffic.in_doubt == 5
    assert made.network.gateways.neighbours[FAR].hidden


@pytest.mark.req("CO-13")
def test_nothing_is_in_doubt_on_a_link_that_a_plan_removes_whoever_closes_it_first() -> None:
    made, session = triangle()
    session.connection.outbox.events = 5
    gone = TopologyChange(near=FAR, far=ME, before=1000, after=0, address="here:1")
    colours = made.network.colouring.scopes[0]
    colours.announced.on_announce(TopologyPlan(7, (gone,)), PlanStage.SWITCHED, colours.tree.round)
    made.network.link_down(session, "the other end has heard of the end of the plan first")
    assert made.network.traffic.in_doubt == 0


def test_a_hidden_link_is_asked_for_whatever_it_costs_now() -> None:
    made = again()
    made.network.peers[FAR].cost.base = 3000
    assert work(made).requests() == (RETURN,)


@pytest.mark.req("CO-13")
def test_a_link_that_both_ends_need_is_hidden_by_no_word_of_the_other_one() -> None:
    made = Desk()
    session = made.link(FAR, 1000)
    made.hear(FAR, FAR, 7)  # it hides the link, so it does not speak of it
    made.network.hear(session, LinkReturned())
    assert neighbours_of_own(made) == [FAR], "otherwise both would hide and need it in turns, for ever"
