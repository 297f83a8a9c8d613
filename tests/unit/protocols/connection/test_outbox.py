"""The outbox: control at once, events within credit, the rest bounded, and whoever loses something is told."""

from collections import deque
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.machine import Buffer
from stentor.model.ids import LinkId, SubscriptionId, topic_id
from stentor.model.messages import Heartbeat, Message, Missed, Ping, Topic
from stentor.protocols.connection.drop_policy import DropOldest, WaitingRun
from stentor.protocols.connection.outbox import Outbox, Unflushed
from stentor.wire.frame import CONTROL, decode, encode

LINK = LinkId(1)
ONE, TWO = SubscriptionId(1), SubscriptionId(2)


def outbox(bound: int = 1000, credit: int = 0) -> Outbox:
    made = Outbox(LINK, bound)
    made.grant(credit)
    return made


def offer(box: Outbox, data: Buffer, events: int = 1, *subscriptions: SubscriptionId) -> None:
    box.fresh.append((data, events, {box: subscriptions}, {}))


def pieces(size: int, count: int) -> list[bytes]:
    """So many pieces of events, all different; the fifth byte tells them from control frames."""
    return [number.to_bytes(4, "little") + b"\x01" + bytes(size - 5) for number in range(count)]


def said(ready: list[Buffer]) -> list[Message | bytes]:
    return [decode(bytes(data)) if data[4] == CONTROL else bytes(data) for data in ready]


def test_nothing_to_say_is_nothing() -> None:
    assert outbox().release() == []


def test_control_leaves_without_credit_and_in_front_of_events() -> None:
    box = outbox(credit=100)
    (piece,) = pieces(10, 1)
    offer(box, piece)
    box.post(Ping(1))
    box.post(Ping(2))
    assert said(box.release()) == [Ping(1), Ping(2), piece]
    starved = outbox()
    offer(starved, piece)
    starved.post(Ping(3))
    assert said(starved.release()) == [Ping(3)]
    assert starved.slow


def test_what_is_posted_behind_events_leaves_after_all_that_wait() -> None:
    box = outbox(credit=20)
    first, second, third = pieces(20, 3)
    box.post_behind(Ping(1))
    assert said(box.release()) == [Ping(1)], "nothing waits"
    offer(box, first)
    offer(box, second)
    box.post_behind(Ping(2))
    box.post(Ping(3))
    assert said(box.release()) == [Ping(3), first]
    offer(box, third)
    box.grant(40)
    assert said(box.release()) == [second]
    box.grant(60)
    assert said(box.release()) == [third, Ping(2)]
    assert box.position == sum(map(len, (first, second, third))) + 3 * len(encode(Ping(1)))
    assert said(box.release()) == [], "once"


def test_events_leave_within_the_credit_in_order_and_are_counted() -> None:
    box = outbox(credit=100)
    made = pieces(20, 5)
    for piece in made:
        offer(box, piece, 3)
    assert box.release() == made
    assert (box.sent, box.events, box.credit, box.queued, box.slow) == (100, 15, 0, 0, False)
    assert box.release() == []


def test_what_has_no_credit_waits_until_it_is_granted() -> None:
    box = outbox(credit=40)
    made = pieces(20, 5)
    for piece in made:
        offer(box, piece)
    assert box.release() == made[:2]
    assert (box.queued, box.slow) == (60, True)
    assert box.release() == []
    box.grant(60)
    assert box.release() == made[2:3]
    box.grant(1000)
    assert box.release() == made[3:]
    assert (box.queued, box.slow, box.dropped) == (0, False, 0)


def test_new_events_never_overtake_those_that_wait() -> None:
    box = outbox(credit=20)
    first, second, third = pieces(20, 3)
    offer(box, first)
    offer(box, second)
    assert box.release() == [first]
    box.grant(1000)
    offer(box, third)
    assert box.release() == [second, third]


def test_what_is_begun_within_the_credit_may_end_beyond_it() -> None:
    box = outbox(credit=1)
    first, second = pieces(100, 2)
    offer(box, first)
    offer(box, second)
    assert box.release() == [first]
    assert box.credit == -99
    box.grant(100)
    assert box.release() == [], "not before the overdraft is paid back"
    box.grant(101)
    assert box.release() == [second]


def test_a_late_or_repeated_credit_does_no_harm() -> None:
    box = outbox(credit=50)
    box.grant(50)
    box.grant(20)
    box.grant(-5)
    assert box.credit == 50


def test_beyond_the_bound_the_oldest_are_dropped_and_told_before_the_next() -> None:
    box = outbox(bound=50)
    made = pieces(20, 5)
    for number, piece in enumerate(made):
        offer(box, piece, 10, *((ONE, TWO) if number == 0 else (ONE,)))
    assert box.release() == []
    assert (box.queued, box.dropped) == (40, 30)
    box.grant(20)
    assert said(box.release()) == [Missed({ONE: 30, TWO: 10}), made[3]]
    box.grant(1000)
    assert said(box.release()) == [made[4]], "told once"
    assert box.events == 20


def test_a_subscription_of_another_outbox_is_not_told() -> None:
    box, other = outbox(bound=10), outbox()
    box.fresh.append((pieces(20, 1)[0], 5, {other: (ONE,), box: (TWO,)}, {}))
    box.release()
    box.grant(1000)
    (piece,) = pieces(9, 1)
    offer(box, piece)
    assert said(box.release()) == [Missed({TWO: 5}), piece]


def test_a_piece_larger_than_the_bound_is_missed_and_the_next_says_so() -> None:
    box = outbox(bound=50)
    offer(box, pieces(60, 1)[0], 7, ONE)
    assert box.release() == []
    assert (box.queued, box.slow, box.dropped) == (0, False, 7)
    box.grant(1000)
    (piece,) = pieces(20, 1)
    offer(box, piece, 1, ONE)
    assert said(box.release()) == [Missed({ONE: 7}), piece]


