"""One holder of a name: the newest life is served, whichever repository it asks, and older ones are told so."""

import msgspec
import pytest
from tests.paper.bundle import KEEPER, TOPIC, PaperBundle

from stentor.model.communication import Role, end_name, repository_name
from stentor.model.control import (
    Denial,
    GossipSync,
    Migrate,
    Recovery,
    RecoveryResponse,
    Registration,
    RegistrationReceipt,
    StreamRanges,
    SubscriberEnd,
    Sync,
    TopicTask,
)
from stentor.model.errors import Refusal
from stentor.model.ids import publisher_id
from stentor.protocols.delivery.transport import LetterReceived, LinkUp

NAMES: tuple[tuple[Role, str], ...] = (("subscriber", "billing"), ("publisher", "shop"))
each_role = pytest.mark.parametrize(("role", "name"), NAMES)


def attempt(life: int, number: int = 1) -> int:
    return (life << 15) + number


def come(bundle: PaperBundle, role: Role, name: str, to: str, life: int, number: int = 1) -> None:
    """A life of a client asks to be steered; its application has not asked for events."""
    bundle.recover(role, name, to, attempt=attempt(life, number), incarnation=life, asks=False)


def answers(bundle: PaperBundle) -> list[tuple[str, int, Refusal | None]]:
    """Who was told by whom that it is steered, or why not, since this was last asked."""
    told = [
        (event.sender, event.attempt, event.code if isinstance(event, Denial) else None)
        for _, event, _ in bundle.mail
        if isinstance(event, Denial | RecoveryResponse)
    ]
    bundle.clear()
    return told


# ---- fencing


@pytest.mark.req("RD-16", "RD-25")
@each_role
def test_an_older_life_is_refused_wherever_it_goes(role: Role, name: str) -> None:
    bundle = PaperBundle("r1", "r2")
    come(bundle, role, name, "r1", 5)
    assert answers(bundle) == [("r1", attempt(5), None)]
    come(bundle, role, name, "r1", 6)
    assert sorted(answers(bundle)) == [("r1", attempt(5), Refusal.FENCED), ("r1", attempt(6), None)]
    come(bundle, role, name, "r2", 5, 2)
    assert answers(bundle) == [("r2", attempt(5, 2), Refusal.FENCED)]


@each_role
def test_an_older_life_is_told_at_once_by_the_repository_that_steers_it(role: Role, name: str) -> None:
    bundle = PaperBundle("r1", "r2")
    come(bundle, role, name, "r1", 5)
    bundle.clear()
    come(bundle, role, name, "r2", 6)
    assert set(answers(bundle)) == {("r1", attempt(5), Refusal.FENCED), ("r2", attempt(6), None)}
    assert bundle.repositories["r1"].status(bundle.now)["steers"] == []


def test_an_older_subscriber_that_did_not_hear_it_is_told_again_when_it_asks() -> None:
    bundle = PaperBundle("r1", "r2")
    come(bundle, "subscriber", "billing", "r1", 5)
    come(bundle, "subscriber", "billing", "r2", 6)
    bundle.clear()
    bundle.miss("billing", "r1", attempt=attempt(5), after=0)
    assert answers(bundle) == [("r1", attempt(5), Refusal.FENCED)]


@each_role
def test_the_newest_life_survives_the_death_of_all_repositories(role: Role, name: str) -> None:
    bundle = PaperBundle("r1", "r2")
    come(bundle, role, name, "r1", 6)
    for each in ("r1", "r2"):
        bundle.kill(each)
    for each in ("r1", "r2"):
        bundle.start(each)
    bundle.pass_time(6000)
    bundle.clear()
    come(bundle, role, name, "r2", 5)
    assert answers(bundle) == [("r2", attempt(5), Refusal.FENCED)]


@each_role
def test_after_a_partition_the_newer_life_stays(role: Role, name: str) -> None:
    bundle = PaperBundle("r1", "r2", copies=1)
    come(bundle, role, name, "r1", 5)
    bundle.deaf = {"r2"}
    bundle.pass_time(15_000)
    bundle.clear()
    newer = Recovery(TOPIC, name, role=role, attempt=attempt(6), principal="", incarnation=6)
    bundle.step("r2", LetterReceived(publisher_id("", end_name(role, name, TOPIC)), [newer]))
    bundle.pass_time(3000)
    assert answers(bundle) == [("r2", attempt(6), None)]
    bundle.deaf = set()
    bundle.pass_time(3000)
    assert ("r1", attempt(5), Refusal.FENCED) in answers(bundle)
    assert [bundle.repositories[each].status(bundle.now)["steers"] for each in ("r1", "r2")] == [[], [name]]


