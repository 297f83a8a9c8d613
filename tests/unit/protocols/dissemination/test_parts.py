"""Parcels on their way through a broker."""

import numpy as np
from tests.unit.protocols.dissemination.routing_states import states_of

from stentor.model.attribute import EMPTY_SCHEMA
from stentor.model.context import Context
from stentor.model.ids import NO_SCHEMA, CatenationNumber, Incarnation, LinkId, PublisherId, TopicId, topic_id
from stentor.model.limits import Limits
from stentor.model.messages import Topic
from stentor.model.routing_state import RoutingTables
from stentor.model.scope import ScopePath
from stentor.policies.scope_policies import ScopePolicies
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.mask_plans import NextHop
from stentor.protocols.dissemination.relay import Relay
from stentor.protocols.dissemination.routes import FlowTable
from stentor.wire.block import Origin, encode
from stentor.wire.parcel import contents_of, wrap


def test_every_run_of_a_parcel_that_enters_a_unit_is_introduced() -> None:
    context = Context(ScopePath.parse("u1/b1"))
    forwarder: Forwarder[Outbox] = Forwarder(Limits(), {}, ScopePolicies(context.scopes))
    relay = Relay(context, forwarder)
    flows: FlowTable[Outbox] = FlowTable(1)
    topics = {name: topic_id(name) for name in ("x", "y")}
    frames = []
    for name, number in topics.items():
        forwarder.define_topic(flows, Topic(number, name))
        forwarder.table.index(True, context.depth, 0, 1, name, None)  # b2 wants each by a wish of its own
        origin = Origin(number, PublisherId(1), Incarnation(1), CatenationNumber(1), 0)
        frames.append(encode(origin, EMPTY_SCHEMA, [], [b"body"]))
    onward = Outbox(LinkId(2), 1 << 20)
    mate = NextHop("u1/b2", 0, onward, None)
    relay.adopt(
        RoutingTables.uniform(states_of(context, forwarder.table.interests, [1, 1], {mate.name: {0: 2}})),
        {mate.name: mate},
    )
    inner = b"".join(frames)
    masks = {1: np.array([1, 1], np.uint64)}
    data = wrap(masks, [inner], 2, 0, contents_of(inner, 0, len(inner))[0], bytes(8))
    relay.receive(NextHop("u2/b1", 1, Outbox(LinkId(3), 1 << 20), None), flows, data, 0, 1 << 20)
    assert len(onward.fresh) == 2
    assert {TopicId(number) for number in topics.values()} <= onward.defined
    assert NO_SCHEMA not in onward.defined
