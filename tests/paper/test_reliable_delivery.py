"""What the paper says of repositories (000, sections 3 and 4), sentence by sentence, on machines without a network."""

import pytest
from tests.paper.bundle import DAY, KEEPER, TOPIC, PaperBundle, block

from stentor.model.communication import Role, repository_name
from stentor.model.control import (
    Denial,
    GossipAck,
    GossipRequest,
    GossipSync,
    Migrate,
    Persistent,
    Probe,
    ProbeAnswer,
    RecoveryResponse,
    Rectify,
    RegistrationReceipt,
    RepositoryAck,
    RepositoryNak,
    Retransmission,
    StreamRanges,
    Sync,
    TopicTask,
)
from stentor.model.errors import Refusal
from stentor.model.ids import publisher_id
from stentor.model.stored.position import Position
from stentor.model.stored.reading import Page, PageRequest, Stock, StockRequest
from stentor.model.stored.record import RecordKind
from stentor.model.stored.span import Spans
from stentor.protocols.delivery.transport import LetterReceived


def steered(*names: str, copies: int = 0, where: str = "") -> PaperBundle:
    """A bundle whose first repository steers the shop and the subscriber "billing"."""
    bundle = PaperBundle(*names, copies=copies)
    bundle.recover("publisher", "shop", names[0])
    bundle.recover("subscriber", "billing", names[0], where=where)
    bundle.pass_time(200)
    bundle.clear()
    return bundle


@pytest.mark.req("RD-01")
def test_clients_that_are_not_registered_cannot_avail_of_reliable_communications() -> None:
    bundle = PaperBundle("r1")
    bundle.recover("publisher", "thief", "r1")
    (denial,) = bundle.told(Denial, "thief")
    assert denial.code is Refusal.NOT_AUTHORISED
    assert "not registered as a publisher of orders" in denial.reason
    bundle.owner("r1", TopicTask.REVOKE, role="publisher", name="shop")
    bundle.recover("publisher", "shop", "r1")
    assert bundle.told(Denial, "shop")


@pytest.mark.req("RD-01")
def test_only_the_owner_registers_clients() -> None:
    bundle = PaperBundle("r1")
    bundle.clear()
    bundle.owner("r1", TopicTask.GRANT, role="publisher", name="thief", principal="somebody else")
    (receipt,) = bundle.told(RegistrationReceipt)
    assert receipt.code is Refusal.NOT_AUTHORISED


@pytest.mark.req("RD-01")
def test_a_client_that_is_deregistered_is_told_and_its_events_are_not_stored() -> None:
    bundle = steered("r1")
    bundle.owner("r1", TopicTask.REVOKE, role="publisher", name="shop")
    assert bundle.told(Denial, "shop")
    bundle.publish(1, 3)
    assert bundle.ledgers["r1"].numbers() == []


@pytest.mark.req("RD-03")
def test_a_message_is_not_acted_upon_until_the_corresponding_order_event_is_received() -> None:
    bundle = steered("r1")
    before = bundle.ledgers["r1"].next
    bundle.arrive(block(1, 3))
    assert bundle.ledgers["r1"].numbers() == []
    bundle.order(1, 3)
    assert bundle.ledgers["r1"].numbers() == [(before, 1, 3)]
    (ack,) = bundle.told(RepositoryAck, "shop")
    assert (ack.upto, ack.copies) == (3, (3,))


@pytest.mark.req("RD-04")
def test_if_the_message_of_an_order_event_is_missing_it_is_asked_for() -> None:
    bundle = steered("r1")
    bundle.order(1, 3)
    bundle.pass_time(100)
    assert [nak.missing for nak in bundle.told(RepositoryNak, "shop")] == [((1, 3),)]
    bundle.retransmit(1, 3)
    assert [ack.upto for ack in bundle.told(RepositoryAck, "shop")] == [3]


@pytest.mark.req("RD-05")
def test_duplicates_are_discarded() -> None:
    bundle = steered("r1")
    bundle.publish(1, 3)
    stored = bundle.ledgers["r1"].numbers()
    bundle.publish(1, 3)
    bundle.retransmit(1, 3)
    bundle.kill("r1")
    bundle.start("r1")
    bundle.pass_time(2000)
    bundle.publish(1, 3)
    assert bundle.ledgers["r1"].numbers() == stored


@pytest.mark.req("RD-05")
def test_two_bodies_under_one_number_are_refused_and_reported() -> None:
    bundle = steered("r1")
    bundle.publish(1, 1)
    stored = bundle.ledgers["r1"].numbers()
    bundle.arrive(block(1, 1, body=b"another"))
    assert bundle.ledgers["r1"].numbers() == stored
    assert any("two bodies under one number" in report.what for report in bundle.reports)


@pytest.mark.req("RD-06")
def test_sequence_numbers_are_set_aside_for_missing_messages() -> None:
    bundle = steered("r1")
    start = bundle.ledgers["r1"].next
    bundle.publish(1, 2)
    bundle.publish(6, 2)  # 3, 4 and 5 are on their way
    bundle.publish(4, 1)
    assert bundle.ledgers["r1"].numbers() == [(start, 1, 2), (start + 3, 4, 1), (start + 5, 6, 2)]
    assert [each.upto for each in bundle.told(Persistent, "billing")] == [start + 1], "readers stop at a reservation"
    bundle.pass_time(300)
    assert bundle.told(RepositoryNak, "shop")[-1].missing == ((3, 3), (5, 5))
    bundle.retransmit(3, 1)
    bundle.retransmit(5, 1)
    assert [number for _, number, _ in bundle.ledgers["r1"].numbers()] == [1, 3, 4, 5, 6]
    assert bundle.told(Persistent, "billing")[-1].upto == start + 6