@each_role
def test_of_one_life_an_older_attempt_counts_no_more(role: Role, name: str) -> None:
    """A letter that was late, or two lives that began at once: one of them only is served."""
    bundle = PaperBundle("r1")
    come(bundle, role, name, "r1", 5, 2)
    assert answers(bundle) == [("r1", attempt(5, 2), None)]
    come(bundle, role, name, "r1", 5, 1)
    assert answers(bundle) == [("r1", attempt(5, 1), Refusal.FENCED)]


@each_role
def test_a_life_is_known_to_all_before_it_is_served(role: Role, name: str) -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.lazy = {"r2"}
    come(bundle, role, name, "r1", 6)
    assert answers(bundle) == [], "r2 has not written it down"
    bundle.write("r2")
    bundle.pass_time(100)
    bundle.write("r2")
    assert answers(bundle) == [("r1", attempt(6), None)]


def test_a_publisher_is_told_of_nothing_that_is_still_being_written() -> None:
    bundle = PaperBundle("r1")
    bundle.lazy = {"r1"}
    come(bundle, "publisher", "shop", "r1", 5)
    bundle.publish(1, 3)
    bundle._write("r1", bundle.unwritten["r1"].pop(0))
    assert [response.last for response in bundle.told(RecoveryResponse)] == [0]


def test_a_member_whose_disk_is_full_keeps_nobody_from_beginning_a_life() -> None:
    bundle = PaperBundle("r1", "r2", "r3", copies=2)
    bundle.full = {"r3"}
    come(bundle, "publisher", "shop", "r1", 5)
    bundle.pass_time(1000)
    assert ("r1", attempt(5), None) in answers(bundle)


def test_a_life_that_is_refused_for_another_reason_does_not_take_the_name() -> None:
    bundle = PaperBundle("r1", "r2")
    come(bundle, "subscriber", "billing", "r1", 5)
    come(bundle, "publisher", "shop", "r1", 5)
    answers(bundle)
    bundle.recover("subscriber", "billing", "r1", attempt=attempt(6), incarnation=6, where="price >")
    bundle.recover("publisher", "shop", "r1", attempt=attempt(6), incarnation=4)  # a stream that was outlived
    assert answers(bundle) == [("r1", attempt(6), Refusal.FILTER), ("r1", attempt(6), Refusal.FENCED)]
    one, other = (each.registry for each in bundle.repositories.values())
    assert [one.life_of(role, name) for role, name in NAMES] == [5, 5]
    assert one.digest == other.digest


@pytest.mark.req("RD-25")
def test_what_a_fenced_subscriber_acknowledges_does_not_count() -> None:
    bundle = PaperBundle("r1", "r2", "r3")
    bundle.recover("publisher", "shop", "r1")
    come(bundle, "subscriber", "billing", "r1", 5)
    bundle.publish(1, 3)
    come(bundle, "subscriber", "billing", "r2", 6)
    first = bundle.repositories["r1"].log.horizon - 2
    bundle.acknowledge("billing", "r1", (first, first + 2), incarnation=5)
    for repository in bundle.repositories.values():
        assert not any(repository.table.destinations["billing"].done.values())
    bundle.acknowledge("billing", "r1", (first, first + 2), incarnation=6)
    done = bundle.repositories["r3"].table.destinations["billing"].done
    assert [list(spans) for spans in done.values()] == [[(1, 3)]], "that of the newer one does, wherever it was told"


# ---- a subscriber that comes back without its state


def keeps(life: int) -> Recovery:
    return Recovery(
        TOPIC, "billing", role="subscriber", attempt=attempt(life), principal="", incarnation=life, keeps=True
    )


def keep(bundle: PaperBundle, life: int) -> RecoveryResponse:
    bundle.say("subscriber", "billing", keeps(life), "r1")
    return bundle.told(RecoveryResponse)[-1]


