"""A connection: greeting in pieces, the position of heartbeats, credit and silence."""

import itertools

import msgspec
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
    made.check_heartbeat(Heartbeat(108), 0, 0)
    made.check_heartbeat(Heartbeat(78), 30, 0)
    for claimed in (107, 109):
        with pytest.raises(FrameError, match=f"had written {claimed} bytes, 108 were read") as caught:
            made.check_heartbeat(Heartbeat(claimed), 0, 0)
        assert caught.value.code is Refusal.CORRUPT


@pytest.mark.parametrize(
    ("sent", "granted", "trouble"),
    [
        (50, 700, None),
        (None, None, None),  # a peer of an older version tells neither
        (49, 700, "had sent 49 bytes of events, 50 were read"),
        (51, None, "had sent 51 bytes of events, 50 were read"),
        (50, 699, "had given credit for 699 bytes, 700 are known"),
        (None, 701, "had given credit for 701 bytes, 700 are known"),
    ],
)
def test_a_heartbeat_with_other_totals_than_ours_breaks_the_link(
    sent: int | None, granted: int | None, trouble: str | None
) -> None:
    made = connection()
    made.feed(0, PREAMBLE + bytes(100))
    made.outbox.grant(700)
    heartbeat = Heartbeat(108, sent, granted)
    if trouble is None:
        made.check_heartbeat(heartbeat, 0, events=50)
        return
    with pytest.raises(FrameError, match=f"the link is broken: the peer {trouble}") as caught:
        made.check_heartbeat(heartbeat, 0, events=50)
    assert caught.value.code is Refusal.CORRUPT


def test_a_heartbeat_of_a_version_that_tells_no_totals_is_understood() -> None:
    body = msgspec.msgpack.encode(["heartbeat", 12])
    assert msgspec.msgpack.decode(body, type=Heartbeat) == Heartbeat(12, None, None)


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
    assert said(made, 5 * SECOND) == [Heartbeat(len(PREAMBLE), 0, WINDOW)]
    assert not made.beat(9 * SECOND)
    made.outbox.post(Ping(1))
    made.outbox.release()
    assert made.beat(10 * SECOND)
    written = len(PREAMBLE) + len(encode(Heartbeat(len(PREAMBLE), 0, WINDOW))) + len(encode(Ping(1)))
    assert said(made, 10 * SECOND) == [Heartbeat(written, 0, WINDOW)]


def test_times_that_lie_ahead_hide_neither_our_heartbeat_nor_the_peers_silence() -> None:
    made = connection()
    made.heard = made._beaten = 1 << 62
    assert made.beat(SECOND)
    assert not made.silent(SECOND)
    assert made.silent(17 * SECOND)


def test_a_heartbeat_counts_anew_what_waits() -> None:
    made = connection()
    made.carry(bytes(60), 1)
    made.outbox.release()
    for damaged in (-5, 0, 1 << 40):
        made.outbox.queued = damaged
        made._beaten = -(1 << 40)
        assert made.beat(0)
        assert made.outbox.queued == 60


def test_a_frame_that_never_ends_is_silence() -> None:
    """A damaged length would make us wait for ever, with heartbeats for its body."""
    made = connection()
    made.feed(0, PREAMBLE)
    made.buffer.hold(encode(Ping(1))[:8], 0)
    for second in range(1, 16):
        assert made.feed(second * SECOND, b"") is None
    assert made.silent(15 * SECOND + 1)


class Pair:
    """Two ends of a link, between which bytes stay under way as long as a test likes."""

    def __init__(self) -> None:
        self.ends = [Connection(LinkId(number), 0, 1000, 1000, 5.0) for number in (1, 2)]
        self.under_way: list[list[bytes]] = [[], []]  # from each end to the other one
        for end in self.ends:
            end.outbox.grant(1000)

    def send(self, sender: int) -> None:
        self.under_way[sender] += [bytes(data) for data in self.ends[sender].outbox.release()]

    def arrive(self, sender: int) -> int:
        """Let all that is under way from an end arrive, piece by piece; return how many heartbeats were sound."""
        receiver, heartbeats = self.ends[1 - sender], 0
        pieces, self.under_way[sender] = self.under_way[sender], []
        for data in pieces:
            receiver.received += len(data)
            if data == PREAMBLE:
                continue
            if not any(data):
                receiver.take_events(len(data))
                continue
            match decode(data):
                case Heartbeat() as heartbeat:
                    receiver.check_heartbeat(heartbeat, len(data), receiver.taken)
                    heartbeats += 1
                case Credit(limit):
                    receiver.outbox.grant(limit)
        return heartbeats


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["beat", "carry", "say", "send", "arrive"]), st.sampled_from([0, 1]))))
def test_what_one_end_tells_the_other_has_counted_whatever_is_under_way(acts: list[tuple[str, int]]) -> None:
    pair = Pair()
    now = 0
    for act, who in acts:
        end = pair.ends[who]
        match act:
            case "beat":
                now += 5 * SECOND
                end.beat(now)
            case "carry":
                end.carry(bytes(70), 1)
            case "say":
                end.outbox.post(Ping(now))
            case "send":
                pair.send(who)
            case "arrive":
                pair.arrive(who)
    for who in (0, 1, 0, 1):
        pair.send(who)
        pair.arrive(who)


@pytest.mark.parametrize("counter", ["sent", "limit", "position", "taken", "received", "_granted"])
@pytest.mark.parametrize("value", [0, 1, 5000, 1 << 61])
def test_whatever_counter_of_an_end_is_damaged_the_next_heartbeats_end_the_link(counter: str, value: int) -> None:
    pair = Pair()
    for who in (0, 1):
        pair.ends[who].carry(bytes(70), 1)
        pair.send(who)
        pair.arrive(who)
    setattr(pair.ends[0].outbox if hasattr(pair.ends[0].outbox, counter) else pair.ends[0], counter, value)
    for end in pair.ends:
        assert end.beat(5 * SECOND)
    with pytest.raises(FrameError) as caught:  # noqa: PT012  (one end or the other)
        for who in (0, 1):
            pair.send(who)
            pair.arrive(who)
    assert caught.value.code is Refusal.CORRUPT