@pytest.mark.req("RD-07", "RD-08")
def test_the_persistent_event_is_received_only_by_those_whose_subscription_is_satisfied() -> None:
    bundle = steered("r1", where="price > 2")
    bundle.recover("subscriber", "audit", "r1")
    start = bundle.ledgers["r1"].next
    bundle.publish(1, 5)
    (mine,) = bundle.told(Persistent, "billing")
    assert [(each.sequence - start, each.count, each.first) for each in mine.stretches] == [(2, 2, 3)]
    (all_of_it,) = bundle.told(Persistent, "audit")
    assert [each.count for each in all_of_it.stretches] == [5]
    bundle.clear()
    bundle.publish(6, 2)  # they cost 1 and 2
    assert not bundle.told(Persistent, "billing")


@pytest.mark.req("RD-11")
def test_the_sync_is_advanced_only_on_explicit_acknowledgements_and_told_when_it_is_durable() -> None:
    bundle = steered("r1")
    start = bundle.ledgers["r1"].next
    bundle.publish(1, 4)
    bundle.lazy.add("r1")
    bundle.acknowledge("billing", "r1", (start + 2, start + 3))
    bundle.write("r1")
    assert all(sync.upto < start for sync in bundle.told(Sync, "billing")), "there is a hole before it"
    bundle.acknowledge("billing", "r1", (start, start + 1))
    assert all(sync.upto < start for sync in bundle.told(Sync, "billing")), "it is not durable yet"
    bundle.write("r1")
    assert bundle.told(Sync, "billing")[-1].upto == start + 3


@pytest.mark.req("RD-12")
def test_on_holes_a_rectify_event_lists_them_and_nothing_is_retransmitted_unasked() -> None:
    bundle = steered("r1")
    start = bundle.ledgers["r1"].next
    bundle.publish(1, 4)
    bundle.acknowledge("billing", "r1", (start, start))
    bundle.clear()
    bundle.pass_time(1500)
    rectify = bundle.told(Rectify, "billing")[0]
    assert (rectify.sync, rectify.upto) == (start, start + 3)
    assert [(each.first, each.count) for each in rectify.stretches] == [(2, 3)]
    assert bundle.sent_again("billing") == []
    bundle.miss("billing", "r1", (start + 1, start + 2))
    assert bundle.sent_again("billing") == [b"2", b"3"]


@pytest.mark.req("RD-13")
def test_a_subscriber_that_comes_back_without_any_state_is_told_what_it_missed() -> None:
    bundle = steered("r1", where="price > 2")
    start = bundle.ledgers["r1"].next
    bundle.publish(1, 5)
    bundle.acknowledge("billing", "r1", (start, start + 2))
    bundle.publish(6, 5)
    bundle.clear()
    bundle.recover("subscriber", "billing", "r1", attempt=1, incarnation=6, where="price > 2")
    (response,) = bundle.told(RecoveryResponse, "billing")
    assert response.sync == start + 2
    (rest,) = bundle.told(Persistent, "billing")
    assert [(each.first, each.count) for each in rest.stretches] == [(4, 1), (8, 2)]
    assert rest.redelivered >= start + 8, "it may have had them"


@pytest.mark.req("RD-08", "RD-13")
def test_a_subscriber_is_told_of_nothing_before_its_application_asks_and_a_second_repository_knows_that() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1", asks=False)
    bundle.pass_time(200)
    bundle.publish(1, 5)
    assert bundle.told(Persistent, "billing") == []
    bundle.deaf.add("r2")
    bundle.miss("billing", "r1", after=0, asks=True)
    assert all(not told.stretches for told in bundle.told(Persistent, "billing")), "r1 is alone with that knowledge"
    bundle.deaf.clear()
    bundle.pass_time(1000)
    (told,) = [told for told in bundle.told(Persistent, "billing") if told.stretches]
    assert [(each.first, each.count) for each in told.stretches] == [(1, 5)]


@pytest.mark.req("RD-13")
def test_only_what_an_earlier_life_may_have_been_handed_is_marked_as_redelivered() -> None:
    """Life 5 is handed three of five events, acknowledges one and ends; life 6 never asks; life 7 gets the rest."""
    bundle = steered("r1", "r2")
    start = bundle.ledgers["r1"].next
    bundle.publish(1, 5)
    bundle.acknowledge("billing", "r1", (start, start))
    bundle.end("billing", "r1", (block(1, 1).publisher, 5, 3))
    assert [sync.ended for sync in bundle.told(Sync, "billing")][-1:] == [True]
    bundle.recover("subscriber", "billing", "r2", incarnation=6, asks=False)
    bundle.clear()
    bundle.recover("subscriber", "billing", "r2", incarnation=7)
    told = bundle.told(Persistent, "billing")
    marks = {
        each.first + row: each.sequence + row <= part.redelivered
        for part in told
        for each in part.stretches
        for row in range(each.count)
    }
    assert marks == {2: True, 3: True, 4: False, 5: False}


