"""A stranger's letters make nothing at a repository, or little that is bounded; a publisher that is known late loses
nothing by that.
"""

import pytest
from tests.paper.bundle import TOPIC, PaperBundle, block
from tests.unit.protocols.delivery.script import frame

from stentor.model.communication import end_name
from stentor.model.control import (
    Denial,
    GossipState,
    PublisherOrder,
    Recovery,
    RecoveryResponse,
    Retransmission,
    SubscriberAck,
    SubscriberEnd,
    SubscriberNak,
    TopicTask,
)
from stentor.model.errors import Refusal, Refused
from stentor.model.ids import publisher_id
from stentor.model.stored.position import Position
from stentor.model.stored.reading import Page, PageRequest, StockRequest
from stentor.protocols.delivery.repository import registry as registry_module
from stentor.protocols.delivery.repository.ledger_reads import WeighRecords
from stentor.protocols.delivery.repository.registry import SubscriptionRecord
from stentor.protocols.delivery.repository.storing import streams as streams_module
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.storing.unknown_publishers import MOST_LIVES, MOST_STREAMS, UnknownPublishers
from stentor.protocols.delivery.transport import EventsReceived, LetterReceived

SHOP = publisher_id("", end_name("publisher", "shop", TOPIC))


def strangers_at(bundle: PaperBundle, name: str = "r1") -> UnknownPublishers:
    return bundle.repositories[name].log.streams.strangers


def order(bundle: PaperBundle, sender: int, incarnation: int, first: int = 1, last: int = 1) -> None:
    letter = PublisherOrder(TOPIC, "thief", incarnation, first, last)
    for name in bundle.repositories:
        bundle.step(name, LetterReceived(sender, [letter]))


def test_orders_of_those_who_may_not_publish_make_no_streams() -> None:
    bundle = PaperBundle("r1", "r2")
    for number in range(2000):
        order(bundle, sender=1_000 + number % 100, incarnation=number)
    bundle.clear()
    bundle.pass_time(11_000)
    for name, repository in bundle.repositories.items():
        assert not repository.log.streams
        assert len(strangers_at(bundle, name).streams) <= MOST_STREAMS
        strangers_at(bundle, name).validate()
    states = [event for _, event in bundle.said if isinstance(event, GossipState)]
    assert states
    assert not any(state.held for state in states), "repositories do not tell each other of strangers"


def test_a_stranger_has_few_lives_and_few_numbers() -> None:
    bundle = PaperBundle("r1")
    for number in range(1000):
        order(bundle, sender=7, incarnation=number)
        order(bundle, sender=7, incarnation=1, first=2 * number + 1, last=2 * number + 1)
    assert len(strangers_at(bundle).streams) == MOST_LIVES
    assert max(stream.announced.pieces for stream in strangers_at(bundle).streams.values()) <= 64


def test_events_of_strangers_are_held_within_a_budget_for_each_and_for_all() -> None:
    bundle = PaperBundle("r1")
    large = 1 << 20
    for number in range(8):
        bundle.step("r1", EventsReceived([frame(7, number + 1, 1, size=large, topic=TOPIC)]))
    assert strangers_at(bundle).held_back <= 4 << 20
    for publisher in range(100, 130):
        bundle.step("r1", EventsReceived([frame(publisher, 1, 1, size=large, topic=TOPIC)]))
    assert strangers_at(bundle).held_back <= 16 << 20
    strangers_at(bundle).validate()
    assert bundle.repositories["r1"].log.strangers > 0, "what was dropped is counted"
    assert not bundle.repositories["r1"].log.streams


def test_events_sent_again_by_a_stranger_make_no_stream() -> None:
    bundle = PaperBundle("r1")
    for number in range(500):
        block_of_thief = frame(7, 1, 1, incarnation=number, topic=TOPIC)
        bundle.step("r1", LetterReceived(7, [Retransmission(TOPIC, "thief")], [block_of_thief]))
    assert not bundle.repositories["r1"].log.streams
    assert len(strangers_at(bundle).streams) == MOST_LIVES


def test_other_letters_of_strangers_make_nothing() -> None:
    bundle = PaperBundle("r1")
    log = bundle.repositories["r1"].log
    bundle.clear()
    recovery = Recovery(TOPIC, "thief", "publisher", 1, "", 5)
    bundle.say("publisher", "thief", recovery)
    bundle.say("publisher", "shop", Recovery(TOPIC, "billing", "subscriber", 1, "", 5))
    for letter in (
        SubscriberAck(TOPIC, "billing", 5, "r1", ((1, 9),)),
        SubscriberNak(TOPIC, "billing", 1, ((1, 9),)),
        SubscriberEnd(TOPIC, "billing", 1, 5, ((1, 1, 1),)),
        StockRequest(TOPIC, "thief", 1, "thief", ""),
        PageRequest(TOPIC, "thief", 1, "thief", "", Position().held),
    ):
        bundle.say("publisher", "thief", letter)
    machine = bundle.repositories["r1"]
    assert not log.streams
    assert not machine.feeds.cursors
    assert not machine.holders.publishers
    assert not machine.table.destinations
    assert not machine.state.reads.scans


