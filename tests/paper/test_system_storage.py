"""Paper 001, section 4.2.4: system storage and guaranteed delivery of events."""

import pytest
from tests.paper.bundle import DAY, KEEPER, PaperBundle, block

from stentor.machine import Effect
from stentor.model.communication import within_of
from stentor.model.control import Denial, EgressRelease, Persistent, Probe, ProbeAnswer, RecoveryResponse, SubscriberNak
from stentor.model.trust.access import TopicTerms
from stentor.protocols.delivery.transport import EventsReceived, Subscribe, Unsubscribe

NORTH = "north/hall/b1"
SOUTH = "south/b2"


def units(*more: str) -> PaperBundle:
    """n1 is the system storage of the north and s1 that of the south; r1 serves everyone."""
    bundle = PaperBundle("r1", "n1", "s1", *more, units={"n1": "north", "n2": "north", "s1": "south"}, hold=True)
    bundle.pass_time(2000)
    bundle.recover("publisher", "shop", "n1", node=NORTH)
    bundle.pass_time(500)
    return bundle


def subscribe(bundle: PaperBundle, name: str, storage: str, node: str) -> None:
    """A new subscriber is registered by one that serves everyone, and goes to the storage of its unit."""
    bundle.recover("subscriber", name, "r1", node=node)
    bundle.pass_time(2000)
    bundle.recover("subscriber", name, storage, node=node, attempt=2)
    bundle.pass_time(2000)


def numbers(bundle: PaperBundle, name: str) -> list[int]:
    """The catenation numbers that a repository has on its disk."""
    lines = bundle.ledgers[name].numbers()
    return sorted(number for _, first, count in lines for number in range(first, first + count))


def passages(bundle: PaperBundle) -> list[EgressRelease]:
    return [event for _, event in bundle.said if isinstance(event, EgressRelease)]


@pytest.mark.req("GE-21")
def test_before_the_event_is_allowed_to_leave_unit_it_must_be_stored_onto_the_stable_storage() -> None:
    bundle = units()
    subscribe(bundle, "billing", "s1", SOUTH)
    bundle.recover("subscriber", "audit", "r1", node="north/b3")
    bundle.clear()
    bundle.lazy.add("n1")
    bundle.publish_within("north", 1, 3, "n1")
    bundle.pass_time(5000)
    assert numbers(bundle, "r1") == numbers(bundle, "s1") == []
    assert passages(bundle) == []
    assert bundle.sent_again("billing") == bundle.sent_again("audit") == []
    bundle.write("n1")
    bundle.pass_time(1000)
    assert numbers(bundle, "r1") == numbers(bundle, "n1") == [1, 2, 3]
    assert {passage.unit for passage in passages(bundle)} == {"north"}


@pytest.mark.req("GE-21")
def test_a_publisher_is_told_its_unit_and_steered_by_the_storage_of_it() -> None:
    bundle = units()
    assert bundle.told(RecoveryResponse, "shop")[-1].within == "north"
    for node, expected in ((NORTH, ["n1"]), (SOUTH, ["s1"])):
        bundle.clear()
        bundle.say("publisher", "shop", Probe("orders", "shop", "publisher", 1, node))
        assert [answer.sender for answer in bundle.told(ProbeAnswer, "shop")] == expected
    bundle.clear()
    bundle.recover("publisher", "shop", "s1", node=NORTH, attempt=2)
    assert bundle.told(RecoveryResponse, "shop") == []


@pytest.mark.req("GE-16", "GE-21")
def test_a_publisher_in_a_unit_without_a_storage_is_refused_with_the_reason() -> None:
    bundle = units()
    for node, reason in (("east/b9", "no repository of it serves east, where east/b9 is"), ("b0", "b0 is in no unit")):
        bundle.clear()
        bundle.say("publisher", "shop", Probe("orders", "shop", "publisher", 1, node))
        assert [answer.sender for answer in bundle.told(ProbeAnswer, "shop")] == ["r1"]
        bundle.recover("publisher", "shop", "r1", node=node, attempt=2)
        (denial,) = bundle.told(Denial, "shop")
        assert reason in denial.reason