@pytest.mark.req("RD-16")
def test_an_older_life_is_refused_once_a_newer_one_has_asked_though_that_has_ended() -> None:
    bundle = steered("r1", "r2")
    bundle.end("billing", "r1")
    bundle.clear()
    bundle.recover("subscriber", "billing", "r2", incarnation=4)
    (denial,) = bundle.told(Denial, "billing")
    assert denial.code is Refusal.FENCED


@pytest.mark.req("RD-13")
def test_a_repository_does_not_vouch_for_a_life_that_moved_without_its_hearing() -> None:
    """r1 told life 5 of one event; then r2 steers it, may tell it of others, and says so by asking what r1 knows."""
    bundle = steered("r1", "r2")
    bundle.publish(1, 1)
    asking = GossipSync(TOPIC, "r2", {"billing": ()}, asking=True)
    bundle.step("r1", LetterReceived(publisher_id(KEEPER, repository_name("r2")), [asking]))
    bundle.recover("subscriber", "billing", "r1", attempt=2, incarnation=6)
    bundle.clear()
    bundle.publish(2, 3)  # r2 may have had them before
    told = [part for part in bundle.told(Persistent, "billing") if part.stretches]
    assert told
    assert all(part.redelivered for part in told)


@pytest.mark.req("RD-03")
def test_a_page_of_what_is_stored_does_not_claim_what_is_damaged_and_not_repaired_yet() -> None:
    bundle = steered("r1", "r2")
    for first in (1, 2, 3):
        bundle.publish(first, 1)
    sequence = next(line for line, first, _ in bundle.ledgers["r1"].numbers() if first == 2)
    bundle.ledgers["r1"].damaged.add(sequence)
    bundle.deaf.add("r2")  # it cannot send it again
    wanted = (StreamRanges(block(1, 1).publisher, 5, 0, ((1, 3),)),)
    for _ in range(2):  # the first one finds out that it is damaged
        bundle.clear()
        request = PageRequest(TOPIC, "reader", 1, "audit", "", wanted)
        bundle.step("r1", LetterReceived(publisher_id("", "reader"), [request], requester="reader"))
        (page,) = [event for _, event, _ in bundle.mail if isinstance(event, Page)]
        ((_, covered),) = Position.of(page.covered).streams.items()
        assert list(covered) == [(1, 1), (3, 3)]


@pytest.mark.req("RD-03")
def test_who_is_there_is_judged_when_an_answer_is_given_not_when_it_was_asked_for() -> None:
    bundle = steered("r1", "r2")
    bundle.publish(1, 1)
    bundle.kill("r2")
    bundle.lazy.add("r1")
    request = StockRequest(TOPIC, "reader", 1, "audit", "", enrol=True)
    bundle.step("r1", LetterReceived(publisher_id("", "reader"), [request], requester="reader"))
    bundle.pass_time(1000)
    bundle.publish(2, 1)
    bundle.pass_time(12_000)
    bundle.lazy.clear()
    bundle.write("r1")
    bundle.pass_time(1000)
    (stock,) = [event for _, event, _ in bundle.mail if isinstance(event, Stock)]
    assert [list(Position.of(part).streams.values()) for part in stock.parts] == [[Spans(((1, 2),))]], "r2 is gone"


@pytest.mark.req("RD-13", "RD-25")
def test_a_publisher_that_comes_back_learns_its_last_number_and_begins_a_new_incarnation() -> None:
    bundle = steered("r1")
    bundle.publish(1, 5)
    bundle.clear()
    bundle.recover("publisher", "shop", "r1", incarnation=9)
    (response,) = bundle.told(RecoveryResponse, "shop")
    assert (response.incarnation, response.last) == (5, 5)
    bundle.publish(1, 1, incarnation=9)
    bundle.publish(6, 1, incarnation=5)  # a late one
    assert len(bundle.ledgers["r1"].numbers()) == 3


@pytest.mark.req("RD-14")
def test_a_repository_that_crashes_has_lost_nothing_that_it_acknowledged() -> None:
    bundle = steered("r1")
    bundle.publish(1, 3)
    bundle.lazy.add("r1")
    bundle.clear()
    bundle.publish(4, 3)
    assert not bundle.told(RepositoryAck, "shop"), "it is not durable"
    bundle.kill("r1")
    bundle.lazy.clear()
    bundle.start("r1")
    bundle.pass_time(2000)
    bundle.recover("publisher", "shop", "r1", attempt=2, last=6)
    bundle.pass_time(300)
    assert bundle.told(RepositoryNak, "shop")[-1].missing == ((4, 6),)
    bundle.retransmit(4, 3)
    assert bundle.told(RepositoryAck, "shop")[-1].upto == 6


@pytest.mark.req("RD-16", "RD-17")
def test_a_repository_in_passive_mode_issues_no_events_to_clients_that_it_does_not_steer() -> None:
    bundle = steered("r1", "r2")
    bundle.probe("publisher", "shop")
    assert {answer.sender for answer in bundle.told(ProbeAnswer, "shop")} == {"r1", "r2"}
    bundle.clear()
    bundle.publish(1, 3)
    assert {event.sender for _, event, _ in bundle.mail} == {"r1"}
    assert bundle.ledgers["r2"].numbers()[-1][1:] == (1, 3), "but it stores them all the same"


