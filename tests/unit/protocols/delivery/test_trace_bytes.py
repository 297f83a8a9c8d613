"""What traces take beside the events that they are about: at most a tenth, if they are summed up."""

from collections.abc import Iterator

import pytest

from stentor.machine import SECOND
from stentor.model.attribute import EMPTY_SCHEMA
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, topic_id
from stentor.model.reports.trace import SCHEMA, Trace, TraceKind, audience_body, to_columns
from stentor.protocols.delivery.endpoint_api import ReleasedBatch
from stentor.protocols.delivery.trace_buffer import TraceBuffer
from stentor.wire.block import Block, Origin, encode

RATE, SECONDS, SIZE = 300, 60, 40
RECORD = 150  # bytes that a record takes in a ledger beside its frame, roughly


def blocks(batch: int) -> Iterator[tuple[int, Block]]:
    """A minute of events, and when they are published."""
    for first in range(1, RATE * SECONDS, batch):
        time = first * SECOND // RATE
        origin = Origin(topic_id("t"), PublisherId(7), Incarnation(1), CatenationNumber(first), time)
        yield time, Block(encode(origin, EMPTY_SCHEMA, [], [b"x" * SIZE] * batch), EMPTY_SCHEMA)


def stored(now: int, block: Block) -> Iterator[Trace]:
    first, last = int(block.catenation), int(block.last())
    yield Trace(
        kind=TraceKind.STORED,
        at=now,
        about="t",
        source="shop",
        source_id=7,
        life=1,
        first=first,
        last=last,
        count=block.count,
        keeper="r1",
        start=first,
        end=last,
        size=len(block.frame),
        born=block.time,
        body=audience_body({"billing": []}),
    )
    yield Trace(kind=TraceKind.STABLE, at=now, about="t", keeper="r1", start=first, end=last, count=block.count)


def share(batch: int, *, sums: bool) -> float:
    """How many bytes all ends of a topic tell for each byte that is stored of it."""
    publisher, repository, subscriber = trace_buffers = [TraceBuffer(sums=sums) for _ in range(3)]
    data = told = 0
    due = SECOND

    def tell(now: int) -> int:
        size = 0
        for traces in trace_buffers:
            if traces.rows and traces.is_due(now):
                columns, bodies = to_columns(traces.take(now), "somebody", 0)
                origin = Origin(topic_id("$"), PublisherId(1), Incarnation(1), CatenationNumber(1), now)
                size += len(encode(origin, SCHEMA, columns, bodies)) + RECORD
        return size

    for now, block in blocks(batch):
        span = (int(block.catenation), int(block.last()))
        publisher.publish(now, "t", "shop", (7, 1), span, len(block.frame), block.time)
        for row in stored(now, block):
            repository.add(row)
        subscriber.release(now, "t", "billing", [ReleasedBatch(block, span[0], False, "r1", *span)])
        subscriber.acknowledge(now, "t", "billing", (7, 1), [span])
        data += len(block.frame) + RECORD
        if now >= due:
            due += SECOND
            told += tell(now)
    return (told + tell(1 << 60)) / data


@pytest.mark.parametrize("batch", [1, 30])
def test_sums_of_traces_take_less_than_a_tenth_of_the_events(batch: int) -> None:
    assert share(batch, sums=True) < 0.1
    assert share(batch, sums=False) > 5 * share(batch, sums=True)
