"""The best-effort publisher: events wait in batches while offline or without credit, then leave in order."""

from typing import Protocol

from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, SchemaId, TopicId, topic_id
from stentor.model.messages import Message, SchemaDefinition, Topic
from stentor.protocols.delivery.besteffort.publish_queue import PublishQueue
from stentor.wire.block import Origin


class Port(Protocol):
    """What a publisher needs of a link."""

    @property
    def credit(self) -> int: ...
    def define(self, number: TopicId | SchemaId, definition: Message) -> bool: ...
    def carry(self, frame: bytes, events: int, /) -> None: ...


class BestEffortPublisher(PublishQueue):
    """Numbers events per topic, from 1; the numbers of one topic leave in order and none is used twice."""

    def __init__(self, incarnation: Incarnation, bound: int) -> None:
        super().__init__()
        self._incarnation = incarnation
        self._bound = bound
        self._next: dict[str, int] = {}

    @property
    def full(self) -> bool:
        return self.pending > self._bound

    def release(self, port: Port, publisher: PublisherId) -> None:
        """Send what the credit of the link allows."""
        if self.idle:
            return
        credit = port.credit
        while not self.idle and credit > 0:
            batch = self.take()
            topic, schema, count = topic_id(batch.topic), batch.schema, batch.count
            port.define(topic, Topic(topic, batch.topic))
            if schema.names:
                port.define(schema.id, SchemaDefinition(schema))
            first = self._next.get(batch.topic, 1)
            self._next[batch.topic] = first + count
            origin = Origin(topic, publisher, self._incarnation, CatenationNumber(first), batch.time)
            frame = batch.encode(origin)
            port.carry(frame, count)
            credit -= len(frame)