@pytest.mark.req("RD-15", "RD-17")
def test_nothing_is_acknowledged_or_released_before_two_of_three_repositories_have_it() -> None:
    bundle = steered("r1", "r2", "r3")
    bundle.lazy |= {"r2", "r3"}
    bundle.publish(1, 3)
    assert not bundle.told(RepositoryAck, "shop") or bundle.told(RepositoryAck, "shop")[-1].upto == 0
    assert not bundle.told(Persistent, "billing")
    bundle.write("r3")
    assert bundle.told(RepositoryAck, "shop")[-1].upto == 3
    assert bundle.told(Persistent, "billing")[-1].stretches[0].count == 3


@pytest.mark.req("RD-15")
def test_guarantees_are_met_as_long_as_one_repository_is_available() -> None:
    bundle = steered("r1", "r2", "r3")
    bundle.publish(1, 3)
    bundle.kill("r1")
    bundle.kill("r2")
    bundle.pass_time(11_000)
    bundle.clear()
    bundle.recover("publisher", "shop", "r3", attempt=2)
    bundle.recover("subscriber", "billing", "r3", attempt=2)
    bundle.publish(4, 2)
    ack = bundle.told(RepositoryAck, "shop")[-1]
    assert (ack.upto, ack.copies[0]) == (5, 5)
    assert ack.copies[1] < 5, "and it says that there is one copy alone"
    assert sum(each.count for event in bundle.told(Persistent, "billing") for each in event.stretches) == 5


@pytest.mark.req("RD-18", "RD-17")
def test_the_repository_table_tells_which_of_its_own_messages_an_acknowledgement_is_about() -> None:
    bundle = steered("r1", "r2")
    bundle.publish(1, 2, "r1")
    bundle.publish(1, 2, "r2")
    rows = [event for _, event in bundle.said if isinstance(event, GossipAck)]
    assert {row.sender for row in rows} == {"r1", "r2"}
    start = bundle.ledgers["r1"].numbers()[0][0]
    bundle.acknowledge("billing", "r1", (start, start + 1))
    bundle.clear()
    bundle.kill("r1")
    bundle.recover("subscriber", "billing", "r2", attempt=2)
    assert not bundle.told(Persistent, "billing"), "it has acknowledged them to the other one"


@pytest.mark.req("RD-20")
def test_a_recovering_repository_retrieves_what_it_missed_and_steers_nobody_before_it_has_it() -> None:
    bundle = steered("r1", "r2")
    bundle.publish(1, 2)
    bundle.kill("r2")
    bundle.publish(3, 4)
    bundle.recover("subscriber", "audit", "r1", since="beginning")
    bundle.deaf.add("r2")
    bundle.start("r2")
    bundle.recover("subscriber", "billing", "r2", attempt=2)
    bundle.deaf.clear()
    bundle.clear()
    bundle.recover("subscriber", "billing", "r2", attempt=2)
    assert [denial.code for denial in bundle.told(Denial, "billing")] == [Refusal.BUSY]
    bundle.publish(10, 1)  # live traffic, with a gap that the assistant has not told of yet
    bundle.pass_time(2000)
    bundle.publish(7, 3, "r1")
    bundle.pass_time(2000)
    stored = [number for _, first, count in bundle.ledgers["r2"].numbers() for number in range(first, first + count)]
    assert stored == list(range(1, 11)), "all of it, in order"
    bundle.recover("subscriber", "audit", "r2", attempt=2)
    assert bundle.told(RecoveryResponse, "audit"), "it knows the registrations too"


@pytest.mark.req("RD-21")
def test_a_repository_joins_and_another_leaves_gracefully() -> None:
    bundle = steered("r1", "r2")
    bundle.publish(1, 5)
    bundle.add("r3")
    bundle.owner("r1", TopicTask.ADD_REPOSITORY, repositories=("r3",))
    bundle.pass_time(3000)
    assert sum(count for *_, count in bundle.ledgers["r3"].numbers()) == 5
    assert bundle.repositories["r3"].gossip.ready
    bundle.clear()
    bundle.owner("r2", TopicTask.REMOVE_REPOSITORY, repositories=("r1",))
    assert {to.split(":")[1] for to, event, _ in bundle.mail if isinstance(event, Migrate)} == {"shop", "billing"}
    bundle.pass_time(1000)
    assert bundle.repositories["r1"].is_gone
    assert bundle.repositories["r2"].registry.members == bundle.repositories["r3"].registry.members == ("r2", "r3")


@pytest.mark.req("RD-21")
def test_before_one_leaves_the_others_check_what_they_hold() -> None:
    bundle = steered("r1", "r2")
    bundle.publish(1, 5)
    bundle.pass_time(6000)  # nobody looks at old records for a while now
    ((sequence, *_),) = bundle.ledgers["r2"].numbers()
    bundle.ledgers["r2"].damaged.add(sequence)
    bundle.clear()
    bundle.owner("r2", TopicTask.REMOVE_REPOSITORY, repositories=("r1",))
    for _ in range(100):
        bundle.pass_time(50)
        if bundle.repositories["r1"].is_gone:
            break
    assert bundle.repositories["r1"].is_gone
    assert [report.what for report in bundle.reports if report.level == "error"] == ["a stored record is damaged"]
    assert not bundle.ledgers["r2"].damaged, "it was repaired before"


@pytest.mark.req("RD-21")
def test_the_last_repository_cannot_leave() -> None:
    bundle = PaperBundle("r1")
    bundle.clear()
    bundle.owner("r1", TopicTask.REMOVE_REPOSITORY, repositories=("r1",))
    (receipt,) = bundle.told(RegistrationReceipt)
    assert "last repository" in receipt.reason


