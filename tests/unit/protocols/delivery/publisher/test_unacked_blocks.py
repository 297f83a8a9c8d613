"""What is sent and not acknowledged: freed by single numbers and by "all up to", found again for who misses it."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.model.attribute import EMPTY_SCHEMA
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, topic_id
from stentor.protocols.delivery.ordered_queue import OrderedQueue
from stentor.protocols.delivery.publisher.unacked_blocks import UnackedBlocks
from stentor.wire import block
from stentor.wire.block import Block, Origin


def frame(first: int, count: int) -> Block:
    origin = Origin(topic_id("t"), PublisherId(1), Incarnation(1), CatenationNumber(first), 0)
    return Block(block.encode(origin, EMPTY_SCHEMA, [], [b"x"] * count), EMPTY_SCHEMA)


def made(*counts: int) -> UnackedBlocks:
    unacked = UnackedBlocks()
    for count in counts:
        unacked.add(frame(unacked.last + 1, count))
    return unacked


def numbers(blocks: list[Block]) -> list[tuple[int, int]]:
    return [(each.catenation, each.last()) for each in blocks]


def test_a_frame_is_kept_until_all_of_it_is_acknowledged() -> None:
    unacked = made(3, 2)
    assert unacked.events == 5
    assert unacked.acknowledge(2, ())
    assert numbers(unacked.overlapping([(1, 9)])) == [(1, 3), (4, 5)]
    assert unacked.acknowledge(3, ())
    assert numbers(unacked.overlapping([(1, 9)])) == [(4, 5)]
    assert not unacked.acknowledge(1, ()), "that is old"
    assert unacked.acknowledge(99, ()), "no more than was sent"
    assert (unacked.upto, unacked.events, unacked.size) == (5, 0, 0)


def test_single_numbers_free_frames_but_settle_nothing() -> None:
    unacked = made(2, 2, 2)
    assert not unacked.acknowledge(0, [(3, 3)])
    assert unacked.acknowledge(0, [(4, 6)])
    assert numbers(unacked.overlapping([(1, 6)])) == [(1, 2)]
    assert (unacked.upto, unacked.events) == (0, 6)
    assert unacked.acknowledge(6, ())
    assert unacked.size == 0


def test_each_frame_is_found_once() -> None:
    unacked = made(2, 2, 2)
    assert numbers(unacked.overlapping([(6, 6), (1, 1), (2, 2), (5, 5)])) == [(1, 2), (5, 6)]


@settings(deadline=None)
@given(st.data())
def test_exactly_what_is_not_acknowledged_is_kept(data: st.DataObject) -> None:
    draw: Callable[[int], int] = lambda most: data.draw(st.integers(0, most))  # noqa: E731
    unacked, known, upto, frames = UnackedBlocks(), set[int](), 0, list[Block]()
    for _ in range(draw(30)):
        if draw(2):
            frames.append(frame(unacked.last + 1, 1 + draw(3)))
            unacked.add(frames[-1])
        else:
            first = draw(unacked.last)
            single = (first, first + draw(4))
            upto = max(upto, draw(unacked.last))
            unacked.acknowledge(upto, [single])
            known |= {*range(1, upto + 1), *range(single[0], min(single[1], unacked.last) + 1)}
    kept = [each for each in frames if not known.issuperset(range(each.catenation, each.last() + 1))]
    assert unacked.overlapping([(1, 1000)]) == kept
    assert unacked.size == sum(len(each.frame) for each in kept)
    assert unacked.upto == upto


def test_a_lane_keeps_the_order_of_numbers() -> None:
    queue: OrderedQueue[int] = OrderedQueue()
    for number in range(0, 2000, 2):
        queue.add(number, number)
    queue.add(501, 501)
    assert [queue.take() for _ in range(251)] == list(range(0, 502, 2))
    assert queue.take() == 501
    assert (queue.front, queue.back, len(queue)) == (502, 1998, 749)
    assert next(queue.since(601)) == 600
    assert next(queue.since(1)) == 502
    assert queue.take_back() == 1998
    assert list(queue) == list(range(502, 1998, 2))
