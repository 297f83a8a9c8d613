"""A subscription ends when its subscriber leaves, or with its grant, wherever it was registered in that moment."""

import pytest
from tests.paper.bundle import TOPIC, PaperBundle

from stentor.model.communication import end_name
from stentor.model.control import RecoveryResponse, SubscriberEnd, TopicTask
from stentor.model.ids import publisher_id
from stentor.protocols.delivery.transport import LetterReceived

pytestmark = pytest.mark.req("RD-01")


def attempt(number: int, life: int = 5) -> int:
    return (life << 15) + number


def revoked_elsewhere(*names: str) -> PaperBundle:
    """The grant of billing is taken back at r2, while r1, which does not hear of that, registers it."""
    bundle = PaperBundle(*names, copies=1)
    bundle.recover("publisher", "shop", "r1")
    bundle.deaf.add("r2")
    bundle.pass_time(20_000)  # then r1 goes on without r2
    bundle.owner("r2", TopicTask.REVOKE, role="subscriber", name="billing")
    bundle.recover("subscriber", "billing", "r1")
    assert bundle.told(RecoveryResponse, "billing")
    return bundle


def keepers(bundle: PaperBundle) -> list[str]:
    """Return the repositories that keep something for billing."""
    return [name for name, each in bundle.repositories.items() if "billing" in each.table.destinations]


def test_nothing_is_kept_for_a_subscriber_that_was_registered_after_its_grant_was_taken_back() -> None:
    bundle = revoked_elsewhere("r1", "r2")
    bundle.deaf.clear()
    bundle.pass_time(3000)
    assert keepers(bundle) == []
    assert [each.registry.subscriptions.keys() & {"billing"} for each in bundle.repositories.values()] == [set(), set()]


def test_a_subscription_without_a_grant_stays_while_a_member_is_away_that_may_know_of_a_newer_grant() -> None:
    bundle = revoked_elsewhere("r1", "r2", "r3")
    bundle.kill("r3")
    bundle.deaf.clear()
    bundle.pass_time(20_000)
    assert keepers(bundle) == ["r1", "r2"]
    bundle.start("r3")
    bundle.pass_time(3000)
    assert keepers(bundle) == []


def test_a_subscription_stays_if_its_grant_is_given_again() -> None:
    bundle = revoked_elsewhere("r1", "r2")
    bundle.owner("r2", TopicTask.GRANT, role="subscriber", name="billing")
    bundle.deaf.clear()
    bundle.pass_time(3000)
    assert keepers(bundle) == ["r1", "r2"]


@pytest.mark.req("RD-32")
def test_nothing_is_kept_for_a_subscriber_that_was_registered_once_more_when_it_had_left() -> None:
    bundle = PaperBundle("r1", "r2", copies=1)
    bundle.recover("subscriber", "billing", "r1", attempt=attempt(1))
    bundle.deaf.add("r1")
    bundle.pass_time(20_000)  # then r2 goes on without r1
    end = SubscriberEnd(TOPIC, "billing", attempt(1), 5, (), unsubscribes=True)
    bundle.step("r1", LetterReceived(publisher_id("", end_name("subscriber", "billing", TOPIC)), [end]))
    bundle.recover("subscriber", "billing", "r2", attempt=attempt(2), node="b2")  # it was under way
    bundle.deaf.clear()
    bundle.pass_time(3000)
    assert keepers(bundle) == []
    bundle.recover("subscriber", "billing", "r2", attempt=attempt(1, life=6), incarnation=6)
    bundle.pass_time(3000)
    assert keepers(bundle) == ["r1", "r2"], "the next life may"