@pytest.mark.req("RD-21")
def test_whoever_runs_a_repository_may_take_it_out_of_a_topic_of_somebody_else() -> None:
    bundle = PaperBundle("r1", "r2", create=False)
    for name in ("r1", "r2"):
        bundle.owner(name, TopicTask.CREATE, repositories=("r1", "r2"), principal="alice")
    bundle.pass_time(2000)
    bundle.clear()
    bundle.owner("r1", TopicTask.REMOVE_REPOSITORY, repositories=("r2",), principal=KEEPER)
    bundle.owner("r2", TopicTask.REMOVE_REPOSITORY, repositories=("r2",), principal=KEEPER)
    assert [receipt.code for receipt in bundle.told(RegistrationReceipt)] == [Refusal.NOT_AUTHORISED, None]
    bundle.pass_time(2000)
    assert bundle.repositories["r2"].is_gone


@pytest.mark.req("RD-01")
def test_a_topic_is_deleted_by_its_owner_everywhere() -> None:
    bundle = steered("r1", "r2")
    bundle.publish(1, 5)
    bundle.clear()
    bundle.owner("r2", TopicTask.DELETE, principal="thief")
    bundle.owner("r2", TopicTask.DELETE)
    assert [receipt.code for receipt in bundle.told(RegistrationReceipt)] == [Refusal.NOT_AUTHORISED, None]
    assert {denial.reason for denial in bundle.told(Denial)} == {"orders was deleted by its owner"}
    bundle.owner("r1", TopicTask.CREATE, repositories=("r1", "r2"))
    assert bundle.told(RegistrationReceipt)[-1].code is Refusal.BUSY
    bundle.pass_time(500)
    assert all(repository.is_gone for repository in bundle.repositories.values())


@pytest.mark.req("RD-01")
def test_a_name_that_could_be_taken_for_another_is_not_registered() -> None:
    bundle = PaperBundle("r1")
    bundle.clear()
    for name in ("", "a:b"):
        bundle.owner("r1", TopicTask.GRANT, name=name)
    assert ["is no name" in receipt.reason for receipt in bundle.told(RegistrationReceipt)] == [True, True]


@pytest.mark.req("GE-13")
@pytest.mark.parametrize("late", [False, True])
def test_another_filter_holds_for_what_comes_after_it_whoever_is_asked(late: bool) -> None:
    bundle = steered("r1", "r2", where="price > 3")
    bundle.publish(1, 5)
    if late:
        bundle.deaf.add("r2")
    bundle.recover("subscriber", "billing", "r1", where="price < 2", attempt=2)
    bundle.publish(6, 5)
    bundle.deaf.clear()
    bundle.pass_time(3000)
    bundle.clear()
    bundle.kill("r1")
    bundle.recover("subscriber", "billing", "r2", where="price < 2", attempt=3)
    bundle.pass_time(3000)
    told = [number for event in bundle.told(Persistent, "billing") for number in numbers(event)]
    assert told == [4, 6, 10]


def numbers(told: Persistent) -> list[int]:
    return [each.first + offset for each in told.stretches for offset in range(each.count)]


@pytest.mark.req("RD-26")
def test_subscribers_that_want_the_same_and_hear_it_are_told_together() -> None:
    bundle = PaperBundle("r1")
    bundle.recover("publisher", "shop", "r1")
    for name in ("billing", "audit"):
        bundle.recover("subscriber", name, "r1", where="price > 1")
    bundle.pass_time(200)
    (chorus,) = {response.chorus for response in bundle.told(RecoveryResponse, "subscriber")}
    for name in ("billing", "audit"):
        bundle.miss(name, "r1", after=0, tuned=True)
    bundle.clear()
    bundle.publish(1, 5)
    (told,) = bundle.told(Persistent)
    assert (told.attempt, [(each.first, each.count) for each in told.stretches]) == (-chorus, [(2, 3)])
    bundle.acknowledge("billing", "r1", (told.previous + 1, told.upto))
    assert [sync.upto for sync in bundle.told(Sync, "billing")] == [told.upto]
    assert not bundle.told(Sync, "audit")


@pytest.mark.req("RD-26")
def test_who_wants_something_else_or_is_not_as_far_is_told_alone() -> None:
    bundle = steered("r1")
    bundle.recover("subscriber", "audit", "r1", since="beginning", where="price > 3")
    for name in ("billing", "audit"):
        bundle.miss(name, "r1", after=0, tuned=True)
    bundle.clear()
    bundle.publish(1, 5)
    assert [len(bundle.told(Persistent, name)) for name in ("billing", "audit")] == [1, 1]
    bundle.miss("billing", "r1", after=0)
    assert len(bundle.told(Rectify, "billing")) == 1, "it has missed what it was told"


@pytest.mark.req("RD-26")
def test_each_persistent_event_names_the_one_before_it() -> None:
    bundle = steered("r1", where="price > 2")
    for first in (1, 6, 11):
        bundle.publish(first, 5)
    events = bundle.told(Persistent, "billing")
    assert [each.previous for each in events[1:]] == [each.upto for each in events[:-1]]


