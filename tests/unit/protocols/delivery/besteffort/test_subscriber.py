"""The subscriber: in order, never twice, filtered where topics are shared, bounded, and its credit given back once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.machine import Buffer
from stentor.model.attribute import EMPTY_SCHEMA, Kind, Schema, Value
from stentor.model.errors import FrameError, Refusal
from stentor.model.filter import Filter
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, SubscriptionId, topic_id
from stentor.protocols.delivery.besteffort.subscriber import BestEffortSubscriber, ClientSubscription, frames
from stentor.wire import block
from stentor.wire.block import Block, Origin
from stentor.wire.head import FLOW
from stentor.wire.run import split

NUMBERED = Schema(("n",), (Kind.INTEGER,))
WINDOW = 10_000
ONE, TWO, THREE = SubscriptionId(1), SubscriptionId(2), SubscriptionId(3)


def frame(
    topic: str,
    first: int = 1,
    numbers: list[int] | None = None,
    *,
    count: int = 1,
    size: int = 0,
    publisher: int = 1,
    incarnation: int = 1,
) -> bytes:
    origin = Origin(topic_id(topic), PublisherId(publisher), Incarnation(incarnation), CatenationNumber(first), 0)
    if numbers is None:
        return block.encode(origin, EMPTY_SCHEMA, [], [bytes(size)] * count)
    column: list[Value | None] = list(numbers)
    return block.encode(origin, NUMBERED, [column], [str(number).encode() + bytes(size) for number in numbers])


def made(
    *wishes: tuple[int, str, str], topics: tuple[str, ...] = ("t", "u"), window: int = WINDOW
) -> BestEffortSubscriber:
    subscriber = BestEffortSubscriber(window)
    subscriber.schemas[NUMBERED.id] = NUMBERED
    for topic in topics:
        subscriber.define_topic(topic_id(topic), topic)
    for number, pattern, where in wishes:
        subscriber.add(wish(number, pattern, where))
    return subscriber


def wish(number: int, pattern: str, where: str = "") -> ClientSubscription:
    return ClientSubscription(SubscriptionId(number), pattern, Filter(where) if where else None)


def receive(subscriber: BestEffortSubscriber, *sent: bytes) -> None:
    """As a client does: split, meet what is new, take the runs."""
    data = b"".join(sent)
    position = 0
    while position < len(data):
        runs, after = split(data, position, subscriber.routes)
        subscriber.receive(data, runs)
        if after == position:
            subscriber.open_flow(data[position:][FLOW])
        position = after


def served(subscriber: BestEffortSubscriber, number: SubscriptionId = ONE) -> tuple[bytes, int]:
    blocks, missed = subscriber.serve(subscriber.subscriptions[number])
    return b"".join(block.frame for block in blocks), missed


def bodies(data: bytes) -> list[bytes]:
    found: list[bytes] = []
    for each in frames(data):
        schema = NUMBERED if int.from_bytes(each[24:32], "little") else EMPTY_SCHEMA
        read = Block(each, schema)
        read.verify()
        found += read.bodies()
    return found


def test_what_arrives_waits_until_it_is_asked_for() -> None:
    subscriber = made((1, "t", ""))
    sent = [frame("t", 1), frame("t", 2, count=3)]
    receive(subscriber, *sent)
    assert subscriber.served == {}
    assert subscriber.taken == 0
    assert served(subscriber) == (b"".join(sent), 0)
    assert subscriber.taken == len(b"".join(sent))
    assert served(subscriber) == (b"", 0)


def test_a_hungry_subscription_is_served_when_something_comes() -> None:
    subscriber = made((1, "t", ""), (2, "u", ""))
    subscriber.subscriptions[ONE].wants_more = subscriber.subscriptions[TWO].wants_more = True
    receive(subscriber, frame("u"))
    assert list(subscriber.served) == [TWO]
    served(subscriber, TWO)
    assert not subscriber.subscriptions[TWO].wants_more
    assert subscriber.subscriptions[ONE].wants_more


def test_an_event_that_came_before_is_not_delivered_again() -> None:
    subscriber = made((1, "#", ""))
    receive(subscriber, frame("t", 1, count=5), frame("t", 6))
    served(subscriber)
    subscriber.taken = 0
    repeated = [frame("t", 1, count=5), frame("t", 6), frame("t", 3)]
    receive(subscriber, *repeated)
    assert served(subscriber) == (b"", 0)
    assert subscriber.repeated == 7
    assert subscriber.taken == len(b"".join(repeated)), "its credit goes back all the same"
    fresh = frame("t", 7)
    receive(subscriber, frame("t", 6), fresh)
    assert served(subscriber) == (fresh, 0)


def test_numbers_are_per_publisher_incarnation_and_topic() -> None:
    subscriber = made((1, "#", ""))
    sent = [
        frame("t", 5),
        frame("u", 5),
        frame("t", 5, publisher=2),
        frame("t", 5, incarnation=2),
    ]
    receive(subscriber, *sent)
    assert served(subscriber) == (b"".join(sent), 0)
    receive(subscriber, *sent)
    assert subscriber.repeated == 4


def test_a_gap_is_no_reason_to_wait() -> None:
    subscriber = made((1, "t", ""))
    receive(subscriber, frame("t", 1), frame("t", 10))
    assert len(bodies(served(subscriber)[0])) == 2
    receive(subscriber, frame("t", 5))
    assert served(subscriber)[0] == b"", "but what was passed over never comes late"


def test_numbers_are_remembered_over_a_new_link() -> None:
    subscriber = made((1, "t", ""))
    receive(subscriber, frame("t", 1))
    subscriber.subscriptions[ONE].confirmed = True
    subscriber.relink()
    assert not subscriber.subscriptions[ONE].confirmed
    receive(subscriber, frame("t", 1), frame("t", 2))
    assert len(bodies(served(subscriber)[0])) == 2


def test_alone_on_a_topic_it_trusts_the_brokers_filter() -> None:
    subscriber = made((1, "t", "n > 5"))
    sent = frame("t", 1, [1, 9])
    receive(subscriber, sent)
    assert served(subscriber)[0] == sent


def test_on_a_shared_topic_each_gets_just_what_it_wants() -> None:
    subscriber = made((1, "t", "n > 5"), (2, "t", "n < 3"), (3, "#", ""))
    sent = frame("t", 1, [1, 2, 4, 6, 9])
    receive(subscriber, sent)
    assert bodies(served(subscriber, ONE)[0]) == [b"6", b"9"]
    assert bodies(served(subscriber, TWO)[0]) == [b"1", b"2"]
    assert served(subscriber, THREE)[0] == sent


def test_a_topic_stays_shared_while_events_for_a_former_subscription_may_come() -> None:
    subscriber = made((1, "t", "n > 5"), (2, "t", ""))
    receive(subscriber, frame("t", 1, [1, 6]))
    subscriber.remove(TWO)
    receive(subscriber, frame("t", 3, [2, 7]))
    assert bodies(served(subscriber, ONE)[0]) == [b"6", b"7"]


def test_a_topic_defined_after_a_subscription_went_is_filtered_too() -> None:
    """Its events were under way, with what the former one wanted among them, when it unsubscribed."""
    subscriber = made((1, "#", "n > 5"), (2, "#", ""), topics=())
    subscriber.remove(TWO)
    subscriber.define_topic(topic_id("new"), "new")
    receive(subscriber, frame("new", 1, [1, 6]))
    assert bodies(served(subscriber, ONE)[0]) == [b"6"]


def test_a_new_link_brings_nothing_for_a_former_subscription() -> None:
    subscriber = made((1, "t", "n > 5"), (2, "t", ""))
    receive(subscriber, frame("t", 1, [6]))
    subscriber.remove(TWO)
    subscriber.relink()
    sent = frame("t", 3, [6, 7])
    receive(subscriber, sent)
    assert served(subscriber, ONE)[0].endswith(sent), "the broker filters for us again"


def test_a_broker_that_has_served_us_while_we_moved_to_it_may_bring_something_for_a_former_subscription() -> None:
    subscriber = made((1, "t", "n > 5"), (2, "t", ""))
    subscriber.remove(TWO)  # the broker that we move to has sent events for it, which are read after the old link
    subscriber.relink(has_served=True)
    receive(subscriber, frame("t", 1, [1, 6]))
    assert bodies(served(subscriber, ONE)[0]) == [b"6"]


def test_events_in_flight_for_nobody_are_taken_and_dropped() -> None:
    subscriber = made((1, "t", ""))
    receive(subscriber, frame("t", 1))
    held = len(frame("t", 1))
    subscriber.remove(ONE)
    assert subscriber.taken == held
    receive(subscriber, frame("t", 2))
    assert subscriber.taken == held + len(frame("t", 2))
    subscriber.remove(ONE)


def test_credit_for_the_same_bytes_goes_back_once_when_the_last_lets_go() -> None:
    subscriber = made((1, "t", ""), (2, "#", ""), (3, "+", "n > 100"))
    sent = frame("t", 1, [1, 2])
    receive(subscriber, sent)
    assert subscriber.taken == 0
    served(subscriber, ONE)
    assert subscriber.taken == 0
    served(subscriber, TWO)
    assert subscriber.taken == len(sent)
    served(subscriber, THREE)
    assert subscriber.taken == len(sent)


def test_a_subscription_that_goes_lets_go_of_what_it_held() -> None:
    subscriber = made((1, "t", ""), (2, "t", ""))
    sent = frame("t", 1)
    receive(subscriber, sent)
    subscriber.remove(ONE)
    assert subscriber.taken == 0
    subscriber.remove(TWO)
    assert subscriber.taken == len(sent)


def test_beyond_its_share_the_oldest_are_dropped_and_told() -> None:
    subscriber = made((1, "t", ""), (2, "u", ""))  # 5,000 bytes each
    for number in range(1, 11):
        receive(subscriber, frame("t", number, size=1000))
    slow = subscriber.subscriptions[ONE]
    assert slow.held <= WINDOW * 3 // 4
    data, missed = served(subscriber, ONE)
    read = [Block(each, EMPTY_SCHEMA).catenation for each in frames(data)]
    assert read == list(range(11 - len(read), 11)), "the newest are kept"
    assert missed == 10 - len(read)
    assert served(subscriber, ONE) == (b"", 0), "told once"
    assert subscriber.taken == 10 * len(frame("t", 1, size=1000)), "and all credit is back"


def test_an_event_larger_than_the_share_is_still_delivered() -> None:
    subscriber = made((1, "t", ""), (2, "u", ""))
    sent = frame("t", 1, size=8000)
    receive(subscriber, sent)
    assert served(subscriber) == (sent, 0)


def test_one_that_takes_little_of_much_does_not_keep_the_credit_of_all_of_it() -> None:
    """Otherwise a rare filter that nobody reads starves every other subscription of the client."""
    subscriber = made((1, "t", ""), (2, "t", "n = 0"))
    for number in range(1, 101, 10):
        receive(subscriber, frame("t", number, list(range(10)), size=400))
        served(subscriber, ONE)
    outstanding = sum(len(frame("t", 1, list(range(10)), size=400)) for _ in range(10)) - subscriber.taken
    assert outstanding < WINDOW


def test_a_few_large_events_that_nobody_reads_leave_credit_for_the_others() -> None:
    topics = tuple(f"big/{number}" for number in range(5))
    subscriber = made(*((number, topic, "") for number, topic in enumerate(topics)), topics=topics)
    total = 0
    for topic in topics:
        sent = frame(topic, 1, size=WINDOW // 4)
        total += len(sent)
        receive(subscriber, sent)
    assert total - subscriber.taken < WINDOW


def test_a_refused_subscription_that_had_something_gives_its_credit_back_once() -> None:
    subscriber = made((1, "t", ""), (2, "t", ""))
    subscriber.subscriptions[ONE].wants_more = True
    receive(subscriber, frame("t", 1))
    gone = subscriber.subscriptions[ONE]
    subscriber.remove(ONE)
    assert gone.id not in subscriber.served, "nobody is there to be served"
    assert subscriber.taken == 0, "the other one still holds it"


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("receive"), st.sampled_from(["t", "u"]), st.integers(0, 900)),
            st.tuples(st.just("serve"), st.just(""), st.integers(1, 3)),
            st.tuples(st.just("remove"), st.just(""), st.integers(1, 3)),
        ),
        max_size=40,
    )
)
def test_all_credit_comes_back_and_every_event_is_delivered_or_missed(steps: list[tuple[str, str, int]]) -> None:
    subscriber = made((1, "t", ""), (2, "#", ""), (3, "+", "n >= 0"), window=3000)
    sent: dict[str, int] = {"t": 0, "u": 0}
    total = 0
    delivered = {ONE: 0, TWO: 0, THREE: 0}
    expected = dict(delivered)
    for what, topic, amount in [*steps, *(("serve", "", number) for number in (1, 2, 3))]:
        if what == "receive":
            sent[topic] += 1
            data = frame(topic, sent[topic], [amount], size=amount)
            total += len(data)
            receive(subscriber, data)
            for number, each in subscriber.subscriptions.items():
                expected[number] += each.pattern != "t" or topic == "t"
        elif what == "serve" and SubscriptionId(amount) in subscriber.subscriptions:
            data, missed = served(subscriber, SubscriptionId(amount))
            delivered[SubscriptionId(amount)] += len(bodies(data)) + missed
        elif what == "remove" and amount != 2:
            subscriber.remove(SubscriptionId(amount))
            expected.pop(SubscriptionId(amount), None)
    assert {number: delivered[number] for number in expected} == expected
    assert subscriber.taken == total


@pytest.mark.parametrize("topics", [(), ("t",)])
def test_events_of_what_was_not_defined_are_refused(topics: tuple[str, ...]) -> None:
    subscriber = made((1, "#", ""), topics=topics)
    subscriber.schemas.pop(NUMBERED.id)
    with pytest.raises(FrameError, match="not defined") as caught:
        subscriber.open_flow(frame("t", 1, [1])[FLOW])
    assert caught.value.code is Refusal.PROTOCOL


def test_a_topic_in_use_is_never_forgotten() -> None:
    """A broker tells a definition again only when it works out a route anew."""
    subscriber = made((1, "#", ""))
    for number in range(2 * 65_536 + 10):
        subscriber.define_topic(topic_id(f"other/{number}"), f"other/{number}")
        if number % 1000 == 0:
            receive(subscriber, frame("t", number + 1))
    subscriber.routes.clear()
    receive(subscriber, frame("t", 10_000_000))


def test_a_change_of_wishes_is_seen_by_the_next_event() -> None:
    subscriber = made((1, "t", ""))
    receive(subscriber, frame("t", 1))
    subscriber.add(wish(2, "#"))
    receive(subscriber, frame("t", 2))
    assert len(bodies(served(subscriber, ONE)[0])) == 2
    assert len(bodies(served(subscriber, TWO)[0])) == 1


def test_a_delivery_falls_apart_into_its_frames() -> None:
    sent: list[Buffer] = [frame("t", 1), frame("u", 1, [1, 2]), frame("t", 2, size=300)]
    assert frames(b"".join(sent)) == sent
    assert [bytes(each) for each in frames(memoryview(b"".join(sent)))] == sent
    assert frames(b"") == []
