"""Runs and the intake: a stream cut anywhere gives the same frames, in order, merged where one route takes them."""

import itertools
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.model.attribute import EMPTY_SCHEMA
from stentor.model.errors import FrameError
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, TopicId
from stentor.model.messages import Ping
from stentor.wire import block, frame
from stentor.wire.block import Origin
from stentor.wire.frame import EVENTS, measure
from stentor.wire.frame_buffer import FrameBuffer
from stentor.wire.head import FLOW
from stentor.wire.run import cut, split


class Route:
    """Stands for itself: runs are merged by identity."""


SHARED = Route()
ROUTES = {1: SHARED, 2: SHARED, 3: Route(), 4: Route()}  # by topic; topic 5 is nobody's


def events(topic: int, count: int = 1, size: int = 0) -> bytes:
    origin = Origin(TopicId(topic), PublisherId(9), Incarnation(1), CatenationNumber(1), 0)
    return block.encode(origin, EMPTY_SCHEMA, [], [bytes(size)] * count)


def flow(topic: int) -> bytes:
    return events(topic)[FLOW]


FLOWS = {flow(topic): route for topic, route in ROUTES.items()}
event_frames = st.builds(events, st.integers(1, 4), st.integers(1, 5), st.sampled_from([0, 1, 100]))
control_frames = st.integers(0, 9).map(Ping).map(frame.encode)
unknown_frames = st.just(events(5))


class Run(NamedTuple):
    route: Route
    start: int
    end: int
    events: int


def expected(frames: list[bytes]) -> tuple[list[Run], int]:
    """The same, said one frame at a time."""
    runs: list[Run] = []
    position = 0
    for each in frames:
        route = FLOWS.get(each[FLOW])
        if each[4] != EVENTS or route is None:
            break
        count = int.from_bytes(each[32:34], "little")
        end = position + len(each)
        if runs and runs[-1].route is route:
            last = runs.pop()
            runs.append(Run(route, last.start, end, last.events + count))
        else:
            runs.append(Run(route, position, end, count))
        position = end
    return runs, position


@settings(deadline=None, max_examples=100)
@given(
    st.lists(event_frames | event_frames | control_frames | unknown_frames, max_size=12),
    st.integers(0, 40),
    st.binary(max_size=5),
)
def test_neighbours_of_one_route_are_one_run_up_to_the_first_frame_that_needs_a_look(
    frames: list[bytes], missing: int, before: bytes
) -> None:
    runs, stop = expected(frames)
    data = before + b"".join(frames)
    found, position = split(data, len(before), FLOWS)
    shift = len(before)
    assert [Run(*run) for run in found] == [Run(r, s + shift, e + shift, n) for r, s, e, n in runs]
    assert position == stop + shift
    short = data[: max(shift, len(data) - missing)]
    found, position = split(short, len(before), FLOWS)
    assert position <= len(short)
    assert all(run[2] <= position for run in found)


def test_a_run_ends_where_the_route_changes_and_not_where_the_topic_does() -> None:
    data = events(1) + events(2, 3) + events(3) + events(1)
    found, position = split(data, 0, FLOWS)
    assert [(run[0], run[3]) for run in found] == [(SHARED, 4), (ROUTES[3], 1), (SHARED, 1)]
    assert position == len(data)


def test_an_empty_chunk_has_no_run() -> None:
    assert split(b"", 0, FLOWS) == ([], 0)
    assert split(events(5), 0, FLOWS) == ([], 0)
    assert split(events(1)[:-1], 0, FLOWS) == ([], 0)
    assert split(bytes(200), 0, FLOWS) == ([], 0)


@pytest.mark.parametrize("length", [0, 1, 12, 32, 63])
def test_a_frame_that_says_it_is_shorter_than_a_header_stops_the_split(length: int) -> None:
    data = length.to_bytes(4, "little") + events(1, size=200)[4:]
    assert split(data, 0, FLOWS) == ([], 0)
    assert split(events(1) + data, 0, FLOWS)[1] == len(events(1))


def read(stream: bytes, cuts: list[int], largest: int = 1 << 20) -> list[bytes]:
    """Every frame of a stream that comes in pieces, as a node reads it."""
    frames: list[bytes] = []
    buffer = FrameBuffer()
    edges = [0, *sorted(cuts), len(stream)]
    for start, end in itertools.pairwise(edges):
        data = buffer.take(stream[start:end])
        if data is None:
            continue
        position = 0
        while position < len(data):
            runs, after = split(data, position, FLOWS)
            for _, begin, finish, _ in runs:
                at = begin
                while at < finish:
                    length = int.from_bytes(data[at : at + 4], "little")
                    frames.append(data[at : at + length])
                    at += length
            position = after
            if position == len(data):
                break
            _, length = measure(data, position, largest)
            if not length or position + length > len(data):
                buffer.hold(data, position)
                break
            frames.append(data[position : position + length])
            position += length
    return frames


@settings(deadline=None, max_examples=100)
@given(st.data(), st.lists(event_frames | control_frames | unknown_frames, min_size=1, max_size=15))
def test_a_stream_cut_at_any_bytes_gives_the_same_frames(data: st.DataObject, frames: list[bytes]) -> None:
    stream = b"".join(frames)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=20))
    assert read(stream, cuts) == frames


def test_a_stream_that_comes_byte_by_byte_gives_the_same_frames() -> None:
    frames = [events(1, 2, 5), frame.encode(Ping(1)), events(5), events(3), frame.encode(Ping(2))]
    stream = b"".join(frames)
    assert read(stream, list(range(len(stream)))) == frames


@settings(deadline=None, max_examples=100)
@given(st.lists(event_frames | control_frames, max_size=5), st.binary(max_size=300), st.integers(0, 2**32))
def test_garbage_in_a_stream_never_loops_for_ever(frames: list[bytes], garbage: bytes, seed: int) -> None:
    stream = b"".join(frames) + garbage
    random = Random(seed)
    cuts = [random.randrange(len(stream) + 1) for _ in range(5)]
    try:
        found = read(stream, cuts)
    except FrameError:
        return
    assert found[: len(frames)] == frames


def test_an_incomplete_frame_is_held_and_joined_once() -> None:
    whole = events(1, size=1000)
    buffer = FrameBuffer()
    assert buffer.take(whole[:3]) == whole[:3]
    buffer.hold(whole[:3], 0)
    assert len(buffer) == 3
    assert buffer.take(whole[3:5]) is None, "not enough to tell the length"
    assert buffer.take(whole[5:8]) == whole[:8]
    buffer.hold(b"xx" + whole[:8], 2)
    for at in range(8, len(whole) - 1, 100):
        assert buffer.take(whole[at : min(at + 100, len(whole) - 1)]) is None
    assert len(buffer) == len(whole) - 1
    assert buffer.take(whole[-1:] + b"next") == whole + b"next"
    assert len(buffer) == 0


def test_chunks_pass_untouched_while_nothing_is_held() -> None:
    buffer = FrameBuffer()
    chunk = events(1)
    assert buffer.take(chunk) is chunk
    buffer.hold(chunk, len(chunk))
    assert len(buffer) == 0
    assert buffer.take(b"") == b""


def test_a_small_part_of_a_chunk_does_not_keep_it_alive() -> None:
    chunk = bytes(1000)
    assert cut(chunk, 0, 1000) is chunk
    large = cut(chunk, 0, 250)
    assert isinstance(large, memoryview)
    assert len(large) == 250
    small = cut(chunk, 10, 259)
    assert type(small) is bytes
    assert len(small) == 249