@pytest.mark.req("RD-27")
def test_registrations_take_sequence_numbers_that_readers_skip() -> None:
    bundle = steered("r1")
    before = bundle.ledgers["r1"].next
    bundle.owner("r1", TopicTask.GRANT, role="subscriber", name="late")
    bundle.recover("subscriber", "late", "r1")
    assert bundle.ledgers["r1"].next == before + 2
    bundle.publish(1, 1)
    (event,) = bundle.told(Persistent, "billing")
    assert event.stretches[0].sequence == before + 2
    bundle.publish(2, 4)
    assert bundle.repositories["r1"].status(bundle.now)["events"] == 5
    bundle.start("r1")
    assert bundle.repositories["r1"].status(bundle.now)["events"] == 5, "it counts what it finds on its disk, too"


@pytest.mark.req("RD-01")
def test_a_topic_that_exists_is_not_created_again_with_other_settings() -> None:
    bundle = PaperBundle("r1", "r2", "r3", copies=2)
    for copies, code in ((2, None), (0, None), (3, Refusal.TOPIC)):
        bundle.clear()
        bundle.owner("r1", TopicTask.CREATE, repositories=("r1", "r2", "r3"), copies=copies)
        bundle.pass_time(200)
        (receipt,) = bundle.told(RegistrationReceipt)
        assert receipt.code is code
    assert bundle.repositories["r1"].registry.terms.copies == 2


@pytest.mark.req("RD-14")
def test_a_repository_that_was_away_serves_as_soon_as_it_has_all_that_others_have() -> None:
    alone = PaperBundle("r1")
    alone.kill("r1")
    alone.start("r1")
    assert alone.repositories["r1"].gossip.ready, "no time has passed since it is linked"
    bundle = PaperBundle("r1", "r2")
    bundle.kill("r2")
    bundle.recover("publisher", "shop", "r1")
    bundle.publish(1, 3)
    bundle.start("r2")
    assert bundle.ledgers["r2"].numbers() == [(6, 1, 3)]
    assert bundle.repositories["r2"].gossip.ready


@pytest.mark.req("RD-18")
def test_what_a_repository_missed_comes_in_several_letters_for_one_question() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.kill("r2")
    bundle.recover("publisher", "shop", "r1")
    for number in range(1, 21):
        bundle.arrive(block(number, body=bytes(60_000)))
        bundle.order(number, number)
    bundle.clear()
    bundle.start("r2")
    said = [event for _, event in bundle.said]
    assert len([event for event in said if isinstance(event, GossipRequest)]) == 1
    more = [event.more for event in said if isinstance(event, Retransmission)]
    assert more == [True] * (len(more) - 1) + [False]
    assert len(more) > 3
    assert len(bundle.ledgers["r2"].numbers()) == 20


@pytest.mark.req("RD-28")
def test_a_repository_that_is_behind_a_publisher_that_comes_to_it_fetches_the_difference() -> None:
    bundle = steered("r1", "r2", copies=1)
    bundle.deaf.add("r2")
    bundle.publish(1, 4, "r1")
    bundle.deaf.clear()
    bundle.recover("publisher", "shop", "r2", attempt=2, last=4)
    bundle.pass_time(1000)
    assert bundle.ledgers["r2"].numbers()[0][1:] == (1, 4)
    assert bundle.told(RepositoryAck, "shop")[-1].upto == 4


@pytest.mark.req("GE-13", "GE-20")
def test_a_subscription_gets_nothing_older_than_its_epoch_and_everything_newer() -> None:
    bundle = steered("r1", "r2")
    bundle.publish(1, 3)
    bundle.recover("subscriber", "audit", "r1")
    assert bundle.told(RecoveryResponse, "audit")[0].epoch >= bundle.ledgers["r1"].numbers()[-1][0] + 2
    bundle.publish(4, 2)
    assert [each.first for event in bundle.told(Persistent, "audit") for each in event.stretches] == [4]
    bundle.kill("r1")
    bundle.clear()
    bundle.recover("subscriber", "audit", "r2", attempt=2)
    bundle.pass_time(2500)
    assert [each.first for event in bundle.told(Persistent, "audit") for each in event.stretches] == [4]


@pytest.mark.req("GE-13")
@pytest.mark.parametrize(("since", "expected"), [("beginning", 1), ("time 4000000000", 4)])
def test_a_new_name_may_begin_earlier(since: str, expected: int) -> None:
    bundle = steered("r1")
    for first in (1, 4, 7):
        bundle.publish(first, 3)
    bundle.recover("subscriber", "audit", "r1", since=since)
    (event,) = bundle.told(Persistent, "audit")
    if since == "beginning":
        assert event.stretches[0].first == expected


@pytest.mark.req("RD-14")
def test_a_full_disk_stops_acknowledgements_and_says_so() -> None:
    bundle = steered("r1")
    bundle.full.add("r1")
    bundle.publish(1, 3)
    assert not bundle.told(RepositoryAck, "shop")
    assert any("nothing is stored" in report.what for report in bundle.reports)
    bundle.full.clear()
    bundle.pass_time(1500)
    assert bundle.told(RepositoryAck, "shop")[-1].upto == 3


