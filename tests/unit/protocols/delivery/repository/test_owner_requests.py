"""What owners are told by a repository that may not have heard all that is registered."""

from typing import Any

import pytest
from tests.paper.bundle import KEEPER, TOPIC, PaperBundle

from stentor.model.communication import repository_name
from stentor.model.control import GossipState, RegistrationReceipt, TopicTask
from stentor.model.errors import Refusal
from stentor.model.ids import publisher_id
from stentor.protocols.delivery.transport import LetterReceived

pytestmark = pytest.mark.req("RD-01")

REMOVE: dict[str, Any] = {"task": TopicTask.REMOVE_REPOSITORY, "repositories": ("r4",)}
REVOKE: dict[str, Any] = {"task": TopicTask.REVOKE, "role": "subscriber", "name": "late"}
LEAVE: dict[str, Any] = {"task": TopicTask.LEAVE, "name": "late"}
CREATE: dict[str, Any] = {"task": TopicTask.CREATE, "repositories": ("r1", "r2", "r3", "r4")}


def ask(bundle: PaperBundle, repository: str, **what: Any) -> Refusal | None:
    """Return how a repository refuses what its owner wants; None if it does it."""
    bundle.clear()
    bundle.owner(repository, **what)
    (receipt,) = bundle.told(RegistrationReceipt, "owner")
    return receipt.code


def returned() -> PaperBundle:
    """Three repositories, of which the first was away while a fourth was added and a subscriber came. It has begun
    again, and has not heard the others yet.
    """
    bundle = PaperBundle("r1", "r2", "r3")
    bundle.kill("r1")
    bundle.pass_time(3000)
    bundle.add("r4")
    bundle.owner("r2", TopicTask.ADD_REPOSITORY, repositories=("r4",))
    bundle.owner("r2", TopicTask.GRANT, role="subscriber", name="late")
    bundle.recover("subscriber", "late", "r2")
    bundle.pass_time(3000)
    bundle.deaf.add("r1")
    bundle.start("r1")
    return bundle


@pytest.mark.parametrize("what", [REMOVE, REVOKE, LEAVE, CREATE], ids=lambda what: what["task"].value)
def test_one_that_has_not_heard_the_others_refuses_nothing_for_good(what: dict[str, Any]) -> None:
    bundle = returned()
    assert ask(bundle, "r1", **what) is Refusal.BUSY, "it was done, or registered, while r1 was away"
    bundle.deaf.clear()
    bundle.pass_time(1000)
    assert ask(bundle, "r1", **what) is None


def test_one_that_waits_for_nobody_any_more_refuses_for_good() -> None:
    bundle = returned()
    bundle.pass_time(31_000)
    assert ask(bundle, "r1", **REMOVE) is Refusal.UNKNOWN


def test_one_that_has_heard_the_others_refuses_for_good() -> None:
    bundle = PaperBundle("r1", "r2", "r3")
    assert ask(bundle, "r1", **REMOVE) is Refusal.UNKNOWN
    bundle.kill("r3")
    bundle.pass_time(6000)
    assert ask(bundle, "r1", **REMOVE) is Refusal.BUSY, "r3 may be cut off, and go on without r1"
    bundle.pass_time(25_000)
    assert ask(bundle, "r1", **REMOVE) is Refusal.UNKNOWN, "nobody waits for r3"


def test_one_that_hears_of_registrations_that_it_lacks_refuses_nothing_for_good() -> None:
    bundle = PaperBundle("r1", "r2")
    state = GossipState(TOPIC, "r2", ready=True, held=(), facts=1)
    bundle.step("r1", LetterReceived(publisher_id(KEEPER, repository_name("r2")), [state]))
    assert ask(bundle, "r1", **REMOVE) is Refusal.BUSY
    bundle.pass_time(1000)
    assert ask(bundle, "r1", **REMOVE) is Refusal.UNKNOWN


def test_one_that_others_lag_behind_refuses_for_good() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.lazy.add("r2")
    bundle.owner("r1", TopicTask.GRANT, role="subscriber", name="late")
    bundle.pass_time(1000)
    peer = bundle.repositories["r1"].gossip.bundle.peers["r2"]
    assert peer.facts != bundle.repositories["r1"].registry.digest
    assert ask(bundle, "r1", **REMOVE) is Refusal.UNKNOWN
