"""A life of a publisher of which nothing is left is closed and forgotten, and nothing of it is stored again."""

from collections.abc import Iterable

import pytest
from tests.paper.bundle import TOPIC, PaperBundle, block

from stentor.model.attribute import EMPTY_SCHEMA
from stentor.model.communication import end_name
from stentor.model.control import Denial, GossipState, PublisherOrder, RecoveryResponse, StreamRanges, TopicTask
from stentor.model.errors import Refusal
from stentor.model.ids import CatenationNumber, Incarnation, publisher_id, topic_id
from stentor.model.stored.position import Position
from stentor.model.stored.span import Spans
from stentor.wire.block import Block, Origin, encode

SHOP = int(publisher_id("", end_name("publisher", "shop", TOPIC)))


def lives(bundle: PaperBundle, name: str = "r1") -> list[int]:
    return sorted(bundle.repositories[name].log.streams.lives(SHOP))


def live(bundle: PaperBundle, incarnation: int, numbers: Iterable[int]) -> None:
    """A life of the shop that publishes these numbers, in a second each."""
    bundle.recover("publisher", "shop", "r1", attempt=incarnation, incarnation=incarnation)
    for number in numbers:
        publish(bundle, "shop", incarnation, number)
        bundle.pass_time(1000, 250)


def publish(bundle: PaperBundle, name: str, incarnation: int, number: int, *only: str) -> None:
    sender = publisher_id("", end_name("publisher", name, TOPIC))
    origin = Origin(topic_id(TOPIC), sender, Incarnation(incarnation), CatenationNumber(number), bundle.now)
    bundle.arrive(Block(encode(origin, EMPTY_SCHEMA, [], [b"%d" % number]), EMPTY_SCHEMA), *only)
    for repository in only or (None,):
        bundle.say("publisher", name, PublisherOrder(TOPIC, name, incarnation, number, number), repository)


def wait(bundle: PaperBundle, seconds: int = 90) -> None:
    bundle.pass_time(1000 * seconds, 500)


def after_two_lives(*names: str) -> PaperBundle:
    bundle = PaperBundle(*names, keep=1)
    live(bundle, 5, range(1, 4))
    live(bundle, 6, range(1, 9))
    return bundle


@pytest.mark.parametrize("names", [("r1",), ("r1", "r2", "r3")])
def test_a_life_that_everyone_has_forgotten_is_closed_and_dropped(names: tuple[str, ...]) -> None:
    bundle = after_two_lives(*names)
    assert lives(bundle) == [5, 6]
    wait(bundle)
    for name in names:
        repository = bundle.repositories[name]
        assert lives(bundle, name) == [6]
        assert repository.registry.publishers[SHOP].closed == 5
        assert not [key for key in bundle.ledgers[name].facts if key.endswith("/5")], "nothing of it is left on disk"
        assert not repository.log.streams.unsettled


def test_a_million_lives_leave_as_little_as_one() -> None:
    bundle = PaperBundle("r1", "r2", keep=1)
    bundle.recover("subscriber", "billing", "r1")
    for incarnation in range(1, 60):
        live(bundle, incarnation, range(1, 4))
        epoch = bundle.repositories["r1"].log.horizon
        bundle.acknowledge("billing", "r1", (1, epoch))
        wait(bundle, 5)
    wait(bundle)
    for name in ("r1", "r2"):
        repository = bundle.repositories[name]
        assert len(lives(bundle, name)) <= 2
        assert len(repository.table.destinations["billing"].done) <= 2
        assert len(repository.log.streams.tops()) <= 2


def test_nothing_of_a_closed_life_is_stored_again() -> None:
    bundle = after_two_lives("r1", "r2")
    wait(bundle)
    stored = bundle.ledgers["r2"].numbers()
    bundle.publish(1, 5, incarnation=5)  # three of them are a letter that was under way for long
    wait(bundle, 10)
    assert bundle.ledgers["r2"].numbers() == stored
    assert lives(bundle) == lives(bundle, "r2") == [6]
    bundle.clear()
    bundle.recover("publisher", "shop", "r1", attempt=99, incarnation=5)
    (denial,) = bundle.told(Denial, "shop")
    assert denial.code is Refusal.FENCED


def test_events_of_an_older_life_do_not_wait_for_ever_for_their_order() -> None:
    bundle = after_two_lives("r1", "r2")
    wait(bundle)
    live(bundle, 7, [1])
    bundle.arrive(block(9, 2, incarnation=6))
    assert bundle.repositories["r1"].log.streams[SHOP, 6].waiting
    wait(bundle, 150)
    assert not bundle.repositories["r1"].log.streams.unsettled
    assert lives(bundle) == lives(bundle, "r2") == [7]


def test_who_leaves_does_not_wait_until_others_have_a_closed_life() -> None:
    bundle = after_two_lives("r1", "r2", "r3")
    wait(bundle)
    stream = bundle.repositories["r3"].log.streams[SHOP, 5]  # which it had not dropped yet
    stream.forget(3)
    bundle.owner("r1", TopicTask.REMOVE_REPOSITORY, repositories=("r3",))
    wait(bundle)
    assert bundle.repositories["r3"].is_gone


