"""A repository forgets nothing while a member is away: that one may have registered a subscriber who has not got it."""

import pytest
from tests.paper.bundle import KEEPER, TOPIC, PaperBundle

from stentor.model.communication import repository_name
from stentor.model.control import GossipState, Migrate, Persistent, RecoveryResponse, SubscriberEnd, TopicTask
from stentor.model.ids import publisher_id
from stentor.model.stored.reading import StockRequest
from stentor.protocols.delivery.transport import LetterReceived

pytestmark = pytest.mark.req("GE-15")

DEGRADE = 11_000  # milliseconds, after which a repository goes on without those that are silent
LOOK = 6_000  # milliseconds, within which a repository looks at what may be forgotten


def apart(expire: int = 0) -> PaperBundle:
    """Two repositories that cannot hear each other: r2 has registered billing, and r1 has events that it wants."""
    bundle = PaperBundle("r1", "r2", keep=1, expire=expire)
    bundle.recover("publisher", "shop", "r1")
    bundle.deaf = {"r1"}  # nothing goes from one to the other; r2 hears its clients
    bundle.pass_time(DEGRADE)
    bundle.recover("subscriber", "billing", "r2")
    bundle.pass_time(3000)
    assert bundle.told(RecoveryResponse, "billing"), "it is told that it is registered"
    bundle.deaf = {"r2"}
    bundle.publish(1, 5, "r1")
    bundle.pass_time(2 * LOOK)
    return bundle


def kept(bundle: PaperBundle, name: str) -> int:
    return bundle.repositories[name].log.streams.event_count


def test_events_are_kept_for_whom_a_member_that_is_away_may_have_registered() -> None:
    bundle = apart()
    assert kept(bundle, "r1") == 5
    bundle.deaf.clear()
    bundle.pass_time(2 * LOOK)
    assert sum(run.count for each in bundle.told(Persistent, "billing") for run in each.stretches) == 5
    assert (kept(bundle, "r1"), kept(bundle, "r2")) == (5, 5)
    bundle.acknowledge("billing", "r2", (1, bundle.repositories["r2"].log.horizon))
    bundle.pass_time(2 * LOOK)
    assert (kept(bundle, "r1"), kept(bundle, "r2")) == (0, 0)


def test_a_member_that_was_removed_is_not_waited_for() -> None:
    bundle = apart()
    bundle.owner("r1", TopicTask.REMOVE_REPOSITORY, repositories=("r2",))
    bundle.pass_time(2 * LOOK)
    assert kept(bundle, "r1") == 0


def test_events_expire_while_a_member_is_away() -> None:
    bundle = apart(expire=60)
    assert kept(bundle, "r1") == 5
    bundle.pass_time(60_000, 250)
    assert kept(bundle, "r1") == 0


def test_what_others_have_forgotten_and_counts_as_forgotten_here_goes_whoever_is_away() -> None:
    bundle = PaperBundle("r1", "r2", "r3", keep=1)
    bundle.recover("publisher", "shop", "r1")
    bundle.unreadable = {"r2"}  # so it cannot look at its records while the others do
    bundle.publish(1, 5)
    bundle.pass_time(2 * LOOK)
    log = bundle.repositories["r2"].log
    assert [kept(bundle, name) for name in bundle.repositories] == [0, 0, 0]
    assert log.first < log.next, "it still has the records"
    bundle.kill("r3")
    bundle.pass_time(3000)
    bundle.unreadable.clear()
    bundle.pass_time(2 * LOOK)
    assert log.first == log.next


def test_events_are_kept_for_a_reader_at_rest_where_it_reads() -> None:
    """It asks those that store everything, wherever it is: that a storage for a unit has them does not help it."""
    bundle = PaperBundle("r1", "north1", units={"north1": "north"}, copies=1, keep=1)
    request = StockRequest(TOPIC, "reader", 1, "audit", "", enrol=True, node="north/b1")
    bundle.step("r1", LetterReceived(publisher_id("", "reader"), [request], requester="reader"))
    bundle.recover("publisher", "shop", "r1")
    bundle.publish(1, 5)
    bundle.pass_time(3 * LOOK)
    assert kept(bundle, "r1") == 5


def test_who_lacks_what_is_forgotten_since_a_finer_storage_keeps_it_is_steered_here_no_longer() -> None:
    """It would be told of what comes after that."""
    bundle = PaperBundle("r1", "north1", units={"north1": "north"}, copies=1, keep=1)
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1", node="north/b1")
    bundle.publish(1, 5)
    assert "billing" in bundle.repositories["r1"].feeds.cursors
    bundle.pass_time(3 * LOOK)
    assert kept(bundle, "r1") == 0, "the storage of its unit keeps them for it"
    assert "billing" not in bundle.repositories["r1"].feeds.cursors
    assert bundle.told(Migrate, "billing")


def subscribe_again() -> tuple[PaperBundle, GossipState]:
    """A storage keeps for billing what that wants. Billing leaves, and subscribes again to all that there is. Return
    what the storage said before that, too.
    """
    bundle = PaperBundle("r1", "north1", units={"north1": "north"}, copies=1, keep=1)
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1", where="price = 0", node="north/b1")
    bundle.publish(1, 5)
    bundle.pass_time(5000)
    said = [event for _, event in bundle.said if isinstance(event, GossipState) and "billing" in event.cares]
    assert [held.spans for held in said[-1].held] == [((5, 5),)], "billing does not want the others"
    bundle.say(
        "subscriber", "billing", SubscriberEnd(TOPIC, "billing", attempt=1, incarnation=5, unsubscribes=True), "r1"
    )
    bundle.recover("subscriber", "billing", "r1", attempt=2, incarnation=6, since="beginning", node="north/b1")
    return bundle, said[-1]


def test_what_a_finer_storage_keeps_for_a_former_registration_it_does_not_keep_for_the_next_one() -> None:
    bundle, _ = subscribe_again()
    bundle.pass_time(3 * LOOK)
    assert kept(bundle, "r1") == 5
    assert "billing" in bundle.repositories["r1"].feeds.cursors


def test_a_finer_storage_that_has_not_heard_of_a_registration_keeps_nothing_for_it() -> None:
    bundle, late = subscribe_again()
    bundle.step("r1", LetterReceived(publisher_id(KEEPER, repository_name("north1")), [late]))
    bundle.pass_time(3 * LOOK)
    assert kept(bundle, "r1") == 5
    assert "billing" in bundle.repositories["r1"].feeds.cursors
