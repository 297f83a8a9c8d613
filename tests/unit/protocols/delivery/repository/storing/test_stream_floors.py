"""What others have forgotten: a repository that never had it raises its floor, and goes on as if it had."""

import pytest
from tests.paper.bundle import KEEPER, TOPIC, PaperBundle

from stentor.model.communication import end_name, repository_name
from stentor.model.control import GossipState, RecoveryResponse, StreamRanges, TopicTask
from stentor.model.ids import publisher_id
from stentor.model.stored.record import RecordHeader, RecordKind
from stentor.protocols.delivery.replication.bundle import PeerRepository
from stentor.protocols.delivery.repository.registry import SubscriptionRecord
from stentor.protocols.delivery.repository.serving.dissemination_table import DisseminationTable
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.storing.recent_records import Budget
from stentor.protocols.delivery.repository.storing.stream_floors import StreamFloors
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.transport import LetterReceived

STREAM = (publisher_id("", end_name("publisher", "shop", TOPIC)), 5)


class Bundle(PaperBundle):
    """Repositories of which some are slow to say what they have; events are forgotten after a second."""

    def __init__(self) -> None:
        super().__init__("r1", keep=1)
        self.pass_time(6000)
        self.recover("publisher", "shop", "r1")

    def join(self, name: str) -> None:
        self.add(name)
        self.owner("r1", TopicTask.ADD_REPOSITORY, repositories=(name,))

    def stream(self, name: str) -> PublisherStream:
        return self.repositories[name].log.streams[STREAM]


def grown() -> Bundle:
    """r1 has forgotten 1 … 10; r2 joined, and got 12 before it heard of that."""
    bundle = Bundle()
    bundle.publish(1, 10)
    bundle.publish(11, 1)
    bundle.pass_time(12_000)
    assert bundle.stream("r1").floor >= 10
    bundle.slow.add("r1")
    bundle.join("r2")
    bundle.publish(12, 1)
    assert [span[:2] for span in bundle.stream("r2").reserved] == [(1, 11)], "it has heard nothing yet"
    bundle.slow.clear()
    bundle.pass_time(2000)
    return bundle


def is_ready(bundle: Bundle, name: str) -> bool:
    return bundle.repositories[name].gossip.ready


@pytest.mark.req("RD-21")
def test_a_newcomer_raises_its_floor_to_what_others_have_forgotten() -> None:
    bundle = grown()
    assert is_ready(bundle, "r2")
    assert bundle.stream("r2").floor >= 10
    assert not bundle.stream("r2").voids
    log = bundle.repositories["r2"].log
    assert log.horizon == log.next - 1


@pytest.mark.req("RD-20", "RD-21")
def test_a_second_newcomer_is_ready() -> None:
    bundle = grown()
    bundle.slow |= {"r1", "r2"}
    bundle.join("r3")
    bundle.publish(13, 1)
    bundle.slow.discard("r2")
    bundle.pass_time(700)
    bundle.slow.clear()
    bundle.pass_time(6000)
    assert is_ready(bundle, "r3")
    bundle.kill("r3")
    bundle.start("r3")
    bundle.pass_time(6000)
    assert is_ready(bundle, "r3")


@pytest.mark.req("RD-13")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_newcomer_tells_the_next_life_of_a_publisher_all_that_was_stored(restarts: bool) -> None:
    bundle = grown()
    if restarts:
        bundle.kill("r1")
        bundle.kill("r2")
        bundle.start("r2")
        bundle.pass_time(31_000)
    bundle.recover("publisher", "shop", "r2", incarnation=6, attempt=6 << 15)
    (response,) = bundle.told(RecoveryResponse, "shop")[1:]
    assert (response.incarnation, response.last) == (5, 12)


@pytest.mark.req("GE-15")
def test_a_newcomer_forgets_what_follows() -> None:
    bundle = grown()
    bundle.publish(13, 10)
    bundle.publish(23, 1)
    bundle.pass_time(12_000)
    assert bundle.stream("r2").floor >= 22


def floors() -> tuple[StreamFloors, PublisherStream, DisseminationTable]:
    """A repository that has 5 … 10 of a stream, for a subscriber that has nothing yet."""
    state = TopicState(TOPIC, RepositorySettings(name="r2"), Budget(0))
    stream = state.streams[STREAM]
    stream.file(RecordHeader(1, 4, *STREAM, 1, RecordKind.RESERVED))
    stream.file(RecordHeader(5, 6, *STREAM, 5, RecordKind.EVENTS))
    stream.durable.add(5, 10)
    state.table.add("billing", SubscriptionRecord(""), 0, True)
    return StreamFloors(state), stream, state.table