def test_records_of_a_closed_life_are_forgotten_although_others_have_dropped_it() -> None:
    bundle = PaperBundle("r1", "r2", keep=1)
    bundle.owner("r1", TopicTask.GRANT, role="publisher", name="store")
    bundle.recover("subscriber", "billing", "r1")
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("publisher", "store", "r1")
    publish(bundle, "shop", 5, 1, "r1")
    publish(bundle, "store", 5, 1, "r2")  # there it comes before what the shop has sent, and keeps that
    publish(bundle, "store", 5, 1, "r1")
    publish(bundle, "shop", 5, 1, "r2")
    ((sequence, *_), (last, *_)) = bundle.ledgers["r1"].numbers()
    bundle.acknowledge("billing", "r1", (sequence, sequence))
    bundle.recover("publisher", "shop", "r1", attempt=6, incarnation=6)
    wait(bundle)
    assert lives(bundle) == [6]
    assert len(bundle.ledgers["r2"].numbers()) == 2
    bundle.kill("r2")
    bundle.start("r2")
    wait(bundle, 10)
    bundle.acknowledge("billing", "r1", (last, last))
    wait(bundle)
    assert bundle.repositories["r2"].log.streams.first == bundle.repositories["r2"].log.next
    assert lives(bundle, "r2") == []


def test_a_life_is_not_closed_while_somebody_is_away() -> None:
    bundle = after_two_lives("r1", "r2")
    bundle.deaf.add("r2")
    wait(bundle)
    assert lives(bundle) == [5, 6]
    bundle.deaf.clear()
    wait(bundle)
    assert lives(bundle) == lives(bundle, "r2") == [6]


def test_the_next_life_is_told_of_the_newest_one_that_is_closed() -> None:
    bundle = PaperBundle("r1", keep=1)
    live(bundle, 5, range(1, 4))
    bundle.recover("publisher", "shop", "r1", attempt=6, incarnation=6)  # which publishes nothing
    bundle.owner("r1", TopicTask.GRANT, role="publisher", name="other")
    bundle.recover("publisher", "other", "r1", attempt=1, incarnation=1)
    bundle.pass_time(3000)
    publish(bundle, "other", 1, 1)
    wait(bundle)
    bundle.recover("publisher", "shop", "r1", attempt=7, incarnation=7)  # nor does that one know what was told to 6
    wait(bundle)
    assert lives(bundle) == [7]
    bundle.clear()
    bundle.recover("publisher", "shop", "r1", attempt=8, incarnation=8)
    bundle.pass_time(100)
    (response,) = bundle.told(RecoveryResponse, "shop")
    assert (response.incarnation, response.last) == (5, 3)


def test_a_newcomer_hears_nothing_of_lives_that_are_closed() -> None:
    bundle = after_two_lives("r1", "r2")
    wait(bundle)
    bundle.add("r3")
    bundle.owner("r1", TopicTask.ADD_REPOSITORY, repositories=("r3",))
    wait(bundle, 20)
    assert bundle.repositories["r3"].gossip.ready
    assert lives(bundle, "r3") == [6]
    bundle.publish(1, 5, "r3", incarnation=5)
    wait(bundle, 10)
    assert lives(bundle, "r3") == lives(bundle) == [6]


def test_a_closed_life_stays_closed_after_a_restart() -> None:
    bundle = after_two_lives("r1")
    wait(bundle)
    bundle.kill("r1")
    bundle.start("r1")
    bundle.pass_time(2000)
    bundle.publish(1, 3, incarnation=5)
    assert lives(bundle) == [6]


def test_a_late_state_of_another_repository_brings_no_closed_life_back() -> None:
    bundle = after_two_lives("r1", "r2")
    wait(bundle)
    gossip = bundle.repositories["r1"].gossip
    number, digest = gossip.bundle.peers["r2"].number + 1, gossip.sharing.durable_digest
    state = GossipState(TOPIC, "r2", True, (StreamRanges(SHOP, 5, 3, ()),), digest, whole=False, number=number)
    gossip._on_state(gossip.bundle.peers["r2"], state)
    assert lives(bundle) == [6]


def test_an_old_position_that_names_a_closed_life_is_still_read_from() -> None:
    bundle = after_two_lives("r1")
    wait(bundle)
    read_server = bundle.repositories["r1"].read_server
    old = Position({(SHOP, 5): Spans([(1, 3)]), (SHOP, 6): Spans([(1, 2)])})
    kept = bundle.repositories["r1"].log.streams.current(old.held)
    assert [held.incarnation for held in kept] == [6]
    assert not read_server._pieces(old.minus(Position.of(kept))).keys


def test_a_subscriber_does_not_wait_for_what_it_had_to_get_elsewhere_of_a_closed_life() -> None:
    bundle = after_two_lives("r1")
    bundle.recover("subscriber", "billing", "r1")
    progress = bundle.repositories["r1"].table.destinations["billing"]
    progress.needs = {(SHOP, 5): 3, (SHOP, 6): 8}
    wait(bundle)
    assert progress.needs == {(SHOP, 6): 8}
    assert lives(bundle) == [6]
