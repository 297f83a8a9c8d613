"""The best-effort publisher: events wait in drafts while offline or without credit, then leave in batches, in order."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from stentor.model.attribute import Value
from stentor.model.errors import BodyTooLarge
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, SchemaId, TopicId, topic_id
from stentor.model.messages import Message, SchemaDefinition, Topic
from stentor.model.topic import check_topic
from stentor.protocols.delivery.draft import Draft, Sealed, Shapes, check_columns, cuts
from stentor.wire.block import Block, Origin


class Port(Protocol):
    """What a publisher needs of a link."""

    @property
    def credit(self) -> int: ...
    def define(self, number: TopicId | SchemaId, definition: Message) -> bool: ...
    def carry(self, frame: bytes, events: int) -> None: ...


class Publisher:
    """Numbers events per topic, from 1; the numbers of one topic leave in order and none is used twice."""

    def __init__(self, incarnation: Incarnation, bound: int) -> None:
        self._incarnation = incarnation
        self._bound = bound
        self._drafts: deque[Draft | Sealed] = deque()
        self._open: dict[str, Draft] = {}
        self._next: dict[str, int] = {}
        self._shapes = Shapes()
        self.largest_body = 1 << 20
        self.pending = 0  # bytes that wait
        self.published = 0

    def offer(self, topic: str, attributes: Mapping[str, Value], body: bytes, time: int) -> None:
        """Take an event in, or raise what is wrong with it and change nothing."""
        if topic not in self._next:
            check_topic(topic)
        self._check_size(body)
        shape = self._shapes.check(attributes)
        draft = self._open.get(topic)
        before = draft.size if draft is not None else 0
        if draft is None or not draft.add(shape, attributes, body):
            draft, before = self._draft(topic, time), 0
            draft.add(shape, attributes, body)
        self.pending += draft.size - before
        self.published += 1

    def _draft(self, topic: str, time: int) -> Draft:
        draft = self._open[topic] = Draft(topic, time)
        self._drafts.append(draft)
        return draft

    def offer_many(
        self, topic: str, columns: Mapping[str, Sequence[Value | None]], bodies: Sequence[bytes], time: int
    ) -> None:
        """Take all of them in, or raise what is wrong with one and take none."""
        check_topic(topic)
        if not bodies:
            return
        self._check_size(max(bodies, key=len))
        schema, kept = check_columns(len(bodies), columns)
        start = 0
        for end in cuts(schema, kept, bodies):
            draft = self._draft(topic, time)
            draft.fill(schema, [column[start:end] for column in kept], bodies[start:end])
            self.pending += draft.size
            start = end
        self.published += len(bodies)

    def forward(self, topic: str, block: Block) -> None:
        """Take events in that have their numbers already."""
        sealed = Sealed(topic, block)
        self._open.pop(topic, None)
        self._drafts.append(sealed)
        self.pending += sealed.size
        self.published += block.count

    def _check_size(self, body: bytes) -> None:
        if len(body) > self.largest_body:
            raise BodyTooLarge(
                f"the body has {len(body)} bytes, the broker takes {self.largest_body}: "
                "split it, or raise limits.largest_body"
            )

    @property
    def full(self) -> bool:
        return self.pending > self._bound

    @property
    def idle(self) -> bool:
        return not self._drafts

    def release(self, port: Port, publisher: PublisherId) -> None:
        """Send what the credit of the link allows."""
        credit = port.credit
        while self._drafts and credit > 0:
            draft = self._drafts.popleft()
            if self._open.get(draft.topic) is draft:
                del self._open[draft.topic]
            topic, schema, count = topic_id(draft.topic), draft.schema, draft.count
            port.define(topic, Topic(topic, draft.topic))
            if schema.names:
                port.define(schema.id, SchemaDefinition(schema))
            first = self._next.get(draft.topic, 1)
            self._next[draft.topic] = first + count
            origin = Origin(topic, publisher, self._incarnation, CatenationNumber(first), draft.time)
            frame = draft.encode(origin)
            port.carry(frame, count)
            credit -= len(frame)
            self.pending -= draft.size
