"""Only members of the bundle are believed: by publishers, subscribers, readers and other repositories."""

import msgspec
import pytest
from tests.paper.bundle import KEEPER, TOPIC, PaperBundle
from tests.unit.protocols.delivery.script import frame

from stentor.machine import Effect
from stentor.model.communication import bundle_of, repository_name
from stentor.model.control import (
    GossipAck,
    GossipFacts,
    GossipState,
    GossipVoid,
    Persistent,
    Probe,
    ProbeAnswer,
    RecoveryResponse,
    RepositoryAck,
    Retransmission,
    SequenceRun,
    StreamRanges,
)
from stentor.model.ids import Incarnation, publisher_id
from stentor.model.stored.position import Position
from stentor.model.stored.reading import Page, PageRequest, Stock, StockRequest
from stentor.model.stored.span import Spans
from stentor.model.trust.access import MEMBER, Membership, SharedFact
from stentor.protocols.delivery.authentication import FORMER, BundleMembers, introduced, is_repository
from stentor.protocols.delivery.endpoint_api import (
    ConfirmDurable,
    DurabilityAwaited,
    EventsRequested,
    Release,
    ReportSteering,
    TurnEnded,
)
from stentor.protocols.delivery.publisher.publisher import ReliablePublisher
from stentor.protocols.delivery.stored.read_client import (
    AvailabilityRequested,
    DeliverPage,
    PagesRequested,
    ReportAvailable,
    StoredReadClient,
)
from stentor.protocols.delivery.subscriber.subscriber import ReliableSubscriber
from stentor.protocols.delivery.transport import LetterReceived, LinkUp, Publish, SendLetter, Vouched

pytestmark = pytest.mark.req("RD-31")

MEMBERS = Vouched("t", {"r": "keeper"})
R = publisher_id("keeper", repository_name("r"))
# Whoever has a certificate has such an id: of its principal, and any name that brokers let it use.
MALLORY = publisher_id("mallory", "mallory")
IMPOSTORS = [
    pytest.param(MALLORY, "r", id="in the name of a member"),
    pytest.param(publisher_id("mallory", repository_name("r")), "r", id="a node of another principal"),
    pytest.param(publisher_id("keeper", repository_name("x")), "x", id="a repository that is no member"),
    pytest.param(publisher_id("keeper", "r"), "r", id="the principal of a member under another name"),
]


def test_an_id_proves_the_name_and_the_principal_of_a_repository() -> None:
    assert is_repository(R, "r", "keeper")
    assert not is_repository(R, "r", "mallory")
    assert not is_repository(R, "x", "keeper")
    assert not is_repository(publisher_id("", repository_name("r")), "r", ""), "nobody's principal is empty"


def test_facts_introduce_the_members_that_they_name_and_no_others() -> None:
    known = introduced((fact(MEMBER + "r", "keeper"), fact(FORMER + "q", "keeper"), ("member/s", 1, "r", b"\xc1")))
    assert known.wrote(R, "r")
    assert known.wrote(publisher_id("keeper", repository_name("q")), "q")
    assert not known.wrote(publisher_id("keeper", repository_name("s")), "s")
    assert not BundleMembers().wrote(R, "r")


def fact(key: str, principal: str, version: int = 1) -> SharedFact:
    return key, version, "r", msgspec.msgpack.encode(Membership(principal=principal))


# ---- ends


