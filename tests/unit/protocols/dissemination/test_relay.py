"""Event routing at one broker, north/library/b1: what it hands to whom, and what it lets in."""

import msgspec
import numpy as np
import pytest
from tests.unit.protocols.dissemination.routing_states import states_of

from stentor.model.attribute import Kind, Schema
from stentor.model.context import Context
from stentor.model.errors import FrameError
from stentor.model.filter import Filter
from stentor.model.ids import CatenationNumber, Incarnation, LinkId, PublisherId, SubscriptionId, topic_id
from stentor.model.limits import Limits
from stentor.model.messages import SchemaDefinition, Subscription, Topic
from stentor.model.routing_state import RoutingTables
from stentor.model.scope import ScopePath
from stentor.policies.channel import Channel, ContentFilter
from stentor.policies.scope_policies import ScopePolicies, TopicPolicy
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.mask_plans import NextHop
from stentor.protocols.dissemination.relay import Relay
from stentor.protocols.dissemination.routes import FlowTable
from stentor.protocols.dissemination.subscriptions import SubscriptionList, Subscriptions
from stentor.wire import block
from stentor.wire.block import Block
from stentor.wire.parcel import MOST_HOPS, Stamp, head, label, parse, read_ways, ways_of, wrap
from stentor.wire.run import split

SCHEMA = Schema(("n",), (Kind.INTEGER,))
TOPIC = topic_id("t")
B2, B3, HALL, SOUTH = 1, 2, 1, 1  # member numbers: of brokers, of clusters, of the outermost units; our own is 0
LARGE = 1 << 20
MATCHINGS = bytes((0, 2, 1, 0, 0, 0, 0, 0))  # so far, by level


def events(*numbers: int, first: int = 1) -> bytes:
    origin = block.Origin(TOPIC, PublisherId(9), Incarnation(1), CatenationNumber(first), 5)
    return block.encode(origin, SCHEMA, [list(numbers)], [b"%d" % number for number in numbers])


class Desk:
    """A relay with two neighbours in its cluster and one in another, behind which the south is."""

    def __init__(self, policy: str = "content", channel: Channel | None = None) -> None:
        limits, context = Limits(), Context(ScopePath.parse("north/library/b1"))
        policies = ScopePolicies(context.scopes, {"": policy})
        self.forwarder: Forwarder[Outbox] = Forwarder(limits, {}, policies)
        self.relay: Relay[Outbox] = Relay(context, self.forwarder)
        self.boxes = {
            name: Outbox(LinkId(number), LARGE) for number, name in enumerate(("b2", "b3", "hall", "mine"), 1)
        }
        self.hops = {
            "b2": NextHop("north/library/b2", 0, self.boxes["b2"], None),
            "b3": NextHop("north/library/b3", 0, self.boxes["b3"], None),
            "hall": NextHop("north/hall/b1", 1, self.boxes["hall"], channel),
        }
        self.context = context
        self.reach(b2={0: 1 << B2}, b3={0: 1 << B3}, hall={1: 1 << HALL, 2: 1 << SOUTH})
        self.subscriptions = Subscriptions(self.forwarder.table, limits)
        self.flows: FlowTable[Outbox] = FlowTable(9)
        self.forwarder.define_topic(self.flows, Topic(TOPIC, "t"))
        self.forwarder.define_schema(self.flows, SchemaDefinition(SCHEMA))

    def reach(self, **masks: dict[int, int]) -> None:
        """These members are reached by these neighbours."""
        by_name = {self.hops[hop].name: each for hop, each in masks.items()}
        states = states_of(self.context, self.forwarder.table.interests, [1, 1, 1], by_name)
        self.relay.adopt(RoutingTables.uniform(states), {hop.name: hop for hop in self.hops.values()})

    def hold(self, masks: dict[int, int]) -> None:
        """From now on events wait for these members, if they get their colours here."""
        tables = self.relay._tables
        held = RoutingTables(tables.current, tables.sides, tables._compute, (masks,) * 4)
        self.relay.adopt(held, {hop.name: hop for hop in self.hops.values()})

    def wants(self, level: int, member: int, where: str = "") -> None:
        self.forwarder.table.index(True, 3, level, member, "t", Filter(where) if where else None)

    def client(self, where: str = "") -> None:
        request = Subscription(SubscriptionId(1), "t", where)
        self.subscriptions.subscribe(SubscriptionList(), self.boxes["mine"], request)

    def publish(self, data: bytes) -> None:
        runs, position = split(data, 0, self.flows.routes)
        if position < len(data):
            self.forwarder.open_flow(self.flows, data[4:32], PublisherId(9))
            runs, position = split(data, 0, self.flows.routes)
        assert position == len(data)
        self.relay.publish(data, runs)

    def receive(self, hop: str, parcel: bytes) -> int:
        return self.relay.receive(self.hops[hop], self.flows, parcel, 0, LARGE)

    def sent(self, name: str) -> list[tuple[dict[int, int] | list[dict[int, int]], list[bytes]]]:
        """What lies ready for a neighbour: masks, the same for all events or for each, and bodies."""
        found: list[tuple[dict[int, int] | list[dict[int, int]], list[bytes]]] = []
        for cargo in self.boxes[name].fresh:
            data = bytes(cargo[0])
            parcel = parse(data, 0)
            bodies = []
            position = parcel.start
            while position < parcel.end:
                length = int.from_bytes(data[position : position + 4], "little")
                bodies += [bytes(body) for body in Block(data[position : position + length], SCHEMA).bodies()]
                position += length
            assert len(bodies) == parcel.events
            if parcel.masks is not None:
                found.append((parcel.masks, bodies))
            else:
                assert parcel.arrays is not None
                masks = [
                    {level: int(each[row]) for level, each in parcel.arrays.items()} for row in range(parcel.events)
                ]
                found.append((masks, bodies))
        return found

    def delivered(self) -> list[bytes]:
        return [bytes(body) for cargo in self.boxes["mine"].fresh for body in Block(cargo[0], SCHEMA).bodies()]


