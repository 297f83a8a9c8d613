"""Publish queue: what waits to leave at a publisher.

Events are checked when they come in, and what one turn brings of a topic is one batch.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from stentor.model.attribute import Schema, Value
from stentor.model.errors import BodyTooLarge
from stentor.model.topic import check_topic
from stentor.protocols.delivery.besteffort.batch_builder import BatchBuilder, NumberedBatch, Shapes, check_columns, cuts
from stentor.wire.block import Block

_SMALL = 512  # small events in a frame


class PublishQueue:
    """Batches in the order in which they leave.

    Invariants: `pending` is the sum of the sizes of `_batches`, and every batch of `_open` is among them.
    """

    def __init__(self, published: int = 0) -> None:
        self._batches: deque[BatchBuilder | NumberedBatch] = deque()
        self._open: dict[str, BatchBuilder] = {}  # the one of a topic that takes more
        self._shapes = Shapes()
        self.largest_body = 1 << 20
        self.pending = 0  # bytes that wait
        self.published = published

    def offer(self, topic: str, attributes: Mapping[str, Value], body: bytes, time: int) -> None:
        """Take an event in, or raise what is wrong with it and change nothing."""
        builder = self._open.get(topic)
        if builder is None:
            check_topic(topic)
        self._check_size(body)
        shape = self._shapes.check(attributes)
        before = builder.size if builder is not None else 0
        if builder is None or not builder.add(shape, attributes, body):
            builder, before = self._new_batch(topic, time), 0
            builder.add(shape, attributes, body)
        self.pending += builder.size - before
        self.published += 1

    def _new_batch(self, topic: str, time: int) -> BatchBuilder:
        builder = self._open[topic] = BatchBuilder(topic, time)
        self._batches.append(builder)
        return builder

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
            builder = self._new_batch(topic, time)
            builder.fill(schema, [column[start:end] for column in kept], bodies[start:end])
            self.pending += builder.size
            start = end
        self.published += len(bodies)

    def offer_sound(
        self, topic: str, schema: Schema, columns: Sequence[Sequence[Value]], bodies: Sequence[bytes], time: int
    ) -> None:
        """Take in many small events that we made ourselves, and that need no check."""
        for start in range(0, len(bodies), _SMALL):
            builder = self._new_batch(topic, time)
            end = start + _SMALL
            builder.fill(schema, [column[start:end] for column in columns], bodies[start:end], texts=0)
            self.pending += builder.size
        self.published += len(bodies)

    def forward(self, topic: str, block: Block) -> None:
        """Take events in that have their numbers already."""
        numbered = NumberedBatch(topic, block)
        self._open.pop(topic, None)
        self._batches.append(numbered)
        self.pending += numbered.size
        self.published += block.count

    def withdraw(self, prefix: str) -> None:
        """Keep events with numbers, on topics that begin so, from leaving: whoever numbered them still has them."""
        kept = [
            each for each in self._batches if not (isinstance(each, NumberedBatch) and each.topic.startswith(prefix))
        ]
        if len(kept) < len(self._batches):
            self._batches = deque(kept)
            self.pending = sum(each.size for each in kept)

    def _check_size(self, body: bytes) -> None:
        if len(body) > self.largest_body:
            raise BodyTooLarge(
                f"the body has {len(body)} bytes, the broker takes {self.largest_body}: "
                "split it, or raise limits.largest_body"
            )

    @property
    def idle(self) -> bool:
        return not self._batches

    def take(self) -> BatchBuilder | NumberedBatch:
        """Take the oldest batch away, which leaves now: nothing more comes into it."""
        batch = self._batches.popleft()
        if self._open.get(batch.topic) is batch:
            del self._open[batch.topic]
        self.pending -= batch.size
        return batch
