"""The lives of a publisher: what an earlier one had acknowledged comes before what a later one sends."""

import pytest
from tests.paper.bundle import KEEPER, TOPIC, PaperBundle, block

from stentor.model.communication import end_name, repository_name
from stentor.model.control import (
    Denial,
    GossipRequest,
    GossipState,
    Migrate,
    PublisherOrder,
    Recovery,
    RecoveryResponse,
    RegistrationReceipt,
    RepositoryAck,
    StreamRanges,
    TopicTask,
)
from stentor.model.errors import Refusal
from stentor.model.ids import publisher_id
from stentor.model.record import Kind
from stentor.protocols.delivery.repository.registry import PublisherRecord, Registry
from stentor.protocols.delivery.repository.serving.dissemination_table import DisseminationTable
from stentor.protocols.delivery.repository.storing.event_log import EventLog
from stentor.protocols.delivery.repository.storing.recent_records import Budget
from stentor.protocols.delivery.repository.storing.streams import Streams
from stentor.protocols.delivery.transport import LetterReceived

SHOP = publisher_id("", end_name("publisher", "shop", TOPIC))


def stored(bundle: PaperBundle, name: str) -> list[tuple[int, int]]:
    """The events that a repository has, in the order of its ledger: the life and the number of each."""
    records = sorted(bundle.ledgers[name].records.items())
    lines = [record.line for _, record in records if record.line.kind is Kind.EVENTS]
    return [(line.incarnation, line.first + place) for line in lines for place in range(line.length)]


def outlived() -> PaperBundle:
    """r1 was away while life 5 published 1 … 3 and ended; it comes back, hears life 6 first, and is alone then."""
    bundle = PaperBundle("r1", "r2", "r3")
    bundle.recover("publisher", "shop", "r2")
    bundle.kill("r1")
    bundle.publish(1, 3)
    assert max(ack.upto for ack in bundle.told(RepositoryAck, "shop")) == 3
    bundle.slow |= {"r2", "r3"}
    bundle.start("r1")
    bundle.recover("publisher", "shop", "r2", incarnation=6, attempt=6 << 15)
    bundle.publish(1, 2, incarnation=6)
    bundle.kill("r2")
    bundle.kill("r3")
    bundle.slow.clear()
    return bundle


def is_ready(bundle: PaperBundle, name: str) -> bool:
    return bundle.repositories[name].gossip.ready


@pytest.mark.req("RD-30")
def test_what_an_earlier_life_had_acknowledged_is_fetched_into_places_before_those_of_a_later_one() -> None:
    bundle = outlived()
    assert stored(bundle, "r1") == [(6, 1), (6, 2)]
    bundle.start("r2")
    bundle.pass_time(2000)
    assert stored(bundle, "r1") == [(5, 1), (5, 2), (5, 3), (6, 1), (6, 2)]


@pytest.mark.req("RD-30")
def test_whoever_lacks_what_was_acknowledged_serves_nobody_and_says_what_it_waits_for() -> None:
    bundle = outlived()
    bundle.pass_time(60_000)
    assert not is_ready(bundle, "r1")
    assert bundle.repositories["r1"].status(bundle.now)["awaits"] == {"shop": [(5, 1, 3)]}
    bundle.kill("r1")
    bundle.start("r1")
    bundle.pass_time(60_000)
    assert not is_ready(bundle, "r1"), "it has not forgotten that"
    bundle.start("r3")
    bundle.pass_time(1000)
    assert is_ready(bundle, "r1")


@pytest.mark.req("RD-30")
def test_a_loss_is_accepted_durably_and_everywhere() -> None:
    bundle = outlived()
    bundle.pass_time(6000)
    (lost,) = bundle.repositories["r1"].gap_closing.accept_loss()
    assert (lost.publisher, lost.incarnation, lost.spans) == (SHOP, 5, ((1, 3),))
    bundle.pass_time(31_000)
    assert is_ready(bundle, "r1")
    bundle.kill("r1")
    bundle.start("r1")
    bundle.pass_time(31_000)
    assert is_ready(bundle, "r1")


def test_an_operator_accepts_the_loss_of_what_is_awaited_and_nobody_has() -> None:
    bundle = outlived()
    bundle.pass_time(6000)
    bundle.owner("r1", TopicTask.ACCEPT_LOSS)
    assert bundle.told(RegistrationReceipt)[-1].code is Refusal.BUSY, "those on whom it counted may come back"
    bundle.pass_time(60_000)
    assert not is_ready(bundle, "r1")
    bundle.owner("r1", TopicTask.ACCEPT_LOSS)
    bundle.pass_time(1000)
    assert bundle.told(RegistrationReceipt)[-1].code is None
    assert is_ready(bundle, "r1")
    bundle.owner("r1", TopicTask.ACCEPT_LOSS)
    assert bundle.told(RegistrationReceipt)[-1].code is Refusal.UNKNOWN