@pytest.mark.req("RD-13")
def test_who_names_no_filter_gets_back_the_one_that_it_had() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.recover("subscriber", "billing", "r1", attempt=attempt(5), where="price  >  2")
    assert bundle.told(RecoveryResponse)[-1].where == "price > 2"
    assert keep(bundle, 6).where == "price > 2"
    bundle.recover("subscriber", "billing", "r1", attempt=attempt(7), incarnation=7, where="")
    assert keep(bundle, 8).where == "", "everything was asked for since"


def test_a_new_name_without_a_filter_gets_everything() -> None:
    assert keep(PaperBundle("r1"), 5).where == ""


def test_who_names_no_filter_waits_for_repositories_that_may_know_it() -> None:
    """r1 registers it while r2 cannot be heard; its next life finds r2 alone."""
    bundle = PaperBundle("r1", "r2", copies=1)
    bundle.deaf = {"r2"}
    bundle.pass_time(12_000)  # then r1 goes on without r2
    bundle.recover("subscriber", "billing", "r1", attempt=attempt(5), where="price > 2")
    assert answers(bundle) == [("r1", attempt(5), None)]
    bundle.step("r2", LinkUp(KEEPER))  # it can be heard, but not by r1
    keeping = LetterReceived(publisher_id("", end_name("subscriber", "billing", TOPIC)), [keeps(6)])
    bundle.step("r2", keeping)
    assert answers(bundle) == [("r2", attempt(6), Refusal.BUSY)]
    assert bundle.repositories["r2"].registry.life_of("subscriber", "billing") == 0, "it may go elsewhere"
    bundle.deaf.clear()
    bundle.pass_time(1000)
    bundle.step("r2", keeping)
    bundle.pass_time(1000)
    assert [response.where for response in bundle.told(RecoveryResponse)] == ["price > 2"]


def test_a_new_name_without_a_filter_does_not_wait_for_ever_for_one_that_is_dead() -> None:
    bundle = PaperBundle("r1", "r2", copies=1)
    bundle.kill("r2")
    bundle.pass_time(12_000)
    bundle.say("subscriber", "billing", keeps(5), "r1")
    assert answers(bundle) == [("r1", attempt(5), Refusal.BUSY)]
    bundle.recover("subscriber", "audit", "r1", attempt=attempt(5))
    assert answers(bundle) == [("r1", attempt(5), None)], "who names one need not wait"
    bundle.pass_time(20_000)
    assert keep(bundle, 5).where == ""


# ---- unsubscribing


def unsubscribe(bundle: PaperBundle, to: str, life: int) -> None:
    end = SubscriberEnd(TOPIC, "billing", attempt=attempt(life), incarnation=life, given=(), unsubscribes=True)
    bundle.say("subscriber", "billing", end, to)


@pytest.mark.req("RD-32")
def test_a_subscriber_ends_its_own_subscription_in_the_whole_bundle() -> None:
    bundle = PaperBundle("r1", "r2")
    come(bundle, "subscriber", "billing", "r1", 5)
    bundle.clear()
    unsubscribe(bundle, "r1", 5)
    assert [(sync.attempt, sync.ended) for sync in bundle.told(Sync)] == [(attempt(5), True)]
    for repository in bundle.repositories.values():
        assert not repository.table.destinations
        assert repository.registry.granted("subscriber", "billing") is not None
    assert not any(key.startswith("local/progress/") for ledger in bundle.ledgers.values() for key in ledger.facts)
    unsubscribe(bundle, "r1", 5)
    assert len(bundle.told(Sync)) == 2, "the answer may have been lost"


@pytest.mark.parametrize("repository", ["r1", "r2"])
def test_what_a_life_said_before_it_unsubscribed_does_not_subscribe_it_again(repository: str) -> None:
    bundle = PaperBundle("r1", "r2")
    come(bundle, "subscriber", "billing", "r1", 5)
    unsubscribe(bundle, "r1", 5)
    bundle.clear()
    come(bundle, "subscriber", "billing", repository, 5)
    bundle.miss("billing", repository, attempt=attempt(5), after=0)
    bundle.pass_time(1000)
    assert answers(bundle) == [(repository, attempt(5), None)], "it may not have heard that it has, and says so again"
    assert not any(each.table.destinations for each in bundle.repositories.values())
    unsubscribe(bundle, repository, 5)
    assert [sync.ended for sync in bundle.told(Sync)] == [True]
    come(bundle, "subscriber", "billing", repository, 6)
    assert answers(bundle) == [(repository, attempt(6), None)]
    assert all("billing" in each.table.destinations for each in bundle.repositories.values()), "the next life may"