def test_the_floor_does_not_rise_over_what_a_subscriber_lacks() -> None:
    floors_, stream, table = floors()
    floors_.follow(stream, StreamRanges(*STREAM, 20, ()), ())
    assert stream.floor == 4
    assert stream.absent([(1, 20)], late=True) == [], "nobody has 11 … 20: nobody waits for them"
    table.destinations["billing"].mark(STREAM, 5, 10)
    floors_.follow(stream, StreamRanges(*STREAM, 20, ()), ())
    assert stream.floor == 20


def test_the_floor_rises_when_a_subscriber_has_the_rest_though_nobody_tells_of_it_again() -> None:
    bundle = PaperBundle("r1", "r2", copies=1)
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1")
    bundle.kill("r2")
    bundle.publish(1, 10)
    registry, sender = bundle.repositories["r1"].registry, publisher_id(KEEPER, repository_name("r2"))
    told = GossipState(TOPIC, "r2", True, (StreamRanges(*STREAM, 20, ()),), registry.digest, version=registry.version)
    bundle.step("r1", LetterReceived(sender, [told]))
    stream = bundle.repositories["r1"].log.streams[STREAM]
    assert (stream.floor, stream.skipped.pairs()) == (0, ((11, 20),)), "billing lacks what is here"
    _, sequence = stream.locate(1) or (0, 0)
    bundle.acknowledge("billing", "r1", (sequence, sequence + 9))
    bundle.pass_time(6000)
    assert stream.floor == 20


def test_the_floor_does_not_rise_over_what_a_subscriber_can_get_from_one_that_lives() -> None:
    floors_, stream, _ = floors()
    stream.peer_stored["r3"], stream.peer_floors["r3"] = stream.durable.copy(), 0
    stream.peer_stored["r3"].add(3, 3)
    stream.peer_stored["r3"].add(15, 16)
    floors_.follow(stream, StreamRanges(*STREAM, 20, ()), [PeerRepository("r3")])
    assert stream.floor == 2
    assert stream.absent([(1, 20)], late=True) == [(3, 3), (15, 16)], "it is fetched"


@pytest.mark.req("RD-21")
def test_what_others_have_forgotten_is_not_awaited_any_more_when_the_one_that_had_it_dies() -> None:
    bundle = PaperBundle("r1", "r2", "r3", copies=1)
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1")
    bundle.kill("r2")
    bundle.kill("r3")
    repository = bundle.repositories["r1"]

    def say(name: str, *held: StreamRanges, whole: bool) -> None:
        facts, version = repository.registry.digest, repository.registry.version
        told = GossipState(TOPIC, name, True, held, facts, whole=whole, version=version)
        bundle.step("r1", LetterReceived(publisher_id(KEEPER, repository_name(name)), [told]))

    say("r3", StreamRanges(*STREAM, 0, ((5, 10),)), whole=True)
    say("r2", StreamRanges(*STREAM, 10, ()), whole=True)
    stream = repository.log.streams[STREAM]
    assert stream.absent([(1, 10)], late=True) == [(5, 10)], "r3 can send them"
    for _ in range(10):  # r2 lives, and tells of a stream that does not change only if it is asked
        bundle.said.clear()
        bundle.pass_time(500)
        is_asked = any(isinstance(event, GossipState) and event.asking for _, event in bundle.said)
        say("r2", *[StreamRanges(*STREAM, 10, ())] * is_asked, whole=is_asked)
    assert stream.absent([(1, 10)], late=True) == []


def test_what_nobody_ever_had_is_not_told_to_be_stored_though_it_is_forgotten() -> None:
    floors_, stream, table = floors()
    table.destinations["billing"].mark(STREAM, 5, 10)
    stream.voids.add(2, 2)  # it had given this up, and another one had it
    floors_.follow(stream, StreamRanges(*STREAM, 20, (), voids=((15, 15),)), ())
    assert (stream.floor, stream.known, stream.voids.pairs()) == (20, 14, ((15, 15),))


def test_the_floor_does_not_rise_over_what_is_being_written() -> None:
    floors_, stream, table = floors()
    table.destinations["billing"].mark(STREAM, 5, 12)
    stream.file(RecordHeader(11, 2, *STREAM, 11, RecordKind.EVENTS))
    floors_.follow(stream, StreamRanges(*STREAM, 20, ()), ())
    assert stream.floor == stream.known == 10
    stream.durable.add(11, 12)
    floors_.follow(stream, StreamRanges(*STREAM, 20, ()), ())
    assert stream.floor == stream.known == 20


def test_the_floor_does_not_rise_into_a_record() -> None:
    floors_, stream, table = floors()
    table.destinations["billing"].mark(STREAM, 5, 7)
    floors_.follow(stream, StreamRanges(*STREAM, 7, ()), ())
    assert stream.floor == 4, "another one has cut 5 … 10 otherwise"
    assert stream.earliest(table.destinations["billing"].done[STREAM]) == 5, "8 … 10 are still found"
