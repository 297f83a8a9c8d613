"""How many topics a repository takes, in all and of one owner."""

import msgspec
import pytest

from stentor.model.access import TOPIC, TopicTerms
from stentor.model.errors import Refusal, Refused
from stentor.nodes.topic_room import TopicRoom, owner_in
from stentor.protocols.delivery.settings import RepositorySettings


def room(**most: int) -> TopicRoom:
    made = TopicRoom(msgspec.structs.replace(RepositorySettings(name="r1"), **most))
    made.operator = "operator"
    return made


def refusal(owners: list[str], owner: str, **most: int) -> str:
    with pytest.raises(Refused) as refused:
        room(**most).check(owners, owner)
    assert refused.value.code is Refusal.TOO_MANY
    return refused.value.reason


def test_one_owner_has_so_many_topics_and_others_have_theirs() -> None:
    taken = ["alice", "alice", "bob"]
    assert "reliable_topics_per_owner" in refusal(taken, "alice", topics_per_owner=2)
    room(topics_per_owner=2).check(taken, "bob")
    room(topics_per_owner=2).check(taken, "carol")


def test_whoever_runs_the_repository_has_as_many_as_it_takes_in_all() -> None:
    room(topics_per_owner=2, topics=9).check(["operator"] * 8, "operator")
    assert "reliable_topics in [limits]" in refusal(["operator"] * 9, "operator", topics_per_owner=2, topics=9)


def test_no_more_topics_than_ledgers_that_can_be_open() -> None:
    room(ledgers=5).check(["alice"] * 3, "bob")
    assert "ulimit -n" in refusal(["alice"] * 4, "bob", ledgers=5)  # one is left for traces
    assert room(ledgers=5).has_ledger_for(4)
    assert not room(ledgers=5).has_ledger_for(5)


def test_an_invitation_tells_whose_topic_it_is() -> None:
    terms = msgspec.msgpack.encode(TopicTerms("alice"))
    assert owner_in((("member/r1", 1, "x", b"1"), (TOPIC, 1, "x", terms))) == "alice"
    assert owner_in(((TOPIC, 1, "x", b"\xc1 no terms"),)) == ""
    assert owner_in(()) == ""
