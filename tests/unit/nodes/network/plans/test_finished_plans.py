"""What a broker remembers of a plan that is finished, until everybody knows what has become of its links."""

import pytest
from tests.unit.nodes.network.desk import ME, Desk

from stentor.model.colours.plan import TopologyChange, TopologyPlan

NEAR, FAR = "north/library/b2", "north/library/b3"
GOES = TopologyChange(near=ME, far=NEAR, before=1000, after=0)
CHEAPER = TopologyChange(near=FAR, far=NEAR, before=9000, after=300)


@pytest.mark.req("CO-12", "CO-13")
def test_a_broker_that_closes_its_link_goes_on_by_what_the_plan_says_of_the_links_of_others() -> None:
    desk = Desk()
    for peer, number in ((NEAR, 1), (FAR, 2)):
        desk.link(peer, 1000)
        desk.hear(peer, peer, number, ME)
    colours = desk.network.colouring.scopes[0]
    plan = TopologyPlan(7, (GOES, CHEAPER))
    colours.announced.on_announce(plan, colours.announced.stage.ANNOUNCED, 0)
    colours.announced.prepare()
    colours.announced.on_rotation(1, 7, 0, is_switched=True)
    colours.announced.on_go(7)
    assert NEAR not in desk.network.peers
    assert [each.plan.number for each in desk.network.colouring.finished] == [7]
