"""A topic has many clients: what concerns one of them does not name all the others."""

import msgspec
from tests.paper.bundle import KEEPER, TOPIC, PaperBundle

from stentor.model.communication import repository_name
from stentor.model.control import FactsRequest, GossipFacts, GossipState, RegistrationReceipt, TopicTask
from stentor.model.ids import publisher_id
from stentor.model.reports.report import TopicReport
from stentor.protocols.delivery.transport import LetterReceived


def grant(bundle: PaperBundle, *names: str, to: str = "r1") -> None:
    for name in names:
        bundle.owner(to, TopicTask.GRANT, role="subscriber", name=name)


def reports(bundle: PaperBundle) -> list[TopicReport]:
    receipts = [event for _, event, _ in bundle.mail if isinstance(event, RegistrationReceipt)]
    return [msgspec.json.decode(receipt.report, type=TopicReport) for receipt in receipts]


def test_a_receipt_of_a_grant_tells_of_that_one_alone() -> None:
    bundle = PaperBundle("r1", "r2")
    grant(bundle, *(f"reader{number}" for number in range(50)))
    bundle.mail.clear()
    grant(bundle, "late")
    bundle.pass_time(1000)
    (report,) = reports(bundle)
    assert list(report.subscribers) == ["late"]
    assert report.publishers == {}
    assert report.members == ("r1", "r2")


def test_a_question_about_the_topic_is_answered_with_all_clients() -> None:
    bundle = PaperBundle("r1")
    bundle.mail.clear()
    bundle.owner("r1", TopicTask.SHOW)
    (report,) = reports(bundle)
    assert (list(report.subscribers), list(report.publishers)) == (["audit", "billing"], ["shop"])


def test_who_missed_a_registration_is_told_that_one_and_nobody_lists_all() -> None:
    bundle = PaperBundle("r1", "r2")
    grant(bundle, *(f"reader{number}" for number in range(50)))
    bundle.pass_time(2000)
    bundle.deaf.add("r2")
    grant(bundle, "late")
    bundle.deaf.clear()
    bundle.said.clear()
    bundle.pass_time(2000)
    assert bundle.repositories["r2"].registry.granted("subscriber", "late") is not None
    asked = [event for _, event in bundle.said if isinstance(event, FactsRequest)]
    told = [fact[0] for _, event in bundle.said if isinstance(event, GossipFacts) for fact in event.facts]
    assert asked
    assert all(not request.versions and request.digest for request in asked)
    assert not [key for key in told if "reader" in key]


def test_two_that_have_registered_something_apart_compare_all() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.pass_time(2000)
    bundle.deaf |= {"r1", "r2"}
    grant(bundle, "east", to="r1")
    grant(bundle, "west", to="r2")
    bundle.deaf.clear()
    bundle.pass_time(4000)
    for repository in bundle.repositories.values():
        assert {"east", "west"} <= repository.registry.grants("subscriber").keys()


def test_versions_are_compared_also_if_one_that_cannot_tell_goes_on_registering() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.pass_time(2000)
    bundle.said.clear()
    for digest in (1, 2, 3):
        state = GossipState(TOPIC, "r2", ready=True, held=(), facts=digest)
        bundle.step("r1", LetterReceived(publisher_id(KEEPER, repository_name("r2")), [state]))
    asked = [event for _, event in bundle.said if isinstance(event, FactsRequest)]
    assert [bool(request.versions) for request in asked] == [False, True, False]


def test_a_long_history_is_compared_by_versions() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.pass_time(2000)
    bundle.deaf.add("r2")
    grant(bundle, *(f"reader{number}" for number in range(1100)))
    bundle.deaf.clear()
    bundle.pass_time(4000)
    assert len(bundle.repositories["r2"].registry.grants("subscriber")) == 1102