@pytest.mark.parametrize("node", ["", "b2"])  # at another broker it is registered anew, after it has left
def test_a_subscriber_that_leaves_is_not_fenced_by_another_repository_that_hears_of_it(node: str) -> None:
    bundle = PaperBundle("r1", "r2", copies=1)
    come(bundle, "subscriber", "billing", "r1", 5)
    bundle.deaf.add("r1")
    bundle.pass_time(20_000)  # then r2 goes on without r1
    bundle.clear()
    bundle.deaf.clear()
    bundle.deaf.add("r2")
    unsubscribe(bundle, "r1", 5)
    bundle.deaf.clear()
    bundle.deaf.add("r1")
    again = attempt(5, 2)  # it has not heard the answer
    bundle.recover("subscriber", "billing", "r2", attempt=again, node=node, asks=False)
    assert answers(bundle) == [("r2", again, None)]
    bundle.deaf.clear()
    bundle.pass_time(3000)
    assert answers(bundle) == []
    bundle.say(
        "subscriber",
        "billing",
        SubscriberEnd(TOPIC, "billing", attempt=again, incarnation=5, given=(), unsubscribes=True),
        "r2",
    )
    assert [(sync.attempt, sync.ended) for sync in bundle.told(Sync)] == [(again, True)]
    assert not any(each.table.destinations for each in bundle.repositories.values())


def test_a_fenced_subscriber_cannot_end_the_subscription_of_the_newer_one() -> None:
    bundle = PaperBundle("r1", "r2")
    come(bundle, "subscriber", "billing", "r1", 5)
    come(bundle, "subscriber", "billing", "r2", 6)
    bundle.clear()
    unsubscribe(bundle, "r1", 5)
    assert answers(bundle) == [("r1", attempt(5), Refusal.FENCED)]
    assert "billing" in bundle.repositories["r1"].table.destinations


@pytest.mark.req("RD-32")
def test_a_subscription_is_ended_for_whoever_holds_it_and_that_life_cannot_come_back() -> None:
    bundle = PaperBundle("r1", "r2")
    come(bundle, "subscriber", "billing", "r2", 5)
    bundle.clear()
    bundle.owner("r1", TopicTask.LEAVE, name="billing", principal="eve")
    assert [receipt.code for receipt in bundle.told(RegistrationReceipt)] == [Refusal.NOT_AUTHORISED]
    assert answers(bundle) == []
    bundle.owner("r1", TopicTask.LEAVE, name="billing")
    assert [receipt.code for receipt in bundle.told(RegistrationReceipt)] == [None]
    assert ["has left orders" in denial.reason for denial in bundle.told(Denial)] == [True]
    assert answers(bundle) == [("r2", attempt(5), Refusal.FENCED)]
    come(bundle, "subscriber", "billing", "r1", 5, number=2)
    assert answers(bundle) == [("r1", attempt(5, 2), Refusal.FENCED)]
    assert not any(repository.table.destinations for repository in bundle.repositories.values())
    come(bundle, "subscriber", "billing", "r1", 7)
    assert answers(bundle) == [("r1", attempt(7), None)]


def test_whoever_subscribes_again_begins_anew_also_at_one_that_missed_it() -> None:
    bundle = PaperBundle("r1", "r2", copies=1)
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1", attempt=attempt(5), since="beginning")
    bundle.publish(1, 3)
    first = bundle.repositories["r1"].log.horizon - 2
    bundle.acknowledge("billing", "r1", (first, first + 2))
    bundle.pass_time(1000)
    assert bundle.repositories["r2"].table.destinations["billing"].upto(_shop()) == 3
    bundle.deaf = {"r2"}
    bundle.pass_time(15_000)
    unsubscribe(bundle, "r1", 5)
    bundle.recover("subscriber", "billing", "r1", attempt=attempt(6), incarnation=6, since="beginning")
    stale = GossipSync(TOPIC, "r2", syncs={"billing": (StreamRanges(*_shop(), 3, ()),)}, whole=True)
    bundle.step("r1", LetterReceived(publisher_id("keeper", repository_name("r2")), [stale]))
    bundle.deaf = set()
    bundle.pass_time(3000)
    for repository in bundle.repositories.values():
        assert repository.table.destinations["billing"].upto(_shop()) == 0, "all of it comes again"