def test_an_event_that_nobody_wants_goes_nowhere() -> None:
    desk = Desk()
    desk.publish(events(1))
    assert not any(desk.sent(name) for name in desk.hops)


@pytest.mark.req("GE-08", "GE-09")
def test_masks_are_divided_by_next_hop() -> None:
    desk = Desk()
    for level, member in ((0, B2), (1, HALL), (2, SOUTH)):
        desk.wants(level, member)
    desk.publish(events(1, 2))
    assert desk.sent("b2") == [({0: 1 << B2}, [b"1", b"2"])]
    assert desk.sent("hall") == [({1: 1 << HALL, 2: 1 << SOUTH}, [b"1", b"2"])]  # once, for both
    assert desk.sent("b3") == []


def test_each_neighbour_gets_what_is_for_it_in_order() -> None:
    desk = Desk()
    desk.wants(0, B2, "n > 2")
    desk.wants(1, HALL, "n < 3")
    desk.wants(2, SOUTH)
    desk.publish(events(1, 2, 3, 4))
    assert desk.sent("b2") == [({0: 1 << B2}, [b"3", b"4"])]
    north, south = 1 << HALL, 1 << SOUTH
    masks = [{1: north, 2: south}, {1: north, 2: south}, {1: 0, 2: south}, {1: 0, 2: south}]
    assert desk.sent("hall") == [(masks, [b"1", b"2", b"3", b"4"])]


@pytest.mark.req("GE-09")
def test_a_relay_hands_on_without_looking() -> None:
    desk = Desk()
    desk.wants(0, B3)  # what a relay would find if it matched
    desk.client()
    inner = events(1, 2)
    assert desk.receive("b2", head(label({1: 1 << HALL}), len(inner), 2, 3, 5, MATCHINGS) + inner) == 0
    assert desk.sent("hall") == [({1: 1 << HALL}, [b"1", b"2"])]
    parcel = parse(bytes(desk.boxes["hall"].fresh[0][0]), 0)
    assert (parcel.hops, parcel.matchings[1]) == (4, 2)
    assert desk.sent("b3") == []
    assert desk.delivered() == []
    assert desk.relay.matched == 0


