"""Traces: canonical bytes for the digest, words for people."""

import pytest

from stentor.machine import SECOND, Effect, Received, Report, Send, Started
from stentor.model.ids import LinkId
from stentor.model.messages import Heartbeat
from stentor.simulation.replay_trace import ReplayTrace
from stentor.wire import frame

LINK = LinkId(1)


def digest(*effects: Effect) -> str:
    trace = ReplayTrace()
    trace.step(5, "n", Received(LINK, b"abc"), effects)
    return trace.digest()


def test_the_digest_sees_bytes_not_where_they_lie() -> None:
    assert digest(Send(LINK, [b"xyz"])) == digest(Send(LINK, [memoryview(b"wxyz")[1:]]))
    assert digest(Send(LINK, [b"xyz"])) != digest(Send(LINK, [b"xyZ"]))
    assert digest(Report("info", "x", {"a": 1})) != digest(Report("info", "x", {"a": 2}))
    assert digest() != digest(Report("info", "x", {}))


def test_the_digest_does_not_see_where_the_code_lies() -> None:
    assert digest(Report("error", "x", {"trace": "a.py"})) == digest(Report("error", "x", {"trace": "b.py"}))


def test_only_plain_data_crosses_a_machines_border() -> None:
    class Leak(Effect, frozen=True):
        what: object

    with pytest.raises(TypeError, match="only plain data"):
        digest(Leak(object()))


def test_lines_tell_people_what_was_said() -> None:
    trace = ReplayTrace(keep=True)
    greeting = frame.PREAMBLE + frame.encode(Heartbeat(8))
    trace.step(SECOND, "node", Started(), [Send(LINK, [greeting]), Report("info", "ready", {})])
    trace.step(2 * SECOND, "node", Received(LINK, greeting[:10]), [])
    trace.note(3 * SECOND, "node", "killed")
    assert trace.steps == 2
    assert "Started" in trace.lines[0]
    assert "Send(1: preamble, Heartbeat(position=8, sent=None, granted=None, subscriptions=None))" in trace.lines[1]
    assert "Received(1: preamble, 2 bytes" in trace.lines[3]
    assert trace.lines[4].split() == ["3.000000000", "node", "killed"]