def test_what_the_credit_takes_is_never_dropped() -> None:
    box = outbox(bound=30, credit=100)
    made = pieces(20, 6)
    for piece in made:
        offer(box, piece, 1, ONE)
    assert box.release() == made[:5]
    assert box.dropped == 0


def test_waiting_slices_do_not_keep_their_chunk_alive() -> None:
    box = outbox(bound=1000)
    chunk = bytearray(100_000)
    view = memoryview(chunk)[10:110]
    offer(box, view)
    assert box.release() == []
    view.release()
    chunk.clear()  # refused with BufferError while somebody holds a view
    box.grant(1000)
    assert box.release() == [bytes(100)]


def test_the_position_counts_every_byte_that_left() -> None:
    box = outbox(bound=25, credit=30)
    total = 0
    for number, piece in enumerate(pieces(20, 10)):
        offer(box, piece)
        box.post(Heartbeat(box.position))
        ready = box.release()
        assert decode(bytes(ready[0])) == Heartbeat(total), "a heartbeat tells what was written before it"
        total += sum(map(len, ready))
        assert box.position == total
        box.grant(box.sent + (30 if number % 3 == 0 else 0))


def test_what_has_not_left_can_be_discarded() -> None:
    box = outbox(credit=20)
    for piece in pieces(20, 3):
        offer(box, piece, 4)
    box.release()
    offer(box, pieces(20, 1)[0], 5)
    assert box.discard() == 4 + 4 + 5
    assert (box.queued, box.slow, box.discard()) == (0, False, 0)
    box.grant(1000)
    assert box.release() == []


operations = st.one_of(
    st.tuples(st.just("offer"), st.integers(5, 60), st.integers(1, 9)),
    st.tuples(st.just("grant"), st.integers(0, 400), st.just(0)),
    st.tuples(st.just("post"), st.just(0), st.just(0)),
    st.tuples(st.just("release"), st.just(0), st.just(0)),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(operations, max_size=60), st.integers(0, 150))
def test_whatever_happens_order_counts_and_bounds_hold(steps: list[tuple[str, int, int]], bound: int) -> None:
    box = outbox(bound)
    offered: list[bytes] = []
    counts: dict[bytes, int] = {}
    left: list[bytes] = []
    told = markers = 0
    largest = 0
    for what, size, events in [*steps, ("release", 0, 0)]:
        if what == "offer":
            piece = len(offered).to_bytes(4, "little") + b"\x01" + bytes(size - 5)
            offered.append(piece)
            counts[piece] = events
            largest = max(largest, size)
            offer(box, piece, events, ONE)
        elif what == "grant":
            box.grant(size)
        elif what == "post":
            box.post(Ping(markers))
            markers += 1
        else:
            for word in said(box.release()):
                if isinstance(word, Missed):
                    told += word.events[ONE]
                elif isinstance(word, bytes):
                    left.append(word)
                    order = offered.index(word)
                    lost_before = sum(counts[each] for each in offered[:order]) - sum(
                        counts[each] for each in left[:-1]
                    )
                    assert told == lost_before, "what was missed is told right before what follows it"
            assert box.queued <= bound
            assert box.credit > -largest or not largest
    assert left == [piece for piece in offered if piece in set(left)], "in order, none twice"
    assert box.events == sum(counts[piece] for piece in left)
    assert box.events + box.dropped + box.discard() == sum(counts.values()), "every event left, waits or was dropped"


def test_a_frame_posted_raw_is_control_too() -> None:
    box = outbox()
    box.post_frame(b"STENTOR\x01")
    box.post(Ping(1))
    assert box.release() == [b"STENTOR\x01", encode(Ping(1))]
    assert box.position == 8 + len(encode(Ping(1)))


def test_an_outbox_enters_the_set_of_those_to_be_released_when_something_is_posted() -> None:
    unflushed: Unflushed = {}
    one, other = Outbox(LINK, 1000, unflushed), Outbox(LinkId(2), 1000, unflushed)
    assert unflushed == {}
    other.post(Ping(1))
    one.define(topic_id("t"), Topic(topic_id("t"), "t"))
    other.post(Ping(2))
    assert list(unflushed) == [other, one], "in the order in which they got something first"
    unflushed.clear()
    one.define(topic_id("t"), Topic(topic_id("t"), "t"))
    one.grant(100)
    assert unflushed == {}


class DropNewest:
    """What came last goes first."""

    def drop(self, waiting: deque[WaitingRun], excess: int) -> Iterator[WaitingRun]:
        while excess > 0:
            run = waiting.pop()
            excess -= len(run.frames)
            yield run


def test_what_a_full_queue_loses_is_for_its_policy_to_decide() -> None:
    made = pieces(10, 5)
    kept = {}
    for policy in (DropOldest(), DropNewest()):
        box = Outbox(LINK, 30, drop_policy=policy)
        for number, piece in enumerate(made):
            offer(box, piece, number + 1, ONE)
        assert box.release() == []
        assert (box.queued, box.slow) == (30, True)
        box.grant(100)
        missed, *left = said(box.release())
        assert missed == Missed({ONE: box.dropped})
        kept[type(policy)] = left
    assert kept == {DropOldest: made[2:], DropNewest: made[:3]}


def test_a_count_of_what_waits_that_is_damaged_drops_no_more_than_there_is() -> None:
    box = outbox(bound=100)
    for piece in pieces(40, 2):
        offer(box, piece)
    box.release()
    box.queued = 1 << 40
    (piece,) = pieces(40, 1)
    offer(box, piece)
    assert box.release() == []
    assert not box.slow
    box.recount()
    assert box.queued == 0
