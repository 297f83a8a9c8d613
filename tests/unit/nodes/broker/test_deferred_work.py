"""What one client wants of a broker is done in turns with everybody else's traffic, and leaves with it in turns."""

import gc
from typing import TYPE_CHECKING

import pytest
from tests.unit.nodes.conftest import NUMBERED, Peer, Stage

from stentor.machine import LinkLost, TimerFired
from stentor.model.attribute import Kind, Schema
from stentor.model.errors import Refusal
from stentor.model.ids import SubscriptionId, topic_id
from stentor.model.limits import Limits
from stentor.model.messages import (
    Message,
    Ping,
    Pong,
    SchemaDefinition,
    StatusReport,
    StatusRequest,
    Topic,
    Unsubscription,
)
from stentor.nodes.broker.deferred_work import DeferredWorkDue
from stentor.nodes.broker.heartbeats import BrokerTick
from stentor.wire.block import Block

if TYPE_CHECKING:
    from collections.abc import Callable


def topics(first: int, count: int) -> list[Topic]:
    names = [f"new/{number}" for number in range(first, first + count)]
    return [Topic(topic_id(name), name) for name in names]


def known(stage: Stage) -> int:
    return stage.broker.status(stage.now).topics


def turn(stage: Stage) -> None:
    """One round of the event loop for what was put off."""
    del stage.timers["broker", DeferredWorkDue()]
    stage.tell_broker(TimerFired(DeferredWorkDue()))
    stage.run()


def test_new_topics_are_defined_in_turns_and_others_are_served_meanwhile(stage: Stage) -> None:
    publisher, subscriber, greedy = stage.peer("p"), stage.peer("s"), stage.peer("greedy")
    subscriber.subscribe(1, "t")
    publisher.define("t")
    greedy.say(*topics(0, 2000), Ping(7))
    assert known(stage) < 300
    assert stage.paused == {greedy.link}
    for number in range(5):
        publisher.say(publisher.events("t", number + 1))
        turn(stage)
    assert len([word for word in subscriber.hear() if isinstance(word, bytes)]) == 5
    assert known(stage) < 1500
    stage.wait(0)
    assert known(stage) == 2001
    assert stage.paused == set()
    assert greedy.hear() == [Pong(7)]


def test_first_frames_of_flows_are_met_in_turns(stage: Stage) -> None:
    greedy, subscriber = stage.peer("greedy"), stage.peer("s")
    subscriber.subscribe(1, "new/#")
    for first in range(0, 1000, 100):
        greedy.say(*topics(first, 100))
    stage.wait(0)
    subscriber.hear()
    greedy.say(*(greedy.events(f"new/{number}") for number in range(1000)))
    few = len([word for word in subscriber.hear() if isinstance(word, bytes)])
    assert 0 < few < 300
    stage.wait(0)
    assert few + len([word for word in subscriber.hear() if isinstance(word, bytes)]) == 1000


def test_schemas_are_defined_in_turns(stage: Stage) -> None:
    greedy = stage.peer("greedy")
    schemas = [SchemaDefinition(Schema((f"a{number}",), (Kind.INTEGER,))) for number in range(500)]
    assert greedy.say(*schemas, Ping(1)) == []
    assert stage.paused == {greedy.link}
    stage.wait(0)
    assert greedy.hear() == [Pong(1)]


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (lambda: [StatusRequest(number) for number in range(50)], 2),
        (lambda: [Unsubscription(SubscriptionId(number)) for number in range(300)], 20),
        (lambda: [Ping(number) for number in range(5000)], 600),
    ],
)
def test_whatever_a_client_repeats_is_answered_in_turns(
    stage: Stage, words: "Callable[[], list[Message]]", most: int
) -> None:
    greedy = stage.peer("greedy")
    said = words()
    at_once = greedy.say(*said)
    assert 0 < len(at_once) <= most
    stage.wait(0)
    assert len(at_once) + len(greedy.hear()) == len(said)


def test_one_of_each_kind_can_follow_the_other_in_a_step(stage: Stage) -> None:
    peer = stage.peer("me")
    peer.subscribe(1, "t")
    answers = peer.say(StatusRequest(1), *topics(0, 20), Ping(2))
    assert [type(answer) for answer in answers] == [StatusReport, Pong]


def test_who_asks_for_little_does_not_wait_behind_who_asks_for_much(stage: Stage) -> None:
    greedy, modest = stage.peer("greedy"), stage.peer("modest")
    greedy.say(*topics(0, 5000))
    assert modest.say(Topic(topic_id("mine"), "mine"), Ping(1)) == [Pong(1)]
    assert modest.link not in stage.paused


def test_many_greedy_links_share_one_turn(stage: Stage) -> None:
    crowd = [stage.peer(f"greedy{number}") for number in range(10)]
    for number, peer in enumerate(crowd):
        peer.say(*topics(1000 * number, 1000))
    before = known(stage)
    assert before < 300 + 10 * 20, "only the first has a whole step's allowance"
    turn(stage)
    assert known(stage) - before <= 130
    stage.wait(0)
    assert known(stage) == 10_000