@pytest.mark.req("GE-21")
def test_only_system_storages_listen_to_publishers_and_only_to_those_of_their_unit() -> None:
    bundle = PaperBundle("r1", "n1", create=False, units={"n1": "north"})
    heard: dict[str, list[Effect]] = {}
    for name, repository in bundle.repositories.items():
        repository.registry.create(TopicTerms("", hold=True), {"r1": KEEPER, "n1": KEEPER})
        repository.egress.obey()
        heard[name] = repository.state.step.end()
    assert heard == {
        "r1": [Unsubscribe("orders")],
        "n1": [Unsubscribe("orders"), Subscribe("$within/north/orders", letters=False)],
    }


@pytest.mark.req("GE-16")
def test_sequence_numbers_are_used_only_by_system_storages_to_conjecture_what_they_should_have_received() -> None:
    bundle = units()
    subscribe(bundle, "billing", "s1", SOUTH)
    bundle.clear()
    bundle.publish_within("north", 1, 1, "n1")
    bundle.deaf.add("s1")
    bundle.publish_within("north", 2, 1, "n1")
    bundle.deaf.remove("s1")
    assert numbers(bundle, "s1") == [1]
    bundle.publish_within("north", 3, 1, "n1")
    bundle.pass_time(100)
    assert numbers(bundle, "s1") == [1, 2, 3], "the gap is seen by the numbers"
    first, second, third = passages(bundle)
    assert (second.previous, third.previous) == (first.upto, second.upto)
    bundle.pass_time(1000)
    told = [each for event in bundle.told(Persistent, "billing") for each in event.stretches]
    assert [each.first for each in told] == [1, 2, 3]
    own = {first: sequence for sequence, first, _ in bundle.ledgers["s1"].numbers()}
    assert [each.sequence for each in told] == [own[1], own[2], own[3]], "clients see the epochs of their storage"


@pytest.mark.req("GE-16")
def test_system_storages_maintain_events_till_they_are_sure_that_all_other_units_have_received_them() -> None:
    bundle = units()
    bundle.kill("s1")
    bundle.publish_within("north", 1, 1, "n1")
    bundle.now += 2 * DAY
    bundle.pass_time(60_000)
    assert 1 in numbers_left(bundle, "n1")
    bundle.start("s1")
    bundle.pass_time(20_000)
    assert 1 not in numbers_left(bundle, "n1"), "nobody wants it any more"


def numbers_left(bundle: PaperBundle, name: str) -> list[int]:
    """What has not been forgotten."""
    first = bundle.repositories[name].log.first
    return [number for sequence, number, _ in bundle.ledgers[name].numbers() if sequence >= first]


@pytest.mark.req("GE-16", "GE-21")
def test_whoever_is_in_another_unit_is_sent_the_event_with_the_news_of_it() -> None:
    bundle = units()
    subscribe(bundle, "billing", "s1", SOUTH)
    subscribe(bundle, "audit", "n1", NORTH)
    bundle.clear()
    bundle.publish_within("north", 1, 2, "n1")
    assert bundle.sent_again("billing") == [b"1", b"2"]
    assert bundle.told(Persistent, "audit")
    assert bundle.sent_again("audit") == [], "it hears its publisher"
    assert bundle.told(SubscriberNak) == []


@pytest.mark.req("GE-16")
def test_a_system_storage_keeps_what_nobody_in_its_unit_wants() -> None:
    bundle = units("n2")
    bundle.publish_within("north", 1, 2, "n1", "n2")
    bundle.step("n1", EventsReceived([block(3, 1, topic=within_of("north", "orders"))]))
    bundle.order(3, 3)
    bundle.pass_time(1000)
    assert numbers(bundle, "n1") == numbers(bundle, "n2") == numbers(bundle, "r1") == [1, 2, 3]
    assert numbers(bundle, "s1") == [], "nobody in the south wants it"
