"""The forwarder: event frames come in as chunks and leave as slices. It never decodes what it only forwards.

A flow is a topic, a publisher and a schema. Everything that can be wrong with a frame is wrong with its flow, so it is
found when the flow is first met on a link; after that a frame costs a comparison.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from stentor.machine import Buffer
from stentor.matching.pairs.pair_index import Events
from stentor.model.attribute import EMPTY_SCHEMA, Schema, check_schema
from stentor.model.errors import FrameError, InvalidInput, Refusal, TopicError
from stentor.model.ids import NO_SCHEMA, PublisherId, SchemaId, SubscriptionId, TopicId, topic_id
from stentor.model.limits import Limits
from stentor.model.messages import SchemaDefinition, Topic
from stentor.model.topic import check_topic
from stentor.model.wording.count import counted
from stentor.policies.scope_policies import ScopePolicies
from stentor.protocols.dissemination.broker_subscription import BrokerSubscription
from stentor.protocols.dissemination.filtered_subscriptions import MatchedSubscriptions, Places
from stentor.protocols.dissemination.routes import FlowTable, Route, RouteTable, Sink
from stentor.wire import head
from stentor.wire.block_view import block_views
from stentor.wire.run import cut

_MOST_SCHEMAS = 65_536
_SHARE = 64  # of a link's flows, one part is forgotten when there are too many: all at once would take long
_AT_ONCE = 256  # flows, topics and schemas that leave with their peer
_CHECKED = 250  # schemas that are looked at at once, twice a heartbeat: some milliseconds
_NOBODY: Mapping[Any, Mapping[SubscriptionId, int]] = {}


D = TypeVar("D", bound=Sink)


class Forwarder(Generic[D]):
    """Applies routes to runs. Destinations that get events enter the set `unflushed` of whoever sends what they got."""

    def __init__(
        self,
        limits: Limits,
        unflushed: dict[D, None],
        policies: ScopePolicies | None = None,
        on_change: Callable[[BrokerSubscription[D], bool], None] | None = None,
    ) -> None:
        self.table: RouteTable[D] = RouteTable(policies, on_change)
        self.schemas: dict[SchemaId, Schema] = {NO_SCHEMA: EMPTY_SCHEMA}
        self.unflushed = unflushed
        self.unrouted = 0  # events that nobody wanted
        self._limits = limits
        self.leaving: deque[FlowTable[D]] = deque()  # of peers that are gone
        self._definers: Counter[SchemaId] = Counter()  # peers that told us the meaning of a schema's number
        self._checked = 0  # the place of the schema that is looked at next

    def forward(self, data: bytes, runs: list[tuple[Route[D], int, int, int]]) -> int:
        """Hand each run to everyone on its route; return how many events there were."""
        total = 0
        small = len(data) >> 2
        routes: dict[Route[D], None] = {}
        try:
            for route, start, end, count in runs:
                total += count
                route.events += count
                routes[route] = None
                piece = data[start:end] if end - start < small else cut(data, start, end)
                matched = MatchedSubscriptions(self.table.slots) if route.filtered else None
                cargo = (piece, count, route.takers, _NOBODY if matched is None else matched)
                for sink in route.sinks:
                    sink(cargo)
                if matched is not None:
                    self._choose(route, data, start, end, matched)
                elif not route.sinks:
                    self.unrouted += count
        finally:  # what went before a malformed block is on its way
            for route in routes:
                self.unflushed.update(route.everything)
        return total

    def _choose(self, route: Route[D], data: bytes, start: int, end: int, choice: MatchedSubscriptions[D]) -> None:
        """Match a run with the audiences, and hand out what was chosen."""
        slots = self.table.slots
        for view in block_views(data, start, end, self.schemas):
            matched = [filtered.match(view) for filtered in route.filtered]
            events, places = matched[0] if len(matched) == 1 else _joined(matched)
            if not len(events):
                continue
            if route.everything:
                choice.add(places)
            picked: dict[bytes, list[tuple[Buffer, int]]] = {}  # many may want the same
            for destination, rows in slots.share(events, places, view.count):
                if destination in route.everything:
                    continue
                key = rows.tobytes()
                if key not in picked:
                    picked[key] = view.pick(rows)
                first = 0
                for frame, count in picked[key]:
                    self._introduce(destination, frame)
                    some = places
                    if count < len(rows):
                        some = places[(events >= rows[first]) & (events <= rows[first + count - 1])]
                    destination.fresh.append((frame, count, _NOBODY, MatchedSubscriptions(slots).add(some)))
                    first += count
                self.unflushed[destination] = None

    def schema_of(self, data: bytes, position: int) -> Schema:
        """Return the schema of the frame that begins there, whose flow is known."""
        return self.schemas[head.schema_of(data, position)]

    def _introduce(self, destination: D, frame: Buffer) -> None:
        """Define what a frame is about, to a destination that never got such a frame."""
        self.define(destination, head.topic_of(frame), head.schema_of(frame))

    def define(self, destination: D, topic: TopicId, schema: SchemaId) -> None:
        """Tell a destination what it needs to know of a topic and a schema, if it does not know it yet."""
        if topic not in destination.defined:
            destination.define(topic, Topic(topic, self.table.topics[topic].name))
        if schema and schema not in destination.defined:
            destination.define(schema, self._definition(schema))

    def _definition(self, number: SchemaId) -> SchemaDefinition:
        """Return what a number means. Damage is not passed on: it is forgotten, and the link that uses it ends."""
        schema = self.schemas[number]
        if schema.id != number:
            del self.schemas[number]
            raise FrameError(Refusal.SCHEMA, "events of a schema that this node has forgotten: define it again")
        return SchemaDefinition(schema)

    def open_flow(
        self,
        flows: FlowTable[D],
        flow: bytes,
        publisher: PublisherId | None,
        admits: Callable[[TopicId], bool] | None = None,
    ) -> None:
        """A flow is new on this link: work out its route, and define it to everyone who takes all of it.
        Whoever is not a `publisher` itself, a broker, may bring anybody's events. A topic that is not admitted has a
        route to nobody.
        """
        if head.flags_of_flow(flow) & ~head.FLAGS or head.reserved_of_flow(flow):
            raise FrameError(Refusal.PROTOCOL, "an events frame with flags or hop bits that are not a client's to set")
        if publisher is not None and head.publisher_of_flow(flow) != publisher:
            raise FrameError(Refusal.FORGED, "events in the name of another publisher")
        topic = head.topic_of_flow(flow)
        if topic not in flows.topics:
            raise FrameError(Refusal.TOPIC, f"events on topic number {topic:016x}, which was not defined before")
        schema = head.schema_of_flow(flow)
        if schema and schema not in flows.schemas:
            raise FrameError(Refusal.SCHEMA, "events of a schema that was not defined before")
        if len(flows.routes) >= self._limits.flows:
            self.table.forget_flows(flows, 1 + self._limits.flows // _SHARE)
        if admits is not None and not admits(topic):
            self.table.deny(flows, flow)
            return
        for destination in self.table.remember(flows, flow).everything:
            destination.define(topic, Topic(topic, self.table.topics[topic].name))
            if schema:
                destination.define(schema, self._definition(schema))

    def define_topic(self, flows: FlowTable[D], message: Topic, most: int | None = None) -> None:
        """A peer says what a topic's number means; a client may do so for `most` topics."""
        try:
            check_topic(message.name)
        except TopicError as error:
            raise FrameError(Refusal.TOPIC, str(error)) from None
        if topic_id(message.name) != message.id:
            raise FrameError(Refusal.TOPIC, f"{message.id:016x} is not the number of topic {message.name!r}")
        topics = self.table.topics
        known = topics.get(message.id)
        if known is not None and known.name != message.name:
            raise FrameError(Refusal.TOPIC, f"topics {known.name!r} and {message.name!r} have one number: rename one")
        if known is None and len(topics) >= self._limits.topics:
            raise FrameError(Refusal.TOO_MANY, f"this node knows {counted(self._limits.topics, 'topic')} already")
        if most is not None and len(flows.topics) >= most and message.id not in flows.topics:
            raise FrameError(
                Refusal.TOO_MANY,
                f"a client has {counted(most, 'topic')} on one link: say in attributes what differs between events, "
                "close the link now and then, or raise topics_per_client in [limits]",
            )
        self.table.define(flows, message.id, message.name)

    def define_schema(self, flows: FlowTable[D], message: SchemaDefinition, most: int | None = None) -> None:
        """A peer says what a schema's number means; a client may do so for `most` schemas."""
        try:
            schema = check_schema(message.schema)
        except InvalidInput as error:
            raise FrameError(Refusal.SCHEMA, str(error)) from None
        known = self.schemas.get(schema.id)
        if known is not None and known != schema:
            raise FrameError(Refusal.SCHEMA, "two schemas have one number: rename an attribute")
        if known is None and len(self.schemas) >= _MOST_SCHEMAS:
            raise FrameError(Refusal.TOO_MANY, f"this node knows {_MOST_SCHEMAS} schemas already")
        if most is not None and len(flows.schemas) >= most and schema.id not in flows.schemas:
            raise FrameError(
                Refusal.TOO_MANY,
                f"a client has {most:,} schemas on one link: give events of one kind the same attributes, or raise "
                "schemas_per_client in [limits]",
            )
        self.schemas[schema.id] = schema
        if schema.id and schema.id not in flows.schemas:
            flows.schemas.add(schema.id)
            self._definers[schema.id] += 1

    def keep_definitions(self, flows: FlowTable[D], contents: Iterable[tuple[int, int]]) -> None:
        """Know topics and schemas as long as these flows are there, also if whoever defined them is gone."""
        for topic, schema in contents:
            known = self.table.topics.get(TopicId(topic))
            if known is None or SchemaId(schema) not in self.schemas:
                raise FrameError(Refusal.TOPIC, "events of a topic or schema that nobody here defines any more")
            self.table.define(flows, TopicId(topic), known.name)
            if SchemaId(schema) not in flows.schemas:
                self.define_schema(flows, SchemaDefinition(self.schemas[SchemaId(schema)]))

    @property
    def denied(self) -> int:
        """Events that their publishers were not allowed to publish; they are among those that are `unrouted`."""
        return self.table.denied.events

    def drop(self, flows: FlowTable[D]) -> None:
        """A peer is gone, and with it its flows and what only it defined: little by little, if that is much."""
        self.leaving.append(flows)
        if len(flows.routes) + len(flows.topics) + len(flows.schemas) <= _AT_ONCE:
            self.tidy(_AT_ONCE)

    def tidy(self, most: int) -> bool:
        """Forget about so many flows, topics and schemas of peers that are gone; return whether any are left."""
        while self.leaving and most > 0:
            most -= 1 + self._forget(self.leaving[0], most)
            if self.leaving[0].is_empty:
                self.leaving.popleft()
        return bool(self.leaving)

    def _forget(self, flows: FlowTable[D], most: int) -> int:
        """Forget about so many flows, topics and schemas of a peer; return how many it were."""
        done = self.table.drop(flows, most)
        while flows.schemas and done < most:
            schema = flows.schemas.pop()
            done += 1
            self._definers[schema] -= 1
            if not self._definers[schema]:
                del self._definers[schema]
                self.schemas.pop(schema, None)
        return done

    # ---- what damage may have done

    def check_schemas(self) -> None:
        """Look at some schemas: a number stands for its own. One that is gone is missed, which ends a link."""
        first = self._checked if 0 <= self._checked < len(self.schemas) else 0
        for number, schema in list(islice(self.schemas.items(), first, first + _CHECKED)):
            if schema.id != number:
                del self.schemas[number]
        if NO_SCHEMA not in self.schemas:
            self.schemas[NO_SCHEMA] = EMPTY_SCHEMA
        self._checked = first + _CHECKED


def _joined(matched: list[tuple[Events, Places]]) -> tuple[Events, Places]:
    return np.concatenate([events for events, _ in matched]), np.concatenate([places for _, places in matched])