@pytest.mark.parametrize(("sender", "name"), IMPOSTORS)
def test_a_publisher_is_not_told_by_a_stranger_that_its_event_is_stored(sender: int, name: str) -> None:
    publisher = ReliablePublisher("t", "shop", Incarnation(3))
    publisher.step(0, MEMBERS)
    publisher.step(0, LinkUp("alice"))
    attempt = publisher.steering.attempt
    publisher.publish({}, b"an order", 5)
    effects = publisher.step(0, TurnEnded())
    effects += publisher.step(0, DurabilityAwaited(1))
    for forged in (
        ProbeAnswer("t", name, attempt, True, (name,), 0),
        RecoveryResponse("t", name, attempt, 1, (name,)),
        RepositoryAck("t", name, 3, 1, (), (1,)),
    ):
        effects += publisher.step(1, LetterReceived(sender, [forged]))
    assert not [each for each in effects if isinstance(each, ConfirmDurable | ReportSteering | Publish)]
    honest = [
        publisher.step(2, LetterReceived(R, [event]))
        for event in (
            ProbeAnswer("t", "r", attempt, True, ("r",)),
            RecoveryResponse("t", "r", attempt, 1, ("r",)),
            RepositoryAck("t", "r", 3, 1, (), (1,)),
        )
    ]
    assert ConfirmDurable(1, 1) in honest[-1]


@pytest.mark.parametrize(("sender", "name"), IMPOSTORS)
def test_a_subscriber_is_not_handed_what_a_stranger_forged(sender: int, name: str) -> None:
    subscriber = ReliableSubscriber("t", "billing", Incarnation(3))
    subscriber.step(0, MEMBERS)
    subscriber.step(0, LinkUp("alice"))
    subscriber.step(0, EventsRequested())
    assert released(subscriber, sender, name) == []
    assert released(subscriber, R, "r") == [b"9.1.1"]


def released(subscriber: ReliableSubscriber, sender: int, name: str) -> list[bytes]:
    """What it hands to its application when somebody steers it and tells of an event."""
    attempt = subscriber.steering.attempt
    told = (
        ProbeAnswer("t", name, attempt, True, (name,), 0),
        RecoveryResponse("t", name, attempt, 1, (name,)),
        Persistent("t", name, attempt, 0, 1, (SequenceRun(1, 1, 9, 1, 1),)),
    )
    effects: list[Effect] = []
    for event in told:
        effects += subscriber.step(1, LetterReceived(sender, [event]))
    effects += subscriber.step(1, LetterReceived(sender, [Retransmission("t", name)], [frame(9, 1, 1)]))
    portions = [portion for each in effects if isinstance(each, Release) for portion in each.portions]
    return [body for portion in portions for body in portion.block.bodies()]


def test_nobody_is_believed_before_the_broker_has_said_who_the_members_are() -> None:
    publisher = ReliablePublisher("t", "shop", Incarnation(3))
    publisher.step(0, LinkUp("alice"))
    answer = LetterReceived(R, [ProbeAnswer("t", "r", publisher.steering.attempt, True, ("r",))])
    assert publisher.step(1, answer) == []
    asked = [each for each in publisher.step(2, MEMBERS) if isinstance(each, SendLetter)]
    assert [each.to for each in asked] == [bundle_of("t")], "who answered before is asked again, at once"
    assert isinstance(asked[0].events[0], Probe)
    assert [each.to for each in publisher.step(3, answer) if isinstance(each, SendLetter)] == ["$to/repository:r"]


def test_an_end_leaves_a_repository_that_is_no_member_any_more() -> None:
    publisher = ReliablePublisher("t", "shop", Incarnation(3))
    publisher.step(0, Vouched("t", {"r": "keeper", "q": "keeper"}))
    publisher.step(0, LinkUp("alice"))
    attempt = publisher.steering.attempt
    publisher.step(1, LetterReceived(R, [ProbeAnswer("t", "r", attempt, True, ("r",))]))
    publisher.step(1, LetterReceived(R, [RecoveryResponse("t", "r", attempt, 1, ("r",))]))
    assert publisher.steering.steered
    publisher.step(2, Vouched("t", {"q": "keeper"}))
    assert not publisher.steering.steered
    assert publisher.steering.attempt == attempt + 1


# ---- readers


