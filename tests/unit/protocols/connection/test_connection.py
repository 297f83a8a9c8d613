"""A connection: greeting in pieces, the position of heartbeats, credit and silence."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.machine import SECOND
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import LinkId, TopicId
from stentor.model.messages import Credit, Heartbeat, Message, Ping, Topic
from stentor.protocols.connection.connection import Connection
from stentor.wire.frame import FRAME_OVERHEAD, LARGEST_GREETING, PREAMBLE, decode, encode

WINDOW = 1000


def connection(now: int = 0, window: int = WINDOW) -> Connection:
    made = Connection(LinkId(1), now, window, 10_000, 5.0)
    assert made.outbox.release() == [PREAMBLE]
    return made


def said(made: Connection, now: int = 0) -> list[Message]:
    return [decode(bytes(frame)) for frame in made.outbox.release()]


def test_the_first_bytes_of_a_link_are_the_preamble() -> None:
    made = Connection(LinkId(1), 0, WINDOW, 1000, 5.0)
    made.outbox.post(Ping(1))
    assert made.outbox.release() == [PREAMBLE, encode(Ping(1))]


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), max_size=8))
def test_the_preamble_may_come_in_pieces(cuts: list[int]) -> None:
    stream = PREAMBLE + encode(Ping(7))
    made = connection()
    found = b""
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    for start, end in itertools.pairwise(edges):
        data = made.feed(0, stream[start:end])
        if data is not None:
            made.buffer.hold(data, 0)
            found = data
    assert found == encode(Ping(7))
    assert made.received == len(stream)


def test_a_peer_of_another_protocol_is_refused_at_its_first_wrong_byte() -> None:
    made = connection()
    assert made.feed(0, b"ST") is None
    with pytest.raises(FrameError, match="not a Stentor node"):
        made.feed(0, b"AR")


def test_a_peer_of_another_version_is_refused_when_its_version_is_there() -> None:
    made = connection()
    assert made.feed(0, b"STENTOR") is None
    with pytest.raises(FrameError, match="version 9") as caught:
        made.feed(0, b"\x09")
    assert caught.value.code is Refusal.VERSION


def test_a_heartbeat_at_another_position_than_was_read_breaks_the_link() -> None:
    made = connection()
    made.feed(0, PREAMBLE + bytes(100))
    made.check_position(108, 0)
    made.check_position(78, 30)
    for claimed in (107, 109):
        with pytest.raises(FrameError, match=f"had written {claimed} bytes, 108 were read") as caught:
            made.check_position(claimed, 0)
        assert caught.value.code is Refusal.CORRUPT


def test_the_limits_are_those_of_a_stranger_until_the_greeting() -> None:
    made = connection()
    assert (made.greeted, made.largest_frame) == (False, LARGEST_GREETING)
    made.greet(1 << 20, 10.0)
    assert (made.greeted, made.largest_frame, made.heartbeat) == (True, (1 << 20) + FRAME_OVERHEAD, 10 * SECOND)


def test_credit_is_granted_when_a_quarter_of_the_window_is_used() -> None:
    made = connection()
    assert not made.take_events(249)
    assert said(made) == []
    assert made.take_events(1)
    assert said(made) == [Credit(WINDOW + 250)]
    assert not made.take_events(249)
    assert made.take_events(5000)
    assert said(made) == [Credit(WINDOW + 250 + 249 + 5000)]


@settings(deadline=None)
@given(st.lists(st.integers(0, 700), max_size=50))
def test_a_peer_that_uses_its_credit_never_starves_and_never_has_more_than_a_window(sizes: list[int]) -> None:
    made = connection()
    limit, taken = WINDOW, 0
    for size in sizes:
        made.take_events(size)
        taken += size
        for message in said(made):
            assert isinstance(message, Credit)
            limit = message.limit
        assert limit - taken <= WINDOW
        assert limit - taken > WINDOW - WINDOW // 4


def test_the_credit_for_publishing_counts_what_is_on_its_way_out() -> None:
    made = connection()
    made.outbox.grant(100)
    assert made.credit == 100
    made.carry(bytes(60), 1)
    assert made.credit == 40
    made.carry(bytes(60), 1)
    assert made.credit == -20
    made.outbox.release()
    assert made.credit == -20


def test_a_number_is_defined_once() -> None:
    made = connection()
    topic = Topic(TopicId(5), "five")
    assert made.define(topic.id, topic)
    assert not made.define(topic.id, topic)
    assert said(made) == [topic]


def test_definitions_are_remembered_within_bounds_and_then_told_again() -> None:
    made = connection()
    for number in range(65_536):
        made.define(TopicId(number), Topic(TopicId(number), ""))
    assert not made.define(TopicId(0), Topic(TopicId(0), ""))
    assert made.define(TopicId(70_000), Topic(TopicId(70_000), ""))
    assert len(made.outbox.defined) == 1
    assert made.define(TopicId(0), Topic(TopicId(0), ""))


def test_a_peer_is_silent_after_three_heartbeats_without_a_word() -> None:
    made = connection(now=SECOND)
    assert not made.silent(16 * SECOND)
    assert made.silent(16 * SECOND + 1)
    made.feed(9 * SECOND, PREAMBLE + b"x")
    made.feed(10 * SECOND, b"")
    assert not made.silent(25 * SECOND)
    assert made.silent(25 * SECOND + 1)


def test_it_beats_on_a_busy_link_too_and_tells_its_position() -> None:
    made = connection()
    assert not made.beat(5 * SECOND - 1)
    assert made.beat(5 * SECOND)
    assert said(made, 5 * SECOND) == [Heartbeat(len(PREAMBLE))]
    assert not made.beat(9 * SECOND)
    made.outbox.post(Ping(1))
    made.outbox.release()
    assert made.beat(10 * SECOND)
    written = len(PREAMBLE) + len(encode(Heartbeat(len(PREAMBLE)))) + len(encode(Ping(1)))
    assert said(made, 10 * SECOND) == [Heartbeat(written)]


def test_a_frame_that_never_ends_is_silence() -> None:
    """A damaged length would make us wait for ever, with heartbeats for its body."""
    made = connection()
    made.feed(0, PREAMBLE)
    made.buffer.hold(encode(Ping(1))[:8], 0)
    for second in range(1, 16):
        assert made.feed(second * SECOND, b"") is None
    assert made.silent(15 * SECOND + 1)


def test_what_one_end_claims_the_other_finds() -> None:
    one, other = Connection(LinkId(1), 0, 1000, 1000, 5.0), Connection(LinkId(2), 0, 1000, 1000, 5.0)
    one.outbox.grant(1000)
    for number in range(5):
        one.outbox.post(Ping(number))
        one.carry(bytes(70), 1)
        one.beat(5 * SECOND * (number + 1))
        for data in one.outbox.release():
            if data[4:5] == b"\x02" and isinstance(message := decode(bytes(data)), Heartbeat):
                other.received += len(data)
                other.check_position(message.position, len(data))
            else:
                other.received += len(data)
