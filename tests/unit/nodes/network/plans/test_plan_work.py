"""What a broker knows of a plan: one that is finished, until everybody knows what has become of its links; and one that
was switched while the broker was between two places in the tree.
"""

import pytest
from tests.unit.nodes.network.desk import ME, Desk

from stentor.model.colours.plan import PlanStage, TopologyChange, TopologyPlan
from stentor.model.colours.wave_messages import Place, RootClaim

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
    colours.announced.on_announce(plan, PlanStage.ANNOUNCED, 0)
    colours.announced.prepare()
    colours.announced.on_rotation(1, 7, 0, is_switched=True)
    colours.announced.on_go(7)
    assert NEAR not in desk.network.peers
    assert [each.plan.number for each in desk.network.colouring.finished] == [7]


@pytest.mark.req("CO-06")
@pytest.mark.parametrize(("switched", "stage"), [(7, PlanStage.SWITCHED), (8, PlanStage.ANNOUNCED)])
def test_a_broker_that_is_placed_below_one_that_has_switched_switches_with_the_round(
    switched: int, stage: PlanStage
) -> None:
    desk = Desk()
    desk.link(FAR, 1000)
    colours = desk.network.colouring.scopes[0]
    colours.announced.on_announce(TopologyPlan(7, (CHEAPER,)), PlanStage.ANNOUNCED, 0)
    scope = "north/library"
    colours.rejoining.on_claim(FAR, RootClaim(scope=scope, root=FAR, rank=0, depth=0))
    place = Place(scope=scope, broker=ME, parent=FAR, root=FAR, rank=0, round=4, depth=1, switched=switched)
    colours.rejoining.on_place(FAR, place)
    assert (colours.tree.parent, colours.tree.round) == (FAR, 4)
    assert colours.announced.stage is stage


@pytest.mark.req("CO-06", "CO-13")
def test_of_two_links_of_a_broker_to_one_unit_the_switch_changes_which_is_used_and_go_does_not() -> None:
    desk, hall = Desk(), "north/hall"
    one, other = f"{hall}/b1", f"{hall}/b2"
    desk.link(one, 500)
    desk.link(other, 2500)
    desk.hear(one, hall, 7, "north/library")
    colours = desk.network.colouring.scopes[1]
    dearer = TopologyChange(near=ME, far=one, before=500, after=3000, is_measured=True)
    back = TopologyChange(near=one, far=ME, before=500, after=1, is_measured=True)  # in the other direction
    desk.states()
    colours.announced.on_announce(TopologyPlan(7, (dearer, back)), PlanStage.ANNOUNCED, 0)
    colours.announced.prepare()
    used = [desk.states()[1].next_hops]
    colours.tree.rotate(1)
    colours.announced.on_rotation(1, 7, 0, is_switched=True)
    used.append(desk.states()[1].next_hops)
    colours.announced.on_go(7)
    used.append(desk.states()[1].next_hops)
    assert used == [{one: 1 << 7}, {other: 1 << 7}, {other: 1 << 7}]
