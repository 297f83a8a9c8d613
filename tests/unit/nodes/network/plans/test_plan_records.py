"""What a broker writes down of plans, so that its next life knows them."""

import msgspec
import pytest
from tests.unit.nodes.network.desk import HALL, ME, Desk

from stentor.machine import Append, Appended, Dial, Started, Step
from stentor.model.colours.plan import PlanStage, TopologyChange, TopologyPlan
from stentor.model.limits import Limits
from stentor.model.messages import AdminRequest, AdminTask
from stentor.model.scope import ScopePath
from stentor.nodes.broker.admin.admin_requests import AdminRequests
from stentor.nodes.broker.admin.order_log import LOG
from stentor.nodes.broker.broker import Broker
from stentor.nodes.network.plans.plan_work import ScopePlanWork

OTHER = "north/library/b7"
SCOPE = "north/library"
COMES = TopologyChange(near=ME, far=OTHER, before=0, after=4000, address="far:7")
PLAN = TopologyPlan(7, (COMES,))


class SlowDesk(Desk):
    """A broker whose disk is slow."""

    def remember(self, request: AdminRequest) -> None:
        self.remembered.append(request)


def work(made: Desk) -> ScopePlanWork:
    return made.network.colouring._work[0]


def tasks(made: Desk) -> list[AdminTask]:
    return [each.task for each in made.remembered]


@pytest.mark.req("CO-05", "CO-10")
def test_a_broker_is_prepared_when_its_part_of_the_plan_is_on_its_disk() -> None:
    made = SlowDesk()
    work(made).announce(PLAN)
    work(made).prepare()
    work(made).prepare()
    assert tasks(made) == [AdminTask.RECONFIGURE], "once"
    made.link(OTHER, 4000)
    assert work(made).complaint() == "has not written the plan down yet"
    made.network.colouring.on_plan_written(SCOPE, 7)
    assert "written" not in work(made).complaint()


@pytest.mark.req("CO-05")
def test_a_full_disk_is_told_as_the_reason_and_tried_again() -> None:
    made = SlowDesk()
    work(made).announce(PLAN)
    work(made).prepare()
    made.network.colouring.on_plan_written(SCOPE, 7, "no space left on device")
    assert work(made).complaint() == "cannot write the plan down: no space left on device"
    work(made).prepare()
    made.network.colouring.on_plan_written(SCOPE, 7)
    assert "write" not in work(made).complaint()


@pytest.mark.req("CO-13")
def test_what_was_measured_is_not_written_down() -> None:
    made = SlowDesk()
    made.link(HALL, 1000)
    work(made).announce(TopologyPlan(7, (TopologyChange(near=ME, far=OTHER, before=1, after=2, is_measured=True),)))
    work(made).prepare()
    assert not made.remembered


@pytest.mark.req("CO-08")
def test_a_root_group_is_written_down_by_everybody() -> None:
    made = Desk()
    work(made).announce(TopologyPlan(7, (), roots=(OTHER,)))
    work(made).prepare()
    work(made).switch()
    work(made).finish()
    assert tasks(made) == [AdminTask.RECONFIGURE, AdminTask.SET_ROOTS, AdminTask.WITHDRAW_PLAN]
    assert made.network.colouring.scopes[0].announced.root_group == (OTHER,)


def recalled(made: Desk, *requests: AdminRequest) -> None:
    AdminRequests(made.network, None, Step()).recall(map(msgspec.msgpack.encode, requests))  # type: ignore[arg-type]


def of_plan(task: AdminTask, plan: TopologyPlan = PLAN) -> AdminRequest:
    return AdminRequest(token=0, task=task, scope=SCOPE, plan=plan)


@pytest.mark.req("CO-05")
def test_a_plan_that_was_finished_meanwhile_is_finished_by_the_next_life() -> None:
    made = Desk()
    recalled(made, of_plan(AdminTask.RECONFIGURE))
    announced = made.network.colouring.scopes[0].announced
    announced.conclude(7, 0, ())
    assert announced.recalled == PLAN, "it is under way"
    announced.conclude(9, 8, (5, 7, 8))
    assert [each.address for each in made.step.end() if isinstance(each, Dial)] == ["far:7"]
    assert tasks(made) == [AdminTask.ADD_LINK, AdminTask.WITHDRAW_PLAN]
    assert announced.recalled is None