def test_what_another_one_can_send_is_not_given_up() -> None:
    bundle = outlived()
    bundle.slow.add("r2")
    bundle.start("r2")
    bundle.pass_time(40_000)
    bundle.owner("r2", TopicTask.GRANT, name="store")  # so r1 hears that r2 is there
    bundle.owner("r1", TopicTask.ACCEPT_LOSS)
    assert bundle.told(RegistrationReceipt)[-1].code is Refusal.BUSY, "it has not said yet what it has"
    repository = bundle.repositories["r1"]
    repository.log.streams[SHOP, 5].learn("r2", ((1, 2),))
    (lost,) = repository.gap_closing.accept_loss()
    assert lost.spans == ((3, 3),)


def unheard() -> PaperBundle:
    """r1 was away while life 5 published 1 … 3 and life 6 was answered, and came back when all others had died."""
    bundle = PaperBundle("r1", "r2", "r3")
    bundle.recover("publisher", "shop", "r2")
    bundle.kill("r1")
    bundle.publish(1, 3)
    bundle.recover("publisher", "shop", "r2", incarnation=6, attempt=6 << 15)
    bundle.kill("r2")
    bundle.kill("r3")
    bundle.start("r1")
    bundle.pass_time(31_000)
    assert is_ready(bundle, "r1")
    return bundle


def ask_again(bundle: PaperBundle, attempt: int) -> RecoveryResponse | Denial:
    """Life 6, which was answered before, asks r1 to steer it; return the answer."""
    bundle.clear()
    recovery = Recovery(TOPIC, "shop", "publisher", (6 << 15) + attempt, "", 6, 2, answered=True)
    bundle.say("publisher", "shop", recovery, "r1")
    answers: list[RecoveryResponse | Denial] = [*bundle.told(RecoveryResponse, "shop"), *bundle.told(Denial, "shop")]
    assert len(answers) == 1
    return answers[0]


@pytest.mark.req("RD-30")
def test_a_life_that_was_answered_elsewhere_is_not_steered_by_one_that_has_not_heard_of_it() -> None:
    bundle = unheard()
    bundle.publish(1, 2, incarnation=6)
    answer = ask_again(bundle, 1)
    assert isinstance(answer, Denial)
    assert answer.code is Refusal.BUSY
    bundle.start("r2")
    bundle.pass_time(2000)
    assert isinstance(ask_again(bundle, 2), RecoveryResponse)
    assert stored(bundle, "r1") == [(5, 1), (5, 2), (5, 3), (6, 1), (6, 2)]


@pytest.mark.req("RD-30")
def test_a_life_that_follows_one_which_was_answered_elsewhere_is_not_steered_either() -> None:
    bundle = unheard()
    bundle.clear()
    bundle.publish(1, 2, incarnation=6)
    bundle.recover("publisher", "shop", "r1", incarnation=7, attempt=7 << 15)
    assert [denial.code for denial in bundle.told(Denial, "shop")] == [Refusal.BUSY]
    bundle.start("r2")
    bundle.pass_time(2000)
    bundle.recover("publisher", "shop", "r1", incarnation=7, attempt=(7 << 15) + 1)
    bundle.publish(1, 2, incarnation=7)
    assert stored(bundle, "r1") == [(5, 1), (5, 2), (5, 3), (6, 1), (6, 2), (7, 1), (7, 2)]


@pytest.mark.req("RD-30")
def test_one_that_waits_long_for_what_is_known_of_a_life_serves_nobody_until_an_operator_accepts_that() -> None:
    bundle = unheard()
    ask_again(bundle, 1)
    assert is_ready(bundle, "r1"), "whoever has answered it may come back at once"
    bundle.pass_time(31_000)
    assert not is_ready(bundle, "r1")
    assert bundle.repositories["r1"].status(bundle.now)["awaits"] == {"shop": [(6, 1, 2)]}
    bundle.owner("r1", TopicTask.ACCEPT_LOSS)
    bundle.pass_time(1000)
    assert is_ready(bundle, "r1")
    assert bundle.repositories["r1"].status(bundle.now)["awaits"] == {}
    assert isinstance(ask_again(bundle, 2), RecoveryResponse)


@pytest.mark.req("RD-30")
def test_the_first_events_of_a_life_are_not_fetched_before_it_is_known_what_came_before_it() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.recover("publisher", "shop", "r1", incarnation=7)
    bundle.kill("r2")
    registry = bundle.repositories["r1"].registry

    def asked(digest: int) -> list[GossipRequest]:
        """What r1 asks of r2, which has two events of life 6 and a registry of this digest."""
        state = GossipState(
            TOPIC, "r2", True, (StreamRanges(SHOP, 6, 0, ((1, 2),)),), digest, whole=True, version=registry.version
        )
        bundle.clear()
        bundle.step("r1", LetterReceived(publisher_id(KEEPER, repository_name("r2")), [state]))
        bundle.pass_time(1000)
        return bundle.told(GossipRequest)

    assert not asked(registry.digest + 1), "where life 5 ended, which r1 has not heard of, is among what it asks for"
    assert asked(registry.digest)


