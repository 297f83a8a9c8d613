"""The lives of a publisher: what an earlier one had acknowledged comes before what a later one sends."""

import msgspec
import pytest
from tests.paper.bundle import KEEPER, TOPIC, PaperBundle, block

from stentor.model.communication import end_name, repository_name
from stentor.model.control import (
    Denial,
    GossipFacts,
    GossipRequest,
    GossipState,
    GossipVoid,
    Migrate,
    Persistent,
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
from stentor.model.stored.record import RecordKind
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
    lines = [record.line for _, record in records if record.line.kind is RecordKind.EVENTS]
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


def agree(one: Registry, other: Registry) -> PublisherRecord:
    """Let two registries tell each other what they know; return what both know of the shop then."""
    for _ in range(2):
        one.merge(other.newer_than({}))
        other.merge(one.newer_than({}))
    assert one.publishers == other.publishers
    assert one.digest == other.digest
    return one.publishers[SHOP]


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
    recovery = Recovery(
        TOPIC, "shop", role="publisher", attempt=(6 << 15) + attempt, principal="", incarnation=6, last=2, answered=True
    )
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


def tell_of_life_6(bundle: PaperBundle, digest: int) -> None:
    """r2 says to r1 that it has two events of life 6, and a registry of this digest."""
    held, version = (StreamRanges(SHOP, 6, 0, ((1, 2),)),), bundle.repositories["r1"].registry.version
    state = GossipState(TOPIC, "r2", ready=True, held=held, facts=digest, whole=True, version=version)
    bundle.step("r1", LetterReceived(publisher_id(KEEPER, repository_name("r2")), [state]))


@pytest.mark.req("RD-30")
def test_a_life_that_follows_one_of_which_another_repository_has_events_waits_for_its_fact() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.recover("publisher", "shop", "r1", incarnation=5)
    bundle.kill("r2")
    registry = bundle.repositories["r1"].registry
    tell_of_life_6(bundle, registry.digest + 1)
    bundle.clear()
    bundle.recover("publisher", "shop", "r1", incarnation=7, attempt=7 << 15)
    assert [denial.code for denial in bundle.told(Denial, "shop")] == [Refusal.BUSY]
    assert registry.publishers[SHOP].incarnation == 5


def passed_over() -> PaperBundle:
    """Life 5 published 1 … 3 to r3, which answered life 6 alone and died. r1 has letters of life 6, and hears of life
    7 from r2, which knows neither.
    """
    bundle = PaperBundle("r1", "r2", "r3", copies=1)
    bundle.recover("publisher", "shop", "r3")
    bundle.kill("r1")
    bundle.kill("r2")
    bundle.publish(1, 3)
    bundle.pass_time(15_000)
    bundle.recover("publisher", "shop", "r3", incarnation=6, attempt=6 << 15)
    bundle.pass_time(1000)
    assert [response.attempt for response in bundle.told(RecoveryResponse, "shop")] == [1, 6 << 15]
    bundle.kill("r3")
    bundle.start("r1")
    bundle.start("r2")
    bundle.pass_time(35_000)
    bundle.publish(1, 2, "r1", incarnation=6)
    bundle.recover("publisher", "shop", "r2", incarnation=7, attempt=7 << 15)
    bundle.pass_time(1000)
    bundle.publish(1, 1, incarnation=7)
    return bundle


@pytest.mark.req("RD-30")
def test_letters_of_a_life_wait_although_a_fact_tells_of_a_newer_one() -> None:
    bundle = passed_over()
    assert stored(bundle, "r1") == [(7, 1)], "whoever has answered life 6 knows what had been acknowledged before it"
    bundle.start("r3")
    bundle.pass_time(3000)
    assert stored(bundle, "r1") == [(7, 1), (5, 1), (5, 2), (5, 3), (6, 1), (6, 2)]


def test_letters_of_a_life_that_nobody_has_answered_are_stored_when_all_are_here() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.recover("publisher", "shop", "r1", incarnation=7)
    bundle.publish(1, 2, "r1", incarnation=6)
    bundle.pass_time(1000)
    assert stored(bundle, "r1") == stored(bundle, "r2") == [(6, 1), (6, 2)]


@pytest.mark.req("RD-30")
def test_the_first_events_of_a_life_are_not_fetched_before_it_is_known_what_came_before_it() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.recover("publisher", "shop", "r1", incarnation=7)
    bundle.kill("r2")
    registry = bundle.repositories["r1"].registry

    def asked(digest: int) -> list[GossipRequest]:
        """What r1 asks of r2, which has two events of life 6 and a registry of this digest."""
        bundle.clear()
        tell_of_life_6(bundle, digest)
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
    bundle.say("publisher", "shop", PublisherOrder(TOPIC, "shop", incarnation=5, first=4, last=4, acknowledged=3))
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
    bundle.say("publisher", "shop", PublisherOrder(TOPIC, "shop", incarnation=5, first=4, last=4, acknowledged=3))
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
    recovery = Recovery(TOPIC, "shop", role="publisher", attempt=100, principal="", incarnation=8, resumes=True)
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
    assert agree(one, other) == PublisherRecord("shop", "", 6, (), ((4, 10), (5, 30)))


def test_ends_that_two_repositories_raised_at_once_are_all_kept() -> None:
    end = end_name("publisher", "shop", TOPIC)
    one, other = Registry("r1"), Registry("r2")
    one.record_publisher("shop", end, "", 6, ends=((3, 7), (5, 20)))
    agree(one, other)
    one.fix_ends(SHOP, ((3, 7), (4, 10), (5, 20)))
    other.fix_ends(SHOP, ((3, 7), (5, 30)))
    assert agree(one, other).ends == ((3, 7), (4, 10), (5, 30))


def test_a_life_that_is_resumed_stays_so_when_one_that_did_not_know_it_tells_of_a_newer_life() -> None:
    end = end_name("publisher", "shop", TOPIC)
    one, other = Registry("r1"), Registry("r2")
    one.record_publisher("shop", end, "", 5, ends=((4, 10),))
    agree(one, other)
    one.record_publisher("shop", end, "", 4, resumes=True)
    other.record_publisher("shop", end, "", 6, ends=((4, 10), (5, 20)))
    known = agree(one, other)
    assert (known.resumed, known.ends) == ((4,), ((5, 20),))


def test_registries_agree_which_lives_are_resumed_although_there_are_too_many() -> None:
    end = end_name("publisher", "shop", TOPIC)
    one, other = Registry("r1"), Registry("r2")
    for registry, lives in ((one, range(1, 12)), (other, range(3, 20))):
        for life in lives:
            registry.record_publisher("shop", end, "", life, resumes=True)
    assert agree(one, other).resumed == tuple(range(12, 20))


@pytest.mark.req("RD-30")
def test_one_that_tells_of_a_newer_life_without_knowing_of_an_end_does_not_take_it_back() -> None:
    bundle = outlived()
    assert bundle.repositories["r1"].registry.publishers[SHOP].ends == ((5, 3),)
    newer = (f"publisher/{SHOP:016x}", 99, "r2", msgspec.msgpack.encode(PublisherRecord("shop", "", 7)))
    bundle.step(
        "r1", LetterReceived(publisher_id(KEEPER, repository_name("r2")), [GossipFacts(TOPIC, "r2", facts=(newer,))])
    )
    assert dict(bundle.repositories["r1"].registry.publishers[SHOP].ends)[5] == 3
    bundle.pass_time(60_000)
    assert not is_ready(bundle, "r1")


def test_events_of_a_life_wait_for_the_fact_that_tells_of_it() -> None:
    streams = Streams()
    introduced: set[tuple[int, int]] = set()
    has = introduced.__contains__
    log = EventLog(streams, Budget(1 << 20), DisseminationTable(streams).audience, is_introduced=has, is_told_of=has)
    log.fetch(1, block(1))
    log.receive(1, block(2), known=True, ordered=True)
    assert log.stored == 0
    introduced.add((SHOP, 5))
    log.introduce(introduced.__contains__)
    assert log.stored == 1, "what came from the publisher; what another repository has is asked for again"
    log.fetch(1, block(1))
    assert log.stored == 2


def forgetful() -> PaperBundle:
    """r1 heard that the shop's 1 … 3 are acknowledged, which it lacks, and is alone with that."""
    bundle = PaperBundle("r1", "r2", "r3")
    bundle.recover("publisher", "shop", "r1")
    bundle.kill("r2")
    bundle.kill("r3")
    bundle.arrive(block(4))
    bundle.say("publisher", "shop", PublisherOrder(TOPIC, "shop", incarnation=5, first=4, last=4, acknowledged=3))
    return bundle


@pytest.mark.req("RD-30")
def test_a_restart_does_not_forget_what_was_acknowledged() -> None:
    bundle = forgetful()
    bundle.kill("r1")
    bundle.start("r1")
    bundle.pass_time(60_000)
    assert not is_ready(bundle, "r1")
    assert bundle.repositories["r1"].status(bundle.now)["awaits"] == {"shop": [(5, 1, 3)]}


@pytest.mark.req("RD-30")
def test_a_void_of_one_that_never_heard_of_an_acknowledgement_is_not_believed() -> None:
    bundle = forgetful()
    void = GossipVoid(TOPIC, "r2", voids=(StreamRanges(SHOP, 5, 0, ((1, 3),)),))
    bundle.step("r1", LetterReceived(publisher_id(KEEPER, repository_name("r2")), [void], ()))
    bundle.pass_time(60_000)
    assert bundle.repositories["r1"].status(bundle.now)["awaits"] == {"shop": [(5, 1, 3)]}


@pytest.mark.req("RD-30")
def test_one_that_never_heard_of_an_acknowledgement_learns_of_it_before_it_gives_up() -> None:
    bundle = forgetful()
    bundle.start("r2")
    bundle.pass_time(60_000)
    assert bundle.repositories["r2"].status(bundle.now)["awaits"] == {"shop": [(5, 1, 3)]}
    assert not is_ready(bundle, "r2")


@pytest.mark.req("RD-30")
def test_events_that_enough_others_have_count_as_acknowledged() -> None:
    bundle = PaperBundle("r1", "r2", "r3", copies=2)
    bundle.recover("publisher", "shop", "r1")
    stream = bundle.repositories["r1"].log.streams[SHOP, 5]
    stream.learn("r2", ((1, 3),))
    stream.learn("r3", ((2, 4),))
    assert bundle.repositories["r1"].lives.awaited(stream) == [(2, 3)]


@pytest.mark.req("RD-30")
def test_readers_are_told_of_acknowledged_events_whose_loss_is_accepted() -> None:
    bundle = outlived()
    bundle.pass_time(60_000)
    bundle.owner("r1", TopicTask.ACCEPT_LOSS)
    bundle.pass_time(4000)
    bundle.recover("subscriber", "billing", "r1", since="beginning")
    bundle.pass_time(1000)
    lost = {held for told in bundle.told(Persistent, "billing") for held in told.lost}
    assert lost == {StreamRanges(SHOP, 5, 0, ((1, 3),))}
