"""An exception at a peer's message ends what that peer touched; an assertion ends the node."""

from typing import TYPE_CHECKING

import pytest

from stentor.machine import SECOND, Close, Received, Report
from stentor.model.errors import Refusal
from stentor.model.messages import Heartbeat, Ping, Rejection
from stentor.nodes.broker.link_sessions import LinkSessions
from stentor.nodes.containment import FaultReports, Offenders, senders_of
from stentor.protocols.connection.connection import Connection
from stentor.protocols.delivery.transport import EventsReceived, LetterReceived, LinkUp
from stentor.wire import frame

if TYPE_CHECKING:
    from tests.unit.nodes.conftest import Stage

POISON = Heartbeat(666)


def poison(patch: pytest.MonkeyPatch, error: Exception) -> None:
    """Break a handler: it raises at a heartbeat that claims a certain position."""
    sound = Connection.check_heartbeat

    def poisoned(self: Connection, heartbeat: Heartbeat, rest: int, events: int) -> None:
        if heartbeat.position == POISON.position:
            raise error
        sound(self, heartbeat, rest, events)

    patch.setattr(Connection, "check_heartbeat", poisoned)


def faults(stage: "Stage") -> list[Report]:
    return [report for report in stage.reports if report.what == "a message could not be handled"]


def test_a_link_at_whose_message_the_broker_fails_is_closed_and_leaves_nothing(
    stage: "Stage", monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, KeyError("poisoned"))
    alice, bob = stage.client("alice"), stage.client("bob")
    alice.subscribe(1, "news/#")
    mallory = stage.peer("mallory")
    mallory.subscribe(1, "news/#", "n > 1")
    said = mallory.say(POISON)
    assert [each.code for each in said if isinstance(each, Rejection)] == [Refusal.PROTOCOL]
    assert mallory.closed is not None
    (report,) = faults(stage)
    assert report.level == "error"
    assert "Traceback" in str(report.details["trace"])
    assert report.details["peer"] == "mallory"
    status = stage.broker.status(stage.now)
    assert {link.name for link in status.links} == {"alice", "bob"}
    assert status.subscriptions == 1
    bob.publish("news/today", b"still here", n=5)
    assert [body for _, _, body in alice.read()] == [b"still here"]


def test_failures_at_one_place_are_reported_once_in_a_while(stage: "Stage", monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch, KeyError("poisoned"))
    for number in range(20):
        stage.peer(f"mallory {number}").say(POISON)
    assert len(faults(stage)) == 1
    stage.wait(61)
    stage.peer("mallory").say(POISON)
    assert [report.details["since"] for report in faults(stage)] == [0, 19]


@pytest.mark.parametrize("error", [AssertionError("ours"), MemoryError()])
def test_an_assertion_ends_the_broker_whoever_brought_it_about(
    stage: "Stage", monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    poison(monkeypatch, error)
    peer = stage.peer("mallory")
    with pytest.raises(type(error)):
        peer.say(POISON)


def test_a_broker_that_fails_to_drop_a_link_ends(stage: "Stage", monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch, KeyError("poisoned"))

    def forget(*_: object) -> None:
        raise ValueError("and this fails, too")

    peer = stage.peer("mallory")
    monkeypatch.setattr(LinkSessions, "forget", forget)
    with pytest.raises(ValueError, match="this fails, too"):
        peer.say(POISON)


def test_what_a_closed_link_still_brings_is_not_looked_at(stage: "Stage", monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch, KeyError("poisoned"))
    peer = stage.peer("mallory")
    peer.say(POISON)
    (effect,) = stage.tell_broker(Received(peer.link, frame.encode(Ping(1))))
    assert isinstance(effect, Close)


# ---- whom a repository does not hear


def failure() -> KeyError:
    try:
        raise KeyError("poisoned")
    except KeyError as error:
        return error


def test_a_sender_is_not_heard_for_a_minute() -> None:
    offenders = Offenders()
    letter, other = LetterReceived(7, ()), LetterReceived(8, ())
    assert offenders.admit(0, [letter]) == [letter]
    assert [report.what for report in offenders.blame(0, [7], failure(), "orders")] == [
        "a message could not be handled"
    ]
    assert offenders.admit(59 * SECOND, [letter, other, LinkUp("me")]) == [other, LinkUp("me")]
    assert offenders.admit(60 * SECOND, [letter]) == [letter]


def test_the_third_failure_in_a_minute_is_raised() -> None:
    offenders = Offenders()
    offenders.blame(0, [1], failure(), "orders")
    offenders.blame(SECOND, [2], failure(), "orders")
    with pytest.raises(KeyError):
        offenders.blame(59 * SECOND, [3], failure(), "orders")


def test_failures_that_are_far_between_are_never_too_many() -> None:
    offenders = Offenders()
    for minute in range(100):
        offenders.blame(minute * 31 * SECOND, [minute], failure(), "orders")
    last, earlier = LetterReceived(99, ()), LetterReceived(97, ())
    assert offenders.admit(99 * 31 * SECOND, [last, earlier]) == [earlier], "who made it fail last is not heard yet"


def test_our_own_inputs_have_no_sender() -> None:
    assert senders_of([LinkUp("me"), EventsReceived(())]) == set()
    assert senders_of([LetterReceived(7, ()), LetterReceived(8, ())]) == {7, 8}


def test_places_that_failed_are_not_remembered_without_bound() -> None:
    reports = FaultReports()
    for number in range(1000):
        error = ValueError()
        error.__traceback__ = failure().__traceback__
        made = type(f"Error{number}", (ValueError,), {})().with_traceback(error.__traceback__)
        assert reports.report(0, made)
    assert len(reports._places) <= 64
