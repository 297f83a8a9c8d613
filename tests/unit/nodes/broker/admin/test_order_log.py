"""The log of orders: what is in force stays, in its order, and the log does not grow with what ever was."""

from tests.unit.nodes.network.desk import Desk

from stentor.machine import Rewrite, Step
from stentor.model.colours.plan import TopologyPlan
from stentor.model.messages import AdminRequest, AdminTask
from stentor.nodes.broker.admin.admin_requests import AdminRequests
from stentor.nodes.broker.admin.order_log import LOG, decode, encode, in_force


def add(name: str, cost: float = 1.0) -> AdminRequest:
    return AdminRequest(token=1, task=AdminTask.ADD_LINK, name=name, address=f"{name}:1", cost=cost)


def remove(name: str = "", address: str = "") -> AdminRequest:
    return AdminRequest(token=1, task=AdminTask.REMOVE_LINK, name=name, address=address)


def price(name: str, cost: float) -> AdminRequest:
    return AdminRequest(token=1, task=AdminTask.SET_COST, name=name, cost=cost)


def plan(task: AdminTask, number: int, scope: str = "u") -> AdminRequest:
    return AdminRequest(token=0, task=task, scope=scope, plan=TopologyPlan(number, ()))


def test_of_a_link_the_last_removal_counts_and_what_came_after_it() -> None:
    orders = [add("b"), price("b", 3), remove("b"), add("b", 7), price("b", 8), price("b", 9), add("c")]
    assert in_force(orders) == [remove("b"), add("b", 7), price("b", 9), add("c")]


def test_a_link_is_known_by_its_address_too() -> None:
    assert in_force([add("b"), remove(address="b:1"), add("c")]) == [remove(address="b:1"), add("c")]


def test_a_plan_is_there_until_it_is_over() -> None:
    started, ended = AdminTask.RECONFIGURE, AdminTask.WITHDRAW_PLAN
    orders = [plan(started, 1), plan(ended, 1), plan(started, 2), plan(started, 3, "v")]
    assert in_force(orders) == [plan(started, 2), plan(started, 3, "v")]


def test_of_root_groups_and_members_that_are_gone_the_last_word_counts() -> None:
    groups = [plan(AdminTask.SET_ROOTS, number) for number in (1, 2)]
    gone = AdminRequest(token=1, task=AdminTask.DISMISS, name="x")
    left = AdminRequest(token=1, task=AdminTask.LEAVE)
    assert in_force([groups[0], gone, groups[1], gone, left]) == [groups[1], gone]


def test_a_long_log_of_what_is_over_is_written_again_at_the_start() -> None:
    step, made = Step(), Desk()
    short = [add("north/library/b7"), *[plan(AdminTask.SET_ROOTS, 1, made.network.context.scopes[0])] * 20]
    AdminRequests(made.network, None, step).recall(map(encode, short))  # type: ignore[arg-type]
    assert not any(isinstance(effect, Rewrite) for effect in step.end())
    AdminRequests(Desk().network, None, step).recall(map(encode, short * 20))  # type: ignore[arg-type]
    (rewritten,) = [effect for effect in step.end() if isinstance(effect, Rewrite)]
    assert rewritten.log == LOG
    assert decode(rewritten.records) == in_force(short)
