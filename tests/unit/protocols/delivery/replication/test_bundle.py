"""What repositories of a bundle tell each other, and ask each other for."""

import msgspec
from tests.paper.bundle import TOPIC, PaperBundle, block

from stentor.machine import SECOND, StartTimer, TimerFired
from stentor.model.communication import repository_name
from stentor.model.control import GossipAck, GossipState, SequenceRun, StreamRanges, TopicTask
from stentor.model.ids import publisher_id
from stentor.model.stored.record import RecordHeader, RecordKind
from stentor.model.trust.access import TopicTerms
from stentor.protocols.delivery.replication.bundle import Bundle, PeerRepository
from stentor.protocols.delivery.repository.repository import TopicRepository, TopicTick
from stentor.protocols.delivery.repository.service import ServiceChange
from stentor.protocols.delivery.repository.storing.streams import Streams
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.transport import EventsReceived

STREAM = (7, 1)


def missing_in_steady_traffic(*held: tuple[int, int]) -> tuple[StreamRanges, ...]:
    """What is asked for by one that has these of 1 … 100, while events come all the time."""
    bundle, streams = Bundle("r1"), Streams()
    bundle.admit({"r1": "", "r2": ""})
    stream = streams[STREAM]
    for first, last in held:
        stream.file(RecordHeader(first, last - first + 1, *STREAM, first, RecordKind.EVENTS))
    stream.learn("r2", [(1, 100)])
    stream.changed_at = 1000
    return bundle.wants(bundle.peers["r2"], streams.values(), settled=999, most=1000, since=0)


def test_a_gap_is_asked_for_while_later_events_keep_coming() -> None:
    assert missing_in_steady_traffic((1, 10), (91, 95)) == (StreamRanges(*STREAM, 0, ((11, 90),)),)


def test_others_are_asked_for_different_events() -> None:
    bundle, streams = Bundle("r1"), Streams()
    bundle.admit({"r1": "", "r2": "", "r3": ""})
    for name in ("r2", "r3"):
        streams[STREAM].learn(name, [(1, 100)])
    first, second = bundle.peers.values()
    asked: list[StreamRanges] = []
    for peer in (first, second):
        asked += bundle.wants(peer, streams.values(), settled=0, most=30, since=5)
        peer.asked = 7
    assert [held.spans for held in asked] == [((1, 30),), ((31, 60),)]
    assert bundle.wants(second, streams.values(), settled=0, most=30, since=8) == (
        StreamRanges(*STREAM, 0, ((1, 30),)),
    ), "the first does not answer"


def test_one_that_has_forgotten_events_is_not_asked_for_them_before_one_that_has_them() -> None:
    bundle, streams = Bundle("r1"), Streams()
    bundle.admit({"r1": "", "r2": "", "r3": ""})
    for name, held in (("r2", StreamRanges(*STREAM, 7, ())), ("r3", StreamRanges(*STREAM, 4, ((5, 7),)))):
        state = GossipState(TOPIC, name, ready=True, held=(held,), facts=0, whole=True)
        bundle.take_state(bundle.peers[name], state, streams, is_agreed=True)
    streams[STREAM].forget(4)
    asked = {}
    for name, peer in bundle.peers.items():
        asked[name] = bundle.wants(peer, streams.values(), settled=0, most=30, since=5)
        peer.asked = 7 if asked[name] else 0
    assert asked == {"r2": (), "r3": (StreamRanges(*STREAM, 0, ((5, 7),)),)}


def test_the_word_of_one_that_is_no_member_any_more_keeps_events_for_nobody() -> None:
    bundle, streams = Bundle("r1"), Streams()
    bundle.admit({"r1": "", "r2": "unit"})
    peer = bundle.peers["r2"]
    held = (StreamRanges(*STREAM, 0, ((1, 3),)),)
    state = GossipState(
        TOPIC, "r2", ready=True, held=held, facts=0, leaving=False, whole=True, unit="unit", cares=("billing",)
    )
    bundle.take_state(peer, state, streams, is_agreed=True)
    assert peer.cares == {"billing": {STREAM: 3}}
    bundle.admit({"r1": ""})
    bundle.take_state(peer, state, streams, is_agreed=True)
    assert not peer.cares
    bundle.validate()


def test_one_that_was_dismissed_and_stores_again_has_neither_skipped_nor_forgotten_that() -> None:
    bundle, streams = Bundle("r1"), Streams()
    bundle.admit({"r1": "", "r2": ""})
    held = (StreamRanges(*STREAM, 2, ((3, 4),), skipped=((3, 4),)),)
    state = GossipState(TOPIC, "r2", ready=True, held=held, facts=0, whole=True)
    bundle.take_state(bundle.peers["r2"], state, streams, is_agreed=True)
    stream = streams[STREAM]
    assert stream.offered_by("r2") == []
    bundle.take_state(bundle.peers["r2"], msgspec.structs.replace(state, held=()), streams, is_agreed=True)
    stream.learn("r2", [(1, 4)])
    assert stream.offered_by("r2") == [(1, 4)]
    assert stream.told_floor == 0


