"""Charters: whoever heard the same facts in any order knows the same, and what cannot be changes nothing."""

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stentor.model.errors import FrameError
from stentor.model.trust.access import Grant, Membership, SharedFact, TopicTerms
from stentor.model.trust.charter import Charter, check_facts, named_member
from stentor.model.trust.facts import PORTION, portions

_encode = msgspec.msgpack.encode


def topic(version: int, owner: str = "olga", *, is_open: bool = False) -> SharedFact:
    return "topic", version, "r1", _encode(TopicTerms(owner, open=is_open))


def tombstone(version: int, writer: str = "r1") -> SharedFact:
    return "topic", version, writer, b""


def member(version: int, name: str, principal: str | None) -> SharedFact:
    value = b"" if principal is None else _encode(Membership(principal=principal))
    return f"member/{name}", version, "r1", value


def grant(version: int, role: str, name: str, holder: str | None) -> SharedFact:
    return f"grant/{role}/{name}", version, "r1", b"" if holder is None else _encode(Grant(holder))


def charter(*facts: SharedFact) -> Charter:
    made = Charter()
    made.learn(facts)
    return made


def told(made: Charter) -> list[SharedFact]:
    return sorted(made.facts())


def test_a_charter_says_what_its_facts_mean() -> None:
    made = charter(
        topic(1, is_open=True),
        member(1, "r1", "node-1"),
        member(1, "r2", ""),
        grant(2, "publisher", "shop", "alice"),
        grant(2, "subscriber", "shop", ""),
        grant(2, "subscriber", "a/b", "bob"),
    )
    assert (made.owner, made.open, made.is_live) == ("olga", True, True)
    assert made.members == {"r1": "node-1", "r2": ""}
    assert made.publishers == {"shop": "alice"}
    assert made.subscribers == {"shop": "", "a/b": "bob"}


def test_the_newest_fact_counts_and_only_news_is_told() -> None:
    made = charter(topic(1), grant(5, "publisher", "shop", "alice"))
    assert made.learn([grant(4, "publisher", "shop", "mallory"), grant(5, "publisher", "shop", "alice")]) == []
    assert made.learn([grant(6, "publisher", "shop", None), topic(1)]) == ["grant/publisher/shop"]
    assert made.publishers == {}


def test_a_tombstone_ends_what_is_older_and_stays_when_the_topic_is_made_again() -> None:
    made = charter(topic(10), member(10, "r1", "p"), grant(11, "subscriber", "bob", "bob"))
    assert made.learn([tombstone(12)]) == ["topic"]
    assert (made.is_live, made.is_over, made.members, made.subscribers) == (False, True, {}, {})
    assert made.learn([tombstone(12, "r2"), grant(12, "subscriber", "bob", "bob")]) == []
    assert sorted(made.learn([topic(20), member(20, "r2", "q")])) == ["member/r2", "topic"]
    assert made.learn([grant(11, "subscriber", "bob", "bob"), member(10, "r1", "p")]) == []
    assert (made.members, made.subscribers) == ({"r2": "q"}, {})
    assert made.facts(["topic"]) == [("topic", 12, "", b""), topic(20)]


FACTS = st.one_of(
    st.builds(topic, st.integers(1, 8), st.sampled_from(["olga", "otto"])),
    st.builds(tombstone, st.integers(1, 8), st.sampled_from(["r1", "r2"])),
    st.builds(member, st.integers(1, 8), st.sampled_from(["r1", "r2"]), st.sampled_from([None, "", "p"])),
    st.builds(grant, st.integers(1, 8), st.just("publisher"), st.just("shop"), st.sampled_from([None, "", "a"])),
)


@given(st.lists(FACTS, max_size=12), st.randoms(use_true_random=False))
def test_order_repetition_and_detours_make_no_difference(facts: list[SharedFact], random: Random) -> None:
    one = charter(*facts)
    shuffled = facts * 2
    random.shuffle(shuffled)
    half = len(shuffled) // 2
    other = charter(*shuffled[:half])
    other.learn(charter(*shuffled[half:]).facts())  # as somebody else passes it on
    assert told(one) == told(other)
    assert one.digest == other.digest
    assert (one.owner, one.members, one.publishers, one.is_live) == (
        other.owner,
        other.members,
        other.publishers,
        other.is_live,
    )
    assert charter(*one.facts()).digest == one.digest


@given(st.lists(FACTS, max_size=8), st.lists(FACTS, max_size=8))
def test_charters_that_differ_have_other_digests(some: list[SharedFact], others: list[SharedFact]) -> None:
    one, other = charter(*some), charter(*others)
    assert (told(one) == told(other)) == (one.digest == other.digest)


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("a/#", topic(1)),
        ("", topic(1)),
        ("a\0", topic(1)),
        ("t", ("topic", 1, "r1", b"\xc1")),
        ("t", ("topic", 0, "r1", b"")),
        ("t", ("topic", 1 << 63, "r1", b"")),
        ("t", ("topic", 1, "w" * 2000, b"")),
        ("t", ("topic", 1, "r1", bytes(5000))),
        ("t", ("member/", 1, "r1", b"")),
        ("t", ("member/a\n", 1, "r1", b"")),
        ("t", ("member/a", 1, "r1", _encode(7))),
        ("t", ("grant/owner/a", 1, "r1", b"")),
        ("t", ("grant/publisher/" + 256 * "x", 1, "r1", b"")),
        ("t", ("publisher/00", 1, "r1", b"")),
        ("t", ("topical", 1, "r1", b"")),
    ],
)
def test_facts_that_cannot_be_are_refused(name: str, fact: SharedFact) -> None:
    with pytest.raises(FrameError):
        check_facts(name, [topic(1), fact])


def test_facts_are_told_in_portions_that_fit_with_members_first() -> None:
    facts = [grant(1, "subscriber", f"subscriber-{number:06}", "") for number in range(10_000)]
    facts += [member(1, "r1", "p"), topic(1), tombstone(1)]
    parts = list(portions(facts))
    assert len(parts) > 20
    assert sorted(fact for part in parts for fact in part) == sorted(facts)
    assert [fact[0] for fact in parts[0][:3]] == ["topic", "topic", "member/r1"]
    assert named_member(parts[0], "r1") == "p"
    assert all(len(_encode(part)) <= PORTION for part in parts)
