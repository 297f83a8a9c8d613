"""Members' principals: who writes them down, and who may change them."""

from tests.paper.bundle import KEEPER, TOPIC, PaperBundle

from stentor.machine import Report
from stentor.model.communication import repository_name
from stentor.model.control import (
    GossipState,
    RecoveryResponse,
    Registration,
    RegistrationReceipt,
    RepositoryAck,
    TopicTask,
)
from stentor.model.errors import Refusal
from stentor.model.ids import publisher_id
from stentor.protocols.delivery.transport import LetterReceived, LinkUp

OWNER = publisher_id("", "owner")


def ask(bundle: PaperBundle, repository: str, task: TopicTask, **what: object) -> None:
    event = Registration(TOPIC, "owner", token=1, task=task, principal="", **what)  # type: ignore[arg-type]
    bundle.step(repository, LetterReceived(OWNER, [event], requester="owner"))


def older() -> PaperBundle:
    """Two repositories of a topic that was created before members had principals, and what was granted then."""
    bundle = PaperBundle("r1", "r2", create=False)
    for name in ("r1", "r2"):
        repository = bundle.repositories[name]
        repository.gossip.principal = ""
        ask(bundle, name, TopicTask.CREATE, repositories=("r1", "r2"))
        ask(bundle, name, TopicTask.GRANT, role="publisher", name="shop")
        ask(bundle, name, TopicTask.GRANT, role="subscriber", name="billing", holder="alice")
    assert principals(bundle) == [{"r1": "", "r2": ""}] * 2
    return bundle


def principals(bundle: PaperBundle) -> list[dict[str, str]]:
    return [repository.registry.believed.principals for repository in bundle.repositories.values()]


def warnings(bundle: PaperBundle) -> list[Report]:
    return [report for report in bundle.reports if report.level == "warning"]


def test_a_repository_of_an_older_topic_writes_down_its_own_principal() -> None:
    bundle = older()
    for name in ("r1", "r2"):
        bundle.step(name, LinkUp(KEEPER))
    bundle.pass_time(6000)
    assert principals(bundle) == [{"r1": KEEPER, "r2": KEEPER}] * 2
    assert all(repository.gossip.ready for repository in bundle.repositories.values())


def test_it_reports_once_which_names_of_an_older_topic_anyone_may_use() -> None:
    bundle = older()
    for name in ("r1", "r2"):
        bundle.step(name, LinkUp(KEEPER))
    bundle.pass_time(2000)
    told = [(report.what, report.details.get("names")) for report in warnings(bundle)]
    assert told == [("anyone may use these names of publishers: grant them anew", "shop")] * 2
    bundle.reports.clear()
    for name in ("r1", "r2"):
        bundle.kill(name)
        bundle.start(name)
    bundle.pass_time(2000)
    assert warnings(bundle) == []


def test_whoever_takes_the_name_of_a_member_later_does_not_become_it() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.kill("r2")
    state = GossipState(TOPIC, "r2", ready=True, held=(), facts=0, principal="other")
    bundle.step("r1", LetterReceived(publisher_id("other", repository_name("r2")), [state]))
    assert principals(bundle) == [{"r1": KEEPER, "r2": KEEPER}]


def test_a_member_under_another_principal_says_what_its_owner_must_do() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.clear()
    for _ in range(2):
        bundle.step("r2", LinkUp("other"))
    (report,) = warnings(bundle)
    assert "`stentor topic bundle orders add r2`" in report.what
    ask(bundle, "r1", TopicTask.ADD_REPOSITORY, repositories=("r2",), principals=("other",))
    assert principals(bundle)[0] == {"r1": KEEPER, "r2": "other"}


def test_only_the_owner_changes_the_principal_of_a_member() -> None:
    bundle = PaperBundle("r1", "r2")
    event = Registration(
        TOPIC,
        "mallory",
        token=1,
        task=TopicTask.ADD_REPOSITORY,
        principal="mallory",
        repositories=("r2",),
        principals=("mallory",),
    )
    bundle.step("r1", LetterReceived(publisher_id("mallory", "mallory"), [event], requester="mallory"))
    assert [receipt.code for receipt in bundle.told(RegistrationReceipt, "mallory")] == [Refusal.NOT_AUTHORISED]
    assert principals(bundle)[0] == {"r1": KEEPER, "r2": KEEPER}


def test_principals_that_do_not_belong_to_the_repositories_are_refused() -> None:
    bundle = PaperBundle("r1", create=False)
    ask(bundle, "r1", TopicTask.CREATE, repositories=("r1",), principals=("keeper", "another"))
    assert [receipt.code for receipt in bundle.told(RegistrationReceipt)] == [Refusal.PROTOCOL]
    assert not bundle.repositories["r1"].registry.known


def test_a_topic_that_is_created_again_is_newer_than_all_that_was_known_of_it() -> None:
    bundle = PaperBundle("r1", create=False)
    ask(bundle, "r1", TopicTask.CREATE, repositories=("r1",), principals=(KEEPER,), born=1_000_000)
    for _ in range(3):
        ask(bundle, "r1", TopicTask.GRANT, role="publisher", name="shop")
    registry = bundle.repositories["r1"].registry
    assert registry.versions()["grant/publisher/shop"][0] == 1_000_003, "it counts on from the topic's version"
    ask(bundle, "r1", TopicTask.DELETE)
    ((key, version, _, value),) = registry.access()
    assert (key, value) == ("topic", b"")
    assert version > 1_000_003, "it ends all that is known of the topic"


def test_a_repository_that_is_added_back_while_it_leaves_serves_again() -> None:
    bundle = PaperBundle("r1", "r2", "r3")
    bundle.recover("publisher", "shop", "r1")
    bundle.publish(1, 3)
    bundle.lazy |= {"r1", "r2"}  # so that r3 cannot hand over what it has
    bundle.publish(4, 1)
    bundle.owner("r3", TopicTask.REMOVE_REPOSITORY, repositories=("r3",))
    bundle.pass_time(1000)
    leaving = bundle.repositories["r3"]
    assert leaving.gossip.leaving
    bundle.owner("r3", TopicTask.ADD_REPOSITORY, repositories=("r3",))
    bundle.lazy.clear()
    for name in ("r1", "r2"):
        bundle.write(name)
    bundle.pass_time(2000)
    assert leaving.gossip.ready
    assert not leaving.is_gone
    bundle.clear()
    bundle.recover("publisher", "shop", "r3", attempt=2)
    assert [response.sender for response in bundle.told(RecoveryResponse, "shop")] == ["r3"]
    bundle.publish(5, 1)
    assert bundle.told(RepositoryAck, "shop")[-1].copies[2] == 5, "it counts as a copy"


def test_a_repository_does_not_leave_before_others_know_what_subscribers_acknowledged() -> None:
    bundle = PaperBundle("r1", "r2", copies=1)
    bundle.recover("publisher", "shop", "r1")
    bundle.kill("r2")
    bundle.pass_time(15_000)
    bundle.recover("subscriber", "billing", "r1", attempt=2)
    bundle.pass_time(1000)
    bundle.publish(1, 4, "r1")
    bundle.acknowledge("billing", "r1", (1, bundle.repositories["r1"].log.next - 1))
    bundle.start("r2")  # it hears what billing acknowledged before it has heard of billing
    bundle.owner("r2", TopicTask.REMOVE_REPOSITORY, repositories=("r1",))
    for _ in range(100):
        bundle.pass_time(50)
        if bundle.repositories["r1"].is_gone:
            break
    assert bundle.repositories["r1"].is_gone
    (held,) = bundle.repositories["r2"].table.destinations["billing"].reached()
    assert held.floor == 4
