"""A topic that was deleted and one of the same name that was created since are two, wherever they meet."""

import msgspec
import pytest
from tests.paper.bundle import KEEPER, TOPIC, PaperBundle, block

from stentor.machine import Discard, TimerFired
from stentor.model.communication import repository_name
from stentor.model.control import (
    Denial,
    GossipAck,
    GossipFacts,
    GossipState,
    GossipSteering,
    ProbeAnswer,
    PublisherOrder,
    Recovery,
    RecoveryResponse,
    RepositoryNak,
    Retransmission,
    SequenceRun,
)
from stentor.model.errors import Refusal
from stentor.model.ids import Incarnation, publisher_id
from stentor.model.trust.access import GRANT, MEMBER, Grant, Membership, SharedFact, TopicTerms
from stentor.model.trust.access import TOPIC as TERMS
from stentor.protocols.delivery.endpoint_api import TurnEnded
from stentor.protocols.delivery.publisher.publisher import ReliablePublisher
from stentor.protocols.delivery.repository.registry import LIFE, Registry
from stentor.protocols.delivery.repository.registry_records import Holding
from stentor.protocols.delivery.repository.repository import TopicTick
from stentor.protocols.delivery.transport import LetterReceived, LinkUp, SendLetter, Vouched

pytestmark = pytest.mark.req("RD-01", "GE-15")

BORN, ENDED, REBORN = 100, 150, 200


def facts_of(version: int, after: int = 0) -> tuple[SharedFact, ...]:
    """A topic on r1 and r2 that was created at a version, after another one was deleted."""
    pack = msgspec.msgpack.encode
    members = [(f"{MEMBER}{name}", version, "", pack(Membership(principal=KEEPER))) for name in ("r1", "r2")]
    return (*members, (TERMS, version, "", pack(TopicTerms("", copies=1, after=after))))


def registry_of(version: int, after: int = 0) -> Registry:
    registry = Registry("r1")
    registry.merge(facts_of(version, after))
    return registry


def grant(version: int, name: str = "shop") -> SharedFact:
    return f"{GRANT}publisher/{name}", version, "r2", msgspec.msgpack.encode(Grant())


def life(number: int) -> SharedFact:
    return f"{LIFE}publisher/shop", number, "r2", msgspec.msgpack.encode(Holding("b1"))


# ---- what is registered


def test_what_is_not_newer_than_the_end_of_a_former_topic_is_not_registered() -> None:
    registry = registry_of(REBORN, ENDED)
    assert registry.merge((grant(ENDED, "former"), grant(REBORN + 1))) != []
    assert list(registry.grants("publisher")) == ["shop"]


def test_one_topic_that_was_created_twice_keeps_what_was_registered_between() -> None:
    registry = registry_of(BORN)
    registry.merge((grant(BORN + 1),))
    registry.merge(facts_of(REBORN))
    assert not registry.is_ended(0)
    assert list(registry.grants("publisher")) == ["shop"]


def test_a_deleted_topic_does_not_become_another_one() -> None:
    registry = registry_of(BORN)
    registry.end(ENDED)
    assert registry.merge(facts_of(REBORN, ENDED)) == []
    assert registry.deleted


# ---- a repository that was away


def sleeper() -> PaperBundle:
    """A repository r1 of a topic that was deleted while it was away; r2 has another topic of the same name."""
    bundle = PaperBundle("r1", create=False)
    bundle.step("r1", LetterReceived(member_id("r2"), [GossipFacts(TOPIC, "r2", facts_of(BORN))]))
    bundle.pass_time(40_000)
    assert bundle.repositories["r1"].gossip.ready
    return bundle


def member_id(name: str) -> int:
    return publisher_id(KEEPER, repository_name(name))


def is_discarded(bundle: PaperBundle) -> bool:
    effects = bundle.repositories["r1"].step(bundle.now, TimerFired(TopicTick(TOPIC)))
    return any(isinstance(effect, Discard) for effect in effects)


