"""A broker's own traces: some of the frames that pass, the same ones everywhere, and none if nobody wants them."""

from typing import TYPE_CHECKING

import pytest

from stentor.machine import SECOND, StopRequested, TimerFired
from stentor.model.attribute import Value
from stentor.model.ids import publisher_id, topic_id
from stentor.model.messages import Topic, Welcome
from stentor.model.reports.trace import TRACE, signed
from stentor.nodes.broker.tracer import _DENSE, HopsDue
from stentor.wire.head import LAST_FIRST

_MANY = _DENSE[1]

if TYPE_CHECKING:
    from tests.unit.nodes.conftest import Actor, Stage

WALL = 10**18


def traces(stage: "Stage", reader: "Actor") -> list[dict[str, Value]]:
    """What is told when a second is over."""
    stage.now += SECOND
    stage.timers.pop(("broker", HopsDue()), None)
    stage.tell_broker(TimerFired(HopsDue(), WALL + stage.now))
    stage.run()
    return [attributes for _, attributes, _ in reader.read(1)]


def test_a_frame_that_passes_is_told_with_its_numbers_and_time(new_stage: "type[Stage]") -> None:
    stage = new_stage(traces=True)
    reader, writer = stage.client("reader"), stage.client("writer")
    reader.subscribe(1, TRACE)
    stage.now = 5 * SECOND
    for _ in range(3):
        writer.publish("flights/jfk", b"x")
    rows = traces(stage, reader)
    assert [(row["kind"], row["node"], row["about"], row["peer"]) for row in rows] == [
        ("hop", "campus/b1", "flights/jfk", "writer")
    ]
    (row,) = rows
    assert (row["first"], row["last"], row["count"]) == (1, 3, 3)
    assert row["source_id"] == signed(publisher_id("anonymous", "writer"))
    assert row["at"] == WALL + 5 * SECOND
    assert traces(stage, reader) == []


@pytest.mark.parametrize("number", [LAST_FIRST + 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_a_number_that_no_column_holds_is_not_traced(new_stage: "type[Stage]", number: int) -> None:
    stage = new_stage(traces=True)
    reader = stage.client("reader")
    reader.subscribe(1, TRACE)
    reader.subscribe(2, "flights/#")
    mallory = stage.peer("mallory")
    mallory.define("flights/jfk")
    mallory.say(mallory.events("flights/jfk", number))
    assert traces(stage, reader) == []
    assert reader.read(2) == []  # nor does a client take it
    mallory.say(mallory.events("flights/jfk", 7))
    assert [row["first"] for row in traces(stage, reader)] == [7]


def test_what_system_topics_carry_is_not_traced(new_stage: "type[Stage]") -> None:
    stage = new_stage(traces=True)
    reader, writer = stage.client("reader"), stage.client("writer")
    reader.subscribe(1, TRACE)
    writer.publish("$to/somebody", b"x")
    assert traces(stage, reader) == []
    writer.publish(TRACE, b"x", n=1)
    assert traces(stage, reader) == [{"n": 1}]  # as it was published, and nothing about it


def test_what_nobody_wants_is_not_told_and_not_counted(new_stage: "type[Stage]") -> None:
    stage = new_stage(traces=True)
    writer = stage.client("writer")
    writer.publish("a")
    stage.timers.pop(("broker", HopsDue()))
    stage.tell_broker(TimerFired(HopsDue(), WALL))
    assert ("broker", HopsDue()) not in stage.timers
    assert stage.broker.status(0).dropped == {"no subscriber": 1}
    reader = stage.client("reader")
    reader.subscribe(1, TRACE)
    writer.publish("a")
    assert [row["first"] for row in traces(stage, reader)] == [2]


def test_a_broker_that_stops_tells_what_it_traced_and_that_it_ended(new_stage: "type[Stage]") -> None:
    stage = new_stage(traces=True)
    reader, writer = stage.client("reader"), stage.client("writer")
    reader.subscribe(1, TRACE)
    writer.publish("a")
    stage.tell_broker(StopRequested())
    stage.run()
    told = [attributes for _, attributes, _ in reader.read(1)]
    assert [(row["kind"], row["node"], row["count"]) for row in told] == [
        ("hop", "campus/b1", 1),
        ("ended", "campus/b1", 1),
    ]


def test_off_is_off_and_clients_are_told(new_stage: "type[Stage]") -> None:
    for on in (False, True):
        stage = new_stage(traces=on)
        (welcome,) = [said for said in stage.peer().greet("me") if isinstance(said, Welcome)]
        assert welcome.traces is on
        assert stage.client("you").machine.traces is on
    stage = new_stage()
    writer = stage.client("writer")
    writer.publish("a")
    assert ("broker", HopsDue()) not in stage.timers
    assert stage.broker.status(0).topics == 1


def test_of_many_frames_few_are_traced_and_a_busier_broker_traces_a_part_of_them(new_stage: "type[Stage]") -> None:
    chosen = []
    for frames in (_MANY * 4, _MANY * 40):
        stage = new_stage(traces=True)
        reader = stage.client("reader")
        reader.subscribe(1, TRACE)
        peer = stage.peer("writer")
        peer.say(Topic(topic_id("a"), "a"))
        rows: list[dict[str, Value]] = []
        for _ in range(3):  # the second second knows how much there is
            for number in range(frames):
                stage.now += 1000
                peer.say(peer.events("a", 2 * number + 1))
            rows = traces(stage, reader)
            assert 0 < len(rows) < 20 * _MANY
        chosen.append({row["first"] for row in rows})
    calm, busy = chosen
    assert {first for first in busy if first <= 8 * _MANY} <= calm  # type: ignore[operator]
    assert len(busy) < 4 * _MANY