@pytest.mark.req("CO-06", "CO-16")
def test_below_the_level_of_a_link_a_parcel_gets_the_colours_of_whoever_takes_it_in() -> None:
    desk = Desk()
    desk.reach(b2={0: 1 << B2, 2: 1 << SOUTH}, hall={1: 1 << HALL})
    tables = desk.relay._tables
    coloured = RoutingTables((2, 1, 0), tables.sides, tables._compute, tables.held)
    desk.relay.adopt(coloured, {hop.name: hop for hop in desk.hops.values()})
    inner = events(1)
    for came, goes, masks, told, kept in (
        ("hall", "b2", {2: 1 << SOUTH}, (0, 2, 1), (2, 2, 1)),  # in transit: ours inside the cluster, theirs outside
        ("b2", "hall", {1: 1 << HALL}, (1, 2, 1), (0, 2, 1)),  # nobody outside knows what our colours mean
    ):
        address = label(masks, Stamp(ways_of(told, desk.hops[came].level)))
        desk.receive(came, head(address, len(inner), 1, 0, 5, MATCHINGS) + inner)
        parcel = parse(bytes(desk.boxes[goes].fresh[0][0]), 0)
        assert read_ways(parcel.ways).colours[:3] == kept


@pytest.mark.req("GE-09")
def test_who_lets_an_event_into_the_cluster_matches_it_for_the_brokers_inside() -> None:
    desk = Desk()
    desk.wants(0, B3, "n = 2")
    desk.client("n = 1")
    inner = events(1, 2)
    assert desk.receive("hall", head(label({1: 1, 2: 1 << SOUTH}), len(inner), 2, 0, 5, MATCHINGS) + inner) == 2
    assert desk.sent("b3") == [({0: 1 << B3}, [b"2"])]
    assert desk.delivered() == [b"1"]
    parcel = parse(bytes(desk.boxes["b3"].fresh[0][0]), 0)
    assert parcel.matchings[0] == 3  # one more than for the cluster
    assert desk.relay.most_matchings == 3


def test_the_outer_levels_go_on_while_the_inner_are_matched() -> None:
    desk = Desk()
    desk.wants(0, B2)
    inner = events(1)
    desk.receive("hall", head(label({1: 1}), len(inner), 1, 0, 5, bytes(8)) + inner)
    assert desk.sent("b2") == [({0: 1 << B2}, [b"1"])]
    assert desk.sent("hall") == []  # our own bit is taken out


def test_a_parcel_for_different_members_is_taken_apart() -> None:
    desk = Desk()
    desk.client()
    masks = {0: np.array([1, 1 << B3, 1 | 1 << B3], np.uint64)}
    assert desk.receive("b2", wrap(masks, [events(1, 2, 3)], 3, 0, 5, bytes(8))) == 2
    assert desk.delivered() == [b"1", b"3"]
    assert desk.sent("b3") == [({0: 1 << B3}, [b"2", b"3"])]


def test_a_mixed_parcel_is_matched_only_as_far_as_it_enters() -> None:
    desk = Desk()
    desk.wants(0, B2)
    masks = {1: np.array([1, 0], np.uint64), 2: np.array([0, 1 << SOUTH], np.uint64)}
    desk.reach(b2={0: 1 << B2, 2: 1 << SOUTH})
    assert desk.receive("hall", wrap(masks, [events(1, 2)], 2, 0, 5, bytes(8))) == 1
    assert desk.sent("b2") == [([{0: 1 << B2, 2: 0}, {0: 0, 2: 1 << SOUTH}], [b"1", b"2"])]


@pytest.mark.req("SC-02")
def test_flooding_sends_everything_to_everybody() -> None:
    desk = Desk("flooding")
    desk.publish(events(1))
    assert desk.sent("b2") == [({0: 1 << B2}, [b"1"])]
    assert desk.sent("hall") == [({1: 1 << HALL, 2: 1 << SOUTH}, [b"1"])]


@pytest.mark.req("SC-04")
def test_a_channel_lets_pass_what_its_filters_admit() -> None:
    desk = Desk(channel=Channel([ContentFilter("n > 1"), ContentFilter("n < 4")]))
    desk.wants(1, HALL)
    desk.publish(events(1, 2, 3, 4))
    desk.publish(events(9, first=5))
    assert desk.sent("hall") == [({1: 1 << HALL}, [b"2", b"3"])]


def test_what_a_neighbour_does_not_know_is_defined_once_and_first() -> None:
    desk = Desk()
    desk.wants(0, B2)
    desk.publish(events(1))
    desk.publish(events(2, first=2))
    ready = b"".join(map(bytes, desk.boxes["b2"].release()))
    assert ready.count(b"topic") == 1
    assert ready.count(b"schema") == 1