@pytest.mark.parametrize(
    "news",
    [
        GossipState(TOPIC, "r2", ready=True, held=(), facts=1, version=REBORN, after=ENDED),
        GossipFacts(TOPIC, "r2", facts_of(REBORN, ENDED)),
    ],
)
def test_a_member_of_the_new_topic_ends_the_old_one(news: GossipState | GossipFacts) -> None:
    bundle = sleeper()
    bundle.step("r1", LetterReceived(member_id("r2"), [news]))
    assert bundle.repositories["r1"].registry.deleted
    assert is_discarded(bundle)


def test_a_broker_that_knows_of_the_end_of_a_topic_ends_it() -> None:
    bundle = sleeper()
    bundle.step("r1", Vouched(TOPIC, {}, BORN - 1))
    assert bundle.repositories["r1"].registry.created
    bundle.step("r1", Vouched(TOPIC, {}, ENDED))
    assert is_discarded(bundle)
    assert [report.what for report in bundle.reports if report.level == "warning"] == [
        "this topic was deleted while we were away: its events are discarded"
    ]


def test_a_client_that_means_the_new_topic_is_not_steered_in_the_old_one() -> None:
    bundle = sleeper()
    bundle.step("r1", LetterReceived(member_id("r2"), [GossipFacts(TOPIC, "r2", (grant(BORN + 1),))]))
    bundle.pass_time(40_000)
    recovery = Recovery(TOPIC, "shop", "publisher", 1, "", 5)
    bundle.say("publisher", "shop", msgspec.structs.replace(recovery, ended=ENDED), "r1")
    (denial,) = bundle.told(Denial)
    assert (denial.code, denial.reason) == (Refusal.BUSY, "r1 has an earlier orders, which was deleted")
    bundle.say("publisher", "shop", msgspec.structs.replace(recovery, ended=BORN - 1), "r1")
    assert len(bundle.told(RecoveryResponse)) == 1


# ---- a repository of the new topic


def test_nothing_counts_that_a_repository_of_the_old_topic_says() -> None:
    bundle = PaperBundle("r1", create=False)
    bundle.step("r1", LetterReceived(member_id("r2"), [GossipFacts(TOPIC, "r2", facts_of(REBORN, ENDED))]))
    bundle.clear()
    stored = GossipAck(TOPIC, "r2", (SequenceRun(1, 3, 9, 5, 1),), (7,))
    steered = GossipSteering(TOPIC, "r2", "subscriber", "billing", 1, 1)
    state = GossipState(TOPIC, "r2", ready=True, held=(), facts=1, version=BORN)
    for said in (stored, state, stored, steered):
        bundle.step("r1", LetterReceived(member_id("r2"), [said]))
    repository = bundle.repositories["r1"]
    assert not repository.log.streams
    assert not repository.gossip.bundle.peers["r2"].heard
    assert bundle.told(GossipFacts, "r2"), "it is invited to the new topic"
    new = msgspec.structs.replace(state, version=REBORN)
    for said in (new, stored):
        bundle.step("r1", LetterReceived(member_id("r2"), [said]))
    assert repository.log.streams[9, 5].peer_stored["r2"].covers(1, 3)


def test_who_held_a_name_in_the_old_topic_does_not_hold_it_in_the_new_one() -> None:
    bundle = PaperBundle("r1", create=False)
    bundle.step("r1", LetterReceived(member_id("r2"), [GossipFacts(TOPIC, "r2", facts_of(REBORN, ENDED))]))
    registry = bundle.repositories["r1"].registry
    held = GossipFacts(TOPIC, "r2", (life(REBORN + 50),))
    old = GossipState(TOPIC, "r2", ready=True, held=(), facts=1, version=BORN)
    for said in (held, old, held):
        bundle.step("r1", LetterReceived(member_id("r2"), [said]))
        assert registry.life_of("publisher", "shop") == 0
    for said in (msgspec.structs.replace(old, version=REBORN), held):
        bundle.step("r1", LetterReceived(member_id("r2"), [said]))
    assert registry.life_of("publisher", "shop") == REBORN + 50