def test_what_may_be_on_its_way_is_not_asked_for() -> None:
    assert missing_in_steady_traffic((1, 95)) == ()


def test_nobody_is_ready_who_has_not_heard_all_that_others_have() -> None:
    repository = TopicRepository("t", RepositorySettings(name="r1"))
    gossip, now = repository.gossip, 10 * SECOND
    repository.registry.create(TopicTerms("owner"), {"r1": "keeper", "r2": "keeper"})
    repository.state.service.change(ServiceChange.LEDGER_READ)
    repository.state.step.now = now
    gossip.admit()
    gossip.linked("keeper")
    news = GossipState("t", "r2", ready=True, held=(), facts=repository.registry.digest, whole=False)
    sender = publisher_id("keeper", repository_name("r2"))
    gossip.hear(sender, news, ())
    repository.state.step.now = now + SECOND
    gossip.judge()
    assert not gossip.ready, "it was told only what has changed"
    gossip.hear(sender, msgspec.structs.replace(news, whole=True), ())
    gossip.judge()
    assert gossip.ready


def test_who_misses_a_state_asks_for_all_of_it() -> None:
    peer = PeerRepository("r2")
    whole = GossipState("t", "r2", ready=True, held=(), facts=1, whole=True, number=7)
    assert peer.follow(whole)
    peer.told = True
    for number, is_news, is_told in ((8, True, True), (8, False, True), (9, True, True), (11, True, False)):
        state = msgspec.structs.replace(whole, whole=False, number=number)
        assert (peer.follow(state), peer.told) == (is_news, is_told)
    peer.told = True
    assert not peer.follow(msgspec.structs.replace(whole, whole=False, number=2))
    assert not peer.told, "it has begun anew, or what it told was overtaken"


def test_an_idle_bundle_says_nothing_of_streams_that_have_not_changed() -> None:
    bundle = PaperBundle("r1", "r2")
    for incarnation in range(1, 30):
        bundle.recover("publisher", "shop", "r1", attempt=incarnation, incarnation=incarnation)
        bundle.publish(1, 3, incarnation=incarnation)
    bundle.pass_time(2000)
    bundle.clear()
    bundle.pass_time(60_000, 250)
    states = [event for _, event in bundle.said if isinstance(event, GossipState)]
    assert len(states) > 100
    assert not any(state.held for state in states)
    assert not bundle.repositories["r1"].log.streams.unsettled


def test_a_registration_is_written_down_for_nobody_else() -> None:
    """It takes a sequence number, which subscribers pass with the next event; that is no progress."""
    bundle = PaperBundle("r1")
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1")
    bundle.pass_time(1000)
    repository, before = bundle.repositories["r1"], bundle.ledgers["r1"].facts["local/progress/billing"]
    cursor = repository.feeds.cursors["billing"]
    shown = cursor.scanned_upto
    bundle.owner("r1", TopicTask.GRANT, role="publisher", name="other")
    bundle.owner("r1", TopicTask.GRANT, role="publisher", name="another")
    bundle.pass_time(1000)
    assert bundle.ledgers["r1"].facts["local/progress/billing"] == before
    assert (cursor.scanned_upto, repository.log.horizon) == (shown, shown + 2), "no subscriber is looked at for it"
    bundle.publish(1, 3)
    assert cursor.scanned_upto == repository.log.horizon == shown + 5
    assert cursor.progress.sync == shown + 2


def test_an_idle_topic_with_one_repository_rests_until_something_happens() -> None:
    bundle = PaperBundle("r1")
    bundle.recover("publisher", "shop", "r1")
    bundle.publish(1, 3)
    bundle.pass_time(10_000)
    repository = bundle.repositories["r1"]
    (timer,) = (
        effect for effect in repository.step(bundle.now, TimerFired(TopicTick(TOPIC))) if isinstance(effect, StartTimer)
    )
    assert timer.at - bundle.now == 5 * SECOND
    woken = repository.step(bundle.now + SECOND, EventsReceived([block(5)]))
    (timer,) = (effect for effect in woken if isinstance(effect, StartTimer))
    assert timer.at - bundle.now < 2 * SECOND


def test_numbers_that_others_gave_to_what_is_forgotten_take_no_memory() -> None:
    bundle, streams = Bundle("r1"), Streams()
    bundle.admit({"r1": "", "r2": ""})
    peer = bundle.peers["r2"]
    for number in range(1, 20_001):
        run = SequenceRun(sequence=number, count=1, publisher=7, incarnation=1, first=number)
        bundle.take_rows(peer, GossipAck("t", "r2", stretches=(run,), digests=(0,)), streams)
        streams[STREAM].forget(number - 10)
    assert len(peer.lines) < 2000
    assert list(peer.translate(19_991, 20_000)) == [(STREAM, number, number) for number in range(19_991, 20_001)]
    assert peer.oldest == 1, "an epoch before all that is forgotten can still be translated"