@pytest.mark.parametrize("where", ["", "n > 0"])
def test_events_whose_sender_knows_other_members_go_on_and_are_counted_as_foreign(where: str) -> None:
    """With a filter the parcel has a mask for each event."""
    sender, relay = Desk(), Desk()
    sender.wants(1, HALL)
    sender.wants(2, SOUTH, where)
    sender.publish(events(0, 1))
    parcel = bytes(sender.boxes["hall"].fresh[0][0])
    for desk in (sender, relay):
        desk.hops["far"] = NextHop("south/lab/b1", 1, desk.boxes["b3"], None)
    relay.receive("far", parcel)
    assert relay.relay.foreign == 0
    states = [msgspec.structs.replace(state, numbers={"north": 4}) for state in relay.relay.states]
    relay.relay.adopt(RoutingTables.uniform(states), {hop.name: hop for hop in relay.hops.values()})
    relay.receive("far", parcel)
    relay.receive("far", parcel)
    assert relay.relay.foreign == 4
    assert len(relay.sent("hall")) == 3, "it goes by what the relay knows"


def test_events_that_went_in_circles_end() -> None:
    desk = Desk()
    inner = events(1)
    desk.receive("b2", head(label({1: 1 << HALL}), len(inner), 1, MOST_HOPS, 5, bytes(8)) + inner)
    assert desk.sent("hall") == []
    assert desk.relay.circling == 1


def test_events_for_whom_nobody_can_be_reached_are_counted() -> None:
    desk = Desk()
    inner = events(1)
    desk.receive("b2", head(label({0: 1 << 40}), len(inner), 1, 0, 5, bytes(8)) + inner)
    assert desk.relay.stranded == 1


def test_members_that_no_neighbour_leads_to_are_counted_beside_those_that_are_reached() -> None:
    desk = Desk()
    inner = events(1, 2)
    masks = {1: 1 << HALL | 1 << 40, 2: 1 << 41}
    desk.receive("b2", head(label(masks), len(inner), 2, 0, 5, bytes(8)) + inner)
    assert desk.sent("hall") == [({1: 1 << HALL}, [b"1", b"2"])]
    assert desk.relay.stranded == 4


@pytest.mark.req("CO-12")
def test_what_waited_on_a_link_that_is_lost_goes_on_by_others() -> None:
    desk = Desk()
    inner = events(1, 2)
    desk.relay.reroute([(0, head(label({0: 1 << B2}), len(inner), 2, 3, 5, bytes(8)) + inner, 2)])
    each = {0: np.array([1 << B2, 0], np.uint64), 1: np.array([0, 1 << HALL], np.uint64)}
    desk.relay.reroute([(0, wrap(each, [inner], 2, 3, 5, bytes(8)), 2)])
    assert desk.sent("b2") == [({0: 1 << B2}, [b"1", b"2"]), ({0: 1 << B2}, [b"1"])]
    assert desk.sent("hall") == [({1: 1 << HALL}, [b"2"])]
    assert (desk.relay.rerouted, desk.relay.stranded) == (4, 0)


def test_what_nobody_can_take_over_is_counted_as_stranded() -> None:
    desk = Desk()
    origin = block.Origin(topic_id("u"), PublisherId(9), Incarnation(1), CatenationNumber(1), 5)
    unknown = block.encode(origin, SCHEMA, [[1]], [b"x"])
    desk.relay.reroute([(0, head(label({0: 1 << B2}), len(unknown), 1, 0, 5, bytes(8)) + unknown, 1)])
    inner = events(1)
    desk.relay.reroute([(0, head(label({0: 1 << 40}), len(inner), 1, 0, 5, bytes(8)) + inner, 1)])
    assert desk.relay.stranded == 2


@pytest.mark.req("CO-12")
@pytest.mark.parametrize("where", ["", "n > 1"])
def test_what_waits_for_a_plan_goes_on_although_its_publisher_has_left(where: str) -> None:
    desk = Desk()
    desk.wants(0, B2, where)
    desk.hold({0: 1 << B2})
    desk.publish(events(1, 2))
    assert desk.sent("b2") == []
    desk.forwarder.drop(desk.flows)
    desk.hold({})
    assert [body for _, bodies in desk.sent("b2") for body in bodies] == ([b"2"] if where else [b"1", b"2"])
    assert not desk.forwarder.table.topics, "nobody needs to know any longer what it was about"