# ---- clients


def agree(bundle: PaperBundle) -> None:
    """Let r2 say that it is here, and has registered what r1 has."""
    facts = bundle.repositories["r1"].registry.digest
    state = GossipState(TOPIC, "r2", ready=True, held=(), facts=facts, version=REBORN)
    bundle.step("r1", LetterReceived(member_id("r2"), [state]))


@pytest.mark.parametrize("is_known", [True, False])
def test_a_letter_to_the_old_topic_is_not_stored_in_the_new_one(is_known: bool) -> None:
    bundle = PaperBundle("r1", create=False)
    order = PublisherOrder(TOPIC, "shop", 5, 1, 2, version=BORN)
    again = Retransmission(TOPIC, "shop", version=BORN)
    found = LetterReceived(member_id("r2"), [GossipFacts(TOPIC, "r2", (*facts_of(REBORN, ENDED), grant(REBORN + 1)))])
    if is_known:
        bundle.step("r1", found)
        agree(bundle)
        bundle.recover("publisher", "shop", "r1", attempt=6)
        agree(bundle)
    bundle.arrive(block(1, 2))
    bundle.say("publisher", "shop", order)
    bundle.say("publisher", "shop", again, blocks=[block(3, 2)])
    if not is_known:
        bundle.step("r1", found)
        agree(bundle)
        bundle.recover("publisher", "shop", "r1", attempt=6)
        agree(bundle)
    assert bundle.ledgers["r1"].numbers() == []
    assert bundle.told(RecoveryResponse, "shop")[-1].version == REBORN
    bundle.say("publisher", "shop", msgspec.structs.replace(order, version=REBORN))
    assert [number for _, number, _ in bundle.ledgers["r1"].numbers()] == [1]


def test_a_publisher_names_the_topic_that_it_means() -> None:
    publisher = ReliablePublisher("t", "me", Incarnation(3))
    publisher.step(0, Vouched("t", {"r": "keeper"}))
    publisher.step(0, LinkUp("alice"))
    repository, attempt = publisher_id("keeper", repository_name("r")), publisher.steering.attempt
    publisher.step(1, LetterReceived(repository, [ProbeAnswer("t", "r", attempt, True, ("r",))]))
    publisher.step(2, LetterReceived(repository, [RecoveryResponse("t", "r", attempt, 1, ("r",), version=REBORN)]))
    publisher.publish({}, b"1", 0)
    sent = publisher.step(3, TurnEnded())
    sent += publisher.step(4, LetterReceived(repository, [RepositoryNak("t", "r", 3, ((1, 1),))]))
    told = [event for effect in sent if isinstance(effect, SendLetter) for event in effect.events]
    assert [(type(event), event.version) for event in told if isinstance(event, PublisherOrder | Retransmission)] == [
        (PublisherOrder, REBORN),
        (Retransmission, REBORN),
    ]


def test_a_client_says_what_its_broker_knows_of_the_end_of_a_topic() -> None:
    publisher = ReliablePublisher(TOPIC, "shop", 5)  # type: ignore[arg-type]
    publisher.step(1, Vouched(TOPIC, {"r1": KEEPER}, ENDED))
    publisher.step(1, LinkUp("alice"))
    answer = ProbeAnswer(TOPIC, "r1", publisher.steering.attempt, True, ("r1",))
    asked = publisher.step(2, LetterReceived(publisher_id(KEEPER, repository_name("r1")), [answer]))
    asked += publisher.step(3, Vouched(TOPIC, {"r1": KEEPER}, ENDED + 50))
    posts = [effect for effect in asked if isinstance(effect, SendLetter)]
    told = [event.ended for post in posts for event in post.events if isinstance(event, Recovery)]
    assert told == [ENDED, ENDED + 50]
