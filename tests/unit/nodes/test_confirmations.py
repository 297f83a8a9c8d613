"""Confirmations: who counts on an answer is told when events may be lost; who only checks is let go."""

from tests.unit.nodes.conftest import Stage

from stentor.machine import LinkLost
from stentor.model.errors import Refusal
from stentor.model.ids import LinkId, topic_id
from stentor.model.messages import Ping
from stentor.nodes.client_api import CompleteFlush, FlowCheckRequested, FlushRequested, RefuseFlow
from stentor.nodes.confirmations import Confirmations
from stentor.policies.access import AccessSettings
from stentor.protocols.connection.outbox import Outbox
from stentor.wire.frame import decode


def outbox(events: int) -> Outbox:
    made = Outbox(LinkId(1), 1000)
    made.events = events
    return made


def test_a_check_is_answered_after_the_events_before_it() -> None:
    stage = Stage()
    client = stage.client("writer")
    client.publish("t", b"1")
    assert client.do(FlowCheckRequested(7)) == [CompleteFlush(7)]


def test_a_refusal_comes_before_the_answer_to_the_check() -> None:
    stage = Stage(access=AccessSettings(is_open=False))
    client = stage.client("writer")
    stage.broker._sessions[client.link].credentials.is_node = False  # type: ignore[index]
    client.publish("t", b"1")
    refused, settled = client.told[-1:] + client.do(FlowCheckRequested(7))
    assert isinstance(refused, RefuseFlow)
    assert (refused.topic, refused.code) == (topic_id("t"), Refusal.NOT_AUTHORISED)
    assert settled == CompleteFlush(7)


def test_markers_follow_what_was_asked_for_and_come_back_once() -> None:
    confirmations, link = Confirmations(), outbox(3)
    assert confirmations.request_flush(1) == ""
    confirmations.request_check(2)
    assert confirmations.are_requested
    confirmations.mark(link)
    assert not confirmations.are_requested
    assert [decode(bytes(each)) for each in link.release()] == [Ping(1), Ping(2)]
    assert confirmations.on_echo(1)
    assert not confirmations.on_echo(1)
    assert confirmations.on_echo(2)


def test_a_check_that_is_let_go_leaves_the_doubt_to_the_next_flush() -> None:
    confirmations = Confirmations()
    confirmations.request_check(2)
    confirmations.mark(outbox(3))
    assert confirmations.on_link_lost(outbox(3), "gone", []) == [2]
    assert confirmations.request_flush(4) == "gone"
    assert confirmations.request_flush(5) == "", "it was told"


def test_a_flush_that_is_told_leaves_no_doubt() -> None:
    confirmations = Confirmations()
    confirmations.request_check(2)
    confirmations.request_flush(3)
    confirmations.mark(outbox(3))
    assert confirmations.on_link_lost(outbox(3), "gone", []) == [2, 3]
    assert confirmations.request_flush(4) == ""


def test_a_client_without_a_link_checks_when_it_is_back() -> None:
    stage = Stage()
    client = stage.client("writer")
    stage.open = False
    stage.cut(client)
    client.tell(FlowCheckRequested(7), FlushRequested(8))
    stage.open = True
    stage.wait(10)
    assert [each for each in client.told if isinstance(each, CompleteFlush)] == [CompleteFlush(7), CompleteFlush(8)]
    assert client.machine.step(stage.now, LinkLost(LinkId(99), "nobody's")) == []