@pytest.mark.parametrize("levels", [{0: 1}, {3: 1}], ids=["below the link", "above the network"])
def test_a_parcel_for_scopes_that_are_not_shared_is_refused(levels: dict[int, int]) -> None:
    inner = events(1)
    with pytest.raises(FrameError, match="do not share"):
        Desk().receive("hall", head(label(levels), len(inner), 1, 0, 5, bytes(8)) + inner)


def test_a_parcel_that_lies_about_its_events_is_refused() -> None:
    inner = events(1, 2)
    with pytest.raises(FrameError, match="another number"):
        Desk().receive("b2", head(label({0: 1}), len(inner), 3, 0, 5, bytes(8)) + inner)
    with pytest.raises(FrameError, match="whole frames"):
        Desk().receive("b2", head(label({0: 1}), len(inner) - 1, 2, 0, 5, bytes(8)) + inner[:-1])


def test_a_parcel_with_unknown_topics_is_refused() -> None:
    origin = block.Origin(topic_id("u"), PublisherId(9), Incarnation(1), CatenationNumber(1), 5)
    inner = block.encode(origin, SCHEMA, [[1]], [b"x"])
    with pytest.raises(FrameError, match="not defined"):
        Desk().receive("b2", head(label({1: 1 << HALL}), len(inner), 1, 0, 5, bytes(8)) + inner)


def test_a_large_run_leaves_in_several_parcels() -> None:
    desk = Desk()
    desk.wants(0, B2)
    origin = block.Origin(TOPIC, PublisherId(9), Incarnation(1), CatenationNumber(1), 5)
    frame = block.encode(origin, SCHEMA, [[1]], [bytes(100_000)])
    desk.publish(frame * 7)
    assert [len(bodies) for _, bodies in desk.sent("b2")] == [2, 2, 2, 1]


def test_plans_stay_as_long_as_states_and_neighbours_are_as_before() -> None:
    desk = Desk()
    parcel = head(label({1: 1 << HALL}), len(events(1)), 1, 0, 5, bytes(8)) + events(1)
    desk.receive("b2", parcel)
    plans = desk.relay._plans
    assert desk.relay._by_label
    desk.reach(b2={0: 1 << B2}, b3={0: 1 << B3}, hall={1: 1 << HALL, 2: 1 << SOUTH})
    assert desk.relay._plans is plans, "equal states lead to the same plans"
    desk.hops["hall"] = NextHop("north/hall/b1", 1, desk.boxes["b3"], None)  # another link to the same broker
    desk.reach(b2={0: 1 << B2}, b3={0: 1 << B3}, hall={1: 1 << HALL, 2: 1 << SOUTH})
    assert not desk.relay._by_label
    desk.receive("b2", parcel)
    assert len(desk.sent("hall")) == len(desk.sent("b3")) == 1


@pytest.mark.req("SC-02")
def test_a_topic_has_the_policy_that_the_nearest_scope_has_for_it() -> None:
    desk = Desk()
    flooded = TopicPolicy(scope="", topics="t", forwarding="flooding")
    desk.forwarder.table._policies = ScopePolicies(desk.context.scopes, topics=(flooded,))
    desk.publish(events(1))
    assert [masks for masks, _ in desk.sent("b2")] == [{0: 1 << B2}]
    quiet = Desk()
    quiet.publish(events(1))
    assert quiet.sent("b2") == []


@pytest.mark.req("CO-01")
@pytest.mark.parametrize("is_damaged", [True, False])
def test_what_waits_although_nobody_has_to_wait_leaves_with_the_next_round(is_damaged: bool) -> None:
    desk = Desk()
    desk.wants(0, B2)
    desk.relay.held.by_level = ({}, *({0: 1 << B2} for _ in range(3)))
    desk.publish(events(1, 2))
    assert desk.relay.held.waiting == 2
    if is_damaged:
        desk.relay.held.by_level = ({},) * 4
    desk.reach(b2={0: 1 << B2}, b3={0: 1 << B3}, hall={1: 1 << HALL, 2: 1 << SOUTH})
    assert desk.relay.held.waiting == 0
    assert sum(run[1] for run in desk.boxes["b2"].fresh) == 2