@pytest.mark.req("CO-05")
def test_a_plan_that_nobody_knows_any_more_is_undone_by_the_next_life() -> None:
    made = Desk()
    recalled(made, of_plan(AdminTask.RECONFIGURE))
    made.network.colouring.scopes[0].announced.conclude(0, 0, ())
    assert not [each for each in made.step.end() if isinstance(each, Dial)]
    assert tasks(made) == [AdminTask.WITHDRAW_PLAN]


@pytest.mark.req("CO-05", "CO-08")
def test_plans_that_are_over_are_not_recalled_and_root_groups_are() -> None:
    made = Desk()
    group = of_plan(AdminTask.SET_ROOTS, TopologyPlan(0, (), roots=(OTHER, ME)))
    recalled(made, of_plan(AdminTask.RECONFIGURE), group, of_plan(AdminTask.WITHDRAW_PLAN))
    assert made.network.colouring.scopes[0].announced.recalled is None
    assert made.network.colouring.scopes[0].announced.root_group == (OTHER, ME)


def test_a_broker_reads_its_plans_when_it_starts() -> None:
    broker = Broker(ScopePath.parse(ME), Limits())
    record = msgspec.msgpack.encode(of_plan(AdminTask.RECONFIGURE))
    effects = broker.step(1, Started({LOG: [record]}))
    for effect in effects:
        if isinstance(effect, Append):
            broker.step(2, Appended(effect.log, effect.token))
    assert broker.network.colouring.scopes[0].announced.recalled == PLAN


@pytest.mark.req("CO-05", "CO-08")
def test_own_waves_of_a_broker_that_was_started_again_decide_nothing_about_its_plan() -> None:
    made = Desk()
    recalled(made, of_plan(AdminTask.RECONFIGURE))
    colours = made.network.colouring.scopes[0]
    colours.wave.begin()
    assert colours.announced.recalled == PLAN
    assert not made.remembered


@pytest.mark.req("CO-05", "CO-08")
def test_a_root_that_was_started_again_goes_on_with_its_plan() -> None:
    made = Desk()
    recalled(made, of_plan(AdminTask.RECONFIGURE))
    announced = made.network.colouring.scopes[0].announced
    announced.take_up_recalled()
    assert (announced.plan, announced.stage, announced.recalled) == (PLAN, PlanStage.ANNOUNCED, None)


@pytest.mark.req("CO-05")
def test_a_broker_that_comes_back_after_the_switch_opens_its_links_all_the_same() -> None:
    made = Desk()
    recalled(made, of_plan(AdminTask.RECONFIGURE))
    colours = made.network.colouring.scopes[0]
    colours.announced.on_announce(PLAN, PlanStage.SWITCHED, colours.tree.round)
    assert "far:7" in made.network.outgoing.links
    colours.announced.on_go(7)
    assert tasks(made)[-1] is AdminTask.WITHDRAW_PLAN


def test_the_end_of_an_old_plan_strikes_out_that_one_and_no_other() -> None:
    made = Desk()
    newer = TopologyPlan(8, (COMES,))
    recalled(made, of_plan(AdminTask.RECONFIGURE))
    work(made).announce(newer)
    work(made).prepare()
    made.network.colouring.scopes[0].announced.conclude(8, 0, ())
    assert "written" not in work(made).complaint()
    again = Desk()
    recalled(again, of_plan(AdminTask.RECONFIGURE), of_plan(AdminTask.RECONFIGURE, newer), *made.remembered[-1:])
    assert again.network.colouring.scopes[0].announced.recalled == newer


@pytest.mark.req("CO-05", "CO-13")
def test_a_link_that_a_plan_makes_dearer_is_so_at_the_end_that_does_not_open_it_as_well_when_the_plan_ends() -> None:
    made = Desk()
    made.link(OTHER, 500)
    made.link(HALL, 1000)
    dearer = TopologyChange(near=OTHER, far=ME, before=500, after=2000)
    work(made).announce(TopologyPlan(8, (dearer,)))
    work(made).finish()
    assert {name: each.cost for name, each in made.network._neighbours.items()} == {OTHER: 2000, HALL: 1000}
    assert made.network.peers[OTHER].cost.is_intact
