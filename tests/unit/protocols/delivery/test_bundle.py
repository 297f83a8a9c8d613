"""What a repository asks another one for."""

import msgspec

from stentor.machine import SECOND
from stentor.model.access import TopicTerms
from stentor.model.control import GossipState, Held, repository_name
from stentor.model.ids import publisher_id
from stentor.model.record import Kind, Line
from stentor.protocols.delivery.bundle import Bundle
from stentor.protocols.delivery.repository import Repository
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.store import Streams

STREAM = (7, 1)


def missing_in_steady_traffic(*held: tuple[int, int]) -> tuple[Held, ...]:
    """What is asked for by one that has these of 1 … 100, while events come all the time."""
    bundle, streams = Bundle("r1"), Streams()
    bundle.admit({"r1": "", "r2": ""})
    stream = streams[STREAM]
    for first, last in held:
        stream.file(Line(first, last - first + 1, *STREAM, first, Kind.EVENTS))
    stream.learn("r2", [(1, 100)])
    stream.seen = 1000
    return bundle.wants(bundle.peers["r2"], streams.values(), settled=999, most=1000, since=0)


def test_a_gap_is_asked_for_while_later_events_keep_coming() -> None:
    assert missing_in_steady_traffic((1, 10), (91, 95)) == (Held(*STREAM, 0, ((11, 90),)),)


def test_others_are_asked_for_different_events() -> None:
    bundle, streams = Bundle("r1"), Streams()
    bundle.admit({"r1": "", "r2": "", "r3": ""})
    for name in ("r2", "r3"):
        streams[STREAM].learn(name, [(1, 100)])
    first, second = bundle.peers.values()
    asked: list[Held] = []
    for peer in (first, second):
        asked += bundle.wants(peer, streams.values(), settled=0, most=30, since=5)
        peer.asked = 7
    assert [held.spans for held in asked] == [((1, 30),), ((31, 60),)]
    assert bundle.wants(second, streams.values(), settled=0, most=30, since=8) == (Held(*STREAM, 0, ((1, 30),)),), (
        "the first does not answer"
    )


def test_what_may_be_on_its_way_is_not_asked_for() -> None:
    assert missing_in_steady_traffic((1, 95)) == ()


def test_nobody_is_ready_who_has_not_heard_all_that_others_have() -> None:
    repository = Repository("t", RepositorySettings(name="r1"))
    gossip, now = repository.gossip, 10 * SECOND
    repository.registry.found(TopicTerms("owner"), {"r1": "keeper", "r2": "keeper"})
    gossip.admit(now, repository.registry.units)
    gossip.linked(now, "keeper")
    news = GossipState("t", "r2", True, (), repository.registry.digest, whole=False)
    sender = publisher_id("keeper", repository_name("r2"))
    gossip.hear(now, sender, news, ())
    gossip.judge(now + SECOND)
    assert not gossip.ready, "it was told only what has changed"
    gossip.hear(now, sender, msgspec.structs.replace(news, whole=True), ())
    gossip.judge(now + SECOND)
    assert gossip.ready
