"""A hop that only passes a parcel on, against one where it enters a unit and is matched: processor time of each."""

from collections.abc import Callable
from random import Random

from benchmarks.matching import clock
from stentor.model.attribute import Kind, Schema, Value
from stentor.model.context import Context
from stentor.model.filter import Filter
from stentor.model.ids import CatenationNumber, Incarnation, LinkId, PublisherId, topic_id
from stentor.model.limits import Limits
from stentor.model.messages import SchemaDefinition, Topic
from stentor.model.routing_state import RoutingState, RoutingTables
from stentor.model.scope import ScopePath
from stentor.policies.scope_policies import ScopePolicies
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.mask_plans import NextHop
from stentor.protocols.dissemination.relay import Relay
from stentor.protocols.dissemination.routes import FlowTable
from stentor.wire import block, parcel

BATCHES = (1, 100)
FILTERS = (100, 1_000, 10_000)
MEMBERS = 64
SYMBOLS = 100
PARCELS = 64  # different ones, so that no cache of a processor holds all
TOPIC = "market/quotes"
SCHEMA = Schema(("price", "symbol", "volume"), (Kind.DECIMAL, Kind.STRING, Kind.INTEGER))
_LARGEST = 1 << 21


class Bench:
    """A broker's relay between two neighbours in other clusters and 63 in its own."""

    def __init__(self, filters: int) -> None:
        self._dice = Random(1)
        context = Context(ScopePath.parse("a/x/0"))
        self._forwarder: Forwarder[Outbox] = Forwarder(Limits(), {}, ScopePolicies(context.scopes))
        self._boxes = [Outbox(LinkId(number), 1 << 40) for number in range(4)]
        self._relay: Relay[Outbox] = Relay(context, self._forwarder)
        inside = NextHop("a/x/1", 0, self._boxes[1], None)
        onward = NextHop("a/z/0", 1, self._boxes[2], None)
        everyone = (1 << MEMBERS) - 2
        # of our own level all are behind one neighbour; 2 is another cluster, and so on
        interests, scopes = self._forwarder.table.interests, context.scopes
        states = [
            RoutingState(
                scope=scopes[0], interests=interests, own=1, next_hops={inside.name: everyone}, members=everyone
            ),
            RoutingState(scope=scopes[1], interests=interests, own=1, next_hops={onward.name: 4}, members=4),
            RoutingState(scope=scopes[2], interests=interests, own=1),
        ]
        self._relay.adopt(RoutingTables.uniform(states), {hop.name: hop for hop in (inside, onward)})
        self._from = NextHop("a/y/0", 1, self._boxes[3], None)
        self._flows: FlowTable[Outbox] = FlowTable(LinkId(9))
        self._forwarder.define_topic(self._flows, Topic(topic_id(TOPIC), TOPIC))
        self._forwarder.define_schema(self._flows, SchemaDefinition(SCHEMA))
        for number in range(filters):
            low = self._dice.uniform(0, 90)
            where = f"symbol = 'S{self._dice.randrange(SYMBOLS)}' AND price >= {low:.2f} AND price <= {low + 10:.2f}"
            self._forwarder.table.index(True, context.depth, 0, number % MEMBERS, TOPIC, Filter(where))

    def parcels(self, batch: int, mask: int) -> list[bytes]:
        """Parcels of `batch` events for the members of a mask of level 1."""
        return [self._parcel(batch, mask, number) for number in range(PARCELS)]

    def _parcel(self, batch: int, mask: int, number: int) -> bytes:
        first = CatenationNumber(number * batch)
        origin = block.Origin(topic_id(TOPIC), PublisherId(7), Incarnation(1), first, 1)
        prices: list[Value] = [self._dice.uniform(0, 100) for _ in range(batch)]
        symbols: list[Value] = [f"S{self._dice.randrange(SYMBOLS)}" for _ in range(batch)]
        volumes: list[Value] = [self._dice.randrange(1000) for _ in range(batch)]
        frame = block.encode(origin, SCHEMA, [prices, symbols, volumes], [bytes(100)] * batch)
        contents = parcel.contents_of(frame, 0, len(frame))[0]
        return parcel.head(parcel.label({1: mask}), len(frame), batch, 1, contents, bytes(8)) + frame

    def receiver(self) -> Callable[[bytes], None]:
        relay, came, flows, boxes = self._relay, self._from, self._flows, self._boxes

        def receive(data: bytes) -> None:
            relay.receive(came, flows, data, 0, _LARGEST)
            for box in boxes:
                box.fresh.clear()

        return receive


def measure(seconds: float) -> list[dict[str, float]]:
    """Microseconds of processor time for a parcel, by batch size and number of filters."""
    rows = []
    for filters in FILTERS:
        bench = Bench(filters)
        for batch in BATCHES:
            relayed, entering = bench.parcels(batch, 4), bench.parcels(batch, 1)
            receive = bench.receiver()
            for data in (*relayed, *entering):
                receive(data)  # definitions and plans belong to a link's beginning
            relay = 1e6 / clock.rate(receive, relayed, seconds)
            matching = 1e6 / clock.rate(receive, entering, seconds)
            rows.append(
                {
                    "filters": filters,
                    "batch": batch,
                    "relay_us": relay,
                    "matching_us": matching,
                    "ratio": relay / matching,
                }
            )
    return rows