@pytest.mark.parametrize(("sender", "name"), IMPOSTORS)
def test_a_reader_is_answered_by_members_only(sender: int, name: str) -> None:
    reader = StoredReadClient("me", "reports")
    reader.step(0, LinkUp("alice", "b1"))
    reader.step(0, MEMBERS)
    reader.step(0, AvailabilityRequested(1, StockRequest("t", "", 0, "", "", "beginning")))
    stock = Stock("t", name, 1, members=(name,), parts=((StreamRanges(9, 1, 0, ((1, 1),)),),))
    assert not [each for each in reader.step(1, LetterReceived(sender, [stock])) if isinstance(each, ReportAvailable)]
    told = reader.step(1, LetterReceived(R, [msgspec.structs.replace(stock, sender="r")]))
    assert [each.available.repository for each in told if isinstance(each, ReportAvailable)] == ["r"]

    wanted = Position({(9, 1): Spans([(1, 1)])})
    effects = reader.step(2, PagesRequested(token=2, topic="t", wanted=wanted, where="", repositories=["r"]))
    (request,) = [each.events[0] for each in effects if isinstance(each, SendLetter)]
    assert isinstance(request, PageRequest)
    page = Page("t", name, request.token, bases=(0,), covered=request.wanted)
    assert not [
        each
        for each in reader.step(3, LetterReceived(sender, [page], [frame(9, 1, 1)]))
        if isinstance(each, DeliverPage)
    ]
    given = reader.step(3, LetterReceived(R, [msgspec.structs.replace(page, sender="r")], [frame(9, 1, 1)]))
    assert [each.token for each in given if isinstance(each, DeliverPage)] == [2]


def test_a_member_of_another_bundle_does_not_answer_for_a_topic() -> None:
    reader = StoredReadClient("me", "reports")
    reader.step(0, LinkUp("alice", "b1"))
    reader.step(0, MEMBERS)
    reader.step(0, Vouched("u", {"q": "keeper"}))
    reader.step(0, AvailabilityRequested(1, StockRequest("t", "", 0, "", "", "beginning")))
    other = publisher_id("keeper", repository_name("q"))
    for topic in ("t", "u"):
        told = reader.step(1, LetterReceived(other, [Stock(topic, "q", 1, members=("q",))]))
        assert not [each for each in told if isinstance(each, ReportAvailable)]


# ---- repositories


def test_a_stranger_tells_repositories_nothing() -> None:
    bundle = PaperBundle("r1", "r2")
    repository = bundle.repositories["r1"]
    versions, heard = repository.registry.versions(), repository.gossip.bundle.peers["r2"].heard
    bundle.now += 1
    forged = (
        GossipState(TOPIC, "r2", True, (StreamRanges(9, 1, 100, ()),), 1, principal="mallory"),
        GossipAck(TOPIC, "r2", (SequenceRun(1, 1, 9, 1, 1),), (7,)),
        GossipVoid(TOPIC, "r2", (StreamRanges(9, 1, 0, ((1, 5),)),)),
        GossipFacts(TOPIC, "r2", (("member/r2", 1 << 40, "r2", b""),), "mallory"),
        GossipFacts(TOPIC, "r2", (fact("member/r2", "mallory", 1 << 40),), "mallory"),
    )
    for sender in (MALLORY, publisher_id("mallory", repository_name("r2"))):
        bundle.step("r1", LetterReceived(sender, forged))
    assert repository.registry.versions() == versions
    assert not repository.log.streams
    assert repository.gossip.bundle.peers["r2"].heard == heard


def test_a_repository_that_left_is_believed_until_others_have_what_it_has_also_after_they_begin_again() -> None:
    bundle = PaperBundle("r1", "r2")
    registry = bundle.repositories["r1"].registry
    registry.merge(tuple(registry.shared(each.key) for each in registry.remove_member("r2")))
    again = PaperBundle("r1", create=False).repositories["r1"].registry
    again.merge(registry.newer_than({}))
    assert again.members == ("r1",)
    assert again.believed.wrote(publisher_id(KEEPER, repository_name("r2")), "r2")
    assert not again.believed.wrote(MALLORY, "r2")