def test_what_came_before_its_publisher_was_known_is_stored_once_it_is() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.deaf.add("r2")
    bundle.recover("publisher", "shop", "r1")
    bundle.deaf.clear()
    bundle.step("r2", EventsReceived([block(1, 3)]))
    bundle.step("r2", LetterReceived(SHOP, [PublisherOrder(TOPIC, "shop", 5, 1, 3)]))
    assert [len(stream.waiting) for stream in strangers_at(bundle, "r2").streams.values()] == [1]
    bundle.pass_time(1000)  # r1 tells r2 of the publisher
    assert bundle.ledgers["r2"].numbers() != []
    assert not strangers_at(bundle, "r2").streams
    assert strangers_at(bundle, "r2").held_back == 0


def test_orders_of_one_that_was_authorised_once_are_not_heard() -> None:
    bundle = PaperBundle("r1")
    bundle.recover("publisher", "shop", "r1")
    before = len(bundle.repositories["r1"].log.streams)
    bundle.owner("r1", TopicTask.REVOKE, role="publisher", name="shop")
    bundle.order(1, 5, incarnation=77)
    assert len(bundle.repositories["r1"].log.streams) == before
    assert not strangers_at(bundle).streams


def test_a_publisher_cannot_have_lives_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "MOST_LIVES", 5)
    bundle = PaperBundle("r1")
    bundle.recover("publisher", "shop", "r1")
    for incarnation in range(100):
        bundle.order(1, 1, incarnation=1000 + incarnation)
        bundle.arrive(block(1, 1, 2000 + incarnation))
    assert len(bundle.repositories["r1"].log.streams) == 1, "no fact tells of the others"
    assert len(strangers_at(bundle).streams) == MOST_LIVES
    for life in (6, 7, 8, 9):
        bundle.recover("publisher", "shop", "r1", attempt=life, incarnation=life)
    assert not bundle.told(Denial, "shop")
    bundle.recover("publisher", "shop", "r1", attempt=10, incarnation=9000)
    (denial,) = bundle.told(Denial, "shop")
    assert denial.code is Refusal.TOO_MANY
    bundle.clear()
    bundle.recover("publisher", "shop", "r1", attempt=11, incarnation=9)  # a life that it had
    bundle.pass_time(100)
    assert bundle.told(RecoveryResponse, "shop")


def test_an_open_topic_takes_so_many_subscribers_that_come_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_MOST_GUESTS", 2)
    bundle = PaperBundle("r1")
    registry = bundle.repositories["r1"].registry
    registry.terms = type(registry.terms)("", 1, open=True)
    for name in ("one", "two"):
        registry.check("subscriber", TOPIC, name, "")
        registry.subscribe(name, SubscriptionRecord(""))
    registry.check("subscriber", TOPIC, "one", "")
    registry.check("subscriber", TOPIC, "", "")  # a reader without a name is not written down
    with pytest.raises(Refused, match="topic revoke orders --subscriber NAME") as refused:
        registry.check("subscriber", TOPIC, "three", "")
    assert refused.value.code is Refusal.TOO_MANY


def test_a_reader_cannot_make_a_repository_read_without_end() -> None:
    bundle = PaperBundle("r1")
    bundle.recover("publisher", "shop", "r1")
    bundle.publish(1, 3)
    bundle.clear()
    scans = bundle.repositories["r1"].state.reads.scans
    request = PageRequest(TOPIC, "owner", 1, "", "", Position().held)
    for token in range(256):
        scans[-token - 1] = WeighRecords()  # under way
    bundle.step("r1", LetterReceived(publisher_id("", "owner"), [request], requester="owner"))
    (page,) = bundle.told(Page)
    assert page.code is Refusal.BUSY
    scans.clear()
    bundle.clear()
    bundle.step("r1", LetterReceived(publisher_id("", "owner"), [request], requester="owner"))
    assert [page.code for page in bundle.told(Page)] == [None]


def test_the_bytes_of_a_stranger_that_is_taken_are_not_counted_any_more() -> None:
    strangers = UnknownPublishers()
    held = frame(7, 1, 1, size=100)
    assert strangers.hold(0, held, ordered=True)
    assert isinstance(strangers.take((7, 1)), PublisherStream)
    strangers.validate()
    assert (strangers.held_back, strangers.take((7, 1))) == (0, None)
