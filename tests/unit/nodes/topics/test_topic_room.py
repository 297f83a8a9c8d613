"""Whether a repository is willing to manage one more topic."""

from typing import Any

import msgspec
import pytest

from stentor.model.control import Registration, TopicTask
from stentor.model.errors import Refusal, Refused
from stentor.model.reports.trace import kept_of
from stentor.model.trust.access import TOPIC, TopicTerms
from stentor.nodes.topics.managed_topic import ManagedTopic
from stentor.nodes.topics.topic_room import TopicRoom, owner_in
from stentor.policies.access import AccessRule
from stentor.protocols.delivery.repository.repository import TopicRepository
from stentor.protocols.delivery.settings import RepositorySettings


def room(owners: list[str], **most: Any) -> TopicRoom:
    """One that has topics t0, t1, … of these owners, of a thousand bytes each, and traces."""
    settings = msgspec.structs.replace(RepositorySettings(name="r1"), **most)
    topics = [*(f"t{place}" for place in range(len(owners))), kept_of("r1")]
    managed = {
        topic: ManagedTopic(TopicRepository(topic, settings), owner)
        for topic, owner in zip(topics, [*owners, "operator"], strict=True)
    }
    for topic in topics[:-1]:
        managed[topic].machine.state.size = 1000
    made = TopicRoom(settings, managed, {})
    made.operator = "operator"
    return made


def refusal(owners: list[str], owner: str, code: Refusal = Refusal.TOO_MANY, topic: str = "new", **most: Any) -> str:
    asked = room(owners, **most)
    with pytest.raises(Refused) as refused:
        asked.check(topic, owner)
    assert refused.value.code is code
    unwilling = asked.unwillingness(topic, owner)
    assert unwilling is not None
    assert (unwilling.code, unwilling.reason) == (code, refused.value.reason)
    return refused.value.reason


def test_one_owner_has_so_many_topics_and_others_have_theirs() -> None:
    taken = ["alice", "alice", "bob"]
    assert "reliable_topics_per_owner" in refusal(taken, "alice", topics_per_owner=2)
    room(taken, topics_per_owner=2).check("new", "bob")
    room(taken, topics_per_owner=2).check("new", "carol")


def test_whoever_runs_the_repository_has_as_many_as_it_takes_in_all() -> None:
    room(["operator"] * 8, topics_per_owner=2, topics=9).check("new", "operator")
    assert "reliable_topics in [limits]" in refusal(["operator"] * 9, "operator", topics_per_owner=2, topics=9)


def test_no_more_topics_than_ledgers_that_can_be_open() -> None:
    room(["alice"] * 3, ledgers=5).check("new", "bob")
    assert "ulimit -n" in refusal(["alice"] * 4, "bob", ledgers=5)  # one is left for traces
    assert room(["alice"] * 3, ledgers=5).has_ledger()
    assert not room(["alice"] * 4, ledgers=5).has_ledger()


@pytest.mark.req("RD-33")
def test_a_repository_takes_the_topics_that_it_accepts() -> None:
    accepts = ("orders/#", "news/+/sport")
    for topic in ("orders", "orders/eu/1", "news/x/sport"):
        room([], accepts=accepts).check(topic, "alice")
    for topic in ("order", "news/sport", "news/x/y/sport", "t"):
        reason = refusal([], "operator", Refusal.TOPIC, topic, accepts=accepts)
        assert reason == f"r1 accepts orders/#, news/+/sport only, and {topic} is none of these"


@pytest.mark.req("RD-33")
def test_a_repository_whose_disk_has_enough_takes_no_new_topics_and_goes_on_with_those_it_has() -> None:
    room(["alice"] * 3, most_bytes=3001).check("new", "bob")
    assert "has 3,000 bytes on its disk and takes new topics up to 3,000" in refusal(["a"] * 3, "bob", most_bytes=3000)
    assert room(["alice"] * 3, most_bytes=1, topics=1, accepts=("x",)).unwillingness("t1", "bob") is None


@pytest.mark.req("RD-33")
def test_a_repository_that_is_about_to_leave_takes_nothing() -> None:
    leaving = room([])
    leaving.is_retiring = True
    unwilling = leaving.unwillingness("new", "operator")
    assert unwilling is not None
    assert unwilling.code is Refusal.CLOSING
    assert leaving.unwillingness("", "anybody") is None, "it was asked about no topic"


def test_an_invitation_tells_whose_topic_it_is() -> None:
    terms = msgspec.msgpack.encode(TopicTerms("alice"))
    assert owner_in((("member/r1", 1, "x", b"1"), (TOPIC, 1, "x", terms))) == "alice"
    assert owner_in(((TOPIC, 1, "x", b"\xc1 no terms"),)) == ""
    assert owner_in(()) == ""


QUOTES = AccessRule(principals=("alice",), topics=("quotes/#",), publish=True)


@pytest.mark.parametrize(
    ("creator", "topic", "may"),
    [
        ("alice", "quotes/ibm", True),
        ("mallory", "quotes/ibm", False),
        ("mallory", "orders", True),
        ("operator", "quotes/ibm", True),
        ("mallory", "$mail", False),
    ],
)
def test_what_access_lines_give_to_some_is_not_created_by_others(creator: str, topic: str, may: bool) -> None:
    asked = TopicRoom(RepositorySettings(name="r1"), {}, {}, (QUOTES,))
    asked.operator = "operator"
    event = Registration(topic, creator, 1, TopicTask.CREATE, principal=creator, repositories=("r1",), born=1)
    if may:
        asked.check_creation(event, now=1)
        return
    with pytest.raises(Refused) as refused:
        asked.check_creation(event, now=1)
    assert refused.value.code is Refusal.NOT_AUTHORISED
    assert "operators" in refused.value.reason
    assert "token" not in refused.value.reason
