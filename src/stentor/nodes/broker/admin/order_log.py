"""The log of orders: what operators and plans made a broker do, as its next start must know it.

It is written again at a start that finds it much longer than it need be, so that it is as long as what is in force, and
not as what ever was.
"""

from collections.abc import Iterable, Sequence

import msgspec

from stentor.model.messages import AdminRequest, AdminTask

LOG = "orders"
_SPARE = 64  # orders that nobody minds: shorter logs are not worth a rewriting
_OF_PLANS = (AdminTask.RECONFIGURE, AdminTask.WITHDRAW_PLAN)
_OF_LINKS = (AdminTask.ADD_LINK, AdminTask.REMOVE_LINK, AdminTask.SET_COST)


def encode(request: AdminRequest) -> bytes:
    return msgspec.msgpack.encode(request)


def decode(records: Iterable[bytes]) -> list[AdminRequest]:
    return [msgspec.msgpack.decode(record, type=AdminRequest) for record in records]


def is_worth_rewriting(before: Sequence[AdminRequest], after: Sequence[AdminRequest]) -> bool:
    return len(before) > 2 * len(after) + _SPARE


def in_force(requests: Sequence[AdminRequest]) -> list[AdminRequest]:
    """Return the orders that still mean something, in their order.

    Plans are there until they are over. Of a link the last removal counts and what came after it: a link that was
    removed and added again may be in the file with another cost, so both orders stay.
    """
    kept: list[AdminRequest] = []
    later: set[tuple[AdminTask, str]] = set()  # what later orders do, and to whom
    for request in reversed(requests):
        if request.task is AdminTask.LEAVE:
            continue
        subjects = [each for each in _subjects(request) if each]
        if any((task, each) in later for task in _overriders(request.task) for each in subjects):
            continue
        later |= {(request.task, each) for each in subjects}
        if request.task is not AdminTask.WITHDRAW_PLAN:  # without its plan it means nothing
            kept.append(request)
    return kept[::-1]


def _subjects(request: AdminRequest) -> tuple[str, ...]:
    """Return what an order is about."""
    if request.task in _OF_LINKS:
        return request.name, request.address
    if request.task is AdminTask.DISMISS:
        return (request.name,)
    if request.plan is not None and request.task in _OF_PLANS:
        plan = f"{request.scope} {request.plan.number}"
        return (plan, request.scope or "the network") if request.task is AdminTask.RECONFIGURE else (plan,)
    return (request.scope or "the network",)


def _overriders(task: AdminTask) -> tuple[AdminTask, ...]:
    """Return the orders about the same that leave nothing of an earlier one."""
    match task:
        case AdminTask.ADD_LINK:
            return (AdminTask.REMOVE_LINK, AdminTask.ADD_LINK)
        case AdminTask.SET_COST:
            return (AdminTask.REMOVE_LINK, AdminTask.SET_COST)
        case AdminTask.RECONFIGURE:
            return (AdminTask.RECONFIGURE, AdminTask.WITHDRAW_PLAN)
        case _:
            return (task,)
