"""Links that a broker wants and that would move the ways of others: they are asked for, and plans bring them."""

import pytest
from tests.unit.nodes.network.desk import HALL, ME, Desk

from stentor.machine import Dial
from stentor.model.colours.plan import TopologyChange, TopologyPlan
from stentor.model.messages import AdminTask
from stentor.nodes.network.network import GatewaySettings
from stentor.nodes.network.outgoing_links import OutgoingLinks
from stentor.nodes.network.plans.plan_work import ScopePlanWork
from stentor.protocols.neighbours import Neighbours

OTHER = "north/library/b7"
WANTED = TopologyChange(near=ME, far=OTHER, before=0, after=4000, address="far:7")


def desk() -> Desk:
    """A broker that has a link to the hall, and wants another one in its own cluster."""
    made = Desk()
    made.link(HALL, 1000)
    settings = GatewaySettings(name=OTHER, address="far:7", cost=4.0, is_requested=True)
    made.network.outgoing.request(settings)
    return made


def work(made: Desk) -> ScopePlanWork:
    """What plans make it do in its cluster."""
    return made.network.colouring._work[0]


@pytest.mark.req("CO-13")
def test_a_link_that_is_requested_is_not_dialled_until_a_plan_opens_it() -> None:
    made = desk()
    links = OutgoingLinks(made.network.outgoing.requested.values(), 10**9, Neighbours(), made.step)
    made.step.end()
    links.begin()
    assert made.step.end() == []
    assert work(made).requests() == (WANTED,)
    work(made).announce(TopologyPlan(7, (WANTED,)))
    work(made).prepare()
    assert [each.address for each in made.step.end() if isinstance(each, Dial)] == ["far:7"]


@pytest.mark.req("CO-13")
def test_a_link_that_a_plan_has_brought_is_remembered_and_asked_for_no_more() -> None:
    made = desk()
    work(made).announce(TopologyPlan(7, (WANTED,)))
    work(made).prepare()
    made.link(OTHER, 4000)
    work(made).switch()
    work(made).finish()
    links = [each for each in made.remembered if each.plan is None]
    assert [(each.task, each.address, each.cost) for each in links] == [(AdminTask.ADD_LINK, "far:7", 4.0)]
    assert work(made).requests() == ()
    assert not made.network.outgoing.requested


@pytest.mark.req("CO-13")
def test_a_link_that_did_not_come_is_asked_for_again_after_some_rounds() -> None:
    made = desk()
    work(made).announce(TopologyPlan(7, (WANTED,)))
    work(made).prepare()
    work(made).withdraw()
    assert not made.network.outgoing.links
    rounds = 0
    while not work(made).requests():
        work(made).rotate()
        rounds += 1
    assert rounds == 8


@pytest.mark.req("CO-13")
def test_a_link_that_came_and_was_undone_with_others_is_asked_for_at_once() -> None:
    made = desk()
    work(made).announce(TopologyPlan(7, (WANTED,)))
    work(made).prepare()
    session = made.link(OTHER, 4000)
    work(made).withdraw()
    assert made.ended[0][0] is session
    assert work(made).requests() == (WANTED,)