@pytest.mark.req("RD-14", "RD-16")
def test_clients_leave_a_repository_that_can_write_nothing_for_one_that_can() -> None:
    bundle = steered("r1", "r2")
    bundle.publish(1, 3)
    bundle.full.update(("r1", "r2"))
    bundle.publish(4, 1)
    bundle.pass_time(3000)
    assert bundle.told(Migrate) == [], "nobody is better"
    bundle.full.discard("r2")
    bundle.pass_time(3000)
    assert len(bundle.told(Migrate, "shop")) == len(bundle.told(Migrate, "billing")) == 1
    bundle.clear()
    bundle.probe("publisher", "shop")
    assert {answer.sender: answer.ready for answer in bundle.told(ProbeAnswer)} == {"r1": False, "r2": True}
    bundle.recover("publisher", "shop", "r1", attempt=2)
    assert [denial.code for denial in bundle.told(Denial)] == [Refusal.BUSY]
    bundle.full.clear()
    bundle.pass_time(3000)
    bundle.clear()
    bundle.recover("publisher", "shop", "r1", attempt=3)
    assert bundle.told(RecoveryResponse) != []


@pytest.mark.req("RD-14", "RD-20")
def test_a_damaged_record_is_never_served_and_repaired_from_the_bundle() -> None:
    bundle = steered("r1", "r2")
    bundle.publish(1, 3)
    bundle.kill("r1")
    ledger = bundle.ledgers["r1"]
    sequence = ledger.numbers()[0][0]
    ledger.damaged.add(sequence)
    bundle.start("r1")
    bundle.pass_time(3000)
    assert sequence not in ledger.damaged
    assert any("damaged" in report.what for report in bundle.reports)
    bundle.clear()
    bundle.recover("subscriber", "billing", "r1", attempt=3)
    assert sum(each.count for event in bundle.told(Persistent, "billing") for each in event.stretches) == 3


def storages() -> PaperBundle:
    """Paper 001, figure 5 in small: r1 and r2 serve everyone, n1 and n2 the unit "north"."""
    bundle = PaperBundle("r1", "r2", units={"n1": "north", "n2": "north"})
    for name in ("n1", "n2"):
        bundle.add(name)
        bundle.owner("r1", TopicTask.ADD_REPOSITORY, repositories=(name,))
    bundle.pass_time(2000)
    bundle.recover("publisher", "shop", "r1")
    bundle.pass_time(500)
    return bundle


def answering(bundle: PaperBundle, role: Role, name: str, node: str) -> list[str]:
    """Who would steer a client at this broker, the finest first."""
    bundle.clear()
    bundle.say(role, name, Probe("orders", name, role, 1, node))
    answers = sorted(bundle.told(ProbeAnswer, name), key=lambda each: each.level)
    return [answer.sender for answer in answers if answer.ready]


@pytest.mark.req("GE-11")
def test_a_broker_is_served_by_the_finest_storage_around_it() -> None:
    bundle = storages()
    bundle.recover("subscriber", "billing", "r1", node="north/hall/b1")
    bundle.pass_time(1000)
    assert answering(bundle, "subscriber", "billing", "north/hall/b1") == ["n1", "n2", "r1", "r2"]
    bundle.recover("subscriber", "audit", "r1", node="south/b1")
    bundle.pass_time(1000)
    assert answering(bundle, "subscriber", "audit", "south/b1") == ["r1", "r2"]
    assert answering(bundle, "publisher", "shop", "north/hall/b1") == ["r1", "r2"], "the coarsest stores all"


@pytest.mark.req("GE-11")
def test_whom_a_coarser_storage_serves_is_sent_to_a_finer_one() -> None:
    bundle = storages()
    bundle.recover("subscriber", "billing", "r1", node="north/hall/b1")
    bundle.clear()
    bundle.pass_time(1000)
    assert any(event.sender == "r1" for event in bundle.told(Migrate, "billing"))


@pytest.mark.req("GE-12")
def test_a_storage_stores_only_what_clients_in_its_unit_want() -> None:
    bundle = storages()
    bundle.recover("subscriber", "billing", "r1", node="north/hall/b1", where="price > 2")
    bundle.recover("subscriber", "audit", "r1", node="south/b1")
    for number in range(1, 11):
        bundle.publish(number, 1)
    assert [first for _, first, _ in bundle.ledgers["n1"].numbers()] == [3, 4, 8, 9]
    assert [first for _, first, _ in bundle.ledgers["r2"].numbers()] == list(range(1, 11))


@pytest.mark.req("GE-12")
def test_of_a_batch_only_what_clients_in_the_unit_want_is_stored() -> None:
    bundle = storages()
    bundle.recover("subscriber", "billing", "r1", node="north/hall/b1", where="price > 2")
    bundle.recover("subscriber", "audit", "r1", node="north/hall/b1", where="price = 4")
    bundle.publish(1, 10)
    assert [(first, count) for _, first, count in bundle.ledgers["n1"].numbers()] == [(3, 2), (8, 2)]
    kept = [
        record.audience for record in bundle.ledgers["n1"].records.values() if record.line.kind is RecordKind.EVENTS
    ]
    assert [sorted(audience.values()) for audience in kept] == [[b"", b"\2"]] * 2, "the second of each is for audit too"
    assert [(first, count) for _, first, count in bundle.ledgers["r2"].numbers()] == [(1, 10)]
    bundle.pass_time(1000)
    bundle.clear()
    bundle.recover("subscriber", "audit", "n1", attempt=2, node="north/hall/b1", where="price = 4")
    assert [(each.first, each.count) for event in bundle.told(Persistent, "audit") for each in event.stretches] == [
        (4, 1),
        (9, 1),
    ]


