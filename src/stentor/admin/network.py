"""For operators: what a broker knows of the network around it, what it would do with an event, and how to change it."""

from collections.abc import Iterable, Mapping

import msgspec

from stentor.client.fabric import Fabric
from stentor.model.attribute import Value
from stentor.model.errors import Refused
from stentor.model.messages import (
    AdminReceipt,
    AdminRequest,
    AdminTask,
    ExplanationReport,
    ExplanationRequest,
    ViewReport,
    ViewRequest,
)
from stentor.model.reports.view import AccessView, Explanation, NetworkView
from stentor.model.trust.access_messages import AccessReport, AccessRequest

_WITHIN = 10.0  # seconds for an answer


async def view(fabric: Fabric, within: float = _WITHIN) -> NetworkView:
    """What the broker knows of the network around it."""
    answer = await fabric.ask(ViewRequest(fabric.token()), within)
    assert isinstance(answer, ViewReport)
    return msgspec.msgpack.decode(answer.view, type=NetworkView)


async def explain(
    fabric: Fabric,
    topic: str,
    attributes: Mapping[str, Value],
    *,
    level: int = 0,
    masks: Mapping[int, int] | None = None,
    exits: tuple[int, ...] = (),
    within: float = _WITHIN,
) -> Explanation:
    """What the broker would do with an event: of its own client, or, with masks, out of another broker's parcel."""
    known = None if masks is None else dict(masks)
    question = ExplanationRequest(
        token=fabric.token(), topic=topic, attributes=dict(attributes), level=level, masks=known, exits=exits
    )
    answer = await fabric.ask(question, within)
    assert isinstance(answer, ExplanationReport)
    return msgspec.msgpack.decode(answer.explanation, type=Explanation)


async def access(
    fabric: Fabric, principal: str = "", topic: str = "", attributes: Iterable[str] = (), within: float = _WITHIN
) -> AccessView:
    """What a principal, or we ourselves, may do on a topic; without a topic the rules that are in force."""
    question = AccessRequest(token=fabric.token(), principal=principal, topic=topic, attributes=tuple(attributes))
    answer = await fabric.ask(question, within)
    assert isinstance(answer, AccessReport)
    return msgspec.msgpack.decode(answer.report, type=AccessView)


async def order(
    fabric: Fabric,
    task: AdminTask,
    name: str = "",
    *,
    address: str = "",
    cost: float = 0.0,
    force: bool = False,
    count: int = 0,
) -> None:
    """Make the broker change; raises Refused with its reason if it does not."""
    answer = await fabric.ask(
        AdminRequest(token=fabric.token(), task=task, name=name, address=address, cost=cost, force=force, count=count),
        _WITHIN,
    )
    assert isinstance(answer, AdminReceipt)
    if answer.code is not None:
        raise Refused(answer.code, answer.reason)