def leave(stage: Stage, peer: Peer) -> None:
    stage.tell_broker(LinkLost(peer.link, "cable cut"))
    stage.run()


def test_the_topics_of_one_who_is_gone_are_forgotten_in_turns(stage: Stage) -> None:
    greedy = stage.peer("greedy")
    greedy.say(*topics(0, 3000))
    stage.wait(0)
    greedy.say(*(greedy.events(f"new/{number}") for number in range(1000)))
    stage.wait(0)
    leave(stage, greedy)
    assert known(stage) > 2000
    turn(stage)
    assert known(stage) > 2000
    stage.wait(0)
    assert known(stage) == 0
    assert set(stage.timers) == {("broker", BrokerTick())}
    again = stage.peer("again")
    again.define("new/1")
    assert known(stage) == 1


def test_a_link_with_too_many_flows_forgets_the_oldest_few(new_stage: type[Stage]) -> None:
    stage = new_stage(Limits(flows=640))
    publisher, subscriber = stage.peer("p"), stage.peer("s")
    subscriber.subscribe(1, "new/#")
    publisher.say(*topics(0, 700))
    stage.wait(0)
    publisher.say(*(publisher.events(f"new/{number}") for number in range(700)))
    stage.wait(0)
    (session,) = [session for session in stage.broker._sessions if session.connection.name == "p"]
    assert 640 - 20 <= len(session.flows.routes) <= 640, "not all of them are forgotten at once"
    publisher.say(publisher.events("new/0", 2), publisher.events("new/699", 2))
    assert len([word for word in subscriber.hear() if isinstance(word, bytes)]) == 702


@pytest.mark.parametrize(
    ("limits", "words", "hint"),
    [
        (Limits(topics_per_client=5), topics(0, 6), "topics_per_client"),
        (
            Limits(schemas_per_client=5),
            [SchemaDefinition(Schema((f"a{number}",), (Kind.INTEGER,))) for number in range(6)],
            "schemas_per_client",
        ),
    ],
)
def test_a_client_defines_so_many_topics_and_schemas(
    new_stage: type[Stage], limits: Limits, words: list[Message], hint: str
) -> None:
    stage = new_stage(limits)
    other, greedy = stage.peer("other"), stage.peer("greedy")
    assert greedy.say(*words[:5], words[0], Ping(1)) == [Pong(1)], "what it has said before counts once"
    refusal = greedy.say(words[5])[-1]
    assert refusal.code is Refusal.TOO_MANY
    assert hint in refusal.reason
    assert other.say(words[5], Ping(2)) == [Pong(2)]


def test_a_topic_is_nothing_that_the_collector_looks_at(stage: Stage) -> None:
    peer, subscriber = stage.peer("p"), stage.peer("s")
    subscriber.subscribe(1, "new/#")
    peer.say(*topics(0, 10), *(peer.events(f"new/{number}") for number in range(10)))
    gc.collect()
    before = len(gc.get_objects())
    peer.say(*topics(10, 1000))
    stage.wait(0)
    peer.say(*(peer.events(f"new/{number}") for number in range(10, 1010)))
    stage.wait(0)
    gc.collect()
    assert len(gc.get_objects()) - before < 100


def test_events_with_dear_filters_are_matched_in_turns_and_in_order(stage: Stage) -> None:
    publisher, dear, other, plain = (stage.peer(name) for name in ("p", "dear", "other", "plain"))
    plain.subscribe(1, "quiet")
    for number in range(100):
        dear.subscribe(number, "t", f"n % {number + 2} != 1000 AND n + {number} >= 0")
    stage.wait(0)
    dear.hear()
    publisher.define("t")
    other.define("quiet")
    publisher.say(publisher.events("t", 1, list(range(1000))), publisher.events("t", 1001, list(range(1000, 1010))))
    few = numbers_in(dear)
    assert 0 < len(few) < 500
    assert stage.paused == {publisher.link}
    other.say(other.events("quiet", 1))
    assert len([word for word in plain.hear() if isinstance(word, bytes)]) == 1, "others are served meanwhile"
    stage.wait(0)
    assert few + numbers_in(dear) == list(range(1010))
    assert stage.paused == set()


def numbers_in(peer: Peer) -> list[int]:
    """The numbers of all events that a peer has heard, which say so in their bodies and in their blocks."""
    found = []
    for word in peer.hear():
        if isinstance(word, bytes):
            block = Block(word, NUMBERED)
            assert [int(body) for body in block.bodies()] == [
                block.catenation + offset - 1 for offset in block.offsets()
            ]
            found += [int(body) for body in block.bodies()]
    return found


def test_cutting_a_frame_takes_no_more_of_a_clients_credit_than_it_sent(stage: Stage) -> None:
    publisher, dear = stage.peer("p"), stage.peer("dear")
    for number in range(100):
        dear.subscribe(number, "t", f"n % {number + 2} = 1000 AND n + {number} >= 0")
    stage.wait(0)
    publisher.define("t")
    frame = publisher.events("t", 1, list(range(1000)))
    publisher.say(frame)
    stage.wait(0)
    (session,) = [session for session in stage.broker._sessions if session.connection.name == "p"]
    assert session.connection.taken == len(frame)