@pytest.mark.req("GE-24")
def test_a_second_storage_of_the_same_level_is_refused_unless_it_joins() -> None:
    bundle = PaperBundle("r1", units={"n1": "north", "n2": "north", "h1": "north/hall"})
    for name in ("n1", "n2", "h1"):
        bundle.add(name)
    bundle.owner("r1", TopicTask.ADD_REPOSITORY, repositories=("n1",), units=("north",))
    bundle.pass_time(2000)
    bundle.clear()
    bundle.owner("r1", TopicTask.ADD_REPOSITORY, repositories=("n2",), units=("north",))
    (refused,) = bundle.told(RegistrationReceipt)
    assert refused.code is Refusal.TOPIC
    assert "north has a storage for orders already, n1" in refused.reason
    registry = bundle.repositories["r1"].registry
    assert [*registry.members] == ["n1", "r1"]
    bundle.owner("r1", TopicTask.ADD_REPOSITORY, repositories=("n1",), units=("north",))  # it is the one that there is
    bundle.owner("r1", TopicTask.ADD_REPOSITORY, repositories=("h1",), units=("north/hall",))  # a finer one
    bundle.owner("r1", TopicTask.ADD_REPOSITORY, repositories=("n2",), units=("north",), joins=True)
    bundle.pass_time(2000)
    assert [*registry.members] == ["h1", "n1", "n2", "r1"]


@pytest.mark.req("GE-24")
def test_a_storage_that_joins_another_one_has_what_clients_of_the_unit_lack_and_all_from_then_on() -> None:
    bundle = PaperBundle("r1", copies=1, units={"n1": "north", "n2": "north"})
    bundle.add("n1")
    bundle.owner("r1", TopicTask.ADD_REPOSITORY, repositories=("n1",), units=("north",))
    bundle.pass_time(2000)
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1", node="north/b1")
    bundle.pass_time(1000)
    bundle.recover("subscriber", "billing", "n1", attempt=2, node="north/b1")
    bundle.publish(1, 3)
    bundle.acknowledge("billing", "n1", (1, bundle.told(Persistent, "billing")[-1].upto))
    bundle.pass_time(1000)
    bundle.publish(4, 2)
    bundle.add("n2")
    bundle.owner("r1", TopicTask.ADD_REPOSITORY, repositories=("n2",), units=("north",), joins=True)
    bundle.pass_time(2000)
    bundle.publish(6, 1)
    assert [first for _, first, _ in bundle.ledgers["n1"].numbers()] == [1, 4, 6]
    stored = [first for _, first, _ in bundle.ledgers["n2"].numbers()]
    assert stored[-2:] == [4, 6], "billing has 1 … 3, and nobody needs these of n2"


@pytest.mark.req("GE-11", "GE-14")
def test_a_finer_storage_goes_on_where_the_coarser_one_was_and_a_roaming_client_gets_each_event_once() -> None:
    bundle = storages()
    bundle.recover("subscriber", "billing", "r1", node="north/hall/b1")
    bundle.publish(1, 3)
    told = bundle.told(Persistent, "billing")[-1]
    bundle.acknowledge("billing", "r1", (1, told.upto))
    bundle.pass_time(1000)
    bundle.clear()
    bundle.recover("subscriber", "billing", "n1", attempt=2, node="north/hall/b1")
    bundle.publish(4, 2)
    assert [each.first for event in bundle.told(Persistent, "billing") for each in event.stretches] == [4]
    bundle.publish(6, 2)
    assert answering(bundle, "subscriber", "billing", "south/b1")[:1] in (["r1"], ["r2"])
    bundle.recover("subscriber", "billing", "r2", attempt=3, node="south/b1")
    assert [each.first for event in bundle.told(Persistent, "billing") for each in event.stretches] == [4, 6]


@pytest.mark.req("GE-12", "GE-15")
def test_the_coarser_storage_counts_a_unit_as_served_once_two_finer_ones_have_it() -> None:
    bundle = storages()
    bundle.recover("subscriber", "billing", "r1", node="north/hall/b1")
    bundle.recover("subscriber", "audit", "r1", node="south/b1")
    bundle.publish(1, 1)
    bundle.now += DAY
    bundle.pass_time(2000)
    line = bundle.repositories["r1"].log
    audit = bundle.told(Persistent, "audit")[-1]
    bundle.acknowledge("audit", "r1", (1, audit.upto))
    bundle.pass_time(6000)
    assert line.first > bundle.ledgers["r1"].numbers()[0][0], "billing is cared for by n1 and n2"
    assert bundle.ledgers["n1"].numbers()[0][1] == 1


@pytest.mark.req("GE-12", "GE-15")
def test_with_one_copy_the_coarser_storage_counts_a_unit_as_served_once_a_lone_finer_one_has_it() -> None:
    bundle = PaperBundle("r1", units={"n1": "north"}, copies=1)
    bundle.add("n1")
    bundle.owner("r1", TopicTask.ADD_REPOSITORY, repositories=("n1",))
    bundle.pass_time(2000)
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1", node="north/hall/b1")
    bundle.publish(1, 1)
    bundle.publish(200_000, 1)  # a day later, and after a gap that is never filled
    bundle.retransmit(2, 1)
    bundle.pass_time(6000)
    assert bundle.repositories["r1"].log.first > 1, "billing is cared for by n1"
    assert bundle.ledgers["n1"].numbers()[0][1] == 1