def test_whoever_leaves_here_and_subscribes_again_there_begins_anew_when_both_hear_of_it() -> None:
    bundle = PaperBundle("r1", "r2", copies=1)
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1", attempt=attempt(5), since="beginning")
    bundle.publish(1, 3)
    first = bundle.repositories["r1"].log.horizon - 2
    bundle.acknowledge("billing", "r1", (first, first + 2))
    bundle.pass_time(1000)
    bundle.deaf = {"r2"}  # neither hears the other
    bundle.pass_time(15_000)
    unsubscribe(bundle, "r1", 5)
    bundle.clear()
    bundle.deaf = {"r1"}
    bundle.recover("subscriber", "billing", "r2", attempt=attempt(6), incarnation=6, since="beginning", node="b2")
    bundle.pass_time(3000)
    assert answers(bundle) == [("r2", attempt(6), None)], "r2 takes it for the subscriber that has left"
    bundle.deaf = set()
    bundle.pass_time(3000)
    assert bundle.told(Migrate), "r2 has it ask again"
    bundle.recover("subscriber", "billing", "r2", attempt=attempt(6, 2), incarnation=6, since="beginning", node="b2")
    bundle.pass_time(3000)
    for repository in bundle.repositories.values():
        assert repository.registry.subscriptions["billing"].incarnation == 6
        assert repository.table.destinations["billing"].upto(_shop()) == 0, "all of it comes again"


def _shop() -> tuple[int, int]:
    return publisher_id("", end_name("publisher", "shop", TOPIC)), 5


# ---- moved by hand


def steer(bundle: PaperBundle, to: str, role: Role, name: str, repository: str, owner: str = "owner") -> Refusal | None:
    event = Registration(
        TOPIC,
        owner,
        token=7,
        task=TopicTask.STEER,
        principal="" if owner == "owner" else owner,
        repositories=(repository,),
        role=role,
        name=name,
    )
    bundle.clear()
    bundle.step(to, LetterReceived(publisher_id(event.principal, owner), [event], requester=owner))
    return bundle.told(RegistrationReceipt)[-1].code


@each_role
def test_the_owner_moves_a_client_to_another_repository(role: Role, name: str) -> None:
    bundle = PaperBundle("r1", "r2")
    come(bundle, role, name, "r1", 5)
    assert steer(bundle, "r1", role, name, "r2") is None
    assert bundle.told(Migrate) == [Migrate(TOPIC, "r1", "r2")]
    come(bundle, role, name, "r2", 5, 2)
    assert bundle.repositories["r1"].status(bundle.now)["steers"] == []
    assert bundle.repositories["r2"].status(bundle.now)["steers"] == [name]


def test_nobody_is_moved_where_nobody_can_serve_it_or_by_a_stranger() -> None:
    bundle = PaperBundle("r1", "r2")
    come(bundle, "subscriber", "billing", "r1", 5)
    assert steer(bundle, "r2", "subscriber", "billing", "r1") is Refusal.UNKNOWN, "r2 does not steer it"
    assert steer(bundle, "r1", "subscriber", "billing", "r9") is Refusal.UNKNOWN
    assert steer(bundle, "r1", "subscriber", "billing", "r2", owner="mallory") is Refusal.NOT_AUTHORISED
    bundle.kill("r2")
    bundle.pass_time(5000)
    assert steer(bundle, "r1", "subscriber", "billing", "r2") is Refusal.BUSY
    assert bundle.told(Migrate) == []


def test_a_life_that_never_held_a_name_is_no_fact() -> None:
    """Facts that members tell are checked like all that is told."""
    registry = PaperBundle("r1").repositories["r1"].registry
    nobody, sound = msgspec.msgpack.encode([7]), msgspec.msgpack.encode(["b1"])
    for key, value in (("life/owner/x", sound), ("life/subscriber/", sound), ("life/subscriber/x", nobody)):
        assert registry.merge(((key, 5, "r2", value),)) == []
    assert registry.merge((("life/subscriber/x", 5, "r2", sound),))
    assert (registry.life_of("subscriber", "x"), registry.place_of("subscriber", "x")) == (5, "b1")
