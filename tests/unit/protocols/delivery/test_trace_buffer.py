"""Trails: what publishers and subscribers trace of what they do, once each, and nothing while traces are off."""

from tests.unit.protocols.delivery.script import frame, some

from stentor.model.reports.trace import Trace, TraceKind, numbers_of
from stentor.protocols.delivery import trace_buffer as trails
from stentor.protocols.delivery.endpoint_api import ReleasedBatch
from stentor.protocols.delivery.trace_buffer import TraceBuffer
from stentor.wire.block import Block


def portion(block: Block, start: int) -> ReleasedBatch:
    return ReleasedBatch(block, start, redelivered=False, repository="r", first=start, last=start + block.count - 1)


def told(trail: TraceBuffer) -> list[tuple[str, int, int, int]]:
    return [(row.kind, row.first, row.last, row.count) for row in trail.take(0)]


def test_releases_that_go_on_are_one_trace() -> None:
    traces = TraceBuffer()
    traces.release(5, "t", "s", [portion(frame(9, 1, 4), 11), portion(frame(9, 5, 2), 15), portion(frame(8, 1, 1), 17)])
    rows = traces.take(5)
    assert [(row.source_id, row.first, row.last, row.start, row.end) for row in rows] == [
        (9, 1, 6, 11, 16),
        (8, 1, 1, 17, 17),
    ]
    assert all((row.at, row.about, row.subscriber, row.keeper) == (5, "t", "s", "r") for row in rows)


def test_numbers_that_a_filter_chose_are_named() -> None:
    traces = TraceBuffer()
    traces.release(5, "t", "s", [portion(some(frame(9, 1, 9), [3, 4, 8]), 11)])
    (row,) = traces.take(5)
    assert (row.first, row.last, row.count, numbers_of(row.body)) == (3, 8, 3, [(0, 1), (5, 5)])
    traces.acknowledge(6, "t", "s", (9, 1), [(3, 4), (8, 8)])
    (row,) = traces.take(6)
    assert (row.first, row.last, row.count, numbers_of(row.body)) == (3, 8, 3, [(0, 1), (5, 5)])


def test_nothing_is_kept_while_traces_are_off() -> None:
    traces = TraceBuffer(on=False)
    traces.publish(1, "t", "p", (9, 1), (1, 4), 10, 0)
    traces.release(5, "t", "s", [portion(frame(9, 1, 4), 11)])
    assert not traces.rows
    traces.switch(True)
    traces.publish(1, "t", "p", (9, 1), (5, 8), 10, 0)
    assert len(traces.rows) == 1
    traces.switch(False)
    assert not traces.rows


def test_what_has_no_room_is_counted() -> None:
    traces = TraceBuffer()
    for number in range(0, 2 * trails._MOST + 8, 2):
        traces.publish(1, "t", "p", (9, 1), (number, number), 10, 0)
    rows = traces.take(2)
    assert (len(rows), rows[-1].kind, rows[-1].count) == (trails._MOST + 1, TraceKind.DROPPED, 4)
    assert traces.take(2) == []
    assert traces.told == trails._MOST + 1


def test_an_end_is_told_with_what_was_told_before() -> None:
    traces = TraceBuffer()
    traces.add(Trace(kind=TraceKind.ENDED, at=1))
    assert told(traces) == [("ended", 0, 0, 0)]
