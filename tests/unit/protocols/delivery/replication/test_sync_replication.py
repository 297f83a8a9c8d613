"""A sync is told when enough repositories have it; one that begins to steer asks what others know."""

import pytest
from tests.paper.bundle import TOPIC, PaperBundle

from stentor.model.control import GossipSync, Persistent, ProbeAnswer, RecoveryResponse, SubscriberEnd, Sync


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
