"""A sync is told when enough repositories have it; one that begins to steer asks what others know."""

import pytest
from tests.paper.bundle import TOPIC, PaperBundle

from stentor.model.communication import end_name
from stentor.model.control import GossipSync, Persistent, ProbeAnswer, Recovery, RecoveryResponse, SubscriberEnd, Sync
from stentor.model.ids import publisher_id
from stentor.protocols.delivery.transport import LetterReceived


def steered(*names: str) -> PaperBundle:
    """A publisher and a subscriber that the first repository steers; events 1 to 3 are told."""
    bundle = PaperBundle(*names)
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1")
    bundle.publish(1, 3)
    assert numbers(bundle) == {1, 2, 3}
    return bundle


def numbers(bundle: PaperBundle) -> set[int]:
    """The events that the subscriber was told of."""
    told = [each for event in bundle.told(Persistent, "billing") for each in event.stretches]
    return {number for each in told for number in range(each.first, each.first + each.count)}


def acknowledge(bundle: PaperBundle) -> int:
    """All that is stored."""
    first, last = bundle.ledgers["r1"].numbers()[0][0], bundle.ledgers["r1"].next - 1
    bundle.acknowledge("billing", "r1", (first, last))
    return last


def synced(bundle: PaperBundle) -> int:
    return max((sync.upto for sync in bundle.told(Sync, "billing")), default=0)


@pytest.mark.req("RD-11")
def test_a_sync_is_told_when_as_many_have_it_as_must() -> None:
    bundle = steered("r1", "r2", "r3")
    bundle.lazy |= {"r2", "r3"}
    sync = acknowledge(bundle)
    bundle.pass_time(1000)
    assert synced(bundle) < sync
    bundle.write("r3")
    assert synced(bundle) == sync


def test_what_others_have_of_a_former_subscription_does_not_count_for_the_next() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1", attempt=5 << 15, since="beginning")
    bundle.publish(1, 3)
    acknowledge(bundle)
    bundle.say(
        "subscriber",
        "billing",
        SubscriberEnd(TOPIC, "billing", attempt=5 << 15, incarnation=5, given=(), unsubscribes=True),
        "r1",
    )
    bundle.clear()
    bundle.recover("subscriber", "billing", "r1", attempt=6 << 15, incarnation=6, since="beginning")
    assert numbers(bundle) == {1, 2, 3}
    bundle.lazy.add("r2")
    sync = bundle.ledgers["r1"].next - 1
    bundle.acknowledge("billing", "r1", (1, sync), incarnation=6)
    assert synced(bundle) < sync
    bundle.write("r2")
    assert synced(bundle) == sync


def test_with_one_copy_nobody_is_waited_for() -> None:
    bundle = PaperBundle("r1", "r2", copies=1)
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1")
    bundle.publish(1, 3)
    bundle.lazy.add("r2")
    assert acknowledge(bundle) == synced(bundle)


def test_fewer_are_enough_when_the_others_are_silent_for_long() -> None:
    bundle = steered("r1", "r2")
    bundle.kill("r2")
    sync = acknowledge(bundle)
    bundle.pass_time(8000)
    assert synced(bundle) < sync
    bundle.pass_time(4000)
    assert synced(bundle) == sync


def test_what_is_lost_on_the_way_is_asked_for_again() -> None:
    bundle = steered("r1", "r2", "r3")
    bundle.deaf |= {"r2", "r3"}
    sync = acknowledge(bundle)
    assert synced(bundle) < sync
    bundle.deaf.clear()
    bundle.pass_time(1000)
    assert synced(bundle) == sync


def test_others_confirm_the_progress_of_all_subscribers_in_one_letter() -> None:
    bundle = steered("r1", "r2")
    bundle.recover("subscriber", "audit", "r1")
    bundle.publish(4, 3)
    bundle.pass_time(1000)
    bundle.lazy.add("r2")
    first, last = bundle.ledgers["r1"].numbers()[0][0], bundle.ledgers["r1"].next - 1
    bundle.clear()
    for name in ("billing", "audit"):
        bundle.acknowledge(name, "r1", (first, last))
    while bundle.unwritten["r2"]:
        bundle.write("r2")
    said = [event for _, event in bundle.said if isinstance(event, GossipSync) and event.sender == "r2"]
    assert synced(bundle) == last
    assert len(said) <= 2