def test_a_life_that_was_answered_by_nobody_who_is_left_is_steered() -> None:
    bundle = PaperBundle("r1")
    assert isinstance(ask_again(bundle, 1), RecoveryResponse)


@pytest.mark.req("RD-25")
def test_what_an_earlier_life_sent_beyond_its_end_is_stored_when_it_comes() -> None:
    bundle = outlived()
    bundle.start("r2")
    bundle.pass_time(2000)
    bundle.publish(4, 1)
    assert stored(bundle, "r1")[-1] == (5, 4)


def test_what_was_acknowledged_becomes_void_when_every_member_is_here_and_none_has_it() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.recover("publisher", "shop", "r1")
    bundle.kill("r2")
    bundle.arrive(block(4))
    bundle.say("publisher", "shop", PublisherOrder(TOPIC, "shop", 5, 4, 4, 3))
    bundle.clear()
    bundle.pass_time(60_000)
    assert not is_ready(bundle, "r1")
    assert bundle.told(Migrate, "shop")
    bundle.start("r2")
    bundle.pass_time(4000)
    assert is_ready(bundle, "r1")


def test_a_member_that_was_removed_is_not_waited_for() -> None:
    bundle = PaperBundle("r1", "r2", "r3")
    bundle.recover("publisher", "shop", "r1")
    bundle.kill("r3")
    bundle.arrive(block(4))
    bundle.say("publisher", "shop", PublisherOrder(TOPIC, "shop", 5, 4, 4, 3))
    bundle.pass_time(35_000)
    assert not is_ready(bundle, "r1")
    bundle.owner("r1", TopicTask.REMOVE_REPOSITORY, repositories=("r3",))
    bundle.pass_time(4000)
    assert is_ready(bundle, "r1")


@pytest.mark.req("RD-25")
def test_a_life_older_than_the_newest_is_fenced_unless_it_resumes() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.recover("publisher", "shop", "r1", incarnation=9)
    bundle.clear()
    bundle.recover("publisher", "shop", "r2", incarnation=8, attempt=99)
    (denial,) = bundle.told(Denial, "shop")
    assert (denial.code, denial.newest) == (Refusal.FENCED, 9)
    recovery = Recovery(TOPIC, "shop", "publisher", 100, "", 8, resumes=True)
    bundle.say("publisher", "shop", recovery, "r2")
    assert bundle.told(RecoveryResponse, "shop")


def test_ends_of_lives_that_are_collected_are_dropped() -> None:
    bundle = PaperBundle("r1", keep=1)
    for life in range(1, 6):
        bundle.recover("publisher", "shop", "r1", incarnation=life, attempt=life)
        bundle.publish(1, 10, incarnation=life)
    known = bundle.repositories["r1"].registry.publishers[SHOP]
    assert known.ends == ((1, 10), (2, 10), (3, 10), (4, 10))
    bundle.pass_time(24_000)
    bundle.publish(11, 1, incarnation=5)
    bundle.recover("publisher", "shop", "r1", incarnation=6, attempt=6)
    assert [life for life, _ in bundle.repositories["r1"].registry.publishers[SHOP].ends] == [5]


def test_a_fact_that_was_written_without_knowing_of_a_newer_life_takes_nothing_back() -> None:
    end = end_name("publisher", "shop", TOPIC)
    one, other = Registry("r1"), Registry("r2")
    one.record_publisher("shop", end, "", 6, ends=((5, 30),))
    other.record_publisher("shop", end, "", 4)
    other.record_publisher("shop", end, "", 5, ends=((4, 10),))
    for _ in range(2):
        one.merge(other.newer_than({}))
        other.merge(one.newer_than({}))
    assert one.publishers == other.publishers == {SHOP: PublisherRecord("shop", "", 6, (), ((4, 10), (5, 30)))}
    assert one.digest == other.digest


def test_events_of_a_life_wait_for_the_fact_that_tells_of_it() -> None:
    streams = Streams()
    introduced: set[tuple[int, int]] = set()
    audience = DisseminationTable(streams).audience
    log = EventLog(streams, Budget(1 << 20), audience, is_introduced=introduced.__contains__)
    log.fetch(1, block(1))
    log.receive(1, block(2), known=True, ordered=True)
    assert log.stored == 0
    introduced.add((SHOP, 5))
    log.introduce(lambda _: True)
    assert log.stored == 1, "what came from the publisher; what another repository has is asked for again"
    log.fetch(1, block(1))
    assert log.stored == 2