def test_one_that_begins_to_steer_asks_what_others_know() -> None:
    bundle = steered("r1", "r2", "r3")
    bundle.pass_time(1000)
    bundle.deaf.add("r3")
    sync = acknowledge(bundle)
    assert synced(bundle) == sync
    bundle.kill("r1")
    bundle.deaf.clear()
    bundle.clear()
    bundle.recover("subscriber", "billing", "r3", attempt=2, incarnation=6)
    bundle.pass_time(3000)
    assert bundle.told(RecoveryResponse, "billing")
    assert numbers(bundle) == set()


def test_one_that_cannot_hear_others_steers_all_the_same_and_promises_nothing() -> None:
    bundle = steered("r1", "r2", "r3")
    bundle.lazy |= {"r2", "r3"}
    sync = acknowledge(bundle)
    bundle.lazy.clear()
    for name in ("r2", "r3"):
        bundle.kill(name)
    bundle.clear()
    bundle.recover("subscriber", "billing", "r1", attempt=2, incarnation=6)
    bundle.pass_time(3000)
    assert [response.sync for response in bundle.told(RecoveryResponse, "billing")] == [0]
    bundle.publish(4, 1)
    assert synced(bundle) < sync
    bundle.pass_time(10_000)
    assert synced(bundle) >= sync
    assert numbers(bundle) == {4}


def registered_at_both() -> PaperBundle:
    """Events 1 to 3 are stored everywhere; r1 tells life 5 of them, and r2, which does not hear r1, life 6."""
    bundle = PaperBundle("r1", "r2", copies=1)
    bundle.recover("publisher", "shop", "r1")
    bundle.publish(1, 3)
    bundle.deaf.add("r2")
    bundle.pass_time(12_000)  # then each goes on without the other
    bundle.recover("subscriber", "billing", "r1", since="beginning")
    bundle.clear()
    come(bundle, "r2", 6)
    return bundle


def come(bundle: PaperBundle, to: str, life: int) -> None:
    """A life of the subscriber reaches a repository, whomever that cannot hear."""
    sender = publisher_id("", end_name("subscriber", "billing", TOPIC))
    recovery = Recovery(
        TOPIC,
        "billing",
        role="subscriber",
        attempt=life << 15,
        principal="",
        incarnation=life,
        since="beginning",
        asks=True,
    )
    bundle.step(to, LetterReceived(sender, [recovery]))


def marks(bundle: PaperBundle) -> dict[int, bool]:
    """The events that the subscriber was told of, and whether an earlier life of it may have been handed them."""
    return {
        run.first + row: run.sequence + row <= told.redelivered
        for told in bundle.told(Persistent, "billing")
        for run in told.stretches
        for row in range(run.count)
    }


@pytest.mark.req("RD-13")
def test_who_is_new_here_may_have_had_an_earlier_life_at_one_that_is_silent() -> None:
    assert marks(registered_at_both()) == dict.fromkeys((1, 2, 3), True)


@pytest.mark.req("RD-13")
def test_that_a_life_is_registered_as_the_first_does_not_say_that_it_is() -> None:
    """Of the two registrations that of r2 counts, which did not know of life 5."""
    bundle = registered_at_both()
    bundle.deaf.clear()
    bundle.pass_time(2000)
    assert bundle.repositories["r1"].registry.subscriptions["billing"].incarnation == 6
    bundle.kill("r2")
    bundle.clear()
    bundle.recover("subscriber", "billing", "r1", attempt=(6 << 15) + 1, incarnation=6, since="beginning")
    bundle.pass_time(3000)
    assert marks(bundle) == dict.fromkeys((1, 2, 3), True)


def test_the_first_life_of_a_subscriber_has_nothing_marked_when_its_repository_dies() -> None:
    bundle = steered("r1", "r2", "r3")
    assert marks(bundle) == dict.fromkeys((1, 2, 3), False)
    bundle.kill("r1")
    bundle.clear()
    bundle.recover("subscriber", "billing", "r2", attempt=2)
    bundle.pass_time(3000)
    assert marks(bundle) == dict.fromkeys((1, 2, 3), False), "it had no earlier life: r1 had asked all others"


def test_a_disk_that_is_full_does_not_keep_subscribers_away() -> None:
    bundle = steered("r1", "r2", "r3")
    bundle.full.add("r3")
    bundle.clear()
    bundle.recover("subscriber", "billing", "r2", attempt=2, incarnation=6)
    assert not bundle.told(RecoveryResponse, "billing")
    bundle.recover("subscriber", "billing", "r2", attempt=2, incarnation=6)
    assert bundle.told(ProbeAnswer, "billing"), "it is asked to wait"
    bundle.pass_time(3000)
    assert bundle.told(RecoveryResponse, "billing")
    assert numbers(bundle) == {1, 2, 3}
